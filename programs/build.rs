//! Checks the programs that come with Hawser, and lists their texts for `src/builtin.rs`.
//!
//! A program is a folder with a file of its name: `tcp/tcp.mtp`. One that does not pass the checker
//! ends the build, with the checker's findings.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=.");
    let mut table = String::from("&[\n");
    let mut rejected = false;
    for name in names() {
        let main = PathBuf::from(&name).join(format!("{name}.mtp"));
        let compilation = hawser_driver::compile(&main);
        if compilation.failed() {
            eprintln!("{}", compilation.render(false));
            rejected = true;
        }
        let paths = compilation.sources.files().iter().map(|file| file.path.as_str());
        entry(&mut table, &name, paths);
    }
    table.push_str("]\n");
    if rejected {
        eprintln!("A program that comes with Hawser does not pass the checker: see above.");
        std::process::exit(1);
    }
    let folder = std::env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR for build scripts");
    std::fs::write(Path::new(&folder).join("builtin.rs"), table).expect("OUT_DIR can be written");
}

/// The folders that hold a program, in order of their names.
fn names() -> Vec<String> {
    let entries = std::fs::read_dir(".").expect("Cargo runs build scripts in their package's folder");
    let folder = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let is_program = |name: &String| Path::new(name).join(format!("{name}.mtp")).is_file();
    let mut names: Vec<String> = entries.filter_map(folder).filter(is_program).collect();
    names.sort();
    names
}

/// A row: name, and all files of the program, each with its text.
fn entry<'a>(table: &mut String, name: &str, paths: impl Iterator<Item = &'a str>) {
    let _ = writeln!(table, "    ({name:?}, &[");
    for path in paths {
        let _ = writeln!(
            table,
            "        ({path:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {:?}))),",
            format!("/{path}")
        );
    }
    table.push_str("    ]),\n");
}
