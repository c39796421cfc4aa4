//! `hawser bench check`: the speed of checking programs.

use std::path::Path;
use std::time::Instant;

use hawser_driver::{MemoryLoader, compile_with};

use super::{Common, alternate, column, row};
use crate::report::{Better, Metric, Report};

/// Measure how fast programs are checked
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Programs (.mtp), in place of the five sketches
    files: Vec<std::path::PathBuf>,
}

/// The files that the sketches import.
const PARTS: [(&str, &str); 1] = [(
    "parts/newreno.mtp",
    include_str!("../../../../lang/tests/pass/parts/newreno.mtp"),
)];

/// Five transports, each as one file apart from an imported part.
const SKETCHES: [(&str, &str); 5] = [
    ("tcp.mtp", include_str!("../../../../lang/tests/pass/tcp.mtp")),
    ("homa.mtp", include_str!("../../../../lang/tests/pass/homa.mtp")),
    (
        "quic_lite.mtp",
        include_str!("../../../../lang/tests/pass/quic_lite.mtp"),
    ),
    ("ndp.mtp", include_str!("../../../../lang/tests/pass/ndp.mtp")),
    (
        "rocev2.mtp",
        include_str!("../../../../lang/tests/pass/rocev2.mtp"),
    ),
];

/// Runs the bench.
///
/// # Errors
/// A file could not be read.
pub(crate) fn run(args: &Args, common: &Common) -> Result<Report, Box<dyn std::error::Error>> {
    let mut texts: Vec<(String, String)> = Vec::new();
    for file in &args.files {
        let text =
            std::fs::read_to_string(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        texts.push((file.display().to_string(), text));
    }
    if texts.is_empty() {
        texts = SKETCHES
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .to_vec();
    }
    let mut report = Report::new("check", "Checking a program: text to intermediate form");
    report.setting("runs", common.runs());
    let repeats = if common.quick { 1 } else { 20 };
    report.setting("repeats in each run", repeats);
    let results = alternate(common, "check", &texts, |(name, text)| {
        let loader = MemoryLoader::new(PARTS.into_iter().chain([(name.as_str(), text.as_str())]));
        let begin = Instant::now();
        for _ in 0..repeats {
            if compile_with(&loader, Path::new(name)).failed() {
                return Err(std::io::Error::other("it does not pass the checker"));
            }
        }
        let took = begin.elapsed().as_secs_f64() / f64::from(repeats);
        Ok(vec![
            took * 1e3 / text.lines().count().max(1) as f64 * 1000.0,
            took * 1e3,
        ])
    });
    for ((name, text), result) in texts.iter().zip(results) {
        let mut row = row(name.clone(), result, |samples| {
            vec![
                Metric::new("per 1,000 lines", "ms", Better::Lower, column(samples, 0)),
                Metric::new("whole", "ms", Better::Lower, column(samples, 1)),
            ]
        });
        row.facts.push(("lines".to_owned(), text.lines().count() as u64));
        report.rows.push(row);
    }
    Ok(report)
}
