//! Names with control sequences: every name of a scenario and a program contains ESC, a line feed and U+202E.
//! All commands that take them, and the formats of their files, are checked.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hawser_documents::temporary::Folder;

/// The suffix of each name: a window title, a line that imitates the command's own, and reversed text.
const EVIL: &str = "\u{1b}]0;own\u{7}\u{9b}31m\nPLANTED\u{202e}Y";
/// The same suffix as a string of TOML.
const EVIL_TOML: &str = "\\u001b]0;own\\u0007\\u009b31m\\nPLANTED\\u202eY";

struct TestFolder {
    folder: Folder,
    program: PathBuf,
    scenario: PathBuf,
    sweep: PathBuf,
}

fn place() -> TestFolder {
    let folder = Folder::new().expect("a folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("examples/stop-and-wait.mtp")).expect("it is there");
    // An assertion is shown with its text, including this comment. It becomes false late in the run.
    let assertion = format!("    assert(c.next_out < 9 /* {} */);\n", EVIL.replace('\n', " "));
    let text = text.replace(
        "    if (c.waiting) return;\n",
        &format!("    if (c.waiting) return;\n{assertion}"),
    );
    assert!(text.contains("assert("), "the program has changed");
    let program = folder.join(format!("p{EVIL}.mtp"));
    fs::write(&program, text).expect("a file");
    let scenario = folder.join("escapes.toml");
    fs::write(
        &scenario,
        format!(
            "name = \"T{EVIL_TOML}\"\nduration = \"5min\"\nprogram = \"p{EVIL_TOML}.mtp\"\nqueue_depths = true\n\
             params = {{ RTO = \"50ms\" }}\n\
             [[host]]\nname = \"a{EVIL_TOML}\"\n[[host]]\nname = \"b{EVIL_TOML}\"\n[[switch]]\nname = \"s{EVIL_TOML}\"\n\
             [[link]]\nname = \"l{EVIL_TOML}\"\nbetween = [\"a{EVIL_TOML}\", \"s{EVIL_TOML}\"]\n\
             both = {{ rate = \"10Mbit/s\", delay = \"2ms\", loss = 0.1 }}\n\
             [[link]]\nbetween = [\"s{EVIL_TOML}\", \"b{EVIL_TOML}\"]\nboth = {{ rate = \"10Mbit/s\", delay = \"2ms\" }}\n\
             [[flow]]\nfrom = \"a{EVIL_TOML}\"\nto = \"b{EVIL_TOML}\"\nbulk = {{ bytes = \"20KiB\" }}\n"
        ),
    )
    .expect("a file");
    let sweep = folder.join("sweep.toml");
    fs::write(
        &sweep,
        format!(
            "scenario = \"escapes.toml\"\n[[vary]]\nname = \"x{EVIL_TOML}\"\nkey = \"name\"\nvalues = [\"v{EVIL_TOML}\"]\n"
        ),
    )
    .expect("a file");
    TestFolder { folder, program, scenario, sweep }
}

impl TestFolder {
    fn hawser(&self, arguments: &[&str], input: &str) -> Output {
        let argument = |word: &&str| match *word {
            "SCENARIO" => self.scenario.clone().into_os_string(),
            "PROGRAM" => self.program.clone().into_os_string(),
            "SWEEP" => self.sweep.clone().into_os_string(),
            word => word.into(),
        };
        let mut child = Command::new(env!("CARGO_BIN_EXE_hawser"))
            .args(arguments.iter().map(argument))
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("hawser starts");
        let _ = child
            .stdin
            .take()
            .expect("it is piped")
            .write_all(input.as_bytes());
        child.wait_with_output().expect("it ends")
    }
}

/// Checks that a text has no control sequences or reversed text, and no line that begins within a name.
fn harmless(what: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let acts = |c: char| {
        (c.is_control() && c != '\n' && c != '\t' && c != '\r') || ('\u{202a}'..='\u{202e}').contains(&c)
    };
    if let Some(at) = text.find(acts) {
        let before: Vec<char> = text[..at].chars().rev().take(80).collect();
        let before: String = before.into_iter().rev().collect();
        let behind: String = text[at..].chars().take(40).collect();
        panic!("{what}: {before:?}{behind:?}");
    }
    // TOML has multi-line texts, whose lines are not the command's own.
    assert!(
        what.ends_with(".toml") || !text.lines().any(|line| line.starts_with("PLANTED")),
        "{what}: a name begins a line"
    );
}

/// Checks the output of a command, and that it processes the names at all.
fn check(place: &TestFolder, arguments: &[&str], input: &str) {
    let what = arguments.join(" ");
    let output = place.hawser(arguments, input);
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 1)), "{what}: {code:?} {output:?}");
    harmless(&what, &output.stdout);
    harmless(&what, &output.stderr);
}

