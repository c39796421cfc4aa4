//! The savings of remembering winners: processor time of a connection against the cache's hit rate, with and
//! without TLS, under the rules of the race. Papastergiou et al. (*On the Cost of Using Happy Eyeballs for
//! Transport Protocol Selection*, ANRW 2016) found that it falls linearly.
//!
//! TLS handshakes are full handshakes, because no server issues tickets for resumption.
//!
//! A miss is a connection before which all outcomes were forgotten. Each host has a thread of its own. The
//! experiment measures the time of these two threads, in their programs and in the kernel on their behalf,
//! without the network between them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hawser::connect::transports::{Tcp, Tls};
use hawser::connect::{Destination, Profile, Racer, Request, Transport};
use hawser::lab::{HostHandle, Lab, Spec};
use hawser::session::{Identity, TcpOptions, Trust};
use hawser_carriers::tcp::{TcpIncoming, TcpListener};
use hawser_carriers::tls::TlsServer;
use hawser_carriers::{Carrier, send};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::Error;
use crate::experiment::{Context, Outcome, Spread};
use crate::plot::{Axes, PlotLine, lines};

/// A link on which a handshake takes longer than NEAT's spacing, so that candidates race.
const LAB: &str = r#"# A round trip of 40 ms.
name = "caching"
seed = 1
host = [{ name = "client" }, { name = "server" }]

[[link]]
name = "link"
between = ["client", "server"]
interfaces = ["eth0", "eth0"]
both = { rate = "1Gbit/s", queue = "1MB", delay = "20ms" }
"#;

const PORT: u16 = 80;
/// The bytes of a client's question, and of the answer.
const QUESTION: usize = 100;
const ANSWER: usize = 1_000;
/// The hit rates of the cache, in per cent.
const HIT_RATES: [u32; 5] = [0, 25, 50, 75, 100];

/// One series of measurements.
#[derive(Clone, Copy, Debug)]
struct Case {
    profile: &'static str,
    /// The transports tried, all at one address.
    candidates: &'static [&'static str],
    is_secure: bool,
}

pub(crate) fn caching(context: &Context<'_>) -> Result<Outcome, Error> {
    let lab = Lab::up(&Spec::parse(LAB)?)?;
    let connections = if context.quick { 20 } else { 30 };
    let times = context.times(5);
    let rates: Vec<u32> = HIT_RATES
        .into_iter()
        .filter(|rate| !context.quick || rate % 100 == 0)
        .collect();
    let mut outcome = Outcome::default();
    let cases = cases();
    let (total, mut done) = (cases.len() * times * rates.len(), 0);
    let mut rows = Vec::new();
    let mut drawn: [Vec<PlotLine>; 2] = [Vec::new(), Vec::new()];
    for case in cases {
        let mut seen = vec![Vec::new(); rates.len()];
        for _ in 0..times {
            // The rates alternate, so that other load on the machine affects all alike.
            for (place, rate) in rates.iter().enumerate() {
                let name = format!(
                    "{} {}",
                    case.profile,
                    if case.is_secure { "TLS" } else { "plain" }
                );
                (context.progress)(done, total, &name);
                seen[place].push(measure(&lab, case, *rate, connections)?);
                done += 1;
            }
        }
        let microseconds: Vec<[Spread; 3]> = seen
            .iter()
            .map(|runs| {
                [0, 1, 2].map(|which| Spread::from_values(runs.iter().map(|run| run.time(which)).collect()))
            })
            .collect();
        let raced = microseconds[0][2].median;
        let cached = microseconds[rates.len() - 1][2].median;
        let security = if case.is_secure { "TLS" } else { "plain" };
        outcome.lines.push(format!(
            "{:13} {:5} {} candidates: {raced:7.0} µs a connection raced, {cached:7.0} with a cached winner: {:4.1} % less",
            case.profile, security, case.candidates.len(), 100.0 * (1.0 - cached / raced),
        ));
        for (rate, [client, server, both]) in rates.iter().zip(&microseconds) {
            rows.push(json!({
                "profile": case.profile, "security": security, "candidates": case.candidates,
                "hit_rate": f64::from(*rate) / 100.0,
                "microseconds": { "client": client, "server": server, "both": both },
                "saved": 1.0 - both.median / raced,
            }));
        }
        if case.candidates.len() == 2 {
            let points = rates.iter().zip(&microseconds);
            drawn[usize::from(case.is_secure)].push(PlotLine {
                name: case.profile.to_owned(),
                points: points
                    .map(|(rate, of)| (f64::from(*rate), of[2].median))
                    .collect(),
            });
        }
    }
    for (name, title, drawn) in [
        (
            "plain",
            "Processor time of a connection, two candidates",
            &drawn[0],
        ),
        (
            "tls",
            "Processor time of a connection with TLS, two candidates",
            &drawn[1],
        ),
    ] {
        let axes = Axes { title, x: "cache hits in %", y: "µs" };
        outcome.drawings.push((name.into(), lines(&axes, drawn)));
    }
    outcome.figures = json!({ "connections": connections, "iterations": times, "rows": rows });
    outcome.configuration.push(("lab.toml".into(), LAB.into()));
    Ok(outcome)
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for is_secure in [false, true] {
        for candidates in [&["TCP", "MPTCP"][..], &["TCP", "MPTCP", "TCP eth0", "MPTCP eth0"]] {
            for profile in ["neat", "neat-original", "rfc8305"] {
                cases.push(Case { profile, candidates, is_secure });
            }
        }
    }
    cases
}

