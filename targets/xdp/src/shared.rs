//! Memory that is shared with the kernel: the buffers of frames, and the rings in which they change hands (the kernel's
//! `af_xdp.rst`).
//!
//! Invariants: a buffer belongs to the kernel from when it is put into a ring until the kernel gives it back in another,
//! which it does once. A [`Buffer`] stands for one that belongs to us, and only [`Buffers::new`] and the rings make it: there
//! is at most one for each, so that who holds it may read and write its bytes. Indices of a ring only grow, and wrap
//! around; each has one writer.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering, fence};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::net::xdp::{XdpDesc, XdpDescOptions, XdpRingFlags, XdpRingOffset};

/// A mapping, undone when it is dropped.
#[derive(Debug)]
struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is owned, and nothing of it is bound to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

    fn anonymous(len: usize) -> io::Result<Mapping> {
        let mut flags = MapFlags::PRIVATE;
        // Miri has no pages.
        flags.set(MapFlags::POPULATE, !cfg!(miri));
        // SAFETY: a new mapping wherever the kernel likes.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), len, Mapping::ACCESS, flags) }?;
        Mapping::of(at.cast(), len)
    }

    fn of_file(file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Mapping> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping wherever the kernel likes.
        let at = unsafe { mmap(ptr::null_mut(), len, Mapping::ACCESS, flags, file, offset) }?;
        Mapping::of(at.cast(), len)
    }

    fn of(at: *mut u8, len: usize) -> io::Result<Mapping> {
        let at = NonNull::new(at).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { at, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this length, and nothing refers to it any more.
        let unmapped = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
        debug_assert_eq!(unmapped, Ok(()), "it was mapped");
    }
}

/// A buffer that belongs to us.
#[derive(Debug)]
pub(crate) struct Buffer {
    index: u32,
}

/// Buffers of one size.
#[derive(Debug)]
pub(crate) struct Buffers {
    memory: Mapping,
    size: u32,
}

impl Buffers {
    /// So many buffers of `size` bytes, a power of two, and all of them.
    pub(crate) fn new(size: u32, count: u32) -> io::Result<(Buffers, Vec<Buffer>)> {
        let memory = Mapping::anonymous(size as usize * count as usize)?;
        let all = (0..count).map(|index| Buffer { index }).collect();
        Ok((Buffers { memory, size }, all))
    }

    /// Where they are, for the kernel.
    pub(crate) fn address(&self) -> u64 {
        self.memory.at.as_ptr() as u64
    }

    /// Bytes of them all.
    pub(crate) fn len(&self) -> u64 {
        self.memory.len as u64
    }

    /// Bytes of each.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// The bytes of a piece. What is beyond its buffer is cut off.
    pub(crate) fn read<'a>(&'a self, piece: &'a Piece) -> &'a [u8] {
        let start = piece.start.min(self.size);
        let len = piece.len.min(self.size - start);
        let at = self.start(&piece.buffer) + start as usize;
        // SAFETY: the bytes are inside of the buffer, which is inside of the mapping, initialized, and ours: the kernel
        // writes it only once its `Buffer` has been given up, which takes the end of its borrow.
        unsafe { std::slice::from_raw_parts(self.memory.at.as_ptr().add(at), len as usize) }
    }

    /// The whole buffer, to be written.
    pub(crate) fn write<'a>(&'a mut self, buffer: &'a mut Buffer) -> &'a mut [u8] {
        let at = self.start(buffer);
        // SAFETY: as for `read`; both borrows are exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.memory.at.as_ptr().add(at), self.size as usize) }
    }

    fn start(&self, buffer: &Buffer) -> usize {
        let at = buffer.index as usize * self.size as usize;
        assert!(at < self.memory.len, "it is one of these");
        at
    }
}

/// A frame in a buffer, or a part of it.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) buffer: Buffer,
    /// Where in the buffer it begins.
    pub(crate) start: u32,
    pub(crate) len: u32,
    /// The next piece goes on with the frame.
    pub(crate) continues: bool,
}

/// Entries of a ring, as they are in memory: any bytes are a value.
pub(crate) trait Entry: Copy {
    /// What is handed over by it.
    type Owned;

    /// The entry by which a buffer of `size` bytes is given to the kernel.
    fn give(owned: Self::Owned, size: u32) -> Self;

    /// What the kernel gives back by it.
    fn take(self, size: u32) -> Self::Owned;
}

/// The address of a buffer, or of bytes in it.
impl Entry for u64 {
    type Owned = Buffer;

    fn give(buffer: Buffer, size: u32) -> u64 {
        u64::from(buffer.index) * u64::from(size)
    }

    fn take(self, size: u32) -> Buffer {
        Buffer { index: (self / u64::from(size)) as u32 }
    }
}

