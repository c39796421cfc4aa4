//! Addresses that are no ordinary destination: IANA's registries of special-purpose addresses
//! (RFC 6890), multicast, what is not delegated, metadata services of clouds, and whatever leads to one
//! of these by translation or tunnel.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hawser::resolve::nat64::Prefix;

/// A block of addresses: those that share the first bits of one. IPv4 and IPv6 have nothing in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    first: IpAddr,
    length: u8,
}

impl Block {
    /// The block of so many bits in which `address` lies; none if there are not that many.
    pub(super) fn new(address: IpAddr, length: u8) -> Option<Block> {
        (length <= bits(address)).then_some(Block { first: address, length })
    }

    /// One address.
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

    /// Whether all of it lies in `other`.
    pub(super) fn is_within(self, other: Block) -> bool {
        self.length >= other.length && other.contains(self.first)
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// What an address is that is no ordinary destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// This host, or one that does not know who it is: 0.0.0.0/8, `::`.
    Unspecified,
    /// 127.0.0.0/8, `::1`.
    Loopback,
    /// Of somebody's own network (RFC 1918, RFC 4193, and site-local).
    Private,
    /// Shared by a carrier's customers (RFC 6598).
    Shared,
    /// Of one link.
    LinkLocal,
    /// A service that hands a machine's credentials to whoever asks from it.
    Metadata,
    /// For many.
    Multicast,
    /// For all.
    Broadcast,
    /// For examples.
    Documentation,
    /// For measurements in laboratories.
    Benchmarking,
    /// An IPv4 address in an IPv6 one that no packet on the network has.
    Mapped,
    /// To be translated by a rule that is this network's own (RFC 8215).
    LocalTranslation,
    /// For a protocol, not delegated, or to be thrown away.
    Reserved,
    /// This machine's own.
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

/// A class, and the block that makes an address one of it.
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

/// The first that contains an address counts, so that services stand before the blocks around them.
const TABLE: &[Special] = &[
    // Services of clouds: the one that nearly all have; containers' and pods' of AWS; Alibaba's,
    // Oracle's and Azure's, of which the last is not in any special block.
    v4(169, 254, 169, 254, 32, Class::Metadata),
    v4(169, 254, 170, 2, 32, Class::Metadata),
    v4(169, 254, 170, 23, 32, Class::Metadata),
    v4(100, 100, 100, 200, 32, Class::Metadata),
    v4(192, 0, 0, 192, 32, Class::Metadata),
    v4(168, 63, 129, 16, 32, Class::Metadata),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, Class::Metadata),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128, Class::Metadata),
    v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, Class::Metadata),
    // Oracle's, Scaleway's, and the link-local one of OpenStack.
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
    // IANA's IPv6 registry; what embeds IPv4 addresses is `embedded`'s.
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

/// Protocol assignments (RFC 2928): none of them is a destination but Teredo's, by what it embeds.
const PROTOCOLS: Special = v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Class::Reserved);
const TEREDO: Block = v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, Class::Reserved).within;
const SIX_TO_FOUR: Block = v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Class::Reserved).within;
const NAT64: Block = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, Class::Reserved).within;
/// What is delegated as global unicast (RFC 4291, 2.4, and IANA's registry of the space).
const GLOBAL: Block = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, Class::Reserved).within;

impl Special {
    /// What is special about an address, if anything is.
    pub(super) fn of(address: IpAddr, nat64: &[Prefix]) -> Option<Special> {
        if let Some(special) = translated(address, nat64).find_map(|inner| Special::of(inner.into(), &[])) {
            // Who wants to go there all the same names the very address.
            return Some(Special { class: special.class, within: Block::only(address) });
        }
        if let Some(special) = TABLE.iter().find(|special| special.within.contains(address)) {
            let inner = disguised(address, special.class).and_then(|inner| Special::of(inner.into(), &[]));
            // A rule for all disguises is none for what is special behind one.
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
            .find_map(|inner| Special::of(inner.into(), &[]))?;
        // Who wants to go there all the same names the very address.
        Some(Special { class: special.class, within: Block::only(address) })
    }

    /// Whether an address is one of this machine's, or leads to one.
    pub(super) fn own(address: IpAddr, own: &[IpAddr], nat64: &[Prefix]) -> Option<Special> {
        let inner = match address {
            IpAddr::V4(_) => Vec::new(),
            IpAddr::V6(v6) => {
                let class = Special::of(address, &[]).map(|special| special.class);
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

/// The IPv4 addresses to which this network's own translators send what is for an address (RFC 6052).
fn translated(address: IpAddr, nat64: &[Prefix]) -> impl Iterator<Item = Ipv4Addr> {
    nat64.iter().filter_map(move |prefix| match address {
        IpAddr::V6(address) => prefix.extract(address),
        IpAddr::V4(_) => None,
    })
}

/// The IPv4 address in the last bits of one whose class it is to have such (RFC 4291, 2.5.5; RFC 6052, 2.2
/// with the longest prefix, which is what local translators mostly have).
fn disguised(address: IpAddr, class: Class) -> Option<Ipv4Addr> {
    match (address, class) {
        (IpAddr::V6(address), Class::Mapped | Class::LocalTranslation) => {
            let [.., a, b, c, d] = address.octets();
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    }
}

/// The IPv4 addresses to which packets for an IPv6 address go.
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
