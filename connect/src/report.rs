//! Reports of the events of a race.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use hawser_race::{Failure, Question};

use super::Description;

/// Receives reports. It is called from the race itself and must not block.
pub type ReportCallback = Arc<dyn Fn(RaceReport) + Send + Sync>;

/// An event of a race, with its time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RaceReport {
    /// The time since the race began; in JSON `after_ms`.
    #[serde(rename = "after_ms", serialize_with = "milliseconds")]
    pub after: Duration,
    /// The event.
    #[serde(flatten)]
    pub what: RaceEvent,
}

/// An event of a race.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum RaceEvent {
    /// A question about the name was answered.
    Answered {
        /// The question that was answered.
        question: Question,
        /// The addresses, or the hints of services.
        addresses: Vec<IpAddr>,
    },
    /// A question about the name has no answer.
    Unanswered {
        /// The question without an answer.
        question: Question,
        /// The class of the failure.
        failure: Failure,
        /// The error of the resolver.
        why: String,
    },
    /// An attempt began.
    Started {
        /// The candidate that is tried.
        #[serde(flatten)]
        candidate: Description,
        /// The remembered outcome: `unknown`, `won`, `lost`, `failed`, `blocked`.
        known: &'static str,
    },
    /// A candidate that is remembered as blocked is tried beside the winner, to learn whether it still is.
    Probed {
        /// The candidate that is probed.
        #[serde(flatten)]
        candidate: Description,
    },
    /// An attempt or a probe failed.
    Failed {
        /// The candidate that failed.
        #[serde(flatten)]
        candidate: Description,
        /// The class of the failure.
        failure: Failure,
        /// The error of the system or the transport.
        why: String,
    },
    /// An attempt was cancelled because another one won or its time was over, or a probe has completed.
    Cancelled {
        /// The candidate that was cancelled.
        #[serde(flatten)]
        candidate: Description,
    },
    /// The candidate won the race.
    Won {
        /// The winning candidate.
        #[serde(flatten)]
        candidate: Description,
        /// The time since the candidate's start; in JSON `took_ms`.
        #[serde(rename = "took_ms", serialize_with = "milliseconds")]
        took: Duration,
    },
    /// All candidates failed.
    AllFailed {
        /// The most specific class of failure.
        failure: Failure,
        /// The reason in words.
        why: String,
    },
}

/// Describes the event in words, which may include text of peers.
impl Display for RaceEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words = match self {
            RaceEvent::Answered { question, addresses } => {
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                format!("{question:?}: {}", addresses.join(", "))
            }
            RaceEvent::Unanswered { why, .. } => why.clone(),
            RaceEvent::Started { candidate, known: "unknown" } => format!("{candidate}: started"),
            RaceEvent::Started { candidate, known } => format!("{candidate}: started; remembered as {known}"),
            RaceEvent::Probed { candidate } => format!("{candidate}: probed in addition to the winner"),
            RaceEvent::Failed { candidate, why, .. } => format!("{candidate}: {why}"),
            RaceEvent::Cancelled { candidate } => format!("{candidate}: cancelled"),
            RaceEvent::Won { candidate, took } => format!(
                "{candidate}: won {:.1} ms after its start",
                took.as_secs_f64() * 1e3
            ),
            RaceEvent::AllFailed { why, .. } => why.clone(),
        };
        f.write_str(&words)
    }
}

/// Writes milliseconds with the microseconds as decimals.
fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_micros() as f64 / 1e3)
}
