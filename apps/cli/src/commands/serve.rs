//! `hawser serve DIR`

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hawser::{Probe, Stream};
use serde_json::json;

use crate::device::{DeviceArgs, directory, runtime};
use crate::exit::{Exit, Outcome};
use crate::http::{Served, serve_connection, with_causes};

/// How often a connection's state is looked at for the log.
const SAMPLE: Duration = Duration::from_millis(20);

/// Serve the files of a directory over HTTP, on a stack of our own
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
    /// Port to listen on, on each of the addresses
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// How many connections may wait to be accepted
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    backlog: u32,
    /// One JSON object per line: `listening`, then one per connection when it ends; `bytes` are those of
    /// bodies that were handed to the connection
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let root = Arc::new(directory(&args.dir)?);
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime()?, async {
        let network = args.device.start()?;
        let mut accepting = tokio::task::JoinSet::new();
        for address in args.device.addresses() {
            let at = SocketAddr::new(address, args.port);
            let listener = network
                .listen(at, args.backlog)
                .map_err(|e| Exit::environment(format!("cannot listen on {at}: {e}")))?;
            if args.json {
                println!("{}", json!({ "listening": at.to_string(), "engine": args.device.engine().name() }));
            } else {
                println!("listening on http://{at}/");
            }
            let (root, json) = (root.clone(), args.json);
            accepting.spawn_local(async move {
                loop {
                    match listener.accept().await {
                        Ok(stream) => {
                            tokio::task::spawn_local(connection(stream, root.clone(), json));
                        }
                        Err(error) => return Exit::environment(error),
                    }
                }
            });
        }
        match accepting.join_next().await {
            Some(Ok(exit)) => Err(exit),
            Some(Err(error)) => Err(Exit::environment(error)),
            None => Err(Exit::usage("there is no address to listen on; give --addr")),
        }
    })
}

/// Serves one connection, then logs it.
async fn connection(stream: Stream, root: Arc<PathBuf>, json: bool) {
    let peer = stream.peer().map_or_else(String::new, |p| p.to_string());
    let probe = stream.probe();
    let requests = Rc::new(RefCell::new(Vec::new()));
    let state = Rc::new(RefCell::new(None));
    let sampler = tokio::task::spawn_local(sample(probe, state.clone()));
    let begin = Instant::now();
    let log = {
        let requests = requests.clone();
        move |served: Served| requests.borrow_mut().push(served)
    };
    let result = serve_connection(stream, root, log).await;
    sampler.abort();
    let sampled = *state.borrow();
    report(&peer, &requests.borrow(), begin.elapsed(), sampled, result.err().map(|e| with_causes(&e)), json);
}

/// What the transport said of a connection: retransmissions and smoothed round trip in ns.
type Sampled = Option<(u64, u64)>;

async fn sample(probe: Probe, into: Rc<RefCell<Sampled>>) {
    loop {
        if let (Some(retransmissions), Some(srtt)) = (probe.observe("retransmissions"), probe.observe("srtt"))
        {
            *into.borrow_mut() = Some((retransmissions, srtt));
        }
        tokio::time::sleep(SAMPLE).await;
    }
}

fn report(
    peer: &str,
    requests: &[Served],
    took: Duration,
    sampled: Sampled,
    error: Option<String>,
    json: bool,
) {
    let bytes: u64 = requests.iter().map(|r| r.sent.bytes()).sum();
    if json {
        let requests: Vec<_> = requests
            .iter()
            .map(|r| json!({ "method": r.method, "path": r.path, "status": r.status, "bytes": r.sent.bytes() }))
            .collect();
        println!(
            "{}",
            json!({
                "peer": peer, "requests": requests, "bytes": bytes, "seconds": took.as_secs_f64(),
                "retransmissions": sampled.map(|s| s.0), "srtt_ns": sampled.map(|s| s.1), "error": error,
            })
        );
        return;
    }
    for request in requests {
        println!("{peer} {} {} {} {}", request.method, request.path, request.status, request.sent.bytes());
    }
    if let Some(error) = error {
        println!("{peer} {error}");
    }
}
