//! One stack that runs `tcp.mtp`, in virtual time. The test plays its peer.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use hawser_time::Instant;
use hawser_engine::net::InterfaceConfig;
use hawser_engine::program::Program;
use hawser_engine::wire::{Caps, Csum, Medium, RxFrame, TxFrame, Wire};
use hawser_engine::{Handle, Notice, Stack, StackConfig};
use hawser_ir::Module;
use hawser_load::{LoadedProgram, parse_param};

use crate::segment::{HOST, PEER, Segment, cut};

/// A millisecond, in nanoseconds.
pub(crate) const MS: u64 = 1_000_000;
/// A second, in nanoseconds.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// The peer's port in all tests.
pub(crate) const PEER_PORT: u16 = 4000;
/// The peer's initial sequence number in all tests. It makes the peer's stream wrap around early.
pub(crate) const PEER_ISS: u32 = 0xffff_ff00;

/// Two of the states, numbered as in `state.mtp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    SynSent = 1,
    Established = 3,
}

/// A wire that keeps frames in memory.
pub(crate) struct Tape {
    caps: Caps,
    /// The frames to arrive. For a merged frame, the number is the payload bytes of each segment.
    waiting: VecDeque<(Vec<u8>, u16)>,
    batch: Vec<(Vec<u8>, u16)>,
    pub(crate) sent: Vec<Vec<u8>>,
    /// The number of sent frames that were super-segments.
    pub(crate) super_segments: usize,
    /// The largest payload of a frame, in bytes.
    pub(crate) largest: usize,
}

impl Tape {
    /// Creates a tape whose device cuts super-segments of up to `gso_max` bytes and completes checksums. With
    /// 0 it does neither.
    fn new(gso_max: u32) -> Tape {
        let caps =
            Caps { medium: Medium::Ip, mtu: 1500, tx_csum: gso_max > 0, gso_max, rx_queue_bytes: 1 << 22 };
        Tape { caps, waiting: VecDeque::new(), batch: Vec::new(), sent: Vec::new(), super_segments: 0, largest: 0 }
    }
}

impl Wire for Tape {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        let count = self.waiting.len().min(max);
        self.batch = self.waiting.drain(..count).collect();
        Ok(count)
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        let (bytes, seg_size) = &self.batch[i];
        let csum = if *seg_size > 0 { Csum::Complete } else { Csum::Unverified };
        RxFrame { head: bytes, tail: &[], csum, seg_size: *seg_size, at: Instant::ORIGIN }
    }

    fn release(&mut self) {
        self.batch.clear();
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        for frame in frames {
            let payload: Vec<u8> = frame.payload.iter().flat_map(|piece| piece.bytes().to_vec()).collect();
            self.largest = self.largest.max(payload.len());
            if self.caps.gso_max == 0 {
                assert_eq!((frame.csum, frame.gso_size), (None, 0), "the tape has no offload");
                self.sent.push([frame.head.clone(), payload].concat());
                continue;
            }
            self.super_segments += usize::from(frame.gso_size > 0);
            self.sent.extend(cut(&frame.head, &payload, frame.gso_size.into()));
        }
        Ok(frames.len())
    }
}

/// Returns the program, loaded once. `HAWSER_TCP` names another main file, such as a mutant (`cargo xtask
/// mutants`).
pub(crate) fn program() -> &'static LoadedProgram {
    static PROGRAM: OnceLock<LoadedProgram> = OnceLock::new();
    PROGRAM.get_or_init(|| loaded(&std::env::var("HAWSER_TCP").unwrap_or_else(|_| "tcp".to_owned())))
}

