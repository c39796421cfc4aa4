//! What was modified, by whom, and what came of it.
//!
//! Every modification is in it. A writer that sets the same variable of the same flow again and
//! again has one entry with a count, so that the log stays bounded and holds more.

use std::collections::VecDeque;

use hawser_time::Instant;

use crate::flow::Target;

/// What happened to a variable, or to an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// It was set, to this value the last time.
    Set(u64),
    /// A request to set it was refused: why.
    Refused(String),
    /// Its lease was over: it went back to the provider's own value.
    Expired,
    /// Its holder gave it back.
    Released,
    /// Its holder went away.
    HolderGone,
    /// A T-ware in the loop panicked with this message: it is called no more, and holds nothing.
    Panicked(String),
    /// Another of higher priority took it from this one.
    Lost,
    /// An attachment of this name was put there, or in place of one: which text, as [`Act::attached`]
    /// has it.
    Attached(String),
    /// It was taken off: why, where nobody asked for it; otherwise empty.
    Detached(String),
}

/// Hexadecimal digits of a text's hash in the log.
const DIGITS: usize = 16;

impl Act {
    /// That a text was attached: the log has the beginning of its SHA-256, as `sha256sum` shows it.
    #[must_use]
    pub fn attached(text: &str) -> Act {
        let hash = hmac_sha256::Hash::hash(text.as_bytes());
        let digits = hash.iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}"));
        Act::Attached(digits.collect())
    }

    /// Its name in documents.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Act::Set(_) => "set",
            Act::Refused(_) => "refused",
            Act::Expired => "expired",
            Act::Released => "released",
            Act::HolderGone => "holder_gone",
            Act::Panicked(_) => "panicked",
            Act::Lost => "lost",
            Act::Attached(_) => "attached",
            Act::Detached(_) => "detached",
        }
    }

    fn merges_with(&self, later: &Act) -> bool {
        match (self, later) {
            (Act::Set(_), Act::Set(_))
            | (Act::Expired, Act::Expired)
            | (Act::Released, Act::Released)
            | (Act::HolderGone, Act::HolderGone)
            | (Act::Lost, Act::Lost) => true,
            (Act::Refused(a), Act::Refused(b)) | (Act::Attached(a), Act::Attached(b)) => a == b,
            _ => false,
        }
    }
}

/// Where a subscriber's requests come from, as far as it is known: for the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The number of its user.
    pub user: Option<u32>,
    /// The number of its process.
    pub process: Option<u32>,
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it happened first, by the provider's clock.
    pub first: Instant,
    /// And last.
    pub last: Instant,
    /// How often.
    pub count: u64,
    /// When it happened first and last by the wall clock, where the bus has one.
    pub wall: Option<(Instant, Instant)>,
    /// The name of the subscriber or process that did it.
    pub who: String,
    /// From where.
    pub origin: Origin,
    /// Which flow; [`FlowId::ALL`](crate::FlowId::ALL) for an attachment.
    pub target: Target,
    /// Which variable, or which attachment, by name.
    pub variable: String,
    /// The variable's value before the first.
    pub before: u64,
    /// The operation.
    pub act: Act,
}

/// The last entries.
#[derive(Debug)]
pub struct Audit {
    entries: VecDeque<Entry>,
    capacity: usize,
    forgotten: u64,
}

/// How far back an entry may be to take up one more of its kind.
const NEAR: usize = 16;

impl Audit {
    /// A log of at most so many entries.
    #[must_use]
    pub fn new(capacity: usize) -> Audit {
        Audit { entries: VecDeque::new(), capacity: capacity.max(1), forgotten: 0 }
    }

