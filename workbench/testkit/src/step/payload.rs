//! The bytes in packets, and those that applications exchange.
//!
//! By default, the bytes are a pattern in which each four bytes count on. A part of it therefore reveals its
//! position in the stream.

use crate::step::cursor::{Error, LineParse};
use crate::step::literal::{Literal, ValueLiteral};

/// The maximum size of one payload in bytes, which a send buffer does not exceed.
pub(crate) const MAX: usize = 16 << 20;
/// The maximum number of bytes that are shown individually.
const SHOWN: usize = 64;
/// The number of bytes of the pattern that determine its offset.
const UNIQUE: usize = 7;

/// The written form of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// This many bytes of the pattern.
    Len(usize),
    /// This many bytes of the pattern, from an offset on.
    At(usize, u64),
    /// These bytes.
    Bytes(Vec<u8>),
}

impl Payload {
    /// Parses `100`, `100@1400`, `"hello"`, `0x00ff`.
    pub(crate) fn parse(value: &ValueLiteral) -> LineParse<Payload> {
        let wrong = |what: &str| {
            Error::new(value.column, format!("`{}` is not a payload{what}", value.literal))
                .hint("so many bytes as in `100`, or from an offset of the stream on as in `100@1400`, or `\"text\"`, or `0x00ff`")
        };
        let payload = match &value.literal {
            Literal::Text(text) => Payload::Bytes(text.clone().into_bytes()),
            Literal::Word(word) => match (word.strip_prefix("0x"), word.split_once('@')) {
                (Some(digits), _) => Payload::Bytes(hexadecimal(digits).ok_or_else(|| wrong(""))?),
                (_, Some((len, at))) => {
                    let parts = len.parse().ok().zip(at.parse().ok());
                    parts
                        .map(|(len, at)| Payload::At(len, at))
                        .ok_or_else(|| wrong(""))?
                }
                _ => Payload::Len(word.parse().map_err(|_| wrong(""))?),
            },
            _ => return Err(wrong("")),
        };
        match payload.len() {
            0..=MAX => Ok(payload),
            _ => Err(wrong(&format!(" of at most {MAX} bytes"))),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Payload::Len(len) | Payload::At(len, _) => *len,
            Payload::Bytes(bytes) => bytes.len(),
        }
    }

    /// Returns the bytes. Without a written offset, they are the pattern from `default` on.
    pub(crate) fn bytes(&self, default: u64) -> Vec<u8> {
        match self {
            Payload::Len(len) => pattern(default, *len),
            Payload::At(len, at) => pattern(*at, *len),
            Payload::Bytes(bytes) => bytes.clone(),
        }
    }

    /// Returns whether bytes match the written form.
    pub(crate) fn matches(&self, bytes: &[u8]) -> bool {
        match self {
            Payload::Len(len) => *len == bytes.len(),
            Payload::At(..) | Payload::Bytes(_) => self.bytes(0) == bytes,
        }
    }
}

/// Returns the written form of bytes. It reads back as the same bytes, except for long ones that are not the
/// pattern.
pub(crate) fn show(bytes: &[u8]) -> Literal {
    if bytes.is_empty() {
        return Literal::Word("0".to_owned());
    }
    if let Some(at) = offset(bytes) {
        return Literal::Word(format!("{}@{at}", bytes.len()));
    }
    if bytes.len() > SHOWN {
        return Literal::Word(bytes.len().to_string());
    }
    if bytes.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return Literal::Text(String::from_utf8_lossy(bytes).into_owned());
    }
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Literal::Word(format!("0x{digits}"))
}

/// Returns the pattern from an offset on.
pub(crate) fn pattern(at: u64, len: usize) -> Vec<u8> {
    let byte = |at: u64| ((at / 4) as u32).to_be_bytes()[(at % 4) as usize];
    (0..len as u64).map(|i| byte(at.wrapping_add(i))).collect()
}

/// Returns the offset of bytes in the pattern. Returns `None` if they do not belong to it, or are too few to
/// decide.
fn offset(bytes: &[u8]) -> Option<u64> {
    if bytes.len() < UNIQUE {
        return None;
    }
    (0..4).find_map(|skipped: usize| {
        let word = bytes.get(skipped..skipped + 4)?;
        let word = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
        let at = (u64::from(word) * 4).checked_sub(skipped as u64)?;
        (pattern(at, bytes.len()) == bytes).then_some(at)
    })
}

/// Parses bytes from an even number of digits.
pub(crate) fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return None;
    }
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Payload {
        let literal = match text.strip_prefix('"') {
            Some(text) => Literal::Text(text.trim_end_matches('"').to_owned()),
            None => Literal::Word(text.to_owned()),
        };
        Payload::parse(&ValueLiteral { column: 1, literal }).unwrap_or_else(|error| panic!("{error:?}"))
    }

    #[test]
    fn a_shown_payload_parses_to_the_same_bytes() {
        let random = [0x17, 0xff, 0, 3];
        for bytes in [&pattern(1401, 100)[..], b"hello", &random, &pattern(0, 7), b""] {
            let shown = show(bytes).to_string();
            assert_eq!(read(&shown).bytes(0), bytes, "{shown}");
        }
        assert_eq!(show(&pattern(1401, 100)).to_string(), "100@1401");
        assert_eq!(show(b"a \"quoted\"").to_string(), r#""a \"quoted\"""#);
    }

    #[test]
    fn the_content_is_compared_where_it_is_written() {
        assert!(read("100").matches(&[0; 100]));
        assert!(!read("100@0").matches(&[0; 100]));
        assert!(read("100@4").matches(&pattern(4, 100)));
        assert!(!read("\"hello\"").matches(b"hallo"));
    }
}
