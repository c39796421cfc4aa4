//! Modifications under leases, and the ends of leases.

use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use hawser_lab::Lab;
use hawser_linux::{Diagnostics, KernelError, MAX_LEASE, Variable};
use rustix::net::sockopt;
use rustix::process::{Pid, Signal, kill_process};

use crate::TestResult;
use crate::network::{Transfer, diagnostics, expect, load, network, wait_until};

const LINK: &str = "both = { rate = \"50Mbit/s\", delay = \"10ms\", queue = \"250kB\" }";

pub(crate) fn a_lease_ends_and_the_controller_goes_on() -> TestResult {
    let lab = network(LINK)?;
    let (mut kernel, mut diagnostics) = (load("hw_lease")?, diagnostics(&lab)?);
    let transfer = Transfer::start(&lab, "hw_lease")?;
    transfer.wait_for(500_000)?;
    let flow = transfer.cookie;
    let mut window = || {
        diagnostics
            .probe(flow)
            .map(|flow| flow.state.cwnd / flow.state.smss)
    };
    let before = window()?;
    expect(
        before > 20,
        format!("a window of {before} segments by its own congestion controller"),
    )?;
    let smss = 1448;
    kernel.modify(flow, Variable::Cwnd, 5 * smss, Duration::from_millis(400))?;
    wait_until("the window is ours", || window().is_ok_and(|window| window == 5))?;
    for _ in 0..10 {
        expect(window()? == 5, "the window stays while the lease holds")?;
        std::thread::sleep(Duration::from_millis(15));
    }
    let standing = kernel.standing(flow)?;
    expect(
        (standing.granted, standing.fallbacks) == (1, 0),
        format!("{standing:?}"),
    )?;
    wait_until("the congestion controller takes over", || {
        window().is_ok_and(|window| window > 20)
    })?;
    let standing = kernel.standing(flow)?;
    expect(
        (standing.granted, standing.fallbacks) == (1, 1),
        format!("{standing:?}"),
    )?;
    // A lease that is given back early counts as well.
    kernel.modify(flow, Variable::Cwnd, 5 * smss, Duration::from_secs(60))?;
    wait_until("the window is ours", || window().is_ok_and(|window| window == 5))?;
    kernel.release(flow)?;
    wait_until("the congestion controller takes over", || {
        window().is_ok_and(|window| window > 20)
    })?;
    expect(kernel.standing(flow)?.fallbacks == 2, "two fall-backs")?;
    transfer.end().map(drop)
}

pub(crate) fn setting_each_variable_takes_effect() -> TestResult {
    let lab = network(LINK)?;
    let (mut kernel, mut diagnostics) = (load("hw_each")?, diagnostics(&lab)?);
    let transfer = Transfer::start(&lab, "hw_each")?;
    transfer.wait_for(200_000)?;
    let (flow, lease) = (transfer.cookie, Duration::from_secs(5));
    kernel.modify(flow, Variable::Cwnd, 150 * 1448, lease)?;
    kernel.modify(flow, Variable::Ssthresh, 77 * 1448, lease)?;
    kernel.modify(flow, Variable::PacingRate, 1_000_000, lease)?;
    wait_until("all act", || {
        diagnostics.probe(flow).is_ok_and(|flow| {
            let state = flow.state;
            state.cwnd == 150 * state.smss
                && state.ssthresh == 77 * state.smss
                && state.pacing_rate == 1_000_000
        })
    })?;
    // Bytes arrive at the pacing rate of 1 MB/s, although the window would allow five times as much.
    std::thread::sleep(Duration::from_millis(500));
    let (begin, before) = (Instant::now(), transfer.read());
    std::thread::sleep(Duration::from_secs(1));
    let rate = (transfer.read() - before) as f64 / begin.elapsed().as_secs_f64();
    expect(
        (600_000.0..1_100_000.0).contains(&rate),
        format!("{rate:.0} bytes per second"),
    )
}

