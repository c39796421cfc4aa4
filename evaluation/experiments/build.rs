//! Notes the revision that results name, and lists the files of the transports for `src/mtp/lines.rs`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[path = "../bench/revision.rs"]
mod revision;

/// The folder of the transports, relative to this package.
const TRANSPORTS: &str = "../../transports";

fn main() {
    revision::note();
    println!("cargo::rerun-if-changed={TRANSPORTS}");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR for build scripts"));
    let root = std::fs::canonicalize(TRANSPORTS).expect("the folder of transports is there");
    let mut files = Vec::new();
    list(&root, &mut files);
    files.sort();
    let mut table = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&root).expect("it was found there");
        let _ = writeln!(
            table,
            "({:?}, include_str!({:?})),",
            name.display().to_string(),
            file.display().to_string()
        );
    }
    table += "]\n";
    std::fs::write(folder.join("transports.rs"), table).expect("OUT_DIR can be written");
}

/// Lists the programs and their lists of variants in a folder.
fn list(folder: &Path, into: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder of transports can be read");
    for entry in entries {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            list(&path, into);
        } else if path.extension().is_some_and(|end| end == "mtp") || path.ends_with("variants") {
            into.push(path);
        }
    }
}
