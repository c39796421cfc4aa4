//! Requests, events and actions of a race.

use std::sync::Arc;
use std::time::Duration;

use hawser_time::Instant;

use serde::{Deserialize, Serialize};

use crate::{AttemptOutcome, Candidate, CandidateId, Failure, Security, ServiceParameters};

/// The requirements of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The minimum protection. Candidates with less are never started.
    pub security: Security,
    /// The participation of transports without a handshake.
    pub connectionless: Connectionless,
    /// The longest duration of the race, names included.
    pub deadline: Duration,
}

impl Default for Request {
    /// Returns a request without security requirements, without connectionless transports, and with a
    /// deadline of a minute.
    fn default() -> Request {
        Request {
            security: Security::None,
            connectionless: Connectionless::Never,
            deadline: Duration::from_secs(60),
        }
    }
}

/// The participation of transports without a handshake. They would win every race at once, with or without a
/// peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connectionless {
    /// They do not take part.
    #[default]
    Never,
    /// One is used when all others have failed and all names are answered.
    LastResort,
    /// They take part like others: the request is for datagrams, and the order of candidates decides.
    Admit,
}

/// A question for a name, by its record type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Question {
    /// IPv4 addresses (A).
    Ipv4,
    /// IPv6 addresses (AAAA).
    Ipv6,
    /// Service records (SVCB, HTTPS).
    Service,
}

/// The number of unanswered questions of each type when the race begins. An address has no questions. A name
/// has one, or one for each interface if each is asked separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    /// The number of questions for IPv4 addresses.
    pub ipv4: u16,
    /// The number of questions for IPv6 addresses.
    pub ipv6: u16,
    /// The number of questions for service records.
    pub service: u16,
}

impl Questions {
    /// One question for each family, none for services.
    pub const ADDRESSES: Questions = Questions { ipv4: 1, ipv6: 1, service: 0 };
    /// One question of each type.
    pub const ALL: Questions = Questions { ipv4: 1, ipv6: 1, service: 1 };

    fn count_mut(&mut self, question: Question) -> &mut u16 {
        match question {
            Question::Ipv4 => &mut self.ipv4,
            Question::Ipv6 => &mut self.ipv6,
            Question::Service => &mut self.service,
        }
    }

    pub(super) fn ask(&mut self, question: Question) {
        let open = self.count_mut(question);
        *open = open.saturating_add(1);
    }

    pub(super) fn answer(&mut self, question: Question) -> bool {
        let left = self.count_mut(question);
        let was_open = *left > 0;
        *left = left.saturating_sub(1);
        was_open
    }

    pub(super) fn are_answered(self) -> bool {
        self == Questions::default()
    }
}

/// An input of a race. An event of a candidate that is not running has crossed with a cancellation, and is
/// ignored.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Candidates became known. If a question is named, they are its answer.
    Found {
        /// The answered question, if any.
        question: Option<Question>,
        /// The candidates. A candidate whose transport, remote and interface are already known is left out.
        candidates: Vec<Candidate>,
    },
    /// A further question is asked, because a service record has named another host. It counts like the
    /// questions from the beginning of the race.
    Asked(Question),
    /// A question has no answer.
    Missing {
        /// The question without an answer.
        question: Question,
        /// The reason: [`Failure::NoSuchName`], [`Failure::NoRecord`], [`Failure::NameServer`].
        why: Failure,
    },
    /// These candidates must not be started any more, such as hints that the addresses did not confirm (RFC
    /// 9460, 7.3). Running attempts continue.
    Withdrawn(Vec<CandidateId>),
    /// Service records came after these candidates, each with the record's data, or `None` if the records
    /// name only other endpoints. In the latter case the candidate becomes a fallback, and its attempt is
    /// cancelled until its turn comes (RFC 9460, 3 and 5.1).
    Ranked(Vec<(CandidateId, Option<ServiceParameters>)>),
    /// A candidate's transport is connected.
    Connected(CandidateId),
    /// The handshake that the request needs is done.
    Established(CandidateId),
    /// An attempt or a probe failed.
    Failed(CandidateId, Failure),
    /// Interfaces or addresses changed. Earlier outcomes are no longer valid, and attempts over `gone` have
    /// failed.
    NetworkChanged {
        /// The interface that disappeared, if one did.
        gone: Option<Arc<str>>,
    },
    /// The caller cancels the race. After a victory, this ends the work that continues in the background.
    Cancelled,
    /// The time of [`Action::Wake`] has come.
    Wake,
}

/// An instruction to the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Begin to connect this candidate.
    Start(CandidateId),
    /// Abandon an attempt, or close its connection.
    Cancel(CandidateId),
    /// The candidate has won. Exactly one of this and [`Action::AllFailed`] comes in a race, once.
    Won(CandidateId),
    /// No candidate has won or will win.
    AllFailed(Defeat),
    /// Record this outcome in the cache.
    Record(CandidateId, AttemptOutcome),
    /// Try the candidate in the background, with the same events as an attempt, to update the cache.
    Probe(CandidateId),
    /// Send [`Event::Wake`] at this time. It replaces the previous time; an unneeded wake-up does no harm.
    Wake(Instant),
}

/// A race found no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defeat {
    /// The reason for the end of the race.
    pub why: FailureReason,
    /// The failure of each candidate, in the given order.
    pub candidates: Vec<(CandidateId, Failure)>,
    /// Questions without an answer.
    pub questions: Vec<(Question, Failure)>,
}

/// The reason for the end of a race without a winner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// No candidate was left to try.
    Exhausted,
    /// The race's time was over.
    Deadline,
    /// The caller cancelled the race.
    Cancelled,
}
