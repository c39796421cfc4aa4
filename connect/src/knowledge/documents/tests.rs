//! Conversations over a real socket, and documents of hostile clients.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::policy::{Manager, Options, limits};
use hawser_bus::Bus;
use hawser_documents::temporary::Folder;
use hawser_socket::{Rules, serve};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::*;
use crate::knowledge::base::{KnowledgeBase, now};

/// Nodes that are served at a socket.
struct ServedNodes {
    folder: Folder,
    base: Arc<KnowledgeBase>,
    _documents: Arc<dyn Documents>,
}

impl ServedNodes {
    /// Makes a base whose clients have the rights of `rules`. Needs a runtime.
    fn with(rules: Rules) -> ServedNodes {
        let folder = Folder::new().expect("the folder for tests can be written");
        let (bus, base) = (Bus::new(), base());
        let documents: Arc<dyn Documents> = Arc::new(Nodes(Arc::clone(&base)));
        bus.offer_documents(&documents);
        tokio::spawn(serve(bus, &folder.join("s"), rules).expect("there is room"));
        ServedNodes { folder, base, _documents: documents }
    }

    fn new() -> ServedNodes {
        ServedNodes::with(Rules::default())
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("s")
    }
}

fn base() -> Arc<KnowledgeBase> {
    KnowledgeBase::new(Arc::new(Mutex::new(Manager::new(Options::default()))), None)
}

struct Peer {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl Peer {
    async fn connect(place: &ServedNodes) -> Peer {
        let (reader, writer) = UnixStream::connect(place.socket())
            .await
            .expect("it listens")
            .into_split();
        Peer { lines: BufReader::new(reader).lines(), writer }
    }

    async fn send(&mut self, line: &str) {
        self.writer
            .write_all(format!("{line}\n").as_bytes())
            .await
            .expect("it reads");
    }

    async fn receive(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        Some(serde_json::from_str(&line).expect("JSON"))
    }

