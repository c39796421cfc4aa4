//! What an experiment is: a name, a run, and what comes out of it.

use serde_json::Value;

use crate::Error;

/// How an experiment is to be run.
pub struct Context<'a> {
    /// Less of everything, for a first look.
    pub quick: bool,
    /// Decides whatever is left to chance.
    pub seed: u64,
    /// How often what varies is measured; otherwise the experiment's own number.
    pub iterations: Option<usize>,
    /// Told of each step: how many are done, of how many, and what comes now. From any thread.
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

/// All of them.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "multi-baseline",
        about: "MULTI, Figures 5 and 10: what a session costs over one link",
        needs_lab: true,
        steers_kernel: false,
        run: crate::multi::baseline,
    },
    Experiment {
        name: "multi-three",
        about: "MULTI, Figures 6 and 11: three and two connections at once",
        needs_lab: true,
        steers_kernel: false,
        run: crate::multi::three,
    },
    Experiment {
        name: "multi-aggregate",
        about: "MULTI, Figures 7 and 8: a second path comes while a download runs",
        needs_lab: true,
        steers_kernel: false,
        run: crate::multi::aggregate,
    },
    Experiment {
        name: "multi-switch",
        about: "MULTI, Figure 9: from one path to the other and back",
        needs_lab: true,
        steers_kernel: false,
        run: crate::multi::switch,
    },
    Experiment {
        name: "multi-wsp",
        about: "De Coninck and Bonaventure 2017: many pairs of paths, in virtual time",
        needs_lab: false,
        steers_kernel: false,
        run: crate::multi::wsp,
    },
    Experiment {
        name: "neat-download",
        about: "NEAT, section 6: downloads by what the selection picks, and by TCP",
        needs_lab: true,
        steers_kernel: false,
        run: crate::neat::download,
    },
    Experiment {
        name: "neat-caching",
        about: "NEAT, section 5.2, and its reference [5]: what remembering winners saves",
        needs_lab: true,
        steers_kernel: false,
        run: crate::neat::caching,
    },
    Experiment {
        name: "itcp-fast",
        about: "iTCP, Figures 9 and 10: FAST, CUBIC and Reno at 120 and 400 ms, in virtual time",
        needs_lab: false,
        steers_kernel: false,
        run: crate::itcp::fast,
    },
    Experiment {
        name: "itcp-fast-lab",
        about: "the same for a minute in a lab: our TCP and Linux's under FAST, iFAST and Reno",
        needs_lab: true,
        steers_kernel: true,
        run: crate::itcp::fast_lab,
    },
    Experiment {
        name: "itcp-overhead",
        about: "iTCP, Tables 3 and 4: what signals, probes and modifications cost",
        needs_lab: true,
        steers_kernel: true,
        run: crate::itcp::overhead,
    },
    Experiment {
        name: "itcp-filters",
        about: "iTCP, section 2.4: signals delivered against interval and frequency, in virtual time",
        needs_lab: false,
        steers_kernel: false,
        run: crate::itcp::filters,
    },
    Experiment {
        name: "itcp-video",
        about: "iTCP, its references [2] and [3]: live video that hears its transport, in virtual time",
        needs_lab: false,
        steers_kernel: false,
        run: crate::video::video,
    },
];

/// The middle, the least and the most of what was measured.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (least, most) = (values[0], values[values.len() - 1]);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Self { median, least, most }
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]).median, 2.0);
        let even = Spread::of(vec![4.0, 1.0, 2.0, 9.0]);
        assert_eq!((even.median, even.least, even.most), (3.0, 1.0, 9.0));
    }
}
