//! Checks `docs/language.md`: every fenced block of the page compiles or fails as it says, and the examples
//! use every word of the language. The page therefore cannot fall behind.
//!
//! A fenced block has a mark. `text`, `ebnf` and `console` mark blocks that are not programs. `mtp` marks a
//! program, with the additional words that the page explains at its head; see [`Kind`].

#![allow(clippy::disallowed_methods)] // the page is a file

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use hawser_driver::{MemoryLoader, compile_with, render};
use hawser_syntax::lexer::lex;
use hawser_syntax::token::{ITEM_WORDS, PLACE_WORDS, STATEMENT_WORDS};
use hawser_syntax::{Diagnostic, Severity};

/// Marks of blocks that are not programs.
const OTHER_MARKS: [&str; 3] = ["text", "ebnf", "console"];

/// The kind of a block.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// ` ```mtp`: declarations that need nothing else.
    Alone,
    /// ` ```mtp prelude`: declarations that the kinds below may use.
    Prelude,
    /// ` ```mtp more`: declarations beside the prelude.
    More,
    /// ` ```mtp statement`: statements in a processor beside the prelude.
    Statement,
    /// ` ```mtp parser`: statements in a parser beside the prelude.
    Parser,
    /// ` ```mtp file=name`: a file that others import.
    File(String),
}

/// A fenced block.
#[derive(Clone, Debug)]
struct Block {
    /// The line of its first fence, from 1.
    line: usize,
    kind: Kind,
    /// `fail E0xxx`: the code that it must yield.
    fails: Option<String>,
    text: String,
}

/// Parses a mark such as `mtp statement fail E0705` into kind and code.
fn mark(words: &str, line: usize) -> Option<(Kind, Option<String>)> {
    let mut words = words.split_whitespace();
    match words.next() {
        Some("mtp") => {}
        Some(other) if OTHER_MARKS.contains(&other) => return None,
        other => panic!("line {line}: a fenced block with the mark {other:?}"),
    }
    let (mut kind, mut fails) = (Kind::Alone, None);
    while let Some(word) = words.next() {
        match word {
            "prelude" => kind = Kind::Prelude,
            "more" => kind = Kind::More,
            "statement" => kind = Kind::Statement,
            "parser" => kind = Kind::Parser,
            "fail" => fails = Some(words.next().expect("`fail` has a code").to_owned()),
            _ => match word.strip_prefix("file=") {
                Some(name) => kind = Kind::File(name.to_owned()),
                None => panic!("line {line}: a fenced block with the mark {word:?}"),
            },
        }
    }
    Some((kind, fails))
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/language.md");
    fs::read_to_string(path).expect("the page")
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((at, fence)) = lines.next() {
        let Some(words) = fence.trim_start().strip_prefix("```") else {
            continue;
        };
        let text: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| *line != "```")
            .collect();
        if let Some((kind, fails)) = mark(words, at + 1) {
            found.push(Block { line: at + 1, kind, fails, text: text.join("\n") + "\n" });
        }
    }
    found
}

/// Returns the program that a block stands for.
fn program(block: &Block, prelude: &str) -> String {
    let text = &block.text;
    match &block.kind {
        Kind::Alone | Kind::File(_) => text.clone(),
        Kind::Prelude => text.clone(),
        Kind::More => format!("{prelude}{text}"),
        Kind::Statement => format!("{prelude}void example(packet ev, conn c, scratch s) {{\n{text}}}\n"),
        Kind::Parser => format!(
            "{prelude}list<event_t> example_parser(pkt_t p, IPheader i) {{\nlist<event_t> out;\n\
             {text}return out;\n}}\n"
        ),
    }
}

/// Describes the fault of a block, if it has one.
fn verdict(block: &Block, prelude: &str, files: &[(String, String)]) -> Option<String> {
    let mut texts = files.to_vec();
    texts.push(("page.mtp".to_owned(), program(block, prelude)));
    let compiled = compile_with(&MemoryLoader::new(texts), Path::new("page.mtp"));
    let mut errors = compiled.diagnostics;
    errors.retain(|diagnostic: &Diagnostic| diagnostic.severity == Severity::Error);
    let found: BTreeSet<&str> = errors.iter().map(|diagnostic| diagnostic.code).collect();
    let expected: BTreeSet<&str> = block.fails.iter().map(String::as_str).collect();
    let rendered = render(&errors, &compiled.sources, false);
    (found != expected).then(|| {
        format!(
            "line {}: expected {expected:?}, found {found:?}\n{rendered}",
            block.line
        )
    })
}

#[test]
fn every_block_compiles_or_fails_as_marked() {
    let blocks = blocks(&page());
    let mut preludes = blocks.iter().filter(|block| block.kind == Kind::Prelude);
    let prelude = preludes.next().expect("the page has a prelude").text.clone();
    assert!(preludes.next().is_none(), "the page has one prelude");
    let file = |block: &Block| match &block.kind {
        Kind::File(name) => Some((name.clone(), block.text.clone())),
        _ => None,
    };
    let files: Vec<(String, String)> = blocks.iter().filter_map(file).collect();
    let wrong: Vec<String> = blocks
        .iter()
        .filter_map(|block| verdict(block, &prelude, &files))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(blocks.len() > 50, "only {} blocks were found", blocks.len());
}

/// Examples are formatted as `hawser fmt` formats programs.
#[test]
fn every_block_is_formatted() {
    for block in blocks(&page()).iter().filter(|block| block.fails.is_none()) {
        let text = match block.kind {
            Kind::Alone | Kind::Prelude | Kind::More | Kind::File(_) => block.text.clone(),
            Kind::Statement | Kind::Parser => {
                let lines = block.text.lines().map(|line| format!("    {line}\n"));
                format!("void f() {{\n{}}}\n", lines.collect::<String>())
            }
        };
        let formatted = hawser_syntax::format(&text).expect("it compiles");
        assert_eq!(text, formatted, "line {}", block.line);
    }
}

/// Returns the tokens of all examples that compile.
fn tokens(blocks: &[Block]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for block in blocks.iter().filter(|block| block.fails.is_none()) {
        let lexed = lex(&block.text, 0);
        all.extend(
            lexed
                .tokens
                .iter()
                .map(|t| block.text[t.start as usize..t.end as usize].to_owned()),
        );
    }
    all
}

/// Operators and assignments. `>>` and `>>=` are two tokens, which occur anyway.
const SIGNS: &str =
    "? : || && | ^ & == != < <= > >= << + - * / % ! ~ = += -= *= /= %= &= |= ^= <<= .. :: -> .";

#[test]
fn examples_use_every_word_of_the_language() {
    let page = page();
    let used = tokens(&blocks(&page));
    let mut missing = Vec::new();
    let mut need = |kind: &str, word: &str| {
        if !used.contains(word) {
            missing.push(format!("{kind} `{word}` is in no example"));
        }
    };
    for word in ITEM_WORDS.iter().chain(&STATEMENT_WORDS).chain(&PLACE_WORDS) {
        need("a keyword", word);
    }
    for sign in SIGNS.split(' ') {
        need("a sign", sign);
    }
    for names in hawser_check::vocabulary::vocabulary() {
        names.names.iter().for_each(|name| need(names.kind, name));
    }
    let listed: BTreeSet<&str> = page
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .collect();
    for (constant, _) in hawser_check::vocabulary::constants().filter(|(name, _)| !listed.contains(name)) {
        missing.push(format!("the constant `{constant}` is not on the page"));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
