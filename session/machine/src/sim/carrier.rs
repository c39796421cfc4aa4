//! One end of a carrier: a connection of the program `tcp`, and the bytes that wait to be written to it. It
//! also performs the handshake before the session's first byte.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use crate::{CarrierId, Exporter};
use bytes::Bytes;
use hawser_carriers::{Statistics, observables};
use hawser_engine::program::Program;
use hawser_engine::{Handle, Observable, Stack};
use hawser_ir::abi::{OPT_MAX_SEGMENT, OPT_NODELAY, OPT_NOT_SENT};
use hawser_load::{LoadedProgram, parse_params};
use hawser_time::Instant;

/// The program, configured like a server's kernel: Linux's minimum timeout and receive buffer, and
/// `tcp_mtu_probing` off.
pub(crate) static TCP: LazyLock<Arc<dyn Program>> = LazyLock::new(|| {
    let tcp = LoadedProgram::open("tcp", None).expect("the program is built in");
    let settings = ["MIN_RTO=200ms", "RCV_BUF=6291456", "BLACK_HOLE_TIMEOUTS=0"];
    let params = parse_params(&tcp.module().params, &tcp.module().enums, settings).expect("its params");
    tcp.with(&params).expect("machine code of it")
});

/// Bytes that a stack takes before they are in a packet, like the kernel's TCP (`TcpOptions::not_sent`).
const NOT_SENT: u64 = 16_384;
/// The MSS that is requested if long packets are lost, and the payload that remains beside timestamps
/// (`SMALL_SEGMENT` of the kernel's TCP).
const SMALL_MSS: u64 = 1_220;
const SMALL: usize = 1_208;

/// Returns the options of a connection, or of a listener.
pub(crate) fn options(small: bool) -> Vec<(u32, u64)> {
    let segment = small.then_some((OPT_MAX_SEGMENT, SMALL_MSS));
    [(OPT_NODELAY, 1), (OPT_NOT_SENT, NOT_SENT)]
        .into_iter()
        .chain(segment)
        .collect()
}

/// The handshake before the session's first byte: flights from the client and answers to them, as in TLS 1.3.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake {
    /// The length of a flight of this end, and of the other end, in bytes.
    ours: usize,
    theirs: usize,
    /// The number of answers that the client waits for.
    rounds: u32,
    is_client: bool,
}

/// The length of the client's flight in bytes: a ClientHello with one key share.
const CLIENT_FLIGHT: usize = 300;

impl Handshake {
    /// Creates a handshake of this many round trips, including that of the connection. If there is no other
    /// round trip, the flights are sent with the first bytes, because QUIC's handshake is the connection's.
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
    /// The connection's variables, resolved when they are first read.
    variables: OnceCell<[Option<Observable>; observables::VARIABLES.len()]>,
    /// Its number in the session. A server learns it from the proof.
    pub(crate) id: Option<CarrierId>,
    pub(crate) link: usize,
    /// True once the connection is up and the handshake is over.
    pub(crate) is_open: bool,
    /// True if the session no longer uses it, or never did. It ends when everything is written.
    pub(crate) finishing: bool,
    /// The handshake, and the number of bytes of the other end's flight that are still to arrive.
    handshake: Handshake,
    to_come: usize,
    /// The bytes of the other end's flight that have arrived.
    flight: Vec<u8>,
    queue: VecDeque<Bytes>,
    /// True once the end was written.
    closed: bool,
    /// The largest payload of a received packet, in bytes.
    pub(crate) max_payload: usize,
    /// The exporter of both ends, which is the beginning of the client's flight.
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

    /// Begins the handshake once the connection is up. Returns true if the session can use it at once.
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

    /// Removes the handshake's bytes from the received ones. Returns true if the session can use the carrier
    /// from now on.
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

    /// Hands queued bytes to the stack, as far as it takes them, and then the end, if the carrier is
    /// finishing.
    pub(crate) fn write(&mut self, now: Instant, stack: &mut Stack) {
        while let Some(front) = self.queue.front_mut() {
            // A failed connection is reported by a notice.
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

    /// Returns the number of bytes that it takes now.
    pub(crate) fn room(&self, stack: &Stack) -> usize {
        if self.queue.is_empty() {
            stack.writable(self.handle)
        } else {
            0
        }
    }

    /// Returns the connection's figures; `None` once it is over.
    pub(crate) fn statistics(&self, stack: &Stack) -> Option<Statistics> {
        let resolve = || observables::VARIABLES.map(|name| stack.observable(self.handle, name));
        let variables = self.variables.get_or_init(resolve);
        let values = variables.map(|variable| stack.read_observable(self.handle, variable?));
        values[0]?;
        let known = observables::statistics(values);
        let mss = known.mss as u64;
        let oversized = known.mss > SMALL && (known.in_flight >= mss || self.max_payload <= SMALL);
        Some(Statistics { oversized, ..known })
    }
}
