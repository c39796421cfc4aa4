//! `hawser bench http`: closed-loop clients fetch files from `hawser serve` and from nginx, through one link
//! that cross traffic shares.
//!
//! * [`mod@line`]: the network, and the cross traffic on it
//! * [`server`]: the two servers
//! * [`clients`]: the clients

mod clients;
mod line;
mod server;

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hawser_documents::temporary::Folder;

use super::{Common, alternate, column, percentiles, row};
use crate::report::{Better, Metric, Report};
use crate::{networks, sys};
use clients::{MeasuredPeriod, Target};
use line::{CrossTraffic, Line};
use server::{Server, ServerKind};

/// Measure fetches of files over HTTP: `hawser serve` beside nginx, on a link with and without cross traffic
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Measured seconds of each run
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Seconds before the measured ones
    #[arg(long, value_name = "SECONDS", default_value_t = 0.3)]
    warm_up: f64,
    /// Clients, each of which fetches a file repeatedly
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: u32,
    /// Open a connection for each fetch, in place of one for all fetches of a client
    #[arg(long)]
    reconnect: bool,
    /// Set a param of Hawser's TCP: MIN_RTO=200ms (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,
    /// The link's rate in Mbit/s
    #[arg(long, value_name = "MBIT", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,
}

/// The files: their names in reports, and their bytes.
const FILES: [(&str, usize); 2] = [("1 MiB", 1 << 20), ("8 KiB", 8 << 10)];

/// The bottleneck of the fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// The server alone: the link has no rate.
    Saturated,
    /// A link of which cross traffic takes this many per cent.
    Shared(u64),
}

const LOADS: [Load; 4] = [
    Load::Saturated,
    Load::Shared(0),
    Load::Shared(50),
    Load::Shared(90),
];

#[derive(Clone, Copy, Debug)]
struct Case {
    server: ServerKind,
    file: usize,
    load: Load,
}

impl Case {
    /// Returns the link's rate in bits per second.
    fn rate(&self, args: &Args) -> Option<u64> {
        (self.load != Load::Saturated).then_some(args.rate * 1_000_000)
    }

    fn name(&self) -> String {
        let (server, (file, _)) = (self.server.name(), FILES[self.file]);
        match self.load {
            Load::Saturated => format!("{server}, {file}, no line limit"),
            Load::Shared(percent) => format!("{server}, {file}, cross traffic {percent} %"),
        }
    }
}

/// Runs the bench.
///
/// # Errors
/// No measurement is possible on this machine.
pub(crate) fn run(args: &Args, common: &Common) -> Result<Report, Box<dyn std::error::Error>> {
    networks::prepare()?;
    let seconds = args.seconds.unwrap_or(if common.quick { 0.5 } else { 5.0 });
    let mut report = Report::new(
        "http",
        "Fetches over HTTP by Linux's TCP: server, file, load of the line",
    );
    report.setting("seconds", seconds);
    report.setting("runs", common.runs());
    report.setting("engine", &common.engine);
    report.setting("params", args.params.join(","));
    report.setting("clients", args.clients);
    let reuse = if args.reconnect { "fetch" } else { "client" };
    report.setting("a connection for each", reuse);
    report.setting("line [Mbit/s]", args.rate);
    report.setting("nginx", "one process, sendfile, Linux's cubic");
    let folder = Folder::new()?;
    let files = write_files(&folder)?;
    let cases: Vec<Case> = (0..FILES.len())
        .flat_map(|file| LOADS.map(|load| (file, load)))
        .flat_map(|(file, load)| {
            [ServerKind::Nginx, ServerKind::Hawser].map(|server| Case { server, file, load })
        })
        .collect();
    let results = alternate(common, "http", &cases, |case| {
        let line = Line::up(case.rate(args))?;
        // Processes and threads stay on the core of the thread that starts them.
        sys::pin(core(1)?)?;
        let server = match case.server {
            ServerKind::Nginx => Server::nginx(&line, &folder),
            ServerKind::Hawser => Server::hawser(&line, &folder, &common.engine, &args.params),
        }?;
        sys::pin(core(0)?)?;
        let target = Target {
            server: server.address,
            path: case.file.to_string(),
            bytes: files[case.file].clone(),
            keeps_alive: !args.reconnect,
        };
        measure(case, args, seconds, &line, server, &target)
    });
    for (case, result) in cases.iter().zip(results) {
        report.rows.push(row(case.name(), result, metrics));
    }
    report.against(|row| {
        row.split_once(", ")
            .map(|(_, what)| format!("{}, {what}", ServerKind::Nginx.name()))
    });
    Ok(report)
}

