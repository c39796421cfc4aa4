//! `cargo xtask tap`: compares the cost of an engine without observers with the cost of an engine built
//! without observation points.
//!
//! The engine's own bench moves packets between two stacks, with a program of a few lines of Rust. It is
//! therefore the most sensitive measure of the engine's own cost. It is built twice, with observation points
//! and without (the feature `untapped`). Its instructions are counted under callgrind, so that other users of
//! the machine do not affect the result. Each build makes two transfers, so that their common cost, such as
//! the start, cancels out.

use std::process::{Command, Stdio};

/// The numbers of packets of the two transfers.
const PACKETS: [u64; 2] = [2_000, 12_000];
/// The limit on the share of instructions that the tests for an observer may add. There is one test for each
/// event, one for each packet, and one for each group of packets. The count was 0.20 % when this was written
/// (15 of 7,776).
const LIMIT: f64 = 0.005;
/// Compiles the engine as one unit, so that inlining, and with it the count, does not depend on how the
/// compiler splits the crate.
const ONE_UNIT: &str = "profile.dev.package.hawser-engine.codegen-units=1";

/// Counts the instructions of both builds, and compares them.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("it takes no arguments".to_owned());
    }
    let tapped = per_packet(&[])?;
    let untapped = per_packet(&["--features", "hawser-engine/untapped"])?;
    let share = tapped / untapped - 1.0;
    println!(
        "instructions for a packet: {tapped:.1} unobserved, {untapped:.1} without observers: {:+.2} % of {:.2} %",
        share * 100.0,
        LIMIT * 100.0
    );
    if share > LIMIT {
        return Err("observers cost too much while none is present".to_owned());
    }
    Ok(())
}

/// Returns the instructions per packet of the bench, built with these options.
fn per_packet(options: &[&str]) -> Result<f64, String> {
    let bench = build(options)?;
    let [small, large] = PACKETS;
    let difference = count(&bench, large)? as f64 - count(&bench, small)? as f64;
    // The bench repeats a transfer six times.
    Ok(difference / (6 * (large - small)) as f64)
}

/// Builds the bench and returns its path. The features are those of the whole workspace, so that only the engine
/// and its users are compiled again after the phase `build`.
fn build(options: &[&str]) -> Result<String, String> {
    let features = Command::new(crate::root().join("scripts/features"))
        .output()
        .map_err(|error| format!("cannot start scripts/features: {error}"))?;
    let output = Command::new("cargo")
        .args(["build", "-q", "--locked", "--workspace", "--bench", "stack"])
        .args(String::from_utf8_lossy(&features.stdout).split_whitespace())
        .args(["--message-format", "json"])
        .args(["--config", ONE_UNIT])
        .env("CARGO_INCREMENTAL", "0")
        .args(options)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err("the engine's bench was not built".to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut built = messages.filter(|message| message["target"]["name"] == "stack");
    let path = built.find_map(|message| message["executable"].as_str().map(str::to_owned));
    path.ok_or_else(|| "cargo did not report the location of the bench".to_owned())
}

/// Returns the instructions of a transfer of this many packets.
fn count(bench: &str, packets: u64) -> Result<u64, String> {
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            bench,
            "bulk",
        ])
        .arg(packets.to_string())
        .env("GLIBC_TUNABLES", PLAIN_COPIES)
        .output()
        .map_err(|error| format!("cannot start valgrind ({error}); Debian has it in `valgrind`"))?;
    let output = String::from_utf8_lossy(&output.stderr);
    let counted = output
        .lines()
        .find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    counted.ok_or_else(|| format!("valgrind counted no instructions:\n{output}"))
}

/// Settings of glibc that keep large copies from using the `rep` instructions, which callgrind counts once
/// for each byte.
const PLAIN_COPIES: &str =
    "glibc.cpu.x86_rep_movsb_threshold=1073741824:glibc.cpu.x86_rep_stosb_threshold=1073741824";
