//! Measurements of running sessions on their paths: round trip, delivery rate and loss for each interface.
//!
//! A node extends the rows of its interface. To avoid needless rankings, it is put again only when a value
//! has changed noticeably, or when half of its short lifetime is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hawser_policy::{Expiry, Node, Precedence, Properties, Property, keys};
use parking_lot::Mutex;

use super::base::{KnowledgeBase, now};
use super::event::NodeOrigin;
use super::interfaces::Links;
use hawser_policy::property_names::{key, number, text};
use hawser_session::{Observer, PathInfo, Session};

/// The interval at which sessions are queried.
const PERIOD: Duration = Duration::from_secs(1);
/// The time, in seconds, for which a value is valid without a new measurement.
const LIFETIME: f64 = 10.0;
/// The maximum number of sessions that are followed; the oldest are dropped.
const MAX_SESSIONS: usize = 256;

/// The sessions that are queried.
#[derive(Default)]
pub(super) struct Followed(Mutex<Vec<Observer>>);

impl Followed {
    pub(super) fn add(&self, session: &Session) {
        let mut all = self.0.lock();
        all.retain(|observer| observer.paths().is_some());
        if all.len() >= MAX_SESSIONS {
            all.remove(0);
        }
        all.push(session.observer());
    }

    /// Returns the live paths of all sessions; sessions that have ended are removed.
    fn paths(&self) -> Vec<PathInfo> {
        let mut all = self.0.lock();
        let mut paths = Vec::new();
        all.retain(|observer| match observer.paths() {
            Some(new) => {
                paths.extend(new.into_iter().map(|(_, info)| info));
                true
            }
            None => false,
        });
        paths
    }
}

/// The combined measurements of the paths over an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct InterfaceMeasurements {
    /// The minimum smoothed round-trip time, in milliseconds.
    rtt: f64,
    /// The total delivery rate, in Mbit/s; 0 if no data was sent yet.
    capacity: f64,
    /// The fraction of the sent bytes that was sent again, from 0 to 1.
    loss: f64,
    /// The number of bytes on which `loss` is based.
    sent: u64,
}

impl InterfaceMeasurements {
    /// Returns whether `self` differs enough from `before` to be reported.
    fn differs(&self, before: &InterfaceMeasurements) -> bool {
        let far = |new: f64, old: f64, min_change: f64| (new - old).abs() > (old * 0.1).max(min_change);
        far(self.rtt, before.rtt, 1.0)
            || far(self.capacity, before.capacity, 0.1)
            || far(self.loss, before.loss, 0.005)
    }
}

/// Combines the paths by interface.
fn figures(
    paths: &[PathInfo],
    holder: impl Fn(&PathInfo) -> Option<String>,
) -> BTreeMap<String, InterfaceMeasurements> {
    let mut all: BTreeMap<String, InterfaceMeasurements> = BTreeMap::new();
    let mut resent: BTreeMap<String, u64> = BTreeMap::new();
    for path in paths {
        let Some(statistics) = path.report.map(|report| report.statistics) else {
            continue;
        };
        // A transport without a round-trip time has measured nothing.
        if statistics.srtt.is_zero() {
            continue;
        }
        let Some(interface) = holder(path) else { continue };
        let rtt = statistics.srtt.as_secs_f64() * 1e3;
        let figures = all
            .entry(interface.clone())
            .or_insert(InterfaceMeasurements { rtt, ..InterfaceMeasurements::default() });
        figures.rtt = figures.rtt.min(rtt);
        figures.capacity += statistics.rate as f64 * 8.0 / 1e6;
        figures.sent = figures
            .sent
            .saturating_add(statistics.acked)
            .saturating_add(statistics.retransmitted);
        let again = resent.entry(interface).or_default();
        *again = again.saturating_add(statistics.retransmitted);
    }
    for (interface, figures) in &mut all {
        if figures.sent > 0 {
            figures.loss = resent.get(interface).copied().unwrap_or_default() as f64 / figures.sent as f64;
        }
    }
    all
}