/// Returns the program with NewReno: the same files, except for one import.
fn newreno() -> &'static LoadedProgram {
    static PROGRAM: OnceLock<LoadedProgram> = OnceLock::new();
    let ready = || {
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../transports/tcp/tcp.mtp");
        let main = PathBuf::from(std::env::var_os("HAWSER_TCP").unwrap_or_else(|| own.into()));
        let copy = hawser_documents::temporary::Folder::new().expect("a folder");
        for file in std::fs::read_dir(main.parent().expect("a folder")).expect("a folder") {
            let path = file.expect("a file").path();
            if path.extension().is_some_and(|extension| extension == "mtp") {
                let text = std::fs::read_to_string(&path).expect("a text");
                let swapped = text.replace("import \"cubic.mtp\";", "import \"newreno.mtp\";");
                assert_eq!(swapped != text, path == main, "{path:?}");
                std::fs::write(copy.join(path.file_name().expect("a name")), swapped).expect("a copy");
            }
        }
        loaded(copy.join("tcp.mtp").to_str().expect("a plain path"))
    };
    PROGRAM.get_or_init(ready)
}

/// Returns the program with an attachment and these params.
pub(crate) fn with_attached(text: &str, params: &[&str]) -> Result<Arc<dyn Program>, String> {
    let attached = program().attach(Path::new("attached.mtp"), text).map_err(|error| error.to_string())?;
    attached.with(&values(params)).map_err(|error| error.to_string())
}

/// Returns the program with these params.
pub(crate) fn with_params(params: &[&str]) -> Arc<dyn Program> {
    let program = if params.contains(&NEWRENO) { newreno() } else { program() };
    program.with(&values(params)).expect("a program")
}

fn values(params: &[&str]) -> Vec<(String, u64)> {
    let values = params.iter().filter(|text| **text != NEWRENO);
    values.map(|text| parse_param(text).expect("a param")).collect()
}

/// Returns the program's tables.
pub(crate) fn module() -> &'static Module {
    program().module()
}

fn loaded(name: &str) -> LoadedProgram {
    LoadedProgram::open(name, Some(crate::ENGINE)).unwrap_or_else(|error| panic!("{error}"))
}

/// An entry among the params that selects NewReno instead of CUBIC.
pub(crate) const NEWRENO: &str = "import newreno.mtp";

/// Creates a stack at an address.
pub(crate) fn stack(address: IpAddr, params: &[&str], seed: u64, caps: &Caps) -> Stack {
    stack_with_mtu(address, params, seed, caps, 1500)
}

/// Like `stack`, but merges contiguous packets that arrive together.
pub(crate) fn merging_stack(address: IpAddr, params: &[&str], seed: u64, caps: &Caps) -> Stack {
    let config = StackConfig { merge: true, ..config(address, seed, 1500) };
    Stack::new(with_params(&usual(params)), config, caps).expect("a stack")
}

/// Creates a stack whose packets have at most `mtu` bytes.
pub(crate) fn stack_with_mtu(address: IpAddr, params: &[&str], seed: u64, caps: &Caps, mtu: u32) -> Stack {
    Stack::new(with_params(&usual(params)), config(address, seed, mtu), caps).expect("a stack")
}

/// Creates a stack that holds at most `bytes` of each connection in either direction, with the program's own
/// params.
pub(crate) fn stack_that_holds(address: IpAddr, bytes: u64, seed: u64, caps: &Caps) -> Stack {
    let mut config = config(address, seed, 1500);
    (config.limits.tx_bytes, config.limits.rx_bytes) = (bytes, bytes);
    Stack::new(with_params(&[]), config, caps).expect("a stack")
}

fn config(address: IpAddr, seed: u64, mtu: u32) -> StackConfig {
    let interface = InterfaceConfig { addresses: vec![(address, 24)], gateways: vec![], mtu };
    let mut config = StackConfig::new(interface, seed);
    // Data sent at once is accepted whole. The engine's own tests check how much a connection may hold.
    config.limits.first_bytes = config.limits.tx_bytes;
    config
}

/// The params that tests use unless these are their subject: RFC 6298's shortest timeout (2.4) and a window
/// of fixed size.
const USUAL: [&str; 2] = ["MIN_RTO=1s", "MAX_RCV_BUF=0"];

