//! `ARCHITECTURE.md` and the tree agree: the page names every crate, and every path on it exists.

use super::Diagnostic;
use super::tree::Tree;

const PAGE: &str = "ARCHITECTURE.md";

/// Checks that the page names every crate's folder in backticks, and that every path in backticks exists.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let Some(page) = tree.files.get(PAGE) else {
        return vec![Diagnostic::new(PAGE, "the page is missing", "write it")];
    };
    let quoted = quoted(page);
    let unnamed = tree.crates.iter().filter(|krate| {
        !quoted
            .iter()
            .any(|(_, text)| text.trim_end_matches('/') == krate.folder)
    });
    let mut diagnostics: Vec<Diagnostic> = unnamed
        .map(|krate| {
            let what = format!("the crate in `{}` is not named", krate.folder);
            Diagnostic::new(
                PAGE,
                what,
                format!("add a row for `{}` to its table of crates", krate.folder),
            )
        })
        .collect();
    for (line, text) in quoted {
        if is_path(text) && !tree.exists(text) {
            let what = format!("`{text}` does not exist");
            diagnostics.push(Diagnostic::new(
                format!("{PAGE}:{line}"),
                what,
                "correct the path, or remove it",
            ));
        }
    }
    diagnostics.extend(functions(page).into_iter().filter_map(|(line, path, function)| {
        let known = tree.text(path);
        (!known.contains(&format!("fn {function}(")) && !known.contains(&format!("fn {function}<"))).then(
            || {
                let what = format!("`{path}` has no function `{function}`");
                Diagnostic::new(format!("{PAGE}:{line}"), what, "name an existing function")
            },
        )
    }));
    diagnostics
}

/// Returns the texts of the form `` `file.rs`: `function` ``, each with its line.
fn functions(page: &str) -> Vec<(usize, &str, &str)> {
    let mut found = Vec::new();
    for (index, line) in page.lines().enumerate() {
        for (before, after) in line
            .match_indices("`: `")
            .map(|(at, mark)| (&line[..at], &line[at + mark.len()..]))
        {
            let path = before.rsplit('`').next().unwrap_or_default();
            let function = after.split('`').next().unwrap_or_default();
            if path.ends_with(".rs") {
                found.push((index + 1, path, function));
            }
        }
    }
    found
}

/// Returns the texts between single backticks, each with its line. Code blocks are left out.
fn quoted(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (index, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            found.extend(line.split('`').skip(1).step_by(2).map(|text| (index + 1, text)));
        }
    }
    found
}

/// Returns whether a quoted text is meant as a path of this repository.
fn is_path(text: &str) -> bool {
    let plain = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let named = text.contains('/')
        || [".md", ".rs", ".toml", ".mtp", ".svg"]
            .iter()
            .any(|extension| text.ends_with(extension));
    plain && named && !text.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_function_is_found() {
        let page = |function: &str| format!("1. `a/b.rs`: `{function}` does it.\n");
        let tree =
            |function| Tree::from_texts(&[(PAGE, page(function).as_str()), ("a/b.rs", "fn there() {}")]);
        assert_eq!(check(&tree("there")), []);
        assert_eq!(check(&tree("gone")).len(), 1);
    }

    #[test]
    fn a_crate_left_out_is_found() {
        let tree = Tree::from_texts(&[(PAGE, "| `lang/ir/` | x |\n")]).with_crates(&["lang/ir", "engine"]);
        let diagnostics = check(&tree);
        assert!(
            diagnostics
                .iter()
                .any(|diagnostic| diagnostic.what.contains("`engine`"))
        );
        assert!(
            !diagnostics
                .iter()
                .any(|diagnostic| diagnostic.what.contains("crate in `lang/ir`"))
        );
    }

    #[test]
    fn a_missing_path_is_found() {
        let page = "see `docs/a.md` and `docs/gone.md`, `a / b`, `Wire::receive`\n```\n`x/y`\n```\n";
        let diagnostics = check(&Tree::from_texts(&[(PAGE, page), ("docs/a.md", "")]));
        assert_eq!(diagnostics.len(), 1);
        assert_eq!(diagnostics[0].what, "`docs/gone.md` does not exist");
        assert_eq!(diagnostics[0].place, "ARCHITECTURE.md:1");
    }
}
