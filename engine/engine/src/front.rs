//! The interface to a front: a place ahead of the engine where chains run while the stack's driver sleeps.
//!
//! The stack lends its contexts to the front ([`crate::Stack::lend`]) and takes them back
//! ([`crate::Stack::take_back`]). In between, the front has exclusive use of them. It may run the chain of an
//! arriving event on the contexts that the event's ids resolve to, as the stack would. It keeps the frame
//! together with the chain's results, unless no work is left. When the stack has its contexts again, it
//! receives those frames like all others. If a chain has already run, the stack carries out its records and
//! does not run it again.

use hawser_ir::ContextId;
use hawser_ir::abi::{ChainOutcome, Id};
use hawser_ir::buf::{RecordBuf, Regions};
use hawser_time::Instant;

/// The buffer number in addresses of packets that a front sees ([`hawser_ir::abi::addr`]).
pub const FRONT_BUFFER: u32 = u32::MAX - 1;

/// A context lent to the front.
#[derive(Debug)]
pub struct Lent<'a> {
    /// The context's number, by which it is returned. It is below the highest number of contexts that ever
    /// existed at once.
    pub number: u32,
    /// The context's type.
    pub kind: ContextId,
    /// The context's ids; each resolves to this context alone.
    pub ids: &'a [Id],
    /// The context's memory.
    pub bytes: &'a [u8],
    /// The number of bytes of packets that the context may receive.
    pub room: u64,
}

/// The limits within which chains may run in the front.
#[derive(Debug)]
pub struct FrontLimits<'a> {
    /// The time at which the stack takes its contexts back unconditionally; `None` if it does so only when a
    /// packet arrives.
    pub until: Option<Instant>,
    /// The maximum number of chains to run: the worst case of this many chains has room.
    pub chains: u64,
    /// The number of bytes of packets that all contexts together may receive.
    pub room: u64,
    /// True if the front knows every context, so that an id it cannot resolve has no context at all.
    pub is_complete: bool,
    /// True if the front may create a context. After creating one it runs no other chain until the stack has
    /// taken its contexts back.
    pub may_create: bool,
    /// The key of `ev.hash`: the lower half of SipHash-1-3 (Aumasson and Bernstein, 2012) over the bytes of
    /// the event's first id.
    pub key: (u64, u64),
    /// The values of the program's params.
    pub params: &'a [u64],
    /// The `GLOBAL` contexts, by type.
    pub globals: &'a [Vec<u8>],
    /// The largest packet on any path, in bytes.
    pub mtu: u32,
    /// For a program over UDP, a bitmap of the ports that applications hold: bit k of word n stands for port
    /// 64 n + k. The program's first parser takes datagrams for such a port unless another parser is
    /// registered for that port. Empty for other programs.
    pub ports: &'a [u64],
}

/// A place where chains run while the stack's driver sleeps.
pub trait Front {
    /// Adds a new context, or updates one that has changed since it was last lent.
    fn put(&mut self, context: &Lent<'_>);

    /// Removes a context that has ended.
    fn remove(&mut self, number: u32);

    /// Allows the use of all contexts that were put, until [`Front::close`].
    fn open(&mut self, terms: &FrontLimits<'_>);

    /// Ends the use of the contexts. Calls `changed` with the number and memory of each context that has
    /// changed. Returns the number of frames with chain results that the wire holds for the stack.
    fn close(&mut self, globals: &mut [Vec<u8>], changed: &mut dyn FnMut(u32, &[u8])) -> usize;
}

/// The results of the chains that ran on the first events of a frame.
#[derive(Clone, Copy, Debug)]
pub struct FrontResults<'a> {
    /// The time at which the chains ran: `ev.now`.
    pub at: Instant,
    /// The result of each chain, in order. The chains of later events have not run.
    pub chains: &'a [RanChain],
    /// The scratchpad as these chains left it, for the chains of later events.
    pub scratch: &'a [u8],
}

/// The result of one chain. For an event without a context, whose chain runs only on one, the result is empty
/// and the event is done.
#[derive(Clone, Debug)]
pub struct RanChain {
    /// The outcome of the chain.
    pub outcome: ChainOutcome,
    /// The records that are still to be carried out.
    pub records: RecordBuf,
    /// The memory of the context that the chain created; empty if it could not create one.
    pub fresh: Vec<u8>,
}

impl RanChain {
    /// Copies the created context to the place where a chain that the stack runs would create it.
    pub(crate) fn give(&self, regions: &mut Regions<'_>) {
        let fresh = regions.fresh.as_mut();
        if let Some(fresh) = fresh.filter(|fresh| fresh.len() == self.fresh.len()) {
            fresh.copy_from_slice(&self.fresh);
        }
    }
}
