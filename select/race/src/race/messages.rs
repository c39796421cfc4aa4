//! Requests, events and actions of a race.

use std::sync::Arc;
use std::time::Duration;

use hawser_time::Instant;

use serde::{Deserialize, Serialize};

use crate::{Candidate, CandidateId, Failure, Outcome, Security, Service};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The minimum protection; what gives less is never started.
    pub security: Security,
    /// Whether transports without a handshake take part.
    pub connectionless: Connectionless,
    /// How long the race may last in all, names included.
    pub deadline: Duration,
}

impl Default for Request {
    /// No security, nothing connectionless, a minute.
    fn default() -> Request {
        Request {
            security: Security::None,
            connectionless: Connectionless::Never,
            deadline: Duration::from_secs(60),
        }
    }
}

/// Whether transports without a handshake take part. They would win every race at once, with or
/// without a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connectionless {
    /// They do not.
    #[default]
    Never,
    /// One is taken when all others have failed and all names are answered.
    LastResort,
    /// They do, like others: the request is for datagrams, and the order of candidates decides.
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

/// How many questions of each type are unanswered when the race begins: none for an address, one
/// for a name, one for each interface where each is asked apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    /// For IPv4 addresses.
    pub ipv4: u16,
    /// For IPv6 addresses.
    pub ipv6: u16,
    /// For service records.
    pub service: u16,
}

impl Questions {
    /// One question for each family, none for services.
    pub const ADDRESSES: Questions = Questions { ipv4: 1, ipv6: 1, service: 0 };
    /// One question of each type.
    pub const ALL: Questions = Questions { ipv4: 1, ipv6: 1, service: 1 };

    fn of(&mut self, question: Question) -> &mut u16 {
        match question {
            Question::Ipv4 => &mut self.ipv4,
            Question::Ipv6 => &mut self.ipv6,
            Question::Service => &mut self.service,
        }
    }

    pub(super) fn ask(&mut self, question: Question) {
        let open = self.of(question);
        *open = open.saturating_add(1);
    }

    pub(super) fn answer(&mut self, question: Question) -> bool {
        let left = self.of(question);
        let was_open = *left > 0;
        *left = left.saturating_sub(1);
        was_open
    }

    pub(super) fn are_answered(self) -> bool {
        self == Questions::default()
    }
}

/// What happens to a race. An event of a candidate that is not under way
/// crossed with a cancellation, and is ignored.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Candidates are known; where a question is named, this is its answer.
    Found {
        /// Which one, if any.
        question: Option<Question>,
        /// They. Those whose transport, remote and interface are known already are left out.
        candidates: Vec<Candidate>,
    },
    /// A further question is asked: a service record has named another host. It counts like those
    /// that were asked when the race began.
    Asked(Question),
    /// A question has no answer.
    Missing {
        /// The question without an answer.
        question: Question,
        /// Why: [`Failure::NoSuchName`], [`Failure::NoRecord`], [`Failure::NameServer`].
        why: Failure,
    },
    /// These are not to be started any more, such as hints that the addresses did not confirm
    /// (RFC 9460, 7.3). Those under way go on.
    Withdrawn(Vec<CandidateId>),
    /// Service records came after these candidates: what they state of each, or none where they name other
    /// endpoints alone. Such a candidate becomes a fallback, and its attempt is given up until its turn comes
    /// (RFC 9460, 3 and 5.1).
    Ranked(Vec<(CandidateId, Option<Service>)>),
    /// A candidate's transport is connected.
    Connected(CandidateId),
    /// The handshake that the request needs is done.
    Established(CandidateId),
    /// An attempt failed.
    Failed(CandidateId, Failure),
    /// Interfaces or addresses changed: what was learnt is worth nothing here, and what left by
    /// `gone` has failed.
    NetworkChanged {
        /// The interface that went, if one did.
        gone: Option<Arc<str>>,
    },
    /// Who asked does not want it any more. After the race was won this ends what still goes on in
    /// the background.
    Cancelled,
    /// The time of [`Action::Wake`] has come.
    Wake,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Begin to connect.
    Start(CandidateId),
    /// Give an attempt up, or close what it has become.
    Cancel(CandidateId),
    /// It has won: exactly one of this and [`Action::AllFailed`] comes in a race, once.
    Won(CandidateId),
    /// Nothing has, or will.
    AllFailed(Defeat),
    /// For the cache.
    Record(CandidateId, Outcome),
    /// Try it in the background, with the same events as an attempt, for the cache's sake.
    Probe(CandidateId),
    /// Send [`Event::Wake`] at this time. It replaces the one before; one too many does no harm.
    Wake(Instant),
}

/// Why a race found no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defeat {
    /// What ended it.
    pub why: Why,
    /// What became of each candidate, in the order in which they were given.
    pub candidates: Vec<(CandidateId, Failure)>,
    /// Questions without an answer.
    pub questions: Vec<(Question, Failure)>,
}

/// What ended a race without a winner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There was nothing left to try.
    Exhausted,
    /// Its time was over.
    Deadline,
    /// Who asked did not want it any more.
    Cancelled,
}
