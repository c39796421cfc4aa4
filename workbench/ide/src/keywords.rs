//! The words of the language, and the names of integers of any width.

pub(crate) use hawser_check::vocabulary::{Sort, word, words};

/// Returns the width of `uintN` or `intN` in bits, and whether it is signed.
pub(crate) fn integer(name: &str) -> Option<(u8, bool)> {
    let (digits, signed) = match name.strip_prefix("uint") {
        Some(digits) => (digits, false),
        None => (name.strip_prefix("int")?, true),
    };
    let bits: u8 = digits.parse().ok()?;
    (1..=64).contains(&bits).then_some((bits, signed))
}
