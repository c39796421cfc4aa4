//! A ratchet on length: files of at most 800 lines, functions of at most 100.
//!
//! `tools/xtask/ratchet.toml` lists the longer ones, with their length. A number there may only shrink: the
//! check fails when a length exceeds it, and when it is larger than needed. Generated files are marked
//! `@generated` in their first lines and are not counted.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::tree::Tree;
use super::{Diagnostic, rust_text};

const LIST: &str = "tools/xtask/ratchet.toml";
const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 100;

/// The list of files and functions that are longer than the limit.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// The number of lines by path.
    #[serde(default)]
    files: BTreeMap<String, usize>,
    /// The number of lines by `path::function`.
    #[serde(default)]
    functions: BTreeMap<String, usize>,
}

/// Checks that no file or function exceeds its limit or its row in the list, and that every row is exact.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let list: List = match toml::from_str(tree.text(LIST)) {
        Ok(list) => list,
        Err(error) => return vec![Diagnostic::new(LIST, format!("{error}"), "mend the file")],
    };
    let mut diagnostics = compare("files", FILE_LINES, &long_files(tree), &list.files);
    diagnostics.extend(compare(
        "functions",
        FUNCTION_LINES,
        &long_functions(tree),
        &list.functions,
    ));
    diagnostics
}

fn long_files(tree: &Tree) -> BTreeMap<String, usize> {
    let is_generated = |text: &str| text.lines().take(2).any(|line| line.contains("@generated"));
    tree.with_extension(&["rs", "mtp", "c", "h", "py", "sh"])
        .filter(|(_, text)| !is_generated(text))
        .map(|(path, text)| (path.to_owned(), text.lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES)
        .collect()
}

fn long_functions(tree: &Tree) -> BTreeMap<String, usize> {
    let mut long = BTreeMap::new();
    for (path, text) in tree.with_extension(&["rs"]) {
        for function in rust_text::functions(text) {
            if function.lines > FUNCTION_LINES {
                let entry: &mut usize = long.entry(format!("{path}::{}", function.name)).or_default();
                *entry = function.lines.max(*entry);
            }
        }
    }
    long
}

fn compare(
    table: &str,
    limit: usize,
    actual: &BTreeMap<String, usize>,
    listed: &BTreeMap<String, usize>,
) -> Vec<Diagnostic> {
    let grown = actual.iter().filter_map(|(name, lines)| {
        let allowed = listed.get(name).copied().unwrap_or(limit);
        (*lines > allowed).then(|| {
            let what = format!("{lines} lines; at most {allowed} are allowed");
            Diagnostic::new(name, what, "split it by concern")
        })
    });
    let slack = listed
        .iter()
        .filter_map(|(name, allowed)| match actual.get(name) {
            None => {
                let what = format!("the row \"{name}\" of [{table}] is no longer needed");
                Some(Diagnostic::new(LIST, what, "delete the row"))
            }
            Some(lines) if lines < allowed => {
                let what = format!("the row \"{name}\" of [{table}] allows {allowed}, {lines} are there");
                Some(Diagnostic::new(LIST, what, format!("write \"{name}\" = {lines}")))
            }
            Some(_) => None,
        });
    grown.chain(slack).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> String {
        "x\n".repeat(count)
    }

    fn function(inside: usize) -> String {
        format!("//! A.\nfn long() {{\n{}}}\n", lines(inside))
    }

    fn diagnostics(list: &str, file: &str) -> Vec<Diagnostic> {
        check(&Tree::from_texts(&[(LIST, list), ("a.rs", file)]))
    }

    #[test]
    fn a_file_at_the_limit_passes() {
        assert_eq!(diagnostics("", &lines(800)), []);
        assert_eq!(diagnostics("", &function(98)), []);
    }

    #[test]
    fn too_long_a_file_or_function_is_found() {
        assert_eq!(diagnostics("", &lines(801)).len(), 1);
        let found = diagnostics("", &function(99));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "a.rs::long");
    }

    #[test]
    fn a_listed_limit_may_only_shrink() {
        assert_eq!(diagnostics("[files]\n\"a.rs\" = 900", &lines(900)), []);
        assert!(
            diagnostics("[files]\n\"a.rs\" = 900", &lines(901))[0]
                .what
                .contains("at most 900")
        );
        assert!(
            diagnostics("[files]\n\"a.rs\" = 900", &lines(899))[0]
                .remedy
                .contains("= 899")
        );
        assert_eq!(
            diagnostics("[files]\n\"a.rs\" = 900", &lines(10))[0].remedy,
            "delete the row"
        );
    }

    #[test]
    fn an_unreadable_list_is_a_diagnostic() {
        assert_eq!(diagnostics("[fils]\n", "").len(), 1);
    }
}
