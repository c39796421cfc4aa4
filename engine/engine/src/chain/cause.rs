//! The cause of an event, and its outcome.

use bytes::Bytes;
use hawser_ir::abi::{self, Addr, addr_parts};
use hawser_time::Instant;

use crate::front::{FRONT_BUFFER, RanChain};
use crate::state::{Errno, FlowKey, Handle, Slot};

/// The bytes that addresses of the running input refer to: a packet from its transport header on, or the data
/// of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Buffer<'a> {
    number: u32,
    pub(crate) head: &'a [u8],
    pub(crate) tail: &'a [u8],
    /// The payload of packets that were merged with the packet, behind `head` and `tail`; each piece is where
    /// it was received.
    pub(crate) merged: &'a [&'a [u8]],
    /// The number of bytes in `merged`.
    pub(crate) merged_len: usize,
    /// The bytes that an instruction on memory read last, under buffer number 0.
    read: &'a [u8],
    /// The shared memory that contains `head`, if it can be referenced.
    shared: Option<&'a Bytes>,
}

impl<'a> Buffer<'a> {
    /// Returns a buffer for the running input, under a number that differs from that of the previous buffer,
    /// `last`.
    pub(crate) fn after(last: &mut u32, head: &'a [u8], tail: &'a [u8]) -> Buffer<'a> {
        // The numbers stay below that of frames in front of the stack.
        *last = *last % (FRONT_BUFFER - 1) + 1;
        Buffer { number: *last, head, tail, ..Buffer::default() }
    }

    /// Returns a buffer for bytes that can be referenced instead of copied.
    pub(crate) fn shared(last: &mut u32, bytes: &'a Bytes) -> Buffer<'a> {
        Buffer { shared: Some(bytes), ..Buffer::after(last, bytes, &[]) }
    }

    /// Returns a buffer for a frame whose chains ran in front of the stack.
    pub(crate) fn of_front(head: &'a [u8], tail: &'a [u8]) -> Buffer<'a> {
        Buffer { number: FRONT_BUFFER, head, tail, ..Buffer::default() }
    }

    /// Returns a reference to some of the buffer's bytes, if they can be referenced.
    pub(crate) fn refer(&self, bytes: &[u8]) -> Option<Bytes> {
        let own = self.shared?.as_ptr_range();
        own.contains(&bytes.as_ptr())
            .then(|| self.shared.map(|shared| shared.slice_ref(bytes)))?
    }

    /// Adds the bytes that were read, so that addresses of both are valid.
    pub(crate) fn beside(self, read: &'a [u8]) -> Buffer<'a> {
        Buffer { read, ..self }
    }

    /// Returns the address of the bytes that were read.
    pub(crate) fn read_addr() -> Addr {
        abi::addr(0, 0)
    }

    /// Returns the address of the first byte.
    pub(crate) fn addr(&self) -> Addr {
        abi::addr(self.number, 0)
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.tail.len() + self.merged_len
    }

    /// Returns up to `len` bytes from an address on, piece by piece. There are fewer if the buffer ends
    /// before that. Returns no bytes if the address belongs to another input.
    #[inline]
    pub(crate) fn get(&self, addr: Addr, len: u64) -> BufferPieces<'a> {
        let (head, tail, merged, before) = match addr_parts(addr) {
            Some((0, offset)) => (self.read, &[][..], &[][..], offset),
            Some((number, offset)) if number == self.number => (self.head, self.tail, self.merged, offset),
            Some(_) | None => (&[][..], &[][..], &[][..], 0),
        };
        BufferPieces { head, tail, merged: merged.iter(), before: before as usize, left: len }
    }
}

/// Bytes of a buffer, piece by piece; no piece is empty.
#[derive(Clone, Debug)]
pub(crate) struct BufferPieces<'a> {
    /// The next bytes.
    head: &'a [u8],
    /// The bytes behind `head`.
    tail: &'a [u8],
    /// The bytes behind `tail`.
    merged: std::slice::Iter<'a, &'a [u8]>,
    /// The number of bytes to skip.
    before: usize,
    left: u64,
}

