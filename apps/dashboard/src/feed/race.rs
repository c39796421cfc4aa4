//! A race, assembled from its reports: a lane for each attempt, with its start and its end.

use std::time::Duration;

use hawser::connect::{Description, RaceEvent, RaceReport};
use serde::Serialize;

/// The maximum number of attempts, and of answers, of one race.
const MAX_CANDIDATES: usize = 64;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Race {
    request: u64,
    destination: String,
    /// The time of the request, in seconds since the feed began.
    at: f64,
    answers: Vec<Answer>,
    lanes: Vec<Lane>,
    state: State,
    /// The reason why there is no connection, or the error that ended it.
    why: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Racing,
    Connected,
    Failed,
    Closed,
}

/// An answer of a name server, or the failure to get one.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Answer {
    after_ms: f64,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Lane {
    #[serde(flatten)]
    candidate: Description,
    /// The remembered outcome of the candidate.
    known: &'static str,
    /// Set for a probe beside the winner, which tests whether the transport is still blocked.
    probe: bool,
    start_ms: f64,
    end_ms: Option<f64>,
    outcome: Outcome,
    why: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Running,
    Won,
    Failed,
    Cancelled,
}

impl Race {
    pub(super) fn new(request: u64, destination: &str, at: Duration) -> Race {
        Race {
            request,
            destination: destination.to_owned(),
            at: at.as_secs_f64(),
            answers: Vec::new(),
            lanes: Vec::new(),
            state: State::Racing,
            why: None,
        }
    }

    pub(super) fn request(&self) -> u64 {
        self.request
    }

    /// Applies a report.
    pub(super) fn on(&mut self, report: &RaceReport) {
        let after_ms = report.after.as_micros() as f64 / 1e3;
        match &report.what {
            RaceEvent::Answered { question, addresses } => {
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                self.answer(after_ms, format!("{question:?}: {}", addresses.join(", ")));
            }
            RaceEvent::Unanswered { question, why, .. } => {
                self.answer(after_ms, format!("{question:?}: {why}"))
            }
            RaceEvent::Started { candidate, known } => self.start(after_ms, candidate, known, false),
            RaceEvent::Probed { candidate } => self.start(after_ms, candidate, "blocked", true),
            RaceEvent::Failed { candidate, why, .. } => {
                self.end(after_ms, candidate, Outcome::Failed, Some(why))
            }
            RaceEvent::Cancelled { candidate } => self.end(after_ms, candidate, Outcome::Cancelled, None),
            RaceEvent::Won { candidate, .. } => {
                self.end(after_ms, candidate, Outcome::Won, None);
                self.state = State::Connected;
            }
            RaceEvent::AllFailed { why, .. } => {
                self.state = State::Failed;
                self.why = Some(why.clone());
            }
        }
    }

    /// Records the end of the connection.
    pub(super) fn closed(&mut self, error: Option<&str>) {
        self.state = State::Closed;
        self.why = error.map(str::to_owned);
    }

    fn answer(&mut self, after_ms: f64, text: String) {
        if self.answers.len() < MAX_CANDIDATES {
            self.answers.push(Answer { after_ms, text });
        }
    }

    fn start(&mut self, start_ms: f64, candidate: &Description, known: &'static str, probe: bool) {
        if self.lanes.len() < MAX_CANDIDATES {
            let (candidate, outcome) = (candidate.clone(), Outcome::Running);
            self.lanes
                .push(Lane { candidate, known, probe, start_ms, end_ms: None, outcome, why: None });
        }
    }

    fn end(&mut self, end_ms: f64, candidate: &Description, outcome: Outcome, why: Option<&String>) {
        let is_it = |lane: &&mut Lane| lane.outcome == Outcome::Running && lane.candidate == *candidate;
        if let Some(lane) = self.lanes.iter_mut().find(is_it) {
            (lane.end_ms, lane.outcome, lane.why) = (Some(end_ms), outcome, why.cloned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hawser::connect::Failure;
    use serde_json::{Value, json};

    fn candidate(transport: &str) -> Description {
        Description {
            transport: transport.into(),
            remote: "192.0.2.1:80".into(),
            interface: "".into(),
        }
    }

    fn race(reports: &[(u64, RaceEvent)]) -> Value {
        let mut race = Race::new(1, "a.example:80", Duration::from_secs(2));
        for (ms, what) in reports {
            race.on(&RaceReport { after: Duration::from_millis(*ms), what: what.clone() });
        }
        serde_json::to_value(race).expect("JSON")
    }

    #[test]
    fn lanes_of_a_race_have_start_and_end_times() {
        let race = race(&[
            (
                1,
                RaceEvent::Started { candidate: candidate("sctp"), known: "unknown" },
            ),
            (
                251,
                RaceEvent::Started { candidate: candidate("tcp"), known: "lost" },
            ),
            (
                270,
                RaceEvent::Won { candidate: candidate("tcp"), took: Duration::from_millis(19) },
            ),
            (270, RaceEvent::Cancelled { candidate: candidate("sctp") }),
            (280, RaceEvent::Probed { candidate: candidate("sctp") }),
            (
                290,
                RaceEvent::Failed {
                    candidate: candidate("sctp"),
                    failure: Failure::Timeout,
                    why: "silence".into(),
                },
            ),
        ]);
        assert_eq!(race["state"], "connected");
        let lanes = race["lanes"].as_array().expect("lanes");
        let of = |lane: &Value| {
            json!([
                lane["transport"],
                lane["known"],
                lane["probe"],
                lane["start_ms"],
                lane["end_ms"],
                lane["outcome"]
            ])
        };
        assert_eq!(
            of(&lanes[0]),
            json!(["sctp", "unknown", false, 1.0, 270.0, "cancelled"])
        );
        assert_eq!(of(&lanes[1]), json!(["tcp", "lost", false, 251.0, 270.0, "won"]));
        assert_eq!(
            of(&lanes[2]),
            json!(["sctp", "blocked", true, 280.0, 290.0, "failed"])
        );
        assert_eq!(lanes[2]["why"], "silence");
    }

    #[test]
    fn a_race_that_fails_has_its_reason() {
        let why = "nothing answered".to_owned();
        let race = race(&[(30, RaceEvent::AllFailed { failure: Failure::Timeout, why })]);
        assert_eq!(
            (&race["state"], &race["why"]),
            (&json!("failed"), &json!("nothing answered"))
        );
    }
}
