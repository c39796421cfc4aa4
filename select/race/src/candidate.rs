//! A path candidate: the properties that the race needs, without the means to connect.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The caller's number for a candidate, unique within its race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CandidateId(pub u32);

/// The family of the remote address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IP version 4.
    Ipv4,
    /// IP version 6.
    Ipv6,
}

/// The protection of a connection, in ascending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Security {
    /// The connection is not protected.
    #[default]
    None,
    /// The connection is encrypted, but the peer is not authenticated. It gives no protection from an
    /// attacker on the path.
    Encrypted,
    /// The connection is encrypted and the peer is authenticated.
    Authenticated,
}

/// The proof that the peer exists and speaks the requested protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Handshake {
    /// There is no proof, because the transport has no handshake. The candidate would win any race at once,
    /// so it takes part only as the request permits ([`crate::Connectionless`]).
    Connectionless,
    /// The transport's own handshake: [`crate::Event::Connected`] wins.
    Transport,
    /// A security handshake, on top of the transport's or combined with it: [`crate::Event::Established`]
    /// wins, while [`crate::Event::Connected`] is only progress.
    Secure,
}

/// The data of a SVCB or HTTPS record (RFC 9460) about a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServiceParameters {
    /// The record's SvcPriority. Lower comes first; 0 is an alias and not a service.
    pub priority: u16,
    /// True if the records name other endpoints than the requested one. In that case every rule that sorts
    /// follows the owner's order, and candidates that no record names come last (RFC 9460, 3).
    pub is_choice: bool,
}

/// A path candidate: a transport, to an address, over an interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The caller's number for it.
    pub id: CandidateId,
    /// The transport's name, opaque here. Candidates that a network blocks or admits together have the same
    /// name.
    pub transport: Arc<str>,
    /// The destination, opaque here: an address with its port, as a text that stays the same.
    pub remote: Arc<str>,
    /// The outgoing interface, opaque here; empty if the system chooses it.
    pub interface: Arc<str>,
    /// The family of the remote address.
    pub family: Family,
    /// The policy's class, where 0 is the best. [`crate::Spacing::Priority`] turns it into a delay.
    pub priority: u16,
    /// The data of the SVCB or HTTPS record that names it, if one does.
    pub service: Option<ServiceParameters>,
    /// Its rank by rules 1 to 8 of RFC 6724, section 6, lowest first; see [`crate::rfc6724::ranks`].
    /// Addresses that these rules do not distinguish have the same rank. Without other knowledge, candidates
    /// of one rank stay in the given order, which should be that of rules 9 and 10.
    pub rank: u16,
    /// The expected round-trip time, if earlier connections show one.
    pub round_trip: Option<Duration>,
    /// The protection of its connection.
    pub security: Security,
    /// The handshake that proves the peer.
    pub handshake: Handshake,
    /// True if it is tried only when the others seem to have failed: an address that was synthesized for
    /// NAT64 (RFC 8305, 7.2).
    pub is_last_resort: bool,
    /// True for the destination's own endpoint if records name other endpoints. It is tried when these have
    /// failed (RFC 9460, 3).
    pub is_fallback: bool,
    /// Earlier outcomes, from [`crate::Cache::consult`].
    pub known: Knowledge,
}

impl Candidate {
    /// Makes a candidate of class 0 without earlier outcomes, which is established when its transport is
    /// connected.
    pub fn new(id: CandidateId, transport: impl Into<Arc<str>>, remote: impl Into<Arc<str>>) -> Candidate {
        let remote = remote.into();
        let family = if remote.starts_with('[') {
            Family::Ipv6
        } else {
            Family::Ipv4
        };
        Candidate {
            id,
            transport: transport.into(),
            remote,
            interface: "".into(),
            family,
            priority: 0,
            service: None,
            rank: 0,
            round_trip: None,
            security: Security::None,
            handshake: Handshake::Transport,
            is_last_resort: false,
            is_fallback: false,
            known: Knowledge::Unknown,
        }
    }
}

/// The cache's knowledge about a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Knowledge {
    /// There is no valid entry.
    #[default]
    Unknown,
    /// It won.
    Won {
        /// The time that connecting took.
        took: Duration,
    },
    /// It was slower than another candidate.
    Lost {
        /// True if it is time to try it in the background.
        probe: bool,
    },
    /// The peer refused the connection.
    Failed,
    /// The path drops its packets.
    Blocked {
        /// True if it is time to try it in the background.
        probe: bool,
    },
}
