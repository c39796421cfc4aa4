//! Lists the sub-commands in groups in `hawser --help`; clap lists them without groups.

use std::fmt::Write as _;

use clap::Command;

/// Each group with its sub-commands, in the order in which they are shown.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Write a transport",
        &[
            "check",
            "fmt",
            "explain",
            "lsp",
            "dissector",
            "emit",
            "build",
            "sim",
            "replay",
            "trace",
            "shrink",
            "debug",
            "step",
            "script",
            "swarm",
            "mutants",
            "sweep",
        ],
    ),
    (
        "Move data",
        &[
            "send", "recv", "cat", "serve", "get", "rpc", "rdma", "proxy", "gateway",
        ],
    ),
    ("Choose a transport", &["policy", "cib"]),
    (
        "Watch and steer",
        &[
            "events", "probe", "watch", "modify", "steer", "attach", "detach", "audit", "kernel",
        ],
    ),
    (
        "Networks and measurements",
        &["demo", "lab", "experiment", "bench"],
    ),
];

/// Returns `command` with a help text that lists its sub-commands in groups.
pub(crate) fn grouped(command: Command) -> Command {
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    #[test]
    fn every_subcommand_is_in_one_group() {
        let command = Cli::command();
        let mut known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        known.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, known);
    }

    #[test]
    fn help_lists_groups_and_subcommands() {
        let help = grouped(Cli::command()).render_help().to_string();
        let at = |text: &str| {
            help.find(text)
                .unwrap_or_else(|| panic!("no `{text}` in:\n{help}"))
        };
        assert!(at("Write a transport:\n  check       Check transport programs") < at("Move data:\n  send "));
        assert!(at("Watch and steer:") < at("Options:\n  -h, --help"));
        assert!(at("--help") < at("Start here:"));
    }
}
