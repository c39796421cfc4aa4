//! Tests of the formatter: its output, its idempotence, and that it leaves the tree unchanged.

#![allow(clippy::disallowed_methods)] // the texts are files; the library itself reads none

use std::fs;
use std::path::{Path, PathBuf};

use hawser_syntax::{format, parse};
use hawser_testing::expect_file;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns all programs of a folder.
fn programs(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "mtp"))
        .collect();
    paths.sort();
    paths
}

/// Returns the tree as text, without spans.
fn tree(text: &str) -> String {
    let (file, diagnostics) = parse(text, 0);
    assert_eq!(diagnostics, []);
    let debug = format!("{file:?}");
    let mut out = String::new();
    let mut rest = debug.as_str();
    while let Some(at) = rest.find("Span {") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = &rest[rest.find('}').expect("the span ends")..];
    }
    out + rest
}

fn check(name: &str, text: &str) -> String {
    let once = format(text).unwrap_or_else(|diagnostics| panic!("{name}: {diagnostics:?}"));
    assert_eq!(
        format(&once).as_deref(),
        Ok(once.as_str()),
        "{name} is not formatted once and for all"
    );
    assert_eq!(tree(text), tree(&once), "{name} changed its meaning");
    assert_eq!(comments(text), comments(&once), "{name} lost a comment");
    once
}

fn comments(text: &str) -> Vec<String> {
    let lexed = hawser_syntax::lexer::lex(text, 0);
    let text_of = |start: u32, end: u32| {
        text[start as usize..end as usize]
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect::<Vec<_>>()
            .join("\n")
    };
    lexed
        .comments
        .iter()
        .map(|comment| text_of(comment.start, comment.end))
        .collect()
}

/// `lang/tests/format/x.mtp` becomes `x.formatted`; a change detector ([`expect_file`]).
#[test]
fn texts_are_formatted_as_expected() {
    let paths = programs("lang/tests/format");
    assert!(!paths.is_empty());
    for path in paths {
        let text = fs::read_to_string(&path).expect("a text");
        let found = check(&path.display().to_string(), &text);
        expect_file(&path.with_extension("formatted"), &found).unwrap_or_else(|e| panic!("{e}"));
        let longest = found
            .lines()
            .map(|line| line.split("//").next().unwrap_or("").trim_end().chars().count());
        assert!(
            longest.max().unwrap_or(0) <= hawser_syntax::MAX_COLUMNS,
            "{}",
            path.display()
        );
    }
}

#[test]
fn programs_keep_their_meaning() {
    for folder in ["examples", "lang/tests/pass", "lang/tests/run"] {
        if root().join(folder).is_dir() {
            for path in programs(folder) {
                check(
                    &path.display().to_string(),
                    &fs::read_to_string(&path).expect("a text"),
                );
            }
        }
    }
}

#[test]
fn an_empty_text_stays_empty_and_an_error_is_returned() {
    assert_eq!(format("").as_deref(), Ok(""));
    assert_eq!(format("\n\n  \n").as_deref(), Ok(""));
    assert!(format("struct s { uint8 x }").is_err());
}

/// The line begins with the brace that ends the `if`, and the statements behind it belong to another body.
#[test]
fn an_else_that_does_not_fit_breaks_its_braces() {
    let long = "c.a_field_with_a_long_name = 1;  c.another_field_with_one = 2;  c.and_a_third_one = 3;";
    let text = format!(
        "void f(conn c) {{\n    if (c.x == 5) {{ {long}  {long} }}\n    else {{ {long}  {long} }}\n}}\n"
    );
    let once = check("an else that does not fit", &text);
    assert!(once.contains("\n    } else {\n        c.a_field"), "{once}");
}

#[test]
fn carriage_returns_become_line_feeds() {
    let text = "// a comment\revent ask : APP_EVENT { }\r\n// another\rcontext conn { uint32 n; }\r";
    let lines = "// a comment\nevent ask : APP_EVENT { }\n// another\ncontext conn { uint32 n; }\n";
    assert_eq!(format(text), format(lines));
    assert!(format(lines).is_ok());
}
