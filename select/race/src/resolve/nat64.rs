//! Translators between IPv6 and IPv4 (NAT64): the addresses that they translate, and their discovery.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A prefix whose addresses a translator maps to IPv4 addresses (RFC 6052).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The bits of the prefix; later bits are zero.
    address: Ipv6Addr,
    /// The length in bits: one of [`Prefix::LENGTHS`].
    length: u8,
}

impl Prefix {
    /// The possible lengths (RFC 6052, 2.2).
    pub const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];
    /// The index of the octet that is zero, and holds no part of an IPv4 address.
    const RESERVED: usize = 8;

    /// Returns the prefix of this length of an address; `None` if the length is not allowed, or the reserved
    /// octet is not zero.
    #[must_use]
    pub fn from_address(address: Ipv6Addr, length: u8) -> Option<Prefix> {
        if !Prefix::LENGTHS.contains(&length) || address.octets()[Prefix::RESERVED] != 0 {
            return None;
        }
        let rest = 128 - length;
        Some(Prefix {
            address: Ipv6Addr::from_bits(address.to_bits() >> rest << rest),
            length,
        })
    }

    /// Returns the indices of the octets that hold the IPv4 address: the four after the prefix, without the
    /// reserved one (RFC 6052, 2.2).
    fn places(self) -> impl Iterator<Item = usize> {
        let first = usize::from(self.length / 8);
        (first..16).filter(|place| *place != Prefix::RESERVED).take(4)
    }

    /// Returns the IPv6 address by which the translator reaches an IPv4 address.
    #[must_use]
    pub fn embed(self, address: Ipv4Addr) -> Ipv6Addr {
        let mut octets = self.address.octets();
        self.places()
            .zip(address.octets())
            .for_each(|(place, octet)| octets[place] = octet);
        octets.into()
    }

    /// Returns the IPv4 address to which the translator maps this address; `None` if it does not have the
    /// prefix. The reserved octet and the bits after the IPv4 address are ignored.
    #[must_use]
    pub fn extract(self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        if (address.to_bits() ^ self.address.to_bits()) >> (128 - self.length) != 0 {
            return None;
        }
        let octets = address.octets();
        let mut inner = [0; 4];
        inner
            .iter_mut()
            .zip(self.places())
            .for_each(|(octet, place)| *octet = octets[place]);
        Some(inner.into())
    }
}

/// A name that has only IPv4 addresses: the network made any IPv6 addresses of it (RFC 7050, 8).
pub(crate) const IPV4_ONLY: &str = "ipv4only.arpa.";
/// The addresses of that name (RFC 7050, 8).
const WELL_KNOWN: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 0, 170), Ipv4Addr::new(192, 0, 0, 171)];

/// Returns the prefixes from which these addresses of [`IPV4_ONLY`] were made (RFC 7050, 3), each once, in
/// the order of the answer.
pub(crate) fn prefixes(answer: &[IpAddr]) -> Vec<Prefix> {
    let mut found = Vec::new();
    for address in answer {
        let IpAddr::V6(address) = *address else { continue };
        let fits = |prefix: &Prefix| {
            prefix
                .extract(address)
                .is_some_and(|inner| WELL_KNOWN.contains(&inner))
        };
        let all = Prefix::LENGTHS
            .iter()
            .filter_map(|&length| Prefix::from_address(address, length));
        for prefix in all.filter(fits) {
            if !found.contains(&prefix) {
                found.push(prefix);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Ipv6Addr {
        text.parse().expect("an address")
    }

    /// RFC 6052, 2.4: the table of examples for 192.0.2.33.
    const EXAMPLES: &[(&str, u8, &str)] = &[
        ("2001:db8::", 32, "2001:db8:c000:221::"),
        ("2001:db8:100::", 40, "2001:db8:1c0:2:21::"),
        ("2001:db8:122::", 48, "2001:db8:122:c000:2:2100::"),
        ("2001:db8:122:300::", 56, "2001:db8:122:3c0:0:221::"),
        ("2001:db8:122:344::", 64, "2001:db8:122:344:c0:2:2100::"),
        ("2001:db8:122:344::", 96, "2001:db8:122:344::192.0.2.33"),
    ];

    #[test]
    fn embedded_addresses_match_the_examples_of_rfc_6052() {
        let inner = Ipv4Addr::new(192, 0, 2, 33);
        for &(prefix, length, address) in EXAMPLES {
            let prefix = Prefix::from_address(ip(prefix), length).expect("a prefix");
            assert_eq!(prefix.embed(inner), ip(address));
            assert_eq!(prefix.extract(ip(address)), Some(inner));
            assert_eq!(prefix.extract(ip("2600::1")), None);
        }
        assert_eq!(Prefix::from_address(ip("2001:db8::"), 33), None);
        assert_eq!(
            Prefix::from_address(ip("2001:db8:0:0:100::"), 64),
            None,
            "bits 64 to 71 are zero"
        );
    }

    #[test]
    fn prefixes_are_found_by_the_well_known_addresses() {
        for &(prefix, length, _) in EXAMPLES {
            let prefix = Prefix::from_address(ip(prefix), length).expect("a prefix");
            for known in WELL_KNOWN {
                assert_eq!(prefixes(&[prefix.embed(known).into()]), [prefix]);
            }
        }
        let both = [
            "64:ff9b::c000:aa",
            "64:ff9b::c000:ab",
            "2001:db8:122:344::192.0.0.170",
        ];
        let found = prefixes(&both.map(|text| ip(text).into()));
        let expected =
            ["64:ff9b::", "2001:db8:122:344::"].map(|text| Prefix::from_address(ip(text), 96).expect("one"));
        assert_eq!(found, expected);
        assert_eq!(prefixes(&[ip("2001:db8::1").into(), [192, 0, 0, 170].into()]), []);
    }
}
