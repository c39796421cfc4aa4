//! Addresses that are not ordinary destinations: IANA's registries of special-purpose addresses (RFC 6890),
//! multicast, undelegated space, and metadata services of clouds. The same holds for addresses that lead to
//! one of these by translation or tunnel.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hawser::race::resolve::nat64::Prefix;

/// A block of addresses with a common prefix. IPv4 and IPv6 blocks are disjoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    first: IpAddr,
    length: u8,
}

impl Block {
    /// Returns the block with a prefix of `length` bits around `address`, or `None` if the address has fewer
    /// bits.
    pub(super) fn new(address: IpAddr, length: u8) -> Option<Block> {
        (length <= bits(address)).then_some(Block { first: address, length })
    }

    /// Returns the block of a single address.
    pub(super) fn only(address: IpAddr) -> Block {
        Block { first: address, length: bits(address) }
    }

    pub(super) fn contains(self, address: IpAddr) -> bool {
        let differ = match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(other)) => {
                u128::from(u32::from(first) ^ u32::from(other)) << (128 - 32)
            }
            (IpAddr::V6(first), IpAddr::V6(other)) => u128::from(first) ^ u128::from(other),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return false,
        };
        differ.leading_zeros() >= u32::from(self.length)
    }

    /// Returns whether the whole block lies in `other`.
    pub(super) fn is_within(self, other: Block) -> bool {
        self.length >= other.length && other.contains(self.first)
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The class of an address that is not an ordinary destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// This host, or a host that does not know its address: 0.0.0.0/8, `::`.
    Unspecified,
    /// 127.0.0.0/8, `::1`.
    Loopback,
    /// Addresses of private networks (RFC 1918, RFC 4193, and site-local).
    Private,
    /// Shared by a carrier's customers (RFC 6598).
    Shared,
    /// Addresses on one link.
    LinkLocal,
    /// A service that returns a machine's credentials to any process that asks from that machine.
    Metadata,
    Multicast,
    Broadcast,
    Documentation,
    /// Measurements in laboratories.
    Benchmarking,
    /// An IPv4 address embedded in an IPv6 address that never appears in packets on the network.
    Mapped,
    /// An address that is translated by a rule local to this network (RFC 8215).
    LocalTranslation,
    /// Reserved for a protocol, undelegated, or for discarding.
    Reserved,
    Own,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Unspecified => "unspecified",
            Class::Loopback => "loopback",
            Class::Private => "private",
            Class::Shared => "a carrier's shared address",
            Class::LinkLocal => "link-local",
            Class::Metadata => "a metadata service",
            Class::Multicast => "multicast",
            Class::Broadcast => "broadcast",
            Class::Documentation => "for documentation",
            Class::Benchmarking => "for benchmarks",
            Class::Mapped => "an IPv4 address in disguise",
            Class::LocalTranslation => "for local translation",
            Class::Reserved => "reserved",
            Class::Own => "the gateway's own",
        })
    }
}

/// A class, and the block that gives an address this class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Special {
    pub(super) class: Class,
    pub(super) within: Block,
}

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8, class: Class) -> Special {
    Special {
        class,
        within: Block { first: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), length },
    }
}

const fn v6(words: [u16; 8], length: u8, class: Class) -> Special {
    let [a, b, c, d, e, f, g, h] = words;
    Special {
        class,
        within: Block { first: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), length },
    }
}

/// The first block that contains an address counts, so services precede the blocks around them.
const TABLE: &[Special] = &[
    // Cloud services: the address that nearly all use; those for containers and pods of AWS; those of
    // Alibaba, Oracle and Azure. The last is in no special block.
    v4(169, 254, 169, 254, 32, Class::Metadata),
    v4(169, 254, 170, 2, 32, Class::Metadata),
    v4(169, 254, 170, 23, 32, Class::Metadata),
    v4(100, 100, 100, 200, 32, Class::Metadata),
    v4(192, 0, 0, 192, 32, Class::Metadata),
    v4(168, 63, 129, 16, 32, Class::Metadata),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, Class::Metadata),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128, Class::Metadata),
    v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, Class::Metadata),
    // The services of Oracle and Scaleway, and the link-local one of OpenStack.
    v6([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128, Class::Metadata),
    v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128, Class::Metadata),
    v6([0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128, Class::Metadata),
    // IANA's IPv4 registry.
    v4(0, 0, 0, 0, 8, Class::Unspecified),
    v4(10, 0, 0, 0, 8, Class::Private),
    v4(100, 64, 0, 0, 10, Class::Shared),
    v4(127, 0, 0, 0, 8, Class::Loopback),
    v4(169, 254, 0, 0, 16, Class::LinkLocal),
    v4(172, 16, 0, 0, 12, Class::Private),
    v4(192, 0, 0, 0, 24, Class::Reserved),
    v4(192, 0, 2, 0, 24, Class::Documentation),
    v4(192, 88, 99, 0, 24, Class::Reserved),
    v4(192, 168, 0, 0, 16, Class::Private),
    v4(198, 18, 0, 0, 15, Class::Benchmarking),
    v4(198, 51, 100, 0, 24, Class::Documentation),
    v4(203, 0, 113, 0, 24, Class::Documentation),
    v4(224, 0, 0, 0, 4, Class::Multicast),
    v4(255, 255, 255, 255, 32, Class::Broadcast),
    v4(240, 0, 0, 0, 4, Class::Reserved),
    // IANA's IPv6 registry. Addresses that embed IPv4 addresses are handled by `embedded`.
    v6([0; 8], 128, Class::Unspecified),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, Class::Loopback),
    v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, Class::Mapped),
    v6([0, 0, 0, 0, 0, 0, 0, 0], 96, Class::Mapped),
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, Class::LocalTranslation),
    v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, Class::Benchmarking),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, Class::Documentation),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, Class::Documentation),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, Class::Private),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, Class::LinkLocal),
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, Class::Private),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Class::Multicast),
];

