//! Loading the programs, and removing them completely.

use std::fs;
use std::time::{Duration, Instant};

use hawser_linux::{Filter, FlowEvent, Kernel, KernelError, Missing, Options, Variable};
use hawser_testing::{Need, skip};
use rustix::net::sockopt;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::TestResult;
use crate::network::{Transfer, collect, diagnostics, expect, load, network, wait_until};

const LINK: &str = "both = { rate = \"50Mbit/s\", delay = \"2ms\", queue = \"8MB\" }";

/// Runs `work` in a thread without capabilities.
fn without_privilege<T: Send>(work: impl FnOnce() -> T + Send) -> TestResult<T> {
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            set_capabilities(None, none)?;
            Ok(work())
        });
        thread.join().map_err(|_| "it panicked")?
    })
}

pub(crate) fn only_loading_needs_privilege() -> TestResult {
    let lab = network(LINK)?;
    let (mut kernel, mut diagnostics) = (load("hw_drop")?, diagnostics(&lab)?);
    let transfer = Transfer::start(&lab, "cubic")?;
    let (flow, client) = (transfer.cookie, lab.host("client")?);
    let mut records = Vec::new();
    client.run(|| {
        without_privilege(|| -> TestResult {
            let held = capabilities(None)?;
            expect(held.effective.is_empty(), "no capability is left")?;
            for event in FlowEvent::ALL {
                kernel.subscribe(event, Filter::default())?;
            }
            kernel.adopt(flow)?;
            kernel.modify(flow, Variable::Cwnd, 8 * 1448, Duration::from_secs(5))?;
            wait_until("it acts", || {
                diagnostics
                    .probe(flow)
                    .is_ok_and(|f| f.state.cwnd == 8 * f.state.smss)
            })?;
            collect(&mut kernel, Duration::from_millis(200), &mut records)?;
            kernel.inspect(flow)?;
            Ok(())
        })
    })???;
    expect(
        records
            .iter()
            .any(|r| r.flow == flow && r.event == FlowEvent::Sent),
        "events came",
    )?;
    transfer.end().map(drop)
}

pub(crate) fn missing_capabilities_are_named() -> TestResult {
    let refused = without_privilege(|| Kernel::load(&Options::default()).err())?;
    let named = matches!(
        refused,
        Some(KernelError::Missing(Missing::Capability("CAP_BPF")))
    );
    expect(named, format!("{refused:?}"))?;
    let _first = load("hw_name")?;
    let second = Kernel::load(&Options { congestion_control: Some("hw_name".into()), ..Options::default() });
    expect(
        matches!(second, Err(KernelError::NameTaken(_))),
        "a name is taken once",
    )?;
    let elsewhere = Kernel::load(&Options { cgroup: Some("/proc".into()), ..Options::default() });
    expect(
        matches!(elsewhere, Err(KernelError::Missing(Missing::Cgroup(_)))),
        "no cgroup",
    )?;
    let long = Options {
        congestion_control: Some("sixteen_letters_".into()),
        ..Options::default()
    };
    expect(
        matches!(Kernel::load(&long), Err(KernelError::Name(_))),
        "a name that is too long",
    )?;
    let mut plain = Kernel::load(&Options { congestion_control: None, ..Options::default() })?;
    let refused = plain.modify(1, Variable::Cwnd, 1, Duration::from_secs(1));
    expect(
        matches!(refused, Err(KernelError::Variable { .. })),
        format!("{refused:?}"),
    )?;
    let refused = plain.subscribe(FlowEvent::RoundTrip, Filter::default());
    expect(
        matches!(refused, Err(KernelError::Event { .. })),
        format!("{refused:?}"),
    )
}

/// Counts the open descriptors of this process.
fn count() -> TestResult<usize> {
    Ok(fs::read_dir("/proc/self/fd")?.count())
}

/// Counts the programs and the maps in the kernel.
#[cfg(feature = "ebpf")]
fn in_kernel() -> TestResult<[usize; 2]> {
    Ok([
        libbpf_rs::query::ProgInfoIter::default().count(),
        libbpf_rs::query::MapInfoIter::default().count(),
    ])
}

/// Without eBPF there are no programs, and no test reaches this.
#[cfg(not(feature = "ebpf"))]
fn in_kernel() -> TestResult<[usize; 2]> {
    Ok([0, 0])
}

