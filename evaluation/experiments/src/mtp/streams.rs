//! `mtp-quiclite-hol-lab`: messages of 32 KB and of 1 MB alternate on one connection between two processes
//! over a veth of 200 Mbit/s. The connection has QUIC-Lite's streams, or the single stream of TCP in MTP.
//!
//! Rounds alternate between the two, every second one in reverse order. The result is their ratio in the same
//! round.

use std::time::Duration;

use hawser::host::netns::Netlink;
use hawser::lab::{Lab, Spec};
use serde_json::json;

use super::latency::{HOSTS, LAB, STACKS, exchange, load, tc};
use super::messages::{END, ProcessRole};
use crate::Error;
use crate::experiment::{Context, Outcome, Spread};
use crate::fabric::{LOADS, SIZES, in_turn};
use crate::plot::{Axes, Group, bars};

/// A carrier of messages.
struct MessageCarrier {
    name: &'static str,
    program: &'static str,
    has_streams: bool,
}

const CARRIERS: [MessageCarrier; 2] = [
    MessageCarrier { name: "QUIC-Lite", program: "quic-lite", has_streams: true },
    MessageCarrier { name: "TCP in MTP", program: "tcp", has_streams: false },
];
/// The rate of the link for whole frames, in bits per second.
const RATE: u64 = 200_000_000;
/// The size of the link's queue, in bytes: 4 ms.
const QUEUE: u64 = 100_000;

/// The mean and the 99th percentile of the messages of one size in one run, in microseconds.
#[derive(Clone, Copy)]
struct MessageTimes {
    mean: f64,
    p99: f64,
}

