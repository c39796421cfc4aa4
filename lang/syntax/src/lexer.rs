//! The lexer: turns text into tokens and separate comments, in a single pass over the bytes.
//!
//! It allocates two vectors, and no memory per token. It never fails: a run of characters that belong to no
//! token becomes one [`TokenKind::Unknown`] and one diagnostic.

use crate::token::{Keyword, Token, TokenKind};
use crate::{Diagnostic, Span};

/// A comment at its place in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Offset of the first byte of `//` or `/*`.
    pub start: u32,
    /// Offset one past the last byte, without the line end.
    pub end: u32,
    /// True for `/* … */`.
    pub block: bool,
}

/// The result of the lexer.
#[derive(Clone, Debug, Default)]
pub struct Lexed {
    /// The tokens, in order. The last one is [`TokenKind::End`].
    pub tokens: Vec<Token>,
    /// The comments, in order.
    pub comments: Vec<Comment>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Splits a text into tokens and comments. The text is shorter than 4 GiB, which [`crate::parse`] ensures.
#[must_use]
pub fn lex(text: &str, file: u32) -> Lexed {
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at: 0, file, out: Lexed::default() };
    lexer.out.tokens.reserve(text.len() / 4 + 1);
    if text.starts_with('\u{feff}') {
        lexer.at = '\u{feff}'.len_utf8();
    }
    while lexer.at < lexer.bytes.len() {
        lexer.next();
    }
    let end = text.len() as u32;
    lexer
        .out
        .tokens
        .push(Token { kind: TokenKind::End, start: end, end });
    lexer.out
}

/// Returns the value of an [`TokenKind::Int`] token, or `None` if the text is no such token or exceeds 64
/// bits.
#[must_use]
pub fn int_value(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let mut value: u64 = 0;
    let mut any = false;
    for c in digits.chars().filter(|c| *c != '_') {
        value = value
            .checked_mul(u64::from(radix))?
            .checked_add(u64::from(c.to_digit(radix)?))?;
        any = true;
    }
    any.then_some(value)
}

/// Returns the value of a [`TokenKind::Duration`] token in nanoseconds, or `None` if the text is no such
/// token or exceeds 64 bits.
#[must_use]
pub fn duration_value(text: &str) -> Option<u64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (digits, unit) = text.split_at(split);
    let (_, nanoseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
    int_value(digits)?.checked_mul(*nanoseconds)
}

