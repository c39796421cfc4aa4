//! Decodes a carrier's bytes into segments, however the bytes are cut into pieces.
//!
//! All input here comes from outside. A control segment is gathered completely, because it is short. The
//! payload of a DATA segment is passed on as it arrives, without waiting for its end and without a copy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use super::encode::cut;
use super::{
    Ack, COMMON, Close, Hello, Join, MAX_ADDRESSES, MAX_FINALS, MAX_RANGES, MAX_SEGMENT, MAX_TEXT, Malformed,
    PathStatus, Refusal, Security, Segment, SessionId, kind, option,
};

/// A decoded segment, or a piece of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// A complete control segment with its bytes. Those of HELLO and ACCEPT enter the secret.
    Control(Segment, Bytes),
    /// A piece of a DATA segment. `end` is set on its last piece only.
    Data { stream: u32, offset: u64, bytes: Bytes, end: bool },
}

/// The part of the current segment that is still to be read.
#[derive(Clone, Copy, Debug)]
enum Rest {
    /// None: a new segment begins.
    Header,
    /// The payload of a DATA segment.
    Data { stream: u32, offset: u64, left: usize, end: bool },
    /// The given number of bytes, to be skipped.
    Skip(usize),
}

/// Splits a carrier's bytes into segments.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// Received bytes that have not been decoded.
    waiting: Bytes,
    /// An incomplete header or control segment, of at most [`MAX_CONTROL`] bytes.
    partial: BytesMut,
    rest: Rest,
}

/// The length of the longest control segment, a CLOSE, in bytes.
const MAX_CONTROL: usize = 24 + 12 * MAX_FINALS + 255;

impl Decoder {
    pub(crate) fn new() -> Self {
        Self { waiting: Bytes::new(), partial: BytesMut::new(), rest: Rest::Header }
    }

    /// Adds bytes of the carrier. The caller must have taken out all segments of the bytes before.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        debug_assert!(
            self.waiting.is_empty(),
            "take everything out before more is put in"
        );
        self.waiting = bytes;
    }

    /// Returns the bytes that were pushed and not taken out, for the carrier's next reader.
    pub(crate) fn into_rest(mut self) -> Bytes {
        if self.partial.is_empty() {
            return self.waiting;
        }
        self.partial.extend_from_slice(&self.waiting);
        self.partial.freeze()
    }

    /// Returns the next segment, or piece of one; `None` if more bytes are needed.
    pub(crate) fn next(&mut self) -> Result<Option<Incoming>, Malformed> {
        loop {
            match self.rest {
                Rest::Header => match self.header()? {
                    Some(incoming) => return Ok(Some(incoming)),
                    None if matches!(self.rest, Rest::Header) => return Ok(None),
                    None => {}
                },
                Rest::Skip(left) => {
                    let gone = left.min(self.waiting.len());
                    self.waiting.advance(gone);
                    if gone < left {
                        self.rest = Rest::Skip(left - gone);
                        return Ok(None);
                    }
                    self.rest = Rest::Header;
                }
                Rest::Data { stream, offset, left, end } => {
                    if left > 0 && self.waiting.is_empty() {
                        return Ok(None);
                    }
                    let bytes = self.waiting.split_to(left.min(self.waiting.len()));
                    let left = left - bytes.len();
                    let next = offset.saturating_add(bytes.len() as u64);
                    self.rest = match left {
                        0 => Rest::Header,
                        _ => Rest::Data { stream, offset: next, left, end },
                    };
                    return Ok(Some(Incoming::Data {
                        stream,
                        offset,
                        bytes,
                        end: end && left == 0,
                    }));
                }
            }
        }
    }

    /// Reads a header, and all of a control segment.
    fn header(&mut self) -> Result<Option<Incoming>, Malformed> {
        if !self.gather(COMMON) {
            return Ok(None);
        }
        let common = CommonFields::read(&self.partial)?;
        let whole = match common.kind {
            kind::DATA => common.header,
            0x40..=0x7f => COMMON,
            _ => common.length,
        };
        if !self.gather(whole) {
            return Ok(None);
        }
        let bytes = self.partial.split_to(whole).freeze();
        match common.kind {
            kind::DATA => {
                let mut fields = Fields { kind: kind::DATA, bytes: &bytes[COMMON..] };
                let (stream, offset) = (fields.stream()?, fields.u64());
                let left = common.length - common.header;
                let end = common.flags & 1 != 0;
                if left == 0 && !end {
                    return Err(fields.wrong("segment length"));
                }
                if offset
                    .checked_add(left as u64)
                    .is_none_or(|last| last > i64::MAX as u64)
                {
                    return Err(fields.wrong("offset"));
                }
                self.rest = Rest::Data { stream, offset, left, end };
                Ok(None)
            }
            0x40..=0x7f => {
                self.rest = Rest::Skip(common.length - COMMON);
                Ok(None)
            }
            _ => {
                let segment = control(common, &bytes)?;
                Ok(Some(Incoming::Control(segment, bytes)))
            }
        }
    }

    /// Moves bytes into `partial` until it holds `whole` bytes. Returns true if it does.
    fn gather(&mut self, whole: usize) -> bool {
        if self.partial.len() < whole {
            let more = self
                .waiting
                .split_to((whole - self.partial.len()).min(self.waiting.len()));
            self.partial.extend_from_slice(&more);
        }
        self.partial.len() >= whole
    }
}