pub(crate) fn staged_leases_act_at_once() -> TestResult {
    let lab = network(LINK)?;
    let (mut kernel, mut diagnostics) = (load("hw_staged")?, diagnostics(&lab)?);
    let transfer = Transfer::start(&lab, "hw_staged")?;
    transfer.wait_for(200_000)?;
    let (flow, lease) = (transfer.cookie, Duration::from_secs(20));
    let all = [
        (Variable::Ssthresh, 9 * 1448),
        (Variable::Cwnd, 5 * 1448),
        (Variable::PacingRate, 900_000),
    ];
    for (variable, value) in all {
        kernel.stage(flow, variable, value, lease)?;
    }
    let before = transfer.read();
    wait_until("it goes on", || transfer.read() > before + 200_000)?;
    expect(kernel.standing(flow)?.granted == 0, "what is staged does nothing")?;
    kernel.commit(|_, _| {})?;
    let mut state = || diagnostics.probe(flow).map(|flow| flow.state);
    wait_until("all acts", || {
        state().is_ok_and(|state| state.cwnd == 5 * state.smss)
    })?;
    let seen = state()?;
    expect(
        (seen.ssthresh, seen.pacing_rate) == (9 * seen.smss, 900_000),
        format!("{seen:?}"),
    )?;
    let standing = kernel.standing(flow)?;
    expect(
        (standing.granted, standing.fallbacks) == (1, 0),
        format!("one ACK brought all: {standing:?}"),
    )?;
    // One variable goes back alone, then the others.
    kernel.give_back(flow, Variable::Cwnd);
    kernel.commit(|_, _| {})?;
    wait_until("the congestion controller has the window", || {
        state().is_ok_and(|state| state.cwnd > 5 * state.smss)
    })?;
    expect(state()?.pacing_rate == 900_000, "the pace is still held")?;
    kernel.give_back(flow, Variable::Ssthresh);
    kernel.give_back(flow, Variable::PacingRate);
    kernel.commit(|_, _| {})?;
    wait_until("the congestion controller has the pace", || {
        state().is_ok_and(|state| state.pacing_rate != 900_000)
    })?;
    expect(
        kernel.standing(flow)?.fallbacks == 2,
        format!("{:?}", kernel.standing(flow)?),
    )?;
    transfer.end().map(drop)
}

pub(crate) fn a_modification_without_a_lease_is_refused() -> TestResult {
    let lab = network(LINK)?;
    let mut kernel = load("hw_refuse")?;
    let transfer = Transfer::start(&lab, "hw_refuse")?;
    let refused = kernel.modify(transfer.cookie, Variable::Cwnd, 14_480, Duration::ZERO);
    expect(
        matches!(refused, Err(KernelError::NoLease)),
        format!("{refused:?}"),
    )?;
    transfer.wait_for(300_000)?;
    expect(
        kernel.standing(transfer.cookie)?.granted == 0,
        "nothing was granted",
    )?;
    let second = Duration::from_secs(1);
    kernel.modify(transfer.cookie, Variable::Cwnd, 14_480, second)?;
    // Modifications are also refused for a flow under another congestion control, an unknown flow, and one
    // that has ended.
    sockopt::set_tcp_congestion(&transfer.stream, "reno")?;
    for flow in [
        transfer.cookie,
        Transfer::connect(&lab, "cubic")?.cookie,
        u64::MAX,
    ] {
        let refused = kernel.modify(flow, Variable::Cwnd, 14_480, second);
        expect(
            matches!(refused, Err(KernelError::NotOurs { .. })),
            format!("{refused:?}"),
        )?;
    }
    let ended = Transfer::connect(&lab, "hw_refuse")?;
    let flow = ended.cookie;
    kernel.modify(flow, Variable::Cwnd, 14_480, second)?;
    ended.end()?;
    wait_until("it has ended", || {
        matches!(
            kernel.modify(flow, Variable::Cwnd, 14_480, second),
            Err(KernelError::NotOurs { .. })
        )
    })
}

/// Our congestion control's own controller is compared with the kernel's NewReno, on the same link.
pub(crate) fn our_kernel_controller_keeps_pace_with_newreno() -> TestResult {
    let _kernel = load("hw_own")?;
    let rate = |congestion_control: &str| -> TestResult<f64> {
        let lab = network(LINK)?;
        let transfer = Transfer::start(&lab, congestion_control)?;
        std::thread::sleep(Duration::from_secs(1));
        let (begin, before) = (Instant::now(), transfer.read());
        std::thread::sleep(Duration::from_secs(2));
        Ok((transfer.read() - before) as f64 * 8.0 / begin.elapsed().as_secs_f64() / 1e6)
    };
    let (theirs, ours) = (rate("reno")?, rate("hw_own")?);
    println!("  {ours:.1} Mbit/s, Linux's NewReno {theirs:.1}, of 50");
    expect(
        ours > 0.8 * theirs,
        format!("{ours:.1} Mbit/s, Linux's NewReno {theirs:.1}"),
    )
}