const UNITS: [(&str, u64); 5] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
];

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    file: u32,
    out: Lexed,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn span(&self, start: usize) -> Span {
        Span { file: self.file, start: start as u32, end: self.at as u32 }
    }

    fn push(&mut self, kind: TokenKind, start: usize) {
        self.out
            .tokens
            .push(Token { kind, start: start as u32, end: self.at as u32 });
    }

    fn next(&mut self) {
        match self.peek(0) {
            b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(),
            b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'/' if self.peek(1) == b'/' => self.line_comment(),
            b'/' if self.peek(1) == b'*' => self.block_comment(),
            first => match punctuation(first, self.peek(1), self.peek(2)) {
                Some((kind, length)) => {
                    let start = self.at;
                    self.at += length;
                    self.push(kind, start);
                }
                None => self.unknown(),
            },
        }
    }

    fn skip_while(&mut self, belongs: impl Fn(u8) -> bool) {
        while self.bytes.get(self.at).is_some_and(|byte| belongs(*byte)) {
            self.at += 1;
        }
    }

    fn word(&mut self) {
        let start = self.at;
        self.skip_while(is_word_byte);
        let kind =
            Keyword::from_word(&self.text[start..self.at]).map_or(TokenKind::Ident, TokenKind::Keyword);
        self.push(kind, start);
    }

    /// Lexes digits together with any letters that follow, so that `5sec` or `0b11` is one diagnostic.
    fn number(&mut self) {
        let start = self.at;
        self.skip_while(is_word_byte);
        let text = &self.text[start..self.at];
        let hex = text.starts_with("0x") || text.starts_with("0X");
        let unit = if hex {
            None
        } else {
            text.find(|c: char| c.is_ascii_alphabetic())
        };
        let kind = if unit.is_some() {
            TokenKind::Duration
        } else {
            TokenKind::Int
        };
        let fraction = self.peek(0) == b'.' && self.peek(1).is_ascii_digit();
        if fraction {
            self.at += 1;
            self.skip_while(is_word_byte);
            self.out.diagnostics.push(
                Diagnostic::error("E0003", self.span(start), "the language has no fractions")
                    .label("expected a whole number")
                    .hint("use a smaller unit, or mul_div(a, b, c) for a ratio"),
            );
        } else if let Some(unit) = unit {
            self.check_duration(start, unit);
        } else if int_value(text).is_none() {
            self.bad_int(start, hex);
        }
        self.push(kind, start);
    }

    fn check_duration(&mut self, start: usize, unit: usize) {
        let text = &self.text[start..self.at];
        if duration_value(text).is_some() {
            return;
        }
        let span = self.span(start);
        let known = UNITS.iter().any(|(name, _)| *name == &text[unit..]);
        self.out.diagnostics.push(if known {
            Diagnostic::error(
                "E0004",
                span,
                "the duration does not fit in 64 bits of nanoseconds",
            )
            .label("the limit is about 584 years")
        } else {
            Diagnostic::error(
                "E0006",
                span,
                format!("`{}` is not a unit of time", &text[unit..]),
            )
            .label("expected a number, or a duration in ns, us, ms, s or min")
            .hint("durations look like 5ns, 10us, 200ms, 1s, 2min; hexadecimal numbers begin with 0x")
        });
    }

    fn bad_int(&mut self, start: usize, hex: bool) {
        let span = self.span(start);
        let text = &self.text[start..self.at];
        let body = if hex { &text[2..] } else { text };
        let radix = if hex { 16 } else { 10 };
        let digits = body.chars().all(|c| c == '_' || c.is_digit(radix)) && body.chars().any(|c| c != '_');
        self.out.diagnostics.push(if digits {
            Diagnostic::error("E0004", span, "the number does not fit in 64 bits")
                .label("the limit is 18446744073709551615")
        } else {
            Diagnostic::error("E0003", span, format!("`{text}` is not a number"))
                .label("expected digits after 0x")
        });
    }

    fn string(&mut self) {
        let start = self.at;
        self.at += 1;
        self.skip_while(|byte| byte != b'"' && byte != b'\n');
        if self.peek(0) == b'"' {
            self.at += 1;
        } else {
            self.out.diagnostics.push(
                Diagnostic::error("E0005", self.span(start), "the string has no end")
                    .label("expected `\"` before the end of the line"),
            );
        }
        self.push(TokenKind::Str, start);
    }

    fn line_comment(&mut self) {
        let start = self.at;
        self.skip_while(|byte| byte != b'\n' && byte != b'\r');
        let end = start + self.text[start..self.at].trim_end().len();
        self.out
            .comments
            .push(Comment { start: start as u32, end: end as u32, block: false });
    }

    fn block_comment(&mut self) {
        let start = self.at;
        match self.text[start + 2..].find("*/") {
            Some(length) => self.at = start + 2 + length + 2,
            None => {
                self.at = start + 2;
                self.out.diagnostics.push(
                    Diagnostic::error("E0002", self.span(start), "the comment has no end")
                        .label("expected `*/` somewhere after this"),
                );
                self.at = self.bytes.len();
            }
        }
        let end = self.at as u32;
        self.out
            .comments
            .push(Comment { start: start as u32, end, block: true });
    }

    /// Lexes a run of characters that belong to no token, as one diagnostic.
    fn unknown(&mut self) {
        let start = self.at;
        let first = self.text[start..].chars().next().unwrap_or('\u{fffd}');
        let known = |c: char| c.is_ascii() && c != '\0' && !matches!(c, '#' | '@' | '$' | '\'' | '`' | '\\');
        let length = self.text[start..].find(known).unwrap_or(self.text.len() - start);
        self.at += length.max(first.len_utf8());
        let diagnostic = Diagnostic::error(
            "E0001",
            self.span(start),
            if first.is_control() {
                format!("the control character {} is not allowed", first.escape_unicode())
            } else {
                format!("the character `{first}` is not allowed")
            },
        )
        .label("outside comments a program is ASCII text");
        self.out.diagnostics.push(match hint_for(first) {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        });
        self.push(TokenKind::Unknown, start);
    }
}

