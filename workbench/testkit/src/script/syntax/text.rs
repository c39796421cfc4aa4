//! A place in a text, and a cursor that reads tokens.
//!
//! There is no separate lexer, because the meaning of a character depends on its position (`.` begins a time,
//! is a flag, or is a part of `...`). The parsers ask for the token that they expect.

use std::fmt;

/// A line and a column, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptPosition {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for ScriptPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A script could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}{}{hint}", if hint.is_empty() { "" } else { "\n  hint: " })]
pub struct ScriptSyntaxError {
    /// The place of the first wrong character.
    pub place: ScriptPosition,
    /// The fault.
    pub message: String,
    /// A hint at the correct form; may be empty.
    pub hint: String,
}

/// The result of parsing.
pub(crate) type ScriptParse<T> = Result<T, ScriptSyntaxError>;

/// Reads tokens from a text.
#[derive(Clone, Debug)]
pub(crate) struct TokenCursor<'a> {
    text: &'a str,
    at: usize,
    /// A known place, with its offset.
    known: (usize, ScriptPosition),
}

impl<'a> TokenCursor<'a> {
    /// Creates a cursor at the beginning of a text that itself begins at `start`.
    pub(crate) fn new(text: &'a str, start: ScriptPosition) -> TokenCursor<'a> {
        TokenCursor { text, at: 0, known: (0, start) }
    }

    /// Returns the text that has not been read.
    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Returns the cursor's place.
    pub(crate) fn place(&self) -> ScriptPosition {
        let (offset, known) = self.known;
        let passed = &self.text[offset..self.at];
        let lines = passed.matches('\n').count() as u32;
        let last = passed.rsplit('\n').next().unwrap_or(passed).chars().count() as u32;
        let column = if lines == 0 { known.column + last } else { last + 1 };
        ScriptPosition { line: known.line + lines, column }
    }

    /// Returns the cursor's place and remembers it, so that later places are computed from here.
    pub(crate) fn anchor(&mut self) -> ScriptPosition {
        self.known = (self.at, self.place());
        self.known.1
    }

    /// Returns an error at the cursor.
    pub(crate) fn error<T>(&self, message: impl Into<String>, hint: &str) -> ScriptParse<T> {
        Err(ScriptSyntaxError { place: self.place(), message: message.into(), hint: hint.into() })
    }

    /// Returns an error that names the text at the cursor instead of `wanted`.
    pub(crate) fn expected<T>(&self, wanted: &str, hint: &str) -> ScriptParse<T> {
        let rest = self.rest();
        let word: String = rest.chars().take_while(|c| !c.is_whitespace()).take(24).collect();
        let found = if word.is_empty() {
            "the end of the line or script".into()
        } else {
            format!("`{word}`")
        };
        self.error(format!("expected {wanted}, found {found}"), hint)
    }

    /// Skips blanks and comments (`//`, `/* */`).
    pub(crate) fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                self.at += trimmed.find("*/").map_or(trimmed.len(), |end| end + 2);
            } else {
                return;
            }
        }
    }

    /// Returns whether only blanks and comments are left.
    pub(crate) fn at_end(&mut self) -> bool {
        self.skip_blank();
        self.rest().is_empty()
    }

    /// Returns whether `token` is next.
    pub(crate) fn sees(&mut self, token: &str) -> bool {
        self.skip_blank();
        self.rest().starts_with(token)
    }

    /// Reads `token` if it is next.
    pub(crate) fn take(&mut self, token: &str) -> bool {
        let found = self.sees(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Reads `token`, which must be next.
    pub(crate) fn expect(&mut self, token: &str, hint: &str) -> ScriptParse<()> {
        if self.take(token) {
            Ok(())
        } else {
            self.expected(&format!("`{token}`"), hint)
        }
    }

    /// Returns the next word without reading it: letters, digits, `_`. It is empty if there is none.
    pub(crate) fn peek_word(&mut self) -> &'a str {
        self.skip_blank();
        let rest = self.rest();
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        &rest[..end]
    }

    /// Reads a word, which is empty if there is none.
    pub(crate) fn word(&mut self) -> &'a str {
        let word = self.peek_word();
        self.at += word.len();
        word
    }

    /// Reads `word` if it is next as a whole word.
    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        let found = self.peek_word() == word;
        if found {
            self.at += word.len();
        }
        found
    }

    /// Reads all text up to `end`, and `end` itself.
    pub(crate) fn until(&mut self, end: &str, what: &str) -> ScriptParse<&'a str> {
        let rest = self.rest();
        let Some(len) = rest.find(end) else {
            return self.error(
                format!("this {what} does not end"),
                &format!("it ends with `{end}`"),
            );
        };
        self.at += len + end.len();
        Ok(&rest[..len])
    }

    /// Reads while `keep` holds.
    pub(crate) fn run(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Reads `token`, which is next, without skipping blanks and comments.
    pub(crate) fn advance(&mut self, token: &str) {
        self.at += if self.rest().starts_with(token) {
            token.len()
        } else {
            0
        };
    }

    /// Reads one character.
    pub(crate) fn run_one(&mut self) {
        self.at += self.rest().chars().next().map_or(0, char::len_utf8);
    }

    /// Reads the rest of the line.
    pub(crate) fn line(&mut self) -> &'a str {
        self.run(|c| c != '\n').trim_end()
    }

    /// Reads an unsigned number: decimal, or hexadecimal after `0x`.
    pub(crate) fn unsigned(&mut self, what: &str) -> ScriptParse<u64> {
        let word = self.peek_word();
        let (digits, radix) = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
            Some(hex) => (hex, 16),
            None => (word, 10),
        };
        if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
            return self.expected(what, "");
        }
        match u64::from_str_radix(digits, radix) {
            Ok(value) => {
                self.at += word.len();
                Ok(value)
            }
            Err(_) => self.error(format!("`{word}` is too large"), "numbers have at most 64 bits"),
        }
    }

    /// Reads an unsigned number of at most `most`.
    pub(crate) fn number<T: TryFrom<u64>>(&mut self, what: &str) -> ScriptParse<T> {
        self.skip_blank();
        let before = self.clone();
        let value = self.unsigned(what)?;
        match T::try_from(value) {
            Ok(value) => Ok(value),
            Err(_) => before.error(
                format!("{value} is too large for {what}"),
                &format!("it has {} bits", 8 * size_of::<T>()),
            ),
        }
    }

    /// Reads a time in seconds (`1`, `.1`, `0.25`) and returns nanoseconds.
    pub(crate) fn seconds(&mut self) -> ScriptParse<u64> {
        const HINT: &str = "times are seconds: 0, 1, .25, 0.200";
        self.skip_blank();
        let before = self.clone();
        let whole = self.run(|c| c.is_ascii_digit());
        let mut fraction = "";
        let mut rest = self.rest().chars();
        if rest.next() == Some('.') && rest.next().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
            fraction = self.run(|c| c.is_ascii_digit());
        }
        if whole.is_empty() && fraction.is_empty() {
            return before.expected("a time", HINT);
        }
        let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
        let whole = if whole.is_empty() {
            Ok(0)
        } else {
            whole.parse::<u32>()
        };
        match (whole, digits.parse::<u64>()) {
            (Ok(whole), Ok(nanos)) => Ok(u64::from(whole) * 1_000_000_000 + nanos),
            _ => before.error("this time is too far away", HINT),
        }
    }
}
