//! `ndp-incast`: many hosts send to one at the same time, and each of 432 hosts sends to another one.

use hawser::runs::Report;
use serde_json::{Value, json};

use super::run;
use crate::Error;
use crate::experiment::{Context, Outcome};
use crate::plot::{Axes, PlotLine, lines};

/// The number of ports of a switch. A fat tree of such switches has 432 hosts.
const PORTS: usize = 12;
const HOSTS: usize = PORTS * PORTS * PORTS / 4;
const BYTES: u64 = 135_000;
const LONG: u64 = 4_000_000;
const RATE: f64 = 10e9;
/// The bytes of a packet, and of its headers: IPv4's and NDP's (IPv6 is not used).
const PACKET: f64 = 9000.0;
const HEADERS: f64 = 20.0 + 32.0;

fn scenario(flow: &str) -> String {
    format!(
        "name = \"NDP\"\n\
         duration = \"1min\"\n\
         idle_packets = 0\n\
         program = \"ndp\"\n\
         params = {{ LONGEST = {LONG} }}\n\
         [topology]\n\
         kind = \"fat-tree\"\n\
         ports = {PORTS}\n\
         host_link = {{ rate = \"10Gbit/s\", delay = \"500ns\" }}\n\
         core_link = {{ rate = \"10Gbit/s\", delay = \"500ns\" }}\n\
         host = {{ mtu = 9000, priorities = 2 }}\n\
         switch = {{ priorities = 2, buffer = \"72kB\", trim_to = 64, \
         return_to_sender = true, spray = \"round-robin\" }}\n\
         {flow}"
    )
}

/// Returns the time, in seconds, that this many bytes take on a link that is never idle.
fn ideal(bytes: f64) -> f64 {
    bytes * PACKET / (PACKET - HEADERS) * 8.0 / RATE
}

/// Returns the numbers of trimmed and of lost packets.
fn fates(report: &Report) -> (u64, u64) {
    let links = &report.links;
    (
        links.iter().map(|link| link.trimmed).sum(),
        links.iter().flat_map(|link| link.dropped.values()).sum(),
    )
}

/// Pairs each host with the one that is half of all hosts and a few further away, so that every path crosses
/// the core.
fn permutation(seed: u64) -> String {
    let away = HOSTS / 2 + (seed % 97) as usize;
    let list = |shift: usize| -> String {
        let names: Vec<String> = (0..HOSTS)
            .map(|host| format!("\"h{}\"", (host + shift) % HOSTS))
            .collect();
        names.join(", ")
    };
    scenario(&format!(
        "[[flow]]\nfrom = [{}]\nto = [{}]\npairs = \"in-order\"\ncalls = {{ size = {LONG}, reply = 8 }}\n",
        list(0),
        list(away)
    ))
}

fn last(report: &Report) -> f64 {
    let ends = report.flows.iter().filter_map(|flow| flow.times);
    ends.map(|times| times.max).fold(0.0, f64::max)
}

pub(crate) fn incast(context: &Context<'_>) -> Result<Outcome, Error> {
    let senders: &[usize] = if context.quick {
        &[8, 32]
    } else {
        &[1, 8, 32, 64, 128, 256, HOSTS - 1]
    };
    let mut outcome = Outcome::default();
    let (mut figures, mut measured, mut ideals) = (Vec::<Value>::new(), Vec::new(), Vec::new());
    for (step, senders) in senders.iter().enumerate() {
        (context.progress)(step, 8, &format!("{senders} to 1"));
        let text = scenario(&format!(
            "[[flow]]\nfrom = \"h[1-{senders}]\"\nto = \"h0\"\ncalls = {{ size = {BYTES}, reply = 8 }}\n"
        ));
        let report = run(&text, context.seed)?;
        let (took, best) = (last(&report), ideal(*senders as f64 * BYTES as f64));
        let (cut, lost) = fates(&report);
        outcome.lines.push(format!(
            "{senders} to 1, {BYTES} bytes each: {:.3} ms, {:.1} % more than the line needs ({cut} packets cut, {lost} \
             lost)",
            took * 1e3,
            (took / best - 1.0) * 100.0
        ));
        figures.push(json!({
            "senders": senders, "bytes": BYTES, "seconds": took, "ideal_seconds": best, "cut": cut, "lost": lost,
        }));
        measured.push((*senders as f64, took * 1e3));
        ideals.push((*senders as f64, best * 1e3));
        if *senders == 32 {
            outcome.configuration.push(("incast.toml".into(), text));
        }
    }
    (context.progress)(7, 8, "a permutation");
    let text = permutation(context.seed);
    let report = run(&text, context.seed)?;
    let times = report.flows.iter().filter_map(|flow| flow.times);
    let shares: Vec<f64> = times.map(|times| ideal(LONG as f64) / times.max).collect();
    let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    let lowest = shares.iter().copied().fold(1.0, f64::min);
    let (cut, lost) = fates(&report);
    outcome.lines.push(format!(
        "permutation of {HOSTS} hosts, {LONG} bytes each: {:.1} % of the lines used, the slowest {:.1} % ({cut} packets \
         cut, {lost} lost)",
        mean * 100.0,
        lowest * 100.0
    ));
    outcome.configuration.push(("permutation.toml".into(), text));
    let axes = Axes {
        title: "Incast over NDP: the last of all is complete",
        x: "senders",
        y: "ms",
    };
    let curves = [("NDP", measured), ("the line alone", ideals)]
        .map(|(name, points)| PlotLine { name: name.into(), points });
    outcome.drawings.push(("incast".into(), lines(&axes, &curves)));
    outcome.figures = json!({
        "incast": figures,
        "permutation": { "hosts": HOSTS, "bytes": LONG, "utilisation_mean": mean, "utilisation_min": lowest,
                         "cut": cut, "lost": lost },
    });
    Ok(outcome)
}
