//! The stages of a ranking, with their limits.

use std::sync::Arc;

use super::explain::{ChangeSource, Rejection, RejectionReason, Trail};
use super::{Candidate, Options, Ranking, sort};
use crate::cib::Row;
use crate::limits::{self, Budget, Limit};
use crate::names::{Key, keys};
use crate::pib::{Policy, PolicyStage};
use crate::properties::{Conflict, Properties};
use crate::property::{Merge, Precedence, Property};
use crate::value::Value;

/// The number of rows beyond those that are kept, at which the worse ones are dropped.
const SLACK: usize = 64;

/// A ranking in progress.
pub(super) struct Lookup<'o> {
    options: &'o Options,
    budget: Budget,
    rejections: Vec<Rejection>,
    unlisted: usize,
}

impl<'o> Lookup<'o> {
    pub(super) fn new(options: &'o Options) -> Self {
        Self { options, budget: Budget::new(), rejections: Vec::new(), unlisted: 0 }
    }

    pub(super) fn is_explaining(&self) -> bool {
        self.options.explain
    }

    pub(super) fn begin(&self, source: ChangeSource, properties: &Properties) -> Trail {
        if self.is_explaining() {
            Trail::begin(source, properties)
        } else {
            Trail::default()
        }
    }

    pub(super) fn finish(self, candidates: Vec<Candidate>) -> Ranking {
        Ranking { candidates, rejections: self.rejections, unlisted: self.unlisted }
    }

    /// Applies the matching policies in order. Each alternative makes a candidate of its own.
    pub(super) fn apply(
        &mut self,
        policies: &[Arc<Policy>],
        mut candidates: Vec<Candidate>,
    ) -> Result<Vec<Candidate>, Limit> {
        for policy in policies {
            self.budget.spend(candidates.len(), &policy.uid)?;
            if !candidates
                .iter()
                .any(|candidate| candidate.properties.cover(&policy.matches))
            {
                continue;
            }
            if let [only] = &*policy.alternatives
                && !self.is_explaining()
            {
                self.apply_in_place(policy, only, &mut candidates)?;
                bounded(&candidates, &policy.uid)?;
                continue;
            }
            let mut after = Vec::with_capacity(candidates.len());
            for candidate in candidates {
                if candidate.properties.cover(&policy.matches) {
                    self.apply_one(policy, candidate, &mut after)?;
                } else {
                    after.push(candidate);
                }
            }
            bounded(&after, &policy.uid)?;
            candidates = after;
        }
        candidates
            .iter_mut()
            .for_each(|candidate| candidate.score = candidate.properties.score());
        Ok(candidates)
    }

    /// Does the work of [`Self::apply_one`] for a single alternative without an explanation, in which case no
    /// candidate is moved. The caller computes the scores.
    fn apply_in_place(
        &mut self,
        policy: &Policy,
        alternative: &Properties,
        candidates: &mut Vec<Candidate>,
    ) -> Result<(), Limit> {
        let mut spent = 0;
        candidates.retain_mut(|Candidate { properties, .. }| {
            if !properties.cover(&policy.matches) {
                return true;
            }
            if policy.replace_matched {
                policy
                    .matches
                    .iter()
                    .for_each(|(key, _)| drop(properties.remove(key)));
            }
            spent += properties.len() + alternative.len();
            properties.merge(alternative, |_, _| ()).is_ok()
        });
        self.budget.spend(spent, &policy.uid)
    }

    fn apply_one(
        &mut self,
        policy: &Policy,
        mut candidate: Candidate,
        after: &mut Vec<Candidate>,
    ) -> Result<(), Limit> {
        let before = self.is_explaining().then(|| candidate.properties.clone());
        if policy.replace_matched {
            for (key, _) in policy.matches.iter() {
                candidate.properties.remove(key);
            }
        }
        // The last alternative takes the candidate itself.
        let mut candidate = Some(candidate);
        for (place, alternative) in policy.alternatives.iter().enumerate() {
            let last = place + 1 == policy.alternatives.len();
            let next = if last { candidate.take() } else { candidate.clone() };
            let Some(Candidate { mut properties, trail, .. }) = next else {
                break;
            };
            self.budget
                .spend(properties.len() + alternative.len(), &policy.uid)?;
            let source = || match policy.kind {
                PolicyStage::Profile => ChangeSource::Profile(policy.uid.clone()),
                PolicyStage::Policy => ChangeSource::Policy(policy.uid.clone()),
            };
            match self.merge(&mut properties, alternative) {
                Ok(merged) => {
                    let trail = match &before {
                        Some(before) => trail.then(source(), before, &properties, &merged),
                        None => trail,
                    };
                    after.push(Candidate::new(properties, trail));
                    if after.len() > limits::CANDIDATES {
                        let limit = limits::CANDIDATES;
                        return Err(Limit::new("candidates under way", limit, &*policy.uid));
                    }
                }
                Err(conflict) => {
                    let candidate = before.as_ref().unwrap_or(&properties);
                    self.reject(
                        candidate,
                        || Some(source()),
                        || RejectionReason::Conflict(Box::new(conflict)),
                    );
                }
            }
        }
        Ok(())
    }

