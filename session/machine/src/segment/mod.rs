//! Segments, the units of a carrier's byte stream. `docs/session-protocol.md` defines their layout.
//!
//! Encoding cannot fail. [`decode::Decoder`] decodes, a piece at a time.

mod decode;
mod encode;

use std::ops::Range;
use std::time::Duration;

pub(crate) use decode::{Decoder, Incoming};
pub(crate) use encode::{data_header, encode};

/// The only protocol version that this crate supports.
pub const VERSION: u8 = 1;
/// The length of the header that every segment begins with, in bytes.
pub(crate) const COMMON: usize = 8;
/// The maximum length of a segment in bytes: 64 KiB of payload and the longest header.
pub(crate) const MAX_SEGMENT: usize = 65_536 + 255;
/// The maximum number of ranges in an acknowledgement.
pub(crate) const MAX_RANGES: usize = 32;
/// The maximum number of final offsets in a CLOSE.
pub(crate) const MAX_FINALS: usize = 1_024;
/// The longest text in a REFUSED, in bytes.
pub(crate) const MAX_TEXT: usize = 200;
/// The maximum number of addresses in an ACCEPT.
pub(crate) const MAX_ADDRESSES: usize = 8;

/// The numbers of the segment types.
pub(crate) mod kind {
    pub(crate) const HELLO: u8 = 0x01;
    pub(crate) const ACCEPT: u8 = 0x02;
    pub(crate) const JOIN: u8 = 0x03;
    pub(crate) const JOINED: u8 = 0x04;
    pub(crate) const REFUSED: u8 = 0x05;
    pub(crate) const CHALLENGE: u8 = 0x06;
    pub(crate) const DATA: u8 = 0x10;
    pub(crate) const ACK: u8 = 0x11;
    pub(crate) const PRIORITY: u8 = 0x13;
    pub(crate) const RESET: u8 = 0x14;
    pub(crate) const STOP: u8 = 0x15;
    pub(crate) const PING: u8 = 0x20;
    pub(crate) const PONG: u8 = 0x21;
    pub(crate) const PATH_STATUS: u8 = 0x22;
    pub(crate) const CLOSE: u8 = 0x30;
    pub(crate) const CLOSED: u8 = 0x31;
}

/// The numbers of the options in HELLO and ACCEPT.
pub(crate) mod option {
    pub(crate) const STREAM_CREDIT: u16 = 1;
    pub(crate) const RESUME: u16 = 2;
    pub(crate) const ADDRESS: u16 = 3;
    pub(crate) const NAME: u16 = 4;
    pub(crate) const IDLE: u16 = 5;
    pub(crate) const ATTEMPT: u16 = 6;
}

/// The id of a session, 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub [u8; 16]);

impl std::fmt::Display for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The mechanism that proves that a carrier belongs to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// The exporter of the carrier's TLS 1.3.
    Tls,
    /// No protection against an attacker on the path.
    None,
}

/// HELLO, or ACCEPT, which answers it with the same fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The highest supported version (HELLO) or the chosen version (ACCEPT).
    pub(crate) version: u8,
    pub(crate) lowest: u8,
    pub(crate) security: Security,
    pub(crate) carriers: u8,
    pub(crate) streams: u32,
    pub(crate) session: SessionId,
    pub(crate) credit: u64,
    /// The number of the carrier on which this is sent.
    pub(crate) number: u32,
    pub(crate) stream_credit: u64,
    pub(crate) resume: Duration,
    pub(crate) idle: Duration,
    /// The number of HELLOs that the client sent for this session before.
    pub(crate) attempt: u32,
    pub(crate) addresses: Vec<std::net::SocketAddr>,
    pub(crate) name: String,
}

/// The request of a carrier to join a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Join {
    pub(crate) number: u32,
    pub(crate) backup: bool,
    pub(crate) session: SessionId,
    pub(crate) received: u64,
    pub(crate) nonce: [u8; 16],
    pub(crate) proof: [u8; 32],
}

