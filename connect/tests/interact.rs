//! Sessions and races on the bus of a process.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hawser_connect::{Destination, Racer, Request};
use hawser_session::{
    AcceptorConfig, Candidate, ClientConfig, Config, PathCandidate, PathStatus, Security, Server,
    ServerConfig, TcpOptions, connect, scheduler,
};
use hawser_socket::ring::{Consumer, Ring};
use hawser_socket::{
    Bus, FlowInfo, Hands, Modification, Rights, Signal, SourceFlow, SourceId, Subscriber, Subscription,
    open_process_bus, run_waiting,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SOON: Duration = Duration::from_secs(5);

fn server() -> (Server, SocketAddr) {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = Server::open(ServerConfig {
        acceptor: AcceptorConfig { insecure: true, ..AcceptorConfig::default() },
        tcp: vec![(any, TcpOptions::default())],
        ..ServerConfig::default()
    })
    .unwrap();
    let address = server.addresses()[0].1;
    (server, address)
}

/// Received signals that the test has not consumed yet.
struct Ear {
    bus: Bus,
    signals: Consumer,
    seen: Vec<(String, SourceFlow)>,
}

/// Makes a subscriber to all events, because the other test's provider may be the only one so far.
fn subscriber(bus: &Bus) -> (Subscriber, Ear) {
    let subscriber = bus.join("test", Rights::all(), 1).unwrap();
    let (queue, signals) = Ring::new(256, None);
    subscriber.subscribe(Subscription::new(["*"]), &queue).unwrap();
    (subscriber, Ear { bus: bus.clone(), signals, seen: Vec::new() })
}

impl Ear {
    /// Waits for an event, by its name; returns its flow. The first of several is taken first.
    async fn received(&mut self, name: &str) -> SourceFlow {
        let until = Instant::now() + SOON;
        loop {
            let Ear { bus, signals, seen } = self;
            let take = |signal: &Signal<'_>, _: &mut Hands| {
                let schema = bus.schema(signal.target().source).ok();
                let event = schema.and_then(|schema| Some(schema.event_type(signal.event())?.name.clone()));
                seen.push((event.unwrap_or_default(), signal.target()));
            };
            run_waiting(signals, &mut Hands::default(), take, |_| {});
            if let Some(at) = seen.iter().position(|(event, _)| event == name) {
                return seen.remove(at).1;
            }
            assert!(Instant::now() < until, "{name} did not come: {seen:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Reads a variable of a flow.
async fn value(subscriber: &Subscriber, target: SourceFlow, name: &str) -> Option<u64> {
    let variables = subscriber.variables(target.source, &name.into()).unwrap();
    let pending = subscriber.probe(target, variables).unwrap();
    let probe = tokio::task::spawn_blocking(move || pending.wait(SOON))
        .await
        .unwrap()
        .unwrap();
    probe?.values[0]
}

async fn flows(subscriber: &Subscriber, source: SourceId) -> Vec<(SourceFlow, FlowInfo)> {
    let pending = subscriber.flows(source).unwrap();
    let flows = tokio::task::spawn_blocking(move || pending.wait(SOON))
        .await
        .unwrap()
        .unwrap();
    flows
        .into_iter()
        .map(|(flow, info)| (SourceFlow { source, flow }, info))
        .collect()
}

/// A session's paths are on the bus. A path that a subscriber makes a backup is one for both sides, and is
/// active again when the lease is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_watched_and_steered() {
    let bus = open_process_bus();
    let (watcher, mut ear) = subscriber(&bus);
    let (server, address) = server();
    let candidate = || PathCandidate::Tcp { peer: address, local: None, options: TcpOptions::default() };
    let client = connect(ClientConfig {
        session: Config { security: Security::None, ..Config::default() },
        name: None,
        scheduler: scheduler::by_name("ecf").unwrap(),
        candidates: vec![(candidate(), Candidate::new(0)), (candidate(), Candidate::new(1))],
        tls: None,
    })
    .unwrap();
    let served = server.accept().await.unwrap();
    let mut stream = client.open().unwrap();
    stream.write_all(&[7; 100_000]).await.unwrap();
    let mut far = served.accept().await.unwrap();
    far.read_exact(&mut vec![0; 100_000]).await.unwrap();
    // Both ends report; the client's is the source whose path has the server's address as its remote end.
    let path = ear.received("session.path.up").await;
    let mut ends = [
        ear.received("session.opened").await,
        ear.received("session.opened").await,
    ];
    let leads_there =
        |all: &[(SourceFlow, FlowInfo)]| all.iter().any(|(_, info)| info.remote == Some(address));
    if !leads_there(&flows(&watcher, ends[0].source).await) {
        ends.swap(0, 1);
    }
    let [opened, other] = ends;
    assert_ne!(opened.source, other.source);
    let all = flows(&watcher, opened.source).await;
    assert!(
        all.iter()
            .any(|(target, info)| *target == opened && info.kind == "total"),
        "{all:?}"
    );
    let (_, info) = all.iter().find(|(_, info)| info.kind == "path").expect("a path");
    assert_eq!((info.remote, info.label.as_str()), (Some(address), "tcp"));
    let mine = SourceFlow { source: opened.source, ..path };
    let acknowledged = value(&watcher, opened, "session.total.acknowledged").await;
    assert!(
        acknowledged.is_some_and(|bytes| bytes <= 100_000),
        "{acknowledged:?}"
    );
    assert!(
        value(&watcher, mine, "session.path.sent")
            .await
            .is_some_and(|bytes| bytes > 0)
    );

    let variable = watcher
        .variables(mine.source, &"session.path.status".into())
        .unwrap()[0];
    let lease = Duration::from_millis(300);
    let backup = Modification { target: mine, variable, set: Some((PathStatus::Backup as u64, lease)) };
    let pending = watcher.modify(&backup, 1).unwrap();
    let before = tokio::task::spawn_blocking(move || pending.wait(SOON))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(before, Ok(PathStatus::Active as u64));
    let status = || {
        client
            .paths()
            .into_iter()
            .filter_map(|(_, info)| info.report)
            .map(|r| r.status)
            .max()
    };
    assert_eq!(status(), Some(PathStatus::Backup));
    let until = Instant::now() + SOON;
    while status() != Some(PathStatus::Active) {
        assert!(Instant::now() < until, "the lease did not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(client.close(0).await);
    assert_eq!(ear.received("session.closed").await.flow, opened.flow);
}

/// A race is on the bus from its beginning to its end, and is then gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_is_watched() {
    let bus = open_process_bus();
    let (watcher, mut ear) = subscriber(&bus);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let racer = Racer::open().await.unwrap();
    let connected = racer
        .connect(Request::to(Destination::new("127.0.0.1", to.port()).unwrap()))
        .await
        .unwrap();
    assert_eq!(&*connected.candidate.remote, to.to_string());
    let began = ear.received("race.began").await;
    let won = ear.received("race.won").await;
    assert_eq!(began, won);
    let until = Instant::now() + SOON;
    while !flows(&watcher, began.source).await.is_empty() {
        assert!(Instant::now() < until, "the race is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
