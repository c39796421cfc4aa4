//! `itcp-filters`: the share of events that is delivered, by interval and by frequency. Our own TCP runs in
//! virtual time; Linux's runs in the lab, with filters in the kernel.

use std::sync::Arc;
use std::time::Duration;

use hawser::interact::{Bus, Filter, Hands, Rights, Schema, Signal, SourceId, Subscription, Tware};
use hawser::runs::{SampleRequest, Scenario, run_steered};
use hawser::time::{Instant, nanos};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::filtered;
use super::run::Path;
use super::simulated::{Contender, Times, scenario_text};
use super::steering::missing;
use crate::Error;
use crate::experiment::{Context, Outcome};
use crate::plot::{Axes, PlotLine, lines};

/// The interval, in milliseconds, of which one event survives; with 0, all survive.
const INTERVALS_MS: [u64; 6] = [0, 1, 2, 5, 10, 50];
/// The frequency n: every n-th survivor passes.
const FREQUENCIES: [u32; 4] = [1, 2, 5, 10];
const SENDER: Contender = Contender { name: "FAST", program: "tcp-fast", twares: false };

/// The times of deliveries or events.
type Moments = Vec<Instant>;

/// A T-ware that notes the times of signals for each of its filters.
struct Listener {
    filters: Vec<Filter>,
    delivered: Arc<Mutex<Vec<Moments>>>,
}

impl Tware for Listener {
    fn subscriptions(&self) -> Vec<Subscription> {
        let subscription = |f: &Filter| {
            Subscription::new(["tcp.acked"])
                .every(f.interval)
                .each_nth(f.frequency)
        };
        self.filters.iter().map(subscription).collect()
    }

    fn begin(&mut self, _: SourceId, _: &Schema) {}

    fn signal(&mut self, subscription: usize, signal: &Signal<'_>, _: &mut Hands) {
        let mut delivered = self.delivered.lock();
        if let Some(times) = delivered.get_mut(subscription) {
            times.push(signal.time());
        }
    }
}

/// Returns all filters, the one that passes every event first.
fn all() -> Vec<Filter> {
    let of = |ms: u64| FREQUENCIES.map(|frequency| Filter { interval: Duration::from_millis(ms), frequency });
    INTERVALS_MS.into_iter().flat_map(of).collect()
}

/// Runs a transfer, and returns the times of deliveries through each filter.
fn listen(path: Path, seconds: u64, seed: u64, filters: &[Filter]) -> Result<Vec<Moments>, Error> {
    let delivered = Arc::new(Mutex::new(vec![Vec::new(); filters.len()]));
    let bus = Bus::new();
    let (filters, shared) = (filters.to_vec(), delivered.clone());
    let tware = move || -> Box<dyn Tware> {
        Box::new(Listener { filters: filters.clone(), delivered: shared.clone() })
    };
    let subscriber = bus.attach("listener", Rights::all(), 1, tware)?;
    let text = scenario_text(&SENDER, path, Times { seconds, every_ms: 1_000 }, &[]);
    let scenario = Scenario::parse(&text).map_err(|error| error.to_string())?;
    let watch = SampleRequest { every: Duration::from_secs(1), fields: &[], reported: &mut |_| {} };
    run_steered(&scenario, Some(seed), watch, &bus, &["sender"]).map_err(|error| error.to_string())?;
    drop(subscriber);
    let delivered = delivered.lock().clone();
    Ok(delivered)
}

/// Applies the paper's definition (section 2.4) to the events that happened. Time is cut into intervals, each
/// of which begins with the first event after the previous one. Of each complete interval one event survives,
/// and every F-th survivor passes.
fn model(happened: &[Instant], filter: Filter, end: Instant) -> usize {
    let survivors = if filter.interval.is_zero() {
        happened.len()
    } else {
        let (mut count, mut over) = (0, Instant::ORIGIN);
        for at in happened {
            if *at >= over {
                over = *at + filter.interval;
                count += usize::from(over <= end);
            }
        }
        count
    };
    survivors / filter.frequency.max(1) as usize
}

/// The result of one filter.
struct Row {
    filter: Filter,
    happened: usize,
    delivered: usize,
    /// The number of events that the model lets through.
    expected: usize,
}

impl Row {
    fn new(filter: Filter, happened: &[Instant], delivered: usize) -> Row {
        let expected = model(happened, filter, Instant::NEVER);
        Row { filter, happened: happened.len(), delivered, expected }
    }
}

