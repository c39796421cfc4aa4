//! The outcomes of races: the transports that connected to a peer over an interface, and those that failed.
//!
//! NEAT puts outcomes into the CIB as rows. A row that names a transport also matches requests for other
//! transports, and gives them its score (the golden ranking `cib-outcomes` shows it). Moreover, a row with
//! "failed" has no effect beside the row of an interface without outcomes. An outcome here is therefore a
//! node with NEAT's properties that is in no row, together with a policy of the same name and lifetime. The
//! policy gives its ±5 only to the candidates that it names.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser_policy::{Expiry, LIFETIME, Node, Policy, PolicyStage, Precedence, Properties, Property, keys};
use tokio::sync::mpsc;

use super::base::{KnowledgeBase, now};
use super::event::NodeOrigin;
use super::interfaces::Links;
use crate::{Description, Destination, RaceEvent, ReportCallback};
use hawser_policy::property_names::{fact, key, number, number_of, text, text_of, truth};

/// The maximum number of queued outcomes; more are lost, because a race never waits.
pub(super) const QUEUE: usize = 512;
/// The maximum number of outcomes that are added at once.
const BATCH: usize = 64;
/// The minimum time between two changes.
const PERIOD: Duration = Duration::from_millis(100);
/// The score of an outcome (NEAT).
const SCORE: f64 = 5.0;
/// The priority of outcome policies, which apply after those of files.
const PRIORITY: f64 = 1e6;

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RaceOutcome {
    pub(super) candidate: Description,
    /// The requested name and port, if it was a name.
    pub(super) asked: Option<(Arc<str>, u16)>,
    pub(super) won: bool,
}

/// Makes a callback that extracts outcomes from a race's reports. Failures of this host itself, and attempts
/// cancelled because another candidate was quicker, are not outcomes.
pub(super) fn watcher(queue: mpsc::Sender<RaceOutcome>, to: Option<&Destination>) -> ReportCallback {
    let asked = to
        .filter(|to| to.address().is_none())
        .map(|to| (to.host().into(), to.port()));
    Arc::new(move |report| {
        let (candidate, won) = match report.what {
            RaceEvent::Won { candidate, .. } => (candidate, true),
            RaceEvent::Failed { candidate, failure, .. } if failure.is_block() || failure.is_answer() => {
                (candidate, false)
            }
            _ => return,
        };
        // If the queue is full, this outcome is lost.
        let _ = queue.try_send(RaceOutcome { candidate, asked: asked.clone(), won });
    })
}

/// Makes the nodes of an outcome over this interface: one for the address, and one for the name if a name was
/// requested.
pub(super) fn nodes(outcome: &RaceOutcome, interface: &str, now: f64) -> Vec<Node> {
    let Ok(remote) = outcome.candidate.remote.parse::<SocketAddr>() else {
        // A relay connects onwards, so only the name is known.
        return outcome
            .asked
            .iter()
            .map(|asked| by_name(outcome, interface, asked, None, now))
            .collect();
    };
    let whom = vec![
        (
            key("remote_ip"),
            fact(text(remote.ip().to_canonical().to_string())),
        ),
        (key("port"), fact(number(remote.port()))),
        (key("ip_version"), fact(number(version(remote.ip())))),
    ];
    let mut all = vec![node(outcome, interface, &remote.to_string(), whom, now)];
    all.extend(
        outcome
            .asked
            .as_ref()
            .map(|asked| by_name(outcome, interface, asked, Some(remote), now)),
    );
    all
}

fn by_name(
    outcome: &RaceOutcome,
    interface: &str,
    (name, port): &(Arc<str>, u16),
    by: Option<SocketAddr>,
    now: f64,
) -> Node {
    let mut whom = vec![
        (key("remote_name"), fact(text(name))),
        (key("port"), fact(number(*port))),
    ];
    // The one of the name's addresses that was used.
    whom.extend(by.map(|by| {
        (
            key("remote_ip"),
            Property::new(text(by.ip().to_canonical().to_string())),
        )
    }));
    node(outcome, interface, &format!("{name}:{port}"), whom, now)
}

fn node(
    outcome: &RaceOutcome,
    interface: &str,
    whom: &str,
    properties: Vec<(hawser_policy::Key, Property)>,
    now: f64,
) -> Node {
    let transport = transport(&outcome.candidate.transport);
    let score = if outcome.won { SCORE } else { -SCORE };
    let common = [
        (keys::INTERFACE, fact(text(interface))),
        (keys::TRANSPORT, fact(text(&transport))),
        (
            key("__he_candidate_success"),
            Property { score, ..Property::new(truth(outcome.won)) },
        ),
        (key("__cached"), Property::new(number(1))),
    ];
    Node {
        uid: format!("race/{interface}/{transport}/{whom}").into(),
        root: false,
        link: false,
        priority: 0.0,
        expire: Expiry::At((now + LIFETIME).round()),
        description: "".into(),
        matches: Arc::default(),
        alternatives: [common.into_iter().chain(properties).collect()].into(),
    }
}