pub(crate) fn loading_and_unloading_leaks_no_memory() -> TestResult {
    let lab = network(LINK)?;
    let transfer = Transfer::start(&lab, "cubic")?;
    transfer.wait_for(100_000)?;
    load("hw_once")?; // allocates buffers of the standard library and of libbpf that are kept
    let settle = |before: [usize; 2]| {
        wait_until("the kernel frees them", || {
            in_kernel().is_ok_and(|now| now[0] <= before[0] && now[1] <= before[1])
        })
    };
    std::thread::sleep(Duration::from_millis(300));
    let (before, kernel_before) = (count()?, in_kernel()?);
    for _ in 0..20 {
        let mut kernel = load("hw_again")?;
        for event in FlowEvent::ALL {
            kernel.subscribe(
                event,
                Filter { interval: Duration::from_millis(5), ..Filter::default() },
            )?;
        }
        kernel.poll(Some(Duration::from_millis(10)), |_| {})?;
    }
    settle(kernel_before)?;
    expect(
        count()? == before,
        format!("descriptors {before}, then {}", count()?),
    )?;
    transfer.wait_for(1_000_000)?;
    transfer.end().map(drop)
}

pub(crate) fn subscribing_200_times_leaks_no_memory() -> TestResult {
    // The kernel carries this link without a thread, so no packet is late enough to be considered lost.
    let lab = network("")?;
    let mut kernel = load("hw_often")?;
    let mut transfer = Transfer::connect(&lab, "hw_often")?;
    transfer.begin_slowly()?;
    let before = (count()?, in_kernel()?);
    for round in 0..200 {
        let event = FlowEvent::ALL[round % FlowEvent::ALL.len()];
        let interval = Duration::from_millis(round as u64 % 3);
        let id = kernel.subscribe(event, Filter { interval, ..Filter::default() })?;
        let more = kernel.subscribe(FlowEvent::Acked, Filter::default())?;
        kernel.poll(Some(Duration::from_millis(2)), |_| {})?;
        kernel.unsubscribe(id)?;
        kernel.unsubscribe(more)?;
    }
    // Connections of earlier tests may end meanwhile and free their resources.
    let after = (count()?, in_kernel()?);
    expect(
        after.0 == before.0,
        format!("descriptors {before:?}, then {after:?}"),
    )?;
    expect(
        after.1[0] <= before.1[0] && after.1[1] <= before.1[1],
        format!("{before:?}, then {after:?}"),
    )?;
    // The link drops no packets, and neither did the programs. A probe for a lost tail may go out while an
    // ACK is delayed. The peer then reports, a round trip later, that it already had the data.
    let begin = Instant::now();
    let (again, needless) = loop {
        let reported = crate::state::ss(&lab, transfer.port()?)?;
        let again = reported.retransmissions().unwrap_or(0);
        let needless = reported.number("dsack_dups:").unwrap_or(0);
        if again <= needless || begin.elapsed() > Duration::from_secs(2) {
            break (again, needless);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    transfer.end()?;
    expect(
        again <= needless,
        format!("{again} segments sent again, {needless} of them needlessly"),
    )
}

/// Returns the mount point of cgroup2.
fn cgroup2() -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let line = mounts
        .lines()
        .find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
    line.split(' ').nth(1).map(str::to_owned)
}

pub(crate) fn a_cgroup_is_adopted() -> TestResult {
    let Some(cgroup) = cgroup2() else {
        skip(
            Need::Cgroup2,
            "lifetime::a_cgroup_is_adopted",
            "it is not mounted",
        );
        return Ok(());
    };
    let lab = network(LINK)?;
    let mut kernel = Kernel::load(&Options {
        cgroup: Some(cgroup.into()),
        marked_only: true,
        adopt: true,
        congestion_control: Some("hw_cgroup".into()),
        ..Options::default()
    })?;
    kernel.subscribe(FlowEvent::RoundTrip, Filter::default())?;
    kernel.subscribe(FlowEvent::Sent, Filter::default())?;
    // The application does not request it: the kernel's default congestion control applies until the
    // handshake is over.
    let usual = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")?;
    let mut transfer = Transfer::connect_as_it_is(&lab)?;
    let name = sockopt::tcp_congestion(&transfer.stream)?;
    expect(name == "hw_cgroup", format!("{name}, usually {usual}"))?;
    transfer.begin(300_000)?;
    let mut records = Vec::new();
    collect(&mut kernel, Duration::from_millis(400), &mut records)?;
    for event in [FlowEvent::RoundTrip, FlowEvent::Sent] {
        let seen = records
            .iter()
            .any(|r| r.flow == transfer.cookie && r.event == event);
        expect(seen, format!("{event:?}"))?;
    }
    // Under another congestion control, round trips come from the cgroup.
    sockopt::set_tcp_congestion(&transfer.stream, "cubic")?;
    records.clear();
    transfer.begin(300_000)?;
    collect(&mut kernel, Duration::from_millis(400), &mut records)?;
    let seen = records
        .iter()
        .any(|r| r.flow == transfer.cookie && r.event == FlowEvent::RoundTrip);
    expect(seen, "round trips under cubic")
}
