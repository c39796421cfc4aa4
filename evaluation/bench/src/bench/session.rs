//! `hawser bench session` and `hawser bench crowd`: the cost of sessions, compared with their carriers alone.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hawser::session::{
    Candidate, ClientConfig, Config, Identity, PathCandidate, QuicOptions, Server, ServerConfig, Session,
    TcpOptions, Trust, connect, scheduler,
};
use hawser_carriers::quic::{QuicEndpoint, QuicListener};
use hawser_carriers::tcp::TcpListener;
use hawser_carriers::tls::{TlsClient, TlsServer};
use hawser_carriers::{Carrier, send};
use rustls::pki_types::ServerName;
use tokio::io::AsyncWriteExt;

use super::callgrind::count;
use super::{Common, row};
use crate::report::{Better, Metric, Report, Row};
use crate::sys;

/// Count instructions per byte of sessions and of their carriers alone, under valgrind's callgrind
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SessionArgs {
    /// Bytes of the larger transfer, MiB
    #[arg(long, value_name = "MIB")]
    size: Option<u64>,
}

/// Hold many sessions at once, and measure the memory of idle ones
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CrowdArgs {
    /// Sessions
    #[arg(long, value_name = "N")]
    sessions: Option<usize>,
}

/// The part that runs under valgrind: one transfer, once.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Once {
    /// `tcp` or `quic`
    transport: String,
    /// `bare` or `session`
    layer: String,
    bytes: u64,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
/// The number of bytes in one write.
const PIECE: usize = 262_144;
/// The longest time for which callers of a session wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs `session`.
///
/// # Errors
/// Valgrind is absent, or a run failed.
pub(crate) fn session(args: &SessionArgs, common: &Common) -> Result<Report, Box<dyn std::error::Error>> {
    let large = args.size.unwrap_or(if common.quick { 8 } else { 32 }) << 20;
    let small = large / 4;
    let mut report = Report::new(
        "session",
        "Instructions of both ends of a transfer over loopback, TLS included",
    );
    report.setting(
        "transfers",
        format!("{} and {} MiB, the difference counts", small >> 20, large >> 20),
    );
    for transport in ["tcp", "quic"] {
        for layer in ["bare", "session"] {
            let run = |bytes: u64| {
                count(&["once-session", transport, layer, &bytes.to_string()]).map(|(counted, _)| counted)
            };
            let counted = run(small).and_then(|before| Ok((run(large)?, before)));
            let each = counted.map(|(after, before)| (after - before) as f64 / (large - small) as f64);
            let result = each
                .map(|each| vec![vec![each]])
                .map_err(|error| error.to_string());
            report
                .rows
                .push(row(format!("{transport}, {layer}"), result, |samples| {
                    vec![Metric::new(
                        "per byte",
                        "instructions",
                        Better::Lower,
                        super::column(samples, 0),
                    )]
                }));
        }
    }
    report.against(|name| {
        name.split_once(',')
            .map(|(transport, _)| format!("{transport}, bare"))
    });
    Ok(report)
}

/// Executes the hidden sub-command: one transfer.
///
/// # Errors
/// The transfer failed.
pub(crate) fn once(args: &Once) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let quic = args.transport == "quic";
    let done = runtime.block_on(async {
        match args.layer.as_str() {
            "bare" => bare(quic, args.bytes).await,
            _ => over_session(quic, args.bytes).await,
        }
    });
    done.map_err(|error| error as Box<dyn std::error::Error>)
}

fn pieces(bytes: u64) -> impl Iterator<Item = Bytes> {
    let piece = Bytes::from(vec![7; PIECE]);
    let whole = bytes / PIECE as u64;
    (0..whole).map(move |_| piece.clone())
}