impl Entry for XdpDesc {
    type Owned = Piece;

    fn give(piece: Piece, size: u32) -> XdpDesc {
        let mut options = XdpDescOptions::empty();
        options.set(XdpDescOptions::XDP_PKT_CONTD, piece.continues);
        XdpDesc {
            addr: u64::give(piece.buffer, size) + u64::from(piece.start),
            len: piece.len,
            options,
        }
    }

    fn take(self, size: u32) -> Piece {
        Piece {
            buffer: self.addr.take(size),
            start: (self.addr % u64::from(size)) as u32,
            len: self.len,
            continues: self.options.contains(XdpDescOptions::XDP_PKT_CONTD),
        }
    }
}

/// How a ring is mapped.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Where in the socket's file.
    pub(crate) page: u64,
    /// What is where in the mapping, as the kernel says.
    pub(crate) offsets: XdpRingOffset,
    /// Entries, a power of two, as many as the socket was asked for.
    pub(crate) size: u32,
    /// Bytes of a buffer.
    pub(crate) buffer: u32,
}

/// A ring: entries, and how many were ever put in and taken out.
#[derive(Debug)]
struct Ring<T> {
    memory: Mapping,
    offsets: XdpRingOffset,
    size: u32,
    buffer: u32,
    /// Our index, of which the other side may not know yet.
    own: u32,
    /// The other side's, as last looked at.
    other: u32,
    entries: PhantomData<T>,
}

impl<T: Entry> Ring<T> {
    fn map(socket: BorrowedFd<'_>, shape: Shape) -> io::Result<Ring<T>> {
        let len = shape.offsets.desc as usize + shape.size as usize * size_of::<T>();
        Mapping::of_file(socket, shape.page, len).map(|memory| Ring::of(memory, shape))
    }

    /// The ring in a mapping, whose length is that of the shape.
    fn of(memory: Mapping, shape: Shape) -> Ring<T> {
        assert!(shape.size.is_power_of_two());
        Ring {
            memory,
            offsets: shape.offsets,
            size: shape.size,
            buffer: shape.buffer,
            own: 0,
            other: 0,
            entries: PhantomData,
        }
    }

    fn number(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel says where in the mapping an aligned integer is, which both sides use atomically.
        unsafe { &*self.memory.at.as_ptr().add(offset as usize).cast::<AtomicU32>() }
    }

    fn producer(&self) -> &AtomicU32 {
        self.number(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.number(self.offsets.consumer)
    }

    /// The entry at our index.
    fn entry(&self) -> *mut T {
        let index = (self.own & (self.size - 1)) as usize;
        // SAFETY: less than `size` entries behind the first one, as the mapping is long.
        unsafe {
            self.memory
                .at
                .as_ptr()
                .add(self.offsets.desc as usize)
                .cast::<T>()
                .add(index)
        }
    }
}

/// A ring that we fill.
#[derive(Debug)]
pub(crate) struct Producer<T>(Ring<T>);

impl<T: Entry> Producer<T> {
    /// Maps a ring of the socket's.
    pub(crate) fn map(socket: BorrowedFd<'_>, shape: Shape) -> io::Result<Self> {
        Ring::map(socket, shape).map(Producer)
    }

    /// How many entries there is room for.
    pub(crate) fn room(&mut self) -> u32 {
        self.0.other = self.0.consumer().load(Ordering::Acquire);
        self.0.size - self.0.own.wrapping_sub(self.0.other)
    }

    /// Hands a buffer over to the kernel, which sees it after [`Producer::publish`].
    ///
    /// # Panics
    /// When there is no room for it.
    pub(crate) fn push(&mut self, owned: T::Owned) {
        if self.0.own.wrapping_sub(self.0.other) == self.0.size {
            assert!(self.room() > 0, "there is room");
        }
        let entry = T::give(owned, self.0.buffer);
        // SAFETY: the entry is aligned, in the mapping, and not the kernel's before our index is published.
        unsafe { self.0.entry().write(entry) };
        self.0.own = self.0.own.wrapping_add(1);
    }

    /// Lets the kernel see what was put in.
    pub(crate) fn publish(&self) {
        self.0.producer().store(self.0.own, Ordering::Release);
        // The kernel asks for a wake-up, then looks once more: we publish, then look whether it asks.
        fence(Ordering::SeqCst);
    }

    /// How many entries the kernel has not taken.
    pub(crate) fn waiting(&self) -> u32 {
        let taken = self.0.consumer().load(Ordering::Acquire);
        self.0.own.wrapping_sub(taken)
    }

