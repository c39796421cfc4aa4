//! The order in which waiting candidates are started: sorted by the profile's rules, then interleaved.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::{Candidate, CandidateOrder, Family, Interleave, Knowledge, Profile};

/// The main classes of candidates. Interleaving never crosses a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// It won an earlier race.
    Favourite,
    /// There is no evidence for or against it.
    Hopeful,
    /// It failed or was blocked before, or it is a fallback that won before.
    Suspected,
    /// It is started only when the others seem to have failed.
    LastResort,
}

/// The group of a candidate. Only candidates of one group are interleaved.
type Group = (Class, bool, u16, u16);

/// Returns the class of a candidate under a profile.
pub(crate) fn class(candidate: &Candidate, profile: &Profile) -> Class {
    match candidate.known {
        // It is known to work, so it comes after every other endpoint, but without the delay of a last
        // resort.
        Knowledge::Won { .. } if candidate.is_fallback => Class::Suspected,
        Knowledge::Won { .. } if profile.head_start.is_some() => Class::Favourite,
        _ if candidate.is_last_resort || candidate.is_fallback => Class::LastResort,
        Knowledge::Failed | Knowledge::Blocked { .. } => Class::Suspected,
        Knowledge::Unknown | Knowledge::Lost { .. } | Knowledge::Won { .. } => Class::Hopeful,
    }
}

/// Sorts `waiting`, by index into `all`. `started` are the candidates already started, in that order; turns
/// continue after them.
pub(crate) fn arrange<'a>(
    waiting: &mut [usize],
    started: &[usize],
    all: impl Fn(usize) -> &'a Candidate,
    profile: &Profile,
) {
    let is_untried = |candidate: &&Candidate| {
        matches!(candidate.known, Knowledge::Unknown) && !candidate.is_last_resort && !candidate.is_fallback
    };
    let untried = waiting.iter().map(|&index| all(index)).filter(is_untried);
    let untried = untried
        .map(|candidate| candidate.priority)
        .min()
        .unwrap_or(u16::MAX);
    let group = |candidate: &Candidate| group(candidate, profile, untried);
    waiting.sort_by_cached_key(|&index| {
        let candidate = all(index);
        let ranks = profile.order != CandidateOrder::Given;
        let round_trip = candidate.round_trip.filter(|_| ranks).unwrap_or(Duration::MAX);
        let unused = ranks && !matches!(candidate.known, Knowledge::Won { .. });
        let rank = if ranks { candidate.rank } else { 0 };
        (
            group(candidate),
            candidate.priority,
            rank,
            round_trip,
            unused,
            index,
        )
    });
    let (Interleave::Families { first } | Interleave::TransportsAndFamilies { first }) = profile.interleave
    else {
        return;
    };
    for run in waiting.chunk_by_mut(|&a, &b| group(all(a)) == group(all(b))) {
        let own = group(all(run[0]));
        let before: Vec<usize> = started
            .iter()
            .copied()
            .filter(|&index| group(all(index)) == own)
            .collect();
        mix(
            run,
            &before,
            |index| combination(all(index), profile.interleave),
            usize::from(first.max(1)),
        );
    }
    if profile.order == CandidateOrder::Addresses {
        let endpoint = |index: usize| {
            let (class, beyond, service, _) = group(all(index));
            (class, beyond, service)
        };
        for run in waiting.chunk_by_mut(|&a, &b| endpoint(a) == endpoint(b)) {
            take_turns(run, started, |index| all(index).priority);
        }
    }
}

/// Interleaves the policy's classes, each in its own order. A class with the fewest turns among `started`
/// comes first, and of these the best class. A transport that the network drops therefore costs one delay and
/// not one for each address, and a late candidate has its turn at once.
fn take_turns(run: &mut [usize], started: &[usize], priority: impl Fn(usize) -> u16) {
    // The usual case is a single class, which needs no interleaving.
    if run.windows(2).all(|pair| priority(pair[0]) == priority(pair[1])) {
        return;
    }
    let turns_of = |class: u16| started.iter().filter(|&&index| priority(index) == class).count();
    let mut classes: Vec<(usize, VecDeque<usize>)> = run
        .chunk_by(|&a, &b| priority(a) == priority(b))
        .map(|class| (turns_of(priority(class[0])), class.iter().copied().collect()))
        .collect();
    for slot in run {
        // Of classes with the same number of turns, the first is the best, because the run is sorted by
        // class.
        let waiting = classes.iter_mut().filter(|(_, waiting)| !waiting.is_empty());
        if let Some((turns, waiting)) = waiting.min_by_key(|(turns, _)| *turns)
            && let Some(index) = waiting.pop_front()
        {
            (*slot, *turns) = (index, *turns + 1);
        }
    }
}

