//! Figures 9 and 10: throughput and window over time, and the total bytes transferred.

use serde_json::{Value, json};

use super::run::Run;
use crate::experiment::Outcome;
use crate::plot::{Axes, Group, PlotLine, bars, lines};

/// The largest number of points of a line.
const POINTS: usize = 300;

/// Draws Figure 9 for the runs over one path: throughput and window over time.
pub(super) fn figure_9(outcome: &mut Outcome, title: &str, name: &str, runs: &[Run]) {
    let over_time = |of: &dyn Fn(&Run, f64, f64) -> f64| -> Vec<PlotLine> {
        runs.iter()
            .map(|run| PlotLine { name: run.contender.clone(), points: points(run, of) })
            .collect()
    };
    let throughput = over_time(&|run, from, to| run.rate(from, to));
    let axes = Axes { title: &format!("Throughput, {title}"), x: "seconds", y: "Mbit/s" };
    outcome
        .drawings
        .push((format!("{name}-throughput"), lines(&axes, &throughput)));
    let windows = over_time(&|run, _, to| run.at(to).window as f64 / 1448.0);
    let axes = Axes {
        title: &format!("Congestion window, {title}"),
        x: "seconds",
        y: "segments of 1448 bytes",
    };
    outcome
        .drawings
        .push((format!("{name}-window"), lines(&axes, &windows)));
}

/// Divides the run's time into equal parts, and returns a value for each.
fn points(run: &Run, of: &dyn Fn(&Run, f64, f64) -> f64) -> Vec<(f64, f64)> {
    let parts = run.samples.len().min(POINTS);
    let each = run.seconds() / parts.max(1) as f64;
    (0..parts)
        .map(|part| (part as f64 * each, (part + 1) as f64 * each))
        .map(|(from, to)| (to, of(run, from, to)))
        .collect()
}

/// Draws Figure 10: total gigabytes, with a group for each path and a bar for each contender.
pub(super) fn figure_10(outcome: &mut Outcome, title: &str, name: &str, groups: &[(String, Vec<Run>)]) {
    let kinds: Vec<String> = groups
        .first()
        .map(|(_, runs)| runs.iter().map(|run| run.contender.clone()).collect())
        .unwrap_or_default();
    let group = |(name, runs): &(String, Vec<Run>)| Group {
        name: name.clone(),
        bars: runs
            .iter()
            .map(|run| run.total() as f64 / 1e9)
            .map(|total| (total, total, total))
            .collect(),
    };
    let axes = Axes { title, x: "", y: "GB" };
    outcome.drawings.push((
        name.into(),
        bars(&axes, &kinds, &groups.iter().map(group).collect::<Vec<_>>()),
    ));
}

/// Adds a run's line for people, and returns its figures. Drops at start-up are those of the first `start`
/// seconds.
pub(super) fn row(outcome: &mut Outcome, run: &Run, start: f64) -> Value {
    let [whole, settled] = run.rates();
    let [early, drops] = run.dropped(start);
    let path = &run.path;
    let theory = path.product() as f64 * 1448.0 / 1500.0;
    outcome.lines.push(format!(
        "{:>3} ms, buffer {:<4} {:8} {whole:6.1} Mbit/s, {settled:6.1} in the second half of {:.0} s; {:6.2} GB; {early} \
         packets lost in the first {start:.0} s, {drops} in all; window {:.3} of the product",
        path.round_trip_ms, path.buffer, run.contender, run.seconds(), run.total() as f64 / 1e9,
        run.settled_window() / theory
    ));
    let overrun = run.at(f64::MAX).overrun;
    if overrun > 0 {
        outcome.lines.push(format!(
            "    this machine was too slow for {overrun} packets more: do not trust that"
        ));
    }
    json!({
        "overrun": overrun,
        "contender": run.contender, "path": path, "queue_bytes": path.queue(), "seconds": run.seconds(),
        "mbit_per_second": { "whole": whole, "second_half": settled, "ceiling": path.ceiling() },
        "full_after_seconds": run.full_after(), "bytes": run.total(),
        "dropped": { "at_start": early, "start_seconds": start, "in_all": drops },
        "sent_again": run.at(f64::MAX).again, "settled_window_bytes": run.settled_window(),
        "product_bytes": theory,
    })
}