/// Writes files whose bytes do not repeat from packet to packet.
fn write_files(folder: &Folder) -> io::Result<Vec<Arc<[u8]>>> {
    let byte = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0];
    let mut files = Vec::new();
    for (number, (_, length)) in FILES.iter().enumerate() {
        let bytes: Vec<u8> = (0..*length).map(byte).collect();
        std::fs::write(folder.join(number.to_string()), &bytes)?;
        files.push(bytes.into());
    }
    Ok(files)
}

fn metrics(samples: &[Vec<f64>]) -> Vec<Option<Metric>> {
    let time = |name, n| Metric::new(name, "µs", Better::Lower, column(samples, n));
    vec![
        Metric::new("rate", "fetches/s", Better::Higher, column(samples, 0)),
        Metric::new("server", "CPU-µs/fetch", Better::Lower, column(samples, 1)),
        time("p50", 2),
        time("p90", 3),
        time("p99", 4),
        Metric::new("line", "% of its rate", Better::Higher, column(samples, 5)),
        Metric::new(
            "cross traffic",
            "% of the line's rate",
            Better::Higher,
            column(samples, 6),
        ),
    ]
}

/// Returns the n-th core, or the last.
fn core(n: usize) -> io::Result<usize> {
    let cores = sys::cores()?;
    Ok(cores.get(n).or(cores.last()).copied().unwrap_or_default())
}

/// Returns the figures from which [`metrics`] makes a row. The last two exist only if the link has a rate.
fn measure(
    case: &Case,
    args: &Args,
    seconds: f64,
    line: &Line,
    mut server: Server,
    target: &Target,
) -> io::Result<Vec<f64>> {
    let client = line.host("client")?;
    target.reach(&client, || server.runs())?;
    let rate = case.rate(args);
    let cross = match (case.load, rate) {
        (Load::Shared(percent @ 1..), Some(rate)) => Some(line.cross_traffic(rate * percent / 100)?),
        _ => None,
    };
    let from = Instant::now() + Duration::from_secs_f64(args.warm_up);
    let until = from + Duration::from_secs_f64(seconds);
    let fetching = (0..args.clients).map(|_| target.fetch(&client, MeasuredPeriod { from, until }));
    let fetching: Vec<_> = fetching.collect::<io::Result<_>>()?;
    let standing = |at: Instant| -> io::Result<(Duration, [u64; 2])> {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        Ok((server.cpu_time()?, line.carried()?))
    };
    let (begin, end) = (standing(from)?, standing(until)?);
    let mut times = Vec::new();
    for client in fetching {
        let fetched = client.join().map_err(|_| io::Error::other("a client panicked"))?;
        times.extend(fetched.map_err(io::Error::other)??);
    }
    cross.map_or(Ok(()), CrossTraffic::end)?;
    times.sort_unstable();
    let mut figures = vec![
        times.len() as f64 / seconds,
        (end.0 - begin.0).as_secs_f64() * 1e6 / times.len() as f64,
    ];
    figures.extend(percentiles(&times)?);
    if let Some(rate) = rate {
        let shares = [0, 1].map(|n| (end.1[n] - begin.1[n]) as f64 * 800.0 / seconds / rate as f64);
        figures.extend(shares);
    }
    Ok(figures)
}
