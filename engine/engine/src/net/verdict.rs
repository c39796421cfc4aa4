//! The outcomes of frames, and their counters.

use std::fmt;

use hawser_ir::abi::{Csum, Icmp, Net};

/// The content of a received frame for the engine.
#[derive(Clone, Copy, Debug)]
pub enum Ingress<'a> {
    /// A packet for a transport program.
    Packet {
        /// The network header.
        net: Net,
        /// The packet from its transport header on, with all headers.
        head: &'a [u8],
        /// The rest of the packet if the wire stores the payload elsewhere.
        tail: &'a [u8],
        /// The offset of `head` in the frame, from which addresses of payload are computed.
        head_offset: u32,
        /// The state of the transport checksum.
        csum: Csum,
    },
    /// A packet that is shorter than its network header states, because a switch has cut off its data rather
    /// than drop it. [`super::Interface::refuse_trimmed`] counts one that no program takes.
    Trimmed {
        /// The network header as it was sent: `tot_len` is the original length.
        net: Net,
        /// The received bytes from the transport header on.
        head: &'a [u8],
        /// The rest of the received bytes if the wire stores them elsewhere.
        tail: &'a [u8],
    },
    /// An ICMP error about a packet that this host may have sent. The program checks that the quoted ports
    /// and sequence number are in use (RFC 5927, 4).
    IcmpError {
        /// The quoted network header, as it was sent: the source is this host.
        net: Net,
        /// The quoted packet from its transport header on; often no more than 8 bytes.
        quoted: &'a [u8],
        /// The offset of `quoted` in the frame.
        quoted_offset: u32,
        /// The content of the error.
        icmp: Icmp,
    },
    /// A frame that the network layer has handled (ARP, neighbour discovery, echo); replies are in
    /// [`super::Interface::outgoing`].
    Done,
    /// A frame that is malformed or not for us; it has been counted.
    Drop(DropReason),
}

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $name:ident = $label:literal),* $(,)?) => {
        /// The reason for which a frame was dropped. Each has a counter in [`InterfaceCounters`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DropReason {
            $($(#[$doc])* $name),*
        }

        impl DropReason {
            /// All reasons, in order.
            pub const ALL: &[DropReason] = &[$(DropReason::$name),*];

            /// Returns a short name for tables and JSON.
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
    /// Received: a fragment; fragments are not reassembled.
    Fragment = "fragment",
    /// Received: for an address that is not ours, broadcast and multicast included.
    NotForUs = "not-for-us",
    /// Received: from an address that no host can have, or from our own.
    Source = "bad-source",
    /// Received: an IPv6 extension header or option that must not be passed over (RFC 8200, 4).
    Extension = "extension",
    /// Received: an ARP, neighbour discovery or ICMP message that has no use here.
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

/// The counters of an interface since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    drops: [u64; DropReason::ALL.len()],
    /// Echo requests answered.
    pub echo_replies: u64,
    /// ICMP errors sent.
    pub errors_sent: u64,
    /// Number of times that an ICMP error lowered a path's MTU.
    pub paths_lowered: u64,
}

impl InterfaceCounters {
    /// Returns the number of frames dropped for `reason`.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    pub(super) fn count(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }
}

/// A packet cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// The destination is not one host's address: unspecified, loopback, multicast or broadcast.
    #[error("the destination is not a host's address")]
    Destination,
    /// The interface has no address of the destination's family.
    #[error("the interface has no address of the destination's family")]
    Family,
    /// The given source is not one of the interface's addresses.
    #[error("the source is not an address of the interface")]
    Source,
    /// The destination is on no subnet of ours, and there is no gateway.
    #[error("no route to the destination: no subnet contains it, and no gateway is set")]
    NoRoute,
}