/// The checked fields that begin every segment.
#[derive(Clone, Copy)]
struct CommonFields {
    kind: u8,
    flags: u16,
    header: usize,
    length: usize,
}

impl CommonFields {
    fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields { kind: bytes[0], bytes };
        let (kind, header, flags, length) = (fields.u8(), fields.u8(), fields.u16(), fields.u32());
        let min_header = match kind {
            kind::HELLO | kind::ACCEPT => 52,
            kind::JOIN => 88,
            kind::JOINED | kind::ACK => 40,
            kind::REFUSED | kind::CLOSED => 12,
            kind::CHALLENGE | kind::PING | kind::PONG | kind::PATH_STATUS | kind::CLOSE => 24,
            kind::DATA | kind::STOP => 20,
            kind::PRIORITY => 16,
            kind::RESET => 28,
            0x40..=0x7f => COMMON as u8,
            unknown => return Err(Malformed::Kind(unknown)),
        };
        if header < min_header || u32::from(header) > length {
            return Err(Malformed::HeaderLength { kind, length: header, segment: length });
        }
        let limit = if matches!(kind, kind::DATA | 0x40..=0x7f) {
            MAX_SEGMENT
        } else {
            MAX_CONTROL
        };
        if length as usize > limit {
            return Err(Malformed::SegmentLength(length));
        }
        Ok(Self { kind, flags, header: usize::from(header), length: length as usize })
    }
}

/// Reads fields whose presence is certain, because lengths were checked before.
struct Fields<'a> {
    kind: u8,
    bytes: &'a [u8],
}

impl Fields<'_> {
    fn u8(&mut self) -> u8 {
        self.bytes.get_u8()
    }
    fn u16(&mut self) -> u16 {
        self.bytes.get_u16()
    }
    fn u32(&mut self) -> u32 {
        self.bytes.get_u32()
    }
    fn u64(&mut self) -> u64 {
        self.bytes.get_u64()
    }
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        self.bytes.copy_to_slice(&mut array);
        array
    }
    fn stream(&mut self) -> Result<u32, Malformed> {
        let stream = self.u32();
        if stream >> 31 == 0 {
            Ok(stream)
        } else {
            Err(self.wrong("stream"))
        }
    }
    fn wrong(&self, field: &'static str) -> Malformed {
        Malformed::Field { kind: self.kind, field }
    }
}

/// Decodes a control segment from all of its bytes.
fn control(common: CommonFields, bytes: &[u8]) -> Result<Segment, Malformed> {
    let payload = &bytes[common.header..];
    let mut fields = Fields { kind: common.kind, bytes: &bytes[COMMON..common.header] };
    Ok(match common.kind {
        kind::HELLO => Segment::Hello(hello(fields, payload)?),
        kind::ACCEPT => Segment::Accept(hello(fields, payload)?),
        kind::JOIN => Segment::Join(Join {
            number: fields.u32(),
            backup: fields.u32() == 1,
            session: SessionId(fields.array()),
            received: fields.u64(),
            nonce: fields.array(),
            proof: fields.array(),
        }),
        kind::JOINED => {
            let number = fields.u32();
            fields.u32();
            Segment::Joined { number, proof: fields.array() }
        }
        kind::REFUSED => {
            let refusal = Refusal::from_code(fields.u16());
            let text = String::from_utf8_lossy(&payload[..payload.len().min(MAX_TEXT)]);
            // Each byte that is not valid UTF-8 became three.
            Segment::Refused { refusal, text: cut(&text, MAX_TEXT).to_owned() }
        }
        kind::CHALLENGE => Segment::Challenge(fields.array()),
        kind::ACK => ack(common, fields, payload)?,
        kind::PRIORITY => {
            let (stream, level, incremental) = (fields.stream()?, fields.u8(), fields.u8() == 1);
            if level > 7 {
                return Err(fields.wrong("level"));
            }
            Segment::Priority { stream, level, incremental }
        }
        kind::RESET => Segment::Reset { stream: fields.stream()?, code: fields.u64(), end: fields.u64() },
        kind::STOP => Segment::Stop { stream: fields.stream()?, code: fields.u64() },
        kind::PING => Segment::Ping { token: fields.u64() },
        kind::PONG => Segment::Pong { token: fields.u64(), held: Duration::from_micros(fields.u64()) },
        kind::PATH_STATUS => {
            let number = fields.u32();
            let status = match fields.u32() {
                0 => PathStatus::Active,
                1 => PathStatus::Backup,
                2 => PathStatus::Failing,
                3 => PathStatus::Closing,
                _ => return Err(fields.wrong("status")),
            };
            Segment::PathStatus { number, status, sequence: fields.u64() }
        }
        kind::CLOSE => close(fields, payload)?,
        kind::CLOSED => Segment::Closed,
        unknown => return Err(Malformed::Kind(unknown)),
    })
}