/// Returns the group of a candidate. `untried` is the best priority among waiting candidates without earlier
/// outcomes. An earlier victory is no evidence about preferred candidates that were never tried.
fn group(candidate: &Candidate, profile: &Profile, untried: u16) -> Group {
    let class = match class(candidate, profile) {
        Class::Favourite if candidate.priority > untried => Class::Hopeful,
        class => class,
    };
    match profile.order {
        CandidateOrder::Given => (class, false, 0, 0),
        CandidateOrder::Addresses => match candidate.service.filter(|service| service.is_choice) {
            Some(service) => (class, false, service.priority, candidate.priority),
            None => (class, true, 0, candidate.priority),
        },
        CandidateOrder::Services => match candidate.service {
            Some(service) => (class, false, service.priority, 0),
            None => (class, true, 0, 0),
        },
    }
}

/// The common properties of candidates that may all fail together.
type Combination = (Option<Arc<str>>, Family);

fn combination(candidate: &Candidate, interleave: Interleave) -> Combination {
    let by_transport = matches!(interleave, Interleave::TransportsAndFamilies { .. });
    (
        by_transport.then(|| Arc::clone(&candidate.transport)),
        candidate.family,
    )
}

/// Interleaves combinations: `first` candidates of the first one, then one of each. `before` are the
/// candidates that have had their turns.
fn mix(run: &mut [usize], before: &[usize], combination: impl Fn(usize) -> Combination, first: usize) {
    if run.len() + before.len() < 2 {
        return;
    }
    let mut turns: Vec<(Combination, Vec<usize>)> = Vec::new();
    for (&index, is_waiting) in before
        .iter()
        .map(|index| (index, false))
        .chain(run.iter().map(|i| (i, true)))
    {
        let own = combination(index);
        let at = turns
            .iter()
            .position(|(other, _)| *other == own)
            .unwrap_or_else(|| {
                turns.push((own, Vec::new()));
                turns.len() - 1
            });
        if is_waiting {
            turns[at].1.push(index);
        }
    }
    // Combinations of the first family come before those of the other; within each, the order of appearance
    // is kept.
    let first_family = turns[0].0.1;
    turns.sort_by_key(|((_, family), _)| Reverse(*family == first_family));
    let (mut turn, mut left) = (0, first);
    for &index in before {
        let own = combination(index);
        turn = turns.iter().position(|(other, _)| *other == own).unwrap_or(0);
        left = left.saturating_sub(1);
        if left == 0 || turn != 0 {
            (turn, left) = ((turn + 1) % turns.len(), 1);
        }
    }
    turns.iter_mut().for_each(|(_, indices)| indices.reverse());
    for slot in run.iter_mut() {
        while turns[turn].1.is_empty() {
            (turn, left) = ((turn + 1) % turns.len(), 1);
        }
        // The loop above ended at a combination with candidates, because the number of slots equals that of
        // waiting ones.
        if let Some(index) = turns[turn].1.pop() {
            *slot = index;
        }
        left = left.saturating_sub(1);
        if left == 0 {
            (turn, left) = ((turn + 1) % turns.len(), 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CandidateId, ServiceParameters};

    fn candidates(text: &str) -> Vec<Candidate> {
        let one = |(index, word): (usize, &str)| {
            let (transport, family) = word.split_at(1);
            let remote = if family.starts_with('6') {
                format!("[{index}]")
            } else {
                index.to_string()
            };
            let mut candidate = Candidate::new(CandidateId(index as u32), transport, remote);
            // The draft's order: one protocol before the other, IPv6 before IPv4.
            candidate.priority = u16::from(transport == "t");
            candidate.rank = u16::from(family.starts_with('4'));
            if let Some((_, priority)) = family.split_once('/') {
                let priority = priority.parse().expect("a priority");
                candidate.service = Some(ServiceParameters { priority, is_choice: false });
            }
            candidate
        };
        text.split_whitespace().enumerate().map(one).collect()
    }

    fn arranged(profile: &Profile, text: &str, started: &[usize]) -> Vec<String> {
        let all = candidates(text);
        let mut waiting: Vec<usize> = (0..all.len()).filter(|index| !started.contains(index)).collect();
        arrange(&mut waiting, started, |index| &all[index], profile);
        let words: Vec<&str> = text.split_whitespace().collect();
        waiting.into_iter().map(|index| words[index].to_owned()).collect()
    }

    /// Version 3, sorting: "QUIC IPv6, TCP IPv6, QUIC IPv4, TCP IPv4".
    #[test]
    fn transports_and_families_take_turns() {
        let order = arranged(&Profile::VERSION3, "t4 t6 q4 q6 q6 t6", &[]);
        assert_eq!(order, ["q6", "t6", "q4", "t4", "q6", "t6"]);
    }

    #[test]
    fn services_come_first_and_in_their_order() {
        let order = arranged(&Profile::VERSION3, "t6 t6/2 q4/1 t4/1 q6/2 q4", &[]);
        assert_eq!(order, ["q4/1", "t4/1", "q6/2", "t6/2", "q4", "t6"]);
    }

    /// RFC 8305, section 4: the First Address Family Count.
    #[test]
    fn families_take_turns_after_the_first() {
        assert_eq!(
            arranged(&Profile::RFC8305, "t6 t6 t6 t4 t4", &[]),
            ["t6", "t4", "t6", "t4", "t6"]
        );
        let two = Profile { interleave: Interleave::Families { first: 2 }, ..Profile::RFC8305 };
        assert_eq!(
            arranged(&two, "t6 t6 t6 t4 t4", &[]),
            ["t6", "t6", "t4", "t6", "t4"]
        );
    }

    #[test]
    fn interleaving_continues_from_started_candidates() {
        assert_eq!(
            arranged(&Profile::RFC8305, "t6 t6 t4 t4", &[2]),
            ["t6", "t4", "t6"]
        );
        assert_eq!(
            arranged(&Profile::RFC8305, "t6 t6 t4 t4", &[0]),
            ["t4", "t6", "t4"]
        );
        let two = Profile { interleave: Interleave::Families { first: 2 }, ..Profile::RFC8305 };
        assert_eq!(arranged(&two, "t6 t6 t4 t4", &[0]), ["t6", "t4", "t4"]);
    }

    /// A transport that the network drops costs one delay for any number of addresses.
    #[test]
    fn classes_of_the_policy_take_turns() {
        let order = arranged(&Profile::RFC8305, "q6 q6 q4 t6 t6 t4", &[]);
        assert_eq!(order, ["q6", "t6", "q4", "t4", "q6", "t6"]);
        assert_eq!(
            arranged(&Profile::RFC8305, "q6 q4 t6 t4", &[0]),
            ["t6", "q4", "t4"],
            "it goes on"
        );
        assert_eq!(arranged(&Profile::RFC8305, "q6 q4 t6 t4", &[0, 2]), ["q4", "t4"]);
    }

    #[test]
    fn a_better_class_that_is_found_late_is_next() {
        let mut all = candidates("t6 t6 t4 t6");
        for (candidate, priority) in all.iter_mut().zip([1, 3, 2, 4]) {
            candidate.priority = priority;
        }
        // The second was started early, because the first failed before the third was found.
        let mut waiting = vec![2, 3];
        arrange(&mut waiting, &[0, 1], |index| &all[index], &Profile::RFC8305);
        assert_eq!(waiting, [2, 3]);
    }

    #[test]
    fn the_neat_profile_keeps_the_policys_order() {
        assert_eq!(
            arranged(&Profile::NEAT, "t4 q4 q6 t6", &[]),
            ["q4", "q6", "t4", "t6"]
        );
    }
}
