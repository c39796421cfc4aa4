//! Queue pairs: their states, and the work posted to them.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::{Handle, Slice, WorkRequest};
use hawser_ir::abi;

use crate::verbs::completion::CompletionQueue;
use crate::verbs::datagram::Destination;
use crate::verbs::memory::{Access, MemoryRegion, ProtectionDomain, Remote};
use crate::verbs::pieces::{Lists, Slices};

/// The maximum number of bytes that [`SendRequest::inline`] accepts.
pub const MAX_INLINE: usize = 256;

/// A queue pair: one end of a connection, identified by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueuePair(pub(crate) u32);

impl QueuePair {
    /// Returns the number, which the peer has to know.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0
    }
}

/// The parameters for creating a queue pair: `ibv_qp_init_attr`.
#[derive(Clone, Copy, Debug)]
pub struct QueuePairConfig {
    /// The domain of the memory that it uses.
    pub domain: ProtectionDomain,
    /// The queue to which its sends, writes, reads and atomic operations are reported.
    pub send_queue: CompletionQueue,
    /// The queue to which its receives are reported.
    pub receive_queue: CompletionQueue,
    /// True if all completed work is reported; otherwise only requested completions
    /// ([`SendRequest::signaled`]) and failures are.
    pub signal_all: bool,
}

/// The state of a queue pair (IBA, 10.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueuePairState {
    /// It has been created.
    Reset,
    /// Memory may be posted for messages.
    Init,
    /// It answers its peer.
    ReadyToReceive,
    /// It may send, too.
    ReadyToSend,
    /// A datagram could not be sent, and no further ones are sent; datagrams still arrive.
    SendQueueError,
    /// It has failed and does no more work.
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

/// The attributes of a queue pair's connection: its peer, timeouts and retries (`ibv_qp_attr`).
#[derive(Clone, Copy, Debug)]
pub struct ConnectionAttributes {
    /// The peer's address.
    pub remote: IpAddr,
    /// The number of the peer's queue pair.
    pub pair: u32,
    /// The number of the first packet received (24 bits): the peer's `first_packet`.
    pub expected_packet: u32,
    /// The number of the first packet sent (24 bits); any value will do.
    pub first_packet: u32,
    /// The number of payload bytes of a packet, a power of two from 256 to 4096, the same at both ends.
    pub mtu: u32,
    /// The peer's rights to memory of the domain.
    pub access: Access,
    /// The time after which unacknowledged packets are sent again; zero means never.
    pub timeout: Duration,
    /// The number of retransmissions, 0 to 7.
    pub retries: u8,
    /// The number of retries if the peer has no memory for a message, 0 to 6; 7 means without end.
    pub rnr_retries: u8,
    /// The time that the peer is to wait before such a retry. It is a code of the InfiniBand architecture
    /// (9.7.5.2.8), 0 to 31; 12 is 0.64 ms.
    pub rnr_timer: u8,
    /// The maximum number of read requests and atomic operations in flight, 1 to 16.
    pub reads: u8,
}

