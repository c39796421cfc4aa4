//! The order of destination addresses: RFC 6724, section 6, as a pure function.
//!
//! The source address that the system would choose is determined outside (section 5 is the kernel's task),
//! and is part of a [`Destination`] here. Rules 1 to 8 give the [`ranks`]. For equal ranks, expected
//! round-trip times and earlier use decide (RFC 8305, 4), and only then rules 9 and 10, which [`order`]
//! applies.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv6Addr};

/// The source address that the system would choose for a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceAddress {
    /// The source address itself.
    pub address: IpAddr,
    /// The length of its prefix, in bits. Longer matches do not count (2.2).
    pub prefix_length: u8,
    /// True if it is past its preferred lifetime.
    pub is_deprecated: bool,
    /// True if it is a care-of address, and not a home address (mobile IPv6).
    pub is_care_of: bool,
    /// True if packets from it are encapsulated in other packets: a tunnel.
    pub is_encapsulated: bool,
}

impl SourceAddress {
    /// Makes a source without flags. Its prefix is the link's own: 64 bits in IPv6, and all bits in IPv4,
    /// where the length is unknown.
    #[must_use]
    pub fn new(address: IpAddr) -> SourceAddress {
        let prefix_length = if address.is_ipv6() { 64 } else { 32 };
        SourceAddress {
            address,
            prefix_length,
            is_deprecated: false,
            is_care_of: false,
            is_encapsulated: false,
        }
    }
}

/// A destination, and the source address that would be used for it, or `None` if it cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The destination address.
    pub address: IpAddr,
    /// The source address, if there is one.
    pub source: Option<SourceAddress>,
}

/// A row of the policy table (2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The prefix, where IPv4 is written as IPv4-mapped.
    pub prefix: Ipv6Addr,
    /// The length of the prefix, in bits.
    pub length: u8,
    /// The precedence, where higher is preferred.
    pub precedence: u8,
    /// The label. Sources and destinations with the same label belong together.
    pub label: u8,
}

const fn row(prefix: Ipv6Addr, length: u8, precedence: u8, label: u8) -> Row {
    Row { prefix, length, precedence, label }
}

/// The default policy table (2.1).
pub const DEFAULT_TABLE: &[Row] = &[
    row(Ipv6Addr::LOCALHOST, 128, 50, 0),
    row(Ipv6Addr::UNSPECIFIED, 0, 40, 1),
    row(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 35, 4),
    row(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 30, 2),
    row(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, 5, 5),
    row(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, 3, 13),
    row(Ipv6Addr::UNSPECIFIED, 96, 1, 3),
    row(Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, 1, 11),
    row(Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16, 1, 12),
];

/// Returns the indices of the destinations in the order of all ten rules.
#[must_use]
pub fn order(destinations: &[Destination], table: &[Row]) -> Vec<usize> {
    let keys: Vec<Preference> = destinations.iter().map(|to| preference(to, table)).collect();
    let mut order: Vec<usize> = (0..destinations.len()).collect();
    // Rule 10: equal destinations keep their order, because the sort is stable.
    order.sort_by_key(|&index| keys[index]);
    for tied in order.chunk_by_mut(|&a, &b| keys[a] == keys[b]) {
        // Rule 9 compares within one family, so each family is sorted within its own positions.
        for is_ipv6 in [false, true] {
            let holds = |index: usize| destinations[index].address.is_ipv6() == is_ipv6;
            let mut own: Vec<usize> = tied.iter().copied().filter(|&index| holds(index)).collect();
            own.sort_by_key(|&index| Reverse(matching_bits(&destinations[index])));
            let places = tied.iter_mut().filter(|index| holds(**index));
            places.zip(own).for_each(|(place, index)| *place = index);
        }
    }
    order
}

/// Returns each destination's rank by rules 1 to 8, counted from 0, for [`crate::Candidate::rank`].
/// Destinations that these rules do not distinguish have the same rank.
#[must_use]
pub fn ranks(destinations: &[Destination], table: &[Row]) -> Vec<u16> {
    let keys: Vec<Preference> = destinations.iter().map(|to| preference(to, table)).collect();
    let mut sorted = keys.clone();
    sorted.sort();
    sorted.dedup();
    keys.iter()
        .map(|key| u16::try_from(sorted.partition_point(|other| other < key)).unwrap_or(u16::MAX))
        .collect()
}

