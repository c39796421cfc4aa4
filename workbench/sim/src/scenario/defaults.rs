//! Defaults that are not zero.

use super::{Bytes, Share, Span};

pub(super) fn seed() -> u64 {
    1
}

pub(super) fn duration() -> Span {
    Span(60_000_000_000)
}

pub(super) fn idle_packets() -> u64 {
    super::IDLE_PACKETS
}

pub(super) fn mtu() -> u32 {
    1500
}

pub(super) fn one() -> u64 {
    1
}

pub(super) fn concurrent() -> u64 {
    8
}

pub(super) fn one_priority() -> u8 {
    1
}

pub(super) fn any() -> Share {
    Share(1.0)
}

pub(super) fn posted() -> u64 {
    16
}

pub(super) fn path_mtu() -> Bytes {
    Bytes(1024)
}

/// The default of queue pairs (IBA, 9.7.6.1.3: 4.096 µs · 2^14).
pub(super) fn pair_timeout() -> Span {
    Span(67_000_000)
}
