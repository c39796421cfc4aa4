//! Checks the programs in `lang/tests`: those in `pass/` compile, those in `fail/` do not. Each yields
//! exactly the diagnostics in the `.expected` file beside it, or none if there is no such file. A passing
//! program has only warnings. A line has one diagnostic:
//!
//! ```text
//! E0102 12:30 `;` is missing after the field | put `;` here
//! ```
//!
//! It consists of the code, line:column (with the file's name before it for an imported file), the message
//! and, after ` | `, the hint. Folders inside contain files that others import. The lines are change
//! detectors ([`expect_file`]); whether a program passes or fails is not.

use std::fs;
use std::path::{Path, PathBuf};

use hawser_driver::{Compilation, compile, render, render_json};
use hawser_syntax::{Diagnostic, Severity};
use hawser_testing::expect_file;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests").join(name)
}

/// Returns the `.mtp` files of a folder, by name.
fn programs(name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(name)).expect("the folder is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "mtp"));
    paths.sort();
    assert!(!paths.is_empty(), "no programs in {name}");
    paths
}

fn line(diagnostic: &Diagnostic, compiled: &Compilation) -> String {
    let (line, column) = compiled
        .sources
        .line_column(diagnostic.span.file, diagnostic.span.start);
    let place = match diagnostic.span.file {
        0 => format!("{line}:{column}"),
        file => {
            let path = Path::new(&compiled.sources.file(file).path);
            let name = path
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            format!("{name}:{line}:{column}")
        }
    };
    let severity = match diagnostic.severity {
        Severity::Error => "",
        Severity::Warning => "warning ",
    };
    let hint = diagnostic
        .hint
        .as_ref()
        .map_or_else(String::new, |hint| format!(" | {}", hint.text));
    // Paths differ between machines.
    let message = diagnostic
        .message
        .replace(&format!("{}/", folder("fail").display()), "");
    format!("{severity}{} {place} {message}{hint}\n", diagnostic.code)
}

/// Compares the diagnostics of the programs in a folder with the expected ones, and returns the differences.
fn compare(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for path in programs(name) {
        let compiled = compile(&path);
        let found: String = compiled
            .diagnostics
            .iter()
            .map(|diagnostic| line(diagnostic, &compiled))
            .collect();
        wrong.extend(expect_file(&path.with_extension("expected"), &found).err());
        if compiled.failed() != (name == "fail") {
            wrong.push(format!("{}\n{}", path.display(), compiled.render(false)));
        }
    }
    wrong
}

#[test]
fn passing_programs_pass() {
    let wrong = compare("pass");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn programs_that_come_with_hawser_have_no_warnings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = fs::read_dir(root.join("transports")).expect("the folder is there");
    let folders = folders.map(|entry| entry.expect("an entry").path());
    let mut programs = 0;
    for folder in folders
        .chain([root.join("examples")])
        .filter(|path| path.is_dir())
    {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let text = fs::read_to_string(&path).unwrap_or_default();
            if path.extension().is_none_or(|ending| ending != "mtp") || !text.contains("register_ep_chains") {
                continue;
            }
            let compiled = compile(&path);
            programs += 1;
            assert!(compiled.diagnostics.is_empty(), "{}", compiled.render(false));
        }
    }
    assert!(programs >= 9, "{programs}");
}

#[test]
fn failing_programs_fail_as_expected() {
    let wrong = compare("fail");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every diagnostic renders in both forms, with its code, and has a row in the table behind `hawser explain`.
#[test]
fn diagnostics_render_and_are_explained() {
    for path in programs("fail") {
        let compiled = compile(&path);
        let text = compiled.render(false);
        let json = render_json(&compiled.diagnostics, &compiled.sources);
        let parsed: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(parsed.as_array().map(Vec::len), Some(compiled.diagnostics.len()));
        for diagnostic in &compiled.diagnostics {
            assert!(
                text.contains(diagnostic.code) && text.contains(&diagnostic.message),
                "{text}"
            );
            assert!(
                hawser_driver::explain(diagnostic.code).is_some(),
                "{} has no explanation",
                diagnostic.code
            );
            assert!(
                !diagnostic.message.ends_with('.'),
                "a message has no full stop: {}",
                diagnostic.message
            );
        }
        let coloured = render(&compiled.diagnostics, &compiled.sources, true);
        assert!(coloured.contains("\u{1b}[") && !text.contains("\u{1b}["));
    }
}

/// Covers the proofs for the TCP that comes with Hawser, and the report on a program whose rules no device
/// implements.
#[test]
fn offloads_are_explained_with_their_places() {
    let explained = |path: &str| {
        let compiled = compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path));
        let module = compiled.module.as_ref().expect("a program that passes");
        hawser_driver::explain_offload(module, &compiled.sources)
    };
    let tcp = explained("transports/tcp/tcp.mtp");
    assert!(
        tcp.contains("may be cut by a device, as packets of IP protocol 6: `seq` grows"),
        "{tcp}"
    );
    assert!(tcp.contains("`psh` and `fin` on the last packet only"), "{tcp}");
    assert!(tcp.contains("`cwr` on the first packet only"), "{tcp}");
    let homa = explained("lang/tests/pass/homa.mtp");
    let line = homa
        .lines()
        .find(|line| line.contains("a number of 32 bits that grows at bit 32"))
        .expect("a reason");
    assert!(line.trim().contains("homa.mtp:"), "{line}");
}
