//! The examples in `docs/scenarios.md` and `examples/scenarios/` are valid scenarios, and the reference names
//! every key.

#![allow(clippy::disallowed_methods)] // Tests read the repository; the crate itself does not.

use std::fs;
use std::path::{Path, PathBuf};

#[path = "common/reference.rs"]
mod reference;

use hawser_sim::Scenario;
use reference::{assert_named, keys_in};

/// The text that completes fragments of the reference.
const BASE: &str = r#"
program = "x"
[[host]]
name = "a"
[[host]]
name = "b"
[[link]]
between = ["a", "b"]
[[flow]]
from = "a"
to = "b"
bulk = { bytes = 1 }
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn reference() -> String {
    fs::read_to_string(root().join("docs/scenarios.md")).expect("the reference")
}

#[test]
fn every_example_of_the_reference_is_a_scenario() {
    let text = reference();
    let mut blocks = 0;
    for block in text.split("```toml\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        let whole = if block.contains("program = ") {
            block.to_owned()
        } else {
            format!("{BASE}{block}")
        };
        if let Err(error) = Scenario::parse(&whole) {
            panic!("{error}\nin\n{whole}");
        }
        blocks += 1;
    }
    assert!(blocks >= 8, "{blocks} examples");
}

#[test]
fn every_example_file_is_a_scenario() {
    let folder = root().join("examples/scenarios");
    let mut files = 0;
    for entry in fs::read_dir(folder).expect("the examples") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a text");
        if let Err(error) = Scenario::parse(&text) {
            panic!("{}: {error}", path.display());
        }
        files += 1;
    }
    assert!(files >= 6, "{files} files");
}

#[test]
fn the_reference_names_every_key() {
    let text = reference();
    let tables = [
        "zzz = 1",
        "host = [{ zzz = 1 }]",
        "switch = [{ zzz = 1 }]",
        "topology = { zzz = 1 }",
        "link = [{ zzz = 1 }]",
        "link = [{ both = { zzz = 1 } }]",
        "at = [{ zzz = 1 }]",
        "flow = [{ zzz = 1 }]",
        "flow = [{ bulk = { zzz = 1 } }]",
        "flow = [{ request = { zzz = 1 } }]",
        "flow = [{ messages = { zzz = 1 } }]",
        "flow = [{ streams = { zzz = 1 } }]",
        "flow = [{ calls = { zzz = 1 } }]",
        "flow = [{ works = { zzz = 1 } }]",
        "link = [{ nat = { zzz = 1 } }]",
    ];
    for table in tables {
        let error = Scenario::parse(table).expect_err(table).to_string();
        assert_named(&text, table, &keys_in(&error));
    }
}