    /// Adds an entry, to one before it where that is of the same kind and nothing else has happened
    /// to the variable since. Where several subscribers fight for the variable, each act of each of them has one
    /// entry, although those of the others have come in between.
    pub fn add(&mut self, entry: Entry) {
        let same = |there: &&mut Entry| there.target == entry.target && there.variable == entry.variable;
        let is_own = |there: &Entry| there.who == entry.who && there.origin == entry.origin;
        let mut near: Vec<&mut Entry> = self.entries.iter_mut().rev().take(NEAR).filter(same).collect();
        let is_fought_for = near.iter().any(|there| !is_own(there));
        near.truncate(if is_fought_for { NEAR } else { 1 });
        let like = |there: &&mut Entry| is_own(there) && there.act.merges_with(&entry.act);
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

    /// The entries, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Gives all that it has to another log, and what it has forgotten.
    pub(crate) fn drain_into(&mut self, other: &mut Audit) {
        other.forgotten += std::mem::take(&mut self.forgotten);
        self.entries.drain(..).for_each(|entry| other.add(entry));
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many entries had to go for newer ones.
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
    fn another_text_is_another_entry() {
        assert_eq!(Act::attached("abc"), Act::Attached("ba7816bf8f01cfea".into()));
        let mut audit = Audit::new(9);
        for (at, text) in ["abc", "abc", "abd", "abc"].into_iter().enumerate() {
            audit.add(entry(at as u64, "some", Act::attached(text)));
        }
        assert_eq!(audit.entries().map(|e| e.count).collect::<Vec<_>>(), [2, 1, 1]);
    }

    fn entry(at: u64, who: &str, act: Act) -> Entry {
        let at = Instant::from_nanos(at);
        Entry {
            first: at,
            last: at,
            count: 1,
            wall: Some((at, at)),
            who: who.into(),
            origin: Origin::default(),
            target: Target { source: SourceId(0), flow: FlowId(0) },
            variable: "tcp.conn.cc.cwnd".into(),
            before: 0,
            act,
        }
    }

    /// Two that take a variable from each other, for as long as they like.
    #[test]
    fn a_contest_for_a_variable_has_one_entry_for_each_act_of_each_subscriber() {
        let mut audit = Audit::new(99);
        for at in (0..4000).step_by(4) {
            audit.add(entry(at, "low", Act::Set(at)));
            audit.add(entry(at + 1, "low", Act::Lost));
            audit.add(entry(at + 2, "high", Act::Set(7)));
            audit.add(entry(at + 3, "high", Act::Expired));
        }
        let seen: Vec<_> = audit
            .entries()
            .map(|e| (e.who.as_str(), e.act.name(), e.count))
            .collect();
        // The first round of the one who is there first is not a fight yet.
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

    /// The same name is not the same subscriber: the process distinguishes them.
    #[test]
    fn entries_of_two_processes_of_one_name_are_kept_apart() {
        let mut audit = Audit::new(9);
        for process in [1, 1, 2] {
            let origin = Origin { user: Some(0), process: Some(process) };
            audit.add(Entry { origin, ..entry(5, "modify", Act::Set(1)) });
        }
        assert_eq!(audit.entries().map(|e| e.count).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn repeated_entries_are_counted_and_different_ones_kept_apart() {
        let mut audit = Audit::new(3);
        (0..1000).for_each(|at| audit.add(entry(at, "fast", Act::Set(at))));
        audit.add(entry(1000, "fast", Act::Expired));
        audit.add(entry(1001, "fast", Act::Set(5)));
        let seen: Vec<_> = audit
            .entries()
            .map(|e| (e.first.as_nanos(), e.last.as_nanos(), e.count, e.act.clone()))
            .collect();
        let want = [
            (0, 999, 1000, Act::Set(999)),
            (1000, 1000, 1, Act::Expired),
            (1001, 1001, 1, Act::Set(5)),
        ];
        assert_eq!(seen, want);
        audit.add(entry(1002, "other", Act::Refused("held".into())));
        assert_eq!((audit.entries().count(), audit.forgotten()), (3, 1));
        let mut all = Audit::new(9);
        audit.drain_into(&mut all);
        assert_eq!((all.entries().count(), all.forgotten()), (3, 1));
        assert_eq!((audit.entries().count(), audit.forgotten()), (0, 0));
    }
}
