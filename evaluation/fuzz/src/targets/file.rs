//! Arbitrary bytes as a file that a peer sends to `hawser recv`. No input causes a panic. A file is kept only
//! if it is as long as announced, has a plain name in the requested folder, and fits the budget. Otherwise no
//! file remains.

use std::net::SocketAddr;
use std::sync::OnceLock;

use crate::session::file::{Budget, Intake, receive};
use hawser::session::{
    AcceptorConfig, Candidate, ClientConfig, Config, PathCandidate, Security, Server, ServerConfig, Session,
    TcpOptions, connect, scheduler,
};
use indicatif::ProgressBar;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

const BUDGET: u64 = 4_096;

/// A session over loopback, with the sender's side and the receiver's side.
struct Pair {
    runtime: Runtime,
    caller: Session,
    receiver: Session,
    _server: Server,
}

fn pair() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let (caller, receiver, server) = runtime.block_on(open_both());
        Pair { runtime, caller, receiver, _server: server }
    })
}

async fn open_both() -> (Session, Session, Server) {
    let ecf = || scheduler::by_name("ecf").expect("it comes with Hawser");
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let server = Server::open(ServerConfig {
        acceptor: AcceptorConfig { insecure: true, ..AcceptorConfig::default() },
        tcp: vec![(any, TcpOptions::default())],
        ..ServerConfig::default()
    })
    .expect("a server");
    let candidate = PathCandidate::Tcp {
        peer: server.addresses()[0].1,
        local: None,
        options: TcpOptions::default(),
    };
    let caller = connect(ClientConfig {
        session: Config { security: Security::None, ..Config::default() },
        name: None,
        scheduler: ecf(),
        candidates: vec![(candidate, Candidate::new(0))],
        tls: None,
    })
    .expect("a session");
    let receiver = server.accept().await.expect("a session");
    (caller, receiver, server)
}

pub(crate) fn fuzz(data: &[u8]) {
    let pair = pair();
    pair.runtime.block_on(take(pair, data));
}

async fn take(pair: &Pair, data: &[u8]) {
    let mut out = pair.caller.open().expect("a stream");
    // The other side does not see an empty stream.
    let sending = async {
        let _ = out.write_all(b"{").await;
        let _ = out.write_all(data).await;
        let _ = out.shutdown().await;
        let mut answer = Vec::new();
        let _ = out.read_to_end(&mut answer).await;
        answer
    };
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let receiving = async {
        let mut stream = pair.receiver.accept().await.expect("a stream");
        let intake = Intake {
            output: Some(folder.to_path_buf()),
            force: false,
            budget: Budget::new(BUDGET),
        };
        receive(&mut stream, &intake, &ProgressBar::hidden(), || ()).await
    };
    let (answer, received) = tokio::join!(sending, receiving);
    assert!(answer.ends_with(b"\n") && answer.iter().filter(|byte| **byte == b'\n').count() == 1);
    let there: Vec<_> = std::fs::read_dir(&*folder)
        .expect("the folder")
        .flatten()
        .collect();
    match received {
        Ok(received) => {
            let [one] = there.as_slice() else {
                panic!("{there:?}")
            };
            assert_eq!(one.metadata().expect("a file").len(), received.length);
            assert!(received.length <= BUDGET.min(data.len() as u64));
            assert!(!one.file_name().to_string_lossy().starts_with('.'));
        }
        Err(_) => assert!(there.is_empty(), "{there:?}"),
    }
}
