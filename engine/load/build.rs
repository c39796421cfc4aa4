//! Checks the programs that come with Hawser and compiles them to machine code. Lists their texts for
//! `src/builtin.rs` and their code for `src/native.rs`.
//!
//! A program is a folder with a file of the same name: `tcp/tcp.mtp`. Each line of an optional file
//! `variants` in the folder names a further program: its name, a file of the folder, and the file that
//! replaces it. The build fails with the checker's diagnostics if a program does not pass the checker.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hawser_driver::{Disk, Instead, compile_with};
use hawser_emit_c::{Emitted, Options};

/// The folder of the transports, relative to this package.
const TRANSPORTS: &str = "../../transports";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={TRANSPORTS}");
    std::env::set_current_dir(TRANSPORTS).expect("Cargo runs build scripts in their package's folder");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR for build scripts"));
    // A variant's C is nearly that of its program, and few tests run it: a debug build does not optimise it.
    let is_release = std::env::var_os("PROFILE").is_some_and(|profile| profile == "release");
    let mut texts = String::from("&[\n");
    let mut entries = Vec::new();
    let mut rejected = false;
    for Program { name, main, exchanged } in programs() {
        let mut compilation = match &exchanged {
            Some([part, other]) => compile_with(&Instead { loader: &Disk, part, other }, &main),
            None => hawser_driver::compile(&main),
        };
        let Some(module) = &mut compilation.module else {
            eprintln!("{}", compilation.render(false));
            rejected = true;
            continue;
        };
        // The driver provides the files of the library.
        let files_of_it = compilation.sources.files().iter().map(|file| file.path.as_str());
        let paths = files_of_it.filter(|path| !hawser_driver::is_library(path));
        entry(&mut texts, &name, exchanged.as_ref(), paths);
        module.name.clone_from(&name); // variants are linked together
        let Emitted { c, symbol, .. } = hawser_emit_c::emit(module, &Options::default());
        let is_fast = exchanged.is_none() || is_release;
        compile(&folder, &name, &c, if is_fast { 2 } else { 0 });
        entries.push((name, symbol));
    }
    texts.push_str("]\n");
    if rejected {
        eprintln!("A built-in program does not pass the checker: see above.");
        std::process::exit(1);
    }
    std::fs::write(folder.join("builtin.rs"), texts).expect("OUT_DIR can be written");
    std::fs::write(folder.join("native.rs"), table(&entries)).expect("OUT_DIR can be written");
}

/// A program that comes with Hawser.
struct Program {
    name: String,
    main: PathBuf,
    /// A file of the program, and the file that replaces it.
    exchanged: Option<[PathBuf; 2]>,
}

/// Returns the program of each folder and its variants: `tcp`, `tcp-newreno`.
fn programs() -> Vec<Program> {
    let mut programs = Vec::new();
    for name in names() {
        let main = PathBuf::from(&name).join(format!("{name}.mtp"));
        let variants = std::fs::read_to_string(Path::new(&name).join("variants")).unwrap_or_default();
        programs.push(Program { name: name.clone(), main: main.clone(), exchanged: None });
        for line in variants
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [variant, part, other] = words[..] else {
                eprintln!("{name}/variants: `{line}` is not `NAME FILE OTHER-FILE`");
                std::process::exit(1);
            };
            let exchanged = Some([part, other].map(|file| Path::new(&name).join(file)));
            programs.push(Program { name: format!("{name}-{variant}"), main: main.clone(), exchanged });
        }
    }
    programs
}

/// Returns the folders that hold a program, sorted by name.
fn names() -> Vec<String> {
    let entries = std::fs::read_dir(".").expect("the folder of transports can be read");
    let folder = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let is_program = |name: &String| Path::new(name).join(format!("{name}.mtp")).is_file();
    let mut names: Vec<String> = entries.filter_map(folder).filter(is_program).collect();
    names.sort();
    names
}

/// Writes one row: the name, the replaced file and its replacement, and all files of the program with their
/// texts.
fn entry<'a>(
    table: &mut String,
    name: &str,
    exchanged: Option<&[PathBuf; 2]>,
    paths: impl Iterator<Item = &'a str>,
) {
    let exchanged = exchanged.map(|files| files.each_ref().map(|file| file.display().to_string()));
    let _ = writeln!(table, "    ({name:?}, {exchanged:?}, &[");
    for path in paths {
        let _ = writeln!(
            table,
            "        ({path:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {:?}))),",
            format!("/{TRANSPORTS}/{path}")
        );
    }
    table.push_str("    ]),\n");
}

/// Returns Rust source that maps each program's name to the function that returns its table.
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

/// Compiles a program's C into an archive in a folder of its own. An archive of an earlier build is used again if
/// the C and the compiler's command are the same, so that a changed program costs the others no time. A program is
/// optimised in every profile, because its C replaces code that was never in a debug build.
fn compile(folder: &Path, name: &str, c: &str, opt_level: u32) {
    let folder = folder.join(name);
    let library = format!("hawser_program_{name}");
    let [source, made_of] = ["program.c", "made-of"].map(|file| folder.join(file));
    let mut build = cc::Build::new();
    build
        .file(&source)
        .out_dir(&folder)
        .std("c11")
        .opt_level(opt_level)
        .debug(false)
        .warnings(false)
        .cargo_warnings(false);
    let compiler = build
        .try_get_compiler()
        .unwrap_or_else(|error| no_compiler(&error));
    let inputs = format!("{:?} {:?}\n{c}", compiler.path(), compiler.args());
    if std::fs::read_to_string(&made_of).is_ok_and(|earlier| earlier == inputs) {
        println!("cargo::rustc-link-lib=static={library}");
        println!("cargo::rustc-link-search=native={}", folder.display());
        return;
    }
    std::fs::create_dir_all(&folder).expect("OUT_DIR can be written");
    std::fs::write(&source, c).expect("OUT_DIR can be written");
    build
        .try_compile(&library)
        .unwrap_or_else(|error| no_compiler(&error));
    std::fs::write(made_of, inputs).expect("OUT_DIR can be written");
}

fn no_compiler(error: &cc::Error) -> ! {
    eprintln!("The built-in programs could not be compiled through C:");
    eprintln!("{error}");
    eprintln!(
        "If there is no C compiler, install one (Debian: apt install gcc libc6-dev; Fedora: dnf install gcc; \
         Alpine: apk add gcc musl-dev), or name yours with CC=…"
    );
    std::process::exit(1);
}
