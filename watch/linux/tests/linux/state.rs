//! Probing against `ss`, and access to live sockets.

use std::io::Read;
use std::time::Duration;

use hawser_lab::Lab;
use hawser_linux::{Diagnostics, Filter, FlowEvent, KernelError, Owners, Setting, own_namespace};

use crate::TestResult;
use crate::network::{Transfer, collect, diagnostics, expect, load, network, wait_until};

/// The output of `ss` for one connection of the client.
pub(crate) struct Ss(String);

pub(crate) fn ss(lab: &Lab, port: u16) -> TestResult<Ss> {
    let mut command = lab.host("client")?.command("ss")?;
    let output = command
        .args(["-tinOH", "sport", "=", &format!(":{port}")])
        .output()?;
    Ok(Ss(String::from_utf8(output.stdout)?))
}

impl Ss {
    /// Returns the text after a word, up to the next space.
    fn text(&self, word: &str) -> Option<&str> {
        self.0.split_whitespace().find_map(|part| part.strip_prefix(word))
    }

    /// Returns the same up to a `/`, as a number.
    pub(crate) fn number(&self, word: &str) -> Option<u64> {
        self.text(word)?.split('/').next()?.parse().ok()
    }

    /// Returns the number of segments sent again so far.
    pub(crate) fn retransmissions(&self) -> Option<u64> {
        self.text("retrans:")?.split('/').nth(1)?.parse().ok()
    }

    /// Parses milliseconds with a fraction, as nanoseconds.
    fn span(&self, word: &str, part: usize) -> Option<u64> {
        let millis: f64 = self.text(word)?.split('/').nth(part)?.parse().ok()?;
        Some((millis * 1e6).round() as u64)
    }
}

pub(crate) fn probe_agrees_with_ss() -> TestResult {
    let lab = network("both = { rate = \"30Mbit/s\", delay = \"8ms\", queue = \"40kB\" }")?;
    let (mut kernel, mut diagnostics) = (load("hw_probe")?, diagnostics(&lab)?);
    let mut transfer = Transfer::connect(&lab, "reno")?;
    transfer.begin(2_000_000)?;
    wait_until("all has arrived", || transfer.read() == 2_000_000)?;
    std::thread::sleep(Duration::from_millis(100)); // the last ACK
    let flow = diagnostics.probe(transfer.cookie)?;
    let state = flow.state;
    let reported = ss(&lab, transfer.port()?)?;
    expect(flow.local.port() == transfer.port()?, "its port")?;
    expect(flow.congestion_control == "reno", "its congestion control")?;
    let mss = reported
        .number("mss:")
        .ok_or_else(|| format!("no mss in {}", reported.0))?;
    let figures = [
        ("mss", state.smss, Some(mss)),
        (
            "cwnd",
            state.cwnd,
            reported.number("cwnd:").map(|segments| segments * mss),
        ),
        (
            "ssthresh",
            state.ssthresh,
            reported.number("ssthresh:").map(|segments| segments * mss),
        ),
        ("rtt", state.srtt, reported.span("rtt:", 0)),
        ("rttvar", state.rttvar, reported.span("rtt:", 1)),
        ("rto", state.rto, reported.span("rto:", 0)),
        ("minrtt", state.min_rtt, reported.span("minrtt:", 0)),
        ("bytes_acked", state.snd_una, reported.number("bytes_acked:")),
        (
            "delivered",
            state.delivered,
            reported.number("delivered:").map(|segments| segments * mss),
        ),
        (
            "retransmissions",
            state.retransmissions,
            reported.retransmissions(),
        ),
        (
            "snd_wnd",
            state.snd_wnd,
            reported.number("snd_wnd:").or(Some(state.snd_wnd)),
        ),
        ("flight", state.flight, Some(0)),
        ("state", state.state, Some(3)),
    ];
    for (name, ours, theirs) in figures {
        expect(
            Some(ours) == theirs,
            format!("{name}: {ours}, ss prints {theirs:?} in {}", reported.0),
        )?;
    }
    // The iterator reads the same values inside the kernel.
    let inside = lab.host("client")?.run(|| kernel.inspect(transfer.cookie))??;
    expect(
        u64::from(inside.cwnd_segments) * mss == state.cwnd,
        "cwnd from within",
    )?;
    expect(u64::from(inside.snd_wnd) == state.snd_wnd, "snd_wnd from within")?;
    expect(inside.snd_una == inside.snd_nxt, "all is acknowledged")?;
    expect(diagnostics.probe(u64::MAX).is_err(), "no such flow")?;
    transfer.end().map(drop)
}

