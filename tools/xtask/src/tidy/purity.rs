//! Machines do no I/O, read no clock and draw no random numbers.
//!
//! Clippy forbids the functions and types that do so. This check ensures that each pure crate has the list in
//! its own `clippy.toml` and that no source disables it.

use serde::Deserialize;

use super::Diagnostic;
use super::tree::Tree;

/// The pure crates, and rooms whose crates are pure.
const PURE: &[&str] = &[
    "lang",
    "engine/engine",
    "workbench/ide",
    "workbench/sim",
    "select/policy",
    "select/race",
    "session/machine",
    "bus/bus",
];
/// A crate in a pure room that is not pure: it starts compilers and the code that they generate.
const STARTS_COMPILERS: &str = "lang/equality";
/// A module of a pure crate that asks the system's resolvers for names. A feature of the crate adds it.
const ASKS_RESOLVERS: &str = "select/race/src/resolve";
/// A crate that is pure except that it reads the files that it is asked to compile.
const READS_FILES: &str = "lang/driver";

/// Functions that every pure crate forbids.
const METHODS: &[&str] = &[
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::thread::sleep",
    "std::thread::spawn",
    "std::env::var",
    "std::env::var_os",
    "std::env::args",
    "std::env::temp_dir",
];
/// Types that every pure crate forbids.
const TYPES: &[&str] = &[
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
    "std::os::unix::net::UnixStream",
    "std::os::unix::net::UnixListener",
    "std::os::unix::net::UnixDatagram",
    "std::process::Command",
    "std::hash::RandomState",
];
/// Functions that every pure crate but the driver forbids.
const FILE_METHODS: &[&str] = &[
    "std::fs::read",
    "std::fs::read_to_string",
    "std::fs::write",
    "std::fs::read_dir",
];
/// Types that every pure crate but the driver forbids.
const FILE_TYPES: &[&str] = &["std::fs::File", "std::fs::OpenOptions"];

/// The part of a `clippy.toml` that this check reads.
#[derive(Default, Deserialize)]
struct Clippy {
    #[serde(default, rename = "disallowed-methods")]
    methods: Vec<Row>,
    #[serde(default, rename = "disallowed-types")]
    types: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Row {
    Path(String),
    Reasoned { path: String },
}

impl Row {
    fn path(&self) -> &str {
        match self {
            Row::Path(path) | Row::Reasoned { path } => path,
        }
    }
}

/// Checks that every pure crate has the whole list, and that its sources allow no entry of it.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let pure = tree.crates.iter().filter(|krate| {
        let folder = format!("{}/", krate.folder);
        krate.folder != STARTS_COMPILERS && PURE.iter().any(|room| folder.starts_with(&format!("{room}/")))
    });
    pure.flat_map(|krate| {
        let mut diagnostics = judge_list(tree, &krate.folder);
        diagnostics.extend(judge_sources(tree, &krate.folder));
        diagnostics
    })
    .collect()
}

fn judge_list(tree: &Tree, folder: &str) -> Vec<Diagnostic> {
    let place = format!("{folder}/clippy.toml");
    let Some(text) = tree.files.get(&place) else {
        return vec![Diagnostic::new(
            place,
            "a pure crate has no clippy.toml",
            "copy it from engine/engine/clippy.toml",
        )];
    };
    let clippy: Clippy = match toml::from_str(text) {
        Ok(clippy) => clippy,
        Err(error) => return vec![Diagnostic::new(place, format!("{error}"), "mend the file")],
    };
    let file = |list| if folder == READS_FILES { &[][..] } else { list };
    let mut diagnostics = Vec::new();
    let lists = [
        ("disallowed-methods", &clippy.methods, METHODS, file(FILE_METHODS)),
        ("disallowed-types", &clippy.types, TYPES, file(FILE_TYPES)),
    ];
    for (key, rows, common, files) in lists {
        for path in common.iter().chain(files) {
            if !rows.iter().any(|row| row.path() == *path) {
                diagnostics.push(Diagnostic::new(
                    &place,
                    format!("{key} lacks {path}"),
                    "add the row",
                ));
            }
        }
    }
    diagnostics
}

fn judge_sources(tree: &Tree, folder: &str) -> Vec<Diagnostic> {
    // Spelt in two pieces, so that this file does not find itself.
    let switch = concat!("clippy::disa", "llowed_");
    let sources = tree
        .rust_under(&format!("{folder}/src"))
        .filter(|(path, _)| !path.starts_with(ASKS_RESOLVERS));
    let lines =
        sources.flat_map(|(path, text)| text.lines().enumerate().map(move |(i, line)| (path, i, line)));
    lines
        .filter(|(_, _, line)| line.contains(switch))
        .map(|(path, index, _)| {
            let place = format!("{path}:{}", index + 1);
            Diagnostic::new(
                place,
                "a pure crate switches the list off",
                "take time, bytes and random numbers as arguments",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full_list() -> String {
        let rows = |paths: &[&str]| {
            paths
                .iter()
                .map(|path| format!("\"{path}\","))
                .collect::<String>()
        };
        format!(
            "disallowed-methods = [{}{}]\ndisallowed-types = [{}{}]\n",
            rows(METHODS),
            rows(FILE_METHODS),
            rows(TYPES),
            rows(FILE_TYPES)
        )
    }

    #[test]
    fn a_complete_list_passes() {
        let tree = Tree::from_texts(&[("engine/engine/clippy.toml", &full_list())])
            .with_crates(&["engine/engine", "wires/host"]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn a_missing_list_or_row_is_found() {
        assert_eq!(check(&Tree::default().with_crates(&["lang/ir"])).len(), 1);
        let short = full_list().replace("\"std::time::Instant::now\",", "");
        let found = check(&Tree::from_texts(&[("lang/ir/clippy.toml", &short)]).with_crates(&["lang/ir"]));
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("Instant::now"));
    }

    #[test]
    fn only_the_driver_crate_may_read_files() {
        let short = full_list().replace("\"std::fs::File\",", "");
        let judged = |folder: &str| {
            let path = format!("{folder}/clippy.toml");
            check(&Tree::from_texts(&[(path.as_str(), short.as_str())]).with_crates(&[folder])).len()
        };
        assert_eq!((judged("lang/driver"), judged("lang/check")), (0, 1));
    }

    #[test]
    fn crates_that_run_compiled_code_are_not_pure() {
        let tree = Tree::default().with_crates(&["lang/equality", "lang/interp"]);
        let places: Vec<String> = check(&tree)
            .into_iter()
            .map(|diagnostic| diagnostic.place)
            .collect();
        assert_eq!(places, ["lang/interp/clippy.toml"]);
    }

    #[test]
    fn switching_the_list_off_is_found() {
        let source = format!("//! A.\n#![allow(clippy::disal{})]\n", "lowed_methods");
        let files = [
            ("engine/engine/clippy.toml", full_list()),
            ("engine/engine/src/a.rs", source.clone()),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        assert_eq!(
            check(&Tree::from_texts(&files).with_crates(&["engine/engine"])).len(),
            1
        );
    }
}
