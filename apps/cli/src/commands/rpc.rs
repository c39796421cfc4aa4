//! `hawser rpc`: makes calls over a transport program and measures their latency.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hawser::interact::parse_span;
use hawser::messages::{Call, Socket};
use hawser::{Endpoint, MessageError, MessageOptions};
use hdrhistogram::Histogram;
use serde_json::json;

use crate::device::DeviceArgs;
use crate::exit::{Exit, Outcome};
use crate::{output, progress, signals};

/// The maximum size of a message, in bytes.
const MAX_SIZE: u32 = 64 << 20;

/// The maximum time that the histogram resolves: an hour, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

/// The maximum time for which a command sleeps, and the interval at which the progress is shown.
const SHOWN: Duration = Duration::from_millis(100);

/// The reported quantiles.
const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// Make and answer calls over any transport program, and measure their latency
///
/// Messages are carried by the program, or framed on its streams (docs/messages.md):
///
///   hawser rpc serve --program homa --dev packet:hawser0 --addr 10.9.0.1/24 &
///   hawser rpc call 10.9.0.1:7000 --program homa --dev packet:hawser1 --addr 10.9.0.2/24
///
/// Without root both run within `unshare -Urn`, on a pair of devices made there (docs/messages.md has the commands).
#[derive(clap::Subcommand)]
#[command(verbatim_doc_comment)]
pub(crate) enum Command {
    Serve(Serve),
    Call(Calls),
}

/// Answer each call with its own bytes
#[derive(clap::Args)]
pub(crate) struct Serve {
    /// The port, at the first address of the stack; by default 7000, or that of a UDP socket
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Serve this number of calls, then exit
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    calls: Option<u64>,
    /// Maximum size of a message in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SIZE)))]
    max_size: u32,
    /// Poll the device all the time instead of sleeping, which occupies a processor
    #[arg(long)]
    spin: bool,
    /// Print JSON, one object per line: `listening`, then `served` at the end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Make calls, and report their latency
#[derive(clap::Args)]
pub(crate) struct Calls {
    /// ADDRESS:PORT of the server
    #[arg(value_parser = parse_server)]
    server: SocketAddr,
    /// Size of each call in bytes; replies have the same size
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SIZE)))]
    size: u32,
    /// The maximum number of calls at a time
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    concurrency: u32,
    /// Number of calls
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    calls: u64,
    /// Call for this time instead: 10s
    #[arg(long, value_name = "TIME", value_parser = parse_limit)]
    duration: Option<Duration>,
    /// The maximum time of a call
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_limit)]
    deadline: Duration,
    /// Poll the device all the time instead of sleeping, which occupies a processor
    #[arg(long)]
    spin: bool,
    /// Print the result as a JSON object and show no progress
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

fn parse_server(text: &str) -> Result<SocketAddr, String> {
    let server: SocketAddr = text
        .parse()
        .map_err(|_| "expected ADDRESS:PORT, as in 10.9.0.1:7000 or [fd00::1]:7000".to_owned())?;
    match server.port() {
        0 => Err(
            "port 0 is invalid: give the port on which `hawser rpc serve` listens, by default 7000"
                .to_owned(),
        ),
        _ => Ok(server),
    }
}

/// The maximum time of a run, and of a call: a day.
const LIMIT_MAX: Duration = Duration::from_secs(86_400);

/// Parses a time that is positive and within the limit.
fn parse_limit(text: &str) -> Result<Duration, String> {
    let span = parse_span(text).map_err(|error| error.to_string())?;
    match span {
        Duration::ZERO => Err("expected a time of more than 0".to_owned()),
        span if span > LIMIT_MAX => Err("the limit is a day, 1440min".to_owned()),
        span => Ok(span),
    }
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Serve(args) => serve(args),
        Command::Call(args) => call(args),
    }
}

