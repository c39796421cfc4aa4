//! Every crate inherits its lints, licence and edition from its workspace, and has a description. Both
//! workspaces state the same. If a crate's tests are one program, each file of tests is part of it.

use super::Diagnostic;
use super::tree::Tree;

/// The lines of every crate's manifest, each with the remedy for a missing line.
const LINES: &[(&str, &str)] = &[
    (
        "[lints]\nworkspace = true",
        "add `[lints]` with `workspace = true`",
    ),
    ("license.workspace = true", "add `license.workspace = true`"),
    ("edition.workspace = true", "add `edition.workspace = true`"),
    (
        "rust-version.workspace = true",
        "add `rust-version.workspace = true`",
    ),
    ("description = \"", "add a `description`"),
];
/// The manifests of the workspaces.
const PRODUCT: &str = "Cargo.toml";
const EVALUATION: &str = "evaluation/Cargo.toml";
const LOCK: &str = "Cargo.lock";
/// The line from which on the evaluation's manifest repeats lines of the product's.
const REPEATED: &str = "[workspace.package]\n";
/// The required files at the top of the repository.
const TOP: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "rust-toolchain.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "Cargo.lock",
    "deny.toml",
    ".ci/run",
    "Makefile",
];

/// Checks that the manifests have their lines, and the top folder its pages.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let manifests = tree.crates.iter().flat_map(|krate| {
        let path = format!("{}/Cargo.toml", krate.folder);
        let text = tree.text(&path);
        let missing: Vec<Diagnostic> = LINES
            .iter()
            .filter(|(line, _)| !text.contains(line))
            .map(|(line, remedy)| {
                Diagnostic::new(
                    &path,
                    format!("`{}` is missing", line.replace('\n', " ")),
                    *remedy,
                )
            })
            .collect();
        missing
    });
    let tests = tree
        .crates
        .iter()
        .flat_map(|krate| forgotten_tests(tree, &krate.folder));
    let top = TOP.iter().filter(|path| !tree.files.contains_key(**path));
    manifests
        .chain(differing_lines(tree))
        .chain(tests)
        .chain(top.map(|path| Diagnostic::new(*path, "the file is missing", "write it")))
        .collect()
}

/// Returns the lines of the evaluation's manifest that the product's lacks: versions, lints and profiles of both
/// are the same. A package that the product does not use may have a row of its own.
fn differing_lines(tree: &Tree) -> Vec<Diagnostic> {
    let product = tree.text(PRODUCT).replace("path = \"", "path = \"../");
    let (_, repeated) = tree.text(EVALUATION).split_once(REPEATED).unwrap_or_default();
    let is_own = |line: &str| {
        let package = line
            .split_once(" = { opt-level = ")
            .map_or("\"*\"", |(package, _)| package);
        let is_known = tree.text(LOCK).contains(&format!("name = \"{package}\"\n"));
        line.starts_with('#') || package != "\"*\"" && !is_known
    };
    let differing = repeated
        .lines()
        .filter(|line| !is_own(line) && !product.lines().any(|known| known == *line));
    differing
        .map(|line| {
            let what = format!("{PRODUCT} has no line `{line}`");
            Diagnostic::new(EVALUATION, what, "write the same line in both")
        })
        .collect()
}

/// Returns files of tests that are neither a program nor part of `tests/main.rs`.
fn forgotten_tests(tree: &Tree, folder: &str) -> Vec<Diagnostic> {
    let manifest = tree.text(&format!("{folder}/Cargo.toml"));
    if !manifest.contains("\nautotests = false") {
        return Vec::new();
    }
    let tests = format!("{folder}/tests/");
    let main = tree.text(&format!("{tests}main.rs"));
    let forgotten = tree.rust_under(folder).filter_map(|(path, _)| {
        let stem = path.strip_prefix(&tests)?.trim_end_matches(".rs");
        let name = stem.strip_suffix("/main").unwrap_or(stem);
        let is_there = name == "main"
            || name.contains('/')
            || main.contains(&format!("mod {name};"))
            || manifest.contains(&format!("[[test]]\nname = \"{name}\""));
        (!is_there).then(|| {
            Diagnostic::new(
                path,
                "no test program has this file",
                format!("add it to {tests}main.rs"),
            )
        })
    });
    forgotten.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_file_of_tests_is_found() {
        let manifest = "[package]\nautotests = false\n[[test]]\nname = \"own\"\n";
        let tree = Tree::from_texts(&[
            ("a/Cargo.toml", manifest),
            ("a/tests/main.rs", "mod known;\n"),
            ("a/tests/known.rs", ""),
            ("a/tests/known/inner.rs", ""),
            ("a/tests/own.rs", ""),
            ("a/tests/forgotten.rs", ""),
            ("a/tests/lost/main.rs", ""),
        ]);
        let found = forgotten_tests(&tree.with_crates(&["a"]), "a");
        let places: Vec<&str> = found.iter().map(|diagnostic| diagnostic.place.as_str()).collect();
        assert_eq!(places, ["a/tests/forgotten.rs", "a/tests/lost/main.rs"]);
    }

    #[test]
    fn a_line_of_the_evaluation_that_differs_is_found() {
        let product =
            "[workspace]\n[workspace.package]\nedition = \"2024\"\na = { path = \"a\" }\n[profile.dev]\n";
        let evaluation = |edition: &str| {
            format!(
                "[workspace]\nmembers = []\n[workspace.package]\nedition = \"{edition}\"\n\
                                     a = {{ path = \"../a\" }}\n# Why.\n[profile.dev]\nhawser-b = {{ opt-level = 2 }}\n"
            )
        };
        let found = |edition: &str| {
            let lock = "[[package]]\nname = \"a\"\n";
            differing_lines(&Tree::from_texts(&[
                (PRODUCT, product),
                (EVALUATION, &evaluation(edition)),
                (LOCK, lock),
            ]))
        };
        assert_eq!(found("2024"), []);
        assert_eq!(found("2021").len(), 1);
    }

    #[test]
    fn a_missing_line_and_a_missing_page_are_found() {
        let manifest = "description = \"x\"\nlicense.workspace = true\nedition.workspace = true\n\
                        rust-version.workspace = true\n";
        let tree = Tree::from_texts(&[("engine/engine/Cargo.toml", manifest), ("README.md", "")])
            .with_crates(&["engine/engine"]);
        let diagnostics = check(&tree);
        assert!(
            diagnostics
                .iter()
                .any(|f| f.place == "engine/engine/Cargo.toml" && f.what.contains("[lints]"))
        );
        assert!(diagnostics.iter().any(|f| f.place == "CHANGELOG.md"));
        assert_eq!(diagnostics.len(), 1 + TOP.len() - 1);
    }
}
