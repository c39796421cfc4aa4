//! The benches, one file each.

pub(crate) mod abi;
pub(crate) mod answers;
pub(crate) mod bulk;
pub(crate) mod callgrind;
pub(crate) mod check;
pub(crate) mod connect;
pub(crate) mod dpdk;
pub(crate) mod fabric;
pub(crate) mod gates;
pub(crate) mod http;
pub(crate) mod memory;
pub(crate) mod policy;
pub(crate) mod race;
pub(crate) mod requests;
pub(crate) mod rr;
pub(crate) mod session;
pub(crate) mod sockets;
pub(crate) mod stack;

use std::io;

use indicatif::{ProgressBar, ProgressStyle};

use crate::report::Row;

/// Options of all benches.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// Print the report as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print the table as Markdown, for evaluation/bench/README.md
    #[arg(long, global = true, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Also draw the report
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) svg: Option<std::path::PathBuf>,
    /// Runs of each row
    #[arg(long, value_name = "N", global = true)]
    pub(crate) runs: Option<u32>,
    /// Measure little of everything: a first impression, not a measurement
    #[arg(long, global = true)]
    pub(crate) quick: bool,
    /// The engine that runs Hawser's TCP: native, interp; or handwritten, which is TCP by hand in C
    #[arg(long, default_value = crate::engine::DEFAULT, value_name = "ENGINE", global = true)]
    pub(crate) engine: String,
}

impl Common {
    /// Returns the number of runs of each row.
    #[must_use]
    pub(crate) fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { 1 } else { 5 }).max(1)
    }
}

/// Measures all items once, then all again, so that a temporary disturbance of the machine affects all alike.
/// Every second round is in reverse order. Each measurement returns its figures, or the reason why it is
/// impossible here, after which it is skipped.
pub(crate) fn alternate<T>(
    common: &Common,
    what: &str,
    things: &[T],
    mut measure: impl FnMut(&T) -> io::Result<Vec<f64>>,
) -> Vec<Result<Vec<Vec<f64>>, String>> {
    let bar = progress(common, what, things.len() as u64 * u64::from(common.runs()));
    let mut results: Vec<Result<Vec<Vec<f64>>, String>> = things.iter().map(|_| Ok(Vec::new())).collect();
    for run in 0..common.runs() {
        let order: Vec<usize> = if run % 2 == 0 {
            (0..things.len()).collect()
        } else {
            (0..things.len()).rev().collect()
        };
        for i in order {
            if let Ok(samples) = &mut results[i] {
                match measure(&things[i]) {
                    Ok(figures) => samples.push(figures),
                    Err(error) => results[i] = Err(error.to_string()),
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    results
}

/// Returns the n-th figure of all runs.
#[must_use]
pub(crate) fn column(samples: &[Vec<f64>], n: usize) -> Vec<f64> {
    samples
        .iter()
        .filter_map(|figures| figures.get(n).copied())
        .collect()
}

/// Returns the median, the 90th and the 99th percentile of sorted times, in microseconds.
///
/// # Errors
/// There are no times.
pub(crate) fn percentiles(sorted_ns: &[u64]) -> io::Result<Vec<f64>> {
    let percentile = |share: f64| {
        let time = sorted_ns.get((sorted_ns.len() as f64 * share) as usize);
        time.map(|t| *t as f64 / 1000.0)
    };
    let figures: Option<Vec<f64>> = [0.5, 0.9, 0.99].into_iter().map(percentile).collect();
    figures.ok_or_else(|| io::Error::other("nothing was timed"))
}

/// Makes a row from the results of [`alternate`].
pub(crate) fn row(
    name: String,
    result: Result<Vec<Vec<f64>>, String>,
    make: impl FnOnce(&[Vec<f64>]) -> Vec<Option<crate::report::Metric>>,
) -> Row {
    match result {
        Ok(samples) => Row::new(name, make(&samples)),
        Err(why) => Row::skipped(name, why),
    }
}

fn progress(common: &Common, what: &str, total: u64) -> ProgressBar {
    if common.json {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}
