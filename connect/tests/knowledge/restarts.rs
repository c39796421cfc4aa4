//! The knowledge that is kept across a restart, and the knowledge that is not.

use std::sync::Arc;
use std::time::Duration;

use hawser_connect::Racer;
use hawser_connect::knowledge::{KnowledgeEvent, NodeOrigin, Trouble};
use hawser_race::{AttemptOutcome, Cache, CacheKey, CacheLimits};
use hawser_time::Instant;

use super::TestFolder;
use super::open::open;

const KEPT: &str = r#"[
    { "uid": "lan/printer", "expire": -1, "link": true, "match": [{ "interface": { "value": "eth0" } }],
      "properties": { "metered": { "value": true } } },
    { "uid": "brief", "properties": { "rtt": { "value": 5 } } }
]"#;

#[tokio::test]
async fn nodes_of_controllers_are_kept_across_restarts() {
    let place = TestFolder::new();
    let settings = place.settings();
    let knowledge = open(&settings).await;
    knowledge.put(KEPT).expect("it is right");
    let before: Vec<_> = knowledge
        .list()
        .into_iter()
        .filter(|known| known.origin == NodeOrigin::Controller)
        .collect();
    assert_eq!(before.len(), 2);
    assert!(before[1].until.is_some(), "ten minutes are written out");
    assert!(knowledge.flush().await);
    drop(knowledge);
    let knowledge = open(&settings).await;
    let after: Vec<_> = knowledge
        .list()
        .into_iter()
        .filter(|known| known.origin == NodeOrigin::Controller)
        .collect();
    let names = |all: &[hawser_connect::knowledge::KnownNode]| {
        let mut all: Vec<_> = all.iter().map(|known| (known.uid.clone(), known.until)).collect();
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    };
    assert_eq!(names(&after), names(&before));
    assert_eq!(knowledge.delete("lan/printer"), Ok(NodeOrigin::Controller));
    assert!(knowledge.flush().await);
    drop(knowledge);
    let knowledge = open(&settings).await;
    assert!(knowledge.list().iter().all(|known| &*known.uid != "lan/printer"));
}

#[tokio::test]
async fn race_memory_survives_restarts() {
    let place = TestFolder::new();
    let settings = place.settings();
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = Instant::after(since.expect("after 1970"));
    let key = |network: &str| CacheKey {
        network: network.into(),
        remote: "192.0.2.1:443".into(),
        transport: "tcp".into(),
        interface: "".into(),
    };
    let mut cache = Cache::new(CacheLimits::default());
    for network in ["home", "office"] {
        cache.record(
            key(network),
            AttemptOutcome::Won { took: Duration::from_millis(20) },
            now,
        );
    }
    let snapshot = cache.snapshot(now);
    let knowledge = open(&settings).await;
    let racer = Racer::open().await.expect("names are configured");
    knowledge.remember(&racer);
    racer.restore(snapshot.clone());
    assert!(knowledge.flush().await);
    drop((knowledge, racer));
    let knowledge = open(&settings).await;
    let racer = Racer::open().await.expect("names are configured");
    knowledge.remember(&racer);
    assert_eq!(
        racer.snapshot(),
        snapshot,
        "of each network, with what is left of its time"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_store_is_set_aside_and_reported_to_late_watchers() {
    let place = TestFolder::new();
    let settings = place.settings();
    let store = settings.store.clone().expect("a path");
    let knowledge = open(&settings).await;
    knowledge.put(KEPT).expect("it works");
    assert!(knowledge.flush().await);
    drop(knowledge);
    // The last holder's thread releases the store.
    drop(open(&settings).await);
    let mut bytes = std::fs::read(&store).expect("it is ours");
    let length = bytes.len();
    bytes[200..length].fill(0x5a);
    std::fs::remove_file(&store).expect("it is ours");
    std::fs::write(&store, bytes).expect("it is ours");
    let knowledge = open(&settings).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut events = knowledge.events();
    let why = loop {
        let reported = tokio::time::timeout(Duration::from_secs(5), events.next())
            .await
            .expect("soon");
        if let Some(KnowledgeEvent::Trouble(Trouble::Store(why))) = reported {
            break why;
        }
    };
    assert!(
        why.contains("cannot be used") && why.contains(".damaged-"),
        "{why}"
    );
    knowledge.put(KEPT).expect("it works");
    assert!(knowledge.flush().await);
}

#[tokio::test]
async fn an_expired_node_is_gone_and_reported() {
    let place = TestFolder::new();
    let knowledge = open(&place.settings()).await;
    let mut events = knowledge.events();
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = Instant::after(since.expect("after 1970"));
    let end = now.since_origin().as_secs_f64() + 0.3;
    knowledge
        .put(&format!(r#"{{ "uid": "short", "root": true, "expire": {end} }}"#))
        .expect("it is right");
    let expired = KnowledgeEvent::Expired { uid: Arc::from("short"), origin: NodeOrigin::Controller };
    let wait = async { while events.next().await != Some(expired.clone()) {} };
    tokio::time::timeout(Duration::from_secs(5), wait)
        .await
        .expect("it ends");
    assert!(knowledge.list().iter().all(|known| &*known.uid != "short"));
}
