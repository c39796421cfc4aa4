//! A thousand connections whose data is not read leave the others their rate. They cannot occupy all of the
//! memory that the connections of a stack share.

use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_sim::{Options, Report, ResolveError, Scenario, run};

/// The number of connections that behave well.
const HONEST: usize = 10;
/// The number of bytes that each of them carries: half a second's worth of its share of the link.
const BYTES: u64 = 1 << 20;

fn resolve(name: &str, settings: &[String]) -> Result<Arc<dyn Program>, ResolveError> {
    Ok(resolve_with_on(Some(Engine::Native), name, settings)?)
}

/// Ten honest clients of a server, and others; `buffer` is the receive buffer that the others' host offers.
fn scenario(buffer: u64, others: &str, honest: &str) -> Scenario {
    let text = format!(
        "program = 'tcp'\nduration = '40s'\nidle_packets = 0\n\
         host = [{{ name = 'others', buffer = '256KiB', params = {{ RCV_BUF = {buffer} }} }}, {{ name = 'server' }}, {{ name = 'honest' }}]\n\
         [[link]]\nbetween = ['others', 'server']\nboth = {{ rate = '1Gbit/s', delay = '1ms' }}\n\
         [[link]]\nbetween = ['honest', 'server']\nboth = {{ rate = '100Mbit/s', delay = '10ms' }}\n\
         [[flow]]\nfrom = 'honest'\nto = 'server'\nat = '20s'\ncount = {HONEST}\nport = 80\nbulk = {{ {honest} = {BYTES} }}\n\
         {others}"
    );
    Scenario::parse(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

fn go(scenario: &Scenario) -> Report {
    run(scenario, &resolve, Options::default()).expect("it runs")
}

/// Returns the duration of the slowest honest connection, in seconds.
fn slowest(report: &Report) -> f64 {
    let honest = &report.flows[..HONEST];
    assert!(honest.iter().all(|flow| flow.ok), "{:?}", report.failures.first());
    let took = |flow: &hawser_sim::report::FlowReport| {
        flow.forward
            .seconds
            .into_iter()
            .chain(flow.backward.seconds)
            .fold(0.0, f64::max)
    };
    honest.iter().map(took).fold(0.0, f64::max)
}

fn keep_their_rate(buffer: u64, count: usize, bulk: &str, honest: &str) {
    let others = format!(
        "[[flow]]\nfrom = 'others'\nto = 'server'\ncount = {count}\nspacing = '10ms'\nport = 1000\n\
         close = 'never'\nread_rate = '8bit/s'\nbulk = {{ {bulk} = '8MiB' }}\n"
    );
    let alone = slowest(&go(&scenario(buffer, "", honest)));
    let beside = slowest(&go(&scenario(buffer, &others, honest)));
    println!("{count} that nobody reads ({bulk}): {beside:.3} s, alone {alone:.3} s");
    assert!(
        alone >= 0.9 * beside,
        "{beside} s beside {count} that nobody reads, {alone} s alone"
    );
}

#[test]
fn clients_that_do_not_read_leave_others_their_rate() {
    keep_their_rate(65_536, 1000, "back", "back");
}

#[test]
fn unread_request_bodies_leave_others_their_rate() {
    keep_their_rate(65_536, 700, "bytes", "bytes");
}