/// Returns a destination's rank by rules 1 to 8 among all possible destinations, so that ranks from different
/// answers can be compared. It is meant for [`crate::Candidate::rank`] when addresses come one answer at a
/// time. An unreachable destination comes last. Precedences above 127 count as 127.
#[must_use]
pub fn rank(destination: &Destination, table: &[Row]) -> u16 {
    let (is_unusable, scope, deprecated, care_of, label, Reverse(precedence), tunnel, own_scope) =
        preference(destination, table);
    let bit = |is_set: bool, place: u16| u16::from(is_set) << place;
    let flags = bit(scope, 15) | bit(deprecated, 14) | bit(care_of, 13) | bit(label, 12) | bit(tunnel, 4);
    let rest = u16::from(127 - precedence.min(127)) << 5 | u16::from(own_scope & 0xf);
    if is_unusable { u16::MAX } else { flags | rest }
}

/// The comparison by rules 1 to 8, where the smallest is the best.
type Preference = (bool, bool, bool, bool, bool, Reverse<u8>, bool, u8);

fn preference(to: &Destination, table: &[Row]) -> Preference {
    let (precedence, label) = policy(to.address, table);
    let own_scope = scope(to.address);
    let Some(source) = to.source else {
        return (true, true, true, true, true, Reverse(precedence), true, own_scope);
    };
    (
        false,                                    // 1: avoid unusable destinations
        scope(source.address) != own_scope,       // 2: prefer matching scope
        source.is_deprecated,                     // 3: avoid deprecated addresses
        source.is_care_of,                        // 4: prefer home addresses
        policy(source.address, table).1 != label, // 5: prefer matching label
        Reverse(precedence),                      // 6: prefer higher precedence
        source.is_encapsulated,                   // 7: prefer native transport
        own_scope,                                // 8: prefer smaller scope
    )
}

/// Returns the number of leading bits that a destination has in common with its source, within the source's
/// prefix (2.2).
fn matching_bits(to: &Destination) -> u32 {
    let Some(source) = to.source else { return 0 };
    let common = match (source.address, to.address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => 0,
    };
    common.min(source.prefix_length.into())
}

