//! What was modified, by whom, and what came of it.
//!
//! Every modification is in it. A writer that sets the same variable of the same flow again and
//! again has one entry with a count, so that the log stays bounded and says more.

use std::collections::VecDeque;

use sha2::{Digest as _, Sha256};

use crate::Nanos;
use crate::flow::Target;

/// What happened to a variable, or to an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// It was set, to this value the last time.
    Set(u64),
    /// A wish to set it was turned down: why.
    Refused(String),
    /// Its lease was over: it went back to the law's value.
    Expired,
    /// Its holder gave it back.
    Released,
    /// Its holder went away.
    HolderGone,
    /// A T-ware in the loop panicked, saying this: it is called no more, and holds nothing.
    Panicked(String),
    /// Another of higher priority took it from this one.
    Lost,
    /// An attachment of this name was put there, or in place of one: which text, as [`Act::attached`]
    /// has it.
    Attached(String),
    /// It was taken off.
    Detached,
}

/// Hexadecimal digits of a text's hash in the log.
const DIGITS: usize = 16;

impl Act {
    /// That a text was attached: the log has the beginning of its SHA-256, as `sha256sum` shows it.
    #[must_use]
    pub fn attached(text: &str) -> Act {
        let hash = Sha256::digest(text);
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
            Act::Detached => "detached",
        }
    }

    fn merges_with(&self, later: &Act) -> bool {
        match (self, later) {
            (Act::Set(_), Act::Set(_)) => true,
            (Act::Refused(a), Act::Refused(b)) | (Act::Attached(a), Act::Attached(b)) => a == b,
            _ => false,
        }
    }
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it happened first, by the provider's clock.
    pub first: Nanos,
    /// And last.
    pub last: Nanos,
    /// How often.
    pub count: u64,
    /// Who.
    pub who: String,
    /// Which flow; [`FlowId::ALL`](crate::FlowId::ALL) for an attachment.
    pub target: Target,
    /// Which variable, or which attachment, by name.
    pub variable: String,
    /// The variable's value before the first.
    pub before: u64,
    /// What.
    pub act: Act,
}

/// The last entries.
#[derive(Debug)]
pub struct Audit {
    entries: VecDeque<Entry>,
    most: usize,
    forgotten: u64,
}

/// How far back an entry may be to take up one more of its kind.
const NEAR: usize = 16;

impl Audit {
    /// A log of at most so many entries.
    #[must_use]
    pub fn new(most: usize) -> Audit {
        Audit { entries: VecDeque::new(), most: most.max(1), forgotten: 0 }
    }

    /// Adds an entry, to one before it where that is of the same kind and nothing else has happened
    /// to the variable since.
    pub fn add(&mut self, entry: Entry) {
        let same = |there: &&mut Entry| there.target == entry.target && there.variable == entry.variable;
        if let Some(there) = self.entries.iter_mut().rev().take(NEAR).find(same)
            && there.who == entry.who
            && there.act.merges_with(&entry.act)
        {
            there.last = entry.last;
            there.count += entry.count;
            there.act = entry.act;
            return;
        }
        if self.entries.len() == self.most {
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
            audit.add(entry(at as Nanos, "some", Act::attached(text)));
        }
        assert_eq!(audit.entries().map(|e| e.count).collect::<Vec<_>>(), [2, 1, 1]);
    }

    fn entry(at: Nanos, who: &str, act: Act) -> Entry {
        Entry {
            first: at,
            last: at,
            count: 1,
            who: who.into(),
            target: Target { source: SourceId(0), flow: FlowId(0) },
            variable: "tcp.conn.cc.cwnd".into(),
            before: 0,
            act,
        }
    }

    #[test]
    fn what_repeats_is_counted_and_what_differs_is_kept_apart() {
        let mut audit = Audit::new(3);
        (0..1000).for_each(|at| audit.add(entry(at, "fast", Act::Set(at))));
        audit.add(entry(1000, "fast", Act::Expired));
        audit.add(entry(1001, "fast", Act::Set(5)));
        let seen: Vec<_> = audit.entries().map(|e| (e.first, e.last, e.count, e.act.clone())).collect();
        let want =
            [(0, 999, 1000, Act::Set(999)), (1000, 1000, 1, Act::Expired), (1001, 1001, 1, Act::Set(5))];
        assert_eq!(seen, want);
        audit.add(entry(1002, "other", Act::Refused("held".into())));
        assert_eq!((audit.entries().count(), audit.forgotten()), (3, 1));
        let mut all = Audit::new(9);
        audit.drain_into(&mut all);
        assert_eq!((all.entries().count(), all.forgotten()), (3, 1));
        assert_eq!((audit.entries().count(), audit.forgotten()), (0, 0));
    }
}