fn version(address: IpAddr) -> u8 {
    if address.to_canonical().is_ipv4() { 4 } else { 6 }
}

/// Returns an outcome's statement about candidates; `None` for a node that is not an outcome.
///
/// A candidate that won rises, because its score counts as evaluated. One that failed sinks by its score,
/// which counts as not evaluated; otherwise it would still precede all unknown candidates.
pub(super) fn policy(node: &Node) -> Option<Policy> {
    let [outcome] = &*node.alternatives else {
        return None;
    };
    let score = outcome.find(key("__he_candidate_success"))?.score;
    let transport = text_of(outcome, "transport")?;
    let whom = match text_of(outcome, "remote_name") {
        Some(name) => crate::endpoint(&name, number_of(outcome, "port")?),
        None => crate::endpoint(&text_of(outcome, "remote_ip")?, number_of(outcome, "port")?),
    };
    let matches = [
        (keys::INTERFACE, text(text_of(outcome, "interface")?)),
        (keys::TRANSPORT, text(&transport)),
        (key("remote_endpoint"), text(whom)),
    ];
    let matches: Properties = matches
        .map(|(key, value)| (key, Property::new(value)))
        .into_iter()
        .collect();
    let precedence = if score > 0.0 {
        Precedence::Optional
    } else {
        Precedence::Base
    };
    let verdict = Property { score, precedence, ..Property::new(text(transport)) };
    let shown = Property::new(truth(score > 0.0));
    let properties = [(keys::TRANSPORT, verdict), (key("__he_candidate_success"), shown)];
    Some(Policy {
        uid: node.uid.clone(),
        kind: PolicyStage::Policy,
        priority: PRIORITY,
        description: "the outcome of a race".into(),
        replace_matched: false,
        matches,
        alternatives: [properties.into_iter().collect()].into(),
    })
}

/// Returns whether a failure of one of a name's addresses is outweighed by the success of another.
fn is_outdone(new: &Node, known: &Node) -> bool {
    let of = |node: &Node| {
        let [outcome] = &*node.alternatives else {
            return None;
        };
        let won = outcome.find(key("__he_candidate_success"))?.score > 0.0;
        text_of(outcome, "remote_name")?;
        Some((won, text_of(outcome, "remote_ip")))
    };
    match (of(new), of(known)) {
        (Some((won, address)), Some((had_won, by))) => !won && had_won && address != by,
        _ => false,
    }
}

/// Learns from outcomes until the queue is closed.
pub(super) async fn follow(
    mut queue: mpsc::Receiver<RaceOutcome>,
    base: Arc<KnowledgeBase>,
    links: Arc<Links>,
) {
    while let Some(first) = queue.recv().await {
        let now = now();
        let mut new: BTreeMap<Arc<str>, Node> = BTreeMap::new();
        let mut next = Some(first);
        let mut taken = 0;
        while let Some(outcome) = next.take() {
            let named = Some(outcome.candidate.interface.to_string()).filter(|name| !name.is_empty());
            let remote = outcome.candidate.remote.parse::<SocketAddr>().ok();
            // If the system chose the interface, its routes show which one; no outcome is remembered without
            // an interface.
            let interface = named.or_else(|| links.towards(remote?.ip()));
            for node in interface
                .iter()
                .flat_map(|interface| nodes(&outcome, interface, now))
            {
                let known = new.get(&node.uid).cloned().or_else(|| base.node(&node.uid, now));
                if !known.is_some_and(|known| is_outdone(&node, &known)) {
                    new.insert(node.uid.clone(), node);
                }
            }
            taken += 1;
            next = if taken < BATCH {
                queue.try_recv().ok()
            } else {
                None
            };
        }
        base.learn(NodeOrigin::Race, &[], new.into_values().collect(), now);
        // Rankings are recomputed after each change, so changes are limited to this rate.
        tokio::time::sleep(PERIOD).await;
    }
}

/// The names of transports in policies (docs/policy.md).
const TRANSPORTS: [&str; 9] = [
    "TCP",
    "TLS/TCP",
    "MPTCP",
    "TLS/MPTCP",
    "QUIC",
    "SCTP/UDP",
    "session",
    "mtp-tcp",
    "mtp-quic-lite",
];

/// Returns the name in policies of a race's transport.
fn transport(name: &str) -> String {
    match TRANSPORTS.iter().find(|known| known.eq_ignore_ascii_case(name)) {
        Some(known) => (*known).to_owned(),
        None if name.eq_ignore_ascii_case("sctp") => "SCTP/UDP".to_owned(),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