    async fn ask(&mut self, line: &str) -> Value {
        self.send(line).await;
        self.receive().await.expect("an answer")
    }
}

const NODE: &str =
    r#"{"put":{"uid":"a","root":true,"expire":-1,"properties":{"interface":{"value":"eth0"}}}}"#;

#[tokio::test]
async fn nodes_are_put_listed_watched_and_deleted() {
    let place = ServedNodes::new();
    let mut peer = Peer::connect(&place).await;
    let mut watcher = Peer::connect(&place).await;
    assert_eq!(watcher.ask(r#"{"watch":{}}"#).await, json!({ "done": "watch" }));
    let put = peer.ask(NODE).await;
    assert_eq!(
        put,
        json!({ "done": "put", "nodes": [{ "uid": "a", "until": null }], "warnings": [] })
    );
    let node = json!({ "uid": "a", "root": true, "expire": -1,
        "properties": { "interface": { "value": "eth0" } } });
    let listed = peer.ask(r#"{"list":{}}"#).await;
    let known = json!({ "source": "controller", "until": null, "node": node });
    assert_eq!(listed, json!({ "done": "list", "nodes": [known] }));
    let none = peer.ask(r#"{"list":{"interface":"wlan0"}}"#).await;
    assert_eq!(none["nodes"], json!([]));
    let reported = watcher.receive().await.expect("an event");
    assert_eq!(
        (&reported["event"], &reported["node"], &reported["source"]),
        (&"put".into(), &node, &"controller".into())
    );
    let gone = peer.ask(r#"{"delete":"a"}"#).await;
    assert_eq!(
        gone,
        json!({ "done": "delete", "uid": "a", "source": "controller" })
    );
    let reported = watcher.receive().await.expect("an event");
    assert_eq!(
        reported,
        json!({ "event": "deleted", "source": "controller", "uid": "a" })
    );
    let again = peer.ask(r#"{"delete":"a"}"#).await;
    assert_eq!(again["diagnostics"][0]["message"], "the node does not exist");
}

#[tokio::test]
async fn a_wrong_document_is_refused_with_its_path_and_no_effect() {
    let place = ServedNodes::new();
    let base = &place.base;
    base.learn(NodeOrigin::Interface, &[], Vec::new(), now());
    let mut peer = Peer::connect(&place).await;
    let cases = [
        (r#"{"put":{"uid":"a","rooot":true}}"#, "put.rooot", "no such key"),
        (
            r#"{"put":{"uid":"a","properties":{"trasport":{"value":"TCP"}}}}"#,
            "put.properties.trasport",
            "does not exist",
        ),
        (
            r#"{"put":[{"uid":"a"},{"uid":"b","properties":{"rtt":{"valeu":1}}}]}"#,
            "put[1].properties.rtt.valeu",
            "no such key",
        ),
        (r#"{"put":{"uid":"a","uid":"b"}}"#, "put", "twice"),
        (r#"{"put":{"root":true}}"#, "put.uid", "no name"),
        (r#"{"put":[{"uid":"a"},{"root":true}]}"#, "put[1].uid", "no name"),
        (
            r#"{"put":{"uid":"interface/eth0"}}"#,
            "put.uid",
            "the name is reserved",
        ),
        (r#"{"put":{"uid":"a","expire":5}}"#, "put.expire", "expired at 5"),
        (r#"{"put":[]}"#, "put", "the document is empty"),
        (
            r#"{"list":{"souce":"race"}}"#,
            "list.souce",
            "unknown key `souce`",
        ),
    ];
    for (line, path, why) in cases {
        let reported = peer.ask(line).await;
        let diagnostic = &reported["diagnostics"][0];
        assert_eq!(
            (&reported["error"], &diagnostic["path"]),
            (&"refused".into(), &path.into()),
            "{reported}"
        );
        assert!(
            diagnostic["message"]
                .as_str()
                .is_some_and(|message| message.contains(why)),
            "{reported}"
        );
    }
    assert_eq!(base.list(now()), [], "nothing has changed");
    let names = base.manager().names().clone();
    assert_eq!(names.find("valeu"), None, "what is refused leaves no names");
    assert_eq!(peer.ask(NODE).await["done"], "put", "the connection goes on");
}

#[tokio::test]
async fn a_slow_watcher_is_notified_and_dropped() {
    let place = ServedNodes::new();
    let base = &place.base;
    let mut watcher = Peer::connect(&place).await;
    watcher.ask(r#"{"watch":{}}"#).await;
    // The test has one thread, so events are sent only after all changes are made.
    let begin = std::time::Instant::now();
    for n in 0..3_000 {
        let node = format!(r#"{{"uid":"a","expire":-1,"properties":{{"rtt":{{"value":{n}}}}}}}"#);
        base.put(&node, now()).expect("it is right");
    }
    assert!(
        begin.elapsed() < Duration::from_secs(5),
        "nobody waits for a watcher"
    );
    let mut last = Value::Null;
    while let Some(reported) = watcher.receive().await {
        last = reported;
    }
    assert!(
        last["error"]
            .as_str()
            .is_some_and(|why| why.contains("the reader was too slow")),
        "{last}"
    );
}

#[tokio::test]
async fn rights_govern_listing_and_putting_nodes() {
    let rules = "[[rule]]\nname = \"reader\"\nobserve = [\"knowledge.*\"]\n\
        [[rule]]\nname = \"writer\"\nmodify = [{ variables = \"knowledge.nodes\" }]\n\
        [[rule]]\nname = \"other\"\nobserve = [\"tcp.*\"]";
    let place = ServedNodes::with(Rules::parse(rules).expect("rules"));
    for (name, may_list, may_put) in [
        ("reader", true, false),
        ("writer", false, true),
        ("other", false, false),
    ] {
        let mut peer = Peer::connect(&place).await;
        peer.ask(&format!(r#"{{"hello":{{"name":"{name}"}}}}"#)).await;
        for (line, may) in [
            (r#"{"list":{}}"#, may_list),
            (r#"{"watch":{}}"#, may_list),
            (NODE, may_put),
            (r#"{"delete":"a"}"#, may_put),
        ] {
            let answer = peer.ask(line).await;
            let why = answer["error"].as_str();
            assert_eq!(why.is_none(), may, "{name} {line}: {answer}");
            assert!(
                may || why.is_some_and(|why| why.contains("knowledge.nodes")),
                "{answer}"
            );
            if may && line == NODE {
                assert_eq!(place.base.list(now()).len(), 1, "before it is deleted");
            }
        }
    }
}

#[test]
fn filters_compare_source_name_and_interface() {
    let known = |uid: &str, origin, node: Value| KnownNode {
        uid: uid.into(),
        origin,
        until: None,
        node: Arc::new(node),
    };
    let of_race = known(
        "a/b",
        NodeOrigin::Race,
        json!({ "properties": { "interface": { "value": "eth0" } } }),
    );
    let link = known(
        "c",
        NodeOrigin::Controller,
        json!({ "match": [{ "interface": { "value": ["eth0", "x"] } }], "properties": {} }),
    );
    for (text, takes) in [
        ("{}", [true, true]),
        (r#"{"source":"race"}"#, [true, false]),
        (r#"{"uid":"a/"}"#, [true, false]),
        (r#"{"interface":"eth0"}"#, [true, true]),
        (r#"{"interface":"x"}"#, [false, true]),
        (r#"{"interface":"eth"}"#, [false, false]),
    ] {
        let filter = Filter::parse(text).expect("a filter");
        assert_eq!([filter.takes(&of_race), filter.takes(&link)], takes, "{text}");
    }
    for (text, why) in [
        (r#"{"souce":"race"}"#, "unknown key `souce`"),
        (r#"{"source":"rumour"}"#, "unknown value `rumour`"),
        ("7", "expected an object with named keys, found 7"),
    ] {
        let faults = Filter::parse(text).expect_err("it is wrong");
        assert!(faults[0].message.contains(why), "{faults:?}");
    }
}

/// For any document: no panic, a reason for each refusal, nodes within their limit, and a list that can be
/// put again unchanged.
#[test]
fn mutated_documents_are_taken_or_refused_within_the_limits() {
    const NOW: f64 = 1_700_000_000.0;
    const DOCUMENTS: [&str; 4] = [
        r#"{"uid":"a","root":true,"expire":-1,"properties":{"interface":{"value":"eth0","precedence":2}}}"#,
        r#"[{"uid":"b","link":true,"match":[{"uid":{"value":"a"}}],"properties":[[{"rtt":{"value":{"start":1,"end":"Inf"}}},{"rtt":{"value":[1,"x"],"score":5}}]]}]"#,
        r#"{"uid":"c","expires":1e308,"own/x":1,"properties":{"own/x":{"banned":[null,true]}}}"#,
        r#"[{"uid":"d"},{"uid":"e","expire":1700000001}]"#,
    ];
    let mut rng = fastrand::Rng::with_seed(1);
    let mut base = base();
    let mut taken = 0;
    for round in 0..6_000 {
        if round % 300 == 0 {
            base = self::base();
        }
        let mut document = DOCUMENTS[rng.usize(..DOCUMENTS.len())].as_bytes().to_vec();
        for _ in 0..rng.usize(..4) {
            if document.is_empty() {
                break;
            }
            let at = rng.usize(..document.len());
            match rng.u8(..4) {
                0 => drop(document.remove(at)),
                1 => document[at] = rng.u8(b' '..b'~'),
                2 => document.insert(at, b"{}[]\",:19"[rng.usize(..9)]),
                _ => document.truncate(at.max(1)),
            }
        }
        match base.put(&String::from_utf8_lossy(&document), NOW) {
            Ok(put) => {
                assert!(!put.nodes.is_empty());
                taken += 1;
            }
            Err(diagnostics) => {
                assert!((1..=limits::DIAGNOSTICS.max(limits::NODES)).contains(&diagnostics.len()));
            }
        }
        base.expire(NOW);
        let all = base.list(NOW);
        assert!(all.len() <= NodeOrigin::Controller.max_nodes());
        if let Some(known) = all.last() {
            let again = base
                .put(&known.node.to_string(), NOW)
                .expect("it was read before");
            assert_eq!(again.nodes[0].node, known.node);
        }
    }
    assert!((300..5_500).contains(&taken), "{taken} of 6,000 were taken");
}
