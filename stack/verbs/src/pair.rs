//! Queue pairs: their states, and the work that is posted to them.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use hawser_engine::{Handle, Slice, WorkRequest};
use hawser_ir::abi;

use crate::completion::CompletionQueue;
use crate::datagram::Destination;
use crate::memory::{Access, MemoryRegion, ProtectionDomain, Remote};
use crate::pieces::{Lists, Slices};

/// The bytes that [`SendRequest::inline`] takes at most.
pub const MAX_INLINE: usize = 256;

/// One end of a connection, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueuePair(pub(crate) u32);

impl QueuePair {
    /// Its number, which its peer has to know.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0
    }
}

/// What a queue pair is made of: `ibv_qp_init_attr`.
#[derive(Clone, Copy, Debug)]
pub struct QueuePairConfig {
    /// Whose memory it uses.
    pub domain: ProtectionDomain,
    /// Where its sends, writes, reads and atomic operations are reported.
    pub send_queue: CompletionQueue,
    /// Where its receives are reported.
    pub receive_queue: CompletionQueue,
    /// All work is reported when it is done; otherwise only what asks for it ([`SendRequest::signaled`]), and failures.
    pub signal_all: bool,
}

/// Where a queue pair is in its life (IBA, 10.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueuePairState {
    /// It was made.
    Reset,
    /// Memory may be posted for messages.
    Init,
    /// It answers its peer.
    ReadyToReceive,
    /// It may send, too.
    ReadyToSend,
    /// A datagram could not be sent, and nothing is sent behind it; datagrams still arrive.
    SendQueueError,
    /// It does nothing any more.
    Error,
}

impl fmt::Display for QueuePairState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QueuePairState::Reset => "RESET",
            QueuePairState::Init => "INIT",
            QueuePairState::ReadyToReceive => "RTR",
            QueuePairState::ReadyToSend => "RTS",
            QueuePairState::SendQueueError => "SQE",
            QueuePairState::Error => "ERR",
        })
    }
}

/// What a queue pair has to know of its peer, and how patient it is: `ibv_qp_attr`.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// The peer's address.
    pub remote: IpAddr,
    /// The peer's queue pair.
    pub pair: u32,
    /// The number of the first packet that comes (24 bits): the peer's `first_packet`.
    pub expected_packet: u32,
    /// The number of the first packet that is sent (24 bits): any.
    pub first_packet: u32,
    /// Payload bytes of a packet, a power of two from 256 to 4096, alike at both ends.
    pub mtu: u32,
    /// What the peer may do with memory of the domain.
    pub access: Access,
    /// How long until what is not acknowledged goes again; zero: never.
    pub timeout: Duration,
    /// How often it does so; 0 to 7.
    pub retries: u8,
    /// How often a peer without memory for a message is asked again; 0 to 6, 7: without end.
    pub rnr_retries: u8,
    /// How long the peer is to wait before that: a code of the InfiniBand architecture (9.7.5.2.8), 0 to 31; 12 is
    /// 0.64 ms.
    pub rnr_timer: u8,
    /// How many requests to read and atomic operations may be under way; 1 to 16.
    pub reads: u8,
}

impl Connection {
    /// With a peer whose packets begin at 0, as this end's do; 1024 bytes in each packet; nothing is allowed to it.
    #[must_use]
    pub fn new(remote: IpAddr, pair: u32) -> Connection {
        Connection {
            remote,
            pair,
            expected_packet: 0,
            first_packet: 0,
            mtu: 1024,
            access: Access::NONE,
            timeout: Duration::from_millis(67),
            retries: 7,
            rnr_retries: 7,
            rnr_timer: 12,
            reads: 16,
        }
    }

    /// The program's options before the pair answers its peer.
    pub(crate) fn receiving(&self) -> [(u32, u64); 6] {
        [
            (abi::OPT_PAIR_ACCESS, self.access.0.into()),
            (abi::OPT_PAIR_PEER, self.pair.into()),
            (abi::OPT_PAIR_EXPECTED, self.expected_packet.into()),
            (abi::OPT_PAIR_MTU, self.mtu.into()),
            (abi::OPT_PAIR_RNR_TIMER, self.rnr_timer.into()),
            (abi::OPT_PAIR_READS, self.reads.into()),
        ]
    }

