//! Lists the sub-commands in groups in `hawser --help`, and the options for output under a heading; clap lists
//! both without groups. The other headings are stated where options are declared.

use std::fmt::Write as _;

use clap::Command;

/// Each group with its sub-commands, in the order in which they are shown.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Write a transport",
        &["check", "fmt", "build", "explain", "programs", "sim", "test"],
    ),
    (
        "Move data",
        &[
            "serve", "get", "rpc", "rdma", "send", "recv", "cat", "gateway", "proxy",
        ],
    ),
    ("Choose a transport", &["policy"]),
    ("Watch and steer", &["watch", "bus", "kernel"]),
    (
        "Networks and measurements",
        &["lab", "bench", "experiment", "demo"],
    ),
    ("This machine", &["doctor", "completions"]),
];

/// The options of any command that select its output.
const OUTPUT: &[&str] = &[
    "json",
    "verbose",
    "output",
    "show",
    "trace",
    "pcap",
    "pcapng",
    "html",
    "svg",
    "csv",
    "record",
    "show_topology",
    "qlog",
    "diagram",
];

/// Returns `command` with a help text that lists its sub-commands in groups, and options for output under a
/// heading.
pub(crate) fn grouped(command: Command) -> Command {
    let command = with_output(command);
    let mut template = String::from("{about-with-newline}\n{usage-heading} {usage}\n\n");
    for (title, names) in GROUPS {
        let _ = writeln!(template, "{title}:");
        for name in names {
            let about = command
                .find_subcommand(name)
                .and_then(Command::get_about)
                .cloned()
                .unwrap_or_default();
            let _ = writeln!(template, "  {name:<12}{about}");
        }
        template.push('\n');
    }
    template += "Options:\n{options}{after-help}";
    command.help_template(template)
}

fn with_output(command: Command) -> Command {
    let command = command.mut_args(|arg| match OUTPUT.contains(&arg.get_id().as_str()) {
        true if !arg.is_positional() => arg.help_heading("Output"),
        _ => arg,
    });
    command.mut_subcommands(with_output)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    #[test]
    fn every_subcommand_is_consistent() {
        grouped(Cli::command()).debug_assert();
    }

    #[test]
    fn every_subcommand_is_in_one_group() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut known: Vec<&str> = shown.map(Command::get_name).collect();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        known.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, known);
        assert!(
            known.len() <= 26,
            "{} sub-commands are too many for one list",
            known.len()
        );
    }

    #[test]
    fn help_lists_groups_and_subcommands() {
        let help = grouped(Cli::command()).render_help().to_string();
        let at = |text: &str| {
            help.find(text)
                .unwrap_or_else(|| panic!("no `{text}` in:\n{help}"))
        };
        assert!(
            at("Write a transport:\n  check       Check transport programs") < at("Move data:\n  serve ")
        );
        assert!(at("Watch and steer:") < at("Options:\n  -h, --help"));
        assert!(at("--help") < at("Start here:"));
    }
}
