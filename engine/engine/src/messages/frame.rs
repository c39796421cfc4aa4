//! Messages within a stream of bytes: a header of twelve bytes before each.
//!
//! ```text
//!  0         4      5                    12
//! | length  | kind | number             | message: `length` bytes
//! ```
//!
//! All numbers are in network byte order. The number is the caller's number of the call. Each end of a
//! connection may call, and has its own numbers.

/// The size of a header, in bytes.
pub(super) const HEADER: usize = 12;

/// The largest number of a call.
const NUMBERS: u64 = (1 << 56) - 1;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// A request, to which the peer replies under the same number.
    Call = 1,
    /// A reply to a call.
    Reply,
    /// A message without a reply; [`FrameKind::Received`] answers it.
    Message,
    /// An acknowledgement that the whole message has arrived. Empty.
    Received,
    /// A notice that the caller does not wait any longer. Empty.
    Cancel,
    /// A notice that there will be no reply: an errno of four bytes.
    Refused,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<FrameKind> {
        const ALL: [FrameKind; 6] = [
            FrameKind::Call,
            FrameKind::Reply,
            FrameKind::Message,
            FrameKind::Received,
            FrameKind::Cancel,
            FrameKind::Refused,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Returns the length of the longest body, for kinds that carry no message.
    fn longest(self) -> Option<usize> {
        match self {
            FrameKind::Call | FrameKind::Reply | FrameKind::Message => None,
            FrameKind::Received | FrameKind::Cancel => Some(0),
            FrameKind::Refused => Some(4),
        }
    }
}

/// A frame that has been received completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    pub(super) number: u64,
    pub(super) body: Vec<u8>,
}

/// The input is not a valid frame; the bytes behind it cannot be interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameError {
    /// The message is longer than this end accepts.
    TooLong { kind: FrameKind, number: u64, len: u64 },
    /// The kind is unknown, or its body cannot be this long.
    Malformed,
}

/// Returns the bytes of a frame.
pub(super) fn encode(kind: FrameKind, number: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&((kind as u64) << 56 | (number & NUMBERS)).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Splits a stream of bytes into frames. It holds one header and the received part of one body.
#[derive(Debug)]
pub(super) struct Decoder {
    head: [u8; HEADER],
    have: usize,
    body: Vec<u8>,
    longest: usize,
}

impl Decoder {
    /// Creates a decoder that accepts messages of up to `longest` bytes.
    pub(super) fn new(longest: usize) -> Decoder {
        Decoder { head: [0; HEADER], have: 0, body: Vec::new(), longest }
    }

    /// Returns true if a part of a frame has been received.
    pub(super) fn is_within(&self) -> bool {
        self.have > 0
    }

    /// Consumes bytes from the front of `input`, up to the end of the next frame.
    pub(super) fn feed(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, FrameError> {
        let wanted = (HEADER - self.have).min(input.len());
        self.head[self.have..self.have + wanted].copy_from_slice(&input[..wanted]);
        (self.have, *input) = (self.have + wanted, &input[wanted..]);
        if self.have < HEADER {
            return Ok(None);
        }
        let (kind, number, len) = self.header()?;
        let wanted = (len - self.body.len()).min(input.len());
        self.body.extend_from_slice(&input[..wanted]);
        *input = &input[wanted..];
        if self.body.len() < len {
            return Ok(None);
        }
        self.have = 0;
        let body = std::mem::take(&mut self.body);
        Ok(Some(Frame { kind, number, body }))
    }

    fn header(&self) -> Result<(FrameKind, u64, usize), FrameError> {
        let [a, b, c, d, kind, rest @ ..] = self.head;
        let len = u32::from_be_bytes([a, b, c, d]);
        let number = rest.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let kind = FrameKind::from_byte(kind).ok_or(FrameError::Malformed)?;
        if kind.longest().is_some_and(|longest| len as usize > longest) {
            return Err(FrameError::Malformed);
        }
        if len as usize > self.longest.max(4) {
            let len = u64::from(len);
            return Err(FrameError::TooLong { kind, number, len });
        }
        Ok((kind, number, len as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(decoder: &mut Decoder, mut bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            frames.extend(decoder.feed(&mut bytes)?);
        }
        Ok(frames)
    }

    /// The expected bytes are written by hand after the picture above.
    #[test]
    fn a_header_has_length_kind_and_number_in_network_byte_order() {
        let bytes = [0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 1, 3, b'h', b'i'];
        assert_eq!(encode(FrameKind::Reply, 259, b"hi"), bytes);
    }

    #[test]
    fn frames_are_decoded_however_the_bytes_are_split() {
        let frames = [
            (FrameKind::Call, 1, vec![1; 300]),
            (FrameKind::Cancel, NUMBERS, vec![]),
            (FrameKind::Refused, 7, vec![0, 0, 0, 90]),
            (FrameKind::Message, 8, vec![9]),
        ];
        let frames = frames.map(|(kind, number, body)| Frame { kind, number, body });
        let encoded = frames
            .iter()
            .map(|frame| encode(frame.kind, frame.number, &frame.body));
        let bytes: Vec<u8> = encoded.flatten().collect();
        for piece in 1..bytes.len() {
            let mut decoder = Decoder::new(300);
            let mut got = Vec::new();
            for part in bytes.chunks(piece) {
                got.extend(all(&mut decoder, part).expect("frames"));
            }
            assert_eq!(got, frames, "in pieces of {piece}");
            assert!(!decoder.is_within());
        }
    }

    #[test]
    fn an_invalid_frame_is_an_error_before_allocation() {
        let mut decoder = Decoder::new(300);
        let head = &encode(FrameKind::Call, 5, &[0; 301])[..HEADER];
        let error = FrameError::TooLong { kind: FrameKind::Call, number: 5, len: 301 };
        assert_eq!(all(&mut decoder, head), Err(error));
        assert_eq!(decoder.body.capacity(), 0);
        for head in [[0u8; HEADER], [255; HEADER], [0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(all(&mut Decoder::new(300), &head), Err(FrameError::Malformed));
        }
    }
}