/// Returns a test's params after the usual ones.
pub(crate) fn usual<'a>(params: &[&'a str]) -> Vec<&'a str> {
    let name = |param: &str| param.split('=').next().unwrap_or_default().to_owned();
    let is_given = |usual: &&str| params.iter().any(|param| name(param) == name(usual));
    let others = USUAL.into_iter().filter(|usual| !is_given(usual));
    others.chain(params.iter().copied()).collect()
}

/// The stack under test.
pub(crate) struct Bench {
    pub(crate) stack: Stack,
    pub(crate) wire: Tape,
    pub(crate) now: u64,
    /// Sent segments that the test has not examined, with their times.
    sent: VecDeque<(u64, Segment)>,
    /// The last packet that the stack sent, as bytes.
    pub(crate) last_packet: Vec<u8>,
}

impl Bench {
    /// Creates a stack with these params (`MIN_RTO=200ms`).
    pub(crate) fn new(params: &[&str]) -> Bench {
        Bench::seeded(params, 1)
    }

    pub(crate) fn seeded(params: &[&str], seed: u64) -> Bench {
        Bench::on(Tape::new(0), params, seed)
    }

    /// Creates a stack on a device that cuts super-segments.
    pub(crate) fn cutting(params: &[&str]) -> Bench {
        Bench::on(Tape::new(65_535), params, 1)
    }

    fn on(wire: Tape, params: &[&str], seed: u64) -> Bench {
        let stack = stack(IpAddr::V4(HOST), params, seed, &wire.caps);
        Bench { stack, wire, now: SECOND, sent: VecDeque::new(), last_packet: Vec::new() }
    }

    /// Lets the stack do all work that is due now.
    pub(crate) fn settle(&mut self) {
        while self.stack.poll(Instant::from_nanos(self.now), &mut self.wire).expect("a wire that works") {
            assert_eq!(self.stack.counters().asserts, 0, "{:?}", self.stack.last_assert());
        }
        for packet in self.wire.sent.drain(..) {
            self.sent.push_back((self.now, Segment::parse(&packet)));
            self.last_packet = packet;
        }
    }

    /// Lets time pass, timer by timer.
    pub(crate) fn advance(&mut self, time: u64) {
        self.settle();
        let until = self.now + time;
        while let Some(deadline) = self.stack.next_deadline().map(Instant::as_nanos).filter(|deadline| *deadline <= until) {
            self.now = self.now.max(deadline);
            self.settle();
        }
        self.now = until;
    }

    /// Delivers a packet from the peer.
    pub(crate) fn deliver(&mut self, packet: Vec<u8>) {
        self.wire.waiting.push_back((packet, 0));
        self.settle();
    }

    /// Delivers segments of `size` payload bytes each, which a device has merged into this one.
    pub(crate) fn inject_merged(&mut self, all: &Segment, size: u16) {
        self.wire.waiting.push_back((all.packet(), size));
        self.settle();
    }

    /// Delivers a segment from the peer.
    pub(crate) fn inject(&mut self, segment: &Segment) {
        self.deliver(segment.packet());
    }

    /// Delivers segments from the peer that arrive together.
    pub(crate) fn inject_all(&mut self, segments: &[Segment]) {
        self.wire.waiting.extend(segments.iter().map(|segment| (segment.packet(), 0)));
        self.settle();
    }

    /// Returns the segments sent since the last call, with their times.
    pub(crate) fn timed(&mut self) -> Vec<(u64, Segment)> {
        self.settle();
        self.sent.drain(..).collect()
    }

    /// Returns the segments sent since the last call.
    pub(crate) fn sent(&mut self) -> Vec<Segment> {
        self.timed().into_iter().map(|(_, segment)| segment).collect()
    }

    /// Returns the only segment sent since the last call.
    pub(crate) fn one(&mut self) -> Segment {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:#?}");
        sent.remove(0)
    }

    /// Fails if a segment was sent since the last call.
    pub(crate) fn expect_nothing_sent(&mut self) {
        assert_eq!(self.sent(), []);
    }