#[test]
fn commands_escape_control_characters_in_names() {
    let place = place();
    for arguments in [
        &["check", "PROGRAM"][..],
        &["check", "--json", "PROGRAM"],
        &["build", "--as", "c", "PROGRAM"],
        &["build", "--as", "wireshark", "PROGRAM"],
        &["fmt", "--check", "PROGRAM"],
        &["sim", "run", "SCENARIO"],
        &["sim", "run", "SCENARIO", "--json"],
        &["sim", "replay", "SCENARIO", "--seed", "1"],
        &["sim", "replay", "SCENARIO", "--seed", "1", "--json"],
        &["sim", "trace", "SCENARIO"],
        &["sim", "trace", "SCENARIO", "--json"],
        &["sim", "trace", "SCENARIO", "--packets"],
        &["sim", "trace", "SCENARIO", "--packets", "--json"],
        &["sim", "sweep", "SWEEP", "--jobs", "1"],
        &["sim", "sweep", "SWEEP", "--jobs", "1", "--json"],
        &["sim", "swarm", "PROGRAM", "--plain", "--no-shrink", "--runs", "3"],
        &[
            "swarm",
            "PROGRAM",
            "--plain",
            "--no-shrink",
            "--runs",
            "3",
            "--json",
        ],
        &["sim", "shrink", "SCENARIO", "--for", "2s"],
        &["sim", "shrink", "SCENARIO", "--for", "2s", "--json"],
    ] {
        check(&place, arguments, "");
    }
    let steps = "connect 7001 from 40000\nsend 100\n+200ms\n";
    check(
        &place,
        &["sim", "step", "--program", "PROGRAM", "--events"],
        steps,
    );
    let debugged = "contexts\nflight\nscopes\nstack\ncontinue\nevent\nquit\n";
    for form in [
        &["sim", "debug", "SCENARIO"][..],
        &["sim", "debug", "SCENARIO", "--json"],
    ] {
        let output = place.hawser(form, debugged);
        harmless("debug", &output.stdout);
        harmless("debug", &output.stderr);
    }
    let wrong = place.hawser(&["sim", "trace", "SCENARIO", "--host", "nosuch"], "");
    harmless("an error", &wrong.stderr);
}

/// Files for people are shown by `cat`, too. Frames of captures keep their bytes; only their comments are
/// checked.
#[test]
fn written_files_escape_control_characters_in_names() {
    let place = place();
    for arguments in [
        &[
            "sim",
            "SCENARIO",
            "--html",
            "run.html",
            "--svg",
            "run.svg",
            "--csv",
            "tables",
            "--record",
            "run.jsonl",
        ][..],
        &["sim", "run", "SCENARIO", "--trace", "trace.jsonl"],
        &["sim", "picture", "SCENARIO", "--show-topology", "map.svg"],
        &["sim", "picture", "SCENARIO", "--show-topology", "map.dot"],
        &["sim", "trace", "SCENARIO", "--pcapng", "run.pcapng"],
        &["sim", "shrink", "SCENARIO", "--for", "2s", "--out", "shrunk.toml"],
        &[
            "swarm",
            "PROGRAM",
            "--plain",
            "--no-shrink",
            "--runs",
            "3",
            "--save",
            "swarm.toml",
        ],
        &["sim", "sweep", "SWEEP", "--jobs", "1", "--out", "swept"],
        &["build", "--as", "c", "PROGRAM", "-o", "program.c"],
        &["build", "--as", "wireshark", "PROGRAM", "-o", "program.lua"],
    ] {
        check(&place, arguments, "");
    }
    let mut found = Vec::new();
    files(&place.folder, &mut found);
    let is_ours =
        |path: &&PathBuf| **path != place.scenario && **path != place.sweep && **path != place.program;
    for path in found.iter().filter(is_ours) {
        let bytes = fs::read(path).expect("it is there");
        let bytes = match path.extension().is_some_and(|ending| ending == "pcapng") {
            true => comments(&bytes),
            false => bytes,
        };
        harmless(&path.display().to_string(), &bytes);
    }
    for name in [
        "run.html",
        "run.svg",
        "run.jsonl",
        "trace.jsonl",
        "map.svg",
        "map.dot",
        "shrunk.toml",
        "swept/table.csv",
    ] {
        let text = fs::read_to_string(place.folder.join(name)).expect("it is text");
        assert!(
            text.contains("PLANTED") && text.contains("202e"),
            "{name} has the names, escaped"
        );
    }
    // A saved file has the same meaning as its original.
    let saved = fs::read_to_string(place.folder.join("shrunk.toml")).expect("it is there");
    let saved = hawser::runs::Scenario::parse(&saved).expect("a scenario");
    assert_eq!(saved.host[0].name, format!("a{EVIL}"));
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

/// Returns the comments of a capture: the texts after `.mtp:` in the program's name.
fn comments(capture: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(capture);
    let lines = text.split(".mtp:").skip(1);
    let comment = |rest: &str| rest.split('\0').next().unwrap_or_default().to_owned();
    let comments: Vec<String> = lines.map(comment).collect();
    assert!(
        comments.iter().any(|comment| comment.contains("PLANTED")),
        "comments name hosts"
    );
    comments.join("\n").into_bytes()
}
