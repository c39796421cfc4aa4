//! `hawser-experiment`: runs the experiments. `hawser experiment` starts it.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use hawser_experiments::{Context, EXPERIMENTS, Experiment, result, write};
use indicatif::{ProgressBar, ProgressStyle};

/// Repeat a paper's measurements on emulated networks
///
/// Writes a folder with configuration, seed, revision, figures (JSON) and drawings (SVG), and prints the
/// results. Without a name, lists the experiments.
#[derive(Parser)]
#[command(name = "hawser experiment", bin_name = "hawser experiment", version)]
struct Args {
    /// The experiment to run
    name: Option<String>,
    /// Measure less of everything, for a first impression
    #[arg(long)]
    quick: bool,
    /// The number of measurements of each figure; otherwise the experiment's own number
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    iterations: Option<u16>,
    /// The seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The folder for the results; otherwise `hawser-experiments/NAME`
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Print the figures as JSON on standard output, without a progress bar
    #[arg(long)]
    json: bool,
}

/// An exit code of docs/exit-codes.md, and the message.
type Failure = (u8, String);

fn main() -> ExitCode {
    let done = match hawser_experiments::serve() {
        Some(served) => served.map_err(|error| (1, error.to_string())),
        None => run(&Args::parse()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("hawser experiment: {message}");
            ExitCode::from(code)
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    let Some(name) = &args.name else {
        EXPERIMENTS
            .iter()
            .for_each(|one| println!("{:16} {}", one.name, one.about));
        return Ok(());
    };
    let experiment = EXPERIMENTS.iter().find(|one| one.name == name).ok_or_else(|| {
        let names: Vec<&str> = EXPERIMENTS.iter().map(|one| one.name).collect();
        (
            2,
            format!("there is no experiment {name:?}: {}", names.join(", ")),
        )
    })?;
    if experiment.needs_lab && !(experiment.steers_kernel && is_real_root()) {
        // A process can enter a user namespace only before it starts a thread.
        hawser::lab::enter_user_namespace().map_err(|reason| (4, reason.to_string()))?;
    }
    carry_out(args, experiment)
}

/// Returns whether this process is root in the first user namespace, which alone has all users.
fn is_real_root() -> bool {
    let users = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let all = users.split_whitespace().eq(["0", "0", "4294967295"]);
    rustix::process::geteuid().is_root() && all
}

fn carry_out(args: &Args, experiment: &Experiment) -> Result<(), Failure> {
    let bar = bar(args.json);
    let context = Context {
        quick: args.quick,
        seed: args.seed,
        iterations: args.iterations.map(usize::from),
        progress: &|done, total, what| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
            bar.set_message(what.to_owned());
        },
    };
    let outcome = (experiment.run)(&context).map_err(|error| (1, error.to_string()))?;
    bar.finish_and_clear();
    let result = result(experiment, &context, &outcome);
    let usual = || PathBuf::from("hawser-experiments").join(experiment.name);
    let folder = args.output.clone().unwrap_or_else(usual);
    write(&folder, &result, &outcome)
        .map_err(|error| (4, format!("cannot write {}: {error}", folder.display())))?;
    if args.json {
        println!("{result}");
    } else {
        outcome.lines.iter().for_each(|line| println!("{line}"));
        println!("figures, drawings and configuration are in {}", folder.display());
    }
    Ok(())
}

fn bar(quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar
}