    /// Returns the best candidates that the rows make of one request, including the request by itself.
    pub(super) fn rows(&mut self, rows: &[Row], request: Candidate) -> Result<Vec<Candidate>, Limit> {
        let max_rows = self.options.rows;
        let mut found = vec![request.clone()];
        let immutable = |(_, property): &(Key, &Property)| property.precedence == Precedence::Immutable;
        let required: Vec<(Key, &Property)> = request.properties.iter().filter(immutable).collect();
        for row in rows {
            let place = row.path.first().map_or("", |uid| uid);
            self.budget.spend(1 + required.len(), place)?;
            let source = || Some(ChangeSource::Row(row.path.clone(), row.beside.clone()));
            if let Some(why) = lacks(row, &required) {
                self.reject(&request.properties, source, || why);
                continue;
            }
            self.budget
                .spend(row.properties.len() + request.properties.len(), place)?;
            let mut properties = row.properties.clone();
            match self.merge(&mut properties, &request.properties) {
                Ok(merged) => {
                    let trail = match source() {
                        Some(source) if self.is_explaining() => {
                            request
                                .trail
                                .then(source, &request.properties, &properties, &of_row(row, merged))
                        }
                        _ => Trail::default(),
                    };
                    found.push(Candidate::new(properties, trail));
                    if found.len() > max_rows + SLACK {
                        sort(&mut found);
                        self.cut(&mut found, max_rows);
                    }
                }
                Err(conflict) => {
                    self.reject(&request.properties, source, || {
                        RejectionReason::Conflict(Box::new(conflict))
                    });
                }
            }
        }
        sort(&mut found);
        self.cut(&mut found, max_rows);
        Ok(found)
    }

    /// Adds candidates to others, without duplicates.
    pub(super) fn join(&mut self, to: &mut Vec<Candidate>, new: Vec<Candidate>) -> Result<(), Limit> {
        for candidate in new {
            self.budget.spend(to.len(), "duplicates")?;
            if to
                .iter()
                .any(|held| held.properties.same_values(&candidate.properties))
            {
                self.reject(&candidate.properties, || None, || RejectionReason::Duplicate);
            } else {
                to.push(candidate);
            }
        }
        bounded(to, "the whole request")
    }

    /// Removes banned values, and splits a set of transports into a candidate for each.
    pub(super) fn single(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Candidate>, Limit> {
        let mut all = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let Some(candidate) = self.without_banned(candidate) else {
                continue;
            };
            let transport = candidate.properties.find(keys::TRANSPORT);
            let Some(Property { value: Value::Set(transports), .. }) = transport else {
                all.push(candidate);
                continue;
            };
            for transport in transports.clone().iter() {
                let mut properties = candidate.properties.clone();
                if let Some(property) = candidate.properties.find(keys::TRANSPORT) {
                    let value = Value::One(transport.clone());
                    properties.set(keys::TRANSPORT, Property { value, ..property.clone() });
                }
                let trail = self.follow(
                    &candidate,
                    ChangeSource::Transports,
                    &properties,
                    &[keys::TRANSPORT],
                );
                all.push(Candidate::new(properties, trail));
            }
            bounded(&all, "sets of transports")?;
        }
        Ok(all)
    }

