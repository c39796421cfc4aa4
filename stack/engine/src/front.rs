//! What the engine knows of a place in front of it where chains run while its driver sleeps.
//!
//! The stack lends its contexts ([`crate::Stack::lend`]) and takes them back ([`crate::Stack::take_back`]). In between they
//! are the front's alone: it may run the chain of an event that arrives, on what its ids lead to, as the stack would, and
//! keeps the frame with what the chain gave, unless nothing is left to do. When the stack has its contexts again, it
//! receives those frames like all others; where a chain ran, it carries out its records and does not run it again.

use hawser_ir::ContextId;
use hawser_ir::abi::{Id, Outcome};
use hawser_ir::buf::{RecordBuf, Regions};
use hawser_time::Instant;

/// The number of the buffer that addresses of packets refer to in front of the stack ([`hawser_ir::abi::addr`]).
pub const FRONT_BUFFER: u32 = u32::MAX - 1;

/// A context that is lent.
#[derive(Debug)]
pub struct Lent<'a> {
    /// Its number, by which it comes back: below the number of contexts that there ever were at a time.
    pub number: u32,
    /// Its type.
    pub kind: ContextId,
    /// Its ids: each leads to it alone.
    pub ids: &'a [Id],
    /// Itself.
    pub bytes: &'a [u8],
    /// How many bytes of packets it may receive.
    pub room: u64,
}

/// Within what limits chains may run.
#[derive(Debug)]
pub struct Terms<'a> {
    /// When the stack wants its contexts back, whatever comes; `None`: when something comes.
    pub until: Option<Instant>,
    /// How many chains may run: so many have room for what they may instruct at worst.
    pub chains: u64,
    /// How many bytes of packets may be received by all contexts.
    pub room: u64,
    /// Whether an id that leads to no context that was put leads to none at all.
    pub is_complete: bool,
    /// Whether a context can be made. Whoever makes one runs no other chain until it has been taken back.
    pub may_create: bool,
    /// The key under which SipHash-1-3 (Aumasson and Bernstein, 2012) of the bytes of an event's first id gives `ev.hash`,
    /// its lower half.
    pub key: (u64, u64),
    /// The program's params.
    pub params: &'a [u64],
    /// By type, the contexts that there are once for all.
    pub globals: &'a [Vec<u8>],
    /// The largest packet on a path, in bytes.
    pub mtu: u32,
    /// Of a program in UDP, the ports that applications hold, whose datagrams the first of its parsers takes where none is
    /// registered for the port itself: bit k of word n for port 64 n + k. Otherwise empty.
    pub ports: &'a [u64],
}

/// A place where chains run while the stack's driver sleeps.
pub trait Front {
    /// A context is new or has changed since it was lent last.
    fn put(&mut self, context: &Lent<'_>);

    /// A context has ended.
    fn remove(&mut self, number: u32);

    /// All that was put may be used from now on, until [`Front::close`].
    fn open(&mut self, terms: &Terms<'_>);

    /// Nothing is used from now on: shows the contexts that have changed, by their numbers, and gives the number of frames
    /// that the wire has for the stack with what chains did.
    fn close(&mut self, globals: &mut [Vec<u8>], changed: &mut dyn FnMut(u32, &[u8])) -> usize;
}

/// What chains did with the events of a frame, the first of them.
#[derive(Clone, Copy, Debug)]
pub struct Ran<'a> {
    /// When they ran: `ev.now`.
    pub at: Instant,
    /// What each gave, in order. Those of later events have not run.
    pub chains: &'a [RanChain],
    /// The scratchpad as they left it, for those of later events.
    pub scratch: &'a [u8],
}

/// What a chain gave. Of an event that finds no context where its chain runs only on one: nothing, and it is done.
#[derive(Clone, Debug)]
pub struct RanChain {
    /// How it ended.
    pub outcome: Outcome,
    /// What is still to be carried out.
    pub records: RecordBuf,
    /// The context that it made; empty where it could make none.
    pub fresh: Vec<u8>,
}

impl RanChain {
    /// Puts the context that it made where one that the stack runs makes it.
    pub(crate) fn give(&self, regions: &mut Regions<'_>) {
        let fresh = regions.fresh.as_mut();
        if let Some(fresh) = fresh.filter(|fresh| fresh.len() == self.fresh.len()) {
            fresh.copy_from_slice(&self.fresh);
        }
    }
}
