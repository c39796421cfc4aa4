//! The programs that readers see first are formatted: `hawser fmt --check` reports no difference in them.

#![allow(clippy::disallowed_methods)] // the programs are files

use std::fs;
use std::path::Path;

#[test]
fn programs_are_formatted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in [
        "examples",
        "lang/tests/pass",
        "lang/tests/pass/parts",
        "transports/selective-repeat",
        "transports/tcp",
    ] {
        let entries = fs::read_dir(root.join(folder)).expect("the folder is there");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let programs: Vec<_> = paths
            .filter(|path| path.extension().is_some_and(|e| e == "mtp"))
            .collect();
        assert!(!programs.is_empty(), "no programs in {folder}");
        for path in programs {
            let text = fs::read_to_string(&path).expect("a text");
            let formatted = hawser_syntax::format(&text).expect("a program");
            assert!(
                formatted == text,
                "{0} differs: try `hawser fmt {0}`",
                path.display()
            );
        }
    }
}
