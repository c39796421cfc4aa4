//! Processes that hold flows: killed, restarted, several at once.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use hawser_lab::Lab;
use hawser_linux::provider::{Options, serve_kernel};
use hawser_linux::{Kernel, KernelError, Variable};
use hawser_socket::{Bus, FlowId, Modification, Rights, SourceFlow};
use rustix::net::sockopt;
use rustix::process::{Pid, Signal, kill_process};

use crate::TestResult;
use crate::network::{Transfer, diagnostics, expect, load, network, wait_until};
use crate::steering::holder;

/// The number of flows that are adopted together.
const FLOWS: usize = 100;
const LINK: &str = "both = { rate = \"50Mbit/s\", delay = \"10ms\", queue = \"250kB\" }";
const MINUTE: Duration = Duration::from_secs(60);
/// The time for which the programs honour leases of a process without a sign of life, and the delay that a
/// busy machine adds.
const HEEDED: Duration = Duration::from_secs(1);
const SLACK: Duration = Duration::from_secs(2);

/// A lease of a minute is over within a second of its holder's death, for flows of both kinds.
pub(crate) fn leases_of_a_killed_process_end_within_a_second() -> TestResult {
    for (what, control) in [("adopt-long", "cubic"), ("hold-long", "hw_killed")] {
        let lab = network(LINK)?;
        let child = holder(&lab, what, "hw_killed")?;
        let mut diagnostics = diagnostics(&lab)?;
        let transfer = Transfer::start(&lab, control)?;
        let mut stands = || {
            diagnostics.probe(transfer.cookie).map(|flow| {
                let window = flow.state.cwnd / flow.state.smss.max(1);
                (window, flow.congestion_control)
            })
        };
        wait_until("its window is held", || {
            stands().is_ok_and(|(window, control)| (window, control.as_str()) == (6, "hw_killed"))
        })?;
        // The hold lasts through the lease, as long as the process lives.
        std::thread::sleep(2 * HEEDED);
        expect(stands()?.0 == 6, "the window is held")?;
        kill_process(Pid::from_child(&child.0), Signal::KILL)?;
        let killed = Instant::now();
        wait_until("its own controller goes on", || {
            stands().is_ok_and(|(window, now)| window > 20 && now == control)
        })?;
        let took = killed.elapsed();
        expect(took < HEEDED + SLACK, format!("only after {took:?}"))?;
        transfer.end()?;
    }
    Ok(())
}

/// No ACK arrives, so the congestion control is not restored when the holder is killed. A successor of the
/// same or of another name finds the flow's earlier one in the socket.
pub(crate) fn a_successor_gives_a_flow_its_own_control_back() -> TestResult {
    for successor in ["hw_first", "hw_second"] {
        let lab = network(LINK)?;
        let mut diagnostics = diagnostics(&lab)?;
        let mut transfer = Transfer::connect(&lab, "cubic")?;
        let child = holder(&lab, "adopt-long", "hw_first")?;
        let flow = transfer.cookie;
        let mut control = || diagnostics.probe(flow).map(|flow| flow.congestion_control);
        wait_until("it is adopted", || control().is_ok_and(|name| name == "hw_first"))?;
        drop(child);
        let mut kernel = None;
        wait_until("the name is free", || {
            kernel = load(successor).ok();
            kernel.is_some()
        })?;
        let mut kernel: Kernel = kernel.ok_or("no kernel")?;
        expect(control()? == "hw_first", "nothing has put it back")?;
        lab.host("client")?.run(|| kernel.adopt(flow))??;
        kernel.modify(flow, Variable::Cwnd, 20_000, Duration::from_millis(400))?;
        expect(control()? == successor, "it is adopted again")?;
        transfer.begin(u64::MAX)?;
        wait_until("its own control is back", || {
            control().is_ok_and(|name| name == "cubic")
        })?;
        transfer.end()?;
    }
    Ok(())
}

/// A process cannot take a flow that another process holds, until that process has given it back.
pub(crate) fn a_flow_has_one_holder_at_a_time() -> TestResult {
    let lab = network(LINK)?;
    let (mut first, mut second) = (load("hw_one")?, load("hw_two")?);
    let mut diagnostics = diagnostics(&lab)?;
    let transfer = Transfer::start(&lab, "cubic")?;
    let flow = transfer.cookie;
    let mut control = || diagnostics.probe(flow).map(|flow| flow.congestion_control);
    lab.host("client")?.run(|| -> TestResult {
        first.adopt(flow)?;
        first.modify(flow, Variable::Cwnd, 10_000, MINUTE)?;
        for _ in 0..3 {
            let refused = second.adopt(flow);
            let is_held = matches!(&refused, Err(KernelError::Held { name, .. }) if name == "hw_one");
            expect(is_held, format!("{refused:?}"))?;
        }
        expect(control()? == "hw_one", "the first has it still")?;
        expect(
            first.standing(flow)?.fallbacks == 0,
            "its lease was not disturbed",
        )?;
        first.release(flow)?;
        expect(control()? == "cubic", "given back")?;
        second.adopt(flow)?;
        second.modify(flow, Variable::Cwnd, 10_000, MINUTE)?;
        expect(control()? == "hw_two", "the second has it")?;
        drop(second);
        expect(control()? == "cubic", "and has given it back")
    })??;
    transfer.end().map(drop)
}

