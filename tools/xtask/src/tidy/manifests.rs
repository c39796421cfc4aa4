//! Every crate takes its lints, licence and edition from the workspace, and says what it is.

use super::Finding;
use super::tree::Tree;

/// What every crate's manifest holds: the line, and what to do when it is missing.
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
/// What stands at the top of the repository.
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

/// The manifests hold their lines, and the top folder its pages.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.crates.iter().flat_map(|krate| {
        let path = format!("{}/Cargo.toml", krate.folder);
        let text = tree.text(&path);
        let missing: Vec<Finding> = LINES
            .iter()
            .filter(|(line, _)| !text.contains(line))
            .map(|(line, remedy)| {
                Finding::new(
                    &path,
                    format!("`{}` is missing", line.replace('\n', " ")),
                    *remedy,
                )
            })
            .collect();
        missing
    });
    let top = TOP.iter().filter(|path| !tree.files.contains_key(**path));
    manifests
        .chain(top.map(|path| Finding::new(*path, "the file is missing", "write it")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_line_and_a_missing_page_are_found() {
        let manifest = "description = \"x\"\nlicense.workspace = true\nedition.workspace = true\n\
                        rust-version.workspace = true\n";
        let tree = Tree::of(&[("stack/engine/Cargo.toml", manifest), ("README.md", "")])
            .with_crates(&["stack/engine"]);
        let findings = check(&tree);
        assert!(
            findings
                .iter()
                .any(|f| f.place == "stack/engine/Cargo.toml" && f.what.contains("[lints]"))
        );
        assert!(findings.iter().any(|f| f.place == "CHANGELOG.md"));
        assert_eq!(findings.len(), 1 + TOP.len() - 1);
    }
}
