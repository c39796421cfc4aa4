//! `mtp-rpc-latency`: the latency of calls between two processes over a veth. The carriers are Homa and TCP
//! in MTP, Linux's TCP, and gRPC over Linux's TCP. The calls run alone, with both ends spinning (gRPC's
//! sleep). They also run over a link of 200 Mbit/s with strict priorities, beside bulk traffic of Linux's TCP
//! in both directions.
//!
//! Rounds alternate between the carriers, every second one in reverse order. The result is the ratio to
//! Linux's TCP of the same round.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hawser::host::linux_tcp;
use hawser::host::netns::Netlink;
use hawser::lab::{Lab, Spec};
use serde::Serialize;
use serde_json::{Value, json};

use super::calls::{CONGESTION_CONTROL, Calls, Made, READY};
use super::peers::{CallCarrier, PEER, Peer};
use crate::Error;
use crate::experiment::{Context, Outcome, Spread};
use crate::plot::{Axes, Group, bars};

/// Two hosts and a cable, which the kernel carries.
pub(super) const LAB: &str = r#"# A veth.
name = "calls"
host = [{ name = "client" }, { name = "server" }]

[[link]]
name = "link"
between = ["client", "server"]
interfaces = ["eth0", "eth0"]
"#;

pub(super) const HOSTS: [&str; 2] = ["client", "server"];
/// The addresses of the stacks, in addition to those of the kernel.
pub(super) const STACKS: [[u8; 4]; 2] = [[10, 77, 0, 3], [10, 77, 0, 4]];
/// The rate of the link with bulk traffic, in bits per second.
const RATE: u64 = 200_000_000;
/// The size of the link's queue for each priority, in bytes: 10 ms.
const QUEUE: u64 = 250_000;
/// The port of bulk traffic.
const BULK_PORT: u16 = 7_100;
/// The time for which bulk traffic fills the queues before calls begin.
const FILLING: Duration = Duration::from_millis(500);

/// One kind of call, over each carrier.
#[derive(Clone, Copy)]
struct Plan {
    name: &'static str,
    title: &'static str,
    size: usize,
    count: usize,
    is_beside_bulk: bool,
}

fn plans(quick: bool) -> [Plan; 3] {
    let of = |few, many| if quick { few } else { many };
    [
        Plan {
            name: "small",
            title: "32 bytes and back, alone, both ends spinning",
            size: 32,
            count: of(500, 20_000),
            is_beside_bulk: false,
        },
        Plan {
            name: "large",
            title: "1 MB and back, alone, both ends spinning",
            size: 1_000_000,
            count: of(10, 200),
            is_beside_bulk: false,
        },
        Plan {
            name: "beside-bulk",
            title: "32 bytes and back beside bulk traffic, both ends asleep",
            size: 32,
            count: of(50, 500),
            is_beside_bulk: true,
        },
    ]
}

/// The durations of the calls of one run, in microseconds.
pub(super) struct Quantiles {
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// The number of calls without an answer.
    failed: u64,
}

pub(crate) fn latency(context: &Context<'_>) -> Result<Outcome, Error> {
    let plans = plans(context.quick);
    let rounds = context.times(5);
    let total = plans.len() * rounds * CallCarrier::ALL.len();
    let mut outcome = Outcome::default();
    let load = load();
    let mut rows = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        let lab = Lab::up(&Spec::parse(LAB)?)?;
        let bulk = plan.is_beside_bulk.then(|| Bulk::start(&lab)).transpose()?;
        let mut seen: [Vec<Quantiles>; CallCarrier::ALL.len()] = Default::default();
        for round in 0..rounds {
            let mut order: Vec<usize> = (0..CallCarrier::ALL.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for (step, place) in order.into_iter().enumerate() {
                let carrier = CallCarrier::ALL[place];
                let done = (number * rounds + round) * CallCarrier::ALL.len() + step;
                (context.progress)(done, total, &format!("{}, {}", plan.name, carrier.name()));
                let run = run(&lab, plan, carrier);
                let made = run.map_err(|error| format!("{}, {}: {error}", plan.name, carrier.name()))?;
                seen[place].push(quantiles(made)?);
            }
        }
        let bulk = bulk.map(Bulk::end).transpose()?;
        report(&mut outcome, &mut rows, plan, &seen, bulk);
    }
    outcome.figures = json!({
        "rows": rows, "rounds": rounds, "rate": RATE, "queue_bytes": QUEUE,
        "load": { "before": load, "after": self::load() }, "debug_assertions": cfg!(debug_assertions),
    });
    outcome.configuration.push(("lab.toml".into(), LAB.into()));
    Ok(outcome)
}