/// A process that decides for all flows under its congestion control (`hold`), or adopts those of CUBIC
/// (`adopt`). Its leases are short, or long (`-long`). It ends when it is killed.
pub(crate) fn hold(what: &str, name: &str) -> ExitCode {
    let adopts = what.starts_with("adopt");
    let lease = if what.ends_with("-long") {
        MAX_LEASE
    } else {
        Duration::from_millis(300)
    };
    let hold = || -> TestResult {
        let mut kernel = load(name)?;
        println!("ready");
        let mut diagnostics = Diagnostics::open()?;
        loop {
            for flow in diagnostics.flows()? {
                match flow.congestion_control.as_str() {
                    control if control == name => {}
                    "cubic" if adopts => kernel.adopt(flow.cookie)?,
                    _ => continue,
                }
                let window = 6 * flow.state.smss;
                match kernel.modify(flow.cookie, Variable::Cwnd, window, lease) {
                    // The flow was put back while this process was frozen.
                    Err(KernelError::NotOurs { .. }) if adopts => {}
                    done => done?,
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    if let Err(error) = hold() {
        println!("{error}");
    }
    ExitCode::FAILURE
}

/// A process that is killed when the value is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // The process may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts such a process on the client's host, and waits until it is ready.
pub(crate) fn holder(lab: &Lab, what: &str, name: &str) -> TestResult<Process> {
    let mut command: Command = lab.host("client")?.command(std::env::current_exe()?)?;
    let mut child = Process(command.args([what, name]).stdout(Stdio::piped()).spawn()?);
    let mut line = String::new();
    let output = child.0.stdout.take().ok_or("no output")?;
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line)?;
    expect(line == "ready\n", line)?;
    Ok(child)
}

/// Returns the congestion controls of Linux itself that this machine has.
pub(crate) fn own_controls() -> TestResult<Vec<String>> {
    let all = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    Ok(["cubic", "bbr"]
        .iter()
        .filter(|name| all.split_whitespace().any(|word| word == **name))
        .map(ToString::to_string)
        .collect())
}

pub(crate) fn a_flow_returns_to_its_own_control_after_a_lease() -> TestResult {
    let controls = own_controls()?;
    expect(!controls.is_empty(), "this kernel has neither CUBIC nor BBR")?;
    for control in controls {
        let lab = network(LINK)?;
        let (mut kernel, mut diagnostics) = (load("hw_back")?, diagnostics(&lab)?);
        let transfer = Transfer::start(&lab, &control)?;
        transfer.wait_for(500_000)?;
        let (flow, lease) = (transfer.cookie, Duration::from_millis(400));
        lab.host("client")?.run(|| kernel.adopt(flow))??;
        for (variable, value) in [
            (Variable::Cwnd, 5 * 1448),
            (Variable::Ssthresh, 5 * 1448),
            (Variable::PacingRate, 700_000),
        ] {
            kernel.modify(flow, variable, value, lease)?;
        }
        wait_until("the window is ours", || {
            diagnostics.probe(flow).is_ok_and(|flow| {
                flow.state.cwnd == 5 * flow.state.smss && flow.congestion_control == "hw_back"
            })
        })?;
        // No process acts from here on: the lease ends by itself.
        wait_until("its own control is back", || {
            diagnostics
                .probe(flow)
                .is_ok_and(|flow| flow.congestion_control == control)
        })?;
        expect(
            kernel.standing(flow)?.fallbacks == 1,
            format!("{control}: {:?}", kernel.standing(flow)?),
        )?;
        wait_until("and it is as fast as before", || {
            diagnostics
                .probe(flow)
                .is_ok_and(|flow| flow.state.cwnd > 20 * flow.state.smss)
        })?;
        // A second modification takes the flow again.
        lab.host("client")?.run(|| kernel.adopt(flow))??;
        kernel.modify(flow, Variable::Cwnd, 5 * 1448, lease)?;
        wait_until("the window is ours", || {
            diagnostics
                .probe(flow)
                .is_ok_and(|flow| flow.state.cwnd == 5 * flow.state.smss)
        })?;
        transfer.end()?;
    }
    Ok(())
}

pub(crate) fn release_and_drop_put_controls_back() -> TestResult {
    let lab = network(LINK)?;
    let (mut kernel, mut diagnostics) = (load("hw_return")?, diagnostics(&lab)?);
    // The connection is idle, so there is no ACK that would restore it.
    let [first, second, third] = [(); 3].map(|()| Transfer::connect(&lab, "cubic"));
    let (first, second, third) = (first?, second?, third?);
    let minute = Duration::from_secs(60);
    let mut control = |flow| diagnostics.probe(flow).map(|flow| flow.congestion_control);
    lab.host("client")?.run(|| -> TestResult {
        for transfer in [&first, &second, &third] {
            kernel.adopt(transfer.cookie)?;
            kernel.modify(transfer.cookie, Variable::Cwnd, 20_000, minute)?;
            expect(control(transfer.cookie)? == "hw_return", "it is adopted")?;
        }
        kernel.release(first.cookie)?;
        expect(control(first.cookie)? == "cubic", "released")?;
        kernel.give_back(second.cookie, Variable::Cwnd);
        kernel.commit(|_, _| {})?;
        expect(control(second.cookie)? == "cubic", "given back")?;
        expect(control(third.cookie)? == "hw_return", "its lease holds")?;
        drop(kernel);
        expect(control(third.cookie)? == "cubic", "the process has ended")
    })??;
    Ok(())
}

pub(crate) fn a_killed_process_leaves_no_control() -> TestResult {
    let lab = network(LINK)?;
    let mut diagnostics = diagnostics(&lab)?;
    let transfer = Transfer::start(&lab, "cubic")?;
    let child = holder(&lab, "adopt", "hw_killed")?;
    let mut control = || {
        diagnostics
            .probe(transfer.cookie)
            .map(|flow| flow.congestion_control)
    };
    wait_until("it is adopted", || {
        control().is_ok_and(|name| name == "hw_killed")
    })?;
    let process = Pid::from_child(&child.0);
    kill_process(process, Signal::STOP)?;
    wait_until("it is put back while the process is frozen", || {
        control().is_ok_and(|name| name == "cubic")
    })?;
    kill_process(process, Signal::CONT)?;
    wait_until("it is adopted again", || {
        control().is_ok_and(|name| name == "hw_killed")
    })?;
    drop(child);
    wait_until("it is put back once the process is dead", || {
        control().is_ok_and(|name| name == "cubic")
    })?;
    transfer.wait_for(3_000_000)?;
    transfer.end().map(drop)
}

pub(crate) fn an_unloaded_congestion_control_is_not_replaced() -> TestResult {
    let lab = network(LINK)?;
    let mut diagnostics = diagnostics(&lab)?;
    let gone = load("hw_gone")?;
    let transfer = Transfer::connect(&lab, "hw_gone")?;
    drop(gone);
    let mut kernel = load("hw_after")?;
    let refused = lab.host("client")?.run(|| kernel.adopt(transfer.cookie))?;
    let is_final = matches!(&refused, Err(KernelError::Final { name, .. }) if name == "hw_gone");
    expect(is_final, format!("{refused:?}"))?;
    let control = diagnostics.probe(transfer.cookie)?.congestion_control;
    expect(control == "hw_gone", format!("nothing was changed: {control}"))
}

pub(crate) fn a_lease_ends_when_its_process_dies() -> TestResult {
    let name = "hw_dies";
    let lab = network(LINK)?;
    let child = holder(&lab, "hold", name)?;

    let mut diagnostics = diagnostics(&lab)?;
    let transfer = Transfer::start(&lab, name)?;
    let mut window = || {
        diagnostics
            .probe(transfer.cookie)
            .map_or(0, |flow| flow.state.cwnd / flow.state.smss.max(1))
    };
    wait_until("it decides", || window() == 6)?;
    let process = Pid::from_child(&child.0);
    kill_process(process, Signal::STOP)?;
    wait_until(
        "the congestion controller takes over from one that is frozen",
        || window() > 20,
    )?;
    kill_process(process, Signal::CONT)?;
    wait_until("it decides again", || window() == 6)?;
    drop(child);
    wait_until("the congestion controller takes over", || window() > 20)?;
    transfer.wait_for(3_000_000)?;
    // The flow keeps its congestion control, which no other flow can select any more.
    let flow = diagnostics.probe(transfer.cookie)?;
    expect(
        flow.congestion_control == name,
        format!("run by {}", flow.congestion_control),
    )?;
    wait_until("the name is gone", || {
        sockopt::set_tcp_congestion(&transfer.stream, "reno").is_ok()
            && sockopt::set_tcp_congestion(&transfer.stream, name).is_err()
    })?;
    transfer.end().map(drop)
}
