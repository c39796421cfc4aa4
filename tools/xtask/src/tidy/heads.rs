//! Every source file begins with a comment that describes it.

use super::Diagnostic;
use super::tree::Tree;

/// Inputs of the compiler's tests, whose names describe them. Some mistakes and some layouts leave no room
/// for a comment.
const INPUTS: &[&str] = &["lang/tests/fail/", "lang/tests/format/"];

/// Checks the first line of each file. Rust files begin with `//!`. Transport programs begin with a comment,
/// as do Rust files that others `include!`, where `//!` is not allowed.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let included = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        let line = |text: &str| text.contains("include!(\"") && text.contains(&format!("{name}\")"));
        tree.with_extension(&["rs"])
            .any(|(other, text)| other != path && line(text))
    };
    let headless = |path: &str, text: &str| match text.starts_with("//!") {
        true => false,
        false => !(begins_with_comment(text) && included(path)),
    };
    let rust = tree
        .with_extension(&["rs"])
        .filter(|(path, text)| headless(path, text))
        .map(|(path, _)| {
            Diagnostic::new(
                path,
                "the file does not begin with `//!`",
                "state its subject and its invariants there",
            )
        });
    let programs = tree
        .with_extension(&["mtp"])
        .filter(|(path, text)| {
            !INPUTS.iter().any(|folder| path.starts_with(folder)) && !begins_with_comment(text)
        })
        .map(|(path, _)| {
            Diagnostic::new(
                path,
                "the program does not begin with a comment",
                "say what it is there",
            )
        });
    rust.chain(programs).collect()
}

fn begins_with_comment(text: &str) -> bool {
    text.starts_with("//") || text.starts_with("/*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_a_head_are_found() {
        let tree = Tree::from_texts(&[
            ("a.rs", "//! A.\n"),
            ("b.rs", "// B.\n"),
            ("tests/main.rs", "//! Main.\ninclude!(\"part.rs\");\n"),
            ("tests/part.rs", "// A part of main.\n"),
            ("c.mtp", "// C.\n"),
            ("d.mtp", "const uint32 x = 1;\n"),
            ("lang/tests/fail/e.mtp", "const\n"),
        ]);
        let places: Vec<String> = check(&tree)
            .into_iter()
            .map(|diagnostic| diagnostic.place)
            .collect();
        assert_eq!(places, ["b.rs", "d.mtp"]);
    }
}
