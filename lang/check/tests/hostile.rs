//! The checker accepts any tree: programs with words removed, doubled, swapped and replaced, and trees with
//! holes. Its diagnostics are not asserted, but it must end, and never return both a module and an error.

use crate::common;

use common::{check, repository};
use fastrand::Rng;
use hawser_syntax::Severity;

const PROGRAMS: &[&str] = &[
    "examples/stop-and-wait.mtp",
    "lang/tests/pass/composition.mtp",
    "lang/tests/pass/conversions.mtp",
    "lang/tests/pass/paper_style.mtp",
    "lang/tests/pass/homa.mtp",
    "lang/tests/pass/quic_lite.mtp",
    "lang/tests/pass/rocev2.mtp",
];

/// Splits a text into words, numbers and single signs.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let len = if word(first) {
            rest.find(|c| !word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (piece, after) = rest.split_at(len);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn holds(text: &str, what: &str) {
    let (module, diagnostics) = check(text);
    let failed = diagnostics
        .iter()
        .any(|f| f.severity == Severity::Error && f.code >= "E0200");
    assert!(!(failed && module.is_some()), "{what}");
}

#[test]
fn mutated_programs_never_panic() {
    let texts: Vec<String> = PROGRAMS.iter().map(|path| repository(path)).collect();
    for (seed, text) in (1u64..).zip(texts.iter().cycle()).take(1400) {
        let mut rng = Rng::with_seed(seed);
        let mut words = pieces(text);
        for _ in 0..1 + rng.usize(..6) {
            let (a, b) = (rng.usize(..words.len()), rng.usize(..words.len()));
            match rng.usize(..4) {
                0 => drop(words.remove(a)),
                1 => words.insert(a, words[b]),
                2 => words.swap(a, b),
                _ => words[a] = words[b],
            }
        }
        holds(&words.concat(), &format!("seed {seed}"));
    }
}

#[test]
fn deep_and_wide_programs_never_panic() {
    let nested = |open: &str, close: &str, n| format!("{}{}{}", open.repeat(n), "x", close.repeat(n));
    let sum = vec!["c.n"; 200].join(" + ");
    let structs: String = (0..500)
        .map(|i| format!("struct s{i} {{ s{} inner; }}", i + 1))
        .collect();
    let consts: String = (0..500)
        .map(|i| format!("const uint32 C{i} = C{} + 1;", i + 1))
        .collect();
    let calls: String = (0..500)
        .map(|i| format!("void f{i}() {{ f{}(); }}", i + 1))
        .collect();
    let loops = "for (i in 0..2) ".repeat(120);
    let texts = [
        format!(
            "context c {{ uint32 n; }} void f(c c) {{ c.n = {}; }}",
            nested("(", ")", 120)
        ),
        format!("context c {{ uint32 n; }} void f(c c) {{ c.n = {sum}; }}"),
        format!("{structs} struct s500 {{ uint8 a; }}"),
        format!("{consts} const uint32 C500 = 1;"),
        format!("{calls} void f500() {{ }}"),
        format!(
            "event ask : APP_EVENT {{ }} context c {{ uint32 n; }} void f(ask ev, c c) {{ {loops} {{ c.n = 1; refuse(5); }} }} dispatch d {{ ask -> {{f}}; }}"
        ),
        format!(
            "context c {{ uint32 n; }} void f(c c) {{ {} }}",
            nested("if (c.n == 1) { ", " }", 110).replace('x', &format!("c.n = {sum};"))
        ),
        format!("context c {{ {} }}", nested("list<", ", 9>", 60)),
        format!(
            "context c {{ list<uint64, {}> l; bytes<{}> b; }}",
            u64::MAX,
            u64::MAX
        ),
        "chain a = {a}; dispatch d { chain a = {a, a, a}; }".to_owned(),
    ];
    for text in &texts {
        holds(text, &text[..text.len().min(200)]);
    }
}

/// The work and the depth of what is lowered grow with the text and not faster, on a test's small stack.
#[test]
fn sets_cases_and_calls_stay_small() {
    let conditionals = (0..28).fold("n".to_owned(), |inner, _| {
        format!("(({inner} in {{1, 2}} ? 1 : 2) in {{1, 2}} ? 3 : 4)")
    });
    let nested = format!("uint32 f(uint32 n) {{ return {conditionals}; }}");
    let (_, diagnostics) = check(&nested);
    let errors = diagnostics.iter().filter(|d| d.severity == Severity::Error);
    assert_eq!(errors.count(), 0, "{diagnostics:#?}");

    let variants = |count: usize| (0..count).map(|i| format!("V{i}")).collect::<Vec<_>>().join(", ");
    let wide = |count| {
        format!(
            "enum e {{ {0} }} uint32 f(e x) {{ match (x) {{ {0} -> return 1; }} return 2; }}",
            variants(count)
        )
    };
    let codes = |text: &str| check(text).1.iter().map(|d| d.code).collect::<Vec<_>>();
    assert!(!codes(&wide(256)).contains(&"E0110"));
    assert!(codes(&wide(257)).contains(&"E0110"));
    holds(&wide(20_000), "20,000 cases in one arm");

    // The innermost function stands first, so that each call leads to a function that is known already.
    let calls = |count: usize| -> String {
        let one = |i: usize| format!("uint32 f{i}() {{ return f{}(); }} ", i - 1);
        "uint32 f0() { return 1; } ".to_owned() + &(1..count).map(one).collect::<String>()
    };
    assert!(!codes(&calls(64)).contains(&"E0406"));
    assert!(codes(&calls(65)).contains(&"E0406"));
    holds(&calls(10_000), "calls of 10,000 functions in turn");
}

#[test]
fn a_match_with_too_many_arms_is_reported_with_advice() {
    let arms: String = (0..2000).map(|i| format!("V{i} -> n = {i}; ")).collect();
    let variants: Vec<String> = (0..2000).map(|i| format!("V{i}")).collect();
    let text = format!(
        "enum e {{ {} }} void f(e x, uint32 n) {{ match (x) {{ {arms} }} }}",
        variants.join(", ")
    );
    let (_, diagnostics) = check(&text);
    let too_deep: Vec<_> = diagnostics.iter().filter(|d| d.code == "E0110").collect();
    assert!((1..5).contains(&too_deep.len()), "{diagnostics:#?}");
    let hint = too_deep[0].hint.as_ref().map_or("", |hint| hint.text.as_str());
    assert!(hint.contains("one arm"), "{hint}");
}