/// The reason why a HELLO or a JOIN was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The peers have no version in common.
    #[error("the ends have no version in common")]
    Version,
    /// The session is unknown, or the proof is wrong.
    #[error("the session does not exist, or the proof is wrong")]
    Unknown,
    /// The session lives on another server.
    #[error("the session is on another server")]
    WrongServer,
    /// There are too many sessions or carriers.
    #[error("too many sessions or carriers")]
    Limit,
    /// The requested security is not offered.
    #[error("the server does not offer the requested security")]
    Security,
    /// The segment was not understood.
    #[error("the segment was not understood")]
    Protocol,
    /// The session has ended.
    #[error("the session has ended")]
    Gone,
    /// The refusal has a code that this version does not know.
    #[error("code {0}")]
    Other(u16),
}

impl Refusal {
    /// Returns the number on the wire.
    pub(crate) fn code(self) -> u16 {
        match self {
            Self::Version => 1,
            Self::Unknown => 2,
            Self::WrongServer => 3,
            Self::Limit => 4,
            Self::Security => 5,
            Self::Protocol => 6,
            Self::Gone => 7,
            Self::Other(code) => code,
        }
    }

    pub(crate) fn from_code(code: u16) -> Self {
        match code {
            1 => Self::Version,
            2 => Self::Unknown,
            3 => Self::WrongServer,
            4 => Self::Limit,
            5 => Self::Security,
            6 => Self::Protocol,
            7 => Self::Gone,
            other => Self::Other(other),
        }
    }
}

/// The use that a side wants of a carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathStatus {
    /// The carrier is used.
    Active,
    /// The carrier is used if no active one is left.
    Backup,
    /// No data is sent on the carrier, and data that was sent on it is sent again on others.
    Failing,
    /// Segments that were begun are finished; no new ones begin.
    Closing,
}

/// An acknowledgement of one stream, with credit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) stream: u32,
    pub(crate) delay: Duration,
    /// All bytes below this offset have been received.
    pub(crate) cumulative: u64,
    pub(crate) stream_credit: u64,
    pub(crate) session_credit: u64,
    /// True if the stream's end and everything before it have been received.
    pub(crate) end: bool,
    /// True if the stream was complete and has been forgotten. The offsets are then meaningless.
    pub(crate) gone: bool,
    pub(crate) ranges: Vec<Range<u64>>,
}

/// The end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Close {
    pub(crate) code: u64,
    /// The sender's streams that were not acknowledged to their end, with their final offsets.
    pub(crate) finals: Vec<(u32, u64)>,
}

/// A segment, without the payload of a DATA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    Hello(Hello),
    Accept(Hello),
    Join(Join),
    Joined { number: u32, proof: [u8; 24] },
    Refused { refusal: Refusal, text: String },
    Challenge([u8; 16]),
    Ack(Ack),
    Priority { stream: u32, level: u8, incremental: bool },
    Reset { stream: u32, code: u64, end: u64 },
    Stop { stream: u32, code: u64 },
    Ping { token: u64 },
    Pong { token: u64, held: Duration },
    PathStatus { number: u32, status: PathStatus, sequence: u64 },
    Close(Close),
    Closed,
}

impl Segment {
    /// Returns true if a carrier may send it before the carrier belongs to a session.
    pub(crate) fn is_opening(&self) -> bool {
        match self {
            Self::Hello(_)
            | Self::Accept(_)
            | Self::Join(_)
            | Self::Joined { .. }
            | Self::Refused { .. }
            | Self::Challenge(_) => true,
            Self::Ack(_)
            | Self::Priority { .. }
            | Self::Reset { .. }
            | Self::Stop { .. }
            | Self::Ping { .. }
            | Self::Pong { .. }
            | Self::PathStatus { .. }
            | Self::Close(_)
            | Self::Closed => false,
        }
    }
}

/// A carrier's bytes did not follow the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The segment has a type that this version does not know and may not skip.
    #[error("unknown segment type {0:#04x}")]
    Kind(u8),
    /// The header is shorter than its type needs, or longer than the segment.
    #[error("invalid header of {length} bytes in a segment of type {kind:#04x} with {segment} bytes")]
    HeaderLength {
        /// The segment's type.
        kind: u8,
        /// The stated header length.
        length: u8,
        /// The stated length of the whole segment.
        segment: u32,
    },
    /// The segment is longer than the limit.
    #[error("invalid segment of {0} bytes")]
    SegmentLength(u32),
    /// A field has an invalid value.
    #[error("segment of type {kind:#04x} with an invalid {field}")]
    Field {
        /// The segment's type.
        kind: u8,
        /// The field's name in `docs/session-protocol.md`.
        field: &'static str,
    },
}

#[cfg(test)]
mod tests;