    fn without_banned(&mut self, mut candidate: Candidate) -> Option<Candidate> {
        let mut changed = Vec::new();
        for (key, property) in candidate
            .properties
            .iter()
            .filter(|(_, one)| !one.banned.is_empty())
        {
            let left = property
                .banned
                .iter()
                .try_fold(property.value.clone(), |value, banned| value.without(banned));
            match left {
                None => {
                    let why = || RejectionReason::Banned(key);
                    self.reject(&candidate.properties, || Some(ChangeSource::Banned), why);
                    return None;
                }
                Some(value) if value != property.value => {
                    changed.push((key, Property { value, ..property.clone() }));
                }
                Some(_) => {}
            }
        }
        if !changed.is_empty() {
            let keys: Vec<Key> = changed.iter().map(|(key, _)| *key).collect();
            let mut properties = candidate.properties.clone();
            changed
                .into_iter()
                .for_each(|(key, property)| properties.set(key, property));
            let trail = self.follow(&candidate, ChangeSource::Banned, &properties, &keys);
            candidate = Candidate::new(properties, trail);
        }
        Some(candidate)
    }

    /// Keeps the best candidates.
    pub(super) fn cut(&mut self, candidates: &mut Vec<Candidate>, max_rows: usize) {
        for candidate in candidates.drain(max_rows.min(candidates.len())..) {
            self.reject(&candidate.properties, || None, || RejectionReason::Rank(max_rows));
        }
    }

    /// Returns the trail of a candidate whose values for `keys` were replaced.
    fn follow(&self, from: &Candidate, source: ChangeSource, after: &Properties, keys: &[Key]) -> Trail {
        if !self.is_explaining() {
            return Trail::default();
        }
        let merged: Vec<_> = keys.iter().map(|key| (*key, Some(Merge::Agreed))).collect();
        from.trail.then(source, &from.properties, after, &merged)
    }

    /// Merges, and lists the merged properties if an explanation was requested.
    fn merge(
        &self,
        onto: &mut Properties,
        others: &Properties,
    ) -> Result<Vec<(Key, Option<Merge>)>, Conflict> {
        if !self.is_explaining() {
            return onto.merge(others, |_, _| ()).map(|()| Vec::new());
        }
        let mut merged = Vec::new();
        onto.merge(others, |key, how| merged.push((key, how)))?;
        Ok(merged)
    }

    fn reject(
        &mut self,
        candidate: &Properties,
        by: impl FnOnce() -> Option<ChangeSource>,
        why: impl FnOnce() -> RejectionReason,
    ) {
        if !self.is_explaining() {
            return;
        }
        if self.rejections.len() >= limits::REJECTIONS {
            self.unlisted += 1;
            return;
        }
        self.rejections
            .push(Rejection { candidate: candidate.clone(), by: by(), why: why() });
    }
}

/// Returns the reason why a row does not satisfy the required properties: it does not state one, or it has a
/// conflicting demand.
fn lacks(row: &Row, required: &[(Key, &Property)]) -> Option<RejectionReason> {
    required
        .iter()
        .find_map(|(key, demand)| match row.properties.find(*key) {
            None => Some(RejectionReason::Missing(*key)),
            Some(own) if own.precedence == Precedence::Immutable && !own.value.overlaps(&demand.value) => {
                let (mine, theirs) = (own.clone(), (*demand).clone());
                Some(RejectionReason::Conflict(Box::new(Conflict {
                    key: *key,
                    mine,
                    theirs,
                })))
            }
            Some(_) => None,
        })
}

/// Lists the changes by a row: a property that the request lacked is new to the candidate, and no other is.
fn of_row(row: &Row, merged: Vec<(Key, Option<Merge>)>) -> Vec<(Key, Option<Merge>)> {
    let brought = row
        .properties
        .iter()
        .filter(|(key, _)| !merged.iter().any(|(of, _)| of == key));
    let mut all: Vec<_> = brought.map(|(key, _)| (key, None)).collect();
    all.extend(merged.into_iter().filter(|(_, how)| how.is_some()));
    all
}

fn bounded(candidates: &[Candidate], place: &str) -> Result<(), Limit> {
    if candidates.len() > limits::CANDIDATES {
        return Err(Limit::new("candidates under way", limits::CANDIDATES, place));
    }
    let weight: usize = candidates
        .iter()
        .map(|candidate| candidate.properties.len())
        .sum();
    if weight > limits::PROPERTIES {
        return Err(Limit::new(
            "properties of candidates under way",
            limits::PROPERTIES,
            place,
        ));
    }
    Ok(())
}
