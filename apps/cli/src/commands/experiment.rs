//! `hawser experiment NAME`

use std::path::PathBuf;

use hawser_experiments::{Context, EXPERIMENTS, Experiment, result, write};

use crate::exit::{Exit, Outcome};
use crate::progress;

/// Repeat a paper's measurements on emulated networks
///
/// Writes a folder with configuration, seed, revision, figures (JSON) and drawings (SVG), and prints
/// what came out. docs/experiments.md sets the figures beside the papers'. Without a name, lists the
/// experiments.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which one
    name: Option<String>,
    /// Less of everything, for a first look
    #[arg(long)]
    quick: bool,
    /// How often each figure is measured; otherwise the experiment's own number
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    iterations: Option<u16>,
    /// Decides whatever is left to chance
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The folder; otherwise `hawser-experiments/NAME`
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// The figures as JSON on standard output, and no progress bar
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let Some(name) = &args.name else {
        EXPERIMENTS.iter().for_each(|one| println!("{:16} {}", one.name, one.about));
        return Ok(());
    };
    let experiment = EXPERIMENTS.iter().find(|one| one.name == name).ok_or_else(|| {
        let names: Vec<&str> = EXPERIMENTS.iter().map(|one| one.name).collect();
        Exit::usage(format!("there is no experiment {name:?}: {}", names.join(", ")))
    })?;
    if experiment.needs_lab {
        // Before any thread is started.
        hawser::lab::enter_user_namespace().map_err(Exit::environment)?;
    }
    carry_out(args, experiment)
}

fn carry_out(args: &Args, experiment: &Experiment) -> Outcome {
    let bar = progress::count(args.json, experiment.name, 0);
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
    let outcome = (experiment.run)(&context).map_err(Exit::failed)?;
    bar.finish_and_clear();
    let result = result(experiment, &context, &outcome);
    let folder =
        args.output.clone().unwrap_or_else(|| PathBuf::from("hawser-experiments").join(experiment.name));
    write(&folder, &result, &outcome)
        .map_err(|error| Exit::environment(format!("cannot write {}: {error}", folder.display())))?;
    if args.json {
        println!("{result}");
    } else {
        outcome.lines.iter().for_each(|line| println!("{line}"));
        println!("figures, drawings and configuration are in {}", folder.display());
    }
    Ok(())
}
