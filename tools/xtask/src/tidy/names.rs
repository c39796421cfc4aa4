//! The engine and the targets name no transport program.
//!
//! They know programs only through a trait, so a program's name in their sources, comments included, is a
//! special case or will become one. `tools/xtask/device-names.toml` lists constants that belong to a device
//! or to the network layer, each with its reason.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::Diagnostic;
use super::tree::Tree;

const LIST: &str = "tools/xtask/device-names.toml";
const ROOMS: &[&str] = &[
    "engine/engine",
    "wires",
    "workbench/sim",
    "workbench/sim",
    "lang/ir",
];
/// Names of programs that are forbidden in addition to the folders of `transports/`.
const PROGRAMS: &[&str] = &["tcp", "homa", "quic", "ndp", "roce"];

/// Names that belong to devices and to the network layer.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    allow: Vec<Allowed>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    file: String,
    /// The identifiers and words, as the source has them.
    words: Vec<String>,
    /// The reason: the owner of the name.
    why: String,
}

/// Checks that no word in the sources of these rooms has a program's name as one of its parts.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let list: List = match toml::from_str(tree.text(LIST)) {
        Ok(list) => list,
        Err(error) => return vec![Diagnostic::new(LIST, format!("{error}"), "mend the file")],
    };
    let programs = programs(tree);
    let mut used = BTreeSet::new();
    let mut diagnostics = Vec::new();
    for (path, text) in ROOMS
        .iter()
        .flat_map(|room| tree.rust_under(room))
        .filter(|(path, _)| in_source(path))
    {
        // The file's own path comes first, as line 0.
        for (index, line) in std::iter::once(path)
            .chain(without_tests(text).lines())
            .enumerate()
        {
            for word in words(line) {
                let Some(program) = parts(word).into_iter().find(|part| programs.contains(part)) else {
                    continue;
                };
                if list
                    .allow
                    .iter()
                    .any(|row| row.file == path && row.words.iter().any(|w| w == word))
                {
                    used.insert((path.to_owned(), word.to_owned()));
                    continue;
                }
                diagnostics.push(Diagnostic::new(
                    format!("{path}:{index}"),
                    format!("`{word}` names the transport program `{program}`"),
                    format!("say what is meant without it; for a device's own constant add a row to {LIST}"),
                ));
            }
        }
    }
    diagnostics.extend(list.allow.iter().flat_map(|row| judge_row(row, &used)));
    diagnostics
}

/// Checks that the source uses every word of a row, and that the row gives its reason.
fn judge_row(row: &Allowed, used: &BTreeSet<(String, String)>) -> Vec<Diagnostic> {
    let stale = row
        .words
        .iter()
        .filter(|word| !used.contains(&(row.file.clone(), (*word).clone())));
    let stale = stale.map(|word| {
        Diagnostic::new(
            LIST,
            format!("{} no longer holds `{word}`", row.file),
            "take the word out of its row",
        )
    });
    let unexplained = row.why.trim().is_empty();
    let unexplained = unexplained.then(|| {
        Diagnostic::new(
            LIST,
            format!("the row for {} gives no reason", row.file),
            "say whose names these are",
        )
    });
    stale.chain(unexplained).collect()
}

/// Returns the forbidden names, in lower case.
fn programs(tree: &Tree) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = PROGRAMS.iter().map(|name| (*name).to_owned()).collect();
    for path in tree.files.keys().filter(|path| path.ends_with(".mtp")) {
        if let Some((folder, _)) = path
            .strip_prefix("transports/")
            .and_then(|rest| rest.split_once('/'))
        {
            names.extend(folder.split('-').next().map(str::to_owned));
        }
    }
    names
}

/// Returns whether a file is a source and not a test beside it, because tests may run real programs.
fn in_source(path: &str) -> bool {
    path.contains("/src/") && !path.ends_with("/tests.rs") && !path.contains("/tests/")
}

/// Returns a source without the tests at its end.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text)
}

/// Returns the identifiers and words of a line.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
}

/// Returns the parts of an identifier in lower case, without version digits: `GSO_TCPV4` has `gso`, `tcp`.
fn parts(word: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = '_';
    for c in word.chars() {
        let hump = c.is_ascii_uppercase() && before.is_ascii_lowercase();
        if c == '_' || hump {
            parts.push(String::new());
        }
        if c != '_' {
            parts
                .last_mut()
                .expect("never empty")
                .push(c.to_ascii_lowercase());
        }
        before = c;
    }
    for part in &mut parts {
        let digits = part.trim_end_matches(|c: char| c.is_ascii_digit());
        let stem = if digits.len() < part.len() {
            digits.trim_end_matches('v')
        } else {
            digits
        };
        *part = stem.to_owned();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str =
        "[[allow]]\nfile = \"wires/host/src/v.rs\"\nwords = [\"GSO_TCPV4\"]\nwhy = \"virtio\"\n";

    #[test]
    fn identifiers_are_split_into_words() {
        assert_eq!(
            parts("VIRTIO_NET_HDR_GSO_TCPV4"),
            ["virtio", "net", "hdr", "gso", "tcp"]
        );
        assert_eq!(parts("TcpHeader"), ["tcp", "header"]);
        assert_eq!(parts("processed"), ["processed"]);
    }

    #[test]
    fn a_programs_name_is_found_in_code_and_comment() {
        let tree = Tree::of(&[
            (
                "engine/engine/src/a.rs",
                "//! A.\nfn is_tcp() {}\n// as Homa does\nfn processed() {}\n#[cfg(test)]\nmod tests {\n// TCP\n}",
            ),
            ("engine/engine/src/tcp_timers.rs", "//! C.\n"),
            ("engine/engine/tests/b.rs", "//! TCP.\n"),
            ("hawser/src/c.rs", "//! TCP.\n"),
        ]);
        let places: Vec<String> = check(&tree)
            .into_iter()
            .map(|diagnostic| diagnostic.place)
            .collect();
        assert_eq!(
            places,
            [
                "engine/engine/src/a.rs:2",
                "engine/engine/src/a.rs:3",
                "engine/engine/src/tcp_timers.rs:0"
            ]
        );
    }

    #[test]
    fn a_new_folder_of_programs_counts() {
        let tree = Tree::of(&[
            ("transports/zeal-lite/zeal.mtp", ""),
            ("engine/engine/src/a.rs", "fn zeal_mode() {}"),
        ]);
        assert_eq!(check(&tree).len(), 1);
    }

    #[test]
    fn a_listed_constant_passes_and_a_stale_row_does_not() {
        let source = ("wires/host/src/v.rs", "//! V.\nconst GSO_TCPV4: u8 = 1;\n");
        assert_eq!(check(&Tree::of(&[source, (LIST, ROW)])), []);
        assert_eq!(check(&Tree::of(&[source])).len(), 1);
        assert!(
            check(&Tree::of(&[(LIST, ROW)]))[0]
                .what
                .contains("no longer holds `GSO_TCPV4`")
        );
        let unexplained = ROW.replace("virtio", "");
        assert!(
            check(&Tree::of(&[source, (LIST, &unexplained)]))[0]
                .what
                .contains("no reason")
        );
    }
}