impl ConnectionAttributes {
    /// Creates a connection to a peer. The packet numbers of both ends begin at 0, each packet has 1024
    /// bytes, and the peer has no rights.
    #[must_use]
    pub fn new(remote: IpAddr, pair: u32) -> ConnectionAttributes {
        ConnectionAttributes {
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

    /// Returns the program's options to set before the pair answers its peer.
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

    /// Returns the program's options to set before the pair sends.
    pub(crate) fn sending(&self) -> [(u32, u64); 4] {
        [
            (abi::OPT_PAIR_TIMEOUT, hawser_time::nanos(self.timeout)),
            (abi::OPT_PAIR_RETRIES, self.retries.into()),
            (abi::OPT_PAIR_RNR_RETRIES, self.rnr_retries.into()),
            (abi::OPT_PAIR_FIRST, self.first_packet.into()),
        ]
    }
}

/// The operation of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkOperation {
    /// Sends a message into the memory that the peer has posted.
    Send,
    /// Sends a message, after which a key of the peer is invalid.
    SendInvalidate(u32),
    /// Sends an unreliable message of one packet to a queue pair for datagrams. The work is done as soon as
    /// the packet has left.
    Datagram {
        /// The destination.
        to: Destination,
        /// The key of the destination's queue pair, below 2^31. A greater value stands for the sender's own
        /// key (IBA, 10.2.5).
        key: u32,
    },
    /// Writes bytes into the peer's memory.
    Write(Remote),
    /// Reads bytes from the peer's memory.
    Read(Remote),
    /// Replaces eight bytes of the peer by `swap` if they are equal to `compare`.
    CompareSwap {
        /// The address; a multiple of 8.
        remote: Remote,
        /// The expected value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// Adds a number to eight bytes of the peer.
    FetchAdd {
        /// The address; a multiple of 8.
        remote: Remote,
        /// The number to add.
        add: u64,
    },
}

/// Work for the send queue: `ibv_send_wr`.
#[derive(Clone, Debug)]
pub struct SendRequest {
    pub(crate) id: u64,
    pub(crate) operation: WorkOperation,
    pub(crate) local: Slices,
    pub(crate) inline: Option<Vec<u8>>,
    pub(crate) flags: u32,
    pub(crate) immediate: u32,
}

impl SendRequest {
    /// Creates work with the memory `local`: the bytes to send, or the place for the bytes that are read or
    /// found.
    #[must_use]
    pub fn new(id: u64, operation: WorkOperation, local: impl Into<Slices>) -> SendRequest {
        SendRequest {
            id,
            operation,
            local: local.into(),
            inline: None,
            flags: 0,
            immediate: 0,
        }
    }

    /// Creates a message or write of bytes that are copied at once, at most [`MAX_INLINE`].
    #[must_use]
    pub fn inline(id: u64, operation: WorkOperation, bytes: &[u8]) -> SendRequest {
        SendRequest {
            inline: Some(bytes.to_vec()),
            ..SendRequest::new(id, operation, Slice::default())
        }
    }

    /// Requests a completion when the work is done.
    #[must_use]
    pub fn signaled(mut self) -> SendRequest {
        self.flags |= abi::WORK_SIGNALED;
        self
    }

    /// Requests an event for the peer's application.
    #[must_use]
    pub fn solicited(mut self) -> SendRequest {
        self.flags |= abi::WORK_SOLICITED;
        self
    }

    /// Delays the work until the reads and atomic operations before it are done.
    #[must_use]
    pub fn fenced(mut self) -> SendRequest {
        self.flags |= abi::WORK_FENCE;
        self
    }

    /// Adds four bytes of immediate data for the peer's application to a message or write.
    #[must_use]
    pub fn immediate(mut self, value: u32) -> SendRequest {
        self.flags |= abi::WORK_IMMEDIATE;
        self.immediate = value;
        self
    }

    /// Converts to the stack's form, with the bytes in `local`.
    pub(crate) fn work(&self, local: Slice) -> WorkRequest {
        let remote = |remote: Remote| (remote.key, remote.at);
        let to = match self.operation {
            WorkOperation::Datagram { to, .. } => Some((to.host, to.pair)),
            _ => None,
        };
        let (code, flags, remote, value, swap) = match self.operation {
            WorkOperation::Send => (abi::WORK_SEND, 0, (0, 0), self.immediate.into(), 0),
            WorkOperation::SendInvalidate(key) => {
                (abi::WORK_SEND, abi::WORK_INVALIDATE, (0, 0), key.into(), 0)
            }
            WorkOperation::Datagram { key, .. } => {
                (abi::WORK_DATAGRAM, 0, (key, 0), self.immediate.into(), 0)
            }
            WorkOperation::Write(at) => (abi::WORK_WRITE, 0, remote(at), self.immediate.into(), 0),
            WorkOperation::Read(at) => (abi::WORK_READ, 0, remote(at), 0, 0),
            WorkOperation::CompareSwap { remote: at, compare, swap } => {
                (abi::WORK_COMPARE_SWAP, 0, remote(at), compare, swap)
            }
            WorkOperation::FetchAdd { remote: at, add } => (abi::WORK_FETCH_ADD, 0, remote(at), add, 0),
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

/// The device's state of a queue pair.
#[derive(Debug)]
pub(crate) struct DeviceQueuePair {
    pub(crate) config: QueuePairConfig,
    pub(crate) state: QueuePairState,
    pub(crate) handle: Option<Handle>,
    /// The program's options to set before it sends.
    pub(crate) sending: Vec<(u32, u64)>,
    /// The source of the datagram that the next notice reports.
    pub(crate) source: Option<Destination>,
    /// The lists of pieces for sends; `receives` has those for receives.
    pub(crate) sends: Lists,
    pub(crate) receives: Lists,
    /// The receives that were posted before the pair answers its peer.
    pub(crate) early: Vec<WorkRequest>,
    /// Memory for bytes that are sent inline, allocated with the first of them.
    pub(crate) inline: Option<MemoryRegion>,
    /// The number of inline work requests posted.
    pub(crate) inlined: u64,
}
