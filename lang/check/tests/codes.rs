//! Each code of the checker has a program in `lang/tests` that shows it.

#![allow(clippy::disallowed_methods)] // tests read the repository's files

use std::path::Path;

#[test]
fn each_code_has_a_program() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests");
    let mut found = String::new();
    for folder in ["fail", "pass"] {
        for entry in std::fs::read_dir(tests.join(folder)).expect("the folder is there") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|ending| ending == "expected") {
                found += &std::fs::read_to_string(path).expect("a text");
            }
        }
    }
    let unseen: Vec<_> = hawser_check::codes::codes()
        .map(|row| row.code)
        .filter(|c| !found.contains(c))
        .collect();
    assert!(unseen.is_empty(), "no program shows {unseen:?}");
}
