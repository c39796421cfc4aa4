//! A path candidate: what the race must know of it, and nothing of how it is done.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The caller's number for a candidate, unique within its race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CandidateId(pub u32);

/// The family of the address that is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// What protection a connection gives, from none upwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Security {
    /// None.
    #[default]
    None,
    /// Encrypted towards a peer that is not authenticated: no defence on the path.
    Encrypted,
    /// Encrypted towards an authenticated peer.
    Authenticated,
}

/// What shows that the peer is there and speaks what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Handshake {
    /// Nothing does: the transport has no handshake. It would win any race at once, so that it takes
    /// part only as the request demands ([`crate::Connectionless`]).
    Connectionless,
    /// The transport's own handshake: [`crate::Event::Connected`] wins.
    Transport,
    /// A handshake of security, on top of the transport's or in one with it:
    /// [`crate::Event::Established`] wins, [`crate::Event::Connected`] is progress alone.
    Secure,
}

/// What a SVCB or HTTPS record (RFC 9460) states of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Service {
    /// The record's SvcPriority; lower comes first. 0 is an alias and no service.
    pub priority: u16,
    /// The records name other endpoints than the one that was asked for: their order is then the
    /// owner's by every rule that sorts, and what no record names comes last (RFC 9460, 3).
    pub is_choice: bool,
}

/// A path candidate: a transport, to an address, over an interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The caller's number for it.
    pub id: CandidateId,
    /// The transport's name, opaque here; alike for candidates that stand and fall together on a
    /// network.
    pub transport: Arc<str>,
    /// Whom it connects to, opaque here: an address with its port, as text that stays the same.
    pub remote: Arc<str>,
    /// The interface that it leaves by, opaque here; empty where the system chooses.
    pub interface: Arc<str>,
    /// The family of the remote address.
    pub family: Family,
    /// The policy's class: 0 is the best. [`crate::Spacing::Priority`] turns it into a delay.
    pub priority: u16,
    /// What a SVCB or HTTPS record states of it, if one does.
    pub service: Option<Service>,
    /// Its place by rules 1 to 8 of RFC 6724, section 6, lowest first, see
    /// [`crate::rfc6724::ranks`]; alike for addresses that these rules do not distinguish. Among
    /// these, and without other knowledge, candidates stay in the order in which they were given,
    /// which should be that of rules 9 and 10.
    pub rank: u16,
    /// The round-trip time that is expected, where history shows one.
    pub round_trip: Option<Duration>,
    /// The protection that it gives.
    pub security: Security,
    /// What shows that the peer is there.
    pub handshake: Handshake,
    /// Only to be tried when the others seem to have failed: an address that was synthesized for
    /// NAT64 (RFC 8305, 7.2).
    pub is_last_resort: bool,
    /// The destination's own endpoint, while records name others: it is tried when these have failed
    /// (RFC 9460, 3).
    pub is_fallback: bool,
    /// What was learnt of it before, from [`crate::Cache::consult`].
    pub known: Knowledge,
}

impl Candidate {
    /// A candidate of class 0, of which nothing is known, that is connected when its transport is.
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

/// What the cache knows of a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Knowledge {
    /// Nothing that is still valid.
    #[default]
    Unknown,
    /// It won.
    Won {
        /// How long connecting took.
        took: Duration,
    },
    /// It was slower than another.
    Lost {
        /// It is time to try it in the background.
        probe: bool,
    },
    /// The peer refused.
    Failed,
    /// Something on the path lets nothing through.
    Blocked {
        /// It is time to try it in the background.
        probe: bool,
    },
}