    /// Those before the pair sends.
    pub(crate) fn sending(&self) -> [(u32, u64); 4] {
        [
            (abi::OPT_PAIR_TIMEOUT, hawser_time::nanos(self.timeout)),
            (abi::OPT_PAIR_RETRIES, self.retries.into()),
            (abi::OPT_PAIR_RNR_RETRIES, self.rnr_retries.into()),
            (abi::OPT_PAIR_FIRST, self.first_packet.into()),
        ]
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A message into the memory that the peer has posted.
    Send,
    /// The same, after which a key of the peer opens nothing any more.
    SendInvalidate(u32),
    /// A message of one packet to a queue pair for datagrams, which arrives or not. It is done as soon as it has left.
    Datagram {
        /// Where to.
        to: Destination,
        /// The key of that queue pair, below 2^31; from there on, the sender's own key is meant (IBA, 10.2.5).
        key: u32,
    },
    /// Bytes into the peer's memory.
    Write(Remote),
    /// Bytes from the peer's memory.
    Read(Remote),
    /// Eight bytes of the peer become `swap` if they are `compare`.
    CompareSwap {
        /// Where; a multiple of 8.
        remote: Remote,
        /// What they have to be.
        compare: u64,
        /// What they become.
        swap: u64,
    },
    /// A number is added to eight bytes of the peer.
    FetchAdd {
        /// Where; a multiple of 8.
        remote: Remote,
        /// The number.
        add: u64,
    },
}

/// Work that is posted to the send queue: `ibv_send_wr`.
#[derive(Clone, Debug)]
pub struct SendRequest {
    pub(crate) id: u64,
    pub(crate) operation: Operation,
    pub(crate) local: Slices,
    pub(crate) inline: Option<Vec<u8>>,
    pub(crate) flags: u32,
    pub(crate) immediate: u32,
}

impl SendRequest {
    /// Work with the bytes of `local`: those are sent, or are where what is read or found there comes to.
    #[must_use]
    pub fn new(id: u64, operation: Operation, local: impl Into<Slices>) -> SendRequest {
        SendRequest {
            id,
            operation,
            local: local.into(),
            inline: None,
            flags: 0,
            immediate: 0,
        }
    }

    /// A message or write of bytes that are copied at once, at most [`MAX_INLINE`].
    #[must_use]
    pub fn inline(id: u64, operation: Operation, bytes: &[u8]) -> SendRequest {
        SendRequest {
            inline: Some(bytes.to_vec()),
            ..SendRequest::new(id, operation, Slice::default())
        }
    }

    /// It is reported when it is done.
    #[must_use]
    pub fn signaled(mut self) -> SendRequest {
        self.flags |= abi::WORK_SIGNALED;
        self
    }

    /// The peer's application gets an event.
    #[must_use]
    pub fn solicited(mut self) -> SendRequest {
        self.flags |= abi::WORK_SOLICITED;
        self
    }

    /// It begins when the reads and atomic operations before it are done.
    #[must_use]
    pub fn fenced(mut self) -> SendRequest {
        self.flags |= abi::WORK_FENCE;
        self
    }

    /// Four bytes more for the peer's application, of a message or a write.
    #[must_use]
    pub fn immediate(mut self, value: u32) -> SendRequest {
        self.flags |= abi::WORK_IMMEDIATE;
        self.immediate = value;
        self
    }

    /// As the stack takes it, with its bytes in `local`.
    pub(crate) fn work(&self, local: Slice) -> WorkRequest {
        let remote = |remote: Remote| (remote.key, remote.at);
        let to = match self.operation {
            Operation::Datagram { to, .. } => Some((to.host, to.pair)),
            _ => None,
        };
        let (code, flags, remote, value, swap) = match self.operation {
            Operation::Send => (abi::WORK_SEND, 0, (0, 0), self.immediate.into(), 0),
            Operation::SendInvalidate(key) => (abi::WORK_SEND, abi::WORK_INVALIDATE, (0, 0), key.into(), 0),
            Operation::Datagram { key, .. } => (abi::WORK_DATAGRAM, 0, (key, 0), self.immediate.into(), 0),
            Operation::Write(at) => (abi::WORK_WRITE, 0, remote(at), self.immediate.into(), 0),
            Operation::Read(at) => (abi::WORK_READ, 0, remote(at), 0, 0),
            Operation::CompareSwap { remote: at, compare, swap } => {
                (abi::WORK_COMPARE_SWAP, 0, remote(at), compare, swap)
            }
            Operation::FetchAdd { remote: at, add } => (abi::WORK_FETCH_ADD, 0, remote(at), add, 0),
        };
        WorkRequest {
            id: self.id,
            code,
            flags: self.flags | flags,
            len: local.len,
            local: (local.key, local.at),
            remote,
            to,
            value,
            swap,
        }
    }
}

/// What a device keeps of a queue pair.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) config: QueuePairConfig,
    pub(crate) state: QueuePairState,
    pub(crate) handle: Option<Handle>,
    /// The program's options before it sends.
    pub(crate) sending: Vec<(u32, u64)>,
    /// Where the datagram came from of which the next notice tells.
    pub(crate) source: Option<Destination>,
    /// The lists of pieces of work that is sent, and of receives.
    pub(crate) sends: Lists,
    pub(crate) receives: Lists,
    /// Receives that were posted before it answers its peer.
    pub(crate) early: Vec<WorkRequest>,
    /// Room for bytes that are sent inline, made with the first.
    pub(crate) inline: Option<MemoryRegion>,
    /// How many were posted with such bytes.
    pub(crate) inlined: u64,
}
