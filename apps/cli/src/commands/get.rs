//! `hawser get URL`

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hyper::Uri;
use serde_json::json;

use crate::device::{DeviceArgs, runtime};
use crate::exit::{Exit, Outcome};
use crate::{http, progress};

/// Download over HTTP with a stack of our own
///
///   hawser get http://10.9.0.1:8000/file -o file \
///     --dev tun:hawser0 --kernel-addr 10.9.0.1/24 --addr 10.9.0.2/24
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// http://HOST[:PORT]/PATH; the host is a name or an address
    url: Uri,
    /// Where to put it; `-` is standard output. Without it, the last part of the path
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// The result as a JSON object on standard output, and no progress bar
    #[arg(long)]
    json: bool,
    /// Give up after this many seconds
    #[arg(long, default_value_t = 600)]
    max_time: u64,
    #[command(flatten)]
    device: DeviceArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.url.scheme_str().is_some_and(|s| s != "http") {
        return Err(Exit::usage(format!("only http:// is spoken here, not {}", args.url)));
    }
    let target = Target::of(args)?;
    let remote = resolve(&args.url, &args.device)?;
    runtime()?.block_on(async {
        match tokio::time::timeout(Duration::from_secs(args.max_time), download(args, &target, remote)).await
        {
            Ok(outcome) => outcome,
            Err(_) => Err(Exit::network(format!("gave up after {} s; see --max-time", args.max_time))),
        }
    })
}

async fn download(args: &Args, target: &Target, remote: SocketAddr) -> Outcome {
    let network = args.device.start()?;
    let begin = Instant::now();
    let stream = network
        .connect(remote)
        .await
        .map_err(|e| Exit::network(format!("cannot connect to {remote}: {e}")))?;
    let connect = begin.elapsed();
    let probe = stream.probe();
    // Made when there is something to put into it: a request that fails leaves an older file alone.
    let output = std::cell::RefCell::new(None);
    let bar = progress::bytes(true, "", None);
    let bar = std::cell::RefCell::new(bar);
    let quiet = args.json;
    let mut state = None;
    let total = http::get(
        stream,
        &args.url,
        |total| {
            *bar.borrow_mut() = progress::bytes(quiet, args.url.path(), total);
            *output.borrow_mut() = Some(target.create()?);
            Ok(())
        },
        |bytes| {
            bar.borrow().inc(bytes.len() as u64);
            state = probe.observe("retransmissions").zip(probe.observe("srtt")).or(state);
            output.borrow_mut().as_mut().map_or(Ok(()), |output: &mut Box<dyn Write>| output.write_all(bytes))
        },
    )
    .await
    .map_err(|error| match error {
        http::GetError::Sink(_) => Exit::environment(error),
        _ => Exit::network(error),
    })?;
    output.into_inner().map_or(Ok(()), |mut output| output.flush()).map_err(Exit::environment)?;
    let took = begin.elapsed();
    bar.borrow().finish();
    if args.json {
        let seconds = took.as_secs_f64();
        println!(
            "{}",
            json!({
                "url": args.url.to_string(), "remote": remote.to_string(), "bytes": total, "seconds": seconds,
                "connect_seconds": connect.as_secs_f64(), "bits_per_second": total as f64 * 8.0 / seconds,
                "retransmissions": state.map(|s| s.0), "srtt_ns": state.map(|s| s.1),
            })
        );
    }
    network.drained(0, Duration::from_secs(2)).await;
    Ok(())
}

/// Where a download goes.
enum Target {
    Stdout,
    File(PathBuf),
}

impl Target {
    fn of(args: &Args) -> Result<Target, Exit> {
        match &args.output {
            Some(path) if path.as_os_str() == "-" => Ok(Target::Stdout),
            Some(path) => Ok(Target::File(path.clone())),
            None => match args.url.path().rsplit('/').next() {
                Some(name) if !matches!(name, "" | "." | "..") => Ok(Target::File(name.into())),
                _ => Err(Exit::usage("the URL names no file; say where to put it with -o")),
            },
        }
    }

    fn create(&self) -> io::Result<Box<dyn Write>> {
        let path = match self {
            Target::Stdout => return Ok(Box::new(io::stdout())),
            Target::File(path) => path,
        };
        match std::fs::File::create(path) {
            Ok(file) => Ok(Box::new(io::BufWriter::with_capacity(1 << 20, file))),
            Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        }
    }
}

/// The address to connect to: of a family that the stack has.
fn resolve(url: &Uri, device: &DeviceArgs) -> Result<SocketAddr, Exit> {
    let host = url.host().ok_or_else(|| Exit::usage(format!("{url} names no host")))?;
    let port = url.port_u16().unwrap_or(80);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, port));
    }
    let found: Vec<SocketAddr> = (bare, port)
        .to_socket_addrs()
        .map_err(|e| Exit::network(format!("cannot resolve {bare}: {e}")))?
        .collect();
    let usable =
        found.iter().find(|a| device.address(Some(a.ip())).is_some_and(|own| own.is_ipv4() == a.is_ipv4()));
    usable.or(found.first()).copied().ok_or_else(|| Exit::network(format!("{bare} has no address")))
}