impl<'a> Iterator for BufferPieces<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let rest = &self.head[self.before.min(self.head.len())..];
            let piece = &rest[..self.left.min(rest.len() as u64) as usize];
            self.before -= self.head.len() - rest.len();
            self.left -= piece.len() as u64;
            self.head = std::mem::take(&mut self.tail);
            if self.head.is_empty() {
                match self.merged.next() {
                    Some(next) => self.head = next,
                    None => self.left = 0,
                }
            }
            if !piece.is_empty() {
                return Some(piece);
            } else if self.left == 0 {
                return None;
            }
        }
    }
}

/// The cause of an event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cause<'a> {
    /// The buffer that the event's addresses refer to.
    pub(crate) buffer: Buffer<'a>,
    /// True for an application's request, which may be refused.
    pub(crate) application: bool,
    pub(crate) handle: Option<Handle>,
    /// The request's context, given if the handle may have been released.
    pub(crate) slot: Option<Slot>,
    /// The addresses of both ends of a connection that the application opens.
    pub(crate) flow: Option<FlowKey>,
    /// True if the request opens a listener beside others at the same address.
    pub(crate) shared: bool,
    /// The result of its chain if the chain ran in front of the stack.
    pub(crate) ran: Option<(Instant, &'a RanChain)>,
    /// True if the event answers an instruction. It belongs to the chain that issued the instruction and does
    /// not wait.
    pub(crate) answer: bool,
}

impl<'a> Cause<'a> {
    /// Returns the cause of an application's request.
    pub(crate) fn application(buffer: Buffer<'a>) -> Cause<'a> {
        Cause { buffer, application: true, ..Cause::default() }
    }

    /// Returns true for a request whose caller receives the error.
    pub(crate) fn is_answered(&self) -> bool {
        self.application && self.slot.is_none()
    }
}

/// An input was denied and had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The program refused the request.
    Refused(Errno),
    /// The chain's worst case is not free now.
    NoRoom,
    /// A limit has been reached, and only the end of other work can change that.
    Limit(&'static str),
}

/// The outcome of an input's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputOutcome {
    /// No chain ran: there was no event, or no context for it.
    Nobody,
    /// The chains ran to their ends.
    Taken,
    /// A chain ended with `done`, which also ended the input.
    Stopped,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_through_all_pieces_of_its_buffer() {
        let bytes: Vec<u8> = (0..40).collect();
        let merged = [&bytes[16..20], &bytes[20..21], &bytes[21..33]];
        let mut last = 0;
        let buffer = Buffer {
            merged: &merged,
            merged_len: 17,
            ..Buffer::after(&mut last, &bytes[..12], &bytes[12..16])
        };
        assert_eq!(buffer.len(), 33);
        for from in 0..40 {
            for len in 0..40 {
                let found: Vec<_> = buffer.get(buffer.addr() + from, len).collect();
                let expected = &bytes[from.min(33) as usize..(from + len).min(33).max(from.min(33)) as usize];
                assert_eq!(found.concat(), expected, "{len} bytes from {from}");
                assert!(found.iter().all(|piece| !piece.is_empty()));
            }
        }
    }

    #[test]
    fn addresses_of_other_buffers_resolve_to_no_bytes() {
        let mut last = 0;
        let before = Buffer::after(&mut last, &[1, 2], &[]);
        let buffer = Buffer::after(&mut last, &[3, 4], &[5]).beside(&[6, 7]);
        let get = |addr| buffer.get(addr, u64::MAX).collect::<Vec<_>>().concat();
        assert_eq!(get(buffer.addr() + 1), [4, 5]);
        assert_eq!(get(Buffer::read_addr() + 1), [7]);
        assert!(get(before.addr()).is_empty());
        assert!(get(0).is_empty());
    }
}
