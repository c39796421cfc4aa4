//! Figures 6 and 11: three connections, and two, under the paper's round robin and under ECF.

use hawser::session::Opening;
use serde_json::json;

use super::network::{DIRECTIONS, LAB, LINKS, session, stage};
use crate::experiment::{Context, Outcome, Spread};
use crate::plot::{Axes, Group, bars};
use crate::{Error, opening};

const SMALL: u64 = 25_000;

pub(crate) fn three(context: &Context<'_>) -> Result<Outcome, Error> {
    let stage = stage()?;
    let times = context.times(5);
    let large = if context.quick { 32_000_000 } else { 256_000_000 };
    let mut outcome = Outcome::default();
    let (mut rows, mut groups) = (Vec::new(), Vec::new());
    // The paper's legend: T or Q for each of Ethernet, WiFi and 5G, and pairs without 5G (its Figure 11).
    let mut mixes = vec!["TT", "QQ", "TQ", "QT", "TTT", "QQQ"];
    if !context.quick {
        mixes.extend(["TTQ", "TQT", "QTT", "QQT", "QTQ", "TQQ"]);
    }
    for (number, mix) in mixes.iter().enumerate() {
        (context.progress)(number, mixes.len(), mix);
        let carriers: Vec<String> = mix
            .chars()
            .zip(LINKS)
            .map(|(letter, (interface, ..))| {
                format!("{}:{interface}", if letter == 'T' { "tcp" } else { "quic" })
            })
            .collect();
        let carriers: Vec<&str> = carriers.iter().map(String::as_str).collect();
        let mut opened = Vec::new();
        for _ in 0..times {
            let mut document = stage.document(&carriers)?;
            document.session.opening = Opening::Sequential;
            opened.push(1e3 * opening(&stage, document)?.all);
        }
        let opened = Spread::from_values(opened);
        let mut group = Group { name: (*mix).to_owned(), bars: Vec::new() };
        for (direction, word) in DIRECTIONS {
            let mut figures = serde_json::Map::new();
            for scheduler in ["rr", "ecf"] {
                let (mut small, mut fast) = (Vec::new(), Vec::new());
                for _ in 0..times {
                    small.push(1e3 * session(&stage, &carriers, scheduler, SMALL, direction)?.seconds);
                    fast.push(session(&stage, &carriers, scheduler, large, direction)?.rate() / 1e6);
                }
                let (small, fast) = (Spread::from_values(small), Spread::from_values(fast));
                outcome.lines.push(format!(
                    "{mix:3} {word} {scheduler:3}: open {:7.2} ms, 25 kB {:7.2} ms, {:7.1} Mbit/s",
                    opened.median, small.median, fast.median
                ));
                group.bars.push((fast.median, fast.min, fast.max));
                figures.insert(
                    scheduler.into(),
                    json!({ "small_ms": small, "mbit_per_second": fast }),
                );
            }
            rows.push(json!({ "mix": mix, "direction": word, "open_ms": opened, "schedulers": figures }));
        }
        groups.push(group);
    }
    let kinds = ["Rx round robin", "Rx ECF", "Tx round robin", "Tx ECF"].map(str::to_owned);
    let axes = Axes {
        title: "Two and three connections over Ethernet, WiFi, 5G (T: TCP, Q: QUIC)",
        x: "",
        y: "Mbit/s",
    };
    outcome
        .drawings
        .push(("throughput".into(), bars(&axes, &kinds, &groups)));
    outcome.figures = json!({ "iterations": times, "bytes": large, "rows": rows });
    outcome.configuration.push(("lab.toml".into(), LAB.into()));
    Ok(outcome)
}
