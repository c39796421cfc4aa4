//! The property of the fuzz target, on the stable toolchain: texts with many kinds of damage end in a report
//! or an error.

use fastrand::Rng;
use hawser_testkit::step::{parse, run};

use super::{examples, program};

const GOOD: &str = include_str!("../../../../examples/go-back-n.steps");

fn broken(rng: &mut Rng) -> String {
    const PIECES: &[&str] = &[
        "",
        "<",
        ">",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\",
        "$",
        "@",
        "...",
        "wrong",
        "0x",
        "-1",
        "+",
        "99999999999999999999",
        "18446744073709551615",
        "100@18446744073709551615",
        "every",
        "assert",
        "nothing",
        "for",
        "until",
        "x",
        "GBN{",
        "ip{",
        "999999999h",
        "//",
        "\u{fffd}",
        "ä",
        "1e9s",
        "16777216",
    ];
    let mut text = GOOD.to_owned();
    for _ in 0..rng.usize(1..4) {
        let at = |rng: &mut Rng, text: &str| {
            let mut at = rng.usize(..=text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (a, b) = (at(rng, &text), at(rng, &text));
        let (from, to) = (a.min(b), a.max(b));
        match rng.u8(..4) {
            0 => text.insert_str(a, PIECES[rng.usize(..PIECES.len())]),
            1 if to - from < 20 => text.replace_range(from..to, PIECES[rng.usize(..PIECES.len())]),
            _ => {
                // Reordered and missing lines still form steps that can be parsed.
                let mut lines: Vec<&str> = text.lines().collect();
                let (i, j) = (rng.usize(4..lines.len()), rng.usize(4..lines.len()));
                lines.swap(i, j);
                lines.remove(j);
                text = lines.join("\n");
            }
        }
    }
    text
}

#[test]
fn broken_files_end_in_an_error_or_a_report() {
    let mut rng = Rng::with_seed(23);
    let good = program(
        "go-back-n.mtp",
        &examples(),
        &["RTO=60ms".to_owned(), "WINDOW=4".to_owned()],
    );
    let (mut unreadable, mut failed) = (0, 0);
    for _ in 0..120 {
        let text = broken(&mut rng);
        match parse(&text) {
            Err(error) => {
                assert!(!error.message.is_empty() && error.place.line > 0);
                unreadable += 1;
            }
            Ok(steps) => {
                let report = run(good.clone(), &text, &steps, false);
                let report = report.unwrap_or_else(|error| panic!("{error}: {text}"));
                failed += u32::from(!report.passed());
                let _ = report.explain("file");
            }
        }
    }
    assert!(
        unreadable > 10 && failed > 20,
        "{unreadable} unreadable, {failed} failed"
    );
}