fn serve(args: &Serve) -> Outcome {
    output::serve(args.json).map_err(Exit::environment)?;
    let port = args.device.port(args.port, 7000)?;
    let mut endpoint = args.device.endpoint()?;
    let own = args.device.addresses().next();
    let own = own.ok_or_else(|| Exit::usage("the command needs an address to listen on: --addr"))?;
    let at = SocketAddr::new(own, port);
    let options = MessageOptions { size: args.max_size as usize, ..MessageOptions::default() };
    let socket = endpoint
        .bind(at, &options)
        .map_err(|error| unusable(&error, &format!("cannot listen on {at}")))?;
    match args.json {
        true => println!(
            "{}",
            json!({ "listening": at.to_string(), "engine": args.device.engine().name() })
        ),
        false => println!("listening on {at}"),
    }
    let (ended, is_over) = mpsc::channel();
    signals::end_by(ended)?;
    let mut served = 0;
    while args.calls.is_none_or(|calls| served < calls) && is_over.try_recv().is_err() {
        let is_busy = endpoint.poll().map_err(Exit::environment)?;
        let count = endpoint
            .serve(socket, |request| request.message.clone())
            .map_err(Exit::network)?;
        served += count as u64;
        if !is_busy && count == 0 && !args.spin {
            endpoint.wait(Some(SHOWN)).map_err(Exit::environment)?;
        }
    }
    linger(&mut endpoint)?;
    match args.json {
        true => println!("{}", json!({ "served": served })),
        false => println!("{served} calls were served"),
    }
    Ok(())
}

/// The number of failed calls after which no more are made, if none was answered.
const HOPELESS: u64 = 8;

/// Polls for 200 ms, so that the last replies leave and lost ones are retransmitted.
fn linger(endpoint: &mut Endpoint) -> Outcome {
    let until = Instant::now() + Duration::from_millis(200);
    while Instant::now() < until {
        while endpoint.poll().map_err(Exit::environment)? {}
        endpoint
            .wait(Some(Duration::from_millis(10)))
            .map_err(Exit::environment)?;
    }
    Ok(())
}

/// The result of a run of calls.
struct CallResults {
    histogram: Histogram<u64>,
    failed: u64,
    first_failure: Option<String>,
    took: Duration,
}

fn call(args: &Calls) -> Outcome {
    args.device.refuse_own(args.server.ip())?;
    let own = args.device.address(Some(args.server.ip()));
    let own = own.filter(|own| own.is_ipv4() == args.server.is_ipv4());
    let own = own.ok_or_else(|| Exit::usage("--addr has no address of the server's family"))?;
    let mut endpoint = args.device.endpoint()?;
    let concurrency = args.concurrency as usize;
    let options = MessageOptions {
        size: args.size as usize,
        deadline: Some(args.deadline),
        calls: concurrency,
        ..MessageOptions::default()
    };
    let socket = endpoint
        .bind(SocketAddr::new(own, 0), &options)
        .map_err(|error| unusable(&error, "cannot call"))?;
    let run = calls(args, &mut endpoint, socket)?;
    let count = run.histogram.len();
    if count == 0
        && let Some(error) = run.first_failure
    {
        return Err(Exit::network(format!(
            "the server answered no call; {} failed, the first with: {error}",
            run.failed
        )));
    }
    report(args, &run);
    match run.first_failure {
        Some(error) => Err(Exit::network(format!(
            "{} calls of {} failed, the first with: {error}",
            run.failed,
            count + run.failed
        ))),
        None => Ok(()),
    }
}

