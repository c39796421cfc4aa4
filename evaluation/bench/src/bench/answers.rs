//! `hawser bench answers`: the latency and the cost of a sleeping stack's answer to a packet.
//!
//! The peer is a packet socket that repeats one data packet of an open connection, which the receiver has to
//! acknowledge each time. The bench therefore measures only answers: no window grows, and the application has
//! no data to read.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use hawser::host::netns::{Namespace, NamespaceError, Netlink};
use hawser::host::{self, DeviceSpec, PacketOptions, PacketWire, StackSetup};
use hawser::{Device, Endpoint};
use hawser_engine::StackConfig;
use hawser_engine::net::InterfaceConfig;
use hawser_engine::wire::{Caps, RxFrame, TxFrame, Wire};

use super::{Common, alternate, column, row};
use crate::engine;
use crate::networks::{self, PORT, address};
use crate::report::{Better, Metric, Report};
use crate::sys;

/// The devices. The first is the baseline.
const DEVICES: [&str; 3] = ["packet", "xdp", "xdp-chains"];
/// The cable's ends: the stack's and the peer's.
const ENDS: [&str; 2] = ["near0", "far0"];
/// The longest time for one step.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The pause before a packet, after which the stack sleeps.
const PAUSE: Duration = Duration::from_micros(200);
/// The number of packets in flight while their cost is measured.
const BURST: usize = 16;

/// Measure the latency and the cost of a sleeping stack's answer to a packet
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The program, whose data packets are acknowledged one by one
    #[arg(long, default_value = "selective-repeat")]
    program: String,
    /// Packets in each run
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
}

/// Runs the bench.
///
/// # Errors
/// No measurement is possible on this machine.
pub(crate) fn run(args: &Args, common: &Common) -> Result<Report, Box<dyn std::error::Error>> {
    networks::prepare()?;
    let rounds = args
        .rounds
        .unwrap_or(if common.quick { 500 } else { 10_000 })
        .max(BURST);
    let mut report = Report::new("answers", "Answers of a stack that sleeps, over a veth pair");
    report.setting("program", &args.program);
    report.setting("packets", rounds);
    report.setting("runs", common.runs());
    let results = alternate(common, "answers", &DEVICES, |device| {
        measure(device, &args.program, common, rounds)
    });
    for (device, result) in DEVICES.iter().zip(results) {
        report.rows.push(row((*device).to_owned(), result, |samples| {
            vec![
                Metric::new("p50", "µs", Better::Lower, column(samples, 0)),
                Metric::new("p99", "µs", Better::Lower, column(samples, 1)),
                Metric::new("stack's CPU", "µs", Better::Lower, column(samples, 2)),
                Metric::new("all CPU", "µs", Better::Lower, column(samples, 3)),
            ]
        }));
    }
    report.against(|_| Some(DEVICES[0].to_owned()));
    Ok(report)
}

/// Returns percentiles of the time to an answer, and the processor time for each answer when many packets
/// come. The processor time is that of the stack's thread, and that of the stack and the peer together with
/// the kernel's work for both.
fn measure(device: &str, program: &str, common: &Common, rounds: usize) -> io::Result<Vec<f64>> {
    let failed = |error: NamespaceError| io::Error::other(error);
    let near = Namespace::create().map_err(failed)?;
    near.run(|| {
        let far = Namespace::create().map_err(failed)?;
        let mut netlink = Netlink::open().map_err(failed)?;
        netlink.add_veth(ENDS[0], ENDS[1], &far).map_err(failed)?;
        netlink.bring_up(ENDS[0]).map_err(failed)?;
        far.run(|| {
            let mut netlink = Netlink::open()?;
            // A receiver of raw frames needs complete checksums.
            netlink.set_checksum_offload(ENDS[1], false)?;
            netlink.bring_up(ENDS[1])
        })
        .map_err(failed)?
        .map_err(failed)?;
        let device = format!("{device}:{}", ENDS[0])
            .parse()
            .map_err(io::Error::other)?;
        let endpoint = open(program, common, device, true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (is_over, (send, times)) = (stop.clone(), mpsc::channel());
        let server = thread::spawn(move || serve(endpoint, &is_over, &send));
        let measured = far
            .run(move || peer(program, common, rounds, &times))
            .map_err(failed)?;
        stop.store(true, Ordering::Relaxed);
        server
            .join()
            .map_err(|_| io::Error::other("the stack panicked"))??;
        measured
    })
    .map_err(failed)?
}

/// Opens an endpoint on a device.
fn open(program: &str, common: &Common, device: DeviceSpec, is_near: bool) -> io::Result<Endpoint> {
    let program = engine::named(&common.engine, program, &[]).map_err(io::Error::other)?;
    let setup = StackSetup::new(device, (address(is_near), 24));
    host::open(program, &setup).map_err(io::Error::other)
}

/// Receives until the bench ends, and reports the processor time of this thread at intervals.
fn serve(mut endpoint: Endpoint, is_over: &AtomicBool, times: &mpsc::Sender<Duration>) -> io::Result<()> {
    endpoint.listen(SocketAddr::new(address(true), PORT), 1)?;
    let mut reported = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        while endpoint.poll()? {}
        // A request for the time could not wake the thread, so it sends the time periodically.
        if reported.elapsed() > Duration::from_millis(50) {
            reported = Instant::now();
            // The receiving end may be closed already.
            let _ = times.send(sys::thread_time());
        }
        endpoint.wait(Some(Duration::from_millis(50)))?;
    }
    Ok(())
}

