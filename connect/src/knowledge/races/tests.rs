//! Outcomes as nodes, and their effect on a ranking with the policies that Hawser ships.

use parking_lot::Mutex;

use super::*;
use crate::RaceReport;
use crate::policy::document::{self, Format};
use crate::policy::{Manager, Options, Request, builtin};
use crate::towards;
use hawser_race::Failure;

const NOW: f64 = 1_700_000_000.0;

fn outcome(transport: &str, remote: &str, asked: Option<&str>, won: bool) -> RaceOutcome {
    let candidate = Description {
        transport: transport.into(),
        remote: remote.into(),
        interface: "eth0".into(),
    };
    RaceOutcome { candidate, asked: asked.map(|name| (name.into(), 443)), won }
}

/// Makes a base with the shipped policies, and eth0 with an address.
fn base() -> Arc<KnowledgeBase> {
    let mut manager = Manager::new(Options { candidates: 32, ..Options::default() });
    let pib = builtin::pib(manager.names_mut()).expect("it is right");
    let names = manager.names().clone();
    manager
        .replace(names, pib, Vec::new(), NOW)
        .expect("there is room");
    let base = KnowledgeBase::new(Arc::new(Mutex::new(manager)), None);
    let eth0 = r#"{ "uid": "eth0", "root": true, "expire": -1, "properties": { "transport": {}, "security": {},
        "remote_ip": {}, "remote_name": {}, "port": {}, "ip_version": { "value": 4 },
        "interface": { "value": "eth0", "precedence": 2 } } }"#;
    base.put(eth0, NOW).expect("it is right");
    base
}

fn request(base: &KnowledgeBase, destination: &str) -> Request {
    let text = r#"{ "transport": { "value": "reliable" }, "security": { "value": false } }"#;
    let read = document::request(text, Format::Json, base.manager().names_mut()).expect("it is right");
    towards(&read.value, &destination.parse().expect("a destination"))
}

/// Returns the transports over eth0, best first.
fn order(base: &KnowledgeBase, destination: &str) -> Vec<String> {
    let request = request(base, destination);
    let ranking = base.manager().select(&request, NOW).expect("few");
    let over = |candidate: &crate::policy::Candidate| {
        text_of(&candidate.properties, "interface")?;
        Some(text_of(&candidate.properties, "transport")?.to_string())
    };
    ranking.candidates.iter().filter_map(over).collect()
}

fn place(order: &[String], transport: &str) -> usize {
    order
        .iter()
        .position(|one| one == transport)
        .unwrap_or(usize::MAX)
}

#[test]
fn an_outcome_is_a_node_with_neats_properties() {
    let all = nodes(&outcome("quic", "[2001:db8::1]:443", None, false), "eth0", NOW);
    let json = document::node_json(&all[0], &crate::policy::NameTable::default());
    assert_eq!(all.len(), 1);
    assert_eq!(json["uid"], "race/eth0/QUIC/[2001:db8::1]:443");
    assert_eq!(json["expire"], NOW + 600.0, "NEAT: 600 s");
    let properties = &json["properties"];
    assert_eq!(
        (
            &properties["transport"]["value"],
            &properties["interface"]["value"]
        ),
        (&"QUIC".into(), &"eth0".into())
    );
    assert_eq!(
        (&properties["remote_ip"]["value"], &properties["port"]["value"]),
        (&"2001:db8::1".into(), &443.into())
    );
    assert_eq!(
        properties["__he_candidate_success"],
        serde_json::json!({ "value": false, "score": -5 })
    );
    assert_eq!(properties["__cached"]["value"], 1);
}

#[test]
fn failures_and_wins_change_the_rank_for_that_peer_alone() {
    let base = base();
    let before = order(&base, "192.0.2.1:443");
    assert!(place(&before, "QUIC") < place(&before, "TCP"), "{before:?}");
    let mut new = nodes(&outcome("quic", "192.0.2.1:443", None, false), "eth0", NOW);
    new.extend(nodes(&outcome("sctp", "192.0.2.1:443", None, true), "eth0", NOW));
    base.learn(NodeOrigin::Race, &[], new, NOW);
    let after = order(&base, "192.0.2.1:443");
    assert_eq!(after[0], "SCTP/UDP", "{after:?}");
    assert!(place(&after, "QUIC") > place(&after, "TCP"), "{after:?}");
    for other in ["192.0.2.2:443", "192.0.2.1:80", "www.example.org:443"] {
        assert_eq!(order(&base, other), before, "{other}");
    }
    // NEAT's manager keeps it for ever.
    base.expire(NOW + 601.0);
    assert_eq!(order(&base, "192.0.2.1:443"), before, "it is over");
}

