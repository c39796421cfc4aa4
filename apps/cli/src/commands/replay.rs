//! `hawser replay FILE.toml --seed N`: repeats a simulated run.

use std::path::PathBuf;

use super::sim;
use crate::engine::{EngineArgs, NativeArgs};
use crate::exit::Outcome;
use crate::trace_file::TraceArgs;

/// Repeat a simulated run exactly, from its seed
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The scenario
    file: PathBuf,
    /// The seed that the failed run printed
    #[arg(long)]
    seed: u64,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    native: NativeArgs,
    /// Watch the packets of each host by a program, as `hawser sim` did
    #[arg(long, value_name = "FILE")]
    watch: Option<String>,
    /// Print the report as a JSON object
    #[arg(long)]
    json: bool,
    /// Write every packet to a capture file, for Wireshark
    #[arg(long, value_name = "OUT")]
    pcap: Option<PathBuf>,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    picture: sim::PictureArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    sim::run(&sim::Args {
        show_topology: None,
        file: args.file.clone(),
        seed: Some(args.seed),
        engine: args.engine,
        native: args.native,
        watch: args.watch.clone(),
        json: args.json,
        pcap: args.pcap.clone(),
        trace: args.trace.clone(),
        picture: args.picture.clone(),
    })
}