/// A packet socket that keeps the last frame with payload that passed through it.
struct Recorder {
    wire: PacketWire,
    last: Arc<Mutex<Option<TxFrame>>>,
}

impl Wire for Recorder {
    fn caps(&self) -> &Caps {
        self.wire.caps()
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        self.wire.receive(max)
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        self.wire.frame(i)
    }

    fn release(&mut self) {
        self.wire.release();
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        if let Some(frame) = frames.iter().rfind(|frame| !frame.payload.is_empty()) {
            *self.last.lock().map_err(|_| io::ErrorKind::Other)? = Some(frame.clone());
        }
        self.wire.transmit(frames)
    }
}

impl Device for Recorder {
    fn readiness(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }

    fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        self.wire.wait(limit)
    }
}

/// Opens a connection, sends a byte, and repeats the packet that carried it.
fn peer(
    program: &str,
    common: &Common,
    rounds: usize,
    times: &mpsc::Receiver<Duration>,
) -> io::Result<Vec<f64>> {
    let wire = PacketWire::open(ENDS[1], PacketOptions::default()).map_err(io::Error::other)?;
    let last = Arc::new(Mutex::new(None));
    let interface = InterfaceConfig {
        addresses: vec![(address(false), 24)],
        gateways: vec![],
        mtu: wire.caps().mtu,
    };
    let recorder = Recorder { wire, last: last.clone() };
    let program = engine::named(&common.engine, program, &[]).map_err(io::Error::other)?;
    let config = StackConfig::new(interface, 7);
    let mut endpoint = Endpoint::new(program, config, Box::new(recorder)).map_err(io::Error::other)?;
    let begin = Instant::now();
    let connection = endpoint.connect(SocketAddr::new(address(true), PORT))?;
    let mut is_sent = false;
    while begin.elapsed() < Duration::from_millis(500) {
        while endpoint.poll()? {}
        if !is_sent && endpoint.connected(connection)? {
            endpoint.write(connection, b"x")?;
            is_sent = true;
        }
        endpoint.wait(Some(Duration::from_millis(1)))?;
    }
    let frame = last.lock().map_err(|_| io::ErrorKind::Other)?.clone();
    let frame = frame.ok_or_else(|| io::Error::other("the connection did not open"))?;
    let mut wire = PacketWire::open(ENDS[1], PacketOptions::default()).map_err(io::Error::other)?;
    drain(&mut wire)?;
    let mut latencies = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        thread::sleep(PAUSE);
        let sent = Instant::now();
        wire.transmit(std::slice::from_ref(&frame))?;
        await_answers(&mut wire, 1, false)?;
        latencies.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    latencies.sort_by(f64::total_cmp);
    let percentile = |share: f64| latencies[(latencies.len() as f64 * share) as usize];
    let time = || newest(times);
    let (before, all_before) = (time()?, sys::cpu_time());
    let burst = vec![frame; BURST];
    let bursts = rounds / BURST;
    for _ in 0..bursts {
        let mut sent = 0;
        while sent < BURST {
            sent += wire.transmit(&burst[sent..])?;
        }
        await_answers(&mut wire, BURST, true)?;
    }
    let all_after = sys::cpu_time();
    let after = time()?;
    let answers = (bursts * BURST) as f64;
    let all = (all_after.0 + all_after.1) - (all_before.0 + all_before.1);
    Ok(vec![
        percentile(0.5),
        percentile(0.99),
        (after - before).as_secs_f64() * 1e6 / answers,
        all.as_secs_f64() * 1e6 / answers,
    ])
}

/// Returns the next processor time that the stack's thread reports.
fn newest(times: &mpsc::Receiver<Duration>) -> io::Result<Duration> {
    while times.try_recv().is_ok() {}
    times.recv_timeout(TIMEOUT).map_err(io::Error::other)
}

fn drain(wire: &mut PacketWire) -> io::Result<()> {
    while wire.receive(64)? > 0 {
        wire.release();
    }
    wire.release();
    Ok(())
}

/// Receives this many frames from the stack.
fn await_answers(wire: &mut PacketWire, count: usize, sleeps: bool) -> io::Result<()> {
    let (begin, mut received) = (Instant::now(), 0);
    while received < count {
        received += wire.receive(64)?;
        wire.release();
        if begin.elapsed() > TIMEOUT {
            return Err(io::Error::other(format!(
                "{received} answers came for {count} packets"
            )));
        }
        if sleeps && received < count {
            wire.wait(Some(Duration::from_millis(10)))?;
        }
    }
    Ok(())
}
