//! The content of the page: a bounded state, and updates of it for its readers.
//!
//! * `model`: the input of a feed, in the form in which the page gets it
//! * `race`: a race, assembled from its reports

mod model;
mod race;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hawser::connect::RaceReport;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use tokio::sync::broadcast;

pub use model::{Candidate, Controls, Download, DownloadState, Path, Plan, Setup, Switch};

use model::Sample;
use race::Race;

/// The maximum number of samples: two minutes at four per second.
const SAMPLES: usize = 480;
/// The maximum number of races.
const RACES: usize = 24;
/// The maximum number of downloads.
const DOWNLOADS: usize = 40;
/// The maximum number of candidates.
const CANDIDATES: usize = 40;
/// The maximum number of updates that a reader may lag behind.
const UPDATES: usize = 256;

/// The content of a page. Clones are the same feed.
#[derive(Clone)]
pub struct Feed {
    inner: Arc<Inner>,
}

struct Inner {
    began: Instant,
    state: Mutex<State>,
    updates: broadcast::Sender<Update>,
}

/// The complete state.
#[derive(Serialize)]
struct State {
    #[serde(flatten)]
    plan: Plan,
    samples: VecDeque<Sample>,
    races: VecDeque<Race>,
    candidates: Vec<Candidate>,
    downloads: VecDeque<Download>,
}

/// A change of the state.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    /// The name of the page's event.
    pub(crate) name: &'static str,
    /// The changed part, as JSON.
    pub(crate) data: Arc<str>,
}

impl Feed {
    /// Creates a feed for this plan, without any events.
    #[must_use]
    pub fn new(plan: Plan) -> Feed {
        let state = State {
            plan,
            samples: VecDeque::new(),
            races: VecDeque::new(),
            candidates: Vec::new(),
            downloads: VecDeque::new(),
        };
        let updates = broadcast::channel(UPDATES).0;
        Feed {
            inner: Arc::new(Inner { began: Instant::now(), state: Mutex::new(state), updates }),
        }
    }

    /// Returns the time since the feed began, which is the time base of its content.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.inner.began.elapsed()
    }

    /// Adds a sample of the paths' current rates, in Mbit/s and in the order of the plan.
    pub fn sample(&self, mbit_per_second: &[f64]) {
        let at = self.age().as_secs_f64();
        let mut state = self.lock();
        let rates = mbit_per_second
            .iter()
            .copied()
            .take(state.plan.paths.len())
            .collect();
        let sample = Sample { at, rates };
        self.publish("sample", &sample);
        push(&mut state.samples, sample, SAMPLES);
    }

    /// Records a change of a switch.
    pub fn switched(&self, id: &str, on: bool) {
        let mut state = self.lock();
        if let Some(switch) = state.plan.switches.iter_mut().find(|switch| switch.id == id) {
            switch.on = on;
            self.publish("switch", switch);
        }
    }

    /// Records a request for a connection to a destination. Its reports have the same `request`.
    pub fn asked(&self, request: u64, destination: &str) {
        let race = Race::new(request, destination, self.age());
        let mut state = self.lock();
        self.publish("race", &race);
        push(&mut state.races, race, RACES);
    }

    /// Records an event in the race for a connection.
    pub fn reported(&self, request: u64, report: &RaceReport) {
        self.change(request, |race| race.on(report));
    }

    /// Records the end of a connection, with the error if it was not regular.
    pub fn closed(&self, request: u64, error: Option<&str>) {
        self.change(request, |race| race.closed(error));
    }

    fn change(&self, request: u64, change: impl FnOnce(&mut Race)) {
        let mut state = self.lock();
        // A race that is so old that it was forgotten is ignored.
        if let Some(race) = state.races.iter_mut().find(|race| race.request() == request) {
            change(race);
            self.publish("race", race);
        }
    }

    /// Sets the candidates for a request, best first, with the reasons.
    pub fn ranked(&self, mut candidates: Vec<Candidate>) {
        candidates.truncate(CANDIDATES);
        let mut state = self.lock();
        self.publish("candidates", &candidates);
        state.candidates = candidates;
    }

    /// Adds or updates a download.
    pub fn download(&self, download: Download) {
        let mut state = self.lock();
        self.publish("download", &download);
        match state.downloads.iter_mut().find(|one| one.id == download.id) {
            Some(known) => *known = download,
            None => push(&mut state.downloads, download, DOWNLOADS),
        }
    }

    /// Returns the complete state and the updates that follow.
    pub(crate) fn follow(&self) -> (Update, broadcast::Receiver<Update>) {
        let state = self.lock();
        (update("state", &*state), self.inner.updates.subscribe())
    }

    /// Returns the complete state.
    pub(crate) fn snapshot(&self) -> Update {
        update("state", &*self.lock())
    }

    /// Returns whether the switch exists.
    pub(crate) fn has_switch(&self, id: &str) -> bool {
        self.lock().plan.switches.iter().any(|switch| switch.id == id)
    }

    /// Returns whether the download is offered.
    pub(crate) fn offers(&self, setup: &str, mib: u32) -> bool {
        let state = self.lock();
        state.plan.setups.iter().any(|one| one.id == setup) && state.plan.sizes_mib.contains(&mib)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock()
    }

    /// Sends an update to all readers. It must be called with the state locked, so that updates keep their
    /// order.
    fn publish(&self, name: &'static str, value: &impl Serialize) {
        if self.inner.updates.receiver_count() > 0 {
            let _ = self.inner.updates.send(update(name, value));
        }
    }
}

