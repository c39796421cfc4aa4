//! What is remembered of races: per network, remote, transport and interface, with a lifetime.
//!
//! A transport by which several remotes did not answer, and none did, is taken for blocked on the network,
//! for remotes that were never asked as well.
//!
//! Winning, losing, failing and being blocked are kept apart. Losing is not failing: a loser was
//! only slower. Blocked is what nobody answered; it is tried again in the background, after 10 s at
//! first, then after twice as long each time, and is forgotten when the network changes. So is what
//! had a head start and lost: it may have gone unanswered as well, only nobody waited for it.
//!
//! Its clock goes on over a restart, as the time since the Unix epoch does. Invariants:
//! no more than [`Limits::entries`] are kept; an entry is never answered from past its lifetime.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hawser_time::Instant;
use serde::{Deserialize, Serialize};

use crate::candidate::{Candidate, Knowledge};
use crate::failure::Failure;

mod snapshot;
#[cfg(test)]
mod tests;

pub use snapshot::Snapshot;

/// What an outcome is remembered under. Nothing learnt on one network is used on another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// The network, opaque here: what the caller calls the one that it is attached to.
    pub network: Arc<str>,
    /// Whom it connects to, as in [`Candidate::remote`].
    pub remote: Arc<str>,
    /// The transport.
    pub transport: Arc<str>,
    /// The interface.
    pub interface: Arc<str>,
}

impl Key {
    /// A candidate's on a network.
    #[must_use]
    pub fn of(network: &Arc<str>, candidate: &Candidate) -> Key {
        Key {
            network: Arc::clone(network),
            remote: Arc::clone(&candidate.remote),
            transport: Arc::clone(&candidate.transport),
            interface: Arc::clone(&candidate.interface),
        }
    }

    /// The maximum length of each of its texts, in bytes; longer ones are not remembered.
    const MAX_TEXT_BYTES: usize = 256;

    fn is_small(&self) -> bool {
        let texts = [&self.network, &self.remote, &self.transport, &self.interface];
        texts.into_iter().all(|text| text.len() <= Key::MAX_TEXT_BYTES)
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It won, or would have: it connected within so long.
    Won {
        /// From start to success.
        took: Duration,
    },
    /// It was cancelled because another one won.
    Lost {
        /// It had been started before the winner.
        had_a_head_start: bool,
        /// How long after the victory that was seen: its entry ends when the winner's does.
        #[serde(default, skip_serializing_if = "Duration::is_zero")]
        after: Duration,
    },
    /// It failed.
    Failed(Failure),
}

/// How much is remembered, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// At most so many entries; at the limit the one goes that would expire first.
    pub entries: usize,
    /// How long winners, losers and winners that stalled are remembered.
    pub outcome: Duration,
    /// How long a peer's refusal is.
    pub failure: Duration,
    /// When a blocked one is first tried again.
    pub first_retry: Duration,
    /// The maximum time between two such tries.
    pub max_retry_interval: Duration,
}

impl Default for Limits {
    /// 1024 entries, 600 s (NEAT's), a minute, 10 s, 600 s.
    fn default() -> Limits {
        Limits {
            entries: 1024,
            outcome: Duration::from_secs(600),
            failure: Duration::from_secs(60),
            first_retry: Duration::from_secs(10),
            max_retry_interval: Duration::from_secs(600),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    outcome: Outcome,
    /// When it was recorded, and from when on it is worth nothing.
    at: Instant,
    until: Instant,
    retry: Option<Retry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Retry {
    at: Instant,
    /// The time between the last try and this one.
    interval: Duration,
}

impl Entry {
    fn is_blocked(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(why) if why.is_block())
    }
}

/// Remotes that did not answer by a transport, while none did, from which on the network is taken to
/// drop it: more than the addresses of one host of both families.
const MIN_UNRESPONSIVE: usize = 3;

/// What is remembered.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    limits: Limits,
    entries: BTreeMap<Key, Entry>,
    /// At least the number of entries of remotes that did not answer; counted anew by each search for those of a network.
    unresponsive: usize,
}

impl Cache {
    /// An empty one.
    #[must_use]
    pub fn new(limits: Limits) -> Cache {
        Cache { limits, entries: BTreeMap::new(), unresponsive: 0 }
    }

    /// How many entries there are, expired ones that nothing has displaced yet among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Remembers how an attempt ended. What only concerns this host, such as
    /// [`Failure::Local`], is not remembered, and neither is a key with a text of more than 256 bytes.
    pub fn record(&mut self, key: Key, outcome: Outcome, now: Instant) {
        let is_worth_it = match outcome {
            Outcome::Won { .. } | Outcome::Lost { .. } => true,
            Outcome::Failed(why) => why.is_block() || why.is_answer(),
        };
        if !is_worth_it || !key.is_small() || self.limits.entries == 0 {
            return;
        }
        let before = self.entries.get(&key).filter(|entry| now < entry.until).copied();
        if before.is_none() {
            self.make_room(now);
        }
        let entry = self.entry(before, outcome, now);
        self.unresponsive += usize::from(entry.retry.is_some());
        self.entries.insert(key, entry);
    }

