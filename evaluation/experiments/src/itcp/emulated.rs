//! `itcp-fast-lab`: the transfers of `itcp-fast` for a minute on an emulated network, by real programs. Our
//! TCP on a packet socket runs FAST, built in and by T-wares, Reno and CUBIC. Linux's TCP runs FAST by
//! T-wares, Reno and CUBIC. Linux receives.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hawser::host::{DeviceSpec, StackSetup, open};
use hawser::interact::Bus;
use hawser::interact::kernel::serve_kernel;
use hawser::lab::{Direction, Host, Lab, Spec};
use parking_lot::Mutex;
use serde_json::json;
use socket2::SockRef;

use super::figures::{figure_9, figure_10, row};
use super::run::{Path, Run, Sample};
use super::steering::{CONGESTION_CONTROL, Steering, missing, options};
use crate::Error;
use crate::experiment::{Context, Outcome};

/// The TCP that sends, and its congestion control.
#[derive(Clone, Copy)]
pub(super) enum Sender {
    /// One of our programs, with T-wares or without.
    Program(&'static str, Option<Steering>),
    /// Linux, with the congestion control of this name.
    Linux(&'static str),
    /// Linux with the eBPF congestion control that T-wares can steer, with T-wares or without.
    Kernel(Option<Steering>),
}

const CONTENDERS: [(&str, Sender); 7] = [
    ("FAST", Sender::Program("tcp-fast", None)),
    ("iFAST", Sender::Program("tcp-newreno", Some(Steering::FULL))),
    ("iFAST over Linux", Sender::Kernel(Some(Steering::FULL))),
    ("Reno", Sender::Program("tcp-newreno", None)),
    ("Linux Reno", Sender::Linux("reno")),
    ("CUBIC", Sender::Program("tcp", None)),
    ("Linux CUBIC", Sender::Linux("cubic")),
];
/// The number of senders under FAST. The buffer is swept for these at the shorter round trip.
const FASTS: usize = 3;
const SWEPT: [f64; 3] = [0.25, 1.0, 2.0];

const ROUND_TRIPS: [u64; 2] = [120, 400];
const BUFFER: f64 = 0.5;
pub(super) const PORT: u16 = 5_001;
/// The duration of the start-up phase, in seconds.
const START: f64 = 30.0;
/// The interval between two samples.
const EVERY: Duration = Duration::from_millis(100);
/// The buffer of a connection at either end, in bytes: large enough that it never limits the transfer.
const HELD: u64 = 64 << 20;

pub(crate) fn fast_lab(context: &Context<'_>) -> Result<Outcome, Error> {
    let seconds = if context.quick { 10 } else { 60 };
    let mut outcome = Outcome::default();
    let missing = missing();
    let mut plan: Vec<(Path, &[(&str, Sender)])> = ROUND_TRIPS
        .map(|round_trip| (Path::new(round_trip, BUFFER), &CONTENDERS[..]))
        .into();
    if !context.quick {
        plan.extend(SWEPT.map(|buffer| (Path::new(ROUND_TRIPS[0], buffer), &CONTENDERS[..FASTS])));
    }
    let total: usize = plan.iter().map(|(_, senders)| senders.len()).sum();
    let (mut rows, mut groups) = (Vec::new(), Vec::new());
    for (path, senders) in plan {
        let place = format!("{} ms, buffer {} of the product", path.round_trip_ms, path.buffer);
        let mut runs = Vec::new();
        for (name, sender) in senders {
            if let (Sender::Kernel(_), Some(reason)) = (sender, &missing) {
                outcome
                    .lines
                    .push(format!("SKIPPED: {name} at {place}: {reason}"));
                continue;
            }
            (context.progress)(rows.len(), total, &format!("{name} at {place}"));
            let run = transfer(name, *sender, path, Duration::from_secs(seconds), &mut |_| {})?;
            rows.push(row(&mut outcome, &run, START));
            runs.push(run);
        }
        // The figures show one buffer; the sweep is in the rows alone.
        if path.buffer == BUFFER {
            let name = format!("figure-9-{}ms", path.round_trip_ms);
            figure_9(&mut outcome, &format!("{place}, in the lab"), &name, &runs);
            groups.push((format!("{} ms", path.round_trip_ms), runs));
        }
    }
    let title = format!("Total in {seconds} s, buffer {BUFFER} of the product, in the lab");
    figure_10(&mut outcome, &title, "figure-10", &groups);
    outcome.figures = json!({ "rows": rows, "seconds": seconds, "missing": missing });
    outcome
        .configuration
        .push(("lab.toml".into(), network(Path::new(ROUND_TRIPS[0], BUFFER))));
    Ok(outcome)
}

/// Returns the lab of the bottleneck. Its link counts Ethernet's 14 bytes, which the 200 Mbit/s do not
/// include.
fn network(path: Path) -> String {
    let framed = |bytes: u64| bytes * 1514 / 1500;
    format!(
        "name = \"iTCP, {round_trip} ms\"\n\
         host = [{{ name = \"sender\" }}, {{ name = \"receiver\" }}]\n\n\
         [[link]]\n\
         name = \"bottleneck\"\n\
         between = [\"sender\", \"receiver\"]\n\
         through = \"cell\"\n\
         both = {{ delay = \"{half}us\" }}\n\
         forward = {{ rate = \"{rate}bit/s\", queue = {queue}, queue_packets = 1000000 }}\n",
        round_trip = path.round_trip_ms,
        half = path.round_trip_ms * 500,
        rate = framed(path.rate),
        queue = framed(path.queue()),
    )
}

/// The state that both ends report while they run.
#[derive(Default)]
struct Shared {
    received: AtomicU64,
    over: AtomicBool,
    /// The sender's window, round-trip time and retransmissions.
    sender: Mutex<Sample>,
}

impl Shared {
    fn report(&self, sample: Sample) {
        *self.sender.lock() = sample;
    }
}

/// Sends bytes for this time and samples the transfer. `sample` receives the seconds of each sample.
pub(super) fn transfer(
    name: &str,
    sender: Sender,
    path: Path,
    time: Duration,
    sample: &mut dyn FnMut(f64),
) -> Result<Run, Error> {
    let lab = Lab::up(&Spec::parse(&network(path))?)?;
    let shared = Arc::new(Shared::default());
    let receiver = lab.host("receiver")?;
    let address = SocketAddr::new(receiver.ipv4().ok_or("the receiver has no address")?, PORT);
    let listener = receiver.run(|| buffers().and_then(|()| TcpListener::bind(address)))??;
    let taking = {
        let shared = shared.clone();
        std::thread::spawn(move || take(&listener, &shared))
    };
    let sending = start(lab.host("sender")?, sender, address, shared.clone())?;
    let began = Instant::now();
    let mut samples = Vec::new();
    while began.elapsed() < time && !sending.is_finished() {
        std::thread::sleep(EVERY);
        let at = lab.link("bottleneck")?.statistics(Direction::Forward)?;
        let sender = *shared.sender.lock();
        let (seconds, received) = (began.elapsed().as_secs_f64(), shared.received.load(Relaxed));
        let dropped = at.lost.get("queue").copied().unwrap_or_default();
        let overrun = at.lost.values().sum::<u64>() - dropped;
        samples.push(Sample { seconds, received, dropped, overrun, ..sender });
        sample(seconds);
    }
    shared.over.store(true, Relaxed);
    sending.join().map_err(|_| "the sender panicked")??;
    drop(lab);
    taking.join().map_err(|_| "the receiver panicked")??;
    Ok(Run { contender: name.into(), path, samples })
}

/// Lets sockets of this host hold [`HELD`] bytes. Linux derives the default limits from a machine's memory.
fn buffers() -> std::io::Result<()> {
    for name in ["tcp_rmem", "tcp_wmem"] {
        std::fs::write(
            format!("/proc/sys/net/ipv4/{name}"),
            format!("4096 131072 {HELD}"),
        )?;
    }
    Ok(())
}

/// Reads all bytes of one connection.
fn take(listener: &TcpListener, shared: &Shared) -> Result<(), Error> {
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(EVERY))?;
    let mut buffer = vec![0; 1 << 18];
    while !shared.over.load(Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(bytes) => {
                shared.received.fetch_add(bytes as u64, Relaxed);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

type Sending = std::thread::JoinHandle<Result<(), Error>>;

fn start(host: Host<'_>, sender: Sender, to: SocketAddr, shared: Arc<Shared>) -> Result<Sending, Error> {
    let inside = host.handle();
    Ok(std::thread::Builder::new().name("sender".into()).spawn(move || {
        inside.enter()?;
        match sender {
            Sender::Program(program, steering) => send_by_program(program, steering, to, &shared),
            Sender::Linux(congestion) => send_by_linux(congestion, to, &shared),
            Sender::Kernel(steering) => {
                // The kernel source is served from within this host, because it reaches the sockets of its
                // own host.
                let bus = Bus::new();
                let _serving = serve_kernel(&bus, &options(steering))?;
                let _steered = steering.map(|s| s.begin(&bus, "kernel.tcp")).transpose()?;
                send_by_linux(CONGESTION_CONTROL, to, &shared)
            }
        }
    })?)
}

/// Sends by Linux's TCP, and reports its state from `TCP_INFO`.
fn send_by_linux(congestion: &str, to: SocketAddr, shared: &Shared) -> Result<(), Error> {
    buffers()?;
    let mut stream = TcpStream::connect(to)?;
    SockRef::from(&stream).set_tcp_congestion(congestion.as_bytes())?;
    stream.set_write_timeout(Some(EVERY / 2))?;
    let text = vec![0; 1 << 18];
    while !shared.over.load(Relaxed) {
        match stream.write(&text) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        let now = hawser_carriers::tcp::statistics(&SockRef::from(&stream));
        let again = now.retransmitted.div_ceil(now.mss.max(1) as u64);
        let round_trip_ms = now.srtt.as_secs_f64() * 1e3;
        shared.report(Sample { window: now.window, round_trip_ms, again, ..Sample::default() });
    }
    Ok(())
}

/// Sends by one of our programs, on the same interface as the kernel's TCP but with an address of its own.
fn send_by_program(
    program: &str,
    steering: Option<Steering>,
    to: SocketAddr,
    shared: &Shared,
) -> Result<(), Error> {
    let program = hawser::programs::resolve_with(program, &["RCV_BUF=1048576".to_owned()])?;
    let own = IpAddr::from([10, 77, 0, 3]);
    let device = DeviceSpec::Packet("eth0".into());
    let setup = StackSetup { buffer: Some(HELD), ..StackSetup::new(device, (own, 24)) };
    let mut endpoint = open(program, &setup)?;
    let bus = Bus::new();
    if steering.is_some() {
        // The endpoint is polled with every packet, so it needs no waker.
        endpoint.interact(&bus, None)?;
    }
    let _steered = steering.map(|s| s.begin(&bus, "tcp")).transpose()?;
    let connection = endpoint.connect(to)?;
    let text = vec![0; 1 << 18];
    while !shared.over.load(Relaxed) {
        let mut busy = endpoint.poll()?;
        if endpoint.connected(connection)? {
            match endpoint.write(connection, &text) {
                Ok(bytes) => busy |= bytes > 0,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            let read = |field| endpoint.observe(connection, field).unwrap_or_default();
            let (window, again) = (read("cc.cwnd"), read("retransmissions"));
            let round_trip_ms = read("srtt") as f64 / 1e6;
            shared.report(Sample { window, round_trip_ms, again, ..Sample::default() });
        }
        if !busy {
            endpoint.wait(Some(EVERY))?;
        }
    }
    Ok(())
}