/// Returns the precedence and label of the longest matching prefix, or the worst ones without a match.
fn policy(address: IpAddr, table: &[Row]) -> (u8, u8) {
    let bits = mapped(address).to_bits();
    let matches = |row: &&Row| {
        let length = u32::from(row.length.min(128));
        (bits ^ row.prefix.to_bits()).leading_zeros() >= length
    };
    let best = table.iter().filter(matches).max_by_key(|row| row.length);
    best.map_or((0, u8::MAX), |row| (row.precedence, row.label))
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

const LINK_LOCAL: u8 = 0x2;
const SITE_LOCAL: u8 = 0x5;
const GLOBAL: u8 = 0xe;

/// Returns the scope, in the numbering of multicast addresses (3.1, 3.2).
fn scope(address: IpAddr) -> u8 {
    match address.to_canonical() {
        IpAddr::V4(address) if address.is_loopback() || address.is_link_local() => LINK_LOCAL,
        IpAddr::V4(_) => GLOBAL,
        IpAddr::V6(address) => {
            let first = address.segments()[0];
            match first & 0xffc0 {
                _ if address.is_multicast() => (first & 0xf) as u8,
                _ if address.is_loopback() => LINK_LOCAL,
                0xfe80 => LINK_LOCAL,
                0xfec0 => SITE_LOCAL,
                _ => GLOBAL,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses `destination source+flags`: d deprecated, c care-of, t tunnel.
    fn destination(text: &str) -> Destination {
        let (address, source) = text.split_once(" from ").expect("`to from source`");
        let mut words = source.split('+');
        let source = words.next().and_then(|word| word.parse().ok()).map(|address| {
            let flags = words.next().unwrap_or_default();
            SourceAddress {
                is_deprecated: flags.contains('d'),
                is_care_of: flags.contains('c'),
                is_encapsulated: flags.contains('t'),
                ..SourceAddress::new(address)
            }
        });
        Destination { address: address.parse().expect("an address"), source }
    }

    /// The examples of section 10.2, each line in the RFC's order and with the RFC's source. The last three
    /// are derived by hand from rules 1, 7 and 6 (unique local addresses after IPv4).
    const EXAMPLES: &[[&str; 2]] = &[
        [
            "2001:db8:1::1 from 2001:db8:1::2",
            "198.51.100.121 from 169.254.13.78",
        ],
        ["198.51.100.121 from 198.51.100.117", "2001:db8:1::1 from fe80::1"],
        ["2001:db8:1::1 from 2001:db8:1::2", "10.1.2.3 from 10.1.2.4"],
        ["fe80::1 from fe80::2", "2001:db8:1::1 from 2001:db8:1::2"],
        ["2001:db8:1::1 from 2001:db8:3::1", "fe80::1 from fe80::2+c"],
        ["2001:db8:1::1 from 2001:db8:1::2", "fe80::1 from fe80::2+d"],
        [
            "2001:db8:1::1 from 2001:db8:1::2",
            "2001:db8:3ffe::1 from 2001:db8:3f44::2",
        ],
        [
            "2002:c633:6401::1 from 2002:c633:6401::2",
            "2001:db8:1::1 from 2002:c633:6401::2",
        ],
        [
            "2001:db8:1::1 from 2001:db8:1::2",
            "2002:c633:6401::1 from 2002:c633:6401::2",
        ],
        ["198.51.100.121 from 198.51.100.117", "2001:db8:1::1 from nowhere"],
        [
            "2001:db8:1::1 from 2001:db8:1::2",
            "2001:db8:2::1 from 2001:db8:2::2+t",
        ],
        ["198.51.100.121 from 198.51.100.117", "fd00::1 from fd00::2"],
    ];

    #[test]
    fn destinations_are_ordered_as_in_the_rfcs_examples() {
        for example in EXAMPLES {
            let [first, second] = example.map(destination);
            assert_eq!(order(&[first, second], DEFAULT_TABLE), [0, 1], "{example:?}");
            assert_eq!(
                order(&[second, first], DEFAULT_TABLE),
                [1, 0],
                "{example:?}, turned round"
            );
        }
    }

    /// Rule 9 decides the seventh example, which is a tie under the rules before.
    #[test]
    fn ranks_end_before_rule_9() {
        for (number, example) in EXAMPLES.iter().enumerate() {
            let ranks = ranks(&example.map(destination), DEFAULT_TABLE);
            let expected: &[u16] = if number == 6 { &[0, 0] } else { &[0, 1] };
            assert_eq!(ranks, expected, "{example:?}");
            let [first, second] = example.map(|text| rank(&destination(text), DEFAULT_TABLE));
            assert_eq!(
                first.cmp(&second),
                expected[0].cmp(&expected[1]),
                "{example:?}, one at a time"
            );
        }
    }

    #[test]
    fn ties_keep_their_order() {
        let given = [
            "192.0.2.9 from 198.51.100.1",
            "192.0.2.1 from 198.51.100.1",
            "192.0.2.5 from 198.51.100.1",
        ];
        assert_eq!(order(&given.map(destination), DEFAULT_TABLE), [0, 1, 2]);
        assert_eq!(ranks(&given.map(destination), DEFAULT_TABLE), [0, 0, 0]);
    }

    /// Section 10.3: a custom table that prefers IPv4.
    #[test]
    fn a_custom_policy_table_changes_the_order() {
        let table: Vec<Row> = DEFAULT_TABLE
            .iter()
            .map(|&row| Row {
                precedence: if row.length == 96 && row.label == 4 {
                    100
                } else {
                    row.precedence
                },
                ..row
            })
            .collect();
        let pair = ["2001:db8:1::1 from 2001:db8:1::2", "10.1.2.3 from 10.1.2.4"].map(destination);
        assert_eq!(order(&pair, &table), [1, 0]);
        assert_eq!(order(&[], DEFAULT_TABLE), [0; 0]);
    }

    #[test]
    fn an_ipv4_mapped_address_has_the_scope_of_ipv4() {
        let mapped = destination("::ffff:169.254.1.1 from ::ffff:169.254.1.2");
        assert_eq!(scope(mapped.address), LINK_LOCAL);
        assert_eq!(policy(mapped.address, DEFAULT_TABLE), (35, 4));
        assert_eq!(
            scope("ff05::1".parse().expect("site-local multicast")),
            SITE_LOCAL
        );
    }
}
