//! Scenarios in the simulator.

use std::collections::BTreeMap;
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

/// Sets a param of a scenario's program, as its `params` would: `RTO=3s`, `WINDOW=32`.
///
/// # Errors
/// What is wrong with the text.
pub fn set_param(scenario: &mut Scenario, text: &str) -> Result<(), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("`{text}` sets no param: write NAME=VALUE"))?;
    if value.contains(['"', '\\', '\n']) || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(format!("`{text}` sets no param: write NAME=VALUE"));
    }
    let plain = value.parse::<f64>().is_ok() || ["true", "false"].contains(&value);
    let line = if plain { format!("{name} = {value}") } else { format!("{name} = \"{value}\"") };
    scenario.params.extend(
        toml::from_str::<BTreeMap<_, _>>(&line).map_err(|error| format!("{name}: {}", error.message()))?,
    );
    Ok(())
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