fn node(interface: &str, figures: &InterfaceMeasurements, now: f64) -> Node {
    let round = |figure: f64, digits: f64| (figure * digits).round() / digits;
    let mut properties = Properties::default();
    properties.set(key("rtt"), measured(round(figures.rtt, 10.0)));
    if figures.capacity > 0.0 {
        properties.set(key("capacity"), measured(round(figures.capacity, 100.0)));
    }
    if figures.sent > 0 {
        properties.set(key("loss"), measured(round(figures.loss, 10_000.0)));
    }
    Node {
        uid: format!("session/{interface}").into(),
        root: false,
        link: true,
        priority: 0.0,
        expire: Expiry::At((now + LIFETIME).round()),
        description: "".into(),
        matches: [Properties::from_iter([(
            keys::INTERFACE,
            Property::new(text(interface)),
        )])]
        .into(),
        alternatives: [properties].into(),
    }
}

/// Makes a property that holds whatever a request prefers. An optional value would yield to a preference for
/// another one, and the interface would be ranked as if it fulfilled that.
fn measured(figure: f64) -> Property {
    Property { precedence: Precedence::Immutable, ..Property::new(number(figure)) }
}

/// Queries the sessions for as long as the knowledge exists.
pub(super) async fn follow(followed: Arc<Followed>, base: Arc<KnowledgeBase>, links: Arc<Links>) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut reported: BTreeMap<String, (InterfaceMeasurements, f64)> = BTreeMap::new();
    loop {
        ticks.tick().await;
        let paths = followed.paths();
        let holder = |path: &PathInfo| {
            let description = &path.description;
            description
                .interface
                .clone()
                .or_else(|| links.holder(description.local.ip()))
        };
        let now = now();
        reported.retain(|_, (_, since)| now - *since < LIFETIME);
        let mut new = Vec::new();
        for (interface, figures) in figures(&paths, holder) {
            let is_news = reported
                .get(&interface)
                .is_none_or(|(before, since)| figures.differs(before) || now - since > LIFETIME / 2.0);
            if is_news {
                new.push(node(&interface, &figures, now));
                reported.insert(interface, (figures, now));
            }
        }
        if !new.is_empty() {
            base.learn(NodeOrigin::Session, &[], new, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hawser_policy::document::node_json;
    use hawser_session::{Description, Statistics};

    fn path(interface: &str, srtt_ms: u64, rate: u64, acked: u64, retransmitted: u64) -> PathInfo {
        let nowhere = std::net::SocketAddr::from(([192, 0, 2, 1], 9));
        let description = Description {
            transport: "tcp",
            secure: true,
            local: nowhere,
            peer: nowhere,
            interface: Some(interface.into()),
            fallback: None,
            alpn: None,
        };
        let srtt = Duration::from_millis(srtt_ms);
        let statistics = Statistics { srtt, rate, acked, retransmitted, ..Statistics::default() };
        let report = hawser_session::PathReport {
            carrier: hawser_session::CarrierId(0),
            state: hawser_session::PathState::Live,
            status: hawser_session::PathStatus::Active,
            statistics,
            counts: hawser_session::PathCounts::default(),
            quota: None,
        };
        PathInfo {
            description,
            report: Some(report),
            counts: hawser_session::PathCounts::default(),
            lost: None,
        }
    }

    #[test]
    fn paths_over_an_interface_are_taken_together() {
        // 1.25 MB/s is 10 Mbit/s; 25 of 1,000 bytes are 2.5 %.
        let paths = [
            path("eth0", 20, 1_250_000, 975, 25),
            path("eth0", 12, 625_000, 1_000, 0),
            path("wlan0", 40, 0, 0, 0),
            path("wwan0", 0, 9, 9, 9),
        ];
        let all = figures(&paths, |path| path.description.interface.clone());
        assert_eq!(
            all["eth0"],
            InterfaceMeasurements { rtt: 12.0, capacity: 15.0, loss: 0.0125, sent: 2_000 }
        );
        assert_eq!(
            all["wlan0"],
            InterfaceMeasurements { rtt: 40.0, ..InterfaceMeasurements::default() }
        );
        assert_eq!(all.len(), 2, "what has no round trip has measured nothing");
        let json = node_json(
            &node("eth0", &all["eth0"], 1_000.0),
            &hawser_policy::NameTable::default(),
        );
        assert_eq!(json["properties"]["capacity"]["value"], 15);
        assert_eq!(json["properties"]["loss"]["value"], 0.0125);
        assert_eq!((&json["link"], &json["expire"]), (&true.into(), &1_010.into()));
        let json = node_json(
            &node("wlan0", &all["wlan0"], 1_000.0),
            &hawser_policy::NameTable::default(),
        );
        let rtt = serde_json::json!({ "rtt": { "value": 40, "precedence": 2 } });
        assert_eq!(json["properties"], rtt, "nothing is made up");
    }

    /// The shipped `low_latency` prefers at most 50 ms. An interface that is known to be slower gets no score
    /// for it, and ranks below an unmeasured one.
    #[test]
    fn a_measured_slow_interface_ranks_below_an_unmeasured_one() {
        let mut names = hawser_policy::NameTable::default();
        let pib = hawser_policy::builtin::pib(&mut names).expect("what is shipped is right");
        let mut cib = hawser_policy::Cib::default();
        let interfaces = r#"[
            { "uid": "slow0", "root": true, "expire": -1, "properties": { "interface": { "value": "slow0", "precedence": 2 } } },
            { "uid": "new0", "root": true, "expire": -1, "properties": { "interface": { "value": "new0", "precedence": 2 } } },
            { "uid": "fast0", "root": true, "expire": -1, "properties": { "interface": { "value": "fast0", "precedence": 2 } } }
        ]"#;
        let json = hawser_policy::document::Format::Json;
        let roots = hawser_policy::document::nodes(interfaces, json, "test", &mut names).expect("nodes");
        let rtt = |rtt| InterfaceMeasurements { rtt, ..InterfaceMeasurements::default() };
        let learnt = [
            node("slow0", &rtt(900.0), 1_000.0),
            node("fast0", &rtt(12.0), 1_000.0),
        ];
        for node in roots.value.into_iter().chain(learnt) {
            cib.insert(node, 1_000.0).expect("there is room");
        }
        let request = r#"{ "transport": { "value": "TCP" }, "security": { "value": false },
            "low_latency": { "value": true } }"#;
        let request = hawser_policy::document::request(request, json, &mut names)
            .expect("a request")
            .value;
        let rows = cib.rows(1_000.0).expect("few rows");
        let ranking = hawser_policy::rank(&request, &pib, &rows, &names, &Default::default());
        let ranking = ranking.expect("few candidates");
        let interfaces: Vec<_> = ranking
            .candidates
            .iter()
            .filter_map(|candidate| candidate.properties.find(keys::INTERFACE))
            .map(|interface| interface.value.clone())
            .collect();
        assert_eq!(
            interfaces,
            ["fast0", "new0", "slow0"].map(text),
            "{:?}",
            ranking.candidates
        );
    }

    #[test]
    fn small_changes_of_figures_are_not_published() {
        let before = InterfaceMeasurements { rtt: 20.0, capacity: 10.0, loss: 0.0, sent: 1_000 };
        assert!(!InterfaceMeasurements { rtt: 21.5, capacity: 10.8, sent: 2_000, ..before }.differs(&before));
        for new in [
            InterfaceMeasurements { rtt: 23.0, ..before },
            InterfaceMeasurements { capacity: 8.0, ..before },
            InterfaceMeasurements { loss: 0.01, ..before },
        ] {
            assert!(new.differs(&before), "{new:?}");
        }
    }
}
