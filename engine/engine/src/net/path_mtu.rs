//! The known path MTUs: the largest packets that get through (RFC 1191, RFC 8201).

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_time::Instant;

use super::address::{Ip, is_ipv4};

/// The maximum number of destinations with an MTU of their own.
pub(super) const MAX_PATHS: usize = 1024;

/// The lifetime of a lowered MTU: ten minutes (RFC 1191, 6.3; RFC 8201, 4).
pub(super) const LIFETIME: Duration = Duration::from_secs(600);

/// RFC 1191, 3: no smaller estimate than 68 bytes.
pub(super) const MIN_MTU_IPV4: u32 = 68;
/// RFC 8201, 4: no smaller estimate than IPv6's minimum link MTU.
pub(super) const MIN_MTU_IPV6: u32 = 1280;
/// The smallest MTU of an IPv4 path that programs learn, in bytes; Linux has the same
/// (`net.ipv4.route.min_pmtu`). It bounds the damage of a forged error. If a path takes less, routers
/// fragment the packets to its destination.
pub(super) const MIN_HEEDED_IPV4: u32 = 552;

/// The table of RFC 1191, 7.1: the likely MTUs of a path whose router did not state one.
const PLATEAUS: [u32; 10] = [
    32_000,
    17_914,
    8_166,
    4_352,
    2_002,
    1_492,
    1_006,
    508,
    296,
    MIN_MTU_IPV4,
];

/// Returns the minimum MTU of the destination's family.
pub(super) fn min_mtu(dst: &Ip) -> u32 {
    if is_ipv4(dst) { MIN_MTU_IPV4 } else { MIN_MTU_IPV6 }
}

/// Returns the MTU that programs learn of a path that takes `mtu` bytes.
pub(super) fn heeded(dst: &Ip, mtu: u32) -> u32 {
    if is_ipv4(dst) {
        mtu.max(MIN_HEEDED_IPV4)
    } else {
        mtu
    }
}

/// Returns the largest plateau below the length of a packet that was too big.
pub(super) fn plateau_below(total_len: u32) -> u32 {
    PLATEAUS
        .into_iter()
        .find(|p| *p < total_len)
        .unwrap_or(MIN_MTU_IPV4)
}

#[derive(Clone, Copy, Debug)]
struct Path {
    mtu: u32,
    expires: Instant,
    /// The identification of the next packet, if routers may fragment it.
    identification: Option<u16>,
}

/// Destinations whose path is narrower than the interface.
#[derive(Debug, Default)]
pub(super) struct PathMtus {
    table: BTreeMap<Ip, Path>,
    next: Option<Instant>,
}

impl PathMtus {
    /// Returns true if no destination has a narrower path.
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Returns the estimate for a destination that has its own.
    pub(super) fn find(&self, dst: &Ip) -> Option<u32> {
        self.table.get(dst).map(|path| path.mtu)
    }

    /// Reserves identifications for `packets` packets to a destination whose packets routers may fragment,
    /// and returns the first. All packets have different ones (RFC 6864, 4.3).
    pub(super) fn identify(&mut self, dst: &Ip, packets: u16) -> Option<u16> {
        let next = self.table.get_mut(dst)?.identification.as_mut()?;
        let first = *next;
        *next = first.wrapping_add(packets);
        Some(first)
    }

    /// Records a lower estimate. If the table is full, the entry that would expire first is removed.
    pub(super) fn lower(&mut self, now: Instant, dst: Ip, mtu: u32) {
        if self.table.len() >= MAX_PATHS
            && !self.table.contains_key(&dst)
            && let Some(oldest) = self
                .table
                .iter()
                .min_by_key(|(_, p)| p.expires)
                .map(|(ip, _)| *ip)
        {
            self.table.remove(&oldest);
        }
        let expires = now + LIFETIME;
        let heeded = heeded(&dst, mtu);
        let known = self.table.get(&dst).and_then(|path| path.identification);
        let path = Path {
            mtu: heeded,
            expires,
            identification: known.or((mtu < heeded).then_some(0)),
        };
        self.table.insert(dst, path);
        self.next = Some(self.next.map_or(expires, |next| next.min(expires)));
    }

    /// Returns the time at which the first estimate expires.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.next
    }

    /// Removes expired estimates, after which larger packets are tried again.
    pub(super) fn poll(&mut self, now: Instant) {
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        self.table.retain(|_, path| path.expires > now);
        self.next = self.table.values().map(|path| path.expires).min();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plateaus_match_rfc_1191() {
        assert_eq!(plateau_below(1500), 1492);
        assert_eq!(plateau_below(1492), 1006);
        assert_eq!(plateau_below(65_535), 32_000);
        assert_eq!(plateau_below(68), 68);
        assert_eq!(plateau_below(0), 68);
    }

    #[test]
    fn path_mtus_are_bounded_and_expire() {
        let mut paths = PathMtus::default();
        let ip = |i: u32| {
            let mut ip = [0x20; 16];
            ip[12..].copy_from_slice(&i.to_be_bytes());
            ip
        };
        for i in 0..MAX_PATHS as u32 + 10 {
            paths.lower(Instant::from_nanos(i.into()), ip(i), 1280);
        }
        assert_eq!(paths.table.len(), MAX_PATHS);
        assert_eq!(paths.find(&ip(9)), None);
        assert_eq!(paths.find(&ip(10)), Some(1280));
        paths.poll(Instant::from_nanos(10) + LIFETIME);
        assert_eq!(paths.find(&ip(10)), None);
        assert_eq!(paths.find(&ip(11)), Some(1280));
        assert_eq!(paths.next_deadline(), Some(Instant::from_nanos(11) + LIFETIME));
        paths.poll(Instant::NEVER);
        assert_eq!(paths.next_deadline(), None);
    }
}