/// The state in the last ACK's record of a flow equals the report of INET_DIAG while the flow is idle.
pub(crate) fn records_have_what_is_asked_for() -> TestResult {
    let lab = network("both = { rate = \"30Mbit/s\", delay = \"8ms\", queue = \"40kB\" }")?;
    let (mut kernel, mut diagnostics) = (load("hw_stood")?, diagnostics(&lab)?);
    let mut transfer = Transfer::connect(&lab, "hw_stood")?;
    let flow = Some(transfer.cookie);
    let all = kernel.subscribe(FlowEvent::Acked, Filter { flow, ..Filter::default() })?;
    let last = Duration::from_millis(30);
    let filtered = kernel.subscribe(
        FlowEvent::Acked,
        Filter { flow, interval: last, ..Filter::default() },
    )?;
    kernel.subscribe(FlowEvent::Sent, Filter { flow, ..Filter::default() })?;
    let mut records = Vec::new();
    transfer.begin(3_000_000)?;
    while transfer.read() < 3_000_000 {
        collect(&mut kernel, Duration::from_millis(100), &mut records)?;
    }
    collect(&mut kernel, Duration::from_millis(300), &mut records)?;
    let asked = diagnostics.probe(transfer.cookie)?.state;
    expect(
        asked.retransmissions > 0 && asked.flight == 0,
        format!("a hard life, and idle: {asked:?}"),
    )?;
    for id in [all, filtered] {
        let newest = records
            .iter()
            .rfind(|record| record.subscription == id)
            .ok_or("no record")?;
        let recorded = newest.state.ok_or("nobody looked")?;
        for ((name, recorded), (_, asked)) in recorded.variables().zip(asked.variables()) {
            expect(
                recorded == asked,
                format!("{name}: {recorded} in the record, {asked} by INET_DIAG"),
            )?;
        }
    }
    // Each record has the state of its own ACK, however many are read at a time.
    let acked = records.iter().filter(|record| record.subscription == all);
    let places = acked
        .filter_map(|record| Some((record.state?.snd_una, record.values[0])))
        .collect::<Vec<_>>();
    let own = places.windows(2).all(|pair| pair[1].0 - pair[0].0 == pair[1].1);
    expect(
        own && places.len() > 100,
        "a record's state is that of its own ACK",
    )?;
    // A running flow, seen at the place where its packets leave.
    let sent = records.iter().filter(|record| record.event == FlowEvent::Sent);
    let seen = sent.filter_map(|record| record.state).collect::<Vec<_>>();
    expect(
        seen.iter()
            .all(|state| state.smss == asked.smss && state.state == 3),
        "what is sent is seen",
    )?;
    expect(
        seen.iter().any(|state| state.flight > 20_000),
        "and what is under way",
    )?;
    let steps = seen.windows(2).all(|pair| pair[0].snd_una <= pair[1].snd_una);
    expect(steps, "what is acknowledged grows")?;
    transfer.end().map(drop)
}

pub(crate) fn live_sockets_are_reached() -> TestResult {
    let lab = network("both = { rate = \"30Mbit/s\", delay = \"2ms\" }")?;
    let (mut kernel, mut diagnostics) = (load("hw_reach")?, diagnostics(&lab)?);
    let mut transfer = Transfer::start(&lab, "cubic")?;
    let (flow, client) = (transfer.cookie, lab.host("client")?);
    transfer.wait_for(200_000)?;
    client.run(|| kernel.adopt(flow))??;
    expect(
        diagnostics.probe(flow)?.congestion_control == "hw_reach",
        "it was adopted",
    )?;
    client.run(|| kernel.set(flow, &Setting::WindowClamp(9)))??;
    wait_until("the clamp holds", || {
        diagnostics
            .probe(flow)
            .is_ok_and(|flow| flow.state.cwnd <= 9 * flow.state.smss)
    })?;
    expect(
        client.run(|| kernel.inspect(flow))??.clamp_segments == 9,
        "the clamp is set",
    )?;
    client.run(|| kernel.set(flow, &Setting::HighestPace(500_000)))??;
    client.run(|| kernel.set(flow, &Setting::MinTimeout(Duration::from_millis(50))))??;
    wait_until("the timeout shrinks", || {
        diagnostics
            .probe(flow)
            .is_ok_and(|flow| flow.state.rto < 150_000_000)
    })?;
    let unknown = client.run(|| kernel.set(flow, &Setting::CongestionControl("hw_none".to_owned())))?;
    expect(
        matches!(unknown, Err(KernelError::Flow { .. })),
        format!("{unknown:?}"),
    )?;
    let nobody = client.run(|| kernel.adopt(u64::MAX))?;
    expect(
        matches!(nobody, Err(KernelError::NoFlow(_))),
        format!("{nobody:?}"),
    )?;
    transfer.wait_for(100_000)?;

    transfer.hush()?; // otherwise its thread would read the end
    client.run(|| kernel.end_flow(flow))??;
    let mut stream = transfer.stream.try_clone()?;
    let error = stream
        .read(&mut [0; 1])
        .err()
        .and_then(|error| error.raw_os_error());
    expect(error == Some(103), format!("ECONNABORTED, not {error:?}"))
}

/// A process that reads all namespaces lists the flow with its owner; a process that reads only its own does
/// not list it.
pub(crate) fn flows_of_every_namespace_are_listed() -> TestResult {
    let lab = network("both = { rate = \"30Mbit/s\", delay = \"8ms\" }")?;
    let client = lab.host("client")?;
    // A namespace is found by its processes.
    let mut keeper = client.command("sleep")?.arg("60").spawn()?;
    let namespace = client.run(own_namespace)?;
    let transfer = Transfer::start(&lab, "reno")?;
    let cookie = transfer.cookie;
    expect(
        Diagnostics::open()?.probe(cookie).is_err(),
        "it is in no other namespace",
    )?;
    let mut all = Diagnostics::open_all()?;
    let flow = all.probe(cookie)?;
    let listed = all.flows()?.iter().any(|listed| listed.cookie == cookie);
    keeper.kill()?;
    keeper.wait()?;
    expect(listed, "it is listed")?;
    expect(
        Some(flow.namespace) == namespace && namespace != own_namespace(),
        format!("in {}", flow.namespace),
    )?;
    let mut owners = Owners::default();
    let pid = owners.find(flow.inode).map(|process| process.pid);
    expect(pid == Some(std::process::id()), format!("it is of {pid:?}"))?;
    transfer.end().map(drop)
}
