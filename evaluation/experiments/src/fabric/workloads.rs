//! `homa-workloads`: Homa's five workloads on 144 hosts of a leaf-spine network, over Homa, NDP and TCP.

use hawser::runs::Report;
use serde_json::{Value, json};

use super::{WORKLOADS, run};
use crate::Error;
use crate::experiment::{Context, Outcome};
use crate::plot::{Axes, PlotLine, lines};

const LOADS: [f64; 2] = [0.5, 0.8];
/// The bytes of a round trip at a host's rate, as in the paper: 9.7 kB.
const ROUND_TRIP: u64 = 9_700;
/// The length, in bytes, to which longer messages are cut.
const LONGEST: u64 = 4_000_000;
/// The number of bytes that each host sends, and the limit on its messages.
const BYTES: f64 = 40e6;
const MESSAGES: u64 = 2_000;
/// The number of priorities of the paper's switches.
const LEVELS: usize = 8;

/// Returns a workload's sizes with their shares of the messages.
fn sizes(text: &str) -> Vec<(f64, f64)> {
    let mut before = 0.0;
    let lines = text.lines().filter_map(|line| {
        let (bytes, upto) = line.split('#').next()?.trim().split_once(char::is_whitespace)?;
        Some((bytes.parse::<f64>().ok()?, upto.trim().parse::<f64>().ok()?))
    });
    let sizes = lines.map(|(bytes, upto)| {
        let share = upto - before;
        before = upto;
        (bytes.min(LONGEST as f64), share)
    });
    sizes.collect()
}

fn mean(sizes: &[(f64, f64)]) -> f64 {
    sizes.iter().map(|(bytes, share)| bytes * share).sum()
}

/// Returns the longest message of each priority of unscheduled bytes, the highest priority first (Homa,
/// section 3.4). The share of the eight priorities is that of unscheduled bytes in all bytes. Each of these
/// priorities carries the same number of unscheduled bytes.
fn cutoffs(sizes: &[(f64, f64)]) -> Vec<u64> {
    let unscheduled = |(bytes, share): &(f64, f64)| bytes.min(ROUND_TRIP as f64) * share;
    let all: f64 = sizes.iter().map(unscheduled).sum();
    let levels = (all / mean(sizes) * LEVELS as f64)
        .round()
        .clamp(1.0, LEVELS as f64 - 1.0) as usize;
    let mut cutoffs = Vec::new();
    let mut sum = 0.0;
    for one in sizes {
        sum += unscheduled(one);
        if sum >= all * (cutoffs.len() + 1) as f64 / levels as f64 && cutoffs.len() + 1 < levels {
            cutoffs.push(one.0 as u64);
        }
    }
    cutoffs.push(0x7fff_ffff);
    cutoffs
}

/// Returns a scenario of the paper's network: nine racks of sixteen hosts, four spines, 10 and 40 Gbit/s.
/// With the delays, the round trip of a full packet and its grant is the paper's 7.8 us. The links include
/// 250 ns of each switch and 1.5 us of each host.
fn scenario(transport: &str, workload: &str, sizes: &[(f64, f64)], load: f64, quick: bool) -> String {
    let (params, switch) = match transport {
        "homa" => {
            let cutoffs = cutoffs(sizes);
            let levels: Vec<String> = cutoffs
                .iter()
                .enumerate()
                .map(|(place, bytes)| format!("CUTOFF_{} = {bytes}", LEVELS - 1 - place))
                .collect();
            let scheduled = LEVELS - 1 - cutoffs.len();
            let degree = (scheduled + 1) as u64;
            let params = format!(
                "UNSCHEDULED = {ROUND_TRIP}, WINDOW = {ROUND_TRIP}, MAX_INCOMING = {}, FIFO_GRANT = 0, ALIKE = true, \
                 SCHEDULED = {scheduled}, LONGEST = {LONGEST}, {}",
                degree * ROUND_TRIP,
                levels.join(", ")
            );
            (params, "priorities = 8, buffer = \"5MB\"")
        }
        // TCP's messages are framed on connections that are open before the first message.
        "tcp" => (
            "OFFER_ECN = true".to_owned(),
            "buffer = \"5MB\", mark_above = \"97kB\"",
        ),
        _ => (
            format!("LONGEST = {LONGEST}, INITIAL_WINDOW = 8"),
            "priorities = 2, buffer = \"12kB\", trim_to = 64, spray = \"random\"",
        ),
    };
    let bytes = if quick { BYTES / 20.0 } else { BYTES };
    let count = ((bytes / mean(sizes)) as u64).clamp(10, if quick { MESSAGES / 20 } else { MESSAGES });
    format!(
        "name = \"{workload} at {load} over {transport}\"\n\
         duration = \"1min\"\n\
         program = \"{transport}\"\n\
         params = {{ {params} }}\n\
         slowdown = true\n\
         [topology]\n\
         kind = \"leaf-spine\"\n\
         leaves = 9\n\
         spines = 4\n\
         hosts = 16\n\
         host_link = {{ rate = \"10Gbit/s\", delay = \"875ns\" }}\n\
         core_link = {{ rate = \"40Gbit/s\", delay = \"250ns\" }}\n\
         host = {{ priorities = 8, device_queue = \"1500B\" }}\n\
         switch = {{ {switch} }}\n\
         [[flow]]\n\
         from = \"h[0-143]\"\n\
         to = \"h[0-143]\"\n\
         at = \"1ms\"\n\
         pairs = \"others\"\n\
         calls = {{ count = {count}, size_file = \"{workload}\", at_most = {LONGEST}, reply = 8, load = {load}, \
         arrivals = \"poisson\", connect = \"at-start\" }}\n"
    )
}