    /// Whether the kernel wants a system call before it looks into the ring again. One that knows no such flag always does.
    pub(crate) fn needs_wakeup(&self) -> bool {
        let flags = |offset| XdpRingFlags::from_bits_retain(self.0.number(offset).load(Ordering::Relaxed));
        self.0
            .offsets
            .flags
            .is_none_or(|offset| flags(offset).contains(XdpRingFlags::XDP_RING_NEED_WAKEUP))
    }
}

/// A ring that the kernel fills.
#[derive(Debug)]
pub(crate) struct Consumer<T>(Ring<T>);

impl<T: Entry> Consumer<T> {
    /// Maps a ring of the socket's.
    pub(crate) fn map(socket: BorrowedFd<'_>, shape: Shape) -> io::Result<Self> {
        Ring::map(socket, shape).map(Consumer)
    }

    /// Takes the next entry, if there is one; the kernel may use its place after [`Consumer::release`].
    pub(crate) fn pop(&mut self) -> Option<T::Owned> {
        if self.0.own == self.0.other {
            self.0.other = self.0.producer().load(Ordering::Acquire);
            if self.0.own == self.0.other {
                return None;
            }
        }
        // SAFETY: the entry is aligned, in the mapping, and was written before the kernel's index, which we have seen.
        let entry = unsafe { self.0.entry().read() };
        self.0.own = self.0.own.wrapping_add(1);
        Some(entry.take(self.0.buffer))
    }

    /// How many entries wait to be taken.
    pub(crate) fn waiting(&self) -> u32 {
        let producer = self.0.producer().load(Ordering::Acquire);
        producer.wrapping_sub(self.0.own)
    }

    /// Lets the kernel use the places of what was taken.
    pub(crate) fn release(&self) {
        self.0.consumer().store(self.0.own, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u32 = 4;
    const BUFFER: u32 = 64;

    /// Both ends of a ring, whose indices begin shortly before they wrap. The memory stays mapped.
    fn ends<T: Entry>() -> (Producer<T>, Consumer<T>) {
        let offsets = XdpRingOffset { producer: 0, consumer: 64, desc: 128, flags: None };
        let shape = Shape { page: 0, offsets, size: SIZE, buffer: BUFFER };
        let len = 128 + SIZE as usize * size_of::<T>();
        let memory = Mapping::anonymous(len).expect("memory");
        let again = Mapping { at: memory.at, len };
        // The pages end with the process: they belong to both ends.
        let (one, other) = (Ring::of(memory, shape), Ring::of(again, shape));
        let first = u32::MAX - 2;
        one.producer().store(first, Ordering::Relaxed);
        one.consumer().store(first, Ordering::Relaxed);
        let at = |ring| Ring { own: first, other: first, ..ring };
        (Producer(at(one)), Consumer(at(other)))
    }

    #[test]
    fn what_is_put_into_a_ring_comes_out_once_in_order() {
        let (mut producer, mut consumer) = ends::<XdpDesc>();
        for round in 0..5 {
            assert_eq!((producer.room(), producer.waiting()), (SIZE, 0));
            for number in 0..SIZE {
                producer.push(Piece {
                    buffer: Buffer { index: round + number },
                    start: number,
                    len: BUFFER - number,
                    continues: number == 1,
                });
            }
            assert!(consumer.pop().is_none(), "nothing is published");
            producer.publish();
            assert_eq!((producer.room(), consumer.waiting()), (0, SIZE));
            for number in 0..SIZE {
                let piece = consumer.pop().expect("an entry");
                let found = (piece.buffer.index, piece.start, piece.len, piece.continues);
                assert_eq!(found, (round + number, number, BUFFER - number, number == 1));
            }
            assert!(consumer.pop().is_none());
            assert_eq!(producer.room(), 0, "nothing is released");
            consumer.release();
        }
        std::mem::forget((producer, consumer));
    }

    #[test]
    #[should_panic(expected = "there is room")]
    fn a_full_ring_takes_no_more() {
        let (producer, consumer) = ends::<u64>();
        let mut producer = std::mem::ManuallyDrop::new(producer);
        std::mem::forget(consumer);
        (0..=SIZE).for_each(|index| producer.push(Buffer { index }));
    }

    #[test]
    fn pieces_are_read_within_their_buffers() {
        let (mut buffers, mut all) = Buffers::new(BUFFER, 2).expect("memory");
        let mut last = all.pop().expect("two");
        buffers.write(&mut last).copy_from_slice(&[7; BUFFER as usize]);
        let mut piece = Piece { buffer: last, start: 60, len: 4, continues: false };
        assert_eq!(buffers.read(&piece), [7; 4]);
        (piece.start, piece.len) = (60, u32::MAX);
        assert_eq!(buffers.read(&piece), [7; 4]);
        piece.start = u32::MAX;
        assert!(buffers.read(&piece).is_empty());
    }
}
