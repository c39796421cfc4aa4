//! The benefit for an application that asks for a service and names no transport. It compares downloads over
//! the transport that the selection picks with downloads over TCP, by size, on two paths of 10 Mbit/s.
//!
//! The selection ranks by the built-in profiles and races the ranked candidates: SCTP with concurrent
//! multipath transfer first, then MPTCP, then TCP. The server is a process of its own, because a process has
//! one SCTP stack.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Instant;

use hawser::connect::listener::{Incoming, ListenOptions, Listener};
use hawser::connect::policy::{Manager, builtin};
use hawser::connect::transports::{Tcp, Transports};
use hawser::connect::{Destination, Policies, Racer, Request, Transport};
use hawser::lab::{Lab, Spec};
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::Error;
use crate::experiment::{Context, Outcome, Spread};
use crate::plot::{Axes, PlotLine, lines};

/// Two paths, whose rates a transport over both can add up.
const LAB: &str = r#"# Two paths of 10 Mbit/s, with round trips of 10 and 20 ms.
name = "two paths"
seed = 1
host = [{ name = "client" }, { name = "server" }]

[[link]]
name = "path-a"
between = ["client", "server"]
interfaces = ["wlan0", "eth0"]
through = "cell"
both = { rate = "10Mbit/s", queue = "50kB", delay = "5ms" }

[[link]]
name = "path-b"
between = ["client", "server"]
interfaces = ["wwan0", "eth1"]
through = "cell"
both = { rate = "10Mbit/s", queue = "50kB", delay = "10ms" }
"#;

const PORT: u16 = 80;
/// The sizes of downloads, in bytes.
const SIZES: [u64; 10] = [
    10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000, 4_000_000, 16_000_000, 32_000_000, 64_000_000,
];
/// The largest size in quick mode, in bytes.
const QUICK: u64 = 2_000_000;
/// The number of bytes written and read at once.
const CHUNK: usize = 65_536;

/// The two kinds of download.
const CONTENDERS: [&str; 2] = ["TCP", "selection"];

pub(crate) fn download(context: &Context<'_>) -> Result<Outcome, Error> {
    let lab = Lab::up(&Spec::parse(LAB)?)?;
    let _server = Server::start(&lab)?;
    let address = lab
        .host("server")?
        .ipv4()
        .ok_or("the server has no IPv4 address")?;
    let destination = Destination::new(&address.to_string(), PORT)?;
    let client = lab.host("client")?.handle();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(move || client.enter().expect("a host of a lab that is up"))
        .enable_all()
        .build()?;
    let policies = policies()?;
    let sizes: Vec<u64> = SIZES
        .into_iter()
        .filter(|size| !context.quick || *size <= QUICK)
        .collect();
    let times = context.times(3);
    let mut outcome = Outcome::default();
    let mut rows = Vec::new();
    let mut drawn: [Vec<PlotLine>; 2] = Default::default();
    let mut points: [[Vec<(f64, f64)>; 2]; 2] = Default::default();
    let racer = runtime.block_on(runtime.spawn(Racer::open()))??;
    for (number, size) in sizes.iter().copied().enumerate() {
        let mut seen = [Vec::new(), Vec::new()];
        let mut transports = [String::new(), String::new()];
        for time in 0..times {
            // The two alternate, so that other load on the machine affects both alike.
            for (contender, name) in CONTENDERS.into_iter().enumerate() {
                let step = (number * times + time) * CONTENDERS.len() + contender;
                (context.progress)(
                    step,
                    sizes.len() * times * CONTENDERS.len(),
                    &format!("{size} bytes by {name}"),
                );
                let raced = match contender {
                    0 => Arc::new([Arc::new(Tcp::default()) as Arc<dyn Transport>]),
                    _ => policies.choose(&destination)?.transports,
                };
                let request = Request { transports: raced, ..Request::to(destination.clone()) };
                let task = runtime.spawn(fetch(racer.clone(), request, size));
                let (seconds, transport) = runtime.block_on(task)??;
                seen[contender].push(seconds);
                transports[contender] = transport;
            }
        }
        let seconds = seen.map(Spread::from_values);
        let rate = seconds.map(|spread| size as f64 * 8e-6 / spread.median);
        outcome.lines.push(format!(
            "{:9} bytes: TCP {:8.3} s, {:5.2} Mbit/s; {} {:8.3} s, {:5.2} Mbit/s",
            size, seconds[0].median, rate[0], transports[1], seconds[1].median, rate[1],
        ));
        for contender in 0..CONTENDERS.len() {
            rows.push(json!({
                "bytes": size, "way": CONTENDERS[contender], "transport": transports[contender], "seconds": seconds[contender],
                "mbit_per_second": rate[contender],
            }));
            // The sizes span three orders of magnitude, so the axis shows their logarithms.
            let size = (size as f64 / 1e6).log10();
            points[contender][0].push((size, seconds[contender].median));
            points[contender][1].push((size, rate[contender]));
        }
    }
    for (name, [seconds, rates]) in CONTENDERS.into_iter().zip(points) {
        drawn[0].push(PlotLine { name: name.into(), points: seconds });
        drawn[1].push(PlotLine { name: name.into(), points: rates });
    }
    let size = "size: log10 of MB";
    let time = Axes { title: "Time of a download, connection included", x: size, y: "s" };
    let rate = Axes {
        title: "Throughput of a download, connection included",
        x: size,
        y: "Mbit/s",
    };
    outcome.drawings.push(("time".into(), lines(&time, &drawn[0])));
    outcome
        .drawings
        .push(("throughput".into(), lines(&rate, &drawn[1])));
    outcome.figures = json!({ "iterations": times, "rows": rows });
    outcome.configuration.push(("lab.toml".into(), LAB.into()));
    Ok(outcome)
}

