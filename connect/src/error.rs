//! The error of a race without a winner.

use std::time::Duration;

use hawser_race::{Defeat, Failure, FailureReason, Question};

use super::{AttemptError, Description, Destination, PolicyError};

/// The destination could not be connected to.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot connect to {destination}: {}", self.words())]
pub struct ConnectError {
    /// The destination of the request.
    pub destination: Destination,
    /// The most specific class: an answer of the peer, before an error of the path, before a failure of this
    /// host itself.
    pub failure: Failure,
    /// True if every candidate with this failure had no network at all, not only no route to the host.
    pub is_network: bool,
    /// The failed candidates, with their errors.
    pub candidates: Vec<(Description, AttemptError)>,
    /// Questions about the name without an answer, with the error of the resolver.
    pub questions: Vec<(Question, Failure, String)>,
    /// The time since the beginning of the race.
    pub after: Duration,
    /// The reason why no race was begun, if none was.
    pub not_begun: Option<String>,
}

/// The classes from the most specific to the least; other classes explain nothing about the destination.
const BY_SPECIFICITY: &[Failure] = &[
    Failure::Refused,
    Failure::Reset,
    Failure::Security,
    Failure::Protocol,
    Failure::Prohibited,
    Failure::Timeout,
    Failure::Deadline,
    Failure::Unreachable,
    Failure::InterfaceGone,
    Failure::Local,
    Failure::LessSecure,
    Failure::Connectionless,
    Failure::NameServer,
    Failure::NoSuchName,
    Failure::NoRecord,
];

impl ConnectError {
    pub(super) fn new(
        destination: Destination,
        defeat: &Defeat,
        candidates: Vec<(Description, AttemptError)>,
        questions: Vec<(Question, Failure, String)>,
        after: Duration,
    ) -> ConnectError {
        let tried = || candidates.iter().map(|(_, error)| error.failure);
        let asked = || questions.iter().map(|(_, failure, _)| *failure);
        // A name that is answered for one family exists, so the candidates must have failed for another
        // reason.
        let failure = match defeat.why {
            FailureReason::Cancelled => Failure::Cancelled,
            FailureReason::Deadline if candidates.is_empty() => Failure::NameServer,
            FailureReason::Deadline | FailureReason::Exhausted => most_specific(tried())
                .or_else(|| most_specific(asked()))
                .unwrap_or(Failure::NotStarted),
        };
        let mut alike = candidates
            .iter()
            .filter(|(_, error)| error.failure == failure)
            .peekable();
        let is_network = alike.peek().is_some() && alike.all(|(_, error)| error.is_network);
        ConnectError {
            destination,
            failure,
            is_network,
            candidates,
            questions,
            after,
            not_begun: None,
        }
    }

    /// Makes the error of a policy that leaves no transport to race.
    #[must_use]
    pub fn not_chosen(destination: Destination, why: &PolicyError) -> ConnectError {
        let not_begun = Some(why.to_string());
        ConnectError {
            failure: Failure::Prohibited,
            not_begun,
            ..ConnectError::cancelled(destination)
        }
    }

    /// Makes the error of a race that was aborted with its runtime.
    pub(super) fn cancelled(destination: Destination) -> ConnectError {
        ConnectError {
            destination,
            failure: Failure::Cancelled,
            is_network: false,
            candidates: Vec::new(),
            questions: Vec::new(),
            after: Duration::ZERO,
            not_begun: None,
        }
    }

    fn words(&self) -> String {
        if let Some(why) = &self.not_begun {
            return why.clone();
        }
        let mut words: Vec<String> = self
            .candidates
            .iter()
            .map(|(candidate, error)| format!("{candidate}: {error}"))
            .take(8)
            .collect();
        if words.is_empty() {
            words = self.questions.iter().map(|(_, _, why)| why.clone()).collect();
            words.dedup();
        }
        if words.is_empty() {
            self.failure.to_string()
        } else {
            words.join("; ")
        }
    }
}

fn most_specific(failures: impl Iterator<Item = Failure> + Clone) -> Option<Failure> {
    BY_SPECIFICITY
        .iter()
        .copied()
        .find(|class| failures.clone().any(|failure| failure == *class))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(why: FailureReason, candidates: &[(Failure, bool)], questions: &[Failure]) -> ConnectError {
        let candidates = candidates.iter().map(|&(failure, is_network)| {
            let candidate = Description { transport: "t".into(), remote: "r".into(), interface: "".into() };
            (
                candidate,
                AttemptError { failure, is_network, why: failure.to_string() },
            )
        });
        let questions = questions
            .iter()
            .map(|&failure| (Question::Ipv6, failure, failure.to_string()));
        let defeat = Defeat { why, candidates: Vec::new(), questions: Vec::new() };
        let to = Destination::new("a.example", 443).expect("a destination");
        ConnectError::new(
            to,
            &defeat,
            candidates.collect(),
            questions.collect(),
            Duration::ZERO,
        )
    }

    #[test]
    fn the_most_specific_failure_is_reported() {
        use Failure::*;
        let of = |candidates: &[(Failure, bool)], questions: &[Failure]| {
            error(FailureReason::Exhausted, candidates, questions).failure
        };
        assert_eq!(of(&[(Unreachable, true), (Refused, false)], &[]), Refused);
        assert_eq!(of(&[(Unreachable, true), (Timeout, false)], &[]), Timeout);
        assert_eq!(of(&[(Unreachable, true)], &[NoRecord]), Unreachable);
        assert_eq!(of(&[], &[NoRecord, NoSuchName]), NoSuchName);
        assert_eq!(
            of(&[], &[NoSuchName, NameServer]),
            NameServer,
            "the other family may have some"
        );
        assert_eq!(error(FailureReason::Deadline, &[], &[]).failure, NameServer);
        assert_eq!(
            error(FailureReason::Deadline, &[(Deadline, false)], &[]).failure,
            Deadline
        );
    }

    #[test]
    fn a_network_is_unreachable_unless_a_candidate_failed_elsewhere() {
        let two = |first, second| {
            error(
                FailureReason::Exhausted,
                &[(Failure::Unreachable, first), (Failure::Unreachable, second)],
                &[],
            )
        };
        assert!(two(true, true).is_network && !two(true, false).is_network);
        assert!(!error(FailureReason::Exhausted, &[], &[]).is_network);
    }
}
