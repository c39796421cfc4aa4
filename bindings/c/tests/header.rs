//! The header and the symbols of the library.

use std::path::{Path, PathBuf};
use std::process::Command;

use hawser_testing::expect_file;

pub(crate) fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder with the libraries that cargo has built beside this test.
pub(crate) fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    test.parent().expect("a folder").to_owned()
}

/// The committed header is the one that the source yields.
#[test]
fn the_header_is_that_of_the_source() {
    let config = cbindgen::Config::from_file(folder().join("cbindgen.toml")).expect("a configuration");
    let bindings = cbindgen::Builder::new()
        .with_src(folder().join("src/lib.rs"))
        .with_config(config)
        .generate()
        .expect("a header");
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).expect("a text");
    expect_file(&folder().join("include/hawser.h"), &text).unwrap_or_else(|error| panic!("{error}"));
}

/// The header compiles alone, without a warning, as C11 and as C++17.
#[test]
fn the_header_is_clean_in_c_and_cpp() {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("header-alone.c");
    std::fs::write(&source, "#include \"hawser.h\"\nint main(void) { return 0; }\n").expect("a file");
    for (compiler, options) in [
        ("cc", ["-std=c11", "-xc"]),
        ("c++", ["-std=c++17", "-xc++"]),
        ("clang", ["-std=c11", "-xc"]),
        ("clang++", ["-std=c++17", "-xc++"]),
    ] {
        let Ok(output) = Command::new(compiler)
            .args(options)
            .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"])
            .arg(folder().join("include"))
            .arg(&source)
            .output()
        else {
            assert!(
                compiler.starts_with("clang") || compiler == "c++",
                "cc is missing"
            );
            println!("skipped: {compiler} is not installed");
            continue;
        };
        assert!(
            output.status.success(),
            "{compiler}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// The library exports the functions of the header, and nothing else.
#[test]
fn only_the_functions_of_the_header_are_exported() {
    let library = libraries().join("libhawser_c.so");
    let output = Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=posix"])
        .arg(&library)
        .output()
        .expect("nm of binutils runs");
    assert!(
        output.status.success(),
        "{}: {}",
        library.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let mut exported: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    exported.sort_unstable();
    let header = std::fs::read_to_string(folder().join("include/hawser.h")).expect("the header");
    let mut declared: Vec<&str> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '*', '/', '#', 't']))
        .filter_map(|line| line.split_once('('))
        .filter_map(|(before, _)| before.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("hawser_"))
        .collect();
    declared.sort_unstable();
    declared.dedup();
    assert_eq!(exported, declared);
}
