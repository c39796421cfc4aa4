//! `mtp-quiclite-hol`: messages of 32 KB and of 1 MB alternate on one connection, over QUIC-Lite's streams
//! and over TCP's single one.

use std::fmt::Write as _;

use hawser::runs::Report;
use hawser_sim::rng::Rng;
use hawser_sim::slowdown;
use serde_json::json;

use super::run_with;
use crate::Error;
use crate::experiment::{Context, Outcome};
use crate::plot::{Axes, Group, bars};

/// The sizes of the small and of the large messages, in bytes.
pub(crate) const SIZES: [u64; 2] = [32 << 10, 1 << 20];

/// The offered loads, as shares of the link without headers.
pub(crate) const LOADS: [f64; 3] = [0.5, 0.7, 0.9];

const BITS_PER_SECOND: f64 = 10e9;

const TRANSPORTS: [(&str, &str, &str); 2] =
    [("QUIC-Lite", "quic-lite", ""), ("TCP", "tcp", "OFFER_ECN = true")];

/// Returns small and large messages in turn, at random times, for a link of this rate: each as its time in
/// nanoseconds and its bytes. The loop is open: no message waits for another.
pub(crate) fn in_turn(pairs: u64, load: f64, bits_per_second: f64, seed: u64) -> Vec<(u64, u64)> {
    let bits = SIZES.iter().sum::<u64>() as f64 * 8.0;
    let interval_ns = bits / (load * bits_per_second) * 1e9 / 2.0;
    let mut rng = Rng::new(seed, "mtp-quiclite-hol");
    let mut at_ns = 0.0;
    let message = |turn| {
        at_ns -= (1.0 - rng.fraction()).ln() * interval_ns;
        (at_ns as u64, SIZES[(turn % 2) as usize])
    };
    (0..2 * pairs).map(message).collect()
}

fn trace(pairs: u64, load: f64, seed: u64) -> String {
    let mut text = String::new();
    for (at, bytes) in in_turn(pairs, load, BITS_PER_SECOND, seed) {
        let _ = writeln!(text, "{at}ns h0 h1 {bytes}");
    }
    text
}

/// Returns a scenario with a client and a server, each at a switch of its own. The link between the switches
/// is the bottleneck. Packets are marked when more than 97 kB wait for it.
fn scenario((program, params): (&str, &str)) -> String {
    format!(
        "name = \"two sizes over {program}\"\n\
         duration = \"10min\"\n\
         program = \"{program}\"\n\
         params = {{ {params} }}\n\
         slowdown = true\n\
         [topology]\n\
         kind = \"dumbbell\"\n\
         hosts = 1\n\
         host_link = {{ rate = \"40Gbit/s\", delay = \"5us\" }}\n\
         core_link = {{ rate = \"10Gbit/s\", delay = \"5us\" }}\n\
         switch = {{ buffer = \"5MB\", mark_above = \"97kB\" }}\n\
         [[flow]]\n\
         from = \"h0\"\n\
         to = \"h1\"\n\
         port = 4433\n\
         at = \"1s\"\n\
         calls = {{ trace = \"messages.txt\", reply = 16, connect = \"at-start\" }}\n"
    )
}

fn run(transport: (&str, &str), trace: &str, seed: u64) -> Result<Report, Error> {
    run_with(&scenario(transport), seed, &[("messages.txt", trace)])
}

/// Returns the time that a message of each size takes alone, in seconds. The report's slowdowns are relative
/// to it.
fn alone(transport: (&str, &str), seed: u64) -> Result<[f64; 2], Error> {
    let [small, large] = SIZES;
    let report = run(
        transport,
        &format!("0ms h0 h1 {small}\n20ms h0 h1 {large}\n"),
        seed,
    )?;
    let times = report.flows.first().and_then(|flow| flow.times);
    let times = times.ok_or("there are no times")?;
    let mut alone = [times.min, times.max];
    for (alone, bytes) in alone.iter_mut().zip(SIZES) {
        *alone /= of_size(&report, bytes)?.mean;
    }
    Ok(alone)
}

/// Returns the slowdown of messages of this size.
fn of_size(report: &Report, bytes: u64) -> Result<slowdown::Group, Error> {
    let groups = report.slowdown.iter().flat_map(|slowdown| &slowdown.by_size);
    let mut of_size = groups.filter(|group| (group.min_bytes, group.max_bytes) == (bytes, bytes));
    of_size
        .next()
        .copied()
        .ok_or_else(|| "there is no slowdown of this size".into())
}

pub(crate) fn streams(context: &Context<'_>) -> Result<Outcome, Error> {
    let pairs = if context.quick { 30 } else { 2000 };
    let mut outcome = Outcome::default();
    let (mut figures, mut groups) = (Vec::new(), Vec::new());
    for (step, load) in LOADS.into_iter().enumerate() {
        let messages = trace(pairs, load, context.seed);
        let (mut group, mut means) = (Vec::new(), Vec::new());
        for (name, program, params) in TRANSPORTS {
            let percent = load * 100.0;
            (context.progress)(step, LOADS.len(), &format!("{name} at {percent:.0} %"));
            let transport = (program, params);
            let report = run(transport, &messages, context.seed)?;
            for (alone, bytes) in alone(transport, context.seed)?.into_iter().zip(SIZES) {
                let of_size = of_size(&report, bytes)?;
                let [alone, mean, p50, p99] =
                    [1.0, of_size.mean, of_size.p50, of_size.p99].map(|times| times * alone * 1e6);
                outcome.lines.push(format!(
                    "{bytes} bytes at {percent:.0} % over {name}: alone {alone:.0} us; mean {mean:.0} us, median {p50:.0} \
                     us, 99th percentile {p99:.0} us"
                ));
                figures.push(json!({
                    "load": load, "transport": name, "bytes": bytes, "alone_us": alone, "mean_us": mean,
                    "p50_us": p50, "p99_us": p99,
                }));
                if bytes == SIZES[0] {
                    means.push(mean);
                    group.push((mean, mean, p99));
                }
            }
            if step == 0 {
                let file = format!("{program}.toml");
                outcome.configuration.push((file, scenario(transport)));
            }
        }
        outcome.lines.push(format!(
            "{} bytes at {:.0} %: TCP takes {:.1} times as long as QUIC-Lite on average",
            SIZES[0],
            load * 100.0,
            means[1] / means[0]
        ));
        outcome
            .configuration
            .push((format!("messages-{:.0}.txt", load * 100.0), messages));
        groups.push(Group { name: format!("{:.0} %", load * 100.0), bars: group });
    }
    let axes = Axes {
        title: "32 KB beside messages of 1 MB on one connection: mean, and up to the 99th percentile",
        x: "load of the line",
        y: "microseconds",
    };
    let names = TRANSPORTS.map(|(name, _, _)| name.to_owned());
    outcome
        .drawings
        .push(("head-of-line".into(), bars(&axes, &names, &groups)));
    outcome.figures = json!({ "messages": figures });
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_take_turns_and_their_bits_are_the_share_of_the_line() {
        let text = trace(1000, 0.5, 1);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with(" h0 h1 32768") && lines[1].ends_with(" h0 h1 1048576"));
        assert_eq!(lines.len(), 2000);
        let last = lines[1999]
            .split("ns")
            .next()
            .and_then(|at| at.parse::<f64>().ok());
        // 1000 times 8,650,752 bits are half of the link's capacity in 1.73 s.
        let share = 1.73015 / (last.expect("a time") / 1e9);
        assert!((0.9..1.1).contains(&share), "{share}");
    }
}