pub(crate) fn streams(context: &Context<'_>) -> Result<Outcome, Error> {
    let pairs = if context.quick { 5 } else { 200 };
    let rounds = context.times(5);
    let total = LOADS.len() * rounds * CARRIERS.len();
    let load_before = load();
    let lab = Lab::up(&Spec::parse(LAB)?)?;
    for host in HOSTS {
        narrow(&lab, host)?;
    }
    let mut outcome = Outcome::default();
    let (mut rows, mut groups) = (Vec::new(), Vec::new());
    for (number, share) in LOADS.into_iter().enumerate() {
        let mut seen: [Vec<[MessageTimes; 2]>; CARRIERS.len()] = Default::default();
        for round in 0..rounds {
            let due = in_turn(pairs, share, RATE as f64, context.seed + round as u64);
            let mut order: Vec<usize> = (0..CARRIERS.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for (step, place) in order.into_iter().enumerate() {
                let carrier = &CARRIERS[place];
                let done = (number * rounds + round) * CARRIERS.len() + step;
                (context.progress)(
                    done,
                    total,
                    &format!("{} at {:.0} %", carrier.name, share * 100.0),
                );
                let run = run(&lab, carrier, &due);
                seen[place].push(run.map_err(|error| format!("{}: {error}", carrier.name))?);
            }
        }
        let (mut bars, name) = (Vec::new(), format!("{:.0} %", share * 100.0));
        for (size, bytes) in SIZES.into_iter().enumerate() {
            let spread = |place: usize, of: fn(&MessageTimes) -> f64| {
                Spread::from_values(
                    seen[place]
                        .iter()
                        .map(|run: &[MessageTimes; 2]| of(&run[size]))
                        .collect(),
                )
            };
            let ratios = seen[1].iter().zip(&seen[0]);
            let ratios = Spread::from_values(
                ratios
                    .map(|(tcp, quic)| tcp[size].mean / quic[size].mean)
                    .collect(),
            );
            outcome.lines.push(format!(
                "{bytes} bytes at {name}: TCP takes {:.1} times as long as QUIC-Lite on average ({:.1} to {:.1})",
                ratios.median, ratios.min, ratios.max
            ));
            for (place, carrier) in CARRIERS.iter().enumerate() {
                let (mean, p99) = (spread(place, |seen| seen.mean), spread(place, |seen| seen.p99));
                let name = carrier.name;
                outcome.lines.push(format!(
                    "  {name:12} mean {:9.0} us, 99th percentile {:9.0} us",
                    mean.median, p99.median
                ));
                if bytes == SIZES[0] {
                    bars.push((mean.median, mean.min, mean.max));
                }
                rows.push(json!({
                    "load": share, "bytes": bytes, "carrier": name, "mean_us": mean, "p99_us": p99,
                    "tcp_to_quic_lite": ratios,
                }));
            }
        }
        groups.push(Group { name, bars });
    }
    let axes = Axes {
        title: "32 KB beside messages of 1 MB on one connection, in the lab: means of runs",
        x: "load of the line",
        y: "microseconds",
    };
    let names = CARRIERS.map(|carrier| carrier.name.to_owned());
    let drawing = bars(&axes, &names, &groups);
    outcome.drawings.push(("head-of-line".into(), drawing));
    outcome.figures = json!({
        "rows": rows, "rounds": rounds, "pairs": pairs, "rate": RATE, "queue_bytes": QUEUE,
        "load": { "before": load_before, "after": load() }, "debug_assertions": cfg!(debug_assertions),
    });
    outcome.configuration.push(("lab.toml".into(), LAB.into()));
    Ok(outcome)
}

/// Gives a host's egress its rate and its queue, by the kernel's HTB (`tc-htb(8)`).
fn narrow(lab: &Lab, host: &str) -> Result<(), Error> {
    // Without segmentation offload, frames have the size that they have on a cable.
    lab.host(host)?
        .run(|| Netlink::open()?.set_segmentation("eth0", false))??;
    let limits = [
        "qdisc add dev eth0 root handle 1: htb default 1".to_owned(),
        format!("class add dev eth0 parent 1: classid 1:1 htb rate {RATE}bit burst 3k cburst 3k"),
        format!("qdisc add dev eth0 parent 1:1 bfifo limit {QUEUE}"),
    ];
    limits.iter().try_for_each(|limit| tc(lab, host, limit))
}

/// Runs one client, and returns the results for the messages of each size.
fn run(lab: &Lab, carrier: &MessageCarrier, due: &[(u64, u64)]) -> Result<[MessageTimes; 2], Error> {
    let end = |place: usize, due| ProcessRole {
        program: carrier.program.into(),
        has_streams: carrier.has_streams,
        own: STACKS[place].into(),
        due,
    };
    let all = due.iter().map(|(at, bytes)| (*at, *bytes as usize));
    let client = end(0, Some((STACKS[1].into(), all.collect())));
    let made = exchange(lab, END, &end(1, None), &client)?;
    let seen = SIZES.map(|bytes| {
        let of_size = due
            .iter()
            .zip(&made.times)
            .filter(|((_, size), _)| *size == bytes);
        summed(of_size.map(|(_, nanos)| Duration::from_nanos(*nanos)).collect())
    });
    match seen {
        [Some(small), Some(large)] => Ok([small, large]),
        _ => Err("no message was measured".into()),
    }
}

/// Summarizes the times. The 99th percentile is the smallest time that 99 % of them do not exceed.
fn summed(mut times: Vec<Duration>) -> Option<MessageTimes> {
    times.sort_unstable();
    let rank = (times.len() * 99).div_ceil(100).checked_sub(1)?;
    let mean = times.iter().sum::<Duration>().as_secs_f64() / times.len() as f64;
    Some(MessageTimes { mean: mean * 1e6, p99: times[rank].as_secs_f64() * 1e6 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_percentile_are_those_of_the_times() {
        let times = (1..=200).rev().map(Duration::from_micros).collect();
        let seen = summed(times).expect("times");
        assert!((seen.mean - 100.5).abs() < 1e-6 && (seen.p99 - 198.0).abs() < 1e-6);
        assert!(summed(Vec::new()).is_none());
    }
}