    pub(crate) fn notices(&mut self) -> Vec<Notice> {
        self.settle();
        let mut notices = Vec::new();
        while let Some((handle, notice)) = self.stack.next_notice() {
            if matches!(notice, Notice::Accepted(_)) {
                self.stack.accept(handle);
            }
            notices.push(notice);
        }
        notices
    }

    pub(crate) fn listen(&mut self, port: u16, backlog: u32) -> Handle {
        self.stack.listen(Instant::from_nanos(self.now), SocketAddr::new(IpAddr::V4(HOST), port), backlog).expect("a listener")
    }

    pub(crate) fn connect(&mut self) -> Handle {
        let remote = SocketAddr::new(IpAddr::V4(PEER), PEER_PORT);
        let local = SocketAddr::new(IpAddr::V4(HOST), 5000);
        self.stack.connect(Instant::from_nanos(self.now), remote, Some(local)).expect("a connection")
    }

    pub(crate) fn send(&mut self, handle: Handle, len: usize) {
        let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
        assert_eq!(self.stack.send(Instant::from_nanos(self.now), handle, &data).expect("a connection"), len);
        self.settle();
    }

    /// Reads at most `max` bytes.
    pub(crate) fn read(&mut self, handle: Handle, max: usize) -> Vec<u8> {
        let mut data = vec![0; max];
        let len = self.stack.recv(Instant::from_nanos(self.now), handle, &mut data).expect("a connection");
        data.truncate(len);
        self.settle();
        data
    }

    pub(crate) fn close(&mut self, handle: Handle) {
        self.stack.close(Instant::from_nanos(self.now), handle);
        self.settle();
    }

    pub(crate) fn observe(&self, handle: Handle, field: &str) -> u64 {
        self.stack.observe(handle, field).unwrap_or_else(|| panic!("no `{field}` to observe"))
    }

    pub(crate) fn is(&self, handle: Handle, state: State) {
        assert_eq!(self.observe(handle, "state"), state as u64, "{state:?}");
    }
}

/// The options in the peer's SYN.
#[derive(Clone, Copy, Default)]
pub(crate) struct Offer {
    pub(crate) mss: Option<u16>,
    pub(crate) scale: Option<u8>,
    pub(crate) timestamps: bool,
}

/// An open connection, from the peer's side.
pub(crate) struct Connection {
    pub(crate) bench: Bench,
    pub(crate) handle: Handle,
    /// The peer's next sequence number.
    pub(crate) next: u32,
    /// The host's next sequence number, as far as the peer has acknowledged.
    pub(crate) host: u32,
    /// The peer's window field.
    pub(crate) window: u16,
    pub(crate) timestamps: bool,
}

impl Connection {
    /// Opens a connection from the host. The peer answers at once with this offer and this (unscaled) window.
    pub(crate) fn open(params: &[&str], offer: Offer, window: u16) -> Connection {
        Connection::open_after(params, offer, window, 0)
    }

    /// Like [`Connection::open`], but the answer arrives after a round-trip time.
    pub(crate) fn open_after(params: &[&str], offer: Offer, window: u16, round_trip: u64) -> Connection {
        Connection::complete(Bench::new(params), offer, window, round_trip, |answer| answer)
    }

    fn complete(
        mut bench: Bench,
        offer: Offer,
        window: u16,
        round_trip: u64,
        change: impl FnOnce(Segment) -> Segment,
    ) -> Connection {
        let handle = bench.connect();
        let syn = bench.one();
        bench.advance(round_trip);
        let answer = Segment {
            source: PEER_PORT,
            destination: syn.source,
            seq: PEER_ISS,
            ack: Some(syn.seq.wrapping_add(1)),
            syn: true,
            window,
            mss: offer.mss,
            scale: offer.scale,
            timestamps: offer.timestamps.then(|| (7, syn.timestamps.expect("timestamps").0)),
            ..Segment::default()
        };
        let answer = change(answer);
        bench.inject(&answer);
        let ack = bench.one();
        assert_eq!((ack.ack, ack.syn, ack.numbers()), (Some(PEER_ISS.wrapping_add(1)), false, 0));
        assert_eq!(bench.notices(), [Notice::Connected]);
        let host = syn.seq.wrapping_add(1);
        let next = PEER_ISS.wrapping_add(1);
        Connection { bench, handle, next, host, window, timestamps: offer.timestamps }
    }

