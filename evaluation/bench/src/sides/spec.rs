//! The orders of a side, and its measurements: plain values that cross between processes as JSON.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The orders of a side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// The stack to run.
    pub(crate) stack: StackKind,
    /// The stack's own address and its prefix length.
    pub(crate) address: (IpAddr, u8),
    /// The core to which the side is pinned.
    pub(crate) core: Option<usize>,
    /// True if the side sleeps while it is idle; otherwise it polls.
    pub(crate) sleeps: bool,
    /// The work of the application.
    pub(crate) work: Work,
    /// The number of seconds after which the side ends itself in any case.
    pub(crate) timeout_s: u64,
}

/// The stack of a side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum StackKind {
    /// The kernel's own TCP, cubic.
    Linux,
    Hawser {
        /// The device: `tun:NAME`, `packet:NAME`, `xdp:NAME`, `dpdk:DEVICE` or `udp:ADDRESS:PORT`.
        device: String,
        /// The kernel's address at the other end of a TUN device.
        kernel: Option<(IpAddr, u8)>,
        /// The program's name.
        program: String,
        /// The engine that runs it.
        engine: String,
        /// The program's params, such as `MSL=5ms`.
        params: Vec<String>,
        /// The number of stacks on the queues of the device, each in a thread of its own.
        shards: u16,
        /// True if the application's writes are passed by reference, not copied.
        by_reference: bool,
    },
    /// quinn on a UDP socket.
    Quinn,
    Smoltcp {
        /// The device: `tap:NAME`, or `dpdk:DEVICE` as for ours.
        device: String,
        /// The kernel's address at the other end of a TAP device.
        kernel: Option<(IpAddr, u8)>,
    },
    /// gVisor's stack on a packet socket, in a program of its own.
    Gvisor {
        /// The path of the program.
        program: PathBuf,
        /// The interface's name.
        device: String,
    },
    /// A bare loop over a port of DPDK, without a stack.
    Bare {
        /// The port's device.
        device: String,
        /// The loop's work on payload.
        work: BareWork,
    },
}

/// The work of a bare loop on a frame, in addition to its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BareWork {
    /// The loop only counts the payload.
    Headers,
    /// The loop copies payload from the application's memory, and to it.
    Copies,
    /// The loop also computes the Internet checksums of frames.
    Sums,
}

/// The work of the application.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Connects and sends for some time.
    Send(Bulk),
    /// Accepts one connection and receives until its end.
    Receive(Bulk),
    /// Connects and asks one question at a time.
    Ping(Echo),
    /// Accepts one connection and answers.
    Pong(Echo),
    /// Opens connections, exchanges a byte on each, closes them.
    Connect(Many),
    /// Accepts connections and answers the byte on each.
    Serve(Many),
    /// Opens connections that stay open, and asks on some at a time.
    Ask(StandingSpec),
    /// Accepts such connections and answers.
    Answer(StandingSpec),
}

impl Work {
    /// Returns the ports that the side listens on.
    #[must_use]
    pub(crate) fn listens(&self) -> Vec<u16> {
        match self {
            Work::Receive(bulk) => vec![bulk.peer.port()],
            Work::Pong(echo) => vec![echo.peer.port()],
            Work::Serve(many) => vec![many.peer.port()],
            Work::Answer(standing) => standing.ports().collect(),
            Work::Send(_) | Work::Ping(_) | Work::Connect(_) | Work::Ask(_) => Vec::new(),
        }
    }

    /// Returns the number of concurrent connections of a bulk transfer.
    #[must_use]
    pub(crate) fn flows(&self) -> u32 {
        match self {
            Work::Send(bulk) | Work::Receive(bulk) => bulk.flows,
            Work::Ping(_)
            | Work::Pong(_)
            | Work::Connect(_)
            | Work::Serve(_)
            | Work::Ask(_)
            | Work::Answer(_) => 1,
        }
    }
}

/// A bulk transfer. Rates are measured after the warm-up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Bulk {
    /// The address of the receiver.
    pub(crate) peer: SocketAddr,
    /// The seconds before the measured ones.
    pub(crate) warm_up_s: f64,
    /// The measured seconds.
    pub(crate) seconds: f64,
    /// True if the receiver compares every byte with the sent one.
    pub(crate) verify: bool,
    /// The bytes of one write: `CHUNK`, or fewer.
    pub(crate) write: usize,
    /// The number of concurrent connections, which are divided among all stacks of a side.
    pub(crate) flows: u32,
}

/// Questions and answers of the same size, one at a time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Echo {
    /// The address of the answering side.
    pub(crate) peer: SocketAddr,
    /// The round trips before the measured ones.
    pub(crate) warm_up: u32,
    /// The measured round trips.
    pub(crate) rounds: u32,
    /// The bytes in each direction.
    pub(crate) size: usize,
}

/// Many short connections.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Many {
    /// The address of the server.
    pub(crate) peer: SocketAddr,
    /// The total number of connections.
    pub(crate) connections: u32,
    /// The number of concurrent connections.
    pub(crate) at_once: u32,
}

/// Connections that stay open, and requests on some of them at a time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StandingSpec {
    /// The address of the server. It also listens on the following ports.
    pub(crate) peer: SocketAddr,
    /// The number of the server's ports. A client's connections to one port are limited by its own ports.
    pub(crate) ports: u16,
    /// The number of connections.
    pub(crate) connections: u32,
    /// The number of requests in flight at the same time.
    pub(crate) at_once: u32,
    /// The seconds before the measured ones.
    pub(crate) warm_up_s: f64,
    /// The measured seconds.
    pub(crate) seconds: f64,
    /// The size of a request, in bytes.
    pub(crate) request: usize,
    /// The size of an answer, in bytes.
    pub(crate) answer: usize,
}

impl StandingSpec {
    /// Returns the ports that the server listens on.
    pub(crate) fn ports(&self) -> impl Iterator<Item = u16> + Clone {
        (0..self.ports).map(|n| self.peer.port() + n)
    }
}

/// The measurements of a side.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Measured {
    /// The total bytes sent or received.
    pub(crate) bytes: u64,
    /// The bytes within the measured time.
    pub(crate) counted_bytes: u64,
    /// The measured time in seconds, by this side's clock.
    pub(crate) seconds: f64,
    /// The processor time in user space during the measured time, in seconds.
    pub(crate) user_s: f64,
    /// The processor time in the kernel during the measured time, in seconds.
    pub(crate) system_s: f64,
    /// The round-trip times in nanoseconds, sorted.
    pub(crate) round_trips_ns: Vec<u64>,
    /// The number of connections that were opened, used and closed.
    pub(crate) connections: u64,
    /// The number of requests that were answered.
    pub(crate) requests: u64,
    /// The bytes that the process has allocated for its connections.
    pub(crate) memory: u64,
    /// The number of connections that the stack still holds at the end, if it reports this.
    pub(crate) left_over: Option<u64>,
    /// Further counters of the stack, for reports.
    pub(crate) notes: Vec<(String, u64)>,
}
