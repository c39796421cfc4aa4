//! `docs/exit-codes.md` holds: each code that needs no network is met once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The exit code of `hawser …`, and what it says on standard error.
fn hawser(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_hawser")).args(arguments).output().expect("hawser starts");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file for one test, and its path.
fn file(name: &str, text: impl AsRef<[u8]>) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("the folder for tests can be written");
    path.display().to_string()
}

#[test]
fn a_good_program_ends_with_0() {
    let program = repository().join("examples/stop-and-wait.mtp");
    assert_eq!(hawser(&["check", &program.display().to_string()]), (0, String::new()));
}

#[test]
fn a_wrong_program_ends_with_1() {
    let program = file("wrong.mtp", "// Wrong.\ncontext c { nosuch x; }\n");
    let (code, said) = hawser(&["check", &program]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("nosuch"), "{said}");
}

#[test]
fn wrong_usage_ends_with_2() {
    for arguments in
        [&["nosuch"][..], &["check"], &["sim", "a.toml", "--seed", "many"], &["explain", "E9999"]]
    {
        let (code, said) = hawser(arguments);
        assert_eq!(code, 2, "{arguments:?}: {said}");
    }
}

#[test]
fn an_unreadable_file_ends_with_3() {
    let missing = ["check", "sim", "fmt"].map(|command| vec![command, "nosuch.file"]);
    let broken = file("broken.toml", "program = 3\n");
    let binary = file("binary.mtp", [0xff, 0xfe, 0x00]);
    let others = [vec!["sim", broken.as_str()], vec!["check", binary.as_str()]];
    for arguments in missing.into_iter().chain(others) {
        let (code, said) = hawser(&arguments);
        assert_eq!(code, 3, "{arguments:?}: {said}");
        assert!(!said.is_empty(), "{arguments:?} says why");
    }
}

#[test]
fn a_missing_device_ends_with_4() {
    let (code, said) = hawser(&["serve", ".", "--dev", "packet:nosuch0", "--addr", "10.9.0.2/24"]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("nosuch0"), "{said}");
}

#[test]
fn a_reader_that_goes_away_is_no_bug() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut hawser = Command::new(env!("CARGO_BIN_EXE_hawser"));
    let output = hawser.args(["explain", "E0020"]).stdout(writer).output().expect("hawser starts");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn every_code_of_the_page_is_told_by_help() {
    let page = fs::read_to_string(repository().join("docs/exit-codes.md")).expect("the page is there");
    let codes =
        page.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next()?.parse::<u8>().ok());
    let help = Command::new(env!("CARGO_BIN_EXE_hawser")).arg("--help").output().expect("hawser starts");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let (_, told) = help.split_once("Exit codes:").expect("help tells exit codes");
    let codes: Vec<String> = codes.map(|code| code.to_string()).collect();
    assert_eq!(codes.len(), 7);
    for code in codes {
        let words: Vec<&str> = told.split([' ', ',', '\n']).collect();
        assert!(words.contains(&code.as_str()), "{code} is not in {told}");
    }
}
