//! The log of modifications: what was changed, by which subscriber, and with which result.
//!
//! The log records every modification. Repeated writes of one writer to the same variable of a flow share one
//! entry with a count. The log is bounded, and covers a longer time in this way.

use std::collections::VecDeque;

use hawser_time::Instant;

use crate::flow::SourceFlow;

/// An operation on a variable or on an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditAction {
    /// It was set, most recently to this value.
    Set(u64),
    /// A request to set it was refused, for this reason.
    Refused(String),
    /// Its lease was over: it went back to the provider's own value.
    Expired,
    /// Its holder gave it back.
    Released,
    /// Its holder left.
    HolderGone,
    /// A T-ware in the loop panicked with this message: it is not called again, and its leases end.
    Panicked(String),
    /// Another subscriber of higher priority took it from this one.
    Lost,
    /// An attachment of this name was added or replaced. The value identifies its text, as
    /// [`AuditAction::attached`] makes it.
    Attached(String),
    /// An attachment was removed. The value is the reason, or empty if its removal was requested.
    Detached(String),
}

/// The hexadecimal digits of a text's hash in the log.
const DIGITS: usize = 16;

impl AuditAction {
    /// Makes the entry for a text that was attached: the log has the beginning of its SHA-256, as `sha256sum`
    /// prints it.
    #[must_use]
    pub fn attached(text: &str) -> AuditAction {
        let hash = hmac_sha256::Hash::hash(text.as_bytes());
        let digits = hash.iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}"));
        AuditAction::Attached(digits.collect())
    }

    /// Returns its name in documents.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            AuditAction::Set(_) => "set",
            AuditAction::Refused(_) => "refused",
            AuditAction::Expired => "expired",
            AuditAction::Released => "released",
            AuditAction::HolderGone => "holder_gone",
            AuditAction::Panicked(_) => "panicked",
            AuditAction::Lost => "lost",
            AuditAction::Attached(_) => "attached",
            AuditAction::Detached(_) => "detached",
        }
    }

    fn merges_with(&self, later: &AuditAction) -> bool {
        match (self, later) {
            (AuditAction::Set(_), AuditAction::Set(_))
            | (AuditAction::Expired, AuditAction::Expired)
            | (AuditAction::Released, AuditAction::Released)
            | (AuditAction::HolderGone, AuditAction::HolderGone)
            | (AuditAction::Lost, AuditAction::Lost) => true,
            (AuditAction::Refused(a), AuditAction::Refused(b))
            | (AuditAction::Attached(a), AuditAction::Attached(b)) => a == b,
            _ => false,
        }
    }
}

/// The origin of a subscriber's requests, as far as it is known, for the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestOrigin {
    pub user: Option<u32>,
    pub process: Option<u32>,
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// The time of the first occurrence, by the provider's clock.
    pub first: Instant,
    /// The time of the last occurrence, by the provider's clock.
    pub last: Instant,
    /// The number of occurrences.
    pub count: u64,
    /// The times of the first and the last occurrence by the wall clock, where the bus has one.
    pub wall: Option<(Instant, Instant)>,
    /// The name of the subscriber or process that did it.
    pub who: String,
    pub origin: RequestOrigin,
    /// The flow; [`FlowId::ALL`](crate::FlowId::ALL) for an attachment.
    pub target: SourceFlow,
    /// The name of the variable or of the attachment.
    pub variable: String,
    /// The variable's value before the first occurrence.
    pub before: u64,
    pub act: AuditAction,
}

/// The most recent entries, up to a capacity.
#[derive(Debug)]
pub struct Audit {
    entries: VecDeque<AuditEntry>,
    capacity: usize,
    forgotten: u64,
}

/// The number of entries that are searched, from the newest back, for one that a new entry can extend.
const NEAR: usize = 16;

impl Audit {
    /// Makes a log that keeps at most `capacity` entries.
    #[must_use]
    pub fn new(capacity: usize) -> Audit {
        Audit { entries: VecDeque::new(), capacity: capacity.max(1), forgotten: 0 }
    }

    /// Adds an entry. It extends an earlier one if that is of the same kind and the variable has not changed
    /// otherwise since. Where several subscribers contend for the variable, each subscriber has one entry for
    /// each act, even if entries of the others came in between.
    pub fn add(&mut self, entry: AuditEntry) {
        let same = |there: &&mut AuditEntry| there.target == entry.target && there.variable == entry.variable;
        let is_own = |there: &AuditEntry| there.who == entry.who && there.origin == entry.origin;
        let mut near: Vec<&mut AuditEntry> = self.entries.iter_mut().rev().take(NEAR).filter(same).collect();
        let is_fought_for = near.iter().any(|there| !is_own(there));
        near.truncate(if is_fought_for { NEAR } else { 1 });
        let like = |there: &&mut AuditEntry| is_own(there) && there.act.merges_with(&entry.act);
        if let Some(there) = near.into_iter().find(like) {
            there.last = entry.last;
            there.wall = there
                .wall
                .zip(entry.wall)
                .map(|((first, _), (_, last))| (first, last));
            there.count += entry.count;
            there.act = entry.act;
            return;
        }
        if self.entries.len() == self.capacity {
            self.entries.pop_front();
            self.forgotten += 1;
        }
        self.entries.push_back(entry);
    }

