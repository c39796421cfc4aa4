//! What a side is to do, and what it has measured: plain values that cross between processes as JSON.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A side's orders.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// Which stack.
    pub(crate) stack: StackKind,
    /// The stack's own address and its prefix length.
    pub(crate) address: (IpAddr, u8),
    /// The core to stay on.
    pub(crate) core: Option<usize>,
    /// Sleep while there is nothing to do; otherwise ask again and again.
    pub(crate) sleeps: bool,
    /// What the application does.
    pub(crate) work: Work,
    /// The side ends itself after so many seconds, come what may.
    pub(crate) timeout_s: u64,
}

/// Which stack a side runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum StackKind {
    /// The kernel's own TCP, cubic.
    Linux,
    /// Ours.
    Hawser {
        /// `tun:NAME`, `packet:NAME`, `xdp:NAME`, `dpdk:DEVICE` or `udp:ADDRESS:PORT`.
        device: String,
        /// The kernel's address at the other end of a TUN device.
        kernel: Option<(IpAddr, u8)>,
        /// The program's name.
        program: String,
        /// What runs it.
        engine: String,
        /// The program's params: `MSL=5ms`.
        params: Vec<String>,
        /// Stacks beside each other on queues of the device, each in a thread of its own.
        shards: u16,
        /// What the application writes is referred to, not copied.
        by_reference: bool,
    },
    /// quinn on a UDP socket.
    Quinn,
    /// smoltcp.
    Smoltcp {
        /// `tap:NAME`, or `dpdk:DEVICE` as for ours.
        device: String,
        /// The kernel's address at the other end of a TAP device.
        kernel: Option<(IpAddr, u8)>,
    },
    /// gVisor's on a packet socket: a program of its own.
    Gvisor {
        /// The program.
        program: PathBuf,
        /// The interface's name.
        device: String,
    },
    /// None: a bare loop over a port of DPDK.
    Bare {
        /// The port's device.
        device: String,
        /// What it does.
        work: BareWork,
    },
}

/// What a bare loop does with a frame beside its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BareWork {
    /// Nothing: payload is counted alone.
    Headers,
    /// It copies payload from the application's memory, and to it.
    Copies,
    /// It makes their Internet checksums as well.
    Sums,
}

/// What the application does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Connects and sends for some time.
    Send(Bulk),
    /// Accepts one connection and receives until its end.
    Receive(Bulk),
    /// Connects and asks, question by question.
    Ping(Echo),
    /// Accepts one connection and answers.
    Pong(Echo),
    /// Opens connections, exchanges a byte on each, closes them.
    Connect(Many),
    /// Accepts connections and answers the byte on each.
    Serve(Many),
    /// Opens connections that stay, and asks on some at a time.
    Ask(Standing),
    /// Accepts such connections and answers.
    Answer(Standing),
}

impl Work {
    /// The ports that the side listens on.
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

    /// Connections that bulk transfer has at the same time.
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
    /// Where the receiver listens.
    pub(crate) peer: SocketAddr,
    /// Seconds at the start that do not count.
    pub(crate) warm_up_s: f64,
    /// Seconds that count.
    pub(crate) seconds: f64,
    /// The receiver compares every byte with what was sent.
    pub(crate) verify: bool,
    /// Bytes of one write: `CHUNK`, or fewer.
    pub(crate) write: usize,
    /// Connections at the same time, which all stacks of a side share out.
    pub(crate) flows: u32,
}

/// Questions and answers of the same size, one at a time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Echo {
    /// Where the answering side listens.
    pub(crate) peer: SocketAddr,
    /// Round trips at the start that do not count.
    pub(crate) warm_up: u32,
    /// Round trips that count.
    pub(crate) rounds: u32,
    /// Bytes each way.
    pub(crate) size: usize,
}

/// Many short connections.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Many {
    /// Where the server listens.
    pub(crate) peer: SocketAddr,
    /// How many in all.
    pub(crate) connections: u32,
    /// How many at the same time.
    pub(crate) at_once: u32,
}

/// Connections that stay open, and requests on some of them at a time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Standing {
    /// Where the server listens: there, and at the ports that follow.
    pub(crate) peer: SocketAddr,
    /// How many ports: a client has no more connections to one than it has ports itself.
    pub(crate) ports: u16,
    /// How many connections.
    pub(crate) connections: u32,
    /// Requests under way at the same time.
    pub(crate) at_once: u32,
    /// Seconds at the start that do not count.
    pub(crate) warm_up_s: f64,
    /// Seconds that count.
    pub(crate) seconds: f64,
    /// Bytes of a request.
    pub(crate) request: usize,
    /// Bytes of an answer.
    pub(crate) answer: usize,
}

impl Standing {
    /// The ports that the server listens on.
    pub(crate) fn ports(&self) -> impl Iterator<Item = u16> + Clone {
        (0..self.ports).map(|n| self.peer.port() + n)
    }
}

/// What a side has measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Measured {
    /// Bytes sent or received in all.
    pub(crate) bytes: u64,
    /// Bytes within the time that counts.
    pub(crate) counted_bytes: u64,
    /// The time that counts, as this side's clock has it.
    pub(crate) seconds: f64,
    /// Processor seconds in user space during that time.
    pub(crate) user_s: f64,
    /// Processor seconds in the kernel during that time.
    pub(crate) system_s: f64,
    /// Round trips in nanoseconds, in order of size.
    pub(crate) round_trips_ns: Vec<u64>,
    /// Connections that were opened, used and closed.
    pub(crate) connections: u64,
    /// Requests that were answered.
    pub(crate) requests: u64,
    /// Bytes that the process has allocated for its connections.
    pub(crate) memory: u64,
    /// Connections that the stack still holds at the end, where it says.
    pub(crate) left_over: Option<u64>,
    /// What the stack says of itself, for reports.
    pub(crate) notes: Vec<(String, u64)>,
}
