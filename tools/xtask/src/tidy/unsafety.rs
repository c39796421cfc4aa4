//! Unsafe code is confined to the places that allow it explicitly.
//!
//! Each crate forbids it in every root (`src/lib.rs`, `src/main.rs`), or denies it there and allows it for
//! single modules and items. Each exception has its reason after the attribute. Clippy checks that each block
//! has its `SAFETY` comment.

use super::tree::Tree;
use super::{Diagnostic, rust_text};

/// The files that can be the root of a crate.
const ROOTS: &[&str] = &["src/lib.rs", "src/main.rs"];
const FORBID: &str = "#![forbid(unsafe_code)]";
const DENY: &str = "#![deny(unsafe_code)]";
const ALLOW: &str = "allow(unsafe_code)]";

/// Reports roots that neither forbid nor deny unsafe code, crates that could forbid it, and exceptions
/// without a reason.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    tree.crates
        .iter()
        .flat_map(|krate| judge(tree, &krate.folder))
        .collect()
}

fn judge(tree: &Tree, folder: &str) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let exceptions = exceptions(tree, folder);
    for root in ROOTS.iter().map(|root| format!("{folder}/{root}")) {
        let Some(text) = tree.files.get(&root) else {
            continue;
        };
        let code = rust_text::code_only(text);
        if code.contains(FORBID) {
            continue;
        }
        if !code.contains(DENY) {
            diagnostics.push(Diagnostic::new(
                &root,
                "unsafe code is not forbidden",
                format!("write `{FORBID}`"),
            ));
        } else if exceptions.is_empty() {
            diagnostics.push(Diagnostic::new(
                &root,
                "nothing here is unsafe",
                format!("write `{FORBID}`"),
            ));
        }
    }
    let bare = exceptions.into_iter().filter(|(_, has_reason)| !has_reason);
    diagnostics.extend(bare.map(|(place, _)| {
        Diagnostic::new(
            place,
            "unsafe code is allowed without a reason",
            "say why behind the attribute: `// …`",
        )
    }));
    diagnostics
}

/// Returns the places at which a crate allows unsafe code, each with whether the line gives a reason.
fn exceptions(tree: &Tree, folder: &str) -> Vec<(String, bool)> {
    let files = tree.rust_under(&format!("{folder}/src"));
    files
        .flat_map(|(path, text)| {
            let lines = text
                .lines()
                .enumerate()
                .filter(|(_, line)| line.trim_start().starts_with('#'));
            lines.filter_map(move |(index, line)| {
                let (_, behind) = line.split_once(ALLOW)?;
                Some((
                    format!("{path}:{}", index + 1),
                    behind.trim_start().starts_with("//"),
                ))
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(root: &str, module: &str) -> Vec<String> {
        let files = [
            ("engine/engine/src/lib.rs", root),
            ("engine/engine/src/raw.rs", module),
        ];
        let tree = Tree::of(&files).with_crates(&["engine/engine"]);
        check(&tree)
            .into_iter()
            .map(|diagnostic| diagnostic.place)
            .collect()
    }

    #[test]
    fn open_roots_and_bare_exceptions_are_found() {
        let deny = "//! E.\n#![deny(unsafe_code)]\n";
        assert_eq!(places("//! E.\n#![forbid(unsafe_code)]\n", "//! R.\n"), [""; 0]);
        assert_eq!(places("//! E.\n", "//! R.\n"), ["engine/engine/src/lib.rs"]);
        assert_eq!(
            places("//! `#![forbid(unsafe_code)]`\n", "//! R.\n"),
            ["engine/engine/src/lib.rs"]
        );
        assert_eq!(places(deny, "//! R.\n"), ["engine/engine/src/lib.rs"]);
        assert_eq!(
            places(deny, "//! R.\n#![allow(unsafe_code)] // It calls C.\n"),
            [""; 0]
        );
        assert_eq!(
            places(deny, "//! R.\n#[allow(unsafe_code)]\nfn f() {}\n"),
            ["engine/engine/src/raw.rs:2"]
        );
    }
}
