//! All state that outlives a call, each part with its bound.
//!
//! * `slot`, `flow`: names of table entries, and the ends of connections
//! * `contexts`: the program's memory, found by ids; `paged`: their table
//! * `handles`: the applications' handles, and the notices to them
//! * `timers`, `packets`, `raised_events`, `ports`: work that waits for its time, for the wire, for its chain;
//!   ports in use
//! * `regions`: memory that applications share with the stack, by key
//! * `memory`: the share of the common memory that one context may hold
//! * `lifecycle`: operations on several of them at once: notices about contexts, deferred requests, a
//!   context's end
//!
//! [`StackState`] is plain data: this module neither runs a program nor touches a frame.

mod contexts;
mod flow;
mod handles;
mod lifecycle;
mod memory;
mod packets;
mod paged;
mod ports;
mod raised_events;
mod regions;
mod slot;
mod timers;

use std::collections::{BTreeMap, VecDeque};

pub(crate) use contexts::{Contexts, GivenUp, Guess};
pub(crate) use flow::{ANYBODY, FlowEnd, FlowKey};
pub(crate) use handles::Handles;
pub use handles::{Errno, Handle, Notice};
pub(crate) use packets::{Packets, PendingInstruction, SharedHeader};
pub(crate) use ports::{PortClaim, Ports};
pub(crate) use raised_events::Raised;
pub use raised_events::{ForwardTo, ForwardedEvent};
pub use regions::{MAX_PIECES, Region, Slice};
pub(crate) use regions::{MemorySpan, RegionPart, Regions};
pub(crate) use slot::Slot;
pub(crate) use timers::{TimerOwner, Timers};

use crate::config::StackLimits;
use crate::counters::StackCounters;
use crate::data::{ChunkPool, PagePool};

/// The state of a stack's connections.
#[derive(Debug)]
pub(crate) struct StackState {
    pub(crate) limits: StackLimits,
    pub(crate) counters: StackCounters,
    pub(crate) contexts: Contexts,
    pub(crate) handles: Handles,
    pub(crate) ports: Ports,
    pub(crate) timers: Timers,
    pub(crate) packets: Packets,
    pub(crate) raised: Raised,
    /// Memory that applications have registered.
    pub(crate) regions: Regions,
    /// The memory of ordered data.
    pub(crate) chunks: ChunkPool,
    pub(crate) pages: PagePool,
    /// The total number of bytes accepted for sending and not retired.
    pub(crate) tx_held: u64,
    /// The total memory for received data, in bytes.
    pub(crate) rx_held: u64,
    /// True if the program wants to know how much its applications have read.
    pub(crate) reports_taken: bool,
    /// The contexts with requests that the program has not received.
    pub(crate) deferred: VecDeque<Slot>,
    /// The contexts whose applications wait until packets have left.
    pub(crate) blocked: Vec<Slot>,
    /// The contexts whose applications wait because the program put off their request, with the number of
    /// chains that had run to their ends by then.
    pub(crate) put_off: Vec<(Slot, u64)>,
    /// The stream directions that applications give up and that their programs have not received yet, by the
    /// context's slot index. They are rare, so they take no memory in each context.
    pub(crate) given_up: BTreeMap<u32, GivenUp>,
}