    /// Returns the entries, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &AuditEntry> {
        self.entries.iter()
    }

    /// Moves all entries, and the count of dropped ones, to another log.
    pub(crate) fn drain_into(&mut self, other: &mut Audit) {
        other.forgotten += std::mem::take(&mut self.forgotten);
        self.entries.drain(..).for_each(|entry| other.add(entry));
    }

    /// Returns whether the log has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of entries dropped for newer ones.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{FlowId, SourceId};

    /// FIPS 180-2, appendix B.1.
    #[test]
    fn different_texts_have_separate_entries() {
        assert_eq!(
            AuditAction::attached("abc"),
            AuditAction::Attached("ba7816bf8f01cfea".into())
        );
        let mut audit = Audit::new(9);
        for (at, text) in ["abc", "abc", "abd", "abc"].into_iter().enumerate() {
            audit.add(entry(at as u64, "some", AuditAction::attached(text)));
        }
        assert_eq!(audit.entries().map(|e| e.count).collect::<Vec<_>>(), [2, 1, 1]);
    }

    fn entry(at: u64, who: &str, act: AuditAction) -> AuditEntry {
        let at = Instant::from_nanos(at);
        AuditEntry {
            first: at,
            last: at,
            count: 1,
            wall: Some((at, at)),
            who: who.into(),
            origin: RequestOrigin::default(),
            target: SourceFlow { source: SourceId(0), flow: FlowId(0) },
            variable: "tcp.conn.cc.cwnd".into(),
            before: 0,
            act,
        }
    }

    /// Two subscribers take a variable from each other many times.
    #[test]
    fn a_contested_variable_has_one_entry_per_act_and_subscriber() {
        let mut audit = Audit::new(99);
        for at in (0..4000).step_by(4) {
            audit.add(entry(at, "low", AuditAction::Set(at)));
            audit.add(entry(at + 1, "low", AuditAction::Lost));
            audit.add(entry(at + 2, "high", AuditAction::Set(7)));
            audit.add(entry(at + 3, "high", AuditAction::Expired));
        }
        let seen: Vec<_> = audit
            .entries()
            .map(|e| (e.who.as_str(), e.act.name(), e.count))
            .collect();
        // The first round of the subscriber that came first is not a contest yet.
        assert_eq!(
            seen,
            [
                ("low", "set", 1000),
                ("low", "lost", 1000),
                ("high", "set", 1000),
                ("high", "expired", 1000)
            ]
        );
        let [first, last] = [0, 3996].map(Instant::from_nanos);
        assert_eq!(
            audit.entries().next().map(|e| (e.first, e.last, e.wall)),
            Some((first, last, Some((first, last))))
        );
    }

    /// Two subscribers of the same name are distinguished by their processes.
    #[test]
    fn entries_of_two_processes_of_one_name_are_kept_apart() {
        let mut audit = Audit::new(9);
        for process in [1, 1, 2] {
            let origin = RequestOrigin { user: Some(0), process: Some(process) };
            audit.add(AuditEntry { origin, ..entry(5, "modify", AuditAction::Set(1)) });
        }
        assert_eq!(audit.entries().map(|e| e.count).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn repeated_entries_are_counted_and_different_ones_kept_apart() {
        let mut audit = Audit::new(3);
        (0..1000).for_each(|at| audit.add(entry(at, "fast", AuditAction::Set(at))));
        audit.add(entry(1000, "fast", AuditAction::Expired));
        audit.add(entry(1001, "fast", AuditAction::Set(5)));
        let seen: Vec<_> = audit
            .entries()
            .map(|e| (e.first.as_nanos(), e.last.as_nanos(), e.count, e.act.clone()))
            .collect();
        let want = [
            (0, 999, 1000, AuditAction::Set(999)),
            (1000, 1000, 1, AuditAction::Expired),
            (1001, 1001, 1, AuditAction::Set(5)),
        ];
        assert_eq!(seen, want);
        audit.add(entry(1002, "other", AuditAction::Refused("held".into())));
        assert_eq!((audit.entries().count(), audit.forgotten()), (3, 1));
        let mut all = Audit::new(9);
        audit.drain_into(&mut all);
        assert_eq!((all.entries().count(), all.forgotten()), (3, 1));
        assert_eq!((audit.entries().count(), audit.forgotten()), (0, 0));
    }
}