/// Many flows are adopted by one visit to all sockets, not by one visit each.
pub(crate) fn many_flows_are_adopted_by_one_visit() -> TestResult {
    let lab = network(LINK)?;
    let mut kernel = load("hw_many")?;
    let (_streams, _listener, flows) = connections(&lab)?;
    let (alone, together) = flows.split_at(8);
    let (one, all) = lab.host("client")?.run(|| -> TestResult<(Duration, Duration)> {
        let mut times = Vec::new();
        for flow in alone {
            let begin = Instant::now();
            kernel.adopt(*flow)?;
            times.push(begin.elapsed());
        }
        times.sort_unstable();
        let begin = Instant::now();
        for adopted in kernel.adopt_all(together)? {
            adopted?;
        }
        Ok((times[times.len() / 2], begin.elapsed()))
    })??;
    println!("  one flow in {one:?}, {} in {all:?}", together.len());
    expect(
        all < one * together.len() as u32 / 4,
        format!("{} flows in {all:?}, one in {one:?}", together.len()),
    )?;
    let mut diagnostics = diagnostics(&lab)?;
    let ours = diagnostics
        .flows()?
        .iter()
        .filter(|flow| flow.congestion_control == "hw_many")
        .count();
    expect(ours == FLOWS, format!("{ours} flows were adopted"))
}

/// Makes idle connections of the client: their sockets, the listener, their cookies.
fn connections(lab: &Lab) -> TestResult<(Vec<TcpStream>, TcpListener, Vec<u64>)> {
    let listener = lab.host("server")?.run(|| TcpListener::bind("0.0.0.0:0"))??;
    let address = lab.host("server")?.ipv4().ok_or("no address")?;
    let to = SocketAddr::new(address, listener.local_addr()?.port());
    let connect = || {
        (0..FLOWS)
            .map(|_| TcpStream::connect(to))
            .collect::<std::io::Result<Vec<_>>>()
    };
    let streams = lab.host("client")?.run(connect)??;
    let flows: Vec<u64> = streams
        .iter()
        .map(sockopt::socket_cookie)
        .collect::<Result<_, _>>()?;
    Ok((streams, listener, flows))
}

/// On the bus, too, each modification is answered, and visits are few.
pub(crate) fn a_burst_of_modifications_shares_visits() -> TestResult {
    let lab = network(LINK)?;
    let (_streams, _listener, flows) = connections(&lab)?;
    let bus = Bus::new();
    let options = Options { congestion_control: Some("hw_burst".to_owned()), ..Options::default() };
    let serving = lab.host("client")?.run(|| serve_kernel(&bus, &options))??;
    let subscriber = bus.join("burst", Rights::all(), 1)?;
    let schema = bus.schema(serving.source())?;
    let variable = schema
        .variable("kernel.tcp.conn.cc.cwnd")
        .ok_or("no such variable")?;
    let modify = |flow: &u64| -> TestResult<Duration> {
        let begin = Instant::now();
        let modification = Modification {
            target: SourceFlow { source: serving.source(), flow: FlowId(*flow) },
            variable,
            set: Some((20_000, MINUTE)),
        };
        subscriber.modify(&modification, 1)?.wait(SLACK)??;
        Ok(begin.elapsed())
    };
    let (alone, together) = flows.split_at(8);
    let mut times = Vec::new();
    for flow in alone {
        times.push(modify(flow)?);
        // The next modification is not part of a burst.
        std::thread::sleep(Duration::from_millis(100));
    }
    times.sort_unstable();
    let (one, begin) = (times[times.len() / 2], Instant::now());
    for flow in together {
        modify(flow)?;
    }
    let all = begin.elapsed();
    println!("  one flow in {one:?}, {} in {all:?}", together.len());
    expect(
        all < one * together.len() as u32 / 3,
        format!("{} flows in {all:?}, one in {one:?}", together.len()),
    )?;
    let mut diagnostics = diagnostics(&lab)?;
    wait_until("all are adopted", || {
        diagnostics.flows().is_ok_and(|flows| {
            let ours = flows.iter().filter(|flow| flow.congestion_control == "hw_burst");
            ours.count() == FLOWS
        })
    })
}