    /// Opens a connection from the host after some time.
    pub(crate) fn open_at(wait: u64, offer: Offer) -> Connection {
        let mut bench = Bench::new(&[]);
        bench.advance(wait);
        Connection::complete(bench, offer, 65535, 0, |answer| answer)
    }

    /// Opens a connection from the host with segments of 1000 bytes over a round-trip time of 100 ms. The
    /// peer's <SYN,ACK> is changed before it is sent.
    pub(crate) fn agreed(
        params: &[&str],
        timestamps: bool,
        change: impl FnOnce(Segment) -> Segment,
    ) -> Connection {
        Connection::agreed_on(Bench::new(params), timestamps, change)
    }

    /// Like [`Connection::agreed`], on this bench.
    pub(crate) fn agreed_on(
        bench: Bench,
        timestamps: bool,
        change: impl FnOnce(Segment) -> Segment,
    ) -> Connection {
        let mss = if timestamps { 1012 } else { 1000 };
        let offer = Offer { mss: Some(mss), scale: Some(4), timestamps };
        Connection::complete(bench, offer, 65535, 100 * MS, change)
    }

    /// Opens a connection whose segments carry exactly 1000 bytes and no options.
    pub(crate) fn plain(params: &[&str]) -> Connection {
        Connection::open(params, Offer { mss: Some(1000), ..Offer::default() }, 65535)
    }

    /// Returns the peer's next segment, which acknowledges as much as the peer has so far.
    pub(crate) fn segment(&self) -> Segment {
        Segment {
            source: PEER_PORT,
            destination: 5000,
            seq: self.next,
            ack: Some(self.host),
            window: self.window,
            timestamps: self.timestamps.then_some((7, 0)),
            ..Segment::default()
        }
    }

    /// Lets the peer acknowledge `len` more bytes.
    pub(crate) fn acknowledge(&mut self, len: u32) {
        self.host = self.host.wrapping_add(len);
        let ack = self.segment();
        self.bench.inject(&ack);
    }

    /// Sends a pure ACK of the data that the peer has acknowledged so far, with SACK blocks. The blocks are
    /// offsets from there.
    pub(crate) fn sacks(&mut self, blocks: &[(i32, i32)]) {
        let at = |offset: i32| self.host.wrapping_add_signed(offset);
        let blocks: Vec<_> = blocks.iter().map(|(from, to)| (at(*from), at(*to))).collect();
        let ack = self.segment().sack(&blocks);
        self.bench.inject(&ack);
    }

    /// Returns the windows of the congestion control: cwnd and ssthresh.
    pub(crate) fn windows(&self) -> (u64, u64) {
        (self.bench.observe(self.handle, "cc.cwnd"), self.bench.observe(self.handle, "cc.ssthresh"))
    }

    /// Lets the peer send `len` more bytes.
    pub(crate) fn peer_sends(&mut self, len: usize) {
        let segment = self.segment().payload(vec![b'p'; len]);
        self.next = self.next.wrapping_add(len as u32);
        self.bench.inject(&segment);
    }

    /// Returns the ranges that the host sent, as lengths and offsets from the first byte that the peer has
    /// not acknowledged. Pure ACKs are left out.
    pub(crate) fn ranges(&mut self) -> Vec<(u32, u32)> {
        let host = self.host;
        let segments = self.bench.sent().into_iter().filter(|s| s.numbers() > 0);
        segments.map(|s| (s.seq.wrapping_sub(host), s.numbers())).collect()
    }
}
