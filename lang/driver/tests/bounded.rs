//! Output is bounded by its input: long lines, long names, many errors, chains that double in length, lone
//! carriage returns.

use std::path::Path;

use hawser_driver::{Compilation, MemoryLoader, compile_with};
use hawser_syntax::MAX_DIAGNOSTICS;

/// The maximum number of bytes that are printed for one diagnostic. It has a message, a label and a hint,
/// each with a name of at most a thousand characters of four bytes, and the excerpt.
const PER_DIAGNOSTIC: usize = 8_192;

fn compiled(text: &str) -> Compilation {
    compile_with(&MemoryLoader::new([("main.mtp", text)]), Path::new("main.mtp"))
}

fn codes(text: &str) -> Vec<&'static str> {
    let compilation = compiled(text);
    compilation
        .diagnostics
        .iter()
        .map(|diagnostic| diagnostic.code)
        .collect()
}

#[test]
fn a_thousand_errors_of_one_line_render_a_hundred_excerpts() {
    let statements: String = (0..1_000).map(|n| format!("c.n = unknown{n};")).collect();
    let text = format!(
        "event ask : APP_EVENT {{ }} context conn {{ uint32 n; }}\nvoid f(ask ev, conn c) {{ {statements} }}\n\
         dispatch d {{ ask -> {{f}}; }}"
    );
    let compilation = compiled(&text);
    assert_eq!(compilation.diagnostics.len(), MAX_DIAGNOSTICS + 1);
    let last = compilation.diagnostics.last().expect("there are some");
    assert_eq!((last.code, last.message.as_str()), ("E0100", "900 errors more"));
    let rendered = compilation.render(false);
    assert!(
        rendered.len() < (MAX_DIAGNOSTICS + 1) * PER_DIAGNOSTIC,
        "{}",
        rendered.len()
    );
    // The place refers to the whole line.
    let at = text
        .lines()
        .nth(1)
        .and_then(|line| line.find("unknown99;"))
        .expect("it is there")
        + 1;
    assert!(rendered.contains(&format!("main.mtp:2:{at} ]")), "{rendered}");
    assert!(rendered.contains("…"));
}

#[test]
fn a_long_name_is_not_repeated_in_each_message() {
    let name = "n".repeat(100_000);
    let text = format!(
        "event ask : APP_EVENT {{ }} context conn {{ uint32 n; }} void f(ask ev, conn c) {{ c.{name} = {name}; }}"
    );
    let rendered = compiled(&text).render(false);
    assert!(rendered.len() < 8 * PER_DIAGNOSTIC, "{}", rendered.len());
}

#[test]
fn a_chain_that_doubles_is_too_large_and_contains_no_circle() {
    for inner in ["f", ""] {
        let doubled: String = (1..=40)
            .map(|n| format!("chain t{n} = {{t{0}, t{0}}};", n - 1))
            .collect();
        let text = format!(
            "event ask : APP_EVENT {{ }} context conn {{ uint32 n; }}\nvoid f(ask ev, conn c) {{ c.n += 1; }}\n\
             dispatch d {{ chain t0 = {{{inner}}}; {doubled} ask -> {{f, t40}}; }} deploy {{ register_ep_chains(d); }}"
        );
        let found = codes(&text);
        assert!(found.contains(&"E0710") && !found.contains(&"E0707"), "{found:?}");
    }
}

#[test]
fn only_chains_of_a_cycle_are_reported_as_recursive() {
    let text = "event ask : APP_EVENT { } context conn { uint32 n; } void f(ask ev, conn c) { c.n += 1; }\n\
         dispatch d { chain a = {f, b}; chain b = {a}; chain outside = {a}; ask -> {outside}; }\n\
         deploy { register_ep_chains(d); }";
    assert_eq!(codes(text), ["E0707", "E0707"]);
}

#[test]
fn a_carriage_return_alone_ends_a_line_and_its_comment() {
    let text =
        "// a comment\revent ask : APP_EVENT { }\rcontext conn { uint32 n; }\r\n// another\r\nunknown x;\r";
    let compilation = compiled(text);
    let diagnostic = compilation.diagnostics.first().expect("the last line is wrong");
    let at = compilation
        .sources
        .line_column(diagnostic.span.file, diagnostic.span.start);
    assert_eq!(at, (5, 1), "{}", compilation.render(false));
}
