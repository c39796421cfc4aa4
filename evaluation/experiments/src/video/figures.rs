//! Draws rate and capacity over time, delay over time, and the totals.

use hawser::time::{Instant, nanos};
use serde_json::{Value, json};

use super::run::{PLAYOUT_MS, ReceivedFilm};
use super::scenario::{PARTS, capacity, seconds};
use crate::experiment::Outcome;
use crate::plot::{Axes, Group, PlotLine, bars, lines};

/// Adds a run's line for people, and returns its figures.
pub(super) fn row(outcome: &mut Outcome, run: &ReceivedFilm) -> Value {
    let (stalls, longest) = run.stalls();
    let (frames, late, dropped) = (run.frames.len(), run.late(), run.dropped());
    let [median, p99] = [0.5, 0.99].map(|share| run.delay_ms(share));
    let [rate, quality] = [run.rate() as f64, run.quality()].map(|rate| rate / 1e6);
    outcome.lines.push(format!(
        "{:24} {rate:5.2} Mbit/s encoded, {quality:5.2} shown; {late:4} of {frames} frames late, {dropped:4} of them \
         dropped; {stalls:3} stalls, {longest:5.2} s at most; delay {median:4.0} ms, 99 % under {p99:5.0}",
        run.sender.name()
    ));
    json!({
        "sender": run.sender.name(), "frames": frames, "late": late, "dropped": dropped,
        "stalls": stalls, "longest_stall_seconds": longest,
        "mbit_per_second": { "encoded": rate, "shown": quality },
        "delay_ms": { "median": median, "p99": p99 }, "trace_hash": run.trace_hash,
    })
}

/// Adds all drawings.
pub(super) fn draw(outcome: &mut Outcome, runs: &[ReceivedFilm], part: u64) {
    let start = runs
        .iter()
        .filter_map(|run| run.frames.first())
        .map(|frame| frame.made)
        .min()
        .unwrap_or_default();
    let at = |time: Instant| nanos(time - start) as f64 / 1e9;
    let mut rates = vec![PlotLine { name: "capacity".into(), points: steps(part) }];
    let of = |run: &ReceivedFilm, points| PlotLine { name: run.sender.name(), points };
    rates.extend(runs.iter().map(|run| {
        of(
            run,
            run.frames
                .iter()
                .step_by(5)
                .map(|frame| (at(frame.made), frame.rate as f64 / 1e6))
                .collect(),
        )
    }));
    let axes = Axes {
        title: "Encoding rate, and what the line carries",
        x: "seconds",
        y: "Mbit/s",
    };
    outcome.drawings.push(("rate".into(), lines(&axes, &rates)));

    let end = seconds(part) as f64;
    let deadline = vec![(0.0, PLAYOUT_MS as f64), (end, PLAYOUT_MS as f64)];
    let mut delays = vec![PlotLine { name: format!("shown after {PLAYOUT_MS} ms"), points: deadline }];
    delays.extend(runs.iter().map(|run| {
        let delay =
            |frame: &super::live::Frame| Some((at(frame.made), nanos(frame.came? - frame.made) as f64 / 1e6));
        of(run, run.frames.iter().filter_map(delay).collect())
    }));
    let axes = Axes { title: "From the encoder to the receiver", x: "seconds", y: "ms" };
    outcome.drawings.push(("delay".into(), lines(&axes, &delays)));

    let kinds: Vec<String> = runs.iter().map(|run| run.sender.name()).collect();
    let group = |name: &str, of: &dyn Fn(&ReceivedFilm) -> f64| Group {
        name: name.into(),
        bars: runs.iter().map(of).map(|value| (value, value, value)).collect(),
    };
    let share = |run: &ReceivedFilm| 100.0 * run.late() as f64 / run.frames.len().max(1) as f64;
    let axes = Axes { title: "Frames late or dropped", x: "", y: "% of all" };
    outcome
        .drawings
        .push(("late".into(), bars(&axes, &kinds, &[group("late", &share)])));
    let axes = Axes { title: "Mean rate", x: "", y: "Mbit/s" };
    let groups = [
        group("encoded", &|run| run.rate() as f64 / 1e6),
        group("shown in time", &|run| run.quality() / 1e6),
    ];
    outcome
        .drawings
        .push(("quality".into(), bars(&axes, &kinds, &groups)));
}

/// Returns the link's capacity as steps.
fn steps(part: u64) -> Vec<(f64, f64)> {
    let edge = |number: usize| (number as u64 * part) as f64;
    (0..PARTS.len())
        .flat_map(|number| [edge(number), edge(number + 1)].map(|at| (at, capacity(part, edge(number)))))
        .collect()
}