/// Keeps `concurrency` calls in flight until all are made or the time is up, and waits for those in flight.
fn calls(args: &Calls, endpoint: &mut Endpoint, socket: Socket) -> Result<CallResults, Exit> {
    let message: Vec<u8> = (0..args.size).map(|i| (i * 7) as u8).collect();
    let bar = match args.duration {
        Some(_) => progress::share(args.json, "calling"),
        None => progress::count(args.json, "calling", args.calls),
    };
    let mut under_way: HashMap<Call, Instant> = HashMap::new();
    let mut over = Vec::new();
    let mut run = CallResults {
        histogram: Histogram::new_with_bounds(1, LONGEST, 3).map_err(Exit::environment)?,
        failed: 0,
        first_failure: None,
        took: Duration::ZERO,
    };
    let begin = Instant::now();
    let (mut made, mut shown) = (0, begin);
    loop {
        let is_more = match args.duration {
            Some(duration) => begin.elapsed() < duration,
            None => made < args.calls,
        };
        let is_more = is_more && (run.failed < HOPELESS || !run.histogram.is_empty());
        let mut is_busy = false;
        while is_more
            && under_way.len() < args.concurrency as usize
            && (args.duration.is_some() || made < args.calls)
        {
            let at = Instant::now();
            match endpoint.call(socket, args.server, &message) {
                Ok(Some(call)) => {
                    under_way.insert(call, at);
                }
                Ok(None) => break,
                Err(error) => run.fail(&error),
            }
            (made, is_busy) = (made + 1, true);
        }
        if !is_more && under_way.is_empty() {
            run.took = begin.elapsed();
            bar.finish_and_clear();
            return Ok(run);
        }
        is_busy |= endpoint.poll().map_err(Exit::environment)?;
        for (&call, began) in &under_way {
            match endpoint.reply(call) {
                Ok(None) => continue,
                Ok(Some(reply)) if reply == message => run.record(began.elapsed()),
                Ok(Some(_)) => {
                    return Err(Exit::failed("the bytes of a reply differ from those of its call"));
                }
                Err(error) => run.fail(&error),
            }
            over.push(call);
        }
        is_busy |= !over.is_empty();
        for call in over.drain(..) {
            under_way.remove(&call);
        }
        if shown.elapsed() > SHOWN {
            shown = Instant::now();
            bar.set_position(match args.duration {
                Some(duration) => (1000.0 * begin.elapsed().as_secs_f64() / duration.as_secs_f64()) as u64,
                None => made,
            });
        }
        if !is_busy && !args.spin {
            endpoint.wait(Some(SHOWN)).map_err(Exit::environment)?;
        }
    }
}

impl CallResults {
    fn record(&mut self, took: Duration) {
        self.histogram
            .saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    fn fail(&mut self, error: &MessageError) {
        self.failed += 1;
        self.first_failure.get_or_insert_with(|| error.to_string());
    }
}

fn report(args: &Calls, run: &CallResults) {
    let (histogram, seconds) = (&run.histogram, run.took.as_secs_f64());
    let rate = histogram.len() as f64 / seconds;
    if args.json {
        let mut latency: serde_json::Map<String, serde_json::Value> = QUANTILES
            .iter()
            .map(|(name, quantile)| ((*name).to_owned(), histogram.value_at_quantile(*quantile).into()))
            .collect();
        latency.insert("min".to_owned(), histogram.min().into());
        latency.insert("max".to_owned(), histogram.max().into());
        latency.insert("mean".to_owned(), (histogram.mean().round() as u64).into());
        let buckets: Vec<_> = histogram
            .iter_recorded()
            .map(|bucket| json!([bucket.value_iterated_to(), bucket.count_at_value()]))
            .collect();
        let result = json!({
            "server": args.server.to_string(),
            "program": args.device.program(),
            "engine": args.device.engine().name(),
            "size": args.size,
            "concurrency": args.concurrency,
            "spin": args.spin,
            "calls": histogram.len(),
            "failed": run.failed,
            "seconds": seconds,
            "calls_per_second": rate,
            "latency_ns": latency,
            "histogram_ns": buckets,
        });
        println!("{result}");
        return;
    }
    println!(
        "{} calls of {} bytes in {seconds:.2} s: {rate:.0} a second",
        histogram.len(),
        args.size
    );
    let micros = |nanos: u64| format!("{:.1} µs", nanos as f64 / 1e3);
    println!("  {:<8}{:>12}", "min", micros(histogram.min()));
    for (name, quantile) in QUANTILES {
        println!("  {name:<8}{:>12}", micros(histogram.value_at_quantile(quantile)));
    }
    println!("  {:<8}{:>12}", "max", micros(histogram.max()));
}

/// Maps an error that prevented the socket from opening to an exit: the program has no messages, or this
/// machine failed.
fn unusable(error: &MessageError, what: &str) -> Exit {
    let message = format!("{what}: {error}");
    match error {
        MessageError::NoMessages => Exit::input(message),
        _ => Exit::environment(message),
    }
}
