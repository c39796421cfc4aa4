//! Loading: imports, their limits, and files that are not programs.

#![allow(clippy::disallowed_methods)] // the files that are no programs are files

use std::fs;
use std::path::Path;

use hawser_driver::{
    Compilation, MAX_FILES, MemoryLoader, compile, compile_with, library, render, render_json,
};
use hawser_syntax::MAX_TEXT_BYTES;

fn compiled(texts: &[(&str, &str)]) -> Compilation {
    let texts = texts.iter().map(|(path, text)| (*path, text.as_bytes().to_vec()));
    compile_with(&MemoryLoader::new(texts), Path::new("dir/main.mtp"))
}

fn codes(compiled: &Compilation) -> Vec<&'static str> {
    compiled
        .diagnostics
        .iter()
        .map(|diagnostic| diagnostic.code)
        .collect()
}

fn paths(compiled: &Compilation) -> Vec<&str> {
    compiled
        .sources
        .files()
        .iter()
        .map(|file| file.path.as_str())
        .collect()
}

/// Contains an error, so that the test covers loading alone.
const STOP: &str = "struct s { uint8 x }";

#[test]
fn imports_are_relative_to_the_importing_file_and_loaded_once() {
    let found = compiled(&[
        (
            "dir/main.mtp",
            "import \"sub/a.mtp\"; import \"./sub/../sub/a.mtp\"; import \"../b.mtp\"; struct s { uint8 x }",
        ),
        (
            "dir/sub/a.mtp",
            "import \"../main.mtp\"; import \"../../b.mtp\"; import \"a.mtp\";",
        ),
        ("b.mtp", "import \"dir/sub/a.mtp\";"),
    ]);
    assert_eq!(paths(&found), ["dir/main.mtp", "dir/sub/a.mtp", "dir/../b.mtp"]);
    assert_eq!(codes(&found), ["E0102"]);
}

#[test]
fn the_library_is_imported_from_anywhere_and_once() {
    let found = compiled(&[
        (
            "dir/main.mtp",
            "import \"std/listener.mtp\"; import \"sub/a.mtp\"; import \"./std/mine.mtp\"; struct s { uint8 x }",
        ),
        (
            "dir/sub/a.mtp",
            "import \"std/requests.mtp\"; import \"std/ends.mtp\";",
        ),
        ("dir/./std/mine.mtp", ""),
    ]);
    let library = ["std/listener.mtp", "std/requests.mtp", "std/ends.mtp"];
    let all = paths(&found);
    assert!(library.iter().all(|path| all.contains(path)), "{all:?}");
    assert_eq!(all.len(), 3 + library.len(), "{all:?}");
    assert_eq!(codes(&found), ["E0102"]);
}

#[test]
fn library_files_are_complete_formatted_and_compile_alone() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../std");
    let entries = fs::read_dir(&folder).expect("the folder is there");
    let mut files: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("it can be read")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    files.sort();
    let listed: Vec<String> = library().map(|(path, _)| path.replace("std/", "")).collect();
    assert_eq!(listed, files);
    for (path, text) in library() {
        let found = compiled(&[("dir/main.mtp", &format!("import \"{path}\";"))]);
        assert_eq!(codes(&found), [""; 0], "{path}");
        assert_eq!(hawser_syntax::format(text).as_deref(), Ok(text), "{path}");
    }
}

#[test]
fn a_missing_library_file_is_reported_with_the_nearest_one() {
    let found = compiled(&[("dir/main.mtp", "import \"std/round_trip.mtp\";")]);
    assert_eq!(codes(&found), ["E0020"]);
    let hint = found.diagnostics[0].hint.as_ref().map_or("", |hint| &hint.text);
    assert!(hint.contains("std/rtt.mtp"), "{hint}");
}

#[test]
fn a_file_name_with_line_feeds_and_controls_stays_on_its_line() {
    let path = "dir/a\nerror: all is lost\x1b[2J\u{202e}.mtp";
    let import = format!("import \"{path}\";");
    let none: [(&str, &str); 0] = [];
    let wrong = compile_with(&MemoryLoader::new([(path, STOP)]), Path::new(path));
    let missing = compile_with(&MemoryLoader::new(none), Path::new(path));
    let imported = compile_with(
        &MemoryLoader::new([("main.mtp", import.as_str())]),
        Path::new("main.mtp"),
    );
    for compiled in [&wrong, &missing, &imported] {
        let text = render(&compiled.diagnostics, &compiled.sources, false);
        assert!(compiled.failed());
        assert!(!text.lines().any(|line| line.starts_with("error: all")), "{text}");
        assert!(!text.contains(['\x1b', '\u{202e}']), "{text}");
    }
    let text = render(&wrong.diagnostics, &wrong.sources, false);
    assert!(
        text.contains("a\\u000aerror: all is lost\\u001b[2J\\u202e.mtp"),
        "{text}"
    );
}

