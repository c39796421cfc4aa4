//! Messages with a length before each: four bytes, big-endian, then that many bytes (as in RFC 1035, 4.2.2,
//! with four bytes instead of two).

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{Framer, Framing, FramingError, MessagePart};
use crate::taps::MessageContext;

const NAME: &str = "length-prefix";
/// The number of bytes of the length.
const PREFIX: usize = 4;

/// A framer with a length before each message.
///
/// A message that is sent in parts is buffered until its last part, because its length comes first. Messages
/// longer than `max_len` are refused in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthPrefix {
    max_len: usize,
}

impl LengthPrefix {
    /// Makes a framer for messages of at most `max_len` bytes, and at most 4 GiB.
    #[must_use]
    pub fn new(max_len: usize) -> LengthPrefix {
        LengthPrefix { max_len: max_len.min(u32::MAX as usize) }
    }
}

impl Framer for LengthPrefix {
    fn name(&self) -> &str {
        NAME
    }

    fn start(&self) -> Box<dyn Framing> {
        Box::new(Lengths { max_len: self.max_len, kept: Vec::new(), length: 0, left: None })
    }
}

struct Lengths {
    max_len: usize,
    /// The parts of the message that is being sent, and their length.
    kept: Vec<Bytes>,
    length: usize,
    /// The number of bytes still missing of the message that is being received.
    left: Option<usize>,
}

impl Framing for Lengths {
    fn encode(
        &mut self,
        part: MessagePart,
        _: &MessageContext,
        out: &mut Vec<Bytes>,
    ) -> Result<(), FramingError> {
        self.length += part.data.len();
        if self.length > self.max_len {
            let why = format!("it has {} bytes; the limit is {}", self.length, self.max_len);
            (self.length, self.kept) = (0, Vec::new());
            return Err(FramingError::Message { framer: NAME.into(), why });
        }
        if !part.data.is_empty() {
            self.kept.push(part.data);
        }
        if part.is_end {
            let mut prefix = BytesMut::with_capacity(PREFIX);
            // `new` keeps `max_len` below 4 GiB.
            prefix.put_u32(self.length as u32);
            out.push(prefix.freeze());
            out.append(&mut self.kept);
            self.length = 0;
        }
        Ok(())
    }

    fn decode(
        &mut self,
        input: &mut BytesMut,
        _: &mut MessageContext,
    ) -> Result<Option<MessagePart>, FramingError> {
        let left = match self.left {
            Some(left) => left,
            None if input.len() < PREFIX => return Ok(None),
            None => input.get_u32() as usize,
        };
        if self.left.is_none() && left > self.max_len {
            let why = format!("a message has {left} bytes; the limit is {}", self.max_len);
            return Err(FramingError::Input { framer: NAME.into(), why });
        }
        let data = input.split_to(left.min(input.len())).freeze();
        let left = left - data.len();
        self.left = (left > 0).then_some(left);
        // An empty part of an unfinished message is not reported.
        Ok((left == 0 || !data.is_empty()).then_some(MessagePart { data, is_end: left == 0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(framing: &mut dyn Framing, bytes: &[u8]) -> Result<Vec<(Vec<u8>, bool)>, FramingError> {
        let mut input = BytesMut::from(bytes);
        let mut parts = Vec::new();
        while let Some(part) = framing.decode(&mut input, &mut MessageContext::new())? {
            parts.push((part.data.to_vec(), part.is_end));
        }
        Ok(parts)
    }

    #[test]
    fn messages_have_their_length_before_them() {
        let mut framing = LengthPrefix::new(10).start();
        let (context, mut out) = (MessageContext::new(), Vec::new());
        let part = |data: &'static [u8], is_end| MessagePart { data: Bytes::from_static(data), is_end };
        framing
            .encode(part(b"hel", false), &context, &mut out)
            .expect("short enough");
        assert!(out.is_empty(), "its length is not known yet");
        framing
            .encode(part(b"lo", true), &context, &mut out)
            .expect("short enough");
        assert_eq!(out.concat(), b"\0\0\0\x05hello");
        assert!(
            framing
                .encode(part(b"eleven byte", true), &context, &mut out)
                .is_err()
        );
        out.clear();
        framing
            .encode(part(b"", true), &context, &mut out)
            .expect("an empty message is one");
        assert_eq!(out.concat(), b"\0\0\0\0");
    }

    #[test]
    fn messages_come_in_any_pieces() {
        let whole = b"\0\0\0\x05hello\0\0\0\0\0\0\0\x01!";
        for cut in 0..whole.len() {
            let mut framing = LengthPrefix::new(10).start();
            let mut input = BytesMut::new();
            let (mut messages, mut message) = (Vec::new(), Vec::new());
            for piece in [&whole[..cut], &whole[cut..]] {
                input.extend_from_slice(piece);
                while let Some(part) = framing
                    .decode(&mut input, &mut MessageContext::new())
                    .expect("it is well formed")
                {
                    message.extend_from_slice(&part.data);
                    if part.is_end {
                        messages.push(std::mem::take(&mut message));
                    }
                }
            }
            assert_eq!(messages, [&b"hello"[..], b"", b"!"], "cut at {cut}");
        }
    }

    #[test]
    fn messages_beyond_the_agreed_length_are_refused() {
        let mut framing = LengthPrefix::new(10).start();
        assert!(decode(&mut *framing, b"\0\0\0\x0bhello world").is_err());
        let mut framing = LengthPrefix::new(10).start();
        assert_eq!(
            decode(&mut *framing, b"\0\0\0\x0a123"),
            Ok(vec![(b"123".to_vec(), false)])
        );
    }
}
