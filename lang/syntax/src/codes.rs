//! The table behind `hawser explain`.
//!
//! Its rows are the sections of `codes.md`. The driver's tests check with the failing programs that each code
//! has one. The checker's codes are on a page of its own.

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// The code, such as `E0101`.
    pub code: &'static str,
    /// A short title.
    pub title: &'static str,
    /// Plain text: the meaning, the reason, and a correct example.
    pub text: &'static str,
}

/// Returns the rows of a page. A section begins with `## CODE TITLE`.
pub fn rows(page: &'static str) -> impl Iterator<Item = Code> {
    page.split("\n## ").skip(1).filter_map(|section| {
        let (head, text) = section.split_once('\n')?;
        let (code, title) = head.split_once(' ')?;
        Some(Code { code, title, text: text.trim() })
    })
}

/// Returns all rows, in order of code.
pub fn codes() -> impl Iterator<Item = Code> {
    rows(include_str!("codes.md"))
}

/// Returns the row of a code, ignoring letter case.
#[must_use]
pub fn explain(code: &str) -> Option<Code> {
    codes().find(|row| row.code.eq_ignore_ascii_case(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_are_sorted_and_documented() {
        assert!(codes().is_sorted_by(|a, b| a.code < b.code));
        for row in codes() {
            assert!(row.code.len() == 5 && row.code.starts_with('E'), "{}", row.code);
            assert!(row.text.len() > 40, "{} says too little", row.code);
        }
        assert!(explain("e0102").is_some() && explain("E9999").is_none());
    }
}