fn policies() -> Result<Policies, Error> {
    let mut manager = Manager::new(Policies::options());
    let pib = builtin::pib(manager.names_mut())?;
    let names = manager.names().clone();
    manager.replace(names, pib, Vec::new(), 0.0)?;
    Ok(Policies::new(
        Arc::new(Mutex::new(manager)),
        "defaults",
        Transports::new(),
    )?)
}

/// Downloads this many bytes, and returns the duration in seconds and the transport that won.
async fn fetch(racer: Racer, request: Request, bytes: u64) -> Result<(f64, String), Error> {
    let begin = Instant::now();
    let connected = racer.connect(request).await?;
    let transport = connected.candidate.transport.to_string();
    let mut stream = connected.stream;
    stream.write_all(&bytes.to_be_bytes()).await?;
    let (mut buffer, mut came) = (vec![0; CHUNK], 0);
    while came < bytes {
        let more = stream.read(&mut buffer).await?;
        if more == 0 {
            return Err(format!("{came} of {bytes} bytes came").into());
        }
        came += more as u64;
    }
    Ok((begin.elapsed().as_secs_f64(), transport))
}

/// A server in a process of its own, which is killed when this is dropped.
struct Server(Child);

impl Server {
    fn start(lab: &Lab) -> Result<Server, Error> {
        let host = lab.host("server")?;
        let mut command = host.command(std::env::current_exe()?)?;
        command.args(
            host.addresses()
                .iter()
                .filter(|ip| ip.is_ipv4())
                .map(ToString::to_string),
        );
        let mut child = command
            .env(SERVE, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("the server has no output")?;
        let server = Server(child);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if line.is_empty() {
            return Err("the server did not begin; what it printed is above".into());
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The variable that marks the process of [`download`]'s server. It listens at the addresses in its
/// arguments.
const SERVE: &str = "HAWSER_EXPERIMENT_SERVE";

/// Runs the server if this process was started as one, and returns its result; otherwise returns `None`.
///
/// # Errors
/// An argument is not an address, or the server cannot listen there.
pub(crate) fn serve() -> Option<Result<(), Error>> {
    std::env::var_os(SERVE)?;
    Some(listen())
}

fn listen() -> Result<(), Error> {
    let addresses: Result<Vec<IpAddr>, _> = std::env::args().skip(1).map(|word| word.parse()).collect();
    let addresses = addresses?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
        let listeners = [
            Listener::open(&ListenOptions::plain(any))?,
            Listener::sctp(&addresses, PORT)?,
        ];
        println!("listening");
        let mut serving: JoinSet<()> = listeners.into_iter().map(accept).collect();
        while serving.join_next().await.is_some() {}
        Ok(())
    })
}

async fn accept(mut listener: Listener) {
    while let Some(incoming) = listener.accept().await {
        tokio::spawn(answer(incoming));
    }
}

/// Sends the requested bytes. A client that disconnects is not an error.
async fn answer(incoming: Incoming) -> std::io::Result<()> {
    let mut stream = incoming.stream;
    let mut left = stream.read_u64().await?;
    let content = [0; CHUNK];
    while left > 0 {
        let length = left.min(CHUNK as u64) as usize;
        stream.write_all(&content[..length]).await?;
        left -= length as u64;
    }
    stream.shutdown().await
}
