//! Addresses as the program sees them: 16 bytes, IPv4 mapped into IPv6 (RFC 4291, 2.5.5.2).
//!
//! One form for both families keeps look-ups, prefixes and tables alike.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of either family, in network order.
pub(super) type Ip = [u8; 16];

/// `::`, which is also the value of an unset field of a network header.
pub(super) const UNSPECIFIED: Ip = [0; 16];

const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// Returns the 16-byte form of an address; IPv4 becomes `::ffff:a.b.c.d`.
#[must_use]
pub fn to_bytes(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// Returns the address that the 16-byte form stands for.
#[must_use]
pub fn from_bytes(ip: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(ip).to_canonical()
}

/// Returns true if the 16 bytes hold an IPv4 address.
#[must_use]
#[inline]
pub fn is_ipv4(ip: &[u8; 16]) -> bool {
    ip[..12] == MAPPED
}

/// Returns the mapped form of four bytes from an IPv4 or ARP header.
pub(super) fn mapped(octets: [u8; 4]) -> Ip {
    Ipv4Addr::from(octets).to_ipv6_mapped().octets()
}

/// Returns the four bytes of a mapped address.
pub(super) fn octets(ip: &Ip) -> [u8; 4] {
    [ip[12], ip[13], ip[14], ip[15]]
}

/// Returns true if an address can belong to a single host. Packets are sent to and accepted from such
/// addresses only.
#[inline]
pub(super) fn is_unicast(ip: &Ip) -> bool {
    if is_ipv4(ip) {
        // 0.0.0.0/8, 127.0.0.0/8, and 224.0.0.0 upwards: RFC 1122, 3.2.1.3.
        return !matches!(ip[12], 0 | 127 | 224..);
    }
    // `::`, `::1`, and ff00::/8: RFC 4291, 2.5 and 2.7.
    u128::from_be_bytes(*ip) > 1 && ip[0] != 0xff
}

/// Returns true if an address can belong to a host, from the point of view of programs on this host: a
/// unicast or a loopback address.
pub(super) fn is_of_a_host(ip: &Ip) -> bool {
    is_unicast(ip) || (is_ipv4(ip) && ip[12] == 127) || u128::from_be_bytes(*ip) == 1
}

/// One of the interface's addresses with its subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subnet {
    /// The interface's own address.
    pub(super) own: Ip,
    /// The number of leading bits, counted in the 16-byte form, that all neighbours share.
    pub(super) bits: u32,
}

impl Subnet {
    /// Creates a subnet from an address and its prefix length in its own family; `None` if the prefix is too
    /// long.
    pub(super) fn new(ip: IpAddr, prefix: u8) -> Option<Subnet> {
        let (width, offset) = if ip.is_ipv4() { (32, 96) } else { (128, 0) };
        (prefix <= width).then(|| Subnet { own: to_bytes(ip), bits: u32::from(prefix) + offset })
    }

    /// Returns true if `ip` is on this subnet.
    pub(super) fn holds(&self, ip: &Ip) -> bool {
        shared_bits(&self.own, ip) >= self.bits
    }

    /// Returns true if `ip` is the subnet's broadcast or network address (RFC 1122, 3.2.1.3). A /31 or /32
    /// has neither (RFC 3021).
    pub(super) fn is_broadcast(&self, ip: &Ip) -> bool {
        let host = u128::MAX.checked_shr(self.bits).unwrap_or(0);
        let within = u128::from_be_bytes(*ip) & host;
        is_ipv4(ip) && self.bits < 127 && self.holds(ip) && (within == host || within == 0)
    }
}

/// Returns the number of leading bits that two addresses share.
pub(super) fn shared_bits(a: &Ip, b: &Ip) -> u32 {
    (u128::from_be_bytes(*a) ^ u128::from_be_bytes(*b)).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Ip {
        to_bytes(text.parse().unwrap())
    }

    #[test]
    fn a_subnet_contains_only_its_hosts() {
        let v4 = Subnet::new("10.1.2.3".parse().unwrap(), 24).unwrap();
        assert!(v4.holds(&ip("10.1.2.254")));
        assert!(!v4.holds(&ip("10.1.3.3")));
        assert!(v4.is_broadcast(&ip("10.1.2.255")));
        assert!(v4.is_broadcast(&ip("10.1.2.0")));
        assert!(!v4.is_broadcast(&ip("10.1.2.3")));
        let v6 = Subnet::new("2001:db8::1".parse().unwrap(), 64).unwrap();
        assert!(v6.holds(&ip("2001:db8::ffff:1")));
        assert!(!v6.holds(&ip("2001:db8:0:1::1")));
        assert!(!v6.is_broadcast(&ip("2001:db8::ffff:ffff:ffff:ffff")));
        let all = Subnet::new("10.1.2.3".parse().unwrap(), 0).unwrap();
        assert!(all.holds(&ip("192.0.2.1")));
        assert!(!all.holds(&ip("2001:db8::1")));
        let point = Subnet::new("10.0.0.0".parse().unwrap(), 31).unwrap();
        assert!(!point.is_broadcast(&ip("10.0.0.1")));
        assert_eq!(Subnet::new("10.1.2.3".parse().unwrap(), 33), None);
    }

    #[test]
    fn unicast_excludes_unassignable_addresses() {
        for bad in [
            "0.0.0.0",
            "127.0.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "ff02::1",
        ] {
            assert!(!is_unicast(&ip(bad)), "{bad}");
        }
        for good in ["10.0.0.1", "223.255.255.255", "fe80::1", "2001:db8::1"] {
            assert!(is_unicast(&ip(good)), "{good}");
            assert!(is_of_a_host(&ip(good)), "{good}");
        }
        for loopback in ["127.0.0.1", "127.255.0.9", "::1"] {
            assert!(is_of_a_host(&ip(loopback)), "{loopback}");
        }
        for bad in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1"] {
            assert!(!is_of_a_host(&ip(bad)), "{bad}");
        }
    }
}
