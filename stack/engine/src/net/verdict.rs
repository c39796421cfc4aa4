//! What becomes of a frame, and the counts of it.

use std::fmt;

use hawser_ir::abi::{Csum, Icmp, Net};

/// What a received frame holds for the engine.
#[derive(Clone, Copy, Debug)]
pub enum Ingress<'a> {
    /// A packet for a transport program.
    Packet {
        /// Its network header.
        net: Net,
        /// From the transport header on; all headers are here.
        head: &'a [u8],
        /// What follows, where the wire holds the payload elsewhere.
        tail: &'a [u8],
        /// Where `head` starts in the frame, counted from the frame's first byte; addresses of
        /// payload are made from it.
        head_offset: u32,
        /// The transport checksum's standing.
        csum: Csum,
    },
    /// A packet that is shorter than its network header states: a switch has cut off data rather than drop it
    /// all. [`super::Interface::refuse_trimmed`] counts one that no program takes.
    Trimmed {
        /// Its network header, as it was sent: `tot_len` is the length that it had.
        net: Net,
        /// What came, from the transport header on.
        head: &'a [u8],
        /// Where the packet goes on, if the wire holds that elsewhere.
        tail: &'a [u8],
    },
    /// An ICMP error about a packet that this host may have sent. That the quoted ports and
    /// sequence number are in use is for the program to check (RFC 5927, 4).
    IcmpError {
        /// The quoted network header, as it was sent: the source is this host.
        net: Net,
        /// The quoted packet from its transport header on; often no more than 8 bytes.
        quoted: &'a [u8],
        /// Where `quoted` starts in the frame.
        quoted_offset: u32,
        /// The content of the error.
        icmp: Icmp,
    },
    /// The network layer dealt with it (ARP, neighbour discovery, echo); replies are in
    /// [`super::Interface::outgoing`].
    Done,
    /// Not for us, or malformed; it has been counted.
    Drop(DropReason),
}

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $name:ident = $label:literal),* $(,)?) => {
        /// Why a frame went no further. Each has a count in [`Counters`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DropReason {
            $($(#[$doc])* $name),*
        }

        impl DropReason {
            /// All reasons, in order.
            pub const ALL: &[DropReason] = &[$(DropReason::$name),*];

            /// A short name for tables and JSON.
            #[must_use]
            pub fn label(self) -> &'static str {
                match self {
                    $(DropReason::$name => $label),*
                }
            }
        }
    };
}

drop_reasons! {
    /// Received: shorter than its headers, or than the length that they state.
    Truncated = "truncated",
    /// Received: a field of the link or network header contradicts the protocol.
    Malformed = "malformed",
    /// Received: an Ethernet type or address that is not ours.
    Link = "other-link",
    /// Received: the IPv4 header's checksum or an ICMP checksum does not match.
    Checksum = "checksum",
    /// Received: a fragment; fragments are not put together.
    Fragment = "fragment",
    /// Received: for an address that is not ours, broadcast and multicast included.
    NotForUs = "not-for-us",
    /// Received: from an address that no host can have, or that is our own.
    Source = "bad-source",
    /// Received: an IPv6 extension header or option that must not be passed over (RFC 8200, 4).
    Extension = "extension",
    /// Received: an ARP, neighbour discovery or ICMP message without use here.
    Ignored = "ignored",
    /// Received: an ICMP error whose quote we cannot have sent (RFC 5927).
    Quote = "implausible-quote",
    /// To be sent: the neighbour did not answer, or too many packets waited for it.
    Unresolved = "unresolved",
    /// To be sent: longer than the interface or the protocol can carry.
    TooLong = "too-long",
    /// To be sent: a reply beyond the limit of rate or number.
    RateLimited = "rate-limited",
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// What the interface has counted since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    drops: [u64; DropReason::ALL.len()],
    /// Echo requests answered.
    pub echo_replies: u64,
    /// ICMP errors sent.
    pub errors_sent: u64,
    /// Times that an ICMP error lowered a path's MTU.
    pub paths_lowered: u64,
}

impl Counters {
    /// How many frames were dropped for `reason`.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    pub(super) fn count(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }
}

/// Why a packet cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The destination is not one host's address: unspecified, loopback, multicast or broadcast.
    Destination,
    /// The interface has no address of the destination's family.
    Family,
    /// The given source is not one of the interface's addresses.
    Source,
    /// The destination is on no own subnet and there is no gateway.
    NoRoute,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unreachable::Destination => "the destination is not a host's address",
            Unreachable::Family => "the interface has no address of the destination's family",
            Unreachable::Source => "the source is not an address of the interface",
            Unreachable::NoRoute => {
                "no route to the destination: it is on no subnet, and there is no gateway"
            }
        })
    }
}

impl std::error::Error for Unreachable {}
