//! What happens in a race, for those who want to know.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use hawser_race::{Failure, Question};

use super::Description;

/// Who is notified. It is called from the race itself: it must not block.
pub type Watcher = Arc<dyn Fn(Report) + Send + Sync>;

/// Something that happened in a race.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Since the race began; in JSON `after_ms`.
    #[serde(rename = "after_ms", serialize_with = "milliseconds")]
    pub after: Duration,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum What {
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
        /// Its class.
        failure: Failure,
        /// The error of the resolver.
        why: String,
    },
    /// An attempt began.
    Started {
        /// The candidate.
        #[serde(flatten)]
        candidate: Description,
        /// What is remembered of it: `unknown`, `won`, `lost`, `failed`, `blocked`.
        known: &'static str,
    },
    /// One that is remembered as blocked is tried beside the winner, to learn whether it still is.
    Probed {
        /// The candidate.
        #[serde(flatten)]
        candidate: Description,
    },
    /// An attempt or a probe failed.
    Failed {
        /// The candidate.
        #[serde(flatten)]
        candidate: Description,
        /// The class.
        failure: Failure,
        /// The error of the system or the transport.
        why: String,
    },
    /// An attempt was given up: another one won, or its time was over. Or a probe has shown what it
    /// should.
    Cancelled {
        /// The candidate.
        #[serde(flatten)]
        candidate: Description,
    },
    /// It won.
    Won {
        /// The candidate.
        #[serde(flatten)]
        candidate: Description,
        /// From its start; in JSON `took_ms`.
        #[serde(rename = "took_ms", serialize_with = "milliseconds")]
        took: Duration,
    },
    /// Nothing did.
    AllFailed {
        /// The most specific class.
        failure: Failure,
        /// In words.
        why: String,
    },
}

/// The event in words, which may hold text of peers.
impl Display for What {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words = match self {
            What::Answered { question, addresses } => {
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                format!("{question:?}: {}", addresses.join(", "))
            }
            What::Unanswered { why, .. } => why.clone(),
            What::Started { candidate, known: "unknown" } => format!("{candidate}: started"),
            What::Started { candidate, known } => format!("{candidate}: started; remembered as {known}"),
            What::Probed { candidate } => format!("{candidate}: tried beside the winner"),
            What::Failed { candidate, why, .. } => format!("{candidate}: {why}"),
            What::Cancelled { candidate } => format!("{candidate}: cancelled"),
            What::Won { candidate, took } => format!(
                "{candidate}: won, {:.1} ms from its start",
                took.as_secs_f64() * 1e3
            ),
            What::AllFailed { why, .. } => why.clone(),
        };
        f.write_str(&words)
    }
}

/// Milliseconds with the microseconds as decimals.
fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_micros() as f64 / 1e3)
}
