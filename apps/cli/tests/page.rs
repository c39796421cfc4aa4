//! Follows pages of the documentation word for word.
//!
//! Blocks marked `mtp file=NAME`, and others of this form, are written to that file, one after the other.
//! Blocks marked `console` are run with the built `hawser`, in the order of the page, and their output is
//! compared with the page. There, `…` stands for any text within a line, and alone on a line for any number
//! of lines. A command that fails must be followed by `echo $?`.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Follows a page of `docs/` in an empty folder. Returns the files that it writes and the number of its
/// commands.
pub(crate) fn follow_page(page: &str) -> (BTreeSet<String>, usize) {
    follow_page_with(page, &[])
}

/// Follows a page like [`follow_page`], in a folder with copies of examples. Each is given by its name in
/// `examples/` and the name of the copy.
pub(crate) fn follow_page_with(page: &str, copies: &[(&str, &str)]) -> (BTreeSet<String>, usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(page);
    let text = fs::read_to_string(path).expect("the page is there");
    let folder = empty_folder(page.trim_end_matches(".md"));
    for (example, copy) in copies {
        let example = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../examples")
            .join(example);
        fs::copy(example, folder.join(copy)).expect("the example is there");
    }
    let (mut files, mut commands) = (BTreeSet::new(), 0);
    for block in blocks(&text) {
        match block.info.split_once(" file=") {
            Some((_, name)) => append(&folder, name, &block.text, files.insert(name.to_owned())),
            None if block.info == "console" => commands += follow(page, &folder, &block),
            None => {}
        }
    }
    (files, commands)
}

/// A fenced block of a page.
pub(crate) struct Block {
    /// The line of its opening fence, counted from 1.
    pub(crate) line: usize,
    /// The info string after the fence.
    pub(crate) info: String,
    pub(crate) text: String,
}

/// Returns the fenced blocks of a page, in order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in page.lines().enumerate() {
        match (open.take(), line.strip_prefix("```")) {
            (Some(block), Some(_)) => blocks.push(block),
            (None, Some(info)) => {
                open = Some(Block { line: index + 1, info: info.trim().to_owned(), text: String::new() });
            }
            (Some(mut block), None) => {
                block.text += line;
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// Appends a block to a file, which is created for its first block.
fn append(folder: &Path, name: &str, text: &str, new: bool) {
    assert!(!name.contains(['/', ' ']), "{name} is no plain file name");
    let mut file = fs::OpenOptions::new()
        .create(new)
        .append(true)
        .open(folder.join(name))
        .expect("open");
    let gap = if new { "" } else { "\n" };
    write!(file, "{gap}{text}").expect("write");
}

/// Runs the commands of a console block and compares their output. Returns the number of commands.
fn follow(page: &str, folder: &Path, block: &Block) -> usize {
    let (mut count, mut code) = (0, 0);
    for step in block.text.split("$ ").skip(1) {
        let (command, expected) = step.split_once('\n').unwrap_or((step, ""));
        let place = format!("docs/{page}:{}: $ {command}", block.line);
        let printed = if command == "echo $?" {
            format!("{}\n", std::mem::take(&mut code))
        } else {
            assert_eq!(
                code, 0,
                "{place}: the command before failed, and the page does not say so"
            );
            let (printed, status) = run(folder, command);
            code = status;
            printed
        };
        assert!(
            matches(expected, &printed),
            "{place}\nthe page says:\n{expected}\nit printed:\n{printed}"
        );
        count += 1;
    }
    assert_eq!(code, 0, "docs/{page}:{}: the last command failed", block.line);
    count
}

/// Runs `hawser …`. Returns its output followed by its errors, and the exit code.
fn run(folder: &Path, command: &str) -> (String, i32) {
    let words: Vec<&str> = command.split_whitespace().collect();
    let ["hawser", arguments @ ..] = &words[..] else {
        panic!("`{command}` is not a hawser command")
    };
    let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .expect("hawser starts");
    let text = [output.stdout, output.stderr].concat();
    (
        String::from_utf8(text).expect("UTF-8"),
        output.status.code().unwrap_or(-1),
    )
}

/// Returns whether the output matches the page.
fn matches(expected: &str, printed: &str) -> bool {
    let expected: Vec<&str> = expected
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .collect();
    let printed: Vec<&str> = printed
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .collect();
    lines_match(&expected, &printed)
}

fn lines_match(expected: &[&str], printed: &[&str]) -> bool {
    match expected {
        [] => printed.is_empty(),
        ["…", rest @ ..] => (0..=printed.len()).any(|skip| lines_match(rest, &printed[skip..])),
        [first, rest @ ..] => match printed {
            [line, others @ ..] => line_matches(first, line) && lines_match(rest, others),
            [] => false,
        },
    }
}

/// Returns whether a line consists of the pieces between `…`, in order.
fn line_matches(expected: &str, line: &str) -> bool {
    let Some((head, tail)) = expected.split_once('…') else {
        return expected == line;
    };
    let Some(mut rest) = line.strip_prefix(head) else {
        return false;
    };
    let mut pieces = tail.split('…').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    true
}

#[test]
fn blocks_are_found_with_their_marks() {
    let found = blocks("x\n```mtp file=a.mtp\none\n```\n```\ntwo\n```\n");
    let found: Vec<_> = found
        .iter()
        .map(|b| (b.line, b.info.as_str(), b.text.as_str()))
        .collect();
    assert_eq!(found, [(2, "mtp file=a.mtp", "one\n"), (5, "", "two\n")]);
}

#[test]
fn output_is_matched_with_ellipses() {
    assert!(matches("a … c\n", "a b c\n") && matches("…\nz\n", "x\ny\nz\n") && matches("a…\n", "a\n"));
    assert!(matches("took …s, … lost\n", "took 3.2s, 7 lost\n"));
    assert!(!matches("a … c\n", "a b d\n") && !matches("a\n", "a\nb\n") && !matches("…\nz\n", "x\n"));
    assert!(!matches("a\n", "") && !matches("", "a\n"));
}
