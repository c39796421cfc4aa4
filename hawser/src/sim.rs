//! Scenarios in the simulator.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

pub use hawser_sim::{Report, RunError, Scenario, swarm};

/// Reads a scenario; its programs are files relative to it.
///
/// # Errors
/// The message to show: the file, the key, what was expected.
pub fn load(path: &Path) -> Result<Scenario, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let mut scenario = Scenario::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    if let Some(directory) = path.parent() {
        scenario.relative_to(directory);
    }
    Ok(scenario)
}

/// Runs a scenario. `seed` stands in for the scenario's own, `capture` takes every packet as
/// pcap, `progress` hears of the part done, from 0 to 1.
///
/// # Errors
/// Why the scenario cannot be run at all.
pub fn run(
    scenario: &Scenario,
    seed: Option<u64>,
    capture: Option<File>,
    progress: Option<&mut dyn FnMut(f64)>,
) -> Result<Report, RunError> {
    let pcap = capture.map(|file| Box::new(BufWriter::new(file)) as Box<_>);
    hawser_sim::run(scenario, &crate::programs::resolve, hawser_sim::Options { seed, pcap, progress })
}
