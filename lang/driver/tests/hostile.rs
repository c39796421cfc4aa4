//! Broken and hostile texts: thousands of seeded mutations of the programs in the tree, and texts made to
//! exhaust a resource. The pipeline may not panic or hang, and its answers are bounded.

#![allow(clippy::disallowed_methods)] // the programs to mutate are files

use std::fs;
use std::path::Path;

use fastrand::Rng;
use hawser_driver::{MemoryLoader, attach, compile_with, render, render_json};
use hawser_syntax::lexer::lex;
use hawser_syntax::{MAX_DIAGNOSTICS, MAX_TEXT_BYTES, Severity, format, parse};

/// Returns every `.mtp` file of these folders.
fn programs() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut texts = Vec::new();
    for folder in [
        "examples",
        "lang/tests/pass",
        "lang/tests/fail",
        "lang/tests/format",
        "transports/tcp",
    ] {
        let Ok(entries) = fs::read_dir(root.join(folder)) else {
            continue;
        };
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "mtp"));
        texts.extend(paths.iter().map(|path| fs::read_to_string(path).expect("a text")));
    }
    assert!(texts.len() > 20);
    texts
}

/// Applies one to four changes: a token is deleted, doubled, exchanged or taken from elsewhere, or bytes are
/// overwritten or cut out.
fn mutate(text: &str, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=rng.usize(..4) {
        let readable = String::from_utf8_lossy(&bytes).into_owned();
        let tokens = lex(&readable, 0).tokens;
        let pick = |rng: &mut Rng| {
            let token = tokens[rng.usize(..tokens.len())];
            token.start as usize..token.end as usize
        };
        let (a, b) = (pick(rng), pick(rng));
        bytes = readable.clone().into_bytes();
        match rng.usize(..7) {
            0 => drop(bytes.drain(a)),
            1 => drop(bytes.splice(a.end..a.end, readable[a].bytes())),
            2 => drop(bytes.splice(a, readable[b].bytes())),
            3 => drop(bytes.splice(a.start..a.start, readable[b].bytes())),
            4 if !bytes.is_empty() => {
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(..);
            }
            5 => bytes.truncate(a.start),
            _ => drop(bytes.drain(a.start.min(b.start)..a.end.max(b.end).min(a.start.min(b.start) + 40))),
        }
    }
    bytes
}

/// Checks everything that must hold for any text.
fn check(text: &str) {
    let (_, diagnostics) = parse(text, 0);
    assert!(diagnostics.len() <= MAX_DIAGNOSTICS + 1);
    for diagnostic in &diagnostics {
        assert!(diagnostic.span.start <= diagnostic.span.end && diagnostic.span.end as usize <= text.len());
    }
    match format(text) {
        Ok(formatted) => {
            let again = format(&formatted).unwrap_or_default();
            let first = formatted
                .lines()
                .zip(again.lines())
                .find(|(once, twice)| once != twice);
            // Line ends may make a text exceed the limit although it did not before.
            let same = again == formatted || formatted.len() > MAX_TEXT_BYTES;
            assert!(same, "not formatted once and for all: {first:?}");
            assert!(diagnostics.is_empty());
        }
        Err(_) => assert!(
            diagnostics
                .iter()
                .any(|diagnostic| diagnostic.severity == Severity::Error)
        ),
    }
}

fn check_whole(bytes: Vec<u8>) {
    let text = String::from_utf8_lossy(&bytes).into_owned();
    check(&text);
    let compiled = compile_with(&MemoryLoader::new([("main.mtp", bytes)]), Path::new("main.mtp"));
    assert!(compiled.diagnostics.len() <= 2 * MAX_DIAGNOSTICS);
    if compiled.diagnostics.len() < 5 {
        assert!(
            render(&compiled.diagnostics, &compiled.sources, true).is_empty()
                == compiled.diagnostics.is_empty()
        );
        assert!(render_json(&compiled.diagnostics, &compiled.sources).starts_with('['));
    }
}

/// Runs 3,000 mutations; `HOSTILE_SEED` and `HOSTILE_COUNT` select others.
#[test]
fn mutations_end_in_diagnostics() {
    let number = |name: &str, default| {
        std::env::var(name)
            .ok()
            .and_then(|value| value.parse().ok())
            .unwrap_or(default)
    };
    let (first, count) = (number("HOSTILE_SEED", 0), number("HOSTILE_COUNT", 3_000_u64));
    let programs = programs();
    for seed in first..first + count {
        let mut rng = Rng::with_seed(seed + 1);
        let bytes = mutate(&programs[rng.usize(..programs.len())], &mut rng);
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let outcome = std::panic::catch_unwind(|| check_whole(bytes));
        assert!(outcome.is_ok(), "HOSTILE_SEED={seed} HOSTILE_COUNT=1:\n{shown}");
    }
}