    fn entry(&self, before: Option<Entry>, outcome: Outcome, now: Instant) -> Entry {
        let limits = &self.limits;
        let longer = before
            .and_then(|entry| entry.retry)
            .map(|retry| retry.interval.saturating_mul(2));
        let interval = longer
            .unwrap_or(limits.first_retry)
            .min(limits.max_retry_interval);
        let retry = Some(Retry { at: now + interval, interval });
        let (lifetime, retry) = match outcome {
            Outcome::Won { .. } => (limits.outcome, None),
            // Without the winner's entry beside it, a loser's would only make the race wait.
            Outcome::Lost { had_a_head_start, after } => (
                limits.outcome.saturating_sub(after),
                // A race in which its turn had not come shows nothing new, and does not put that turn off.
                before
                    .and_then(|entry| entry.retry)
                    .or(retry)
                    .filter(|_| had_a_head_start),
            ),
            Outcome::Failed(why) if why.is_block() => (limits.outcome.saturating_add(interval), retry),
            // Another handshake would prove as little: it is not probed.
            Outcome::Failed(Failure::Stalled) => (limits.outcome, None),
            Outcome::Failed(_) => (limits.failure, None),
        };
        Entry { outcome, at: now, until: now + lifetime, retry }
    }

    fn make_room(&mut self, now: Instant) {
        if self.entries.len() < self.limits.entries {
            return;
        }
        self.entries.retain(|_, entry| now < entry.until);
        while self.entries.len() >= self.limits.entries {
            // Of those that expire together, winners stay longest.
            let first = self
                .entries
                .iter()
                .min_by_key(|(_, entry)| (entry.until, matches!(entry.outcome, Outcome::Won { .. })));
            let Some(key) = first.map(|(key, _)| key.clone()) else {
                return;
            };
            self.entries.remove(&key);
        }
    }

    /// What is known of a candidate. One caller receives `probe`, and no other until it has
    /// recorded an outcome or the time of the next try has come.
    pub fn consult(&mut self, key: &Key, now: Instant) -> Knowledge {
        let Some(entry) = self.entries.get_mut(key) else {
            return self.of_network(key, now);
        };
        if entry.until <= now {
            self.entries.remove(key);
            return self.of_network(key, now);
        }
        let probe = entry.take_turn(now);
        match entry.outcome {
            Outcome::Won { took } => Knowledge::Won { took },
            Outcome::Lost { .. } => Knowledge::Lost { probe },
            Outcome::Failed(_) if entry.is_blocked() => Knowledge::Blocked { probe },
            Outcome::Failed(_) => Knowledge::Failed,
        }
    }

    /// What other remotes show of a transport on a network. Where nobody answers by it, and several were
    /// asked, it is the network that lets nothing through; it is tried again when any of these is due.
    fn of_network(&mut self, key: &Key, now: Instant) -> Knowledge {
        if self.unresponsive < MIN_UNRESPONSIVE {
            return Knowledge::Unknown;
        }
        let is_unresponsive = |entry: &&Entry| now < entry.until && entry.retry.is_some();
        self.unresponsive = self.entries.values().filter(is_unresponsive).count();
        let is_kin = |(other, entry): &(&Key, &mut Entry)| {
            let is_same = other.network == key.network
                && other.transport == key.transport
                && other.interface == key.interface;
            is_same && now < entry.until
        };
        let kin: Vec<&mut Entry> = self
            .entries
            .iter_mut()
            .filter(is_kin)
            .map(|(_, entry)| entry)
            .collect();
        // An answer, even a refusal, came through.
        let answers = |entry: &&mut Entry| match entry.outcome {
            Outcome::Won { .. } => true,
            Outcome::Failed(_) => !entry.is_blocked(),
            Outcome::Lost { .. } => false,
        };
        let unresponsive = kin.iter().filter(|entry| entry.retry.is_some()).count();
        if unresponsive < MIN_UNRESPONSIVE || kin.iter().any(answers) {
            return Knowledge::Unknown;
        }
        let turns = kin.into_iter().map(|entry| u8::from(entry.take_turn(now)));
        Knowledge::Blocked { probe: turns.max() == Some(1) }
    }

    /// When the next one of a network is to be tried.
    #[cfg(test)]
    fn next_due(&self, network: &str) -> Option<Instant> {
        let mine = self.entries.iter().filter(|(key, _)| *key.network == *network);
        mine.filter_map(|(_, entry)| entry.retry.filter(|retry| retry.at < entry.until))
            .map(|retry| retry.at)
            .min()
    }

    /// An interface or an address of this network came or went, or the caller asks for it: what was
    /// blocked, failed or lost there is forgotten. Winners stay.
    pub fn network_changed(&mut self, network: &str) {
        self.entries
            .retain(|key, entry| *key.network != *network || matches!(entry.outcome, Outcome::Won { .. }));
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

impl Entry {
    /// Whether it is time to try it; if so, the next time is later.
    fn take_turn(&mut self, now: Instant) -> bool {
        let Some(retry) = self.retry.as_mut().filter(|retry| retry.at <= now) else {
            return false;
        };
        retry.at = now + retry.interval;
        true
    }
}
