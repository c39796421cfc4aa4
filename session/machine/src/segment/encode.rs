//! Encodes segments.

use std::net::IpAddr;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use super::{Ack, COMMON, Close, Hello, Join, PathStatus, Security, Segment, kind, option};

/// Returns the header of a DATA segment whose payload of `length` bytes is sent separately.
pub(crate) fn data_header(stream: u32, offset: u64, length: usize, end: bool) -> [u8; 20] {
    let mut header = [0; 20];
    header[0] = kind::DATA;
    header[1] = 20;
    header[2..4].copy_from_slice(&u16::from(end).to_be_bytes());
    header[4..8].copy_from_slice(&(20 + length as u32).to_be_bytes());
    header[8..12].copy_from_slice(&stream.to_be_bytes());
    header[12..20].copy_from_slice(&offset.to_be_bytes());
    header
}

pub(crate) fn encode(segment: &Segment) -> Bytes {
    let mut out = BytesMut::with_capacity(128);
    // Leaves room for the common header, which is filled in at the end.
    out.put_bytes(0, COMMON);
    let (kind, flags, header) = match segment {
        Segment::Hello(hello) => (kind::HELLO, 0, put_hello(hello, &mut out)),
        Segment::Accept(hello) => (kind::ACCEPT, 0, put_hello(hello, &mut out)),
        Segment::Join(join) => (kind::JOIN, 0, put_join(join, &mut out)),
        Segment::Joined { number, proof } => {
            out.put_u32(*number);
            out.put_u32(0);
            out.put_slice(proof);
            (kind::JOINED, 0, out.len())
        }
        Segment::Refused { refusal, text } => {
            out.put_u16(refusal.code());
            out.put_u16(0);
            out.put_slice(cut(text, super::MAX_TEXT).as_bytes());
            (kind::REFUSED, 0, COMMON + 4)
        }
        Segment::Challenge(nonce) => {
            out.put_slice(nonce);
            (kind::CHALLENGE, 0, out.len())
        }
        Segment::Ack(ack) => (
            kind::ACK,
            u16::from(ack.end) | u16::from(ack.gone) << 1,
            put_ack(ack, &mut out),
        ),
        Segment::Priority { stream, level, incremental } => {
            out.put_u32(*stream);
            out.put_u8(*level);
            out.put_u8(u8::from(*incremental));
            out.put_u16(0);
            (kind::PRIORITY, 0, out.len())
        }
        Segment::Reset { stream, code, end } => {
            out.put_u32(*stream);
            out.put_u64(*code);
            out.put_u64(*end);
            (kind::RESET, 0, out.len())
        }
        Segment::Stop { stream, code } => {
            out.put_u32(*stream);
            out.put_u64(*code);
            (kind::STOP, 0, out.len())
        }
        Segment::Ping { token } => {
            out.put_u64(*token);
            out.put_u64(0);
            (kind::PING, 0, out.len())
        }
        Segment::Pong { token, held } => {
            out.put_u64(*token);
            out.put_u64(micros(*held));
            (kind::PONG, 0, out.len())
        }
        Segment::PathStatus { number, status, sequence } => {
            out.put_u32(*number);
            out.put_u32(match status {
                PathStatus::Active => 0,
                PathStatus::Backup => 1,
                PathStatus::Failing => 2,
                PathStatus::Closing => 3,
            });
            out.put_u64(*sequence);
            (kind::PATH_STATUS, 0, out.len())
        }
        Segment::Close(close) => (kind::CLOSE, 0, put_close(close, &mut out)),
        Segment::Closed => {
            out.put_u32(0);
            (kind::CLOSED, 0, out.len())
        }
    };
    let length = out.len() as u32;
    out[0] = kind;
    out[1] = header as u8;
    out[2..4].copy_from_slice(&flags.to_be_bytes());
    out[4..8].copy_from_slice(&length.to_be_bytes());
    out.freeze()
}

/// Writes everything after the common header and returns the header's length, as the functions below do.
fn put_hello(hello: &Hello, out: &mut BytesMut) -> usize {
    out.put_u8(hello.version);
    out.put_u8(hello.lowest);
    out.put_u8(match hello.security {
        Security::Tls => 0,
        Security::None => 1,
    });
    out.put_u8(hello.carriers);
    out.put_u32(hello.streams);
    out.put_slice(&hello.session.0);
    out.put_u64(0);
    out.put_u64(hello.credit);
    out.put_u32(hello.number);
    let header = out.len();
    put_option(out, option::STREAM_CREDIT, &hello.stream_credit.to_be_bytes());
    put_option(out, option::RESUME, &seconds(hello.resume).to_be_bytes());
    put_option(out, option::IDLE, &seconds(hello.idle).to_be_bytes());
    if hello.attempt > 0 {
        put_option(out, option::ATTEMPT, &hello.attempt.to_be_bytes());
    }
    for address in hello.addresses.iter().take(super::MAX_ADDRESSES) {
        let mut value = BytesMut::with_capacity(20);
        value.put_u16(address.port());
        match address.ip() {
            IpAddr::V4(ip) => {
                value.put_slice(&[4, 0]);
                value.put_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                value.put_slice(&[6, 0]);
                value.put_slice(&ip.octets());
            }
        }
        put_option(out, option::ADDRESS, &value);
    }
    if !hello.name.is_empty() {
        put_option(out, option::NAME, cut(&hello.name, 255).as_bytes());
    }
    header
}

fn put_join(join: &Join, out: &mut BytesMut) -> usize {
    out.put_u32(join.number);
    out.put_u32(u32::from(join.backup));
    out.put_slice(&join.session.0);
    out.put_u64(join.received);
    out.put_slice(&join.nonce);
    out.put_slice(&join.proof);
    out.len()
}

fn put_ack(ack: &Ack, out: &mut BytesMut) -> usize {
    out.put_u32(ack.stream);
    out.put_u32(micros(ack.delay) as u32);
    out.put_u64(ack.cumulative);
    out.put_u64(ack.stream_credit);
    out.put_u64(ack.session_credit);
    let header = out.len();
    for range in ack.ranges.iter().take(super::MAX_RANGES) {
        out.put_u64(range.start);
        out.put_u64(range.end);
    }
    header
}

fn put_close(close: &Close, out: &mut BytesMut) -> usize {
    out.put_u64(close.code);
    out.put_u32(close.finals.len().min(super::MAX_FINALS) as u32);
    out.put_u32(0);
    let header = out.len();
    for (stream, end) in close.finals.iter().take(super::MAX_FINALS) {
        out.put_u32(*stream);
        out.put_u64(*end);
    }
    header
}

fn put_option(out: &mut BytesMut, number: u16, value: &[u8]) {
    out.put_u16(number);
    out.put_u16(value.len() as u16);
    out.put_slice(value);
}

/// Returns at most `max` bytes of `text`, in whole characters.
pub(super) fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}