fn hint_for(c: char) -> Option<&'static str> {
    Some(match c {
        '#' => "MTP has no preprocessor: use `import \"file.mtp\";` and `const`",
        '\'' => "MTP has no character literals: write the number",
        '\u{201c}' | '\u{201d}' | '\u{201e}' => "use the plain quotation mark \"",
        '\u{a0}' | '\u{2009}' | '\u{200b}' | '\u{3000}' => "a special space was pasted in: use a plain one",
        '\u{2013}' | '\u{2014}' | '\u{2212}' => "use the plain minus -",
        '\u{2192}' => "write the arrow as ->",
        '\u{2264}' => "write <=",
        '\u{2265}' => "write >=",
        '\u{2260}' => "write !=",
        '\u{d7}' => "write *",
        '\u{37e}' => "this is the Greek question mark: use ;",
        _ => return None,
    })
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the punctuation that begins with these bytes, and its length.
fn punctuation(first: u8, second: u8, third: u8) -> Option<(TokenKind, usize)> {
    use TokenKind::*;
    Some(match (first, second, third) {
        (b'.', b'.', b'.') => (Ellipsis, 3),
        (b'<', b'<', b'=') => (ShiftLeftAssign, 3),
        (b'.', b'.', _) => (DotDot, 2),
        (b':', b':', _) => (ColonColon, 2),
        (b'-', b'>', _) => (Arrow, 2),
        (b'=', b'>', _) => (FatArrow, 2),
        (b'=', b'=', _) => (EqEq, 2),
        (b'!', b'=', _) => (NotEq, 2),
        (b'<', b'=', _) => (LessEq, 2),
        (b'>', b'=', _) => (GreaterEq, 2),
        (b'<', b'<', _) => (ShiftLeft, 2),
        (b'+', b'=', _) => (PlusAssign, 2),
        (b'+', b'+', _) => (PlusPlus, 2),
        (b'-', b'=', _) => (MinusAssign, 2),
        (b'-', b'-', _) => (MinusMinus, 2),
        (b'*', b'=', _) => (StarAssign, 2),
        (b'/', b'=', _) => (SlashAssign, 2),
        (b'%', b'=', _) => (PercentAssign, 2),
        (b'&', b'=', _) => (AndAssign, 2),
        (b'&', b'&', _) => (AndAnd, 2),
        (b'|', b'=', _) => (OrAssign, 2),
        (b'|', b'|', _) => (OrOr, 2),
        (b'^', b'=', _) => (CaretAssign, 2),
        (b'(', _, _) => (LeftParen, 1),
        (b')', _, _) => (RightParen, 1),
        (b'{', _, _) => (LeftBrace, 1),
        (b'}', _, _) => (RightBrace, 1),
        (b'[', _, _) => (LeftBracket, 1),
        (b']', _, _) => (RightBracket, 1),
        (b';', _, _) => (Semicolon, 1),
        (b',', _, _) => (Comma, 1),
        (b'.', _, _) => (Dot, 1),
        (b':', _, _) => (Colon, 1),
        (b'?', _, _) => (Question, 1),
        (b'=', _, _) => (Assign, 1),
        (b'!', _, _) => (Bang, 1),
        (b'<', _, _) => (Less, 1),
        (b'>', _, _) => (Greater, 1),
        (b'+', _, _) => (Plus, 1),
        (b'-', _, _) => (Minus, 1),
        (b'*', _, _) => (Star, 1),
        (b'/', _, _) => (Slash, 1),
        (b'%', _, _) => (Percent, 1),
        (b'&', _, _) => (And, 1),
        (b'|', _, _) => (Or, 1),
        (b'^', _, _) => (Caret, 1),
        (b'~', _, _) => (Tilde, 1),
        _ => return None,
    })
}
