//! All that outlives a call, each with its bound.
//!
//! * `slot`, `flow`: names of table entries, and the ends of connections
//! * `contexts`: the program's memory, found by ids; `paged`: their table
//! * `handles`: what applications hold, and the notices to them
//! * `timers`, `packets`, `raised`, `ports`: what waits for its time, for the wire, for its chain; ports in use
//! * `regions`: memory that applications share with it, by key
//! * `memory`: how much of the shared memory one context may hold
//! * `lifecycle`: what concerns several of them at once: notices about contexts, deferred requests, a
//!   context's end
//!
//! [`State`] is plain data: nothing here runs a program or touches a frame.

mod contexts;
mod flow;
mod handles;
mod lifecycle;
mod memory;
mod packets;
mod paged;
mod ports;
mod raised;
mod regions;
mod slot;
mod timers;

use std::collections::{BTreeMap, VecDeque};

pub(crate) use contexts::{Contexts, GivenUp, Guess};
pub(crate) use flow::{ANYBODY, End, Flow};
pub(crate) use handles::Handles;
pub use handles::{Errno, Handle, Notice};
pub(crate) use packets::{Packets, Pending, SharedHeader};
pub(crate) use ports::{Ports, Taken};
pub(crate) use raised::Raised;
pub use raised::{ForwardTo, ForwardedEvent};
pub use regions::{MAX_PIECES, Region, Slice};
pub(crate) use regions::{Part, Regions, Span};
pub(crate) use slot::Slot;
pub(crate) use timers::{Owner, Timers};

use crate::config::Limits;
use crate::counters::Counters;
use crate::data::{ChunkPool, PagePool};

/// What a stack knows of its connections.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    pub(crate) contexts: Contexts,
    pub(crate) handles: Handles,
    pub(crate) ports: Ports,
    pub(crate) timers: Timers,
    pub(crate) packets: Packets,
    pub(crate) raised: Raised,
    /// Memory that applications have registered.
    pub(crate) regions: Regions,
    /// Memory of ordered data.
    pub(crate) chunks: ChunkPool,
    pub(crate) pages: PagePool,
    /// Bytes accepted for sending and not retired, in all.
    pub(crate) tx_held: u64,
    /// Bytes of memory for received data, in all.
    pub(crate) rx_held: u64,
    /// The program wants to know what its applications have taken.
    pub(crate) reports_taken: bool,
    /// Contexts with requests that the program has not received.
    pub(crate) deferred: VecDeque<Slot>,
    /// Contexts whose applications wait until packets have left.
    pub(crate) blocked: Vec<Slot>,
    /// Contexts whose applications wait because the program put their request off, and how many chains
    /// had run to their ends by then.
    pub(crate) put_off: Vec<(Slot, u64)>,
    /// What applications give up and their programs have not received, by the context's place. Few ever do, so that it
    /// takes no room in each context.
    pub(crate) given_up: BTreeMap<u32, GivenUp>,
}
