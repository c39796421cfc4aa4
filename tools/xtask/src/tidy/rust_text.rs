//! Rust source as text: separates code from comments and strings, and finds the extent of functions.
//!
//! This is a lexer of comments, strings and characters, not a parser. It suffices to measure functions and to
//! find names, and does not depend on the compiler's version.

use std::ops::Range;

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// The line of its `fn`, from 1.
    pub(super) line: usize,
    /// The number of lines from `fn` to the closing brace, including both.
    pub(super) lines: usize,
    /// True if it has a `#[test]` attribute of some kind.
    pub(super) test: bool,
}

/// Returns the text with the contents of comments, strings and characters blanked, so that offsets stay the
/// same.
pub(super) fn code_only(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    for range in blanks(text.as_bytes()) {
        blank(&mut out[range]);
    }
    String::from_utf8(out).unwrap_or_default()
}

/// Returns the text with comments blanked, so that offsets stay the same.
pub(crate) fn without_comments(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    for range in blanks(text.as_bytes()) {
        if text.as_bytes()[range.start] == b'/' {
            blank(&mut out[range]);
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

/// Returns the ranges of the items that `#[cfg(test)]` marks, with the mark.
pub(crate) fn marked_for_tests(text: &str) -> Vec<Range<usize>> {
    const MARK: &str = "#[cfg(test)]";
    let code = code_only(text);
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(offset) = code[at..].find(MARK) {
        let start = at + offset;
        let behind = start + MARK.len();
        at = match body(code.as_bytes(), behind) {
            Some((_, close)) => close + 1,
            None => code[behind..]
                .find(';')
                .map_or(code.len(), |end| behind + end + 1),
        };
        found.push(start..at);
    }
    found
}

/// Returns the ranges of comments, strings and characters.
fn blanks(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at + 1..].starts_with(b"/") => line_end(bytes, at),
            b'/' if bytes[at + 1..].starts_with(b"*") => comment_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' if !is_word_before(bytes, at) => raw_string_end(bytes, at).unwrap_or(at + 1),
            b'\'' => character_end(bytes, at),
            _ => at + 1,
        };
        if end > at + 1 {
            found.push(at..end);
        }
        at = end;
    }
    found
}

/// Returns every function with a body, in order of appearance.
pub(super) fn functions(text: &str) -> Vec<Function> {
    let code = code_only(text);
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = code[at..].find("fn ") {
        let start = at + offset;
        at = start + 3;
        let name: String = code[at..]
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        if is_word_before(bytes, start) || name.is_empty() {
            continue;
        }
        let Some((open, close)) = body(bytes, at) else {
            continue;
        };
        let line = line_of(&code, start);
        let lines = code[start..=close].matches('\n').count() + 1;
        found.push(Function { name, line, lines, test: is_test(&code[..start]) });
        // Continue inside the body, because it may hold further functions.
        at = open + 1;
    }
    found
}

/// Returns the line, from 1, of a byte offset.
fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Returns whether the attributes just before a function make it a test.
fn is_test(before: &str) -> bool {
    let block_start = before.rfind(['{', '}', ';']).map_or(0, |at| at + 1);
    let attributes = &before[block_start..];
    attributes.split("#[").skip(1).any(|attribute| {
        let name = attribute.split([']', '(']).next().unwrap_or("");
        name.rsplit("::")
            .next()
            .is_some_and(|last| last.trim() == "test" || last.trim() == "test_case")
    })
}

/// Returns the offsets of the braces of a function's body, searched from after its name, or `None` for a
/// declaration.
fn body(bytes: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut depth = 0i32;
    let mut open = None;
    for (at, byte) in bytes.iter().enumerate().skip(from) {
        match byte {
            b'(' | b'[' if open.is_none() => depth += 1,
            b')' | b']' if open.is_none() => depth -= 1,
            b';' if open.is_none() && depth == 0 => return None,
            b'{' if open.is_none() && depth == 0 => {
                open = Some(at);
                depth = 1;
            }
            b'{' if open.is_some() => depth += 1,
            b'}' if open.is_some() => {
                depth -= 1;
                if depth == 0 {
                    return open.map(|open| (open, at));
                }
            }
            _ => {}
        }
    }
    None
}

fn is_word_before(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..]
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(bytes.len(), |length| at + length)
}

/// Returns the offset after a block comment, which may nest.
fn comment_end(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0;
    let mut at = at;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the offset after `r"…"` or `r#"…"#`, or `None` if the `r` begins another token.
fn raw_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    let open = at + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let inside = &bytes[open + 1..];
    let length = inside.windows(close.len()).position(|window| window == close);
    Some(length.map_or(bytes.len(), |length| open + 1 + length + close.len()))
}

/// Returns the offset after a character literal, or the offset just after the quote of a lifetime.
fn character_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at + 1..];
    if rest.first() == Some(&b'\\') {
        let close = rest.iter().skip(2).position(|byte| *byte == b'\'');
        return close.map_or(bytes.len(), |length| at + 1 + 2 + length + 1);
    }
    // A character is at most four bytes long; a lifetime has no closing quote.
    let width = rest.first().map_or(0, |first| match first {
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    });
    if width > 0 && rest.get(width) == Some(&b'\'') {
        at + width + 2
    } else {
        at + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blanked_in_place() {
        let text = "a /* x /* y */ z */ b \"c\\\"d\" e // f\ng r#\"h\"i\"# j '\\'' k 'l m: &'n str 'ä' o";
        let code = code_only(text);
        assert_eq!(code.len(), text.len());
        let words: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(
            words,
            ["a", "b", "e", "g", "j", "k", "'l", "m:", "&'n", "str", "o"]
        );
    }

    #[test]
    fn functions_are_measured_and_tests_known() {
        let text = "trait T { fn declared(&self) -> [u8; 4]; }\n#[test]\nfn one() {\n  \"}\";\n}\n\
                    fn two<const N: usize>(a: &[u8; 4])\n-> u8\n{ fn inner() {} 0 }\n#[tokio::test]\nasync fn three() {}";
        let found: Vec<_> = functions(text)
            .into_iter()
            .map(|f| (f.name, f.line, f.lines, f.test))
            .collect();
        let expected = [
            ("one", 3, 3, true),
            ("two", 6, 3, false),
            ("inner", 8, 1, false),
            ("three", 10, 1, true),
        ];
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(n, l, c, t)| (n.to_owned(), l, c, t))
            .collect();
        assert_eq!(found, expected);
    }
}
