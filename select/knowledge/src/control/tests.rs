//! Conversations over a real socket, and the file that it is.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener as Listener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hawser_temporary::Folder;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::*;
use crate::base::{Base, now};
use crate::event::Origin;
use hawser_connect::policy::{Manager, Options};
use hawser_socket::local::LINE;

/// A folder for one test.
struct Place(Folder);

impl Place {
    fn new() -> Place {
        Place(Folder::new().expect("the folder for tests can be written"))
    }

    fn socket(&self) -> PathBuf {
        self.0.join("run/control.sock")
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path)
        .expect("it is there")
        .permissions()
        .mode()
        & 0o7777
}

struct Peer {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl Peer {
    async fn connect(path: &Path) -> Peer {
        let (reader, writer) = UnixStream::connect(path).await.expect("it listens").into_split();
        Peer {
            lines: BufReader::new(reader).lines(),
            writer,
        }
    }

    async fn say(&mut self, line: &str) {
        self.writer
            .write_all(format!("{line}\n").as_bytes())
            .await
            .expect("it reads");
    }

    async fn hear(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        Some(serde_json::from_str(&line).expect("JSON"))
    }

    async fn ask(&mut self, line: &str) -> Value {
        self.say(line).await;
        self.hear().await.expect("an answer")
    }
}

/// A socket that is served.
fn serving(place: &Place) -> (Arc<Base>, tokio::task::JoinHandle<()>) {
    let base = Base::new(Arc::new(Mutex::new(Manager::new(Options::default()))), None);
    let socket = Socket::open(&place.socket()).expect("there is room");
    let task = tokio::spawn(serve(socket, Arc::clone(&base)));
    (base, task)
}

const NODE: &str =
    r#"{"put":{"uid":"a","root":true,"expire":-1,"properties":{"interface":{"value":"eth0"}}}}"#;

#[tokio::test]
async fn nodes_are_put_listed_watched_and_deleted() {
    let place = Place::new();
    let (_base, _task) = serving(&place);
    let mut peer = Peer::connect(&place.socket()).await;
    let mut watcher = Peer::connect(&place.socket()).await;
    assert_eq!(watcher.ask(r#"{"watch":{}}"#).await, json!({ "done": "watch" }));
    let put = peer.ask(NODE).await;
    assert_eq!(
        put,
        json!({ "done": "put", "nodes": [{ "uid": "a", "until": null }], "warnings": [] })
    );
    let node = json!({ "uid": "a", "root": true, "expire": -1,
        "properties": { "interface": { "value": "eth0" } } });
    let listed = peer.ask(r#"{"list":{}}"#).await;
    assert_eq!(
        listed,
        json!({ "source": "controller", "until": null, "node": node })
    );
    assert_eq!(peer.hear().await, Some(json!({ "done": "list", "nodes": 1 })));
    assert_eq!(peer.ask(r#"{"list":{"interface":"wlan0"}}"#).await["nodes"], 0);
    let told = watcher.hear().await.expect("an event");
    assert_eq!(
        (&told["event"], &told["node"], &told["source"]),
        (&"put".into(), &node, &"controller".into())
    );
    let gone = peer.ask(r#"{"delete":"a"}"#).await;
    assert_eq!(
        gone,
        json!({ "done": "delete", "uid": "a", "source": "controller" })
    );
    let told = watcher.hear().await.expect("an event");
    assert_eq!(
        told,
        json!({ "event": "deleted", "source": "controller", "uid": "a" })
    );
    let again = peer.ask(r#"{"delete":"a"}"#).await;
    assert_eq!(again["findings"][0]["message"], "there is no such node");
}

#[tokio::test]
async fn what_is_wrong_is_told_with_its_path_and_changes_nothing() {
    let place = Place::new();
    let (base, _task) = serving(&place);
    base.learn(Origin::Interface, &[], Vec::new(), now());
    let mut peer = Peer::connect(&place.socket()).await;
    let cases = [
        (r#"{"put":{"uid":"a","rooot":true}}"#, "put.rooot", "no such key"),
        (
            r#"{"put":{"uid":"a","properties":{"trasport":{"value":"TCP"}}}}"#,
            "put.properties.trasport",
            "no such",
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
            "a name of Hawser's own",
        ),
        (r#"{"put":{"uid":"a","expire":5}}"#, "put.expire", "it ended at 5"),
        (r#"{"put":[]}"#, "put", "it is empty"),
        (r#"{"list":{"souce":"race"}}"#, "list", "unknown field"),
        ("hello", "", "expected value"),
    ];
    for (line, path, why) in cases {
        let told = peer.ask(line).await;
        let finding = &told["findings"][0];
        assert_eq!(
            (&told["error"], &finding["path"]),
            (&"refused".into(), &path.into()),
            "{told}"
        );
        assert!(
            finding["message"]
                .as_str()
                .is_some_and(|message| message.contains(why)),
            "{told}"
        );
    }
    assert_eq!(base.list(now()), [], "nothing has changed");
    let names = base.manager().names().clone();
    assert_eq!(names.find("valeu"), None, "what is refused leaves no names");
    assert_eq!(peer.ask(NODE).await["done"], "put", "the connection goes on");
}

#[tokio::test]
async fn lines_and_connections_are_bounded() {
    let place = Place::new();
    let (_base, _task) = serving(&place);
    let mut peer = Peer::connect(&place.socket()).await;
    let fits = format!("{NODE}{}", " ".repeat(LINE - NODE.len()));
    assert_eq!(peer.ask(&fits).await["done"], "put");
    // The peer may close before all is written.
    let _ = peer.writer.write_all(&vec![b' '; 4 * LINE]).await;
    let told = peer.hear().await.expect("why");
    assert!(
        told["error"].as_str().is_some_and(|why| why.contains("at most")),
        "{told}"
    );
    assert_eq!(peer.hear().await, None);
    let mut all = Vec::new();
    for _ in 0..32 {
        let mut peer = Peer::connect(&place.socket()).await;
        assert_eq!(peer.ask(r#"{"list":{"uid":"none"}}"#).await["nodes"], 0);
        all.push(peer);
    }
    let mut one_more = Peer::connect(&place.socket()).await;
    let told = one_more.hear().await.expect("why");
    assert!(
        told["error"]
            .as_str()
            .is_some_and(|why| why.contains("connected already")),
        "{told}"
    );
    drop(all);
    // Places come free as the others are seen to go.
    for _ in 0..100 {
        let mut peer = Peer::connect(&place.socket()).await;
        peer.say(r#"{"list":{"uid":"none"}}"#).await;
        if peer.hear().await.is_some_and(|told| told["done"] == "list") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no place came free");
}

/// The clock goes on by itself when nothing else happens.
#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_sent_away() {
    let place = Place::new();
    let (_base, _task) = serving(&place);
    let mut peer = Peer::connect(&place.socket()).await;
    peer.writer.write_all(b"{\"li").await.expect("it reads");
    let begin = tokio::time::Instant::now();
    assert_eq!(peer.hear().await, Some(json!({ "error": "no command in 30 s" })));
    assert_eq!(begin.elapsed().as_secs(), 30);
    assert_eq!(peer.hear().await, None);
}

#[tokio::test]
async fn a_watcher_that_is_slow_is_told_and_dropped() {
    let place = Place::new();
    let (base, _task) = serving(&place);
    let mut watcher = Peer::connect(&place.socket()).await;
    watcher.ask(r#"{"watch":{}}"#).await;
    // The test has one thread: nothing of this is sent before all of it has happened.
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
    while let Some(told) = watcher.hear().await {
        last = told;
    }
    assert!(
        last["error"]
            .as_str()
            .is_some_and(|why| why.starts_with("too slow: ")),
        "{last}"
    );
}

#[tokio::test]
async fn nobody_else_can_reach_the_socket_at_any_moment() {
    let place = Place::new();
    let path = place.socket();
    let (stop, is_over) = std::sync::mpsc::channel::<()>();
    let watched = path.clone();
    let looking = std::thread::spawn(move || {
        let mut seen = Vec::new();
        while is_over.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            std::thread::yield_now();
            seen.extend(fs::symlink_metadata(&watched).map(|file| file.permissions().mode() & 0o777));
        }
        seen
    });
    for _ in 0..50 {
        let socket = Socket::open(&path).expect("there is room");
        assert_eq!(mode(&path), 0o600);
        drop(socket);
    }
    drop(stop);
    let seen = looking.join().expect("it looks");
    assert!(seen.iter().all(|mode| *mode == 0o600), "{seen:?}");
    assert_eq!(mode(path.parent().expect("a folder")), 0o700);
    let left: Vec<_> = fs::read_dir(path.parent().expect("a folder"))
        .expect("it is ours")
        .collect();
    assert!(left.is_empty(), "nothing is left behind: {left:?}");
}

#[tokio::test]
async fn the_dead_give_their_place_and_the_living_do_not() {
    let place = Place::new();
    let path = place.socket();
    fs::create_dir(path.parent().expect("a folder")).expect("it is ours");
    // A listener that is dropped leaves its file.
    drop(Listener::bind(&path).expect("it is free"));
    assert!(path.exists());
    let socket = Socket::open(&path).expect("nobody listens there");
    assert!(matches!(Socket::open(&path), Err(SocketError::InUse(_))));
    UnixStream::connect(&path)
        .await
        .expect("the living is undisturbed");
    // What took its place is not its to remove.
    fs::remove_file(&path).expect("it is ours");
    fs::write(&path, "notes").expect("it is ours");
    drop(socket);
    assert!(matches!(Socket::open(&path), Err(SocketError::NoSocket(_))));
    assert_eq!(fs::read_to_string(&path).expect("it is left alone"), "notes");
    let left = fs::read_dir(path.parent().expect("a folder"))
        .expect("it is ours")
        .count();
    assert_eq!(left, 1, "nothing else is left behind");
    fs::remove_file(&path).expect("it is ours");
    // A link to a socket is no socket.
    let elsewhere = place.0.join("elsewhere");
    let _living = Listener::bind(&elsewhere).expect("it is free");
    std::os::unix::fs::symlink(&elsewhere, &path).expect("it is ours");
    assert!(matches!(Socket::open(&path), Err(SocketError::NoSocket(_))));
    assert!(
        fs::symlink_metadata(&elsewhere)
            .expect("it is there")
            .file_type()
            .is_socket()
    );
}
