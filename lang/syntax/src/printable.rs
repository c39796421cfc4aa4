//! Untrusted text that is written to a terminal or a log.
//!
//! Control characters move the cursor, change colours and titles and, on some terminals, send input in the
//! reader's name. Bidirectional formatting characters display text in another order than its own (Unicode
//! Standard Annex #9; CVE-2021-42574). Tabs are kept. Line feeds, which could make a text look like several
//! lines of output, are kept only where several lines are intended.

use std::fmt::{self, Display, Write};

/// Displays a value with such characters shown as `\u001b`. JSON uses the same form, so a JSON text keeps its
/// meaning. Line feeds are kept.
#[derive(Clone, Copy, Debug)]
pub struct Printable<T>(pub T);

impl<T: Display> Display for Printable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping { to: f, one_line: false }, "{}", self.0)
    }
}

/// Displays a value like `Printable`, but always on one line: a line feed is shown as `\u000a`.
#[derive(Clone, Copy, Debug)]
pub struct OneLine<T>(pub T);

impl<T: Display> Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping { to: f, one_line: true }, "{}", self.0)
    }
}

struct Escaping<'a, 'b> {
    to: &'a mut fmt::Formatter<'b>,
    one_line: bool,
}

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        let escaped = |c: char| acts_on_terminals(c) || self.one_line && c == '\n';
        while let Some(at) = rest.find(escaped) {
            let (plain, from) = rest.split_at(at);
            let mut characters = from.chars();
            let character = characters.next().map_or(0, u32::from);
            write!(self.to, "{plain}\\u{character:04x}")?;
            rest = characters.as_str();
        }
        self.to.write_str(rest)
    }
}

/// Returns the text with each such character replaced by a visible one of the same length in bytes, so that
/// byte positions stay valid. A carriage return before a line feed is kept.
#[must_use]
pub fn masked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let ends_line = character == '\r' && characters.peek() == Some(&'\n');
        out.push(match character.len_utf8() {
            _ if ends_line || !acts_on_terminals(character) => character,
            1 => '?',
            2 => '\u{bf}',
            _ => char::REPLACEMENT_CHARACTER,
        });
    }
    out
}

/// True if a character does anything other than display itself. All such characters are in the Basic
/// Multilingual Plane.
fn acts_on_terminals(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        // UAX #9, 2: explicit formatting characters, and the separators that some programs treat as line
        // ends.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_bidirectional_characters_are_escaped() {
        let text = Printable("a\x1b]0;x\x07 \u{9b}2J\x7f\r\u{202e}é→\u{2067}\n\tb").to_string();
        let expected = "a\\u001b]0;x\\u0007 \\u009b2J\\u007f\\u000d\\u202eé→\\u2067\n\tb";
        assert_eq!(text, expected);
        let lines = "a\nb\r\n\u{85}c\u{2028}d\u{2029}\te";
        assert_eq!(
            OneLine(lines).to_string(),
            "a\\u000ab\\u000d\\u000a\\u0085c\\u2028d\\u2029\te"
        );
        assert_eq!(
            Printable(lines).to_string(),
            "a\nb\\u000d\n\\u0085c\\u2028d\\u2029\te"
        );
    }

    #[test]
    fn masked_text_keeps_its_length_and_hides_controls() {
        for odd in [
            "\x1b", "\u{7}", "\r", "\u{85}", "\u{9b}", "\u{61c}", "\u{202e}", "\u{2069}",
        ] {
            let text = format!("a{odd}é\r\n{odd}b");
            let masked = masked(&text);
            assert_eq!(masked.len(), text.len(), "{odd:?}");
            assert!(!masked.contains(odd) || odd == "\r", "{odd:?}");
            assert_eq!(masked.char_indices().count(), text.char_indices().count());
            assert!(masked.contains("é\r\n"));
        }
    }
}