/// Returns the highest 99th percentile among the groups of the smaller half of the messages.
fn small_p99(report: &Report) -> Option<f64> {
    let slowdown = report.slowdown.as_ref()?;
    let (mut seen, mut highest) = (0, 0.0_f64);
    for group in &slowdown.by_size {
        if seen * 2 >= slowdown.all.count {
            break;
        }
        seen += group.count;
        highest = highest.max(group.p99);
    }
    Some(highest)
}

pub(crate) fn workloads(context: &Context<'_>) -> Result<Outcome, Error> {
    let mut outcome = Outcome::default();
    let mut figures = Vec::<Value>::new();
    let transports = ["homa", "ndp", "tcp"];
    let all = WORKLOADS.len() * LOADS.len() * transports.len();
    for (file, text) in WORKLOADS {
        let (workload, sizes) = (file.trim_end_matches(".cdf").to_uppercase(), sizes(text));
        for load in LOADS {
            let (mut medians, mut tails) = (Vec::new(), Vec::new());
            for transport in transports {
                (context.progress)(
                    figures.len(),
                    all,
                    &format!("{workload} at {load} over {transport}"),
                );
                let text = scenario(transport, file, &sizes, load, context.quick);
                let report = run(&text, context.seed)?;
                let (Some(slowdown), Some(small)) = (&report.slowdown, small_p99(&report)) else {
                    return Err("there is no slowdown".into());
                };
                let middle = |low: u64, high: u64| f64::midpoint(low as f64, high as f64).log10();
                let points = |figure: usize| {
                    let groups = slowdown.by_size.iter();
                    groups
                        .map(|group| {
                            (
                                middle(group.min_bytes, group.max_bytes),
                                [group.p50, group.p99][figure],
                            )
                        })
                        .collect()
                };
                medians.push(PlotLine { name: format!("{transport}, median"), points: points(0) });
                tails.push(PlotLine { name: format!("{transport}, 99th percentile"), points: points(1) });
                outcome.lines.push(format!(
                    "{workload} at {:.0} % over {transport}: {} messages, slowdown on average {:.2}, median {:.2}, 99th \
                     percentile {:.2}; of the smaller half at most {small:.2}",
                    load * 100.0,
                    slowdown.all.count,
                    slowdown.all.mean,
                    slowdown.all.p50,
                    slowdown.all.p99
                ));
                figures.push(json!({
                    "workload": workload, "load": load, "transport": transport, "slowdown": slowdown,
                    "smaller_half_p99": small,
                }));
                let name = format!("{workload}-{:.0}-{transport}.toml", load * 100.0);
                outcome.configuration.push((name, text));
            }
            medians.extend(tails);
            let axes = Axes {
                title: &format!("{workload} at {:.0} %: slowdown by size", load * 100.0),
                x: "bytes of the message, powers of ten",
                y: "times alone",
            };
            let name = format!("{}-{:.0}", workload.to_lowercase(), load * 100.0);
            outcome.drawings.push((name, lines(&axes, &medians)));
        }
    }
    outcome.figures = json!({ "workloads": figures });
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_priority_has_as_many_unscheduled_bytes() {
        // All bytes are unscheduled: seven priorities, if there are enough sizes.
        let even: Vec<(f64, f64)> = (1..=70)
            .map(|size| (f64::from(size), 1.0 / f64::from(size) / 10.0))
            .collect();
        assert_eq!(cutoffs(&even), [10, 20, 30, 40, 50, 60, 0x7fff_ffff]);
        assert_eq!(
            cutoffs(&[(100.0, 0.99), (9_900.0, 0.01)]),
            [100, 9900, 0x7fff_ffff]
        );
        // An eighth of the bytes is unscheduled: one priority.
        assert_eq!(cutoffs(&[(77_600.0, 1.0)]), [0x7fff_ffff]);
    }

    #[test]
    fn sizes_are_read_from_the_file() {
        assert_eq!(sizes("# a b\n10 0.5\n20 1 # c\n"), [(10.0, 0.5), (20.0, 0.5)]);
        assert_eq!(mean(&sizes(WORKLOADS[0].1)).round(), 188.0);
    }
}