/// Protocol assignments (RFC 2928). None is a destination except Teredo's, by the addresses that it embeds.
const PROTOCOLS: Special = v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Class::Reserved);
const TEREDO: Block = v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, Class::Reserved).within;
const SIX_TO_FOUR: Block = v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Class::Reserved).within;
const NAT64: Block = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, Class::Reserved).within;
/// The delegated global unicast space (RFC 4291, 2.4, and IANA's registry).
const GLOBAL: Block = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, Class::Reserved).within;

impl Special {
    /// Returns the class of an address, if it is special.
    pub(super) fn from_address(address: IpAddr, nat64: &[Prefix]) -> Option<Special> {
        if let Some(special) =
            translated(address, nat64).find_map(|inner| Special::from_address(inner.into(), &[]))
        {
            // To allow this destination, a rule must name exactly this address.
            return Some(Special { class: special.class, within: Block::only(address) });
        }
        if let Some(special) = TABLE.iter().find(|special| special.within.contains(address)) {
            let inner =
                disguised(address, special.class).and_then(|inner| Special::from_address(inner.into(), &[]));
            // A rule for all such addresses does not cover one that embeds a special address.
            let within = if inner.is_some() {
                Block::only(address)
            } else {
                special.within
            };
            return Some(Special { within, ..*special });
        }
        let IpAddr::V6(v6) = address else { return None };
        let inner = embedded(v6);
        if inner.is_empty() {
            let is_reserved = PROTOCOLS.within.contains(address) || !GLOBAL.contains(address);
            return is_reserved.then_some(Special { class: Class::Reserved, within: Block::only(address) });
        }
        let special = inner
            .into_iter()
            .find_map(|inner| Special::from_address(inner.into(), &[]))?;
        // To allow this destination, a rule must name exactly this address.
        Some(Special { class: special.class, within: Block::only(address) })
    }

    /// Returns `Own` if an address belongs to this machine or leads to it.
    pub(super) fn own(address: IpAddr, own: &[IpAddr], nat64: &[Prefix]) -> Option<Special> {
        let inner = match address {
            IpAddr::V4(_) => Vec::new(),
            IpAddr::V6(v6) => {
                let class = Special::from_address(address, &[]).map(|special| special.class);
                let disguised = class.and_then(|class| disguised(address, class));
                embedded(v6)
                    .into_iter()
                    .chain(disguised)
                    .chain(translated(address, nat64))
                    .collect()
            }
        };
        let leads_here =
            |own: &IpAddr| *own == address || inner.iter().any(|inner| IpAddr::V4(*inner) == *own);
        let is_own = own.iter().any(leads_here);
        is_own.then_some(Special { class: Class::Own, within: Block::only(address) })
    }
}

/// Returns the IPv4 addresses to which this network's own translators send packets for an address (RFC 6052).
fn translated(address: IpAddr, nat64: &[Prefix]) -> impl Iterator<Item = Ipv4Addr> {
    nat64.iter().filter_map(move |prefix| match address {
        IpAddr::V6(address) => prefix.extract(address),
        IpAddr::V4(_) => None,
    })
}

/// Returns the IPv4 address in the last bits of an address whose class embeds one (RFC 4291, 2.5.5; RFC 6052,
/// 2.2 with the longest prefix, which most local translators have).
fn disguised(address: IpAddr, class: Class) -> Option<Ipv4Addr> {
    match (address, class) {
        (IpAddr::V6(address), Class::Mapped | Class::LocalTranslation) => {
            let [.., a, b, c, d] = address.octets();
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    }
}

/// Returns the IPv4 addresses to which packets for an IPv6 address are sent.
fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let octets = address.octets();
    let at = |offset: usize| {
        Ipv4Addr::new(
            octets[offset],
            octets[offset + 1],
            octets[offset + 2],
            octets[offset + 3],
        )
    };
    match IpAddr::V6(address) {
        // RFC 6052, 2.2.
        outer if NAT64.contains(outer) => vec![at(12)],
        // RFC 3056, 2.
        outer if SIX_TO_FOUR.contains(outer) => vec![at(2)],
        // RFC 4380, 4: the server, and the client with its bits inverted.
        outer if TEREDO.contains(outer) => {
            vec![at(4), Ipv4Addr::from(!u32::from(at(12)))]
        }
        _ => Vec::new(),
    }
}
