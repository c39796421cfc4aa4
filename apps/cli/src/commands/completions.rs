//! `hawser completions SHELL`: prints a script that completes command lines of `hawser`.

use clap::builder::{PossibleValuesParser, Resettable};
use clap::{Arg, Command, CommandFactory, Id};
use clap_complete::{Shell, generate};
use hawser::programs;

use crate::exit::Outcome;
use crate::{Cli, version};

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
    print!("{}", script(args.shell));
    Ok(())
}

fn script(shell: Shell) -> String {
    let mut command = shown(&Cli::command(), shell).version(version::LONG.as_str());
    let mut script = Vec::new();
    generate(shell, &mut command, "hawser", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Returns a command as completions show it: without hidden sub-commands and options, and with the known values
/// of arguments. It only describes the command line, and cannot parse one.
fn shown(command: &Command, shell: Shell) -> Command {
    // clap takes names that live as long as the process, which ends soon.
    let name: &'static str = command.get_name().to_owned().leak();
    let args = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let subcommands = command.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new(name)
        .about(command.get_about().cloned().unwrap_or_default())
        .args(args.map(|arg| shown_arg(name, arg, shell)))
        .subcommands(subcommands.map(|command| shown(command, shell)))
}

/// Returns an argument of a command without its relations to others, which may be hidden.
fn shown_arg(command: &str, arg: &Arg, shell: Shell) -> Arg {
    let none = || Resettable::<Id>::Reset;
    let arg = arg
        .clone()
        .conflicts_with(none())
        .requires(none())
        .overrides_with(none())
        .required_unless_present(none())
        .group(none());
    match known_values(command, arg.get_id().as_str(), shell) {
        Some(values) => arg.value_parser(PossibleValuesParser::new(values)),
        None => arg,
    }
}

/// Returns the values of an argument that clap does not know.
fn known_values(command: &str, arg: &str, shell: Shell) -> Option<Vec<&'static str>> {
    match (command, arg) {
        ("swarm", "engine") => Some(vec!["interp", "native", "both"]),
        (_, "engine") => Some(vec!["interp", "native"]),
        ("check" | "test", "target") => Some(vec!["dpdk", "host", "sim", "xdp"]),
        // A file is a program, too. Bash alone completes files if no known value fits.
        ("check", "files")
        | ("build", "file")
        | ("programs", "names")
        | ("check", "attach")
        | (_, "program")
            if shell == Shell::Bash =>
        {
            Some(programs::builtin_names().collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_leave_out_what_help_hides() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            assert!(script.contains("engine") && script.contains("sweep"), "{shell}");
            assert!(!script.contains("worker"), "{shell}");
        }
    }

    #[test]
    fn completions_know_values() {
        let script = script(Shell::Bash);
        for values in ["interp native both", "dpdk host sim xdp", "homa ndp"] {
            assert!(script.contains(values), "{values}");
        }
    }
}
