//! Checks `docs/errata.md`: the corrected snippets contain every fragment that the page calls corrected and
//! no fragment that it calls printed. The snippets compile, because `files.rs` compiles all of
//! `lang/tests/pass`.

#![allow(clippy::disallowed_methods)] // the page and the snippets are files

use std::fs;
use std::path::{Path, PathBuf};

use hawser_syntax::lexer::lex;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A row of a table: its file, the printed fragment, the corrected fragment.
struct Erratum {
    file: String,
    line: String,
    printed: String,
    corrected: Option<String>,
}

/// Returns the text between backquotes.
fn code(cell: &str) -> Option<String> {
    Some(
        cell.trim()
            .strip_prefix('`')?
            .strip_suffix('`')?
            .replace("\\|", "|"),
    )
}

/// Returns the cells of a table's row; `\|` does not separate cells.
fn cells(row: &str) -> Vec<String> {
    row.replace("\\|", "\u{1}")
        .split('|')
        .map(|cell| cell.replace('\u{1}', "\\|"))
        .collect()
}

fn errata(page: &str) -> Vec<Erratum> {
    let mut file = String::new();
    let mut found = Vec::new();
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("File: ") {
            file = code(name).expect("a file's name");
        }
        let cells = cells(line);
        let [_, at, printed, corrected, why, _] = cells.as_slice() else {
            continue;
        };
        let Some(printed) = code(printed) else { continue };
        assert!(!why.trim().is_empty(), "line {at} has no reason");
        let corrected = code(corrected);
        found.push(Erratum { file: file.clone(), line: at.trim().to_owned(), printed, corrected });
    }
    found
}

/// Returns the tokens, separated by single spaces, with one space before and one behind; `...` is a token.
fn tokens(text: &str) -> String {
    let lexed = lex(text, 0);
    let words = lexed
        .tokens
        .iter()
        .map(|token| &text[token.start as usize..token.end as usize]);
    words.fold(" ".to_owned(), |row, word| {
        if word.is_empty() { row } else { row + word + " " }
    })
}

#[test]
fn every_erratum_matches_the_snippets() {
    let page = fs::read_to_string(root().join("docs/errata.md")).expect("the page");
    let errata = errata(&page);
    assert!(errata.len() > 50, "only {} rows were read", errata.len());
    for Erratum { file, line, printed, corrected } in errata {
        let text = tokens(&fs::read_to_string(root().join(&file)).expect("the snippets"));
        assert!(
            !text.contains(&tokens(&printed)),
            "{file}: `{printed}` (line {line}) is still there"
        );
        if let Some(corrected) = corrected {
            assert!(
                text.contains(&tokens(&corrected)),
                "{file}: `{corrected}` (line {line}) does not occur"
            );
        }
    }
}
