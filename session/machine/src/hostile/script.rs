//! A script of bytes, read as numbers, segments of the protocol and requests. The script ends with its last
//! byte.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use hawser_carriers::Statistics;

use crate::segment::{
    Ack, Close, Hello, Join, PathStatus, Refusal, Security, Segment, SessionId, data_header, encode,
};

/// The unread rest of the script.
pub(super) struct Script<'a>(pub(super) &'a [u8]);

impl Script<'_> {
    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&byte, rest)) => {
                self.0 = rest;
                byte
            }
            None => 0,
        }
    }

    pub(super) fn bytes(&mut self, max: usize) -> Bytes {
        let (taken, rest) = self.0.split_at(max.min(self.0.len()));
        self.0 = rest;
        Bytes::copy_from_slice(taken)
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    /// Returns a small number in most cases, and sometimes one near the limits of 64 bits.
    pub(super) fn number(&mut self) -> u64 {
        let base = u64::from(self.byte());
        match self.byte() % 8 {
            0..=3 => base,
            4 => base << 8,
            5 => (base << 8) + u64::from(self.byte()),
            6 => u64::MAX - base,
            _ => (i64::MAX as u64).wrapping_add(base),
        }
    }

    pub(super) fn stream(&mut self) -> u32 {
        let byte = u32::from(self.byte());
        if byte == 255 { (1 << 31) - 1 } else { byte % 24 }
    }

    pub(super) fn time(&mut self) -> Duration {
        let byte = u64::from(self.byte());
        match byte % 4 {
            0 => Duration::from_micros(byte),
            1 => Duration::from_millis(byte),
            2 => Duration::from_millis(40 * byte),
            _ => Duration::from_secs(byte),
        }
    }

    pub(super) fn status(&mut self) -> PathStatus {
        match self.byte() % 4 {
            0 => PathStatus::Active,
            1 => PathStatus::Backup,
            2 => PathStatus::Failing,
            _ => PathStatus::Closing,
        }
    }

    /// Returns figures that a transport may report. The session trusts its transports, so the figures are
    /// plausible.
    pub(super) fn statistics(&mut self, before: &Statistics) -> Statistics {
        let micros = 1 + 40 * u64::from(self.byte());
        let moved = u64::from(self.byte()) << 4;
        Statistics {
            srtt: Duration::from_micros(micros),
            rttvar: Duration::from_micros(micros / 4),
            mss: 1_448,
            window: 14_480 << (self.byte() % 8),
            slow_start: self.byte().is_multiple_of(2),
            in_flight: u64::from(self.byte()) << 6,
            queued: u64::from(self.byte()) << 6,
            acked: before.acked + moved,
            retransmitted: before.retransmitted,
            rate: u64::from(self.byte()) << 14,
            blocked: self.byte().is_multiple_of(8),
            oversized: self.byte().is_multiple_of(8),
        }
    }

    /// Returns a well-formed segment whose fields may have any value.
    pub(super) fn word(&mut self) -> Bytes {
        let segment = match self.byte() % 16 {
            0..=3 => return self.data(),
            4..=5 => self.ack(),
            6 => Segment::Reset { stream: self.stream(), code: self.number(), end: self.number() },
            7 => Segment::Stop { stream: self.stream(), code: self.number() },
            8 => {
                let (stream, level) = (self.stream(), self.byte() % 8);
                Segment::Priority { stream, level, incremental: self.byte().is_multiple_of(2) }
            }
            9 => Segment::PathStatus {
                number: u32::from(self.byte() % 4),
                status: self.status(),
                sequence: self.number(),
            },
            10 => Segment::Ping { token: self.number() },
            11 => Segment::Pong { token: self.number(), held: Duration::from_micros(self.number()) },
            12 => {
                let finals = (0..self.byte() % 5)
                    .map(|_| (self.stream(), self.number()))
                    .collect();
                Segment::Close(Close { code: if self.byte().is_multiple_of(4) { 300 } else { 0 }, finals })
            }
            13 => Segment::Closed,
            _ => self.opening(),
        };
        encode(&segment)
    }

    fn data(&mut self) -> Bytes {
        let (stream, offset, length) = (self.stream(), self.number(), usize::from(self.byte()) * 16);
        let end = self.byte().is_multiple_of(4);
        let head = Bytes::copy_from_slice(&data_header(stream, offset, length, end));
        super::joined(&head, &Bytes::from(vec![b'x'; length]))
    }

    fn ack(&mut self) -> Segment {
        let (stream, cumulative) = (self.stream(), self.number());
        let mut above = cumulative;
        let mut ranges = Vec::new();
        for _ in 0..self.byte() % 4 {
            let start = above.saturating_add(1 + u64::from(self.byte()));
            above = start.saturating_add(1 + u64::from(self.byte()));
            ranges.push(start..above);
        }
        let flags = self.byte();
        Segment::Ack(Ack {
            stream,
            delay: self.time(),
            cumulative,
            stream_credit: self.number(),
            session_credit: self.number(),
            end: flags % 4 == 1,
            gone: flags % 8 == 2,
            ranges,
        })
    }

    /// Returns a segment with which carriers begin or join.
    fn opening(&mut self) -> Segment {
        match self.byte() % 6 {
            0 => Segment::Hello(self.hello()),
            1 => Segment::Accept(self.hello()),
            2 => Segment::Join(Join {
                number: u32::from(self.byte() % 4),
                backup: self.byte().is_multiple_of(2),
                session: SessionId(self.array()),
                received: self.number(),
                nonce: self.array(),
                proof: self.array(),
            }),
            3 => Segment::Joined { number: u32::from(self.byte() % 4), proof: self.array() },
            4 => Segment::Refused {
                refusal: Refusal::from_code(u16::from(self.byte() % 9)),
                text: String::from_utf8_lossy(&self.bytes(9)).into_owned(),
            },
            _ => Segment::Challenge(self.array()),
        }
    }

    fn hello(&mut self) -> Hello {
        let addresses = (0..self.byte() % 3)
            .map(|index| SocketAddr::from((Ipv4Addr::new(192, 0, 2, index), 4_433)))
            .collect();
        Hello {
            version: 1 + self.byte() % 2,
            lowest: 1,
            security: if self.byte().is_multiple_of(2) {
                Security::Tls
            } else {
                Security::None
            },
            carriers: self.byte(),
            streams: self.number() as u32,
            session: SessionId([self.byte(); 16]),
            credit: self.number(),
            number: u32::from(self.byte() % 4),
            stream_credit: self.number(),
            resume: self.time(),
            idle: self.time(),
            attempt: u32::from(self.byte() % 4),
            addresses,
            name: String::new(),
        }
    }
}
