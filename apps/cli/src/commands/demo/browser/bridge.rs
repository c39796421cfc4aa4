//! Collects the events of the proxies for the page and for the table.

use hawser::connect::{ChosenCandidate, Description, RaceEvent as Race, RaceReport};
use hawser_dashboard::{Candidate, Feed};
use hawser_proxy::{ProxyEvent, ProxyEventContent, ServerEvent};
use parking_lot::{Mutex, MutexGuard};

use super::setups::SETUPS;

/// Receives the reports of all proxies.
pub(super) struct Bridge {
    feed: Feed,
    state: Mutex<[LatestEvents; SETUPS.len()]>,
}

/// The latest events of one proxy.
#[derive(Default)]
struct LatestEvents {
    /// The number of requests so far.
    requests: u64,
    /// The number of the request whose race was won last, and the winning transport.
    won: Option<(u64, String)>,
    /// The candidates of the last ranking by a policy, or those started in the race.
    candidates: Vec<Candidate>,
    is_ranked: bool,
}

impl Bridge {
    pub(super) fn new(feed: Feed) -> Bridge {
        Bridge { feed, state: Mutex::default() }
    }

    /// Returns the number of requests that a setup's proxy has received.
    pub(super) fn requests(&self, setup: usize) -> u64 {
        self.lock()[setup].requests
    }

    /// Returns the winner of the last race of a setup's proxy, if its request came after the first `count`.
    pub(super) fn won_after(&self, setup: usize, count: u64) -> Option<String> {
        self.lock()[setup]
            .won
            .clone()
            .filter(|(request, _)| *request > count)
            .map(|(_, transport)| transport)
    }

    /// Handles an event of a setup's proxy.
    pub(super) fn on(&self, setup: usize, event: &ProxyEvent) {
        let Some(number) = event.request else { return };
        // Request numbers on the page are unique across all proxies.
        let id = number * SETUPS.len() as u64 + setup as u64;
        let mut state = self.lock();
        let seen = &mut state[setup];
        match &event.what {
            ProxyEventContent::Race(report) => {
                self.feed.reported(id, report);
                seen.raced(number, report);
            }
            ProxyEventContent::Own(ServerEvent::Asked { destination, .. }) => {
                seen.requests = number;
                seen.candidates.clear();
                seen.is_ranked = false;
                self.feed
                    .asked(id, &format!("{destination} by {}", SETUPS[setup].name));
                return;
            }
            ProxyEventContent::Own(ServerEvent::Ranked { candidates }) => {
                seen.candidates = candidates.iter().map(candidate).collect();
                seen.is_ranked = true;
            }
            ProxyEventContent::Own(ServerEvent::Closed { error, .. }) => {
                return self.feed.closed(id, error.as_deref());
            }
            ProxyEventContent::Own(
                ServerEvent::Listening { .. }
                | ServerEvent::Rejected { .. }
                | ServerEvent::Associated { .. }
                | ServerEvent::Dissociated { .. }
                | ServerEvent::Served { .. }
                | ServerEvent::Full { .. }
                | ServerEvent::Stopping { .. },
            ) => return,
        }
        let candidates = seen.candidates.clone();
        self.feed.ranked(candidates);
    }

    fn lock(&self) -> MutexGuard<'_, [LatestEvents; SETUPS.len()]> {
        self.state.lock()
    }
}

impl LatestEvents {
    fn raced(&mut self, number: u64, report: &RaceReport) {
        match &report.what {
            Race::Started { candidate, known } => self.started(candidate, known),
            Race::Probed { candidate } => self.note(candidate, "tried beside the winner".to_owned()),
            Race::Failed { candidate, why, .. } => self.note(candidate, format!("failed: {why}")),
            Race::Cancelled { candidate } => self.note(candidate, "gave way".to_owned()),
            Race::Won { candidate, took } => {
                self.won = Some((number, candidate.transport.to_string()));
                self.note(candidate, format!("won in {:.0} ms", took.as_secs_f64() * 1e3));
                if let Some(one) = self.find(candidate) {
                    one.chosen = true;
                }
            }
            Race::Answered { .. } | Race::Unanswered { .. } | Race::AllFailed { .. } => {}
        }
    }

    fn started(&mut self, candidate: &Description, known: &str) {
        if !self.is_ranked {
            let (name, why) = (candidate.to_string(), vec!["no policy: as listed".to_owned()]);
            self.candidates
                .push(Candidate { name, score: None, why, chosen: false });
        }
        let memory = if known == "unknown" {
            String::new()
        } else {
            format!(", remembered: {known}")
        };
        self.note(candidate, format!("tried{memory}"));
    }

    fn note(&mut self, candidate: &Description, reason: String) {
        if let Some(one) = self.find(candidate)
            && !one.why.contains(&reason)
        {
            one.why.push(reason);
        }
    }

    /// Finds the policy's candidate for a candidate of a race. Policies rank transports; races also
    /// distinguish addresses.
    fn find(&mut self, candidate: &Description) -> Option<&mut Candidate> {
        let of_policy = |name: &str| {
            name.split(['/', ' '])
                .next()
                .is_some_and(|word| word.eq_ignore_ascii_case(&candidate.transport))
        };
        let (is_ranked, name) = (self.is_ranked, candidate.to_string());
        self.candidates.iter_mut().find(|one| {
            if is_ranked {
                of_policy(&one.name)
            } else {
                one.name == name
            }
        })
    }
}

/// Converts a ranked candidate of a policy.
fn candidate(ranked: &ChosenCandidate) -> Candidate {
    let ChosenCandidate { transport, interface, family, class, score } = ranked;
    let over = if interface.is_empty() {
        String::new()
    } else {
        format!(" over {interface}")
    };
    let family = family.map_or_else(String::new, |family| format!(" by {family:?}"));
    let why = vec![format!("class {class} of the race")];
    Candidate {
        name: format!("{transport}{over}{family}"),
        score: Some(*score),
        why,
        chosen: false,
    }
}
