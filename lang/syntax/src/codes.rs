//! The table behind `hawser explain`: E00xx lexical and loading, E01xx syntax.
//!
//! Each code that this crate or the driver gives has a row; a test walks the failing programs
//! and holds the table to it. The checker's codes (E02xx to E09xx) are in its own table.

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// `E0101`
    pub code: &'static str,
    /// The finding in a few words.
    pub title: &'static str,
    /// What it means, why it is so, and an example of the right way; plain text.
    pub text: &'static str,
}

/// The row of a code; letter case does not matter.
#[must_use]
pub fn explain(code: &str) -> Option<&'static Code> {
    CODES.iter().find(|row| row.code.eq_ignore_ascii_case(code))
}

/// All rows, in order of code.
pub const CODES: &[Code] = &[];