/// Runs the calls of one client over one carrier.
fn run(lab: &Lab, plan: &Plan, carrier: CallCarrier) -> Result<Made, Error> {
    let cores = std::thread::available_parallelism()?.get();
    let spins = !plan.is_beside_bulk && cores > 1;
    let address = |place: usize| -> Result<IpAddr, Error> {
        match carrier {
            CallCarrier::Homa | CallCarrier::Tcp => Ok(STACKS[place].into()),
            CallCarrier::Grpc | CallCarrier::Linux => Ok(lab
                .host(HOSTS[place])?
                .ipv4()
                .ok_or("a host has no IPv4 address")?),
        }
    };
    let peer = |place: usize, calls| -> Result<Peer, Error> {
        Ok(Peer {
            carrier,
            own: address(place)?,
            calls,
            spins,
            core: spins.then_some(place),
        })
    };
    let calls = Calls {
        server: address(1)?,
        size: plan.size,
        warm_up: plan.count / 10 + 1,
        count: plan.count,
    };
    exchange(lab, PEER, &peer(1, None)?, &peer(0, Some(calls))?)
}

/// Starts a server in the second host and a client in the first, and returns the client's output.
pub(super) fn exchange(
    lab: &Lab,
    variable: &str,
    server: &impl Serialize,
    client: &impl Serialize,
) -> Result<Made, Error> {
    let mut server = Process::start(lab, 1, variable, server)?;
    if server.line()?.trim_end() != READY {
        return Err("the server did not begin; what it printed is above".into());
    }
    let mut client = Process::start(lab, 0, variable, client)?;
    let line = client.line()?;
    if line.is_empty() {
        return Err("the client ended early; what it printed is above".into());
    }
    Ok(serde_json::from_str(&line)?)
}