/// Adds the lines, the drawing and the figures of one transport.
fn draw(outcome: &mut Outcome, whose: &str, file: &str, seconds: u64, rows: &[Row]) -> Vec<Value> {
    let mut figures = Vec::new();
    let mut curves: Vec<PlotLine> = Vec::new();
    for frequency in FREQUENCIES {
        let mut points = Vec::new();
        for row in rows.iter().filter(|row| row.filter.frequency == frequency) {
            let Row { happened, delivered, expected, .. } = *row;
            let interval = nanos(row.filter.interval) as f64 / 1e6;
            outcome.lines.push(format!(
                "{whose}, T = {interval:>2} ms, F = {frequency:>2}: {delivered:>7} of {happened} delivered, \
                 {expected:>7} by the model"
            ));
            points.push((interval, delivered as f64 / seconds as f64));
            figures.push(json!({
                "interval_ms": interval, "frequency": frequency, "happened": happened,
                "delivered": delivered, "model": expected,
            }));
        }
        curves.push(PlotLine { name: format!("F = {frequency}"), points });
    }
    let axes = Axes {
        title: &format!("Signals of acknowledgements, {whose}, 200 Mbit/s, 120 ms"),
        x: "interval T, ms",
        y: "delivered a second",
    };
    outcome.drawings.push((file.into(), lines(&axes, &curves)));
    figures
}

pub(crate) fn filters(context: &Context<'_>) -> Result<Outcome, Error> {
    let seconds = if context.quick { 10 } else { 60 };
    let (path, filters) = (Path::new(120, 0.5), all());
    (context.progress)(0, 2, "a transfer of ours");
    let delivered = listen(path, seconds, context.seed, &filters)?;
    let happened = delivered.first().cloned().unwrap_or_default();
    let rows: Vec<Row> = filters
        .iter()
        .zip(&delivered)
        .map(|(filter, times)| Row::new(*filter, &happened, times.len()))
        .collect();
    let mut outcome = Outcome::default();
    let ours = draw(&mut outcome, "ours", "delivered", seconds, &rows);
    let (mut linux, mut lost, missing) = (Vec::new(), 0, missing());
    if let Some(reason) = &missing {
        outcome
            .lines
            .push(format!("SKIPPED: all rows of Linux's own TCP: {reason}"));
    } else {
        (context.progress)(1, 2, "transfers of Linux's");
        let through = filtered::listen(path, Duration::from_secs(seconds), &filters)?;
        lost = through.iter().map(|it| it.lost).max().unwrap_or_default();
        let rows: Vec<Row> = through
            .iter()
            .map(|it| Row::new(it.filter, &it.happened, it.delivered.len()))
            .collect();
        linux = draw(&mut outcome, "Linux", "delivered-linux", seconds, &rows);
        outcome.lines.push(format!("Linux: {lost} records found no room"));
    }
    outcome.figures = json!({
        "rows": ours, "linux": linux, "linux_lost": lost, "missing": missing, "seconds": seconds,
    });
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use hawser_testing::{Need, skip};

    use super::*;

    /// Figure 4 of the paper has eleven events, of which the filters pass three and one.
    #[test]
    fn the_filter_model_matches_the_papers_figure() {
        let times = [0, 25, 50, 75, 100, 130, 160, 200, 230, 260, 300].map(Instant::from_nanos);
        let count = |interval, frequency| {
            let interval = Duration::from_nanos(interval);
            model(&times, Filter { interval, frequency }, Instant::from_nanos(399))
        };
        assert_eq!([count(0, 1), count(100, 1), count(100, 3)], [11, 3, 1]);
    }

    #[test]
    fn a_transfer_is_filtered_as_modelled() {
        let path = Path { rate: 20_000_000, ..Path::new(120, 0.5) };
        let (filters, seconds) = (all(), 5);
        let delivered = listen(path, seconds, 1, &filters).expect("a run");
        assert!(delivered[0].len() > 1_000, "{}", delivered[0].len());
        for (filter, times) in filters.iter().zip(&delivered) {
            let expected = model(&delivered[0], *filter, Instant::NEVER);
            // An interval that ends with the run may or may not be delivered.
            assert!(
                times.len().abs_diff(expected) <= 1,
                "{filter:?}: {} of {expected}",
                times.len()
            );
        }
    }

    /// The filters in the kernel match the model exactly.
    #[test]
    fn linux_is_filtered_as_modelled() {
        if let Some(reason) = missing() {
            return skip(Need::Ebpf, "linux_is_filtered_as_modelled", reason);
        }
        let path = Path { rate: 20_000_000, ..Path::new(20, 0.5) };
        let through = filtered::listen(path, Duration::from_secs(3), &all()).expect("two transfers");
        assert_eq!(through.len(), all().len());
        for it in &through {
            assert!(
                it.happened.len() > 500 && it.lost == 0,
                "{} happened, {} lost",
                it.happened.len(),
                it.lost
            );
            let expected = model(&it.happened, it.filter, Instant::NEVER);
            assert_eq!(
                it.delivered.len(),
                expected,
                "{:?} of {}",
                it.filter,
                it.happened.len()
            );
            let true_ones = it
                .delivered
                .iter()
                .all(|at| it.happened.binary_search(at).is_ok());
            assert!(true_ones, "{:?} delivered what did not happen", it.filter);
        }
    }
}
