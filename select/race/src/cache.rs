//! The outcomes of races: per network, remote, transport and interface, with a lifetime.
//!
//! If several remotes did not answer over a transport, and no remote did, the transport counts as blocked on
//! the network. This also applies to remotes that were never asked.
//!
//! Winning, losing, failing and being blocked are distinct. Losing is not failing: a loser was only slower. A
//! candidate is blocked if no answer came. It is tried again in the background, after 10 s at first, then
//! after twice the time of the previous try. It is forgotten when the network changes. The same applies to a
//! candidate that had a head start and lost. It may have had no answer either, but the race did not wait for
//! one.
//!
//! The cache's clock continues over a restart, like the time since the Unix epoch. Invariants: the cache
//! keeps no more than [`CacheLimits::entries`] entries, and never answers from an expired entry.

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

/// The key of an outcome. Outcomes of one network are not used on another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CacheKey {
    /// The caller's name for the network that it is attached to, opaque here.
    pub network: Arc<str>,
    /// The destination, as in [`Candidate::remote`].
    pub remote: Arc<str>,
    /// The name of the transport.
    pub transport: Arc<str>,
    /// The name of the interface.
    pub interface: Arc<str>,
}

impl CacheKey {
    /// Returns the key of a candidate on a network.
    #[must_use]
    pub fn new(network: &Arc<str>, candidate: &Candidate) -> CacheKey {
        CacheKey {
            network: Arc::clone(network),
            remote: Arc::clone(&candidate.remote),
            transport: Arc::clone(&candidate.transport),
            interface: Arc::clone(&candidate.interface),
        }
    }

    /// The maximum length of each text of a key, in bytes. An outcome with a longer text is not recorded.
    const MAX_TEXT_BYTES: usize = 256;

    fn is_small(&self) -> bool {
        let texts = [&self.network, &self.remote, &self.transport, &self.interface];
        texts
            .into_iter()
            .all(|text| text.len() <= CacheKey::MAX_TEXT_BYTES)
    }
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptOutcome {
    /// It won, or would have won.
    Won {
        /// The time from start to success.
        took: Duration,
    },
    /// It was cancelled because another one won.
    Lost {
        /// True if it had been started before the winner.
        had_a_head_start: bool,
        /// The time from the victory to this outcome. The loser's entry expires together with the winner's.
        #[serde(default, skip_serializing_if = "Duration::is_zero")]
        after: Duration,
    },
    /// It failed for this reason.
    Failed(Failure),
}

/// Limits on the number of entries, and their lifetimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// The largest number of entries. At the limit, the entry that would expire first is removed.
    pub entries: usize,
    /// The lifetime of entries of winners, losers and winners that stalled.
    pub outcome: Duration,
    /// The lifetime of a peer's refusal.
    pub failure: Duration,
    /// The time until a blocked candidate is first tried again.
    pub first_retry: Duration,
    /// The maximum time between two such tries.
    pub max_retry_interval: Duration,
}

