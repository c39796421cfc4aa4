//! `hawser completions SHELL`: prints a script that completes command lines of `hawser`.

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::Cli;
use crate::exit::Outcome;

/// Print a script with which a shell completes command lines of hawser
///
///   hawser completions bash > ~/.local/share/bash-completion/completions/hawser
///   hawser completions zsh > "${fpath[1]}/_hawser"
///   hawser completions fish > ~/.config/fish/completions/hawser.fish
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "hawser", &mut script);
    print!("{}", String::from_utf8_lossy(&script));
    Ok(())
}
