//! `itcp-filters`: how much of what happens is delivered, by interval and by frequency, in virtual time.

use std::sync::{Arc, Mutex, PoisonError};

use hawser::interact::{Bus, Filter, Hands, Nanos, Rights, Schema, Signal, SourceId, Tware, Wish};
use hawser::sim::{Scenario, Watch, run_steered};
use serde_json::json;

use super::run::Path;
use super::simulated::{Contender, Times, scenario_text};
use crate::Error;
use crate::experiment::{Context, Outcome};
use crate::plot::{Axes, Line, lines};

/// Milliseconds between two that survive; 0: all do.
const INTERVALS_MS: [u64; 6] = [0, 1, 2, 5, 10, 50];
/// Of the survivors, each so-manieth passes.
const FREQUENCIES: [u32; 4] = [1, 2, 5, 10];
const SENDER: Contender = Contender { name: "FAST", program: "tcp-fast", twares: false };

/// When something was delivered, or happened.
type Moments = Vec<Nanos>;

/// Notes when it is signalled, for each of its filters.
struct Listener {
    filters: Vec<Filter>,
    heard: Arc<Mutex<Vec<Moments>>>,
}

impl Tware for Listener {
    fn wishes(&self) -> Vec<Wish> {
        let wish = |f: &Filter| Wish::new(["tcp.acked"]).every(f.interval).each_nth(f.frequency);
        self.filters.iter().map(wish).collect()
    }

    fn begin(&mut self, _: SourceId, _: &Schema) {}

    fn signal(&mut self, wish: usize, signal: &Signal<'_>, _: &mut Hands) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(times) = heard.get_mut(wish) {
            times.push(signal.time());
        }
    }
}

/// All filters, the open one first.
fn all() -> Vec<Filter> {
    let of = |ms: u64| FREQUENCIES.map(|frequency| Filter { interval: ms * 1_000_000, frequency });
    INTERVALS_MS.into_iter().flat_map(of).collect()
}

/// When what was delivered through each filter.
fn listen(path: Path, seconds: u64, seed: u64, filters: &[Filter]) -> Result<Vec<Moments>, Error> {
    let heard = Arc::new(Mutex::new(vec![Vec::new(); filters.len()]));
    let bus = Bus::new();
    let (filters, ears) = (filters.to_vec(), heard.clone());
    let tware =
        move || -> Box<dyn Tware> { Box::new(Listener { filters: filters.clone(), heard: ears.clone() }) };
    let member = bus.attach("listener", Rights::all(), 1, tware)?;
    let text = scenario_text(&SENDER, path, Times { seconds, every_ms: 1_000 }, &[]);
    let scenario = Scenario::parse(&text).map_err(|error| error.to_string())?;
    let watch = Watch { every: 1_000_000_000, fields: &[], told: &mut |_| {} };
    run_steered(&scenario, Some(seed), watch, &bus, &["sender"]).map_err(|error| error.to_string())?;
    drop(member);
    let heard = heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(heard)
}

/// The paper's words (section 2.4) on the events that happened: cut into intervals, each of which begins
/// with the first event after the last; of each interval that is over one survives; of those, each F-th.
fn model(happened: &[Nanos], filter: Filter, end: Nanos) -> usize {
    let survivors = if filter.interval == 0 {
        happened.len()
    } else {
        let (mut count, mut over) = (0, 0);
        for at in happened {
            if *at >= over {
                over = at + filter.interval;
                count += usize::from(over <= end);
            }
        }
        count
    };
    survivors / filter.frequency.max(1) as usize
}

pub(crate) fn filters(context: &Context<'_>) -> Result<Outcome, Error> {
    let seconds = if context.quick { 10 } else { 60 };
    let (path, filters) = (Path::new(120, 0.5), all());
    (context.progress)(0, 1, "a transfer");
    let heard = listen(path, seconds, context.seed, &filters)?;
    let happened = heard.first().cloned().unwrap_or_default();
    let mut outcome = Outcome::default();
    let (mut rows, mut curves) = (Vec::new(), Vec::new());
    for frequency in FREQUENCIES {
        let mut points = Vec::new();
        for (filter, times) in filters.iter().zip(&heard).filter(|(f, _)| f.frequency == frequency) {
            let expected = model(&happened, *filter, Nanos::MAX);
            let (interval, delivered) = (filter.interval as f64 / 1e6, times.len());
            outcome.lines.push(format!(
                "T = {interval:>2} ms, F = {frequency:>2}: {delivered:>7} of {} delivered, {expected:>7} by the model",
                happened.len()
            ));
            points.push((interval, delivered as f64 / seconds as f64));
            rows.push(json!({
                "interval_ms": interval, "frequency": frequency, "happened": happened.len(),
                "delivered": delivered, "model": expected,
            }));
        }
        curves.push(Line { name: format!("F = {frequency}"), points });
    }
    let axes = Axes {
        title: "Signals of acknowledgements, 200 Mbit/s, 120 ms",
        x: "interval T, ms",
        y: "delivered a second",
    };
    outcome.drawings.push(("delivered".into(), lines(&axes, &curves)));
    outcome.figures = json!({ "rows": rows, "seconds": seconds });
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 4 of the paper: eleven events, of which the filters leave three, and one.
    #[test]
    fn the_model_is_the_papers() {
        let times = [0, 25, 50, 75, 100, 130, 160, 200, 230, 260, 300];
        let count = |interval, frequency| model(&times, Filter { interval, frequency }, 399);
        assert_eq!([count(0, 1), count(100, 1), count(100, 3)], [11, 3, 1]);
    }

    #[test]
    fn a_transfer_is_filtered_as_the_model_says() {
        let path = Path { rate: 20_000_000, ..Path::new(120, 0.5) };
        let (filters, seconds) = (all(), 5);
        let heard = listen(path, seconds, 1, &filters).expect("a run");
        assert!(heard[0].len() > 1_000, "{}", heard[0].len());
        for (filter, times) in filters.iter().zip(&heard) {
            let expected = model(&heard[0], *filter, Nanos::MAX);
            // An interval that ends with the run may be told, or not.
            assert!(times.len().abs_diff(expected) <= 1, "{filter:?}: {} of {expected}", times.len());
        }
    }
}