/// Unlimited nesting and repetition yield a diagnostic instead of a stack overflow.
#[test]
fn depth_is_limited() {
    let many = 100_000;
    let body = |inner: &str| format!("void f(e ev) {{ {inner} }}");
    let texts = [
        body(&format!("x = {}1{};", "(".repeat(many), ")".repeat(many))),
        body(&format!("x = {}1;", "(".repeat(many))),
        body(&format!("x = {}1;", "!".repeat(many))),
        body(&format!("x = {}1;", "- ".repeat(many))),
        body(&format!("x = 1{};", " + 1".repeat(many))),
        body(&format!("x = a{};", ".b".repeat(many))),
        body(&format!("x = a{};", "[0]".repeat(many))),
        body(&format!("x = a{};", "()".repeat(many))),
        body(&format!("x = {}1;", "a ? ".repeat(many))),
        body(&format!("x = a{};", " ? b : c".repeat(many))),
        body(&format!("x = {}1;", "f(".repeat(many))),
        body(&format!("x = {}1;", "s{a: ".repeat(many))),
        body(&format!("if (a){};", " (a)".repeat(many))),
        body(&"if (a) ".repeat(many)),
        body(&"if (a) x = 1; else ".repeat(many)),
        body(&"for (x in l) ".repeat(many)),
        body(&"{".repeat(many)),
        body(&"while (a) {".repeat(many)),
        body(&"else { ".repeat(many)),
        "}".repeat(many),
        "{".repeat(many),
        "list<".repeat(many),
        format!(
            "struct s {{ {}uint8{} x; }}",
            "list<".repeat(many),
            ", 1>".repeat(many)
        ),
        format!("struct s {{ uint8 x when {}1; }}", "(".repeat(many)),
        "event ".repeat(many),
        "§ ".repeat(many),
        "\"".repeat(many),
        "/*".repeat(many),
        "x".repeat(MAX_TEXT_BYTES),
        ";".repeat(MAX_TEXT_BYTES),
        "\n".repeat(MAX_TEXT_BYTES),
        "a ".repeat(MAX_TEXT_BYTES),
    ];
    for text in &texts {
        let mut end = text.len().min(MAX_TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        check(&text[..end]);
    }
}

/// Text at the maximum nesting depth passes through the whole pipeline on a test's small stack.
#[test]
fn the_deepest_nesting_is_compiled() {
    let program = include_str!("../../../examples/stop-and-wait.mtp");
    let nested = |open: &str, inner: &str, close: &str| open.repeat(100) + inner + &close.repeat(100);
    let bodies = [
        format!("return {};", nested("(", "a", ")")),
        format!("return {};", nested("~", "a", "")),
        format!("return {};", nested("a > 1 ? a : ", "a", "")),
        format!("return {};", nested("min(a, ", "a", ")")),
        format!("return a{};", " + a".repeat(250)),
        format!(
            "return {};",
            nested("(a + ", &format!("a{}", " * a".repeat(100)), ")")
        ),
        format!("{} return a;", nested("if (a > 1) { ", "a = 1;", " }")),
        format!("{} return a;", nested("{ ", "a = 1;", " }")),
        format!("{} return a;", nested("if (a > 1) a = 2; else ", "a = 1;", "")),
    ];
    for body in bodies {
        let text = format!("{program}\nuint32 deep(uint32 b) {{ uint32 a = b; {body} }}\n");
        let compiled = compile_with(&MemoryLoader::new([("main.mtp", text)]), Path::new("main.mtp"));
        assert!(!compiled.failed(), "{}", compiled.render(false));
    }
}

/// Texts that are long, valid and on one line. The formatter's work grows linearly with their length.
#[test]
fn long_lines_are_formatted_in_time() {
    let texts = [
        format!("void f(e ev) {{ {} }}", "x = 1; ".repeat(60_000)),
        format!("void f(e ev) {{ g({}1); }}", "1, ".repeat(100_000)),
        format!("struct s {{ uint8 {}x; }}", "x, ".repeat(100_000)),
        format!("enum s {{ {}X }}", "X, ".repeat(100_000)),
        "struct s { } ".repeat(20_000),
        format!("//{}", "x".repeat(500_000)),
        format!("{} struct s {{ }}", "/* */".repeat(100_000)),
    ];
    for text in &texts {
        check(text);
    }
}

/// Attaches broken texts, and every program of the tree. An accepted attachment leaves the program's memory
/// layout unchanged; any other is rejected before it runs.
#[test]
fn a_broken_attachment_is_rejected_or_keeps_the_layout() {
    let program = include_str!("../../../examples/stop-and-wait.mtp");
    let compiled = compile_with(&MemoryLoader::new([("main.mtp", program)]), Path::new("main.mtp"));
    let program = compiled.module.expect("the example is right");
    let valid = "param uint32 LIMIT = 7; signal many { uint64 n; } struct pair { uint32 a, b; }
        enum side : uint8 { LEFT, RIGHT }
        uint64 twice(uint64 n) { pair p = pair{a: 1, b: 2}; return n * p.b; }
        void observe(event_t ev, sw_conn c) { if (twice(3) > LIMIT) emit signal(many{n: 3}); }
        attach observe before next; attach observe after packet;";
    let mut rng = Rng::with_seed(7);
    let mut texts = programs();
    texts.extend((0..3000).map(|_| String::from_utf8_lossy(&mutate(valid, &mut rng)).into_owned()));
    let (mut taken, mut refused) = (0, 0);
    for text in texts {
        let compiled = attach(&program, &[(Path::new("attached.mtp"), &text)]);
        assert!(compiled.module.is_none() || !compiled.failed());
        let _ = compiled.render(false);
        match compiled.module.map(|module| program.shares_memory_with(&module)) {
            Some(same) => {
                assert_eq!(same, Ok(()), "{text}");
                taken += 1;
            }
            None => refused += 1,
        }
    }
    assert!(taken > 50 && refused > 1000, "{taken} taken, {refused} refused");
}
