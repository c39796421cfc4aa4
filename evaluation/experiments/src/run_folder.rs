//! The folder of one run: configuration, seed, revision, figures, drawings.

use std::path::Path;

use serde_json::{Value, json};

use crate::Error;
use crate::experiment::{Context, Experiment, Outcome};

/// Returns the contents of `result.json`.
pub fn result(experiment: &Experiment, context: &Context<'_>, outcome: &Outcome) -> Value {
    json!({
        "experiment": experiment.name, "about": experiment.about, "seed": context.seed,
        "quick": context.quick, "iterations": context.iterations, "environment": environment(),
        "figures": outcome.figures,
    })
}

/// Writes all results into `folder`, which is created if it is absent.
///
/// # Errors
/// The folder or a file could not be written.
pub fn write(folder: &Path, result: &Value, outcome: &Outcome) -> Result<(), Error> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("result.json"), format!("{result:#}\n"))?;
    for (name, svg) in &outcome.drawings {
        std::fs::write(folder.join(name).with_extension("svg"), svg)?;
    }
    for (name, text) in &outcome.configuration {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}

/// Describes the machine that the experiment ran on.
fn environment() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    let cpu = read("/proc/cpuinfo");
    let processor = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    json!({
        "revision": env!("HAWSER_REVISION"), "kernel": kernel.trim(), "cores": cores,
        "processor": processor.map_or("unknown", |(_, name)| name.trim()),
        "congestion_control": read("/proc/sys/net/ipv4/tcp_congestion_control").trim(),
    })
}