fn update(name: &'static str, value: &impl Serialize) -> Update {
    // The value has only string keys, and finite or null numbers, all of which JSON can represent.
    Update {
        name,
        data: serde_json::to_string(value)
            .unwrap_or_else(|_| "null".to_owned())
            .into(),
    }
}

fn push<T>(queue: &mut VecDeque<T>, value: T, capacity: usize) {
    if queue.len() == capacity {
        queue.pop_front();
    }
    queue.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn feed() -> Feed {
        let path = |id: &str| Path { id: id.into(), name: id.into(), mbit_per_second: 10.0 };
        Feed::new(Plan {
            paths: vec![path("a"), path("b")],
            switches: vec![Switch::new("sctp", "SCTP", "", true)],
            ..Plan::default()
        })
    }

    fn state(feed: &Feed) -> Value {
        serde_json::from_str(&feed.snapshot().data).expect("JSON")
    }

    #[test]
    fn the_feed_keeps_a_bounded_history() {
        let feed = feed();
        for number in 0..2_000_u32 {
            feed.sample(&[f64::from(number), 1.0, 7.0]);
            feed.asked(u64::from(number), "a:80");
        }
        let state = state(&feed);
        assert_eq!(state["samples"].as_array().map(Vec::len), Some(SAMPLES));
        assert_eq!(
            state["samples"][SAMPLES - 1]["rates"],
            serde_json::json!([1999.0, 1.0])
        );
        assert_eq!(state["races"].as_array().map(Vec::len), Some(RACES));
        assert_eq!(state["races"][RACES - 1]["request"], 1999);
    }

    #[tokio::test]
    async fn followers_receive_changes_in_order() {
        let feed = feed();
        let (first, mut updates) = feed.follow();
        assert_eq!(first.name, "state");
        feed.switched("sctp", false);
        feed.switched("nothing", false);
        feed.sample(&[1.0, 2.0]);
        let next = updates.recv().await.expect("an update");
        assert_eq!(
            (
                next.name,
                serde_json::from_str::<Value>(&next.data).expect("JSON")["on"].clone()
            ),
            ("switch", false.into())
        );
        assert_eq!(updates.recv().await.expect("an update").name, "sample");
        assert_eq!(state(&feed)["switches"][0]["on"], false);
    }

    #[test]
    fn a_changed_download_replaces_its_entry() {
        let feed = feed();
        let mut download = Download::begun(3, "SCTP or TCP", 16 << 20);
        feed.download(download.clone());
        download.state = DownloadState::Done;
        feed.download(download);
        let state = state(&feed);
        assert_eq!(state["downloads"].as_array().map(Vec::len), Some(1));
        assert_eq!(state["downloads"][0]["state"], "done");
    }
}