#[test]
fn outcomes_for_a_name_apply_to_all_its_addresses() {
    let base = base();
    let name = "www.example.org:443";
    let before = order(&base, name);
    let failed = nodes(
        &outcome("quic", "[2001:db8::1]:443", Some("www.example.org"), false),
        "eth0",
        NOW,
    );
    assert_eq!(failed.len(), 2);
    base.learn(NodeOrigin::Race, &[], failed.clone(), NOW);
    assert!(place(&order(&base, name), "QUIC") > place(&before, "QUIC"));
    let won = nodes(
        &outcome("quic", "192.0.2.1:443", Some("www.example.org"), true),
        "eth0",
        NOW,
    );
    assert!(!is_outdone(&won[1], &failed[1]), "what connects counts more");
    assert!(is_outdone(&failed[1], &won[1]), "another address connects");
    assert!(!is_outdone(&failed[0], &won[0]), "addresses stand for themselves");
    let same = nodes(
        &outcome("quic", "192.0.2.1:443", Some("www.example.org"), false),
        "eth0",
        NOW,
    );
    assert!(!is_outdone(&same[1], &won[1]), "it connects no more");
    base.learn(NodeOrigin::Race, &[], won, NOW);
    assert_eq!(order(&base, name)[0], "QUIC");
}

#[test]
fn reloading_files_keeps_learnt_policies() {
    let base = base();
    let new = nodes(&outcome("sctp", "192.0.2.1:443", None, true), "eth0", NOW);
    base.learn(NodeOrigin::Race, &[], new, NOW);
    assert_eq!(order(&base, "192.0.2.1:443")[0], "SCTP/UDP");
    {
        let mut manager = base.manager();
        let pib = builtin::pib(manager.names_mut()).expect("it is right");
        let names = manager.names().clone();
        manager
            .replace(names, pib, Vec::new(), NOW)
            .expect("there is room");
    }
    base.reapply(NOW);
    assert_eq!(order(&base, "192.0.2.1:443")[0], "SCTP/UDP");
}

#[test]
fn the_oldest_outcomes_are_evicted() {
    let base = base();
    for n in 0..300 {
        let remote = format!("192.0.2.1:{}", n + 1);
        base.learn(
            NodeOrigin::Race,
            &[],
            nodes(&outcome("tcp", &remote, None, true), "eth0", NOW),
            NOW,
        );
    }
    let all = base.names_of(NodeOrigin::Race);
    assert_eq!(all.len(), NodeOrigin::Race.max_nodes());
    assert!(base.node("race/eth0/TCP/192.0.2.1:300", NOW).is_some());
    assert!(base.node("race/eth0/TCP/192.0.2.1:1", NOW).is_none());
    let policies = base
        .manager()
        .pib()
        .iter()
        .filter(|policy| policy.uid.starts_with("race/"))
        .count();
    assert_eq!(
        policies,
        NodeOrigin::Race.max_nodes(),
        "their policies leave with them"
    );
}

#[test]
fn a_watcher_receives_outcomes_and_never_blocks() {
    let (queue, mut reported) = mpsc::channel(2);
    let destination: Destination = "www.example.org:443".parse().expect("a destination");
    let watcher = watcher(queue, Some(&destination));
    let candidate = outcome("tcp", "192.0.2.1:443", None, true).candidate;
    let report = |what| watcher(RaceReport { after: Duration::ZERO, what });
    let failed = |failure| RaceEvent::Failed { candidate: candidate.clone(), failure, why: String::new() };
    report(RaceEvent::Started { candidate: candidate.clone(), known: "unknown" });
    report(RaceEvent::Cancelled { candidate: candidate.clone() });
    report(failed(Failure::Local));
    report(failed(Failure::InterfaceGone));
    report(failed(Failure::Timeout));
    report(RaceEvent::Won { candidate: candidate.clone(), took: Duration::ZERO });
    // The queue is full, and the call still returns.
    report(failed(Failure::Refused));
    let asked = Some(("www.example.org".into(), 443));
    let all: Vec<RaceOutcome> = std::iter::from_fn(|| reported.try_recv().ok()).collect();
    assert_eq!(
        all.iter().map(|outcome| outcome.won).collect::<Vec<_>>(),
        [false, true]
    );
    assert!(
        all.iter()
            .all(|outcome| outcome.asked == asked && outcome.candidate == candidate)
    );
}
