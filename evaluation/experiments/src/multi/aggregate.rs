//! Figures 7, 8 and 9: a second path that joins, and paths that take turns.

use std::time::Duration;

use hawser::lab::Lab;
use serde_json::json;

use super::network::{LAB, stage};
use crate::experiment::{Context, Outcome};
use crate::plot::{Axes, PlotLine, lines};
use crate::{Error, Report, Testbed, Transfer};

/// The duration of one point of a drawing, in seconds.
const POINT: f64 = 0.5;

fn wifi(is_up: bool) -> impl Fn(&Lab) -> Result<(), Error> + Send + 'static {
    move |lab| {
        let link = lab.link("wifi")?;
        Ok(if is_up { link.up() } else { link.down() }?)
    }
}

/// Returns the rate of each path over time, and of all together, in Mbit/s.
fn series(report: &Report) -> Vec<PlotLine> {
    let mut all: Vec<PlotLine> = Vec::new();
    let mut names = report.paths.clone();
    names.dedup();
    let mut total = PlotLine { name: "all".into(), points: Vec::new() };
    let mut last = (0.0, vec![0; report.paths.len()]);
    for path in &report.paths {
        if !all.iter().any(|line| line.name == *path) {
            all.push(PlotLine { name: path.clone(), points: Vec::new() });
        }
    }
    for moment in &report.moments {
        if moment.seconds - last.0 < POINT {
            continue;
        }
        let middle = f64::midpoint(moment.seconds, last.0);
        let rate = |bytes: u64| bytes as f64 * 8e-6 / (moment.seconds - last.0);
        let mut sum = 0;
        for line in &mut all {
            let of_line = |(path, _): &(&String, u64)| **path == line.name;
            let gained = moment
                .delivered
                .iter()
                .zip(&last.1)
                .map(|(now, before)| now - before);
            let gained: u64 = report
                .paths
                .iter()
                .zip(gained)
                .filter(of_line)
                .map(|(_, bytes)| bytes)
                .sum();
            sum += gained;
            line.points.push((middle, rate(gained)));
        }
        total.points.push((middle, rate(sum)));
        let mut delivered = moment.delivered.clone();
        delivered.resize(report.paths.len(), 0);
        last = (moment.seconds, delivered);
    }
    all.push(total);
    all
}

/// Returns the mean rate of each line between two times, in Mbit/s.
fn means(lines: &[PlotLine], from: f64, to: f64) -> serde_json::Map<String, serde_json::Value> {
    let mean = |line: &PlotLine| {
        let within: Vec<f64> = line
            .points
            .iter()
            .filter(|(x, _)| (from..to).contains(x))
            .map(|(_, y)| *y)
            .collect();
        within.iter().sum::<f64>() / within.len().max(1) as f64
    };
    lines
        .iter()
        .map(|line| (line.name.clone(), json!(mean(line))))
        .collect()
}

/// Downloads for `seconds` at the rate of the links. Bytes left at the end are ignored.
fn download(
    stage: &Testbed,
    carriers: [&str; 2],
    backup: bool,
    seconds: f64,
    bytes: u64,
    acts: &[(f64, bool)],
) -> Result<Report, Error> {
    let mut document = stage.document(&carriers)?;
    document.connections[0].backup = backup;
    stage.lab.link("wifi")?.down()?;
    let mut transfer = Transfer::new(document, bytes);
    transfer.timeout = Duration::from_secs_f64(4.0 * seconds + 60.0);
    for (at, is_up) in acts {
        transfer = transfer.act(Duration::from_secs_f64(*at), wifi(*is_up));
    }
    transfer.run(stage)
}

/// The pairs of carriers in the paper's order: cellular first, then WiFi joins.
const MIXES: [(&str, [&str; 2]); 4] = [
    ("tcp-tcp", ["tcp:wwan", "tcp:wlan"]),
    ("quic-quic", ["quic:wwan", "quic:wlan"]),
    ("tcp-quic", ["tcp:wwan", "quic:wlan"]),
    ("quic-tcp", ["quic:wwan", "tcp:wlan"]),
];

