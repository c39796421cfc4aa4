//! `hawser serve DIR`: serves files over HTTP over a transport program.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};

use hawser::session::admission::{AdmissionGate, AdmissionPermit, IDLE_TIMEOUT, Shares};
use hawser::{Endpoint, Listener, StateReader, Stream};
use rustix::process::{Resource, Rlimit};
use serde_json::json;
use tokio::task::LocalSet;

use crate::device::{DeviceArgs, directory, runtime};
use crate::exit::{Exit, Outcome};
use crate::http::{
    AnsweredRequest, Exposure, Hosts, Root, SentBytes, is_of_request, serve_connection, with_causes,
};
use crate::{output, signals};

/// The interval at which a connection's state is sampled for the log.
const SAMPLE: Duration = Duration::from_millis(20);

/// The maximum number of requests of a connection that are stored for the log.
const REMEMBERED: usize = 100;

/// The number of open files besides those of responses: the device, sockets, standard streams.
const SPARE_FILES: u64 = 64;

/// Serve the files of a directory over HTTP, over a transport program instead of the TCP of the kernel
///
/// Linux's own programs can be the clients:
///
///   hawser serve . --dev tun:hawser0 --kernel-addr 10.9.0.1/24 --addr 10.9.0.2/24 &
///   curl http://10.9.0.2/README.md
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The directory
    dir: PathBuf,
    /// The port to listen on, at each address; by default 80, or that of a UDP socket
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Maximum number of connections that wait to be accepted
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    backlog: u32,
    /// Maximum number of open connections. A further one replaces the connection that has made no progress
    /// for longest, for 5 s or more; otherwise it is reset
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,
    /// Maximum number of connections of one network: an IPv4 address, or an IPv6 /64. By default a quarter
    /// of --max-connections
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    max_per_network: Option<u32>,
    /// Serve in this number of shards: parallel stacks, each with a thread and a queue of the device, which
    /// share the connections. `hawser check --target` says whether a program can; docs/shards.md says what a
    /// device must have
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: u16,
    /// A host name that requests may name, besides the addresses (repeatable). Others are answered with 421
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Serve files and directories whose names begin with a dot, too
    #[arg(long)]
    dot_files: bool,
    /// Follow links that lead out of the directory, too, and absolute ones
    #[arg(long)]
    outward_links: bool,
    /// Print JSON, one object per line: `listening`, then one for each connection when it ends; `bytes` are
    /// those of bodies that were handed to the connection, `further` counts requests beyond the first 100
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    output::serve(args.json).map_err(Exit::environment)?;
    let port = args.device.port(args.port, 80)?;
    let addresses = args.device.addresses();
    let server = Server {
        root: Arc::new(Root::open(&directory(&args.dir)?, args.exposure()).map_err(Exit::input)?),
        hosts: Arc::new(Hosts::new(args.device.reached_at()?, args.hosts.clone())),
        at: addresses.map(|address| SocketAddr::new(address, port)).collect(),
        backlog: args.backlog,
        shares: args.shares(),
        json: args.json,
        engine: args.device.engine().name(),
        all_listen: Arc::new(Barrier::new(usize::from(args.shards))),
    };
    allow_files(u64::from(args.max_connections) + SPARE_FILES);
    let endpoints = args.device.shards(args.shards)?;
    let (ended, ends) = mpsc::channel();
    signals::end_by(ended.clone())?;
    for (shard, endpoint) in endpoints.into_iter().enumerate() {
        let (server, device, ended) = (server.clone(), args.device.clone(), ended.clone());
        std::thread::spawn(move || {
            // The main thread receives the first result, and then the process ends.
            let _ = ended.send(server.run(shard, &device, endpoint));
        });
    }
    ends.recv().map_err(Exit::failed)?
}

impl Args {
    fn exposure(&self) -> Exposure {
        Exposure { dot_files: self.dot_files, outward_links: self.outward_links }
    }

    /// The limits of one shard's connections. All shards have the same.
    fn shares(&self) -> Shares {
        let of_shard = |count: u32| count.div_ceil(self.shards.into()) as usize;
        let mut shares = Shares::new(of_shard(self.max_connections));
        if let Some(max) = self.max_per_network {
            shares.per_prefix = of_shard(max);
        }
        shares
    }
}

/// The settings that all shards share.
#[derive(Clone)]
struct Server {
    root: Arc<Root>,
    hosts: Arc<Hosts>,
    at: Vec<SocketAddr>,
    backlog: u32,
    /// The limits of one shard.
    shares: Shares,
    json: bool,
    engine: &'static str,
    /// Released when all shards listen, so that no connection arrives earlier.
    all_listen: Arc<Barrier>,
}

impl Server {
    /// Serves one shard's connections in this thread until it fails.
    fn run(&self, shard: usize, device: &DeviceArgs, endpoint: Endpoint) -> Outcome {
        LocalSet::new().block_on(&runtime()?, async {
            let network = device.drive(endpoint)?;
            let listeners = self.at.iter().map(|at| {
                let listener = network.listen(*at, self.backlog);
                listener.map_err(|e| Exit::environment(format!("cannot listen on {at}: {e}")))
            });
            let listeners: Vec<Listener> = listeners.collect::<Result<_, Exit>>()?;
            self.all_listen.wait();
            if shard == 0 {
                device.listen()?;
                self.announce();
            }
            let gate = AdmissionGate::new(self.shares);
            let mut accepting = tokio::task::JoinSet::new();
            for listener in listeners {
                accepting.spawn_local(self.clone().accept(listener, gate.clone()));
            }
            match accepting.join_next().await {
                Some(Err(error)) => Err(Exit::environment(error)),
                Some(Ok(exit)) => Err(exit),
                None => Err(Exit::failed("nobody listens")),
            }
        })
    }

