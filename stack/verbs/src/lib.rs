//! Registered memory, queue pairs and completion queues, in the words of libibverbs.
//!
//! A [`Device`] is what stands between an application and a stack whose program takes work on registered memory
//! ([`Stack::has_verbs`]). It is a machine: it has no clock and no socket, and whoever drives the stack hands it the
//! stack's notices.
//!
//! * `memory`: protection domains and memory regions
//! * `pair`: queue pairs, their states and the work that is posted to them
//! * `pieces`: work with several pieces of memory
//! * `datagram`: unreliable datagrams, which have no peer
//! * `completion`: what became of it
//! * `device`: all of one stack
//!
//! # Limits
//! A work request has up to [`MAX_PIECES`] pieces of memory (`max_sge` 16); a queue pair has at most 128 works and 256 receives posted; a
//! message has at most 2 GiB. While 16,384 completions of a queue wait to be polled, nothing more is posted that would be
//! reported there. Addresses of a region count from its first byte (`IBV_ACCESS_ZERO_BASED`).

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod completion;
mod datagram;
mod device;
mod memory;
mod pair;
mod pieces;

pub use completion::{CompletionQueue, Opcode, Status, WorkCompletion};
pub use datagram::{Datagrams, Destination};
pub use device::Device;
pub use hawser_engine::{MAX_PIECES, Region, Slice};
pub use memory::{Access, MemoryRegion, ProtectionDomain, Remote};
pub use pair::{Connection, MAX_INLINE, Operation, QueuePair, QueuePairConfig, QueuePairState, SendRequest};
pub use pieces::Slices;

#[cfg(doc)]
use hawser_engine::Stack;

/// Why a call of a verb failed. What fails later is a [`WorkCompletion`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbsError {
    /// The stack's program has no work on registered memory.
    #[error("the transport program takes no work on registered memory")]
    Unsupported,
    /// The queue pair is not in a state for it.
    #[error("a queue pair in the state {state} cannot {what}")]
    State {
        /// Its state.
        state: QueuePairState,
        /// What was asked for.
        what: &'static str,
    },
    /// There is no such queue pair or completion queue any more.
    #[error("there is no such {0} any more")]
    Gone(&'static str),
    /// A queue pair reports its work to the completion queue.
    #[error("a queue pair uses the completion queue: destroy the pair first")]
    InUse,
    /// As much is posted as there is room for, or as many completions wait as a queue takes.
    #[error("the queue is full: poll the completion queue")]
    Full,
    /// More bytes than the call takes.
    #[error("{len} bytes are more than the {limit} that {what} may have")]
    TooLong {
        /// Bytes given.
        len: u64,
        /// What there may be.
        limit: u64,
        /// What has them.
        what: &'static str,
    },
    /// Packets of a queue pair are longer than the link takes.
    #[error("packets with {payload} bytes of payload do not fit the device, whose MTU is {link} bytes")]
    Mtu {
        /// Payload bytes of a packet: [`Connection::mtu`].
        payload: u32,
        /// Bytes of the largest packet that the link takes.
        link: u32,
    },
    /// Nobody drives the stack any more, for this reason: nothing is sent and no work ends.
    #[error("the network has ended: {0}")]
    Ended(String),
    /// The stack refused it.
    #[error(transparent)]
    Stack(#[from] hawser_engine::RequestError),
}