impl Default for CacheLimits {
    /// Returns 1024 entries and lifetimes of 600 s (NEAT's), a minute, 10 s and 600 s.
    fn default() -> CacheLimits {
        CacheLimits {
            entries: 1024,
            outcome: Duration::from_secs(600),
            failure: Duration::from_secs(60),
            first_retry: Duration::from_secs(10),
            max_retry_interval: Duration::from_secs(600),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CacheEntry {
    outcome: AttemptOutcome,
    /// The times of recording and of expiry.
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

impl CacheEntry {
    fn is_blocked(&self) -> bool {
        matches!(self.outcome, AttemptOutcome::Failed(why) if why.is_block())
    }
}

/// The number of remotes without an answer over a transport from which on the network counts as blocking it,
/// if no remote answers. It is larger than the number of addresses of one host of both families.
const MIN_UNRESPONSIVE: usize = 3;

/// The recorded outcomes.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    limits: CacheLimits,
    entries: BTreeMap<CacheKey, CacheEntry>,
    /// An upper bound on the number of entries of remotes that did not answer. Each search for those of a
    /// network counts them anew.
    unresponsive: usize,
}

impl Cache {
    /// Makes an empty cache.
    #[must_use]
    pub fn new(limits: CacheLimits) -> Cache {
        Cache { limits, entries: BTreeMap::new(), unresponsive: 0 }
    }

    /// Returns the number of entries, including expired ones that were not removed yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the cache has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Records the result of an attempt. A result that concerns only this host, such as [`Failure::Local`],
    /// is not recorded, nor is a key with a text of more than 256 bytes.
    pub fn record(&mut self, key: CacheKey, outcome: AttemptOutcome, now: Instant) {
        let is_worth_it = match outcome {
            AttemptOutcome::Won { .. } | AttemptOutcome::Lost { .. } => true,
            AttemptOutcome::Failed(why) => why.is_block() || why.is_answer(),
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

    fn entry(&self, before: Option<CacheEntry>, outcome: AttemptOutcome, now: Instant) -> CacheEntry {
        let limits = &self.limits;
        let longer = before
            .and_then(|entry| entry.retry)
            .map(|retry| retry.interval.saturating_mul(2));
        let interval = longer
            .unwrap_or(limits.first_retry)
            .min(limits.max_retry_interval);
        let retry = Some(Retry { at: now + interval, interval });
        let (lifetime, retry) = match outcome {
            AttemptOutcome::Won { .. } => (limits.outcome, None),
            // A loser's entry without its winner's would only make the race wait.
            AttemptOutcome::Lost { had_a_head_start, after } => (
                limits.outcome.saturating_sub(after),
                // A race before the loser's next turn gives no new information, so it does not postpone that
                // turn.
                before
                    .and_then(|entry| entry.retry)
                    .or(retry)
                    .filter(|_| had_a_head_start),
            ),
            AttemptOutcome::Failed(why) if why.is_block() => (limits.outcome.saturating_add(interval), retry),
            // Another handshake would prove as little, so the candidate is not probed.
            AttemptOutcome::Failed(Failure::Stalled) => (limits.outcome, None),
            AttemptOutcome::Failed(_) => (limits.failure, None),
        };
        CacheEntry { outcome, at: now, until: now + lifetime, retry }
    }

    fn make_room(&mut self, now: Instant) {
        if self.entries.len() < self.limits.entries {
            return;
        }
        self.entries.retain(|_, entry| now < entry.until);
        while self.entries.len() >= self.limits.entries {
            // Of entries that expire together, winners are removed last.
            let first = self
                .entries
                .iter()
                .min_by_key(|(_, entry)| (entry.until, matches!(entry.outcome, AttemptOutcome::Won { .. })));
            let Some(key) = first.map(|(key, _)| key.clone()) else {
                return;
            };
            self.entries.remove(&key);
        }
    }

    /// Returns the knowledge about a candidate. After one caller has received `probe`, no other receives it
    /// until an outcome is recorded or the next try is due.
    pub fn consult(&mut self, key: &CacheKey, now: Instant) -> Knowledge {
        let Some(entry) = self.entries.get_mut(key) else {
            return self.of_network(key, now);
        };
        if entry.until <= now {
            self.entries.remove(key);
            return self.of_network(key, now);
        }
        let probe = entry.take_turn(now);
        match entry.outcome {
            AttemptOutcome::Won { took } => Knowledge::Won { took },
            AttemptOutcome::Lost { .. } => Knowledge::Lost { probe },
            AttemptOutcome::Failed(_) if entry.is_blocked() => Knowledge::Blocked { probe },
            AttemptOutcome::Failed(_) => Knowledge::Failed,
        }
    }

    /// Infers knowledge about a candidate from other remotes with the same transport and network. If several
    /// were asked and none answered, the network blocks the transport. It is tried again when one of these
    /// remotes is due.
    fn of_network(&mut self, key: &CacheKey, now: Instant) -> Knowledge {
        if self.unresponsive < MIN_UNRESPONSIVE {
            return Knowledge::Unknown;
        }
        let is_unresponsive = |entry: &&CacheEntry| now < entry.until && entry.retry.is_some();
        self.unresponsive = self.entries.values().filter(is_unresponsive).count();
        let is_kin = |(other, entry): &(&CacheKey, &mut CacheEntry)| {
            let is_same = other.network == key.network
                && other.transport == key.transport
                && other.interface == key.interface;
            is_same && now < entry.until
        };
        let kin: Vec<&mut CacheEntry> = self
            .entries
            .iter_mut()
            .filter(is_kin)
            .map(|(_, entry)| entry)
            .collect();
        // Any answer, even a refusal, shows that the network does not block the transport.
        let answers = |entry: &&mut CacheEntry| match entry.outcome {
            AttemptOutcome::Won { .. } => true,
            AttemptOutcome::Failed(_) => !entry.is_blocked(),
            AttemptOutcome::Lost { .. } => false,
        };
        let unresponsive = kin.iter().filter(|entry| entry.retry.is_some()).count();
        if unresponsive < MIN_UNRESPONSIVE || kin.iter().any(answers) {
            return Knowledge::Unknown;
        }
        let turns = kin.into_iter().map(|entry| u8::from(entry.take_turn(now)));
        Knowledge::Blocked { probe: turns.max() == Some(1) }
    }

    /// Returns the time of the next try on a network.
    #[cfg(test)]
    fn next_due(&self, network: &str) -> Option<Instant> {
        let mine = self.entries.iter().filter(|(key, _)| *key.network == *network);
        mine.filter_map(|(_, entry)| entry.retry.filter(|retry| retry.at < entry.until))
            .map(|retry| retry.at)
            .min()
    }

    /// Removes the blocked, failed and lost entries of a network; winners stay. It is called when an
    /// interface or an address of this network appeared or disappeared, or at any time the caller chooses.
    pub fn network_changed(&mut self, network: &str) {
        self.entries.retain(|key, entry| {
            *key.network != *network || matches!(entry.outcome, AttemptOutcome::Won { .. })
        });
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

impl CacheEntry {
    /// Returns whether a try is due, and if so, schedules the next one.
    fn take_turn(&mut self, now: Instant) -> bool {
        let Some(retry) = self.retry.as_mut().filter(|retry| retry.at <= now) else {
            return false;
        };
        retry.at = now + retry.interval;
        true
    }
}
