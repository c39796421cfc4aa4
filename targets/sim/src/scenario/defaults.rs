//! Defaults that are not zero.

use super::{Share, Span};

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
