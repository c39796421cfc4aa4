//! What an event comes from, and what became of it.

use bytes::Bytes;
use hawser_ir::abi::{self, Addr, addr_parts};
use hawser_time::Instant;

use crate::front::{FRONT_BUFFER, RanChain};
use crate::state::{Errno, Flow, Handle, Slot};

/// The bytes that addresses of the running input refer to: a packet from its transport header on,
/// or the data of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Buffer<'a> {
    number: u32,
    pub(crate) head: &'a [u8],
    pub(crate) tail: &'a [u8],
    /// What an instruction on memory read last, under the number 0.
    read: &'a [u8],
    /// What `head` lies in, if that can be referred to.
    shared: Option<&'a Bytes>,
}

impl<'a> Buffer<'a> {
    /// A buffer for the running input, under a number that the one before, `last`, did not have.
    pub(crate) fn after(last: &mut u32, head: &'a [u8], tail: &'a [u8]) -> Buffer<'a> {
        // Numbers are below that of frames in front of the stack.
        *last = *last % (FRONT_BUFFER - 1) + 1;
        Buffer {
            number: *last,
            head,
            tail,
            ..Buffer::default()
        }
    }

    /// The same for bytes that can be referred to instead of copied.
    pub(crate) fn shared(last: &mut u32, bytes: &'a Bytes) -> Buffer<'a> {
        Buffer {
            shared: Some(bytes),
            ..Buffer::after(last, bytes, &[])
        }
    }

    /// A buffer for a frame whose chains ran in front of the stack.
    pub(crate) fn of_front(head: &'a [u8], tail: &'a [u8]) -> Buffer<'a> {
        Buffer {
            number: FRONT_BUFFER,
            head,
            tail,
            ..Buffer::default()
        }
    }

    /// A reference to some of its bytes, if they can be referred to.
    pub(crate) fn refer(&self, bytes: &[u8]) -> Option<Bytes> {
        let own = self.shared?.as_ptr_range();
        own.contains(&bytes.as_ptr())
            .then(|| self.shared.map(|shared| shared.slice_ref(bytes)))?
    }

    /// The same beside what was read: addresses of both hold.
    pub(crate) fn beside(self, read: &'a [u8]) -> Buffer<'a> {
        Buffer { read, ..self }
    }

    /// The address of what was read.
    pub(crate) fn read_addr() -> Addr {
        abi::addr(0, 0)
    }

    /// The address of its first byte.
    pub(crate) fn addr(&self) -> Addr {
        abi::addr(self.number, 0)
    }

    /// Bytes in it.
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Up to `len` bytes from an address on, in two pieces; fewer where the buffer ends or the
    /// address is another input's.
    #[inline]
    pub(crate) fn get(&self, addr: Addr, len: u64) -> [&'a [u8]; 2] {
        let Some((number, offset)) = addr_parts(addr) else {
            return [&[], &[]];
        };
        if number == 0 {
            let from = (offset as usize).min(self.read.len());
            let to = (from as u64).saturating_add(len).min(self.read.len() as u64) as usize;
            return [&self.read[from..to], &[]];
        }
        if number != self.number {
            return [&[], &[]];
        }
        let from = (offset as usize).min(self.len());
        let to = (from as u64).saturating_add(len).min(self.len() as u64) as usize;
        if self.tail.is_empty() {
            return [&self.head[from..to], &[]];
        }
        let split = self.head.len();
        [
            &self.head[from.min(split)..to.min(split)],
            &self.tail[from.max(split) - split..to.max(split) - split],
        ]
    }
}

/// Where an event comes from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cause<'a> {
    /// What its addresses refer to.
    pub(crate) buffer: Buffer<'a>,
    /// An application's request, which may be refused.
    pub(crate) application: bool,
    /// The request's handle.
    pub(crate) handle: Option<Handle>,
    /// The request's context, where the handle may be gone.
    pub(crate) slot: Option<Slot>,
    /// The addresses at both ends of what the application opens.
    pub(crate) flow: Option<Flow>,
    /// The request opens a listener beside others at the same address.
    pub(crate) shared: bool,
    /// What its chain gave when it ran in front of the stack.
    pub(crate) ran: Option<(Instant, &'a RanChain)>,
    /// It answers an instruction, and belongs to the chain that asked: it waits for nothing.
    pub(crate) answer: bool,
}

impl<'a> Cause<'a> {
    /// A request of an application.
    pub(crate) fn application(buffer: Buffer<'a>) -> Cause<'a> {
        Cause {
            buffer,
            application: true,
            ..Cause::default()
        }
    }

    /// A request whose caller gets the error.
    pub(crate) fn is_answered(&self) -> bool {
        self.application && self.slot.is_none()
    }
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The program refused the request.
    Refused(Errno),
    /// The chain's worst case is not free now.
    NoRoom,
    /// A limit is reached that only the end of something else can change.
    Limit(&'static str),
}

/// What became of an input's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No chain ran: there was no event, or no context for it.
    Nobody,
    /// Chains ran to their ends.
    Taken,
    /// A chain ended with `done`, and the input with it.
    Stopped,
}