async fn bare(quic: bool, bytes: u64) -> Result<(), Failure> {
    let identity = Identity::generate(vec!["localhost".into()])?;
    let (tls, trust) = (identity.server(&[])?, Trust::Pin(identity.digest()).client(&[])?);
    let (mut near, mut far): (Box<dyn Carrier>, Box<dyn Carrier>) = if quic {
        let listener = QuicListener::open(LOOPBACK, QuicOptions::default(), tls)?;
        let endpoint = QuicEndpoint::open(listener.local()?, None, QuicOptions::default())?;
        let accepting = async {
            let incoming = listener.accept().await.ok_or("the listener was closed")?;
            Ok::<_, Failure>(incoming.accept().await?)
        };
        let connecting = async {
            let mut carrier = endpoint.connect(listener.local()?, "localhost", trust).await?;
            // Its first byte opens the stream.
            send(&mut carrier, &mut [Bytes::from_static(b"?")].into()).await?;
            Ok::<_, Failure>(carrier)
        };
        let (near, far) = tokio::try_join!(connecting, accepting)?;
        (Box::new(near), Box::new(far))
    } else {
        let listener = TcpListener::open(LOOPBACK, TcpOptions::default(), Some(TlsServer { config: tls }))?;
        let client = TlsClient { config: trust, name: ServerName::try_from("localhost")? };
        let options = TcpOptions::default();
        let connecting = hawser_carriers::tcp::connect(listener.local()?, None, &options, Some(&client));
        let accepting = async { listener.accept().await?.accept().await };
        let (near, far) = tokio::try_join!(connecting, accepting)?;
        (Box::new(near), Box::new(far))
    };
    far.admit();
    let sending = async {
        for piece in pieces(bytes) {
            send(&mut *near, &mut [piece].into()).await?;
        }
        poll_fn(|cx| near.poll_finish(cx)).await?;
        Ok::<_, Failure>(())
    };
    let receiving = async {
        let mut seen = 0;
        while seen < bytes {
            seen += poll_fn(|cx| far.poll_read(cx)).await?.len() as u64;
        }
        Ok::<_, Failure>(())
    };
    tokio::try_join!(sending, receiving)?;
    Ok(())
}

/// A server on loopback, and the data that its clients need.
struct Endpoints {
    server: Server,
    tls: Arc<rustls::ClientConfig>,
}

impl Endpoints {
    fn open() -> Result<Self, Failure> {
        let identity = Identity::generate(vec!["localhost".into()])?;
        let tls = Trust::Pin(identity.digest()).client(&[])?;
        let server = Server::open(ServerConfig {
            tcp: vec![(LOOPBACK, TcpOptions::default())],
            quic: vec![(LOOPBACK, QuicOptions::default())],
            tls: Some(identity.server(&[])?),
            ..ServerConfig::default()
        })?;
        Ok(Self { server, tls })
    }

    /// Opens a session over these transports, one carrier each.
    fn call(&self, transports: &[&str]) -> Result<Session, Failure> {
        let address = |name: &str| {
            let found = self
                .server
                .addresses()
                .iter()
                .find(|(transport, _)| *transport == name);
            found
                .map(|(_, address)| *address)
                .ok_or("the server has no such listener")
        };
        let mut candidates = Vec::new();
        for (path, transport) in transports.iter().enumerate() {
            let peer = address(transport)?;
            let candidate = match *transport {
                "quic" => PathCandidate::Quic { peer, local: None, options: QuicOptions::default() },
                _ => PathCandidate::Tcp { peer, local: None, options: TcpOptions::default() },
            };
            candidates.push((candidate, Candidate::new(path as u32)));
        }
        Ok(connect(ClientConfig {
            session: Config::default(),
            name: None,
            scheduler: scheduler::by_name("ecf").ok_or("a scheduler is missing")?,
            candidates,
            tls: Some((self.tls.clone(), "localhost".into())),
        })?)
    }
}

async fn over_session(quic: bool, bytes: u64) -> Result<(), Failure> {
    let endpoints = Endpoints::open()?;
    let client = endpoints.call(&[if quic { "quic" } else { "tcp" }])?;
    let server = endpoints.server.accept().await?;
    let sending = async {
        let mut stream = client.open()?;
        for piece in pieces(bytes) {
            stream.write_bytes(piece).await?;
        }
        stream.shutdown().await?;
        Ok::<_, Failure>(stream)
    };
    let receiving = async {
        let mut stream = server.accept().await?;
        let mut seen = 0;
        while seen < bytes {
            seen += stream.read_bytes().await?.len() as u64;
        }
        Ok::<_, Failure>(stream)
    };
    let _streams = tokio::try_join!(sending, receiving)?;
    Ok(())
}