#[test]
fn a_missing_import_is_found_at_its_place() {
    let found = compiled(&[
        ("dir/main.mtp", "import \"a.mtp\";"),
        ("dir/a.mtp", "\n\nimport \"none.mtp\";\n"),
    ]);
    assert_eq!(codes(&found), ["E0020"]);
    let diagnostic = &found.diagnostics[0];
    assert_eq!(diagnostic.span.file, 1);
    assert_eq!(found.sources.line_column(1, diagnostic.span.start), (3, 8));
    assert!(found.module.is_none() && found.failed());
}

#[test]
fn the_main_file_may_be_missing() {
    let found = compiled(&[]);
    assert_eq!(codes(&found), ["E0020"]);
    let text = found.render(false);
    assert!(
        text.contains("E0020") && text.contains("dir/main.mtp") && text.contains("1 error"),
        "{text}"
    );
}

#[test]
fn files_are_limited_in_number_and_size() {
    let import = |number: usize| format!("import \"f{number}.mtp\";");
    let main: String = (0..MAX_FILES + 10).map(import).collect();
    let mut texts = vec![("main.mtp".to_owned(), main.into_bytes())];
    texts.extend((0..MAX_FILES + 10).map(|number| (format!("f{number}.mtp"), Vec::new())));
    let found = compile_with(&MemoryLoader::new(texts), Path::new("main.mtp"));
    assert_eq!(codes(&found), ["E0022"]);
    assert_eq!(found.sources.files().len(), MAX_FILES);

    let large = vec![b'\n'; MAX_TEXT_BYTES + 1];
    let found = compile_with(&MemoryLoader::new([("main.mtp", large)]), Path::new("main.mtp"));
    assert_eq!(codes(&found), ["E0007"]);
    let fits = [STOP.as_bytes(), &vec![b'\n'; MAX_TEXT_BYTES - STOP.len()]].concat();
    let found = compile_with(&MemoryLoader::new([("main.mtp", fits)]), Path::new("main.mtp"));
    assert_eq!(codes(&found), ["E0102"]);
}

#[test]
fn a_file_that_is_not_utf_8_is_refused() {
    let found = compile_with(
        &MemoryLoader::new([("main.mtp", b"// one\n// \xff".to_vec())]),
        Path::new("main.mtp"),
    );
    assert_eq!(codes(&found), ["E0021"]);
    assert!(
        found.diagnostics[0].message.contains("byte 10, in line 2"),
        "{}",
        found.diagnostics[0].message
    );
}

#[cfg(unix)]
#[test]
fn directories_devices_and_locked_files_are_refused() {
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    assert_eq!(codes(&compile(&folder)), ["E0023"]);
    assert_eq!(codes(&compile(Path::new("/dev/zero"))), ["E0023"]);
    assert_eq!(codes(&compile(&folder.join("none.mtp"))), ["E0020"]);

    // A file that is reached by two names is loaded once.
    fs::write(folder.join("a.mtp"), "import \"b.mtp\"; struct s { uint8 x }").expect("a file");
    std::os::unix::fs::symlink(folder.join("a.mtp"), folder.join("b.mtp")).expect("a link");
    assert_eq!(codes(&compile(&folder.join("a.mtp"))), ["E0102"]);
}

#[test]
fn json_has_places_for_programs() {
    let found = compiled(&[("dir/main.mtp", "struct s {\n    uint8 é\n}\n")]);
    let json = render_json(&found.diagnostics, &found.sources);
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let first = &value[0];
    assert_eq!(first["file"], "dir/main.mtp");
    assert_eq!(
        (first["line"].as_u64(), first["column"].as_u64()),
        (Some(2), Some(11))
    );
    assert_eq!(
        (first["end_line"].as_u64(), first["end_column"].as_u64()),
        (Some(2), Some(12))
    );
    assert_eq!(first["severity"], "error");
    assert!(first["code"].is_string() && first["message"].is_string() && first["related"].is_array());
}

/// Diagnostics at, before and behind every kind of line end render.
#[test]
fn odd_line_ends_render() {
    for odd in [
        "\r\n", "\r", "\u{b}", "\u{c}", "\u{85}", "\u{2028}", "\u{2029}", "\0", "\u{feff}", "é", "\t",
    ] {
        for text in [
            format!("§{odd}§ {odd}struct s {{ uint8{odd}x }}{odd}"),
            format!("struct s {{ uint8 x }}{odd}"),
            format!("{odd}{odd}{odd}"),
            format!("\"{odd}"),
            format!("/*{odd}"),
            format!("void f(e{odd} ev) {{ if (a{odd}"),
        ] {
            let found = compiled(&[("dir/main.mtp", &text)]);
            assert_eq!(found.render(true).is_empty(), found.diagnostics.is_empty());
            assert!(render_json(&found.diagnostics, &found.sources).starts_with('['));
        }
    }
}
