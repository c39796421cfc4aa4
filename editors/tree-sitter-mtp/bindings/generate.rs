//! Generates the parser from `grammar.js`; `scripts/grammar` runs it.

use std::path::Path;
use std::process::ExitCode;

/// The ABI version that the supported editors read: tree-sitter 0.20 and later.
const VERSION: usize = 14;

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = tree_sitter_generate::generate_parser_in_directory(
        folder,
        Some("src"),
        None,
        VERSION,
        None,
        Some("node"),
    );
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
