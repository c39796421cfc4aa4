//! Accepts the words that the command had before its sub-commands were grouped, for one release.
//!
//! The arguments are rewritten before clap sees them, so the command itself knows only the new words. The
//! rewriting changes words and options; it never changes the values of a user.

use std::ffi::OsString;
use std::path::Path;

use clap::{Command, CommandFactory};

use crate::Cli;

/// An old word, and the words that replace it.
struct Renamed {
    old: &'static str,
    /// The old word is replaced only if one of these options follows; an empty list stands for any options.
    with: &'static [&'static str],
    new: &'static [&'static str],
    /// The new form, as a note names it.
    shown: &'static str,
}

const fn renamed(old: &'static str, new: &'static [&'static str], shown: &'static str) -> Renamed {
    Renamed { old, with: &[], new, shown }
}

/// The options that belong to `hawser sim picture`.
const PICTURES: &[&str] = &["--html", "--svg", "--csv", "--record", "--show-topology"];

/// The first row that fits applies. `sim` is an old word only if none of its sub-commands follows.
const WORDS: &[Renamed] = &[
    Renamed {
        old: "sim",
        with: PICTURES,
        new: &["sim", "picture"],
        shown: "sim picture",
    },
    renamed("sim", &["sim", "run"], "sim run"),
    Renamed {
        old: "replay",
        with: PICTURES,
        new: &["sim", "picture"],
        shown: "sim picture",
    },
    renamed("replay", &["sim", "replay"], "sim replay"),
    renamed("trace", &["sim", "trace"], "sim trace"),
    renamed("debug", &["sim", "debug"], "sim debug"),
    renamed("shrink", &["sim", "shrink"], "sim shrink"),
    renamed("swarm", &["sim", "swarm"], "sim swarm"),
    renamed("sweep", &["sim", "sweep"], "sim sweep"),
    renamed("mutants", &["sim", "mutants"], "sim mutants"),
    renamed("script", &["test", "--kind", "pkt"], "test FILE.pkt"),
    Renamed {
        old: "step",
        with: &["--program"],
        new: &["sim", "step"],
        shown: "sim step",
    },
    renamed("step", &["test", "--kind", "steps"], "test FILE.steps"),
    renamed("emit", &["build", "--as", "c"], "build --as c"),
    renamed(
        "dissector",
        &["build", "--as", "wireshark"],
        "build --as wireshark",
    ),
    renamed("cib", &["policy", "knowledge"], "policy knowledge"),
    renamed("events", &["bus", "events"], "bus events"),
    renamed("probe", &["bus", "probe"], "bus probe"),
    renamed("modify", &["bus", "modify"], "bus modify"),
    renamed("steer", &["bus", "steer"], "bus steer"),
    renamed("attach", &["bus", "attach"], "bus attach"),
    renamed("detach", &["bus", "detach"], "bus detach"),
    renamed("audit", &["bus", "audit"], "bus audit"),
];

/// The commands in which `--gateway` named a router. In `hawser proxy` it names a gateway, as it did.
const ROUTERS: &[&str] = &["serve", "get", "rpc", "rdma", "send", "recv", "cat", "gateway"];

/// Returns the arguments in the new words, with the new form of the command if it differs. The first argument
/// is the name of this program.
fn rewrite(mut arguments: Vec<OsString>) -> (Vec<OsString>, Option<String>) {
    let Some(at) = first_word(&arguments) else {
        return (arguments, None);
    };
    let end = arguments.iter().position(|argument| argument == "--");
    let end = end.unwrap_or(arguments.len()).max(at + 1);
    let word = arguments[at].to_string_lossy().into_owned();
    let has = |option: &&str| {
        arguments[at + 1..end]
            .iter()
            .any(|argument| is_option(argument, option))
    };
    let is_old = |row: &&Renamed| row.old == word && (row.with.is_empty() || row.with.iter().any(has));
    let is_grouped = word == "sim" && arguments.get(after_log(&arguments, at + 1)).is_none_or(is_sim);
    if let Some(row) = WORDS.iter().find(is_old).filter(|_| !is_grouped) {
        // `hawser help` takes words alone.
        let is_help = arguments[1..at].iter().any(|argument| argument == "help");
        let is_kept = |part: &&&str| !is_help || !part.starts_with('-');
        let new: Vec<OsString> = row.new.iter().take_while(is_kept).map(OsString::from).collect();
        arguments.splice(at..=at, new);
        return (
            arguments,
            Some(format!("`hawser {word}` is now `hawser {}`", row.shown)),
        );
    }
    let mut note = None;
    if ROUTERS.contains(&word.as_str()) {
        for argument in &mut arguments[at + 1..end] {
            if is_option(argument, "--gateway") {
                let text = argument.to_string_lossy().replacen("--gateway", "--router", 1);
                *argument = text.into();
                note = Some("`--gateway`, which names a router, is now `--router`".to_owned());
            }
        }
    }
    (arguments, note)
}

/// Rewrites the arguments of this process, with a note on standard error if they use an old word. Programs
/// that read JSON get no note.
pub(crate) fn arguments(arguments: Vec<OsString>) -> Vec<OsString> {
    let (arguments, note) = rewrite(arguments);
    let is_machine =
        |argument: &OsString| argument == "--json" || argument == "--dap" || argument == "--worker";
    if let Some(note) = note
        && !arguments.iter().any(is_machine)
    {
        eprintln!("hawser: {note}; the old form works in this release only");
    }
    arguments
}

/// Returns the place of the sub-command: behind the options of all commands, and behind `help`.
fn first_word(arguments: &[OsString]) -> Option<usize> {
    let mut at = 1;
    loop {
        match arguments.get(at)?.to_str()? {
            "--log" => at += 2,
            "help" => at += 1,
            word if word.starts_with('-') && !word.starts_with("--log=") => return None,
            word if word.starts_with('-') => at += 1,
            _ => return Some(at),
        }
    }
}

fn is_option(argument: &OsString, option: &str) -> bool {
    let rest = argument.to_str().and_then(|text| text.strip_prefix(option));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

/// Returns the place of the first argument from `at` on that does not belong to the option `--log`.
fn after_log(arguments: &[OsString], mut at: usize) -> usize {
    while let Some(argument) = arguments.get(at).filter(|argument| is_option(argument, "--log")) {
        at += if argument == "--log" { 2 } else { 1 };
    }
    at
}

/// Returns whether the argument after `sim` is one of its sub-commands, asks for help, or looks like a misspelt
/// sub-command: a word that is no option, no path and no file.
fn is_sim(argument: &OsString) -> bool {
    let Some(word) = argument.to_str() else {
        return false;
    };
    let command = Cli::command();
    let sim = command.find_subcommand("sim");
    matches!(word, "help" | "--help" | "-h")
        || sim.is_some_and(|sim: &Command| sim.find_subcommand(word).is_some())
        || !(word.starts_with('-') || word.contains(['.', '/']) || Path::new(word).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Command lines in old words, and the same in new words.
    const LINES: &[(&str, &str)] = &[
        ("sim a.toml --seed 3", "sim run a.toml --seed 3"),
        ("sim --json a.toml", "sim run --json a.toml"),
        ("--log json sim a.toml", "--log json sim run a.toml"),
        ("sim a.toml --html=a.html", "sim picture a.toml --html=a.html"),
        (
            "sim a.toml --show-topology a.svg",
            "sim picture a.toml --show-topology a.svg",
        ),
        ("replay a.toml --seed 3", "sim replay a.toml --seed 3"),
        (
            "replay a.toml --seed 3 --svg a.svg",
            "sim picture a.toml --seed 3 --svg a.svg",
        ),
        ("trace a.toml --packets", "sim trace a.toml --packets"),
        ("debug --dap", "sim debug --dap"),
        ("shrink a.toml", "sim shrink a.toml"),
        ("swarm tcp --runs 5", "sim swarm tcp --runs 5"),
        ("sweep a.toml --on slurm", "sim sweep a.toml --on slurm"),
        ("mutants tcp --goal 90", "sim mutants tcp --goal 90"),
        ("script a.pkt --packets", "test --kind pkt a.pkt --packets"),
        (
            "script --linux -D A=1 folder",
            "test --kind pkt --linux -D A=1 folder",
        ),
        (
            "step a.steps --show --events",
            "test --kind steps a.steps --show --events",
        ),
        (
            "step --program tcp --param MIN_RTO=1s --save a",
            "sim step --program tcp --param MIN_RTO=1s --save a",
        ),
        ("emit a.mtp -o a.c", "build --as c a.mtp -o a.c"),
        ("emit a.mtp --machine ebpf", "build --as c a.mtp --machine ebpf"),
        ("dissector tcp", "build --as wireshark tcp"),
        ("cib list --json", "policy knowledge list --json"),
        ("cib watch", "policy knowledge watch"),
        ("events tcp.*", "bus events tcp.*"),
        ("probe 0:1 x", "bus probe 0:1 x"),
        ("modify 0:1 x 5 --lease 1s", "bus modify 0:1 x 5 --lease 1s"),
        ("steer fast", "bus steer fast"),
        ("attach a.mtp --param A=1", "bus attach a.mtp --param A=1"),
        ("detach a", "bus detach a"),
        ("audit", "bus audit"),
        (
            "get http://h/ --dev tun:a --addr 10.0.0.2/24 --gateway 10.0.0.1",
            "get http://h/ --dev tun:a --addr 10.0.0.2/24 --router 10.0.0.1",
        ),
    ];

    fn words(line: &str) -> Vec<OsString> {
        std::iter::once("hawser")
            .chain(line.split_whitespace())
            .map(OsString::from)
            .collect()
    }

    #[test]
    fn every_old_word_is_accepted_as_the_new_one() {
        for (old, new) in LINES {
            let (rewritten, note) = rewrite(words(old));
            assert_eq!(rewritten, words(new), "{old}");
            assert!(note.is_some(), "{old}");
            let parsed = Cli::command().try_get_matches_from(rewritten);
            assert!(parsed.is_ok(), "{old}: {}", parsed.unwrap_err());
        }
        for row in WORDS {
            let is_tested = |(old, _): &(&str, &str)| old.split_whitespace().any(|word| word == row.old);
            assert!(LINES.iter().any(is_tested), "no line for {}", row.old);
        }
    }

    #[test]
    fn new_words_are_left_as_they_are() {
        let lines = [
            "sim run a.toml",
            "sim",
            "sim --help",
            "sim help run",
            "sim --log json run a.toml",
            "sim --log=json run a.toml",
            "sim rnu a.toml",
            "test a.pkt",
            "watch",
            "build a.mtp --as c",
            "proxy --gateway server --gateway-token file",
            "lab up a.toml -- hawser sim a.toml --svg b",
            "check sim",
            "--version",
            "lab up a.toml -- trace --gateway",
        ];
        for line in lines {
            assert_eq!(rewrite(words(line)), (words(line), None), "{line}");
        }
    }

    #[test]
    fn help_on_an_old_word_is_help_on_the_new_one() {
        assert_eq!(rewrite(words("help trace")).0, words("help sim trace"));
        assert_eq!(rewrite(words("help emit")).0, words("help build"));
        assert_eq!(rewrite(words("help script")).0, words("help test"));
        assert_eq!(rewrite(words("trace --help")).0, words("sim trace --help"));
    }
}