/// A process in a host, which is killed when this is dropped.
struct Process {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Process {
    /// Starts this program again in a host, with its role in an environment variable.
    fn start(lab: &Lab, place: usize, variable: &str, role: &impl Serialize) -> Result<Process, Error> {
        let mut command = lab.host(HOSTS[place])?.command(std::env::current_exe()?)?;
        let mut child = command
            .env(variable, serde_json::to_string(role)?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("a process has no output")?;
        let output = BufReader::new(output);
        Ok(Process { child, output })
    }

    fn line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Traffic of Linux's TCP in both directions that fills the link.
struct Bulk {
    over: Arc<AtomicBool>,
    /// The number of bytes that each host has received.
    received: [Arc<AtomicU64>; 2],
    began: std::time::Instant,
}

impl Bulk {
    fn start(lab: &Lab) -> Result<Bulk, Error> {
        for host in HOSTS {
            shape(lab, host)?;
        }
        let over = Arc::new(AtomicBool::new(false));
        let received: [Arc<AtomicU64>; 2] = Default::default();
        for place in 0..HOSTS.len() {
            let host = lab.host(HOSTS[place])?;
            let at = SocketAddr::new(host.ipv4().ok_or("a host has no IPv4 address")?, BULK_PORT);
            let listener = host.run(|| TcpListener::bind(at))??;
            let (over_too, count) = (over.clone(), received[place].clone());
            std::thread::spawn(move || take(&listener, &over_too, &count));
            let stream = lab.host(HOSTS[1 - place])?.run(|| TcpStream::connect(at))??;
            linux_tcp::set_congestion_control(&stream, CONGESTION_CONTROL)?;
            let over = over.clone();
            std::thread::spawn(move || give(stream, &over));
        }
        std::thread::sleep(FILLING);
        Ok(Bulk { over, received, began: std::time::Instant::now() - FILLING })
    }

    /// Ends the traffic, and returns the rate at each host, in Mbit/s.
    fn end(self) -> Result<[f64; 2], Error> {
        let seconds = self.began.elapsed().as_secs_f64();
        let rates = self
            .received
            .each_ref()
            .map(|count| 8e-6 * count.load(Relaxed) as f64 / seconds);
        match rates.iter().all(|rate| *rate > 1.0) {
            true => Ok(rates),
            false => Err(format!("there was no bulk traffic: {rates:?} Mbit/s").into()),
        }
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

/// Writes until the end of the traffic, or until the lab has taken the peer down.
fn give(mut stream: TcpStream, over: &AtomicBool) {
    let bytes = vec![0; 65_536];
    while !over.load(Relaxed) && stream.write(&bytes).is_ok() {}
}

fn take(listener: &TcpListener, over: &AtomicBool, count: &AtomicU64) {
    let Ok((mut stream, _)) = listener.accept() else {
        return;
    };
    let mut buffer = vec![0; 65_536];
    while !over.load(Relaxed)
        && let Ok(bytes) = stream.read(&mut buffer)
        && bytes > 0
    {
        count.fetch_add(bytes as u64, Relaxed);
    }
}

/// Gives a host's egress a rate and eight strict priorities, by the precedence in the IP header, as in the
/// simulator's switches. It uses the kernel's HTB (`tc-htb(8)`), in which each priority may borrow the whole
/// rate.
fn shape(lab: &Lab, host: &str) -> Result<(), Error> {
    let host = lab.host(host)?;
    // Without segmentation offload, frames have the size that they have on a cable.
    host.run(|| Netlink::open()?.set_segmentation("eth0", false))??;
    let rate = format!("{RATE}bit");
    // The guaranteed rate of each priority. Strict priorities would have none.
    let own = format!("{}bit", RATE / 100);
    tc(
        lab,
        host.name(),
        "qdisc add dev eth0 root handle 1: htb default 8",
    )?;
    tc(
        lab,
        host.name(),
        &format!("class add dev eth0 parent 1: classid 1:f htb rate {rate} burst 3k cburst 3k"),
    )?;
    for precedence in 0..8 {
        let class = 8 - precedence;
        tc(
            lab,
            host.name(),
            &format!(
                "class add dev eth0 parent 1:f classid 1:{class} htb rate {own} ceil {rate} prio {} burst 3k cburst 3k",
                7 - precedence
            ),
        )?;
        tc(
            lab,
            host.name(),
            &format!("qdisc add dev eth0 parent 1:{class} bfifo limit {QUEUE}"),
        )?;
        tc(
            lab,
            host.name(),
            &format!(
                "filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip tos {:#x} 0xe0 flowid 1:{class}",
                precedence << 5
            ),
        )?;
    }
    Ok(())
}

pub(super) fn tc(lab: &Lab, host: &str, arguments: &str) -> Result<(), Error> {
    let mut command = lab.host(host)?.command("tc")?;
    let output = command.args(arguments.split(' ')).output();
    let output = output.map_err(|error| format!("`tc` of iproute2 is needed to shape a link: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("tc {arguments}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

pub(super) fn quantiles(Made { mut times, failed }: Made) -> Result<Quantiles, Error> {
    times.sort_unstable();
    let at = |share: f64| {
        let place = ((times.len() as f64 * share).ceil() as usize).max(1) - 1;
        times.get(place).map(|nanos| *nanos as f64 / 1e3)
    };
    match (at(0.5), at(0.99)) {
        (Some(p50), Some(p99)) => Ok(Quantiles { p50, p99, failed }),
        _ => Err("no call was measured".into()),
    }
}

/// Adds a row for each carrier, with its ratio to Linux's TCP in the same round.
fn report(
    outcome: &mut Outcome,
    rows: &mut Vec<Value>,
    plan: &Plan,
    seen: &[Vec<Quantiles>; CallCarrier::ALL.len()],
    bulk: Option<[f64; 2]>,
) {
    outcome.lines.push(plan.title.to_owned());
    let linux = &seen[CallCarrier::ALL.len() - 1];
    let mut groups: Vec<Group> = Vec::new();
    for (carrier, runs) in CallCarrier::ALL.into_iter().zip(seen) {
        let spread = |of: fn(&Quantiles) -> f64| {
            let values = Spread::from_values(runs.iter().map(of).collect());
            let ratios = runs.iter().zip(linux).map(|(run, linux)| of(run) / of(linux));
            (values, Spread::from_values(ratios.collect()))
        };
        let (p50, p50_ratio) = spread(|run| run.p50);
        let (p99, p99_ratio) = spread(|run| run.p99);
        let failed: u64 = runs.iter().map(|run| run.failed).sum();
        outcome.lines.push(format!(
            "  {:12} p50 {:9.1} µs ({:.2} ×, {:.2} to {:.2})   p99 {:9.1} µs ({:.2} ×, {:.2} to {:.2}), {failed} failed",
            carrier.name(),
            p50.median,
            p50_ratio.median,
            p50_ratio.min,
            p50_ratio.max,
            p99.median,
            p99_ratio.median,
            p99_ratio.min,
            p99_ratio.max,
        ));
        rows.push(json!({
            "calls": plan.name, "size": plan.size, "count": plan.count, "carrier": carrier.name(),
            "p50_us": p50, "p99_us": p99, "p50_to_linux": p50_ratio, "p99_to_linux": p99_ratio,
            "failed": failed, "bulk_mbit_per_second": bulk,
        }));
        groups.push(Group {
            name: carrier.name().to_owned(),
            bars: [p50, p99].map(|of| (of.median, of.min, of.max)).into(),
        });
    }
    let axes = Axes { title: plan.title, x: "", y: "µs" };
    let kinds = ["p50", "p99"].map(str::to_owned);
    outcome
        .drawings
        .push((plan.name.into(), bars(&axes, &kinds, &groups)));
}

/// Returns the machine's load: the number of running or runnable processes, averaged over the last minute.
pub(super) fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nearest-rank method: the smallest value that this percentage of the values does not exceed.
    #[test]
    fn quantiles_are_by_nearest_rank() {
        let times: Vec<u64> = (1..=200).rev().map(|n| n * 1_000).collect();
        let of = |times| quantiles(Made { times, failed: 3 });
        let found = of(times).expect("values");
        assert_eq!((found.p50, found.p99, found.failed), (100.0, 198.0, 3));
        let one = of(vec![7_000]).expect("a value");
        assert_eq!((one.p50, one.p99), (7.0, 7.0));
        assert!(of(Vec::new()).is_err());
    }
}
