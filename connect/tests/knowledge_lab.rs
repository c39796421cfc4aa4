//! Knowledge found on a network: interfaces, outcomes of races, paths of sessions.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use hawser_connect::knowledge::{Knowledge, KnowledgeEvent, KnownNode, NodeOrigin, Settings};
use hawser_connect::{Racer, Request, transports};
use hawser_lab::{Lab, Spec};
use hawser_session::{
    AcceptorConfig, Candidate, ClientConfig, Config, PathCandidate, Security, Server, ServerConfig,
    TcpOptions, connect, scheduler,
};
use tokio::io::AsyncWriteExt;

use hawser_testing::{Test, TestResult, in_user_namespace, tests};

const TESTS: &[Test] = tests![
    interfaces_are_known_and_go_at_once,
    outcomes_of_races_are_learnt,
    sessions_measure_their_paths,
];

const FILE: &str = r#"
    host = [{ name = "client" }, { name = "server" }]
    [[link]]
    name = "air"
    between = ["client", "server"]
    interfaces = ["wlan0", "wlan0"]
    both = { delay = "10ms" }
    [[link]]
    name = "wire"
    between = ["client", "server"]
    interfaces = ["eth0", "eth0"]
    both = { delay = "5ms" }
"#;

fn main() -> ExitCode {
    in_user_namespace("knowledge in a lab", TESTS)
}

/// Runs `work` in a host, on a separate runtime.
fn inside<T: Send>(lab: &Lab, host: &str, work: impl AsyncFnOnce() -> TestResult<T> + Send) -> TestResult<T> {
    lab.host(host)?.run(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(work())
    })?
}

/// Waits until `find` returns a value.
async fn until<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> TestResult<T> {
    for _ in 0..500 {
        if let Some(found) = find() {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("{what} in 5 s").into())
}

fn named(knowledge: &Knowledge, uid: &str) -> Option<KnownNode> {
    knowledge.list().into_iter().find(|known| &*known.uid == uid)
}

fn interfaces_are_known_and_go_at_once() -> TestResult {
    let lab = Lab::up(&Spec::parse(FILE)?)?;
    let wire = lab.link("wire")?;
    inside(&lab, "client", async || {
        let knowledge = Knowledge::open(Settings::default()).await?;
        let mut events = knowledge.events();
        for (name, wired) in [("wlan0", false), ("eth0", true)] {
            let known = named(&knowledge, &format!("interface/{name}")).ok_or("no node")?;
            let rows = &known.node["properties"];
            let row = if rows.is_array() { &rows[0][0] } else { rows };
            assert_eq!(
                (&row["interface"]["value"], &row["interface_wired"]["value"]),
                (&name.into(), &wired.into())
            );
            assert!(row["local_ip"]["value"].is_string(), "{row}");
            assert!(row["mtu"]["value"]["end"].is_number(), "{row}");
        }
        assert_eq!(named(&knowledge, "interface/lo"), None);
        wire.down()?;
        let gone =
            KnowledgeEvent::Deleted { uid: Arc::from("interface/eth0"), origin: NodeOrigin::Interface };
        let wait = async { while events.next().await != Some(gone.clone()) {} };
        tokio::time::timeout(Duration::from_secs(2), wait).await?;
        assert_eq!(named(&knowledge, "interface/eth0"), None);
        wire.up()?;
        until("eth0 comes back", || named(&knowledge, "interface/eth0")).await?;
        Ok(())
    })
}

fn outcomes_of_races_are_learnt() -> TestResult {
    let lab = Lab::up(&Spec::parse(FILE)?)?;
    let listener = lab
        .host("server")?
        .run(|| std::net::TcpListener::bind("0.0.0.0:8080"))??;
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            drop(stream)
        }
    });
    let server = lab.host("server")?.ipv4().ok_or("an address")?;
    let wire = lab.link("wire")?;
    inside(&lab, "client", async || {
        let knowledge = Knowledge::open(Settings::default()).await?;
        let racer = Racer::open().await?;
        for (port, is_there) in [(8080, true), (8081, false)] {
            for interface in [None, Some("wlan0")] {
                let mut request = Request::to(format!("{server}:{port}").parse()?);
                if let Some(name) = interface {
                    request.transports =
                        Arc::new([transports::Transports::new().parse(&format!("tcp:{name}"), 0)?]);
                }
                request.watcher = Some(knowledge.watcher());
                // The server has an address on each link, and wlan0 reaches only the one on its link.
                let _ = tokio::time::timeout(Duration::from_secs(2), racer.connect(request)).await;
            }
            let uid = format!("/TCP/{server}:{port}");
            let of_port = || {
                knowledge
                    .list()
                    .into_iter()
                    .find(|known| known.uid.ends_with(&uid))
            };
            let known = until("an outcome", of_port).await?;
            let success = &known.node["properties"]["__he_candidate_success"];
            assert_eq!(
                (&success["value"], success["score"].as_f64()),
                (&is_there.into(), Some(if is_there { 5.0 } else { -5.0 }))
            );
            assert_eq!(known.origin, NodeOrigin::Race);
        }
        // Knowledge learnt over an interface is removed with the interface.
        wire.down()?;
        until("nothing of eth0", || {
            let left = knowledge
                .list()
                .into_iter()
                .any(|known| known.uid.starts_with("race/eth0/"));
            (!left).then_some(())
        })
        .await
    })
}

fn sessions_measure_their_paths() -> TestResult {
    let lab = Lab::up(&Spec::parse(FILE)?)?;
    let server = lab.host("server")?.ipv4().ok_or("an address")?;
    let handle = lab.host("server")?.handle();
    let (ready, is_ready) = std::sync::mpsc::channel::<SocketAddr>();
    std::thread::spawn(move || -> TestResult {
        handle.enter()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let server = Server::open(ServerConfig {
                acceptor: AcceptorConfig { insecure: true, ..AcceptorConfig::default() },
                tcp: vec![("0.0.0.0:0".parse()?, TcpOptions::default())],
                ..ServerConfig::default()
            })?;
            ready.send(server.addresses()[0].1)?;
            let session = server.accept().await?;
            let mut stream = session.accept().await?;
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
            Ok(())
        })
    });
    let port = is_ready.recv_timeout(Duration::from_secs(5))?.port();
    inside(&lab, "client", async || {
        let knowledge = Knowledge::open(Settings::default()).await?;
        let candidate = PathCandidate::Tcp {
            peer: (server, port).into(),
            local: None,
            options: TcpOptions::default(),
        };
        let session = connect(ClientConfig {
            session: Config { security: Security::None, ..Config::default() },
            name: None,
            scheduler: scheduler::by_name("ecf").ok_or("it comes with Hawser")?,
            candidates: vec![(candidate, Candidate::new(0))],
            tls: None,
        })?;
        knowledge.follow(&session);
        let mut stream = session.open()?;
        stream.write_all(&vec![7; 200_000]).await?;
        let of_session = || {
            let known = knowledge
                .list()
                .into_iter()
                .find(|known| known.origin == NodeOrigin::Session)?;
            known.node["properties"]["capacity"].is_object().then_some(known)
        };
        let known = until("a path is measured", of_session).await?;
        let rtt = known.node["properties"]["rtt"]["value"]
            .as_f64()
            .ok_or("a round trip")?;
        // 10 ms or 20 ms by the link, and the delay of acknowledgements.
        assert!((9.0..200.0).contains(&rtt), "{rtt} ms");
        assert!(known.until.is_some(), "it ends soon");
        drop((stream, session));
        Ok(())
    })
}
