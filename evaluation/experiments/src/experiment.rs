//! The definition of an experiment: its name, its run, and its results.

use serde_json::Value;

use crate::Error;

/// The settings of a run.
pub struct Context<'a> {
    /// True to measure less of everything, for a first impression.
    pub quick: bool,
    /// The seed of all random choices.
    pub seed: u64,
    /// The number of repetitions of each varying measurement; if absent, the experiment's own number.
    pub iterations: Option<usize>,
    /// Receives each step: the number of steps done, their total, and the name of the next. Any thread may
    /// call it.
    pub progress: &'a (dyn Fn(usize, usize, &str) + Sync),
}

impl Context<'_> {
    /// Returns the number of repetitions: the requested number, or two in quick mode, or `usual`.
    pub(crate) fn times(&self, usual: usize) -> usize {
        self.iterations
            .unwrap_or(if self.quick { 2 } else { usual })
            .max(1)
    }
}

/// The results of an experiment.
#[derive(Default)]
pub struct Outcome {
    /// The measured values.
    pub figures: Value,
    /// The same values as lines for people.
    pub lines: Vec<String>,
    /// Drawings, each as a file name without extension, and its SVG.
    pub drawings: Vec<(String, String)>,
    /// The configuration measured, as file names and texts.
    pub configuration: Vec<(String, String)>,
}

pub struct Experiment {
    /// The name on the command line.
    pub name: &'static str,
    /// A description of the measurement.
    pub about: &'static str,
    /// True if it needs a network, and so namespaces.
    pub needs_lab: bool,
    /// True if it also steers Linux's own TCP. eBPF cannot be loaded in a user namespace, so real root does
    /// not enter one.
    pub steers_kernel: bool,
    /// Runs the experiment.
    pub run: fn(&Context<'_>) -> Result<Outcome, Error>,
}

/// The median, the minimum and the maximum of a series of measurements.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    #[serde(rename = "least")]
    pub(crate) min: f64,
    #[serde(rename = "most")]
    pub(crate) max: f64,
}

impl Spread {
    /// Computes the spread of at least one value.
    pub(crate) fn from_values(mut values: Vec<f64>) -> Self {
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
    fn the_median_is_the_middle_value() {
        assert_eq!(Spread::from_values(vec![3.0, 1.0, 2.0]).median, 2.0);
        let even = Spread::from_values(vec![4.0, 1.0, 2.0, 9.0]);
        assert_eq!((even.median, even.min, even.max), (3.0, 1.0, 9.0));
    }
}
