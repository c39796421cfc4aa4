//! The Policy Information Base: profiles and policies in the order in which they apply.

use std::sync::Arc;

use crate::limits::{self, Limit};
use crate::properties::Properties;

/// The stage at which an entry applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyStage {
    /// The entry applies to requests, before the CIB: it defines the meaning of an abstract property.
    Profile,
    /// The entry applies to candidates, after the CIB.
    Policy,
}

impl PolicyStage {
    /// Returns the name in documents.
    pub fn name(self) -> &'static str {
        match self {
            PolicyStage::Profile => "profile",
            PolicyStage::Policy => "policy",
        }
    }
}

/// An entry of the PIB.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The name, in lower case, which is unique among entries of its kind.
    pub uid: Arc<str>,
    /// The stage at which it applies.
    pub kind: PolicyStage,
    /// The priority. The lowest applies first; of equal ones, the one that was added first.
    pub priority: f64,
    /// A description for people.
    pub description: Arc<str>,
    /// True if the matched properties are removed before its own are added.
    pub replace_matched: bool,
    /// The properties that must be present, with values that overlap. An empty set matches everything.
    pub matches: Properties,
    /// The alternatives that are merged onto a match, each of which makes a candidate. There is at least one.
    pub alternatives: Arc<[Properties]>,
}

impl Policy {
    fn weight(&self) -> usize {
        self.matches.len() + self.alternatives.iter().map(Properties::len).sum::<usize>()
    }
}

/// Profiles and policies.
///
/// Entries are found by their name, never by a stored index, so that other insertions and removals cannot
/// change the entry that is meant.
#[derive(Clone, Debug, Default)]
pub struct Pib {
    profiles: Vec<Arc<Policy>>,
    policies: Vec<Arc<Policy>>,
}

impl Pib {
    /// Adds an entry, and returns the one of the same name and kind that it replaces.
    ///
    /// # Errors
    /// There are too many entries. The PIB is unchanged.
    pub fn insert(&mut self, policy: Policy) -> Result<Option<Arc<Policy>>, Limit> {
        let held = self
            .iter()
            .map(|held| if is_same(held, &policy) { 0 } else { held.weight() });
        if held.sum::<usize>() + policy.weight() > limits::PROPERTIES {
            return Err(Limit::new(
                "properties in the PIB",
                limits::PROPERTIES,
                &*policy.uid,
            ));
        }
        let list = self.list_mut(policy.kind);
        let old = list.iter().position(|held| held.uid == policy.uid);
        if old.is_none() && list.len() >= limits::POLICIES {
            return Err(Limit::new("entries of a kind", limits::POLICIES, &*policy.uid));
        }
        let old = old.map(|place| list.remove(place));
        let place = list.partition_point(|held| held.priority <= policy.priority);
        list.insert(place, Arc::new(policy));
        Ok(old)
    }

    /// Removes an entry by its name, and returns it.
    pub fn remove(&mut self, kind: PolicyStage, uid: &str) -> Option<Arc<Policy>> {
        let list = self.list_mut(kind);
        let place = list.iter().position(|held| held.uid.eq_ignore_ascii_case(uid))?;
        Some(list.remove(place))
    }

    /// Returns an entry by its name.
    pub fn find(&self, kind: PolicyStage, uid: &str) -> Option<&Policy> {
        self.list(kind)
            .iter()
            .find(|held| held.uid.eq_ignore_ascii_case(uid))
            .map(|held| &**held)
    }

    /// Returns all entries: profiles, then policies, each in the order in which they apply.
    pub fn iter(&self) -> impl Iterator<Item = &Policy> {
        self.profiles.iter().chain(&self.policies).map(|held| &**held)
    }

    /// Returns the entries of a kind, in the order in which they apply.
    pub(crate) fn list(&self, kind: PolicyStage) -> &[Arc<Policy>] {
        match kind {
            PolicyStage::Profile => &self.profiles,
            PolicyStage::Policy => &self.policies,
        }
    }

    fn list_mut(&mut self, kind: PolicyStage) -> &mut Vec<Arc<Policy>> {
        match kind {
            PolicyStage::Profile => &mut self.profiles,
            PolicyStage::Policy => &mut self.policies,
        }
    }
}

fn is_same(held: &Policy, policy: &Policy) -> bool {
    (held.kind, &held.uid) == (policy.kind, &policy.uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(uid: &str, priority: f64) -> Policy {
        Policy {
            uid: uid.into(),
            kind: PolicyStage::Policy,
            priority,
            description: "".into(),
            replace_matched: false,
            matches: Properties::default(),
            alternatives: [Properties::default()].into(),
        }
    }

    fn order(pib: &Pib) -> Vec<&str> {
        pib.iter().map(|policy| &*policy.uid).collect()
    }

    #[test]
    fn policies_are_ordered_by_priority_then_age() {
        let mut pib = Pib::default();
        for (uid, priority) in [("b", 2.0), ("a", 1.0), ("c", 2.0), ("d", -1.0), ("e", 1.5)] {
            pib.insert(policy(uid, priority)).expect("there is room");
        }
        assert_eq!(order(&pib), ["d", "a", "e", "b", "c"]);
    }

    /// NEAT's manager stores an entry's index when it is added. Later insertions before it make the index
    /// stale, so that a deletion removes another entry.
    #[test]
    fn a_deletion_removes_the_named_entry() {
        let mut pib = Pib::default();
        for (uid, priority) in [("last", 9.0), ("first", 1.0), ("middle", 5.0)] {
            pib.insert(policy(uid, priority)).expect("there is room");
        }
        assert_eq!(
            pib.remove(PolicyStage::Policy, "last")
                .map(|policy| policy.uid.clone()),
            Some("last".into())
        );
        assert_eq!(order(&pib), ["first", "middle"]);
        // A newer version replaces the older one, and no other entry.
        let old = pib
            .insert(policy("first", 7.0))
            .expect("there is room")
            .expect("it was there");
        assert_eq!((&*old.uid, old.priority), ("first", 1.0));
        assert_eq!(order(&pib), ["middle", "first"]);
        assert_eq!(pib.remove(PolicyStage::Policy, "last"), None);
        assert_eq!(pib.remove(PolicyStage::Profile, "first"), None);
    }

    #[test]
    fn the_number_of_policies_is_limited() {
        let mut pib = Pib::default();
        let limit = (0..)
            .find_map(|n| pib.insert(policy(&n.to_string(), 0.0)).err())
            .expect("a limit");
        assert_eq!(
            (limit.limit, order(&pib).len()),
            (limits::POLICIES, limits::POLICIES)
        );
    }
}
