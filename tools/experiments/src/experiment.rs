//! What an experiment is: a name, a run, and what comes out of it.

use serde_json::Value;

use crate::Error;

/// How an experiment is to be run.
pub struct Context<'a> {
    /// Less of everything, for a first impression.
    pub quick: bool,
    /// Decides whatever is left to chance.
    pub seed: u64,
    /// How often what varies is measured; otherwise the experiment's own number.
    pub iterations: Option<usize>,
    /// Receives each step: how many are done, of how many, and what comes now. From any thread.
    pub progress: &'a (dyn Fn(usize, usize, &str) + Sync),
}

impl Context<'_> {
    /// How often to measure: as asked, or twice if quick, or `usual`.
    pub(crate) fn times(&self, usual: usize) -> usize {
        self.iterations
            .unwrap_or(if self.quick { 2 } else { usual })
            .max(1)
    }
}

/// What came out.
#[derive(Default)]
pub struct Outcome {
    /// What was measured.
    pub figures: Value,
    /// The same as lines for people.
    pub lines: Vec<String>,
    /// Drawings: a file's name without its ending, and SVG.
    pub drawings: Vec<(String, String)>,
    /// What it was measured on: files' names, and texts.
    pub configuration: Vec<(String, String)>,
}

/// An experiment.
pub struct Experiment {
    /// What it is called.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    /// Whether it needs a network, and so namespaces.
    pub needs_lab: bool,
    /// Whether it steers Linux's own TCP, too: eBPF cannot be loaded in a user namespace, so real root
    /// stays out of one.
    pub steers_kernel: bool,
    /// Runs it.
    pub run: fn(&Context<'_>) -> Result<Outcome, Error>,
}

/// The median, the minimum and the maximum of what was measured.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    #[serde(rename = "least")]
    pub(crate) min: f64,
    #[serde(rename = "most")]
    pub(crate) max: f64,
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (min, max) = (values[0], values[values.len() - 1]);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Self { median, min, max }
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]).median, 2.0);
        let even = Spread::of(vec![4.0, 1.0, 2.0, 9.0]);
        assert_eq!((even.median, even.min, even.max), (3.0, 1.0, 9.0));
    }
}
