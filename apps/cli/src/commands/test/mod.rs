//! `hawser test FILE.pkt|FILE.steps`: packet tests of transport programs.

mod script;
mod steps;

use std::path::{Path, PathBuf};

use crate::engine::EngineArgs;
use crate::exit::{Exit, Outcome};

/// Run packet tests of transport programs
///
/// A script in packetdrill's syntax (FILE.pkt) states what the peer of a TCP sends, what the application
/// calls, and what has to happen, each with its time (docs/scripts.md). A file of steps (FILE.steps) does the
/// same for any program, in terms of its own blueprints (docs/steps.md). Both run in virtual time. A folder
/// stands for all scripts and files of steps below it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Scripts (.pkt), files of steps (.steps), or folders of them
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Treat every file as this kind, whatever its name, and only such files from folders. By default the names
    /// decide, and a file with another ending is a script
    #[arg(long, value_name = "KIND")]
    kind: Option<TestKind>,
    #[command(flatten)]
    engine: EngineArgs,
    /// Show the packets of each script, and what happened in each file of steps
    #[arg(long, alias = "packets", conflicts_with = "json")]
    show: bool,
    #[command(flatten)]
    script: script::ScriptArgs,
    #[command(flatten)]
    steps: steps::StepsArgs,
    /// Print the result as a JSON object; with both kinds of files, one object for each kind, one per line
    #[arg(long)]
    json: bool,
}

/// The kind of a packet test.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TestKind {
    /// Scripts in packetdrill's syntax
    Pkt,
    /// Steps by a program's own blueprints
    Steps,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let (scripts, steps) = args.files()?;
    match (scripts.is_empty(), steps.is_empty()) {
        (true, true) => Err(Exit::input(match args.kind {
            None => "these folders contain no packet test (.pkt or .steps)",
            Some(TestKind::Pkt) => "these folders contain no script (.pkt)",
            Some(TestKind::Steps) => "these folders contain no file of steps (.steps)",
        })),
        (true, false) => args.script.refuse().and_then(|()| steps::run(args, &steps)),
        (false, true) => args.steps.refuse().and_then(|()| script::run(args, &scripts)),
        (false, false) => Exit::worst(script::run(args, &scripts), steps::run(args, &steps)),
    }
}

impl Args {
    /// Returns the scripts and the files of steps that the paths stand for, ordered by name.
    fn files(&self) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Exit> {
        let (mut scripts, mut steps) = (Vec::new(), Vec::new());
        for path in &self.paths {
            let is_steps = |kind: Option<TestKind>| match kind {
                Some(kind) => kind == TestKind::Steps,
                None => has_ending(path, "steps"),
            };
            let is_foreign = ["mtp", "so", "toml"]
                .iter()
                .any(|ending| has_ending(path, ending));
            if self.kind.is_none() && is_foreign {
                return Err(Exit::usage(format!(
                    "{} is not a packet test: scripts end in .pkt and files of steps in .steps; --kind takes other names",
                    path.display()
                )));
            }
            if path.is_dir() {
                if self.kind != Some(TestKind::Steps) {
                    scripts.extend(script::find(path)?);
                }
                if self.kind != Some(TestKind::Pkt) {
                    steps::find(path, &mut steps)?;
                }
            } else if is_steps(self.kind) {
                steps.push(path.clone());
            } else {
                scripts.extend(script::find(path)?);
            }
        }
        Ok((scripts, steps))
    }
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|own| own == ending)
}

/// Refuses an option for files of another kind than those that are run.
fn refuse(options: &[(&str, bool)], kind: &str) -> Outcome {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Exit::usage(format!(
            "{option} applies to {kind}, but none is given"
        ))),
        None => Ok(()),
    }
}
