//! Registered memory, queue pairs and completion queues, in the terms of libibverbs.
//!
//! A [`Device`] connects an application with a stack whose program accepts work on registered memory
//! ([`Stack::has_verbs`]). It is a machine without a clock or a socket. The driver of the stack passes the
//! stack's notices to it.
//!
//! * `memory`: protection domains and memory regions
//! * `pair`: queue pairs, their states and the work posted to them
//! * `pieces`: work with several pieces of memory
//! * `datagram`: unreliable datagrams, which have no peer
//! * `completion`: the results of work
//! * `device`: the device of one stack
//!
//! # Limits
//! A work request has up to [`MAX_PIECES`] pieces of memory (`max_sge` 16). A queue pair has at most 128 work
//! requests and 256 receives posted. A message has at most 2 GiB. While 16,384 completions of a queue wait to
//! be polled, no more work that would be reported there is accepted. Addresses of a region count from its
//! first byte (`IBV_ACCESS_ZERO_BASED`).

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod completion;
mod datagram;
mod device;
mod memory;
mod pair;
mod pieces;

pub use crate::{MAX_PIECES, Region, Slice};
pub use completion::{CompletionQueue, Opcode, Status, WorkCompletion};
pub use datagram::{Datagrams, Destination};
pub use device::Device;
pub use memory::{Access, MemoryRegion, ProtectionDomain, Remote};
pub use pair::{
    ConnectionAttributes, MAX_INLINE, QueuePair, QueuePairConfig, QueuePairState, SendRequest, WorkOperation,
};
pub use pieces::Slices;

#[cfg(doc)]
use crate::Stack;

/// A call of a verb failed. A later failure is reported as a [`WorkCompletion`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbsError {
    /// The stack's program does not accept work on registered memory.
    #[error("the transport program does not support work on registered memory")]
    Unsupported,
    /// The queue pair is in the wrong state for the call.
    #[error("a queue pair in the state {state} cannot {what}")]
    State {
        /// The state of the queue pair.
        state: QueuePairState,
        /// The requested action.
        what: &'static str,
    },
    /// The queue pair or completion queue does not exist any more.
    #[error("the {0} no longer exists")]
    Gone(&'static str),
    /// The completion queue is still in use by a queue pair.
    #[error("a queue pair uses the completion queue: destroy the pair first")]
    InUse,
    /// The maximum amount of work is posted, or the maximum number of completions is waiting.
    #[error("the queue is full: poll the completion queue")]
    Full,
    /// The call was given more bytes than it accepts.
    #[error("{len} bytes exceed the limit of {limit} for {what}")]
    TooLong {
        /// The number of bytes given.
        len: u64,
        /// The maximum number of bytes.
        limit: u64,
        /// The object that the maximum applies to.
        what: &'static str,
    },
    /// The packets of a queue pair are longer than the link takes.
    #[error("packets with {payload} bytes of payload do not fit the device, whose MTU is {link} bytes")]
    Mtu {
        /// The number of payload bytes of a packet: [`ConnectionAttributes::mtu`].
        payload: u32,
        /// The largest packet that the link takes, in bytes.
        link: u32,
    },
    /// The stack is not driven any more, for this reason: no packet is sent and no work ends.
    #[error("the network has ended: {0}")]
    Ended(String),
    /// The stack refused the request.
    #[error(transparent)]
    Stack(#[from] crate::RequestError),
}
