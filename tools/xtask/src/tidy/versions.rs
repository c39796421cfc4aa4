//! Versions agree: those of the workspace, the newest release of the CHANGELOG, the README, the Python
//! package and every crate. The README and the workspace require the same oldest compiler.

use super::Diagnostic;
use super::tree::Tree;

const MANIFEST: &str = "Cargo.toml";

/// The places that name a version: a file, and the texts before and after the version. `unreleased` versions
/// are skipped.
const PLACES: &[(&str, &str, &str)] = &[
    ("CHANGELOG.md", "\n## ", " - "),
    ("README.md", "**Today** (", ")"),
    ("bindings/python/hawser/__init__.py", "__version__ = \"", "\""),
];

/// The place that names the oldest compiler.
const COMPILER: &[(&str, &str, &str)] = &[("README.md", "[Rust](https://rustup.rs) ", " or newer")];

/// Checks that every place names the workspace's version, and that every crate inherits it.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let manifest = tree.text(MANIFEST);
    let (Some(version), Some(compiler)) = (
        between(manifest, "\nversion = \"", "\""),
        between(manifest, "\nrust-version = \"", "\""),
    ) else {
        return vec![Diagnostic::new(
            MANIFEST,
            "there is no version, or no rust-version",
            "add them to [workspace.package]",
        )];
    };
    let compare = |places: &'static [(&str, &str, &str)], wanted: &str| -> Vec<Diagnostic> {
        let found = places.iter().map(|(path, before, behind)| {
            let found = versions(tree.text(path), before, behind);
            (*path, found.unwrap_or_else(|| "no version".to_owned()))
        });
        let other = found.filter(|(_, found)| found != wanted);
        other
            .map(|(path, found)| {
                let what = format!("{found} stands here, and {MANIFEST} says {wanted}");
                Diagnostic::new(path, what, "write the same version in both")
            })
            .collect()
    };
    let mut diagnostics = compare(PLACES, version);
    diagnostics.extend(compare(COMPILER, compiler));
    let crates = tree
        .crates
        .iter()
        .map(|krate| format!("{}/Cargo.toml", krate.folder));
    diagnostics.extend(
        crates
            .filter(|path| !tree.text(path).contains("\nversion.workspace = true"))
            .map(|path| {
                Diagnostic::new(
                    path,
                    "the crate has a version of its own",
                    "add `version.workspace = true`",
                )
            }),
    );
    diagnostics
}

/// Returns the first version, of two or three numbers, between two texts.
fn versions(text: &str, before: &str, behind: &str) -> Option<String> {
    let candidates = text
        .split(before)
        .skip(1)
        .filter_map(|rest| rest.split_once(behind));
    let mut versions = candidates.map(|(version, _)| version);
    versions
        .find(|version| version.contains('.') && version.chars().all(|c| c.is_ascii_digit() || c == '.'))
        .map(str::to_owned)
}

fn between<'a>(text: &'a str, before: &str, behind: &str) -> Option<&'a str> {
    Some(text.split_once(before)?.1.split_once(behind)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostics(changelog: &str, readme: &str, python: &str, own: &str) -> Vec<Diagnostic> {
        let tree = Tree::of(&[
            (
                MANIFEST,
                "[workspace.package]\nversion = \"0.2.0\"\nrust-version = \"1.88\"\n",
            ),
            ("CHANGELOG.md", changelog),
            ("README.md", readme),
            ("bindings/python/hawser/__init__.py", python),
            ("a/Cargo.toml", own),
        ]);
        check(&tree.with_crates(&["a"]))
    }

    #[test]
    fn an_outdated_version_is_found() {
        let changelog = "# C\n\n## Unreleased - soon\n\n## 0.2.0 - 2026-01-01\n\n## 0.1.0 - 2025-01-01\n";
        let readme = "**Today** (0.2.0) it runs, with [Rust](https://rustup.rs) 1.88 or newer.";
        let (python, own) = (
            "__version__ = \"0.2.0\"\n",
            "[package]\nversion.workspace = true\n",
        );
        assert_eq!(diagnostics(changelog, readme, python, own), []);
        let old = changelog.replace("0.2.0", "0.1.9");
        assert_eq!(diagnostics(&old, readme, python, own)[0].place, "CHANGELOG.md");
        for other in ["**Today** (0.1.0) it runs", "1.80 or newer"] {
            let readme = format!(
                "{other}; {}",
                readme.replace("0.2.0", "0.1.0").replace("1.88", "1.80")
            );
            assert_eq!(diagnostics(changelog, &readme, python, own).len(), 2, "{other}");
        }
        assert_eq!(diagnostics(changelog, "", python, own).len(), 2);
        assert_eq!(
            diagnostics(changelog, readme, "", own)[0].what,
            "no version stands here, and Cargo.toml says 0.2.0"
        );
        assert_eq!(
            diagnostics(changelog, readme, python, "[package]\nversion = \"9\"\n")[0].place,
            "a/Cargo.toml"
        );
    }
}
