//! Hosts that go down, reused ports, readers that stop, and bounds on costs. The tests cover their form in
//! scenarios, and the reports when a program fails under them.

use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_sim::{Options, Report, ResolveError, Scenario, run};

fn resolve(name: &str, settings: &[String]) -> Result<Arc<dyn Program>, ResolveError> {
    Ok(resolve_with_on(Some(Engine::Interp), name, settings)?)
}

/// Runs two hosts, 10 ms and 1 Mbit/s apart, with the rest of the scenario as given.
fn go(program: &str, rest: &str) -> Report {
    let text = format!(
        "program = '{program}'\nduration = '10min'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
         link = [{{ between = ['a', 'b'], both = {{ rate = '1Mbit/s', delay = '10ms' }} }}]\n{rest}"
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    run(&scenario, &resolve, Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn example(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

const FALL: &str = "[[at]]\ntime = '2s'\nhost = 'b'\nstate = 'down'\n";

#[test]
fn a_restarted_host_is_empty_and_accepts_a_new_connection() {
    for program in ["selective-repeat", "tcp"] {
        let flow = "linger = '5min'\nforget = '5min'\n[[flow]]\nfrom = 'a'\nto = 'b'\nagain = 1\n\
                    send_buffer = '32KiB'\nbulk = { bytes = '1MiB' }\n";
        let report = go(
            program,
            &format!("{flow}{FALL}[[at]]\ntime = '3s'\nhost = 'b'\nstate = 'up'\n"),
        );
        assert!(report.ok, "{program}: {report}");
        let bytes: Vec<u64> = report.flows.iter().map(|flow| flow.forward.bytes).collect();
        // In two seconds minus the opening, 1 Mbit/s carries at most 250,000 bytes.
        assert!(bytes[0] > 0 && bytes[0] < 250_000, "{program}: {bytes:?}");
        assert_eq!(bytes[1], 1 << 20, "{program}");
    }
}

/// Stop-and-wait repeats its packet forever.
#[test]
fn a_sender_must_fail_when_its_peer_is_gone() {
    let flow = "[[flow]]\nfrom = 'a'\nto = 'b'\nsend_buffer = '32KiB'\nbulk = { bytes = '1MiB' }\n";
    let report = go(&example("stop-and-wait.mtp"), &format!("{flow}{FALL}"));
    let message = report.failures.join("\n");
    assert!(
        message.contains("client: its peer is gone, but it has not failed"),
        "{message}"
    );
    assert!(go("selective-repeat", &format!("{flow}{FALL}")).ok);
}

/// The listener of the other host accepts every connection of a reopened flow.
#[test]
fn a_flow_is_opened_again_from_the_same_port() {
    for close in ["client", "server", "both"] {
        let flow = format!(
            "linger = '5min'\nforget = '5min'\n[[flow]]\nfrom = 'a'\nto = 'b'\nagain = 2\nclose = '{close}'\n\
             bulk = {{ bytes = 5000, back = 3000 }}\n"
        );
        let report = go("tcp", &flow);
        assert!(report.ok, "{close}: {report}");
        let bytes: Vec<_> = report
            .flows
            .iter()
            .map(|f| (f.forward.bytes, f.backward.bytes))
            .collect();
        assert_eq!(bytes, [(5000, 3000); 3], "{close}");
    }
}

#[test]
fn exceeded_cost_bounds_fail_the_run() {
    // 100,000 bytes take 0.8 s at 1 Mbit/s, and headers take more than 3 %.
    let flow = "[[flow]]\nfrom = 'a'\nto = 'b'\nbulk = { bytes = 100000 }\n";
    let bounds = |sent: u64, time: &str| format!("bounds = {{ sent = {sent}, time = '{time}' }}\n{flow}");
    assert!(go("selective-repeat", &bounds(120_000, "1200ms")).ok);
    let message = go("selective-repeat", &bounds(101_000, "800ms"))
        .failures
        .join("\n");
    assert!(
        message.contains("to deliver 100000; the limit is 101000"),
        "{message}"
    );
    assert!(message.contains("the limit is 800ms"), "{message}");
}

/// Go-back-N remembers a closed connection for `LINGER`.
#[test]
fn contexts_left_after_closing_are_reported() {
    let flow = "linger = '1min'\nforget = '20s'\n[[flow]]\nfrom = 'a'\nto = 'b'\nbulk = { bytes = 5000 }\n";
    let program = example("go-back-n.mtp");
    assert!(go(&program, flow).ok);
    let report = go(&program, &format!("params = {{ LINGER = '1min' }}\n{flow}"));
    let message = report.failures.join("\n");
    assert!(
        message.contains("host a: 1 contexts of connections are left 20s after all have closed"),
        "{message}"
    );
}

/// The sender sends no more of its data than the receiver's buffer holds.
#[test]
fn a_reader_that_stops_stops_the_sender() {
    let flow = "[[flow]]\nfrom = 'a'\nto = 'b'\nread_stop = '100s'\nreceive_buffer = '8KiB'\n\
                bulk = { bytes = '200KiB' }\n";
    for program in ["selective-repeat", "tcp"] {
        let bounds = "bounds = { sent = '300KiB' }\n";
        let report = go(program, &format!("{bounds}{flow}"));
        assert!(report.ok, "{program}: {report}");
        let seconds = report.flows[0].forward.seconds.expect("it arrives");
        assert!((101.0..115.0).contains(&seconds), "{program}: {seconds}");
    }
}

/// Go-back-N has no chain for an abort: its context ends without notice, and the peer notices late, or never.
#[test]
fn an_abort_ends_the_peer_at_once() {
    for (by, other, bulk) in [("client", "server", "bytes"), ("server", "client", "back")] {
        let flow = format!(
            "linger = '5min'\nforget = '5min'\nbounds = {{ notice = '5s' }}\n[[flow]]\nfrom = 'a'\nto = 'b'\n\
             abort = {{ by = '{by}', after = '20kB' }}\nsend_buffer = '32KiB'\nbulk = {{ bytes = 1, {bulk} = '200kB' }}\n"
        );
        let flow = flow.replace("bytes = 1, bytes", "bytes");
        for program in ["selective-repeat", "tcp"] {
            let report = go(program, &flow);
            assert!(report.ok, "{program}, {by}: {report}");
            let arrived = report.flows[0].forward.bytes + report.flows[0].backward.bytes;
            assert!(arrived < 60_000, "{program}, {by}: {arrived}");
        }
        let message = go(&example("go-back-n.mtp"), &flow).failures.join("\n");
        let expected = format!("its peer has aborted, and the {other} ");
        assert!(message.contains(&expected), "{by}: {message}");
    }
}

/// Go-back-N retries until its timer gives up.
#[test]
fn connecting_to_a_closed_port_fails_at_once() {
    let flow = "bounds = { notice = '1s' }\n[[flow]]\nfrom = 'a'\nto = 'b'\nopen = 'nobody'\nbulk = { bytes = 1000 }\n";
    for program in ["selective-repeat", "tcp"] {
        let report = go(program, flow);
        assert!(report.ok, "{program}: {report}");
        assert_eq!(report.flows[0].forward.bytes, 0, "{program}");
    }
    let message = go(&example("go-back-n.mtp"), flow).failures.join("\n");
    assert!(
        message.contains("no listener exists, and the client failed after 1"),
        "{message}"
    );
}

/// The peer sends to a host that has come back with its state lost, and the connection is not reopened.
#[test]
fn a_host_that_has_forgotten_a_connection_resets_it() {
    let flow = "bounds = { notice = '12s' }\n[[flow]]\nfrom = 'a'\nto = 'b'\nsend_buffer = '32KiB'\n\
                bulk = { bytes = '1MiB' }\n";
    let rest = format!("{flow}{FALL}[[at]]\ntime = '3s'\nhost = 'b'\nstate = 'up'\n");
    for program in ["selective-repeat", "tcp"] {
        let report = go(program, &rest);
        assert!(report.ok, "{program}: {report}");
    }
    let message = go(&example("go-back-n.mtp"), &rest).failures.join("\n");
    assert!(
        message.contains("its peer's host has restarted without state, and the client failed after"),
        "{message}"
    );
}

/// Go-back-N itself refuses no request.
#[test]
fn required_refusals_are_tested() {
    let flow = "linger = '5min'\n[[flow]]\nfrom = 'a'\nto = 'b'\nrefusals = true\nbulk = { bytes = 5000, back = 1 }\n";
    for program in ["selective-repeat", "tcp"] {
        let report = go(program, flow);
        assert!(report.ok, "{program}: {report}");
    }
    let message = go(&example("go-back-n.mtp"), flow).failures.join("\n");
    for expected in [
        "client: sending after closing was not refused",
        "server: connecting where it is connected was refused with",
    ] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
}
