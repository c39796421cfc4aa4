//! Defaults that are not zero.

use super::{DataSize, Share, TimeSpan};

pub(crate) fn seed() -> u64 {
    1
}

pub(crate) fn duration() -> TimeSpan {
    TimeSpan(60_000_000_000)
}

pub(crate) fn idle_packets() -> u64 {
    super::IDLE_PACKETS
}

pub(crate) fn mtu() -> u32 {
    1500
}

pub(crate) fn one() -> u64 {
    1
}

pub(crate) fn concurrent() -> u64 {
    8
}

pub(crate) fn one_priority() -> u8 {
    1
}

pub(crate) fn any() -> Share {
    Share(1.0)
}

pub(crate) fn posted() -> u64 {
    16
}

pub(crate) fn path_mtu() -> DataSize {
    DataSize(1024)
}

/// The default of queue pairs (IBA, 9.7.6.1.3: 4.096 µs · 2^14).
pub(crate) fn pair_timeout() -> TimeSpan {
    TimeSpan(67_000_000)
}