pub(crate) fn aggregate(context: &Context<'_>) -> Result<Outcome, Error> {
    let stage = stage()?;
    let join = if context.quick { 3.0 } else { 15.0 };
    let seconds = 2.0 * join;
    // The capacity of 5G alone until the join, and of both links afterwards.
    let bytes = ((170.0 * join + 340.0 * (seconds - join)) * 125_000.0) as u64;
    let mut outcome = Outcome::default();
    let mut figures = serde_json::Map::new();
    for (number, (name, carriers)) in MIXES.into_iter().enumerate() {
        (context.progress)(number, MIXES.len(), name);
        let report = download(&stage, carriers, false, seconds, bytes, &[(join, true)])?;
        let lines_of = series(&report);
        let (before, after) = (
            means(&lines_of, 2.0, join),
            means(&lines_of, join + 1.0, report.seconds - 1.0),
        );
        outcome.lines.push(format!(
            "{name:9}: {:6.1} Mbit/s over 5G alone, {:6.1} with WiFi, {} bytes twice, longest pause {:.0} ms",
            before["all"].as_f64().unwrap_or_default(),
            after["all"].as_f64().unwrap_or_default(),
            report.again,
            1e3 * report.longest_pause_after(0.0)
        ));
        let title = format!(
            "A second path at {join} s: {} over 5G, {} over WiFi",
            carriers[0], carriers[1]
        );
        let axes = Axes { title: &title, x: "seconds", y: "Mbit/s" };
        outcome.drawings.push((name.into(), lines(&axes, &lines_of)));
        figures.insert(
            name.into(),
            json!({ "carriers": carriers, "before": before, "after": after, "report": report }),
        );
    }
    outcome.figures = json!({ "joins_at": join, "bytes": bytes, "mixes": figures });
    outcome.configuration.push(("lab.toml".into(), LAB.into()));
    Ok(outcome)
}

pub(crate) fn switch(context: &Context<'_>) -> Result<Outcome, Error> {
    let stage = stage()?;
    let every = if context.quick { 2.0 } else { 15.0 };
    let seconds = 4.0 * every;
    // More than either link carries in its turns, so that the last turn is complete.
    let bytes = (200.0 * seconds * 125_000.0) as u64;
    let mut outcome = Outcome::default();
    let mut figures = serde_json::Map::new();
    for (number, (name, carriers)) in MIXES[..2].iter().enumerate() {
        (context.progress)(number, 2, name);
        let turns = [(every, true), (2.0 * every, false), (3.0 * every, true)];
        let report = download(&stage, *carriers, true, seconds, bytes, &turns)?;
        let lines_of = series(&report);
        outcome.lines.push(format!(
            "{name:9}: {:6.1} Mbit/s, {:6.1}, {:6.1}, {:6.1} in turns; longest pause {:.0} ms, {} bytes twice",
            means(&lines_of, 1.0, every)["all"].as_f64().unwrap_or_default(),
            means(&lines_of, every + 0.5, 2.0 * every)["all"].as_f64().unwrap_or_default(),
            means(&lines_of, 2.0 * every + 0.5, 3.0 * every)["all"].as_f64().unwrap_or_default(),
            means(&lines_of, 3.0 * every + 0.5, seconds)["all"].as_f64().unwrap_or_default(),
            1e3 * report.longest_pause_after(0.0),
            report.again
        ));
        let title = format!("WiFi when there is any, 5G as a backup, in turns of {every} s ({name})");
        let axes = Axes { title: &title, x: "seconds", y: "Mbit/s" };
        outcome.drawings.push(((*name).into(), lines(&axes, &lines_of)));
        figures.insert((*name).into(), json!({ "carriers": carriers, "report": report }));
    }
    outcome.figures = json!({ "turns_of_s": every, "bytes": bytes, "mixes": figures });
    outcome.configuration.push(("lab.toml".into(), LAB.into()));
    Ok(outcome)
}
