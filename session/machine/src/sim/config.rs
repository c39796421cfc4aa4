//! The configuration of a world.

use std::time::Duration;

use crate::Config;
use hawser_race::Profile;

use crate::sim::link::{Fault, SimLink};
use crate::sim::side::Side;
use crate::sim::transfer::Transfer;

/// The configuration of a world. Times are measured from the start.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// The links. Path `n` of the session is link `n`.
    pub links: Vec<SimLink>,
    /// The number of round trips until a carrier on the link of the same index can be used. QUIC needs 1, TCP
    /// with TLS 1.3 needs 2.
    pub handshakes: Vec<u32>,
    /// The length of the server's handshake flight in bytes, mainly its certificates.
    pub flight: usize,
    /// The configuration of both sides' sessions. If it has no candidates, the client has one for each link.
    pub session: Config,
    /// The rules of a race of all links for the session's first carrier. If `None`, the carrier's candidate
    /// determines its link.
    pub race: Option<Profile>,
    /// The faults: time, link and kind.
    pub faults: Vec<(Duration, usize, Fault)>,
    /// The transfers of the applications.
    pub transfers: Vec<Transfer>,
    /// The seed of all random decisions.
    pub seed: u64,
    /// The time at which the run ends, even if it is not done.
    pub until: Duration,
}

impl WorldConfig {
    /// Creates a configuration with these links, handshakes of two round trips and the default session,
    /// without transfers and faults.
    pub fn new(links: Vec<SimLink>) -> Self {
        Self {
            handshakes: vec![2; links.len()],
            flight: 2_500,
            links,
            session: Config::default(),
            race: None,
            faults: Vec::new(),
            transfers: Vec::new(),
            seed: 1,
            until: Duration::from_secs(600),
        }
    }

    /// Adds a transfer that begins at once and is read as fast as it arrives.
    pub fn transfer(mut self, from: Side, bytes: u64) -> Self {
        self.transfers
            .push(Transfer { from, bytes, at: Duration::ZERO, read_rate: 0 });
        self
    }

    /// Adds a fault.
    pub fn fault(mut self, at: Duration, link: usize, fault: Fault) -> Self {
        self.faults.push((at, link, fault));
        self
    }
}
