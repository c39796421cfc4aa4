//! Linux's own TCP on the bus, with subscribers in separate processes. They are killed, frozen or flooded in
//! the middle of a transfer, which continues under its own congestion controller. Real root is needed: eBPF
//! cannot be loaded in a user namespace. If it cannot be loaded, the tests print so and pass.

use std::future::Future;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hawser_bus::twares::{FastParams, NamedController, SteerOptions};
use hawser_documents::temporary::Folder;
use hawser_lab::{Direction, Lab, Spec};
use hawser_linux::Diagnostics;
use hawser_linux::provider::{KernelError, KernelProvider, Options, serve_kernel};
use hawser_socket::ring::Ring;
use hawser_socket::{
    AuditAction, Bus, Client, Hands, Rights, Rules, Schema, Signal, SourceId, Subscription, Tware,
    VariableId, run_remote, run_waiting, serve,
};
use hawser_testing::{Need, Test, TestResult, run, skip, tests};
use parking_lot::{Condvar, Mutex};
use rustix::net::sockopt;
use rustix::process::{Pid, Signal as Number, getpid, kill_process};
use serde_json::json;
use socket2::SockRef;

const TESTS: &[Test] = tests![
    a_killed_steerer_leaves_the_flow_to_its_own_controller,
    a_frozen_steerer_holds_no_longer_than_its_lease,
    a_flooded_subscriber_does_not_delay_others,
    losses_at_the_end_are_reported,
    fast_fills_the_path_and_loses_nothing,
];

const LAB: &str = r#"
    host = [{ name = "client" }, { name = "server" }]
    [[link]]
    name = "path"
    between = ["client", "server"]
    both = { rate = "50Mbit/s", delay = "10ms", queue = "250kB" }
"#;
/// A tenth of the paper's rate, with a queue for half of the path's bandwidth-delay product.
const LONG: &str = r#"
    host = [{ name = "client" }, { name = "server" }]
    [[link]]
    name = "path"
    between = ["client", "server"]
    both = { rate = "20Mbit/s", delay = "50ms", queue = "125kB" }
"#;
/// The payload rate in bits per second: a segment of 1,448 bytes is a frame of 1,514 bytes.
const LONG_RATE: f64 = 20e6 * 1448.0 / 1514.0;
const LONG_HOLDS: f64 = 20e6 / 8.0 * 0.1 / 1514.0;
/// A tenth of the paper's α.
const ALPHA: u16 = 20;
/// The window that the steerer holds, in segments, and the length of each lease.
const SEGMENTS: u64 = 6;
const LEASE: Duration = Duration::from_millis(800);
/// The delay that a busy machine adds to any time.
const SLACK: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [what, socket] if what == "steer" => return failed(steer(Path::new(socket))),
        [what, socket] if what == "flood" => return failed(flood(Path::new(socket))),
        _ => {}
    }
    run(TESTS
        .iter()
        .map(|&(name, test)| (name, move || judge(name, test))))
}

/// Runs a test if Linux's own TCP can be watched.
fn judge(name: &str, test: fn() -> TestResult) -> TestResult {
    match serve_kernel(&Bus::new(), &options("hw_try")).map(drop) {
        Err(KernelError::Missing(missing)) => {
            skip(Need::Ebpf, name, missing);
            Ok(())
        }
        Err(error) => Err(error.into()),
        Ok(()) => test(),
    }
}

fn failed(result: TestResult) -> ExitCode {
    if let Err(error) = result {
        eprintln!("{error}");
    }
    ExitCode::FAILURE
}

fn options(name: &str) -> Options {
    Options { congestion_control: Some(name.to_owned()), ..Options::default() }
}

/// Holds the window of each flow that has an acknowledgement.
#[derive(Default)]
struct Narrow {
    window: Option<VariableId>,
}

impl Tware for Narrow {
    fn subscriptions(&self) -> Vec<Subscription> {
        vec![Subscription::new(["kernel.tcp.acked"]).with(["kernel.tcp.conn.smss"])]
    }

    fn begin(&mut self, _: SourceId, schema: &Schema) {
        self.window = schema.variable("kernel.tcp.conn.cc.cwnd");
    }

    fn signal(&mut self, _: usize, signal: &Signal<'_>, hands: &mut Hands) {
        if let (Some(window), [smss]) = (self.window, signal.variables()) {
            hands.modify(signal.target(), window, SEGMENTS * smss, LEASE);
        }
    }
}

/// The steering process, until it is killed.
fn steer(socket: &Path) -> TestResult {
    Ok(run_remote(
        Client::connect(socket, "narrow", 1)?,
        Box::new(Narrow::default()),
    )?)
}

