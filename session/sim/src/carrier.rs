//! One end of a carrier: a connection of the program `tcp`, what waits to be written to it, and the
//! handshake that comes before the session's first byte.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use hawser_carrier::{Statistics, observables};
use hawser_engine::program::Program;
use hawser_engine::{Handle, Observable, Stack};
use hawser_ir::abi::{OPT_MAX_SEGMENT, OPT_NODELAY, OPT_NOT_SENT};
use hawser_load::{Loaded, parse_params};
use hawser_session::{CarrierId, Exporter};
use hawser_time::Instant;

/// The program as a server's kernel is set up: Linux's least timeout and receive buffer, and its
/// `tcp_mtu_probing`, which is off.
pub(crate) static TCP: LazyLock<Arc<dyn Program>> = LazyLock::new(|| {
    let tcp = Loaded::open("tcp", None).expect("the program is built in");
    let settings = ["MIN_RTO=200ms", "RCV_BUF=6291456", "BLACK_HOLE_TIMEOUTS=0"];
    let params = parse_params(&tcp.module().params, &tcp.module().enums, settings).expect("its params");
    tcp.with(&params).expect("machine code of it")
});

/// Bytes that a stack takes before they are in a packet, as of the kernel's TCP (`TcpOptions::not_sent`).
const NOT_SENT: u64 = 16_384;
/// The MSS that is asked for where long packets are lost, and the payload that is left beside timestamps
/// (`SMALL_SEGMENT` of the kernel's TCP).
const SMALL_MSS: u64 = 1_220;
const SMALL: usize = 1_208;

/// Options of a connection, or of a listener.
pub(crate) fn options(small: bool) -> Vec<(u32, u64)> {
    let segment = small.then_some((OPT_MAX_SEGMENT, SMALL_MSS));
    [(OPT_NODELAY, 1), (OPT_NOT_SENT, NOT_SENT)]
        .into_iter()
        .chain(segment)
        .collect()
}

/// What comes before the session's first byte: flights from the client and answers to them, as those of
/// TLS 1.3.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake {
    /// Bytes of a flight of this end, and of the other.
    ours: usize,
    theirs: usize,
    /// Answers that the client waits for.
    rounds: u32,
    is_client: bool,
}

/// Bytes of the client's flight: ClientHello with one share of a key.
const CLIENT_FLIGHT: usize = 300;

impl Handshake {
    /// A handshake of this many round trips, that of the connection included. Where there is no other, the
    /// flights leave with the first bytes, as QUIC's handshake is the connection's.
    pub(crate) fn new(round_trips: u32, server_flight: usize, is_client: bool) -> Handshake {
        let flights = [CLIENT_FLIGHT, server_flight];
        let [ours, theirs] = if is_client {
            flights
        } else {
            [server_flight, CLIENT_FLIGHT]
        };
        Handshake { ours, theirs, rounds: round_trips.saturating_sub(1), is_client }
    }
}

/// One end of a carrier.
pub(crate) struct Carrier {
    pub(crate) handle: Handle,
    /// The names of its figures, resolved when they are first asked for.
    variables: OnceCell<[Option<Observable>; observables::VARIABLES.len()]>,
    /// Its number in the session: a server knows it when it has been proved.
    pub(crate) id: Option<CarrierId>,
    pub(crate) link: usize,
    /// The connection is there, and the handshake is over.
    pub(crate) is_open: bool,
    /// Read and closed for the session, or never its own: it ends when everything is written.
    pub(crate) finishing: bool,
    /// The handshake, where it is not over, and how much of the other's flight is to come.
    handshake: Handshake,
    to_come: usize,
    /// The other's flight, as far as it has come.
    flight: Vec<u8>,
    queue: VecDeque<Bytes>,
    /// The end was written.
    closed: bool,
    /// The largest payload of a packet that came.
    pub(crate) max_payload: usize,
    /// The exporter of both ends: a client's is the beginning of its flight.
    pub(crate) exporter: Exporter,
}

impl Carrier {
    pub(crate) fn new(handle: Handle, id: Option<CarrierId>, link: usize, handshake: Handshake) -> Carrier {
        Carrier {
            handle,
            variables: OnceCell::new(),
            id,
            link,
            is_open: false,
            finishing: false,
            to_come: handshake.theirs,
            handshake,
            flight: Vec::new(),
            queue: VecDeque::new(),
            closed: false,
            max_payload: 0,
            exporter: [0; 32],
        }
    }

    /// The connection is there: the handshake begins. True when the session can have it at once.
    pub(crate) fn connected(&mut self) -> bool {
        let Handshake { is_client, rounds, .. } = self.handshake;
        if is_client || rounds == 0 {
            self.send_flight();
        }
        self.is_open = is_client && rounds == 0;
        self.is_open
    }

    fn send_flight(&mut self) {
        let mut flight = vec![0x16; self.handshake.ours];
        if self.handshake.is_client {
            flight[..32].copy_from_slice(&self.exporter);
        }
        self.queue.push_back(flight.into());
    }

    /// Takes the handshake's bytes away from those that came; true when the session can have it from now on.
    pub(crate) fn shake(&mut self, bytes: &mut Bytes) -> bool {
        while self.to_come > 0 && !bytes.is_empty() {
            let part = bytes.split_to(self.to_come.min(bytes.len()));
            self.to_come -= part.len();
            self.flight.extend_from_slice(&part);
            if self.to_come > 0 {
                return false;
            }
            if !self.handshake.is_client {
                self.exporter.copy_from_slice(&self.flight[..32]);
            }
            self.flight.clear();
            if self.handshake.rounds == 0 {
                return !std::mem::replace(&mut self.is_open, true);
            }
            self.handshake.rounds -= 1;
            let last = self.handshake.rounds == 0;
            if !self.handshake.is_client || !last {
                self.send_flight();
            }
            if last {
                self.is_open = true;
                return true;
            }
            self.to_come = self.handshake.theirs;
        }
        false
    }

    pub(crate) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.queue.push_back(bytes);
        }
    }

    /// Hands what waits to the stack, as far as it takes it; then the end, if this is it.
    pub(crate) fn write(&mut self, now: Instant, stack: &mut Stack) {
        while let Some(front) = self.queue.front_mut() {
            // A connection that failed says so by a notice.
            let taken = stack.send(now, self.handle, front).unwrap_or(0);
            let _ = front.split_to(taken);
            if front.is_empty() {
                self.queue.pop_front();
            } else if taken == 0 {
                return;
            }
        }
        if self.finishing && !std::mem::replace(&mut self.closed, true) {
            stack.close(now, self.handle);
        }
    }

    /// Bytes that it takes now.
    pub(crate) fn room(&self, stack: &Stack) -> usize {
        if self.queue.is_empty() {
            stack.writable(self.handle)
        } else {
            0
        }
    }

    /// The connection's figures; none once it is over.
    pub(crate) fn statistics(&self, stack: &Stack) -> Option<Statistics> {
        let resolve = || observables::VARIABLES.map(|name| stack.observable(self.handle, name));
        let variables = self.variables.get_or_init(resolve);
        let values = variables.map(|variable| stack.read_observable(self.handle, variable?));
        values[0]?;
        let known = observables::of(values);
        let mss = known.mss as u64;
        let oversized = known.mss > SMALL && (known.in_flight >= mss || self.max_payload <= SMALL);
        Some(Statistics { oversized, ..known })
    }
}
