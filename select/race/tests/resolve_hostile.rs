//! Arbitrary answers of name servers do no harm; the fuzz target `names` tests the same for longer.

use fastrand::Rng;
use hawser_race::resolve::hostile::answer;

/// An answer with two HTTPS records (RFC 9460, 2.2): an alias, and a service with all parameters.
const ANSWER: &[u8] = b"\x12\x34\x85\x80\x00\x01\x00\x02\x00\x00\x00\x00\x01a\x02xy\x00\x00\x41\x00\x01\
    \xc0\x0c\x00\x41\x00\x01\x00\x00\x00\x3c\x00\x33\x00\x02\x01b\x02xy\x00\x00\x00\x00\x02\x00\x01\
    \x00\x01\x00\x03\x02h3\x00\x03\x00\x02\x20\xfb\x00\x04\x00\x04\xc0\x00\x02\x01\
    \x00\x06\x00\x10\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\
    \xc0\x0c\x00\x41\x00\x01\x00\x00\x00\x3c\x00\x0a\x00\x01\x00\x00\x01\x00\x03\x02h2";

#[test]
fn arbitrary_answers_are_survived() {
    let mut rng = Rng::with_seed(1);
    let mut below = |limit: usize| rng.usize(..limit);
    answer(ANSWER);
    for _ in 0..100_000 {
        let mut bytes = ANSWER.to_vec();
        for _ in 0..below(6) {
            let at = below(bytes.len());
            bytes[at] = below(256) as u8;
        }
        bytes.truncate(1 + below(ANSWER.len() * 2));
        answer(&bytes);
    }
}

#[test]
fn arbitrary_names_are_survived() {
    for text in [
        "xn--",
        "xn--a",
        "\u{ad}",
        "a\u{3002}b",
        "ß.example",
        "%00",
        "a b",
        "\\065",
        "*.x",
        "-.x",
        "a\\.b",
    ] {
        answer(text.as_bytes());
    }
}