/// The process that subscribes to everything and then sleeps. When woken, it prints the numbers of received
/// and of lost signals.
fn flood(socket: &Path) -> TestResult {
    let mut client = Client::connect(socket, "flooded", 1)?;
    let answer = client.ask(&json!({ "subscribe": { "events": ["*"] } }))?;
    println!("ready");
    kill_process(getpid(), Number::STOP)?;
    let answer = client.ask(&json!({ "statistics": answer["subscribed"] }))?;
    let figure = |name| answer["statistics"][name].as_u64().unwrap_or(u64::MAX);
    println!("{} {}", figure("events"), figure("lost"));
    Ok(())
}

/// A process of this program, killed when the value is dropped.
struct Process(Child);

impl Process {
    fn start(what: &str, socket: &Path) -> TestResult<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        Ok(Self(
            command.arg(what).arg(socket).stdout(Stdio::piped()).spawn()?,
        ))
    }

    fn signal(&self, number: Number) -> TestResult {
        Ok(kill_process(Pid::from_child(&self.0), number)?)
    }

    fn lines(&mut self) -> TestResult<BufReader<ChildStdout>> {
        Ok(BufReader::new(self.0.stdout.take().ok_or("no output")?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A transfer of Linux's TCP between two hosts, served at a socket.
struct WatchedTransfer {
    bus: Bus,
    diagnostics: Diagnostics,
    socket: PathBuf,
    _folder: Folder,
    flow: u64,
    stream: TcpStream,
    read: Arc<AtomicU64>,
    _serving: KernelProvider,
    lab: Lab,
    ends: Option<tokio::sync::oneshot::Sender<()>>,
    bus_server: Option<JoinHandle<()>>,
}

impl WatchedTransfer {
    fn set(name: &str, network: &str) -> TestResult<Self> {
        let lab = Lab::up(&Spec::parse(network)?)?;
        let (client, server) = (lab.host("client")?, lab.host("server")?);
        let bus = Bus::new();
        // It is served from within the client, whose sockets are to be reached.
        let serving = client.run(|| serve_kernel(&bus, &options(name)))??;
        let diagnostics = client.run(Diagnostics::open)??;
        let folder = Folder::new()?;
        let socket = folder.join("bus.sock");
        let (ends, ended) = tokio::sync::oneshot::channel();
        let bus_server = open(&bus, &socket, ended)?;

        let listener = server.run(|| TcpListener::bind("0.0.0.0:0"))??;
        let address = server.ipv4().ok_or("no address")?;
        let to = SocketAddr::new(address, listener.local_addr()?.port());
        let stream = client.run(|| TcpStream::connect(to))??;
        // The flow is under our congestion control from the beginning, which is NewReno until it is steered.
        SockRef::from(&stream).set_tcp_congestion(name.as_bytes())?;
        let (accepted, _) = listener.accept()?;
        let read = Arc::new(AtomicU64::new(0));
        let (count, mut writing) = (read.clone(), stream.try_clone()?);
        std::thread::spawn(move || take(accepted, &count));
        std::thread::spawn(move || while writing.write_all(&[7; 1 << 14]).is_ok() {});
        let flow = sockopt::socket_cookie(&stream)?;
        Ok(Self {
            bus,
            diagnostics,
            _folder: folder,
            socket,
            flow,
            stream,
            read,
            _serving: serving,
            lab,
            ends: Some(ends),
            bus_server: Some(bus_server),
        })
    }

    /// Returns the window, in segments.
    fn window(&mut self) -> u64 {
        self.diagnostics
            .probe(self.flow)
            .map_or(0, |flow| flow.state.cwnd / flow.state.smss.max(1))
    }

    /// Waits until the window satisfies `holds`; returns the time that this took.
    fn wait(&mut self, what: &str, holds: impl Fn(u64) -> bool) -> TestResult<Duration> {
        let begin = Instant::now();
        while !holds(self.window()) {
            if begin.elapsed() > Duration::from_secs(20) {
                return Err(format!("in vain: {what}; a window of {} segments", self.window()).into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(begin.elapsed())
    }

    /// Waits until bytes arrive at the rate of the flow's own congestion controller, not of a narrow window.
    fn goes_on(&self) -> TestResult {
        let (begin, before) = (Instant::now(), self.read.load(Ordering::Relaxed));
        // Six segments in a round trip of 20 ms are 0.4 MB in a second.
        std::thread::sleep(Duration::from_secs(2));
        let rate = (self.read.load(Ordering::Relaxed) - before) as f64 / begin.elapsed().as_secs_f64();
        expect(rate > 1_000_000.0, format!("{rate:.0} bytes a second"))
    }

    /// Waits until the log has this act for a hold of `narrow`.
    fn is_logged(&self, act: &AuditAction) -> TestResult {
        let begin = Instant::now();
        loop {
            let (entries, _) = self.bus.audit();
            let same = entries.iter().any(|entry| {
                entry.who == "narrow"
                    && entry.variable == "kernel.tcp.conn.cc.cwnd"
                    && entry.target.flow.0 == self.flow
                    && entry.act == *act
            });
            if same {
                return Ok(());
            }
            if begin.elapsed() > SLACK {
                return Err(format!("no {} in the log: {entries:?}", act.name()).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for WatchedTransfer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(ends) = self.ends.take() {
            let _ = ends.send(());
        }
        if let Some(bus_server) = self.bus_server.take() {
            let _ = bus_server.join();
        }
    }
}

/// Serves a bus at a socket, in a thread, until `ended` is ready.
fn open(bus: &Bus, socket: &Path, ended: impl Future + Send + 'static) -> TestResult<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let serving = {
        let _inside = runtime.enter();
        serve(bus.clone(), socket, Rules::default())?
    };
    Ok(std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                () = serving => {}
                _ = ended => {}
            }
        });
    }))
}

fn take(mut stream: TcpStream, count: &AtomicU64) {
    let mut room = vec![0; 1 << 18];
    while let Ok(length) = stream.read(&mut room)
        && length > 0
    {
        count.fetch_add(length as u64, Ordering::Relaxed);
    }
}

fn expect(holds: bool, what: impl Into<String>) -> TestResult {
    if holds { Ok(()) } else { Err(what.into().into()) }
}

/// The connection of a killed process closes, so its holds end at once.
fn a_killed_steerer_leaves_the_flow_to_its_own_controller() -> TestResult {
    let mut stage = WatchedTransfer::set("hw_killed", LAB)?;
    let steerer = Process::start("steer", &stage.socket)?;
    stage.wait("it steers", |window| window == SEGMENTS)?;
    std::thread::sleep(LEASE);
    expect(stage.window() == SEGMENTS, "it goes on steering")?;
    steerer.signal(Number::KILL)?;
    let took = stage.wait("the flow's own congestion controller goes on", |window| {
        window > 4 * SEGMENTS
    })?;
    expect(took < LEASE + SLACK, format!("only after {took:?}"))?;
    stage.is_logged(&AuditAction::HolderGone)?;
    stage.goes_on()
}

/// A frozen process sends no more requests: its holds end with their leases.
fn a_frozen_steerer_holds_no_longer_than_its_lease() -> TestResult {
    let mut stage = WatchedTransfer::set("hw_frozen", LAB)?;
    let steerer = Process::start("steer", &stage.socket)?;
    stage.wait("it steers", |window| window == SEGMENTS)?;
    steerer.signal(Number::STOP)?;
    let took = stage.wait("the flow's own congestion controller goes on", |window| {
        window > 4 * SEGMENTS
    })?;
    expect(took < LEASE + SLACK, format!("only after {took:?}"))?;
    stage.is_logged(&AuditAction::Expired)?;
    stage.goes_on()?;
    // The requests that waited meanwhile do no harm, and the process may steer again.
    steerer.signal(Number::CONT)?;
    stage.wait("it steers again", |window| window == SEGMENTS)?;
    drop(steerer);
    stage.wait("the flow's own congestion controller goes on", |window| {
        window > 4 * SEGMENTS
    })?;
    stage.goes_on()
}

/// One subscriber is sent every event and reads none. Its signals are lost and counted, and another
/// subscriber steers undisturbed.
fn a_flooded_subscriber_does_not_delay_others() -> TestResult {
    let mut stage = WatchedTransfer::set("hw_flooded", LAB)?;
    let mut flooded = Process::start("flood", &stage.socket)?;
    let mut lines = flooded.lines()?;
    let mut line = String::new();
    lines.read_line(&mut line)?;
    expect(line == "ready\n", line.clone())?;
    stage.goes_on()?;
    let steerer = Process::start("steer", &stage.socket)?;
    let took = stage.wait("another steers", |window| window == SEGMENTS)?;
    expect(took < SLACK, format!("another steers only after {took:?}"))?;
    drop(steerer);
    stage.wait("the flow's own congestion controller goes on", |window| {
        window > 4 * SEGMENTS
    })?;
    stage.goes_on()?;
    flooded.signal(Number::CONT)?;
    line.clear();
    lines.read_line(&mut line)?;
    let (events, lost) = line.trim().split_once(' ').ok_or("it printed nothing")?;
    let (events, lost): (u64, u64) = (events.parse()?, lost.parse()?);
    println!("  {lost} of {events} signals were lost to one that read none");
    expect(0 < lost && lost < events, format!("{lost} of {events} lost"))
}

/// Blocks all of the kernel's signals at its first one, until it is released.
struct Stopper(Arc<(Mutex<bool>, Condvar)>);

impl Tware for Stopper {
    fn subscriptions(&self) -> Vec<Subscription> {
        vec![Subscription::new(["kernel.tcp.established"])]
    }

    fn begin(&mut self, _: SourceId, _: &Schema) {}

    fn signal(&mut self, _: usize, _: &Signal<'_>, _: &mut Hands) {
        let (goes, condition) = &*self.0;
        condition.wait_while(&mut goes.lock(), |goes| !*goes);
    }
}

/// The kernel's ring fills while a flow comes and goes. No record follows the lost ones, and the subscriber
/// is still notified of them.
fn losses_at_the_end_are_reported() -> TestResult {
    let lab = Lab::up(&Spec::parse(LAB)?)?;
    let (client, server) = (lab.host("client")?, lab.host("server")?);
    let bus = Bus::new();
    let small = Options { ring_bytes: 4096, ..options("hw_late") };
    let _serving = client.run(|| serve_kernel(&bus, &small))??;
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let held = gate.clone();
    let stopper = move || -> Box<dyn Tware> { Box::new(Stopper(held.clone())) };
    let _stopper = bus.attach("stopper", Rights::all(), 9, stopper)?;
    let watcher = bus.join("watcher", Rights::observer(), 0)?;
    let (queue, mut signals) = Ring::new(1 << 12, None);
    let id = watcher.subscribe(Subscription::new(["kernel.tcp.acked"]).priority(0), &queue)?;
    // The call returns after the subscription in the kernel is made.
    let _ = watcher.statistics(id, SLACK);

    let listener = server.run(|| TcpListener::bind("0.0.0.0:0"))??;
    let address = server.ipv4().ok_or("no address")?;
    let to = SocketAddr::new(address, listener.local_addr()?.port());
    let mut stream = client.run(|| TcpStream::connect(to))??;
    let (accepted, _) = listener.accept()?;
    let read = Arc::new(AtomicU64::new(0));
    let count = read.clone();
    let taker = std::thread::spawn(move || take(accepted, &count));
    stream.write_all(&[7; 1 << 20])?;
    drop(stream);
    taker.join().map_err(|_| "the reader panicked")?;
    // The wait includes the end of the flow.
    std::thread::sleep(Duration::from_millis(100));
    *gate.0.lock() = true;
    gate.1.notify_all();

    let began = Instant::now();
    let statistics = loop {
        let statistics = watcher.statistics(id, Duration::from_millis(100));
        if statistics.lost > 0 || began.elapsed() > SLACK {
            break statistics;
        }
    };
    let mut reported = 0;
    let count = |signal: &Signal<'_>, _: &mut Hands| reported += u64::from(signal.lost());
    let received = run_waiting(&mut signals, &mut Hands::default(), count, |_| {});
    println!("  {received} received, {statistics:?}; reported with signals: {reported}");
    expect(
        statistics.lost > reported,
        "nothing was lost behind the last signal, or it was reported to nobody",
    )
}

/// The external controller reaches its fixed point (FAST, equation 3): the path's bandwidth-delay product,
/// plus α.
fn fast_fills_the_path_and_loses_nothing() -> TestResult {
    let mut stage = WatchedTransfer::set("hw_fast", LONG)?;
    let params = FastParams { alpha: ALPHA, ..FastParams::default() };
    let fast =
        move || -> Box<dyn Tware> { NamedController::Fast(params).steers(SteerOptions::new("kernel.tcp")) };
    let _subscriber = stage.bus.attach("fast", Rights::all(), 1, fast)?;
    std::thread::sleep(Duration::from_secs(10));
    let (began, before) = (Instant::now(), stage.read.load(Ordering::Relaxed));
    let mut windows = Vec::new();
    while began.elapsed() < Duration::from_secs(5) {
        windows.push(stage.window() as f64);
        std::thread::sleep(Duration::from_millis(50));
    }
    let bytes = stage.read.load(Ordering::Relaxed) - before;
    let rate = bytes as f64 * 8.0 / began.elapsed().as_secs_f64() / LONG_RATE;
    let window = windows.iter().sum::<f64>() / windows.len() as f64 / (LONG_HOLDS + f64::from(ALPHA));
    let lost = stage.lab.link("path")?.statistics(Direction::Forward)?.lost;
    println!("  {rate:.3} of the rate, a window of {window:.3} of the controller's, lost: {lost:?}");
    expect(lost.values().sum::<u64>() == 0, format!("{lost:?}"))?;
    expect((0.97..1.01).contains(&rate), format!("{rate} of the rate"))?;
    expect(
        (0.95..1.05).contains(&window),
        format!("{window} of the window, {windows:?}"),
    )
}
