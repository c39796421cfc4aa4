//! Checks the programs that come with Hawser, makes machine code of them, and lists their texts for
//! `src/builtin.rs` and their code for `src/native.rs`.
//!
//! A program is a folder with a file of its name: `tcp/tcp.mtp`. One that does not pass the checker
//! ends the build, with the checker's findings.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hawser_emit_c::{Emitted, Options};

fn main() {
    println!("cargo::rerun-if-changed=.");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR for build scripts"));
    let mut texts = String::from("&[\n");
    let mut entries = Vec::new();
    let mut files = Vec::new();
    let mut rejected = false;
    for name in names() {
        let main = PathBuf::from(&name).join(format!("{name}.mtp"));
        let compilation = hawser_driver::compile(&main);
        let Some(module) = &compilation.module else {
            eprintln!("{}", compilation.render(false));
            rejected = true;
            continue;
        };
        let paths = compilation.sources.files().iter().map(|file| file.path.as_str());
        entry(&mut texts, &name, paths);
        let Emitted { c, symbol, .. } = hawser_emit_c::emit(module, &Options::default());
        let file = folder.join(format!("{name}.c"));
        std::fs::write(&file, c).expect("OUT_DIR can be written");
        files.push(file);
        entries.push((name, symbol));
    }
    texts.push_str("]\n");
    if rejected {
        eprintln!("A program that comes with Hawser does not pass the checker: see above.");
        std::process::exit(1);
    }
    std::fs::write(folder.join("builtin.rs"), texts).expect("OUT_DIR can be written");
    std::fs::write(folder.join("native.rs"), table(&entries)).expect("OUT_DIR can be written");
    compile(&files);
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

/// The functions that give the programs' tables, by the programs' names.
fn table(entries: &[(String, String)]) -> String {
    let mut out = String::from("unsafe extern \"C\" {\n");
    for (_, symbol) in entries {
        let _ = writeln!(out, "    fn {symbol}() -> *const RawProgram;");
    }
    out.push_str("}\n\nconst BUILTIN_CODE: &[(&str, Entry)] = &[\n");
    for (name, symbol) in entries {
        let _ = writeln!(out, "    ({name:?}, {symbol}),");
    }
    out.push_str("];\n");
    out
}

/// Compiles the programs' C into one archive, optimised whatever the profile is: it takes the place
/// of code that was never in a debug build.
fn compile(files: &[PathBuf]) {
    let mut build = cc::Build::new();
    build.files(files).std("c11").opt_level(2).debug(false).warnings(false).cargo_warnings(false);
    if let Err(error) = build.try_compile("hawser_builtin_programs") {
        eprintln!("The programs that come with Hawser are compiled by way of C, and that did not work:");
        eprintln!("{error}");
        eprintln!(
            "If there is no C compiler, install one (Debian: apt install gcc libc6-dev; Fedora: dnf install \
             gcc; Alpine: apk add gcc musl-dev), or name yours with CC=…"
        );
        std::process::exit(1);
    }
}