    fn announce(&self) {
        for at in &self.at {
            match self.json {
                true => println!(
                    "{}",
                    json!({ "listening": at.to_string(), "engine": self.engine })
                ),
                false => println!("listening on http://{at}/"),
            }
        }
    }

    /// Serves a listener's connections.
    async fn accept(self, listener: Listener, gate: AdmissionGate) -> Exit {
        let mut refused = Refused::default();
        loop {
            let stream = match listener.accept().await {
                Ok(stream) => stream,
                Err(error) => return Exit::environment(error),
            };
            // A connection that has already gone has no address, and needs no place.
            let Some(peer) = stream.peer() else { continue };
            let Some(place) = gate.enter_if_idle(peer.ip(), IDLE_TIMEOUT) else {
                stream.abort();
                refused.count();
                continue;
            };
            let (root, hosts) = (self.root.clone(), self.hosts.clone());
            tokio::task::spawn_local(connection(stream, place, root, hosts, self.json));
        }
    }
}

/// Raises the limit of open files if the system allows it, because each response keeps its file open.
fn allow_files(wanted: u64) {
    let limits = rustix::process::getrlimit(Resource::Nofile);
    let current = limits.maximum.map_or(wanted, |max| wanted.min(max));
    if limits.current.is_some_and(|now| now < current) {
        // If this is not allowed, a request whose file cannot be opened is answered with an error.
        let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limits });
    }
}

/// The connections reset at the limit, reported once a minute.
#[derive(Default)]
struct Refused {
    count: u64,
    reported: Option<Instant>,
}

impl Refused {
    fn count(&mut self) {
        self.count += 1;
        if self
            .reported
            .is_none_or(|at| at.elapsed() >= Duration::from_secs(60))
        {
            eprintln!(
                "--max-connections or --max-per-network is reached: {} connections were reset so far",
                self.count
            );
            self.reported = Some(Instant::now());
        }
    }
}

/// Serves one connection and then logs it.
async fn connection(
    mut stream: Stream,
    mut place: AdmissionPermit,
    root: Arc<Root>,
    hosts: Arc<Hosts>,
    json: bool,
) {
    let peer = stream.peer().map_or_else(String::new, |p| p.to_string());
    let probe = stream.probe();
    let requests = Rc::new(RefCell::new(LoggedRequests::default()));
    let state = Rc::new(RefCell::new(None));
    let sampler = tokio::task::spawn_local(sample(probe, state.clone()));
    let begin = Instant::now();
    let log = {
        let requests = requests.clone();
        move |served: AnsweredRequest| requests.borrow_mut().note(served)
    };
    let watched = place.watch(&mut stream);
    let (error, is_aborted) = match place.hold(serve_connection(watched, root, hosts, log)).await {
        Some(Ok(())) => (None, false),
        Some(Err(error)) => (Some(with_causes(&error)), !is_of_request(&error)),
        None => {
            let why = "the connection was idle, and another one needed its place";
            (Some(why.to_owned()), true)
        }
    };
    if is_aborted {
        stream.abort();
    }
    sampler.abort();
    let sampled = *state.borrow();
    report(&peer, &requests.borrow(), begin.elapsed(), sampled, error, json);
}

/// The transport's last report on a connection: retransmissions, and smoothed round-trip time in ns.
type Sampled = Option<(u64, u64)>;

async fn sample(probe: StateReader, into: Rc<RefCell<Sampled>>) {
    loop {
        if let (Some(retransmissions), Some(srtt)) = (probe.observe("retransmissions"), probe.observe("srtt"))
        {
            *into.borrow_mut() = Some((retransmissions, srtt));
        }
        tokio::time::sleep(SAMPLE).await;
    }
}

/// The requests of a connection for the log: the first ones in full, further ones as counts.
#[derive(Default)]
struct LoggedRequests {
    first: Vec<AnsweredRequest>,
    /// The current request, if it is not among the first. `further_bytes` excludes its bytes.
    last: Option<SentBytes>,
    further: u64,
    further_bytes: u64,
}

impl LoggedRequests {
    fn note(&mut self, served: AnsweredRequest) {
        if self.first.len() < REMEMBERED {
            return self.first.push(served);
        }
        self.further += 1;
        self.further_bytes += self.last.replace(served.sent).map_or(0, |sent| sent.bytes());
    }

    /// Returns the number of body bytes passed to the connection over all requests.
    fn bytes(&self) -> u64 {
        let first: u64 = self.first.iter().map(|served| served.sent.bytes()).sum();
        first + self.further_bytes + self.last.as_ref().map_or(0, SentBytes::bytes)
    }
}

fn report(
    peer: &str,
    requests: &LoggedRequests,
    took: Duration,
    sampled: Sampled,
    error: Option<String>,
    json: bool,
) {
    let bytes = requests.bytes();
    if json {
        let first: Vec<_> = requests
            .first
            .iter()
            .map(|r| json!({ "method": r.method, "path": r.path, "status": r.status, "bytes": r.sent.bytes() }))
            .collect();
        println!(
            "{}",
            json!({
                "peer": peer, "requests": first, "further": requests.further, "bytes": bytes, "seconds": took.as_secs_f64(),
                "retransmissions": sampled.map(|s| s.0), "srtt_ns": sampled.map(|s| s.1), "error": error,
            })
        );
        return;
    }
    for request in &requests.first {
        println!(
            "{peer} {} {} {} {}",
            request.method,
            request.path,
            request.status,
            request.sent.bytes()
        );
    }
    if requests.further > 0 {
        println!("{peer} and {} further requests", requests.further);
    }
    if let Some(error) = error {
        println!("{peer} {error}");
    }
}
