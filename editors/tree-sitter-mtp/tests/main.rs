//! The grammar accepts exactly the language.

use std::fs;
use std::path::{Path, PathBuf};

use hawser_tree_sitter::{HIGHLIGHTS, LANGUAGE};
use sha2::{Digest, Sha256};
use tree_sitter::{Node, Parser, Query, QueryCursor, StreamingIterator, Tree};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn parse(text: &str) -> Tree {
    let mut parser = Parser::new();
    parser
        .set_language(&LANGUAGE.into())
        .expect("a version that is known");
    parser.parse(text, None).expect("a tree")
}

/// Collects the programs below a folder, except in build folders.
fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_left_out = name.starts_with('.') || ["target", "node_modules"].contains(&name.as_str());
        if path.is_dir() && !is_left_out {
            programs(&path, found);
        } else if name.ends_with(".mtp") {
            found.push(path);
        }
    }
}

/// Collects the lines, from 1, with syntax errors.
fn errors(node: Node<'_>, lines: &mut Vec<usize>) {
    if node.is_error() || node.is_missing() {
        lines.push(node.start_position().row + 1);
    } else if node.has_error() {
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            errors(child, lines);
        }
    }
}

#[test]
fn every_program_of_the_repository_is_read_without_an_error() {
    let mut found = Vec::new();
    programs(&repository(), &mut found);
    let fail = Path::new("lang/tests/fail");
    found.retain(|path| {
        !path
            .strip_prefix(repository())
            .expect("below it")
            .starts_with(fail)
    });
    assert!(found.len() > 80, "{}", found.len());
    let mut wrong = Vec::new();
    for path in found {
        let tree = parse(&fs::read_to_string(&path).expect("a text"));
        let mut lines = Vec::new();
        errors(tree.root_node(), &mut lines);
        if !lines.is_empty() {
            wrong.push(format!("{}: {lines:?}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn programs_with_wrong_syntax_are_reported() {
    let mut found = Vec::new();
    programs(&repository().join("lang/tests/fail"), &mut found);
    found.retain(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("syntax"))
    });
    assert!(!found.is_empty());
    for path in found {
        let tree = parse(&fs::read_to_string(&path).expect("a text"));
        assert!(tree.root_node().has_error(), "{}", path.display());
    }
}

#[test]
fn colours_name_nodes_of_the_grammar() {
    let query = Query::new(&LANGUAGE.into(), HIGHLIGHTS).expect("a query");
    let text = "const uint32 MSS = 1400; // bytes\nvoid f(conn c) { emit timer_stop(c.rtx); }\n";
    let tree = parse(text);
    let mut cursor = QueryCursor::new();
    let mut captures = cursor.captures(&query, tree.root_node(), text.as_bytes());
    let mut coloured = Vec::new();
    while let Some((found, index)) = captures.next() {
        let capture = found.captures[*index];
        coloured.push((
            query.capture_names()[capture.index as usize],
            &text[capture.node.byte_range()],
        ));
    }
    for expected in [
        ("keyword", "const"),
        ("type", "uint32"),
        ("constant", "MSS"),
        ("number", "1400"),
        ("comment", "// bytes"),
        ("function", "f"),
        ("variable.parameter", "c"),
        ("function.builtin", "timer_stop"),
        ("property", "rtx"),
    ] {
        assert!(coloured.contains(&expected), "{expected:?} in {coloured:?}");
    }
}

/// The parser begins with the digest of the grammar that it was generated from.
#[test]
fn the_parser_was_made_of_this_grammar() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let grammar = fs::read(folder.join("grammar.js")).expect("the grammar");
    let parser = fs::read_to_string(folder.join("src/parser.c")).expect("the parser");
    let digest: String = Sha256::digest(&grammar)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let first = parser.lines().next().unwrap_or_default();
    assert!(
        first.contains(&digest),
        "run scripts/grammar: {first}, and the grammar is {digest}"
    );
}
