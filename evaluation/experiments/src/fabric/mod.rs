//! The measurements of Homa (SIGCOMM 2018), NDP (SIGCOMM 2017) and MTP on simulated fabrics, in virtual time.

mod incast;
mod loss;
mod rates;
mod slowdown;
mod streams;
mod workloads;

pub(crate) use incast::incast;
pub(crate) use loss::loss;
pub(crate) use rates::rates;
pub(crate) use slowdown::slowdown;
pub(crate) use streams::{LOADS, SIZES, in_turn, streams};
pub(crate) use workloads::workloads;

use hawser::runs::{self, Report, Scenario};

use crate::Error;

/// The workloads of Homa's evaluation (its Figure 1), as files.
const WORKLOADS: [(&str, &str); 5] = [
    ("w1.cdf", include_str!("../../../../examples/workloads/w1.cdf")),
    ("w2.cdf", include_str!("../../../../examples/workloads/w2.cdf")),
    ("w3.cdf", include_str!("../../../../examples/workloads/w3.cdf")),
    ("w4.cdf", include_str!("../../../../examples/workloads/w4.cdf")),
    ("w5.cdf", include_str!("../../../../examples/workloads/w5.cdf")),
];

/// Runs a scenario that reads no files but workloads. A run that breaks its promise is an error.
fn run(text: &str, seed: u64) -> Result<Report, Error> {
    run_with(text, seed, &WORKLOADS)
}

/// Runs a scenario that reads these files.
fn run_with(text: &str, seed: u64, files: &[(&str, &str)]) -> Result<Report, Error> {
    let mut scenario = Scenario::parse(text).map_err(|error| format!("{error}\n{text}"))?;
    scenario.read_files(&mut |name| {
        let known = files.iter().find(|(known, _)| *known == name);
        known
            .map(|(_, text)| (*text).to_owned())
            .ok_or_else(|| format!("no file {name}"))
    })?;
    let report = runs::run(&scenario, Some(seed), None, None)?;
    match report.failures.first() {
        None => Ok(report),
        Some(first) => Err(format!("{}: {first}", report.name).into()),
    }
}
