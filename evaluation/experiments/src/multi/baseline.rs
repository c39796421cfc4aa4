//! Figures 5 and 10: the cost of a session over one link, compared with the same carrier without a session.

use serde_json::json;

use super::network::{DIRECTIONS, LAB, LINKS, bare, session, stage};
use crate::experiment::{Context, Outcome, Spread};
use crate::plot::{Axes, Group, bars};
use crate::{Error, opening};

/// The paper's small transfer, in bytes.
const SMALL: u64 = 25_000;

pub(crate) fn baseline(context: &Context<'_>) -> Result<Outcome, Error> {
    let stage = stage()?;
    let times = context.times(10);
    let mut outcome = Outcome::default();
    let mut rows = Vec::new();
    let kinds = ["TCP bare", "TCP session", "QUIC bare", "QUIC session"].map(str::to_owned);
    let mut drawn: [Vec<Group>; 2] = [Vec::new(), Vec::new()];
    let total = LINKS.len() * 2;
    for (number, (interface, name, rates)) in LINKS.into_iter().enumerate() {
        let mut groups = DIRECTIONS
            .map(|(_, word)| [0, 1].map(|_| Group { name: format!("{name} {word}"), bars: Vec::new() }));
        for (place, transport) in ["tcp", "quic"].into_iter().enumerate() {
            (context.progress)(2 * number + place, total, &format!("{transport} over {name}"));
            let carrier = format!("{transport}:{interface}");
            let mut opened = Vec::new();
            for _ in 0..times {
                opened.push(1e3 * opening(&stage, stage.document(&[&carrier])?)?.first);
            }
            let opened = Spread::from_values(opened);
            outcome.lines.push(format!(
                "{name:9} {transport:5} open     {:8.2} ms",
                opened.median
            ));
            rows.push(json!({ "link": name, "transport": transport, "open_ms": opened }));
            for (index, (direction, word)) in DIRECTIONS.into_iter().enumerate() {
                let large = large(context.quick, rates[index]);
                let mut seen = [(); 4].map(|()| Vec::new());
                for _ in 0..times {
                    // The two alternate, so that other load on the machine affects both alike.
                    seen[0].push(1e3 * bare(&stage, &carrier, SMALL, direction)?.seconds);
                    seen[1].push(1e3 * session(&stage, &[&carrier], "ecf", SMALL, direction)?.seconds);
                    seen[2].push(bare(&stage, &carrier, large, direction)?.rate() / 1e6);
                    seen[3].push(session(&stage, &[&carrier], "ecf", large, direction)?.rate() / 1e6);
                }
                let [small_bare, small_session, bare, session] = seen.map(Spread::from_values);
                outcome.lines.push(format!(
                    "{name:9} {transport:5} {word} 25 kB {:8.2} ms bare, {:8.2} ms session; {} MB {:7.1} Mbit/s bare, \
                     {:7.1} session ({:.3})",
                    small_bare.median, small_session.median, large / 1_000_000, bare.median, session.median,
                    session.median / bare.median
                ));
                rows.push(json!({
                    "link": name, "transport": transport, "direction": word, "bytes": large,
                    "small_ms": { "bare": small_bare, "session": small_session },
                    "mbit_per_second": { "bare": bare, "session": session },
                    "ratio": session.median / bare.median,
                }));
                for (spread, chart) in [(small_bare, 0), (small_session, 0), (bare, 1), (session, 1)] {
                    groups[index][chart]
                        .bars
                        .push((spread.median, spread.min, spread.max));
                }
            }
        }
        for [small, large] in groups {
            drawn[0].push(small);
            drawn[1].push(large);
        }
    }
    let [small, large] = drawn;
    let small_axes = Axes { title: "25 kB, connection included", x: "", y: "ms" };
    let large_axes = Axes { title: "Throughput of long transfers", x: "", y: "Mbit/s" };
    outcome
        .drawings
        .push(("small".into(), bars(&small_axes, &kinds, &small)));
    outcome
        .drawings
        .push(("throughput".into(), bars(&large_axes, &kinds, &large)));
    outcome.figures = json!({ "iterations": times, "rows": rows });
    outcome.configuration.push(("lab.toml".into(), LAB.into()));
    Ok(outcome)
}

/// Returns the paper's 256 MB, or the bytes of about five seconds on a slower link; in quick mode, of one
/// second.
fn large(quick: bool, mbits: u64) -> u64 {
    let second = mbits * 125_000;
    if quick {
        second.min(64_000_000)
    } else {
        (5 * second).min(256_000_000)
    }
}
