//! The tree contains no unfinished work and no path of one person's machine.

use super::Diagnostic;
use super::tree::Tree;

/// Marks of unfinished work. Each is spelt in two pieces, so that this file does not find itself.
const UNFINISHED: &[&str] = &[
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("#[ign", "ore"),
    concat!("```ign", "ore"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("TO", "DO"),
];
/// Extensions of code files, in which these marks count.
const CODE: &[&str] = &["rs", "mtp", "c", "h", "py", "sh", "toml", "ts"];
/// Folders that every Linux machine has. A checkout in one of them does not make it private.
const COMMON: &[&str] = &[
    "", "/tmp", "/var/tmp", "/home", "/root", "/srv", "/opt", "/usr/src", "/mnt", "/builds",
];

/// Checks that code has no unfinished mark, and that no file has a path of this machine.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for (path, text) in tree.with_extension(CODE) {
        for (index, line) in text.lines().enumerate() {
            for mark in UNFINISHED.iter().filter(|mark| has_mark(line, mark)) {
                let place = format!("{path}:{}", index + 1);
                diagnostics.push(Diagnostic::new(
                    place,
                    format!("`{mark}` marks unfinished work"),
                    "finish it",
                ));
            }
        }
    }
    let private = private_folders(&tree.root);
    for (path, text) in &tree.files {
        for (index, line) in text.lines().enumerate() {
            if let Some(folder) = private.iter().find(|folder| line.contains(folder.as_str())) {
                let place = format!("{path}:{}", index + 1);
                diagnostics.push(Diagnostic::new(
                    place,
                    format!("`{folder}` is a path of this machine"),
                    "write it relative to the repository",
                ));
            }
        }
    }
    diagnostics
}

/// Returns whether a line has a mark as a whole word.
fn has_mark(line: &str, mark: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(mark).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(word);
        let after = mark.ends_with(word) && line[at + mark.len()..].chars().next().is_some_and(word);
        !(before || after)
    })
}

/// Returns common home folders, and the folder that holds the checkout unless every machine has it.
fn private_folders(root: &str) -> Vec<String> {
    let parent = root.rsplit_once('/').map_or("", |(parent, _)| parent);
    let holds = (!COMMON.contains(&parent)).then(|| format!("{parent}/"));
    let homes = [concat!("/home", "/runner/"), concat!("/root", "/")].map(str::to_owned);
    holds.into_iter().chain(homes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_marks_are_found_as_words() {
        let source = format!(
            "//! A.\nfn a() {{ to{}) }}\n// XX{}: later\n#[ig{}]\n",
            "do!(", "X", "nore = \"slow\""
        );
        let tree = Tree::from_texts(&[
            ("a.rs", &source),
            ("b.md", &source),
            ("c.rs", "//! xXXXx FIXMEs _TODO"),
        ]);
        let places: Vec<String> = check(&tree)
            .into_iter()
            .map(|diagnostic| diagnostic.place)
            .collect();
        assert_eq!(places, ["a.rs:2", "a.rs:3", "a.rs:4"]);
    }

    #[test]
    fn paths_of_this_machine_are_found() {
        let mut tree = Tree::from_texts(&[("a.md", "see /garage/hawser/x and /tmp/y\n")]);
        assert_eq!(check(&tree), []);
        tree.root = "/garage/hawser".to_owned();
        assert_eq!(check(&tree)[0].place, "a.md:1");
        tree.root = "/tmp/hawser".to_owned();
        assert_eq!(check(&tree), []);
    }
}