/// The processor time of a connection, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Cost {
    client: f64,
    server: f64,
}

impl Cost {
    /// Returns the time of the client, of the server, or of both.
    fn time(self, which: usize) -> f64 {
        [self.client, self.server, self.client + self.server][which]
    }
}

fn measure(lab: &Lab, case: Case, hit_rate: u32, connections: u32) -> Result<Cost, Error> {
    let server = lab.host("server")?;
    let address = server.ipv4().ok_or("the server has no IPv4 address")?;
    let (at_server, at_client) = (server.handle(), lab.host("client")?.handle());
    let over = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&over);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let identity = Identity::generate(vec!["server".into()])?;
    let trust = case.is_secure.then(|| Trust::Pin(identity.digest()));
    let tls = case.is_secure.then(|| server_config(&identity)).transpose()?;
    let serving = std::thread::spawn(move || on(&at_server, serve(tls, is_over, ready)));
    // A server that ended before it was ready reports its error when it is joined.
    let _ = is_ready.recv();
    let destination = Destination::new(&address.to_string(), PORT)?;
    let calling =
        std::thread::spawn(move || on(&at_client, call(destination, trust, case, hit_rate, connections)));
    let client = calling.join().map_err(|_| "the client's thread panicked")?;
    over.store(true, Ordering::Relaxed);
    let server = serving.join().map_err(|_| "the server's thread panicked")??;
    Ok(Cost {
        client: client? / f64::from(connections),
        server: server / f64::from(connections),
    })
}

/// Runs a task in this thread, inside a host.
fn on<T>(host: &HostHandle, task: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    host.enter()?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(task)
}

/// Returns the processor time of this thread, in microseconds.
fn cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Answers until the end of the experiment, and returns the processor time in microseconds.
async fn serve(
    tls: Option<TlsServer>,
    is_over: Arc<AtomicBool>,
    ready: std::sync::mpsc::Sender<()>,
) -> Result<f64, Error> {
    let listener = TcpListener::open((Ipv4Addr::UNSPECIFIED, PORT).into(), TcpOptions::default(), tls)?;
    ready.send(())?;
    let before = cpu();
    while !is_over.load(Ordering::Relaxed) {
        let accepted = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        let Ok(accepted) = accepted else { continue };
        // A connection that lost the race sends no question, and may be closed already.
        if let Ok(incoming) = accepted {
            tokio::spawn(answer(incoming));
        }
    }
    Ok(cpu() - before)
}

async fn answer(incoming: TcpIncoming) -> std::io::Result<()> {
    let mut carrier = incoming.accept().await?;
    let mut asked = 0;
    while asked < QUESTION {
        let bytes = poll_fn(|cx| carrier.poll_read(cx)).await?;
        if bytes.is_empty() {
            return Ok(());
        }
        asked += bytes.len();
    }
    let mut queue = VecDeque::from([Bytes::from_static(&[0; ANSWER])]);
    send(&mut carrier, &mut queue).await?;
    poll_fn(|cx| carrier.poll_finish(cx)).await
}

/// Returns a TLS configuration without tickets.
fn server_config(identity: &Identity) -> Result<TlsServer, Error> {
    let mut config = rustls::ServerConfig::clone(&*identity.server(&[])?);
    config.send_tls13_tickets = 0;
    Ok(TlsServer { config: Arc::new(config) })
}

/// Connects and asks this many times, and returns the processor time in microseconds.
async fn call(
    to: Destination,
    trust: Option<Trust>,
    case: Case,
    hit_rate: u32,
    connections: u32,
) -> Result<f64, Error> {
    let racer = Racer::open().await?;
    let transports = transports(case, trust.as_ref())?;
    let profile = Profile::by_name(case.profile).ok_or("no such profile")?;
    let request = Request { transports, profile, ..Request::to(to) };
    // The first connection is a miss. It is not counted, because it also warms the code.
    ask(&racer, &request).await?;
    let before = cpu();
    let mut pending = 0;
    for _ in 0..connections {
        // Spread hits evenly over the connections.
        pending += hit_rate;
        if pending >= 100 {
            pending -= 100;
        } else {
            racer.forget();
        }
        ask(&racer, &request).await?;
    }
    Ok(cpu() - before)
}

async fn ask(racer: &Racer, request: &Request) -> Result<(), Error> {
    let mut stream = racer.connect(request.clone()).await?.stream;
    stream.write_all(&[0; QUESTION]).await?;
    let mut answer = [0; ANSWER];
    stream.read_exact(&mut answer).await?;
    Ok(())
}

/// Returns the transports of a case, each in a class of its own, because NEAT spaces candidates by their
/// place in the list.
fn transports(case: Case, trust: Option<&Trust>) -> Result<Arc<[Arc<dyn Transport>]>, Error> {
    let mut transports: Vec<Arc<dyn Transport>> = Vec::new();
    for (class, name) in (0..).zip(case.candidates) {
        let (transport, interface) = name.split_once(' ').map_or((*name, None), |(t, i)| (t, Some(i)));
        let (interface, is_multipath) = (interface.map(str::to_owned), transport == "MPTCP");
        let Some(trust) = trust else {
            transports.push(Arc::new(Tcp { is_multipath, interface, priority: class }));
            continue;
        };
        let tls = Tls::new(trust, "server", &["hawser/1".to_owned()])?
            .by(interface)
            .in_class(class);
        transports.push(Arc::new(if is_multipath {
            tls.over_several_paths()
        } else {
            tls
        }));
    }
    Ok(transports.into())
}
