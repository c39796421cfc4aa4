//! The cache as a document, which a store can keep across restarts.

use std::time::Duration;

use hawser_time::Instant;
use serde::{Deserialize, Serialize};

use super::{AttemptOutcome, Cache, CacheEntry, CacheKey, CacheLimits, Retry};

/// The contents of a cache, as a document. Only [`Cache`] writes and reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    version: u32,
    entries: Vec<SnapshotEntry>,
}

/// The only supported version.
const VERSION: u32 = 1;

/// An entry. Times are milliseconds since the origin of the cache's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotEntry {
    key: CacheKey,
    outcome: AttemptOutcome,
    at_ms: u64,
    until_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry: Option<RetryRecord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryRecord {
    at_ms: u64,
    interval_ms: u64,
}

impl Cache {
    /// Returns a snapshot of the entries that are valid at `now`.
    #[must_use]
    pub fn snapshot(&self, now: Instant) -> Snapshot {
        let fresh = self.entries.iter().filter(|(_, entry)| now < entry.until);
        Snapshot {
            version: VERSION,
            entries: fresh.map(|(key, entry)| SnapshotEntry::new(key, entry)).collect(),
        }
    }

    /// Makes a cache from a snapshot. It leaves out expired entries, entries from the future (a clock was set
    /// back), entries with an impossible lifetime, and entries beyond the limit. A snapshot of an unknown
    /// version gives an empty cache.
    #[must_use]
    pub fn restore(limits: CacheLimits, snapshot: Snapshot, now: Instant) -> Cache {
        let mut cache = Cache::new(limits);
        if snapshot.version != VERSION {
            return cache;
        }
        let max_lifetime = limits
            .outcome
            .max(limits.failure)
            .saturating_add(limits.max_retry_interval);
        let mut entries: Vec<(CacheKey, CacheEntry)> = snapshot
            .entries
            .into_iter()
            .map(SnapshotEntry::into_entry)
            .collect();
        entries.retain(|(key, entry)| {
            let is_fresh = entry.at <= now && now < entry.until;
            key.is_small() && is_fresh && entry.until <= entry.at + max_lifetime
        });
        entries.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.until));
        entries.truncate(limits.entries);
        for (key, mut entry) in entries {
            entry.retry = entry.retry.map(|retry| Retry {
                at: retry.at.min(now + limits.max_retry_interval),
                interval: retry.interval.clamp(
                    limits.first_retry.min(limits.max_retry_interval),
                    limits.max_retry_interval,
                ),
            });
            cache.entries.insert(key, entry);
        }
        cache
    }
}

impl SnapshotEntry {
    fn new(key: &CacheKey, entry: &CacheEntry) -> SnapshotEntry {
        let retry = entry.retry.map(|retry| RetryRecord {
            at_ms: count(retry.at.since_origin()),
            interval_ms: count(retry.interval),
        });
        SnapshotEntry {
            key: key.clone(),
            outcome: entry.outcome,
            at_ms: count(entry.at.since_origin()),
            until_ms: count(entry.until.since_origin()),
            retry,
        }
    }

    fn into_entry(self) -> (CacheKey, CacheEntry) {
        let time = |ms| Instant::after(Duration::from_millis(ms));
        let retry = self.retry.map(|retry| Retry {
            at: time(retry.at_ms),
            interval: Duration::from_millis(retry.interval_ms),
        });
        let entry = CacheEntry {
            outcome: self.outcome,
            at: time(self.at_ms),
            until: time(self.until_ms),
            retry,
        };
        (self.key, entry)
    }
}

fn count(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
