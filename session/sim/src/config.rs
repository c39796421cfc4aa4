//! What a world is made of.

use std::time::Duration;

use hawser_race::Profile;
use hawser_session::Config;

use crate::link::{Fault, Link};
use crate::side::Side;
use crate::transfer::Transfer;

/// What a world is made of. Times are spans since the start.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// Path `n` of the session is link `n`.
    pub links: Vec<Link>,
    /// Round trips until a carrier on the link of the same number can be used: 1 for QUIC, 2 for TCP
    /// with TLS 1.3.
    pub handshakes: Vec<u32>,
    /// Bytes of the server's flight of the handshake: its certificates above all.
    pub flight: usize,
    /// Both sides' sessions. The client's candidates: one for each link if there are none.
    pub session: Config,
    /// The rules of a race of all links for the session's first carrier; none: its candidate states which.
    pub race: Option<Profile>,
    /// What happens to which link, and when.
    pub faults: Vec<(Duration, usize, Fault)>,
    /// The transfers.
    pub transfers: Vec<Transfer>,
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// The run ends then, done or not.
    pub until: Duration,
}

impl WorldConfig {
    /// Links, handshakes of two round trips, the default session; nothing to do and no fault yet.
    pub fn new(links: Vec<Link>) -> Self {
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

    /// The same with a transfer that begins at once and is read as fast as it comes.
    pub fn transfer(mut self, from: Side, bytes: u64) -> Self {
        self.transfers
            .push(Transfer { from, bytes, at: Duration::ZERO, read_rate: 0 });
        self
    }

    /// The same with a fault.
    pub fn fault(mut self, at: Duration, link: usize, fault: Fault) -> Self {
        self.faults.push((at, link, fault));
        self
    }
}