/// Runs `crowd`.
///
/// # Errors
/// The sessions could not be opened.
pub(crate) fn crowd(args: &CrowdArgs, common: &Common) -> Result<Report, Box<dyn std::error::Error>> {
    let sessions = args
        .sessions
        .unwrap_or(if common.quick { 30 } else { 300 })
        .max(1);
    rlimit::increase_nofile_limit(16_384)?;
    let mut report = Report::new("crowd", "Many sessions of three carriers at once on one server");
    report.setting("sessions", sessions);
    for mix in [["tcp", "tcp", "tcp"], ["tcp", "tcp", "quic"]] {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let figures = runtime.block_on(hold(sessions, &mix));
        runtime.shutdown_timeout(Duration::from_secs(1));
        let name = mix.join(" + ");
        let figures = match figures {
            Ok(figures) => figures,
            Err(error) => {
                report
                    .rows
                    .push(row(name, Err(error.to_string()), |_| Vec::new()));
                continue;
            }
        };
        report.rows.push(Row::new(
            name,
            [
                Metric::new(
                    "memory of an idle session, each end",
                    "bytes",
                    Better::Lower,
                    vec![figures.memory],
                ),
                Metric::new("opened", "sessions/s", Better::Higher, vec![figures.opened]),
                Metric::new(
                    "a round trip over all at once",
                    "ms",
                    Better::Lower,
                    vec![figures.round_trip],
                ),
            ],
        ));
    }
    Ok(report)
}

struct Figures {
    memory: f64,
    opened: f64,
    round_trip: f64,
}

/// Opens sessions until each has all its carriers, leaves them idle, and then sends a message over each.
async fn hold(sessions: usize, mix: &[&str]) -> Result<Figures, Failure> {
    let endpoints = Endpoints::open()?;
    // The first session allocates memory that all share, and does not count.
    let first = endpoints.call(mix)?;
    let first_there = endpoints.server.accept().await?;
    until_joined(std::slice::from_ref(&first), mix.len()).await?;
    let before = sys::allocated_bytes();
    let began = Instant::now();
    let (mut here, mut there) = (Vec::new(), Vec::new());
    for _ in 0..sessions {
        here.push(endpoints.call(mix)?);
        there.push(endpoints.server.accept().await?);
    }
    until_joined(&here, mix.len()).await?;
    let took = began.elapsed().as_secs_f64();
    // Wait until no data is in flight.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let held = sys::allocated_bytes().saturating_sub(before);
    let began = Instant::now();
    let speaking = here.iter().map(|session| async {
        let mut stream = session.open()?;
        stream.write_bytes(Bytes::from_static(b"a question")).await?;
        stream.shutdown().await?;
        let answer = stream.read_bytes().await?;
        if answer.as_ref() == b"an answer" {
            Ok::<_, Failure>(())
        } else {
            Err("no answer came".into())
        }
    });
    let answering = there.iter().map(|session| async {
        let mut stream = session.accept().await?;
        while !stream.read_bytes().await?.is_empty() {}
        stream.write_bytes(Bytes::from_static(b"an answer")).await?;
        stream.shutdown().await?;
        Ok::<_, Failure>(stream)
    });
    let all = futures_util::future::try_join(
        futures_util::future::try_join_all(speaking),
        futures_util::future::try_join_all(answering),
    );
    tokio::time::timeout(TIMEOUT, all).await??;
    let round_trip = began.elapsed().as_secs_f64() * 1e3;
    drop((first, first_there));
    Ok(Figures {
        memory: held as f64 / (2 * sessions) as f64,
        opened: sessions as f64 / took,
        round_trip,
    })
}

/// Waits until each session has this many carriers.
async fn until_joined(sessions: &[Session], carriers: usize) -> Result<(), Failure> {
    let began = Instant::now();
    for session in sessions {
        while session.paths().iter().filter(|(_, path)| is_live(path)).count() < carriers {
            if began.elapsed() > TIMEOUT {
                return Err("not every carrier was up after a minute".into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    Ok(())
}

fn is_live(path: &hawser::session::PathInfo) -> bool {
    path.report
        .is_some_and(|report| report.state == hawser::session::PathState::Live)
}