fn hello(mut fields: Fields<'_>, payload: &[u8]) -> Result<Hello, Malformed> {
    let (version, lowest) = (fields.u8(), fields.u8());
    if version < lowest || lowest == 0 {
        return Err(fields.wrong("version"));
    }
    let security = match fields.u8() {
        0 => Security::Tls,
        1 => Security::None,
        _ => return Err(fields.wrong("security")),
    };
    let (carriers, streams, session) = (fields.u8(), fields.u32(), SessionId(fields.array()));
    if fields.u64() != 0 {
        return Err(fields.wrong("sequence number"));
    }
    let (credit, number) = (fields.u64(), fields.u32());
    let mut hello = Hello {
        version,
        lowest,
        security,
        carriers,
        streams,
        session,
        credit,
        number,
        stream_credit: credit,
        resume: Duration::from_secs(300),
        idle: Duration::ZERO,
        attempt: 0,
        addresses: Vec::new(),
        name: String::new(),
    };
    let mut options = payload;
    while !options.is_empty() {
        let wrong = Malformed::Field { kind: fields.kind, field: "option" };
        if options.len() < 4 {
            return Err(wrong);
        }
        let (number, length) = (options.get_u16(), usize::from(options.get_u16()));
        let Some(value) = options.get(..length) else {
            return Err(wrong);
        };
        options.advance(length);
        take_option(&mut hello, number, value).ok_or(wrong)?;
    }
    Ok(hello)
}

/// Takes one option. Returns `None` if its length is wrong.
fn take_option(hello: &mut Hello, number: u16, mut value: &[u8]) -> Option<()> {
    match number {
        option::STREAM_CREDIT => hello.stream_credit = u64::from_be_bytes(value.try_into().ok()?),
        option::RESUME => {
            hello.resume = Duration::from_secs(u32::from_be_bytes(value.try_into().ok()?).into());
        }
        option::IDLE => {
            hello.idle = Duration::from_secs(u32::from_be_bytes(value.try_into().ok()?).into());
        }
        option::ATTEMPT => hello.attempt = u32::from_be_bytes(value.try_into().ok()?),
        option::ADDRESS => {
            if value.len() < 4 {
                return None;
            }
            let (port, family) = (value.get_u16(), value.get_u16());
            let ip = match family {
                0x0400 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?)),
                0x0600 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?)),
                // An address family of a later version.
                _ => return Some(()),
            };
            if hello.addresses.len() < MAX_ADDRESSES {
                hello.addresses.push(SocketAddr::new(ip, port));
            }
        }
        option::NAME => {
            hello.name = std::str::from_utf8(value)
                .ok()
                .filter(|name| name.len() < 256)?
                .into()
        }
        _ => {}
    }
    Some(())
}

fn ack(common: CommonFields, mut fields: Fields<'_>, mut payload: &[u8]) -> Result<Segment, Malformed> {
    let stream = fields.stream()?;
    let delay = Duration::from_micros(fields.u32().into());
    let (cumulative, stream_credit, session_credit) = (fields.u64(), fields.u64(), fields.u64());
    if !payload.len().is_multiple_of(16) || payload.len() > 16 * MAX_RANGES {
        return Err(fields.wrong("segment length"));
    }
    let mut ranges = Vec::with_capacity(payload.len() / 16);
    let mut above = cumulative;
    while !payload.is_empty() {
        let range = payload.get_u64()..payload.get_u64();
        if range.start <= above || range.is_empty() {
            return Err(fields.wrong("range"));
        }
        above = range.end;
        ranges.push(range);
    }
    let (end, gone) = (common.flags & 1 != 0, common.flags & 2 != 0);
    Ok(Segment::Ack(Ack {
        stream,
        delay,
        cumulative,
        stream_credit,
        session_credit,
        end,
        gone,
        ranges,
    }))
}

fn close(mut fields: Fields<'_>, mut payload: &[u8]) -> Result<Segment, Malformed> {
    let (code, count) = (fields.u64(), fields.u32() as usize);
    if payload.len() != 12 * count || count > MAX_FINALS {
        return Err(fields.wrong("number of streams"));
    }
    let mut finals = Vec::with_capacity(count);
    while !payload.is_empty() {
        finals.push((payload.get_u32(), payload.get_u64()));
    }
    Ok(Segment::Close(Close { code, finals }))
}
