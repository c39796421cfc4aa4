//! Memory that is shared with the kernel: the buffers of frames, and the rings that pass them (the kernel's
//! `af_xdp.rst`).
//!
//! Invariants: a buffer belongs to the kernel once it is put into a ring, until the kernel returns it in
//! another ring. The kernel returns it once. A [`Buffer`] stands for a buffer that belongs to us. Only
//! [`Buffers::new`] and the rings create it, so there is at most one for each buffer, and its holder may read
//! and write the bytes. Indices of a ring only grow, and wrap around; each has one writer.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering, fence};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::net::xdp::{XdpDesc, XdpDescOptions, XdpRingFlags, XdpRingOffset};

/// A mapping that is unmapped when it is dropped.
#[derive(Debug)]
struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is owned, and no part of it is bound to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

    fn anonymous(len: usize) -> io::Result<Mapping> {
        let mut flags = MapFlags::PRIVATE;
        // Miri does not support pages.
        flags.set(MapFlags::POPULATE, !cfg!(miri));
        // SAFETY: it is a new mapping at an address that the kernel chooses.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), len, Mapping::ACCESS, flags) }?;
        Mapping::new(at.cast(), len)
    }

    fn of_file(file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Mapping> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: it is a new mapping at an address that the kernel chooses.
        let at = unsafe { mmap(ptr::null_mut(), len, Mapping::ACCESS, flags, file, offset) }?;
        Mapping::new(at.cast(), len)
    }

    fn new(at: *mut u8, len: usize) -> io::Result<Mapping> {
        let at = NonNull::new(at).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { at, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this length, and no reference to it remains.
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
    /// Creates `count` buffers of `size` bytes, a power of two, and returns all of them.
    pub(crate) fn new(size: u32, count: u32) -> io::Result<(Buffers, Vec<Buffer>)> {
        let memory = Mapping::anonymous(size as usize * count as usize)?;
        let all = (0..count).map(|index| Buffer { index }).collect();
        Ok((Buffers { memory, size }, all))
    }

    /// Returns their address, for the kernel.
    pub(crate) fn address(&self) -> u64 {
        self.memory.at.as_ptr() as u64
    }

    /// Returns the total size in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.memory.len as u64
    }

    /// Returns the size of each buffer in bytes.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Returns the bytes of a piece, limited to its buffer.
    pub(crate) fn read<'a>(&'a self, piece: &'a FramePart) -> &'a [u8] {
        let start = piece.start.min(self.size);
        let len = piece.len.min(self.size - start);
        let at = self.start(&piece.buffer) + start as usize;
        // SAFETY: the bytes are within the buffer, which is within the mapping; they are initialized and
        // ours. The kernel writes them only after the `Buffer` has been given up, which requires that this
        // borrow has ended.
        unsafe { std::slice::from_raw_parts(self.memory.at.as_ptr().add(at), len as usize) }
    }

    /// Returns the whole buffer for writing.
    pub(crate) fn write<'a>(&'a mut self, buffer: &'a mut Buffer) -> &'a mut [u8] {
        let at = self.start(buffer);
        // SAFETY: the same as for `read`; both borrows are exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.memory.at.as_ptr().add(at), self.size as usize) }
    }

    fn start(&self, buffer: &Buffer) -> usize {
        let at = buffer.index as usize * self.size as usize;
        assert!(at < self.memory.len, "it is one of these");
        at
    }
}

/// A frame in a buffer, or a part of a frame.
#[derive(Debug)]
pub(crate) struct FramePart {
    pub(crate) buffer: Buffer,
    /// The offset in the buffer.
    pub(crate) start: u32,
    pub(crate) len: u32,
    /// True if the next piece continues the frame.
    pub(crate) continues: bool,
}

/// Entries of a ring as they are in memory: any bytes are a valid value.
pub(crate) trait RingEntry: Copy {
    /// The object that the entry hands over.
    type Owned;

    /// Creates the entry that gives a buffer of `size` bytes to the kernel.
    fn give(owned: Self::Owned, size: u32) -> Self;

    /// Returns the object that the kernel gives back by this entry.
    fn take(self, size: u32) -> Self::Owned;
}

/// The address of a buffer, or of bytes in it.
impl RingEntry for u64 {
    type Owned = Buffer;

    fn give(buffer: Buffer, size: u32) -> u64 {
        u64::from(buffer.index) * u64::from(size)
    }

    fn take(self, size: u32) -> Buffer {
        Buffer { index: (self / u64::from(size)) as u32 }
    }
}

impl RingEntry for XdpDesc {
    type Owned = FramePart;

    fn give(piece: FramePart, size: u32) -> XdpDesc {
        let mut options = XdpDescOptions::empty();
        options.set(XdpDescOptions::XDP_PKT_CONTD, piece.continues);
        XdpDesc {
            addr: u64::give(piece.buffer, size) + u64::from(piece.start),
            len: piece.len,
            options,
        }
    }

    fn take(self, size: u32) -> FramePart {
        FramePart {
            buffer: self.addr.take(size),
            start: (self.addr % u64::from(size)) as u32,
            len: self.len,
            continues: self.options.contains(XdpDescOptions::XDP_PKT_CONTD),
        }
    }
}

/// The layout of a ring's mapping.
#[derive(Clone, Copy)]
pub(crate) struct RingLayout {
    /// The offset in the socket's file.
    pub(crate) page: u64,
    /// The offsets within the mapping, as the kernel reports them.
    pub(crate) offsets: XdpRingOffset,
    /// The number of entries, a power of two, as requested from the socket.
    pub(crate) size: u32,
    /// The size of a buffer in bytes.
    pub(crate) buffer: u32,
}

/// A ring: entries, and the numbers of entries that were ever put in and taken out.
#[derive(Debug)]
struct Ring<T> {
    memory: Mapping,
    offsets: XdpRingOffset,
    size: u32,
    buffer: u32,
    /// Our index, which may not be published yet.
    own: u32,
    /// The other side's index, as last read.
    other: u32,
    entries: PhantomData<T>,
}

impl<T: RingEntry> Ring<T> {
    fn map(socket: BorrowedFd<'_>, shape: RingLayout) -> io::Result<Ring<T>> {
        let len = shape.offsets.desc as usize + shape.size as usize * size_of::<T>();
        Mapping::of_file(socket, shape.page, len).map(|memory| Ring::from_mapping(memory, shape))
    }

    /// Creates the ring in a mapping, whose length matches the shape.
    fn from_mapping(memory: Mapping, shape: RingLayout) -> Ring<T> {
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
        // SAFETY: the kernel gives the offset of an aligned integer in the mapping, which both sides use
        // atomically.
        unsafe { &*self.memory.at.as_ptr().add(offset as usize).cast::<AtomicU32>() }
    }

    fn producer(&self) -> &AtomicU32 {
        self.number(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.number(self.offsets.consumer)
    }

    /// Returns the entry at our index.
    fn entry(&self) -> *mut T {
        let index = (self.own & (self.size - 1)) as usize;
        // SAFETY: the entry is less than `size` entries behind the first one, which the mapping covers.
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

impl<T: RingEntry> Producer<T> {
    pub(crate) fn map(socket: BorrowedFd<'_>, shape: RingLayout) -> io::Result<Self> {
        Ring::map(socket, shape).map(Producer)
    }

    /// Returns the number of free entries.
    pub(crate) fn room(&mut self) -> u32 {
        self.0.other = self.0.consumer().load(Ordering::Acquire);
        self.0.size - self.0.own.wrapping_sub(self.0.other)
    }

    /// Hands a buffer over to the kernel, which sees it after [`Producer::publish`].
    ///
    /// # Panics
    /// Panics if the ring is full.
    pub(crate) fn push(&mut self, owned: T::Owned) {
        if self.0.own.wrapping_sub(self.0.other) == self.0.size {
            assert!(self.room() > 0, "there is room");
        }
        let entry = T::give(owned, self.0.buffer);
        // SAFETY: the entry is aligned and in the mapping, and the kernel does not read it before our index
        // is published.
        unsafe { self.0.entry().write(entry) };
        self.0.own = self.0.own.wrapping_add(1);
    }

    /// Makes the pushed entries visible to the kernel.
    pub(crate) fn publish(&self) {
        self.0.producer().store(self.0.own, Ordering::Release);
        // The kernel requests a wake-up, then checks the ring once more. We publish, then check for the
        // request.
        fence(Ordering::SeqCst);
    }

    /// Returns the number of entries that the kernel has not taken.
    pub(crate) fn waiting(&self) -> u32 {
        let taken = self.0.consumer().load(Ordering::Acquire);
        self.0.own.wrapping_sub(taken)
    }

    /// Returns true if the kernel needs a system call before it reads the ring again. A kernel without this
    /// flag always does.
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

impl<T: RingEntry> Consumer<T> {
    pub(crate) fn map(socket: BorrowedFd<'_>, shape: RingLayout) -> io::Result<Self> {
        Ring::map(socket, shape).map(Consumer)
    }

    /// Takes the next entry, if there is one; the kernel may reuse it after [`Consumer::release`].
    pub(crate) fn pop(&mut self) -> Option<T::Owned> {
        if self.0.own == self.0.other {
            self.0.other = self.0.producer().load(Ordering::Acquire);
            if self.0.own == self.0.other {
                return None;
            }
        }
        // SAFETY: the entry is aligned and in the mapping, and was written before the kernel's index, which
        // we have read.
        let entry = unsafe { self.0.entry().read() };
        self.0.own = self.0.own.wrapping_add(1);
        Some(entry.take(self.0.buffer))
    }

    /// Returns the number of entries that wait to be taken.
    pub(crate) fn waiting(&self) -> u32 {
        let producer = self.0.producer().load(Ordering::Acquire);
        producer.wrapping_sub(self.0.own)
    }

    /// Lets the kernel reuse the entries that were taken.
    pub(crate) fn release(&self) {
        self.0.consumer().store(self.0.own, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u32 = 4;
    const BUFFER: u32 = 64;

    /// Returns both ends of a ring, whose indices begin shortly before they wrap. The memory stays mapped.
    fn ends<T: RingEntry>() -> (Producer<T>, Consumer<T>) {
        let offsets = XdpRingOffset { producer: 0, consumer: 64, desc: 128, flags: None };
        let shape = RingLayout { page: 0, offsets, size: SIZE, buffer: BUFFER };
        let len = 128 + SIZE as usize * size_of::<T>();
        let memory = Mapping::anonymous(len).expect("memory");
        let again = Mapping { at: memory.at, len };
        // The pages stay until the process ends, because they belong to both ends.
        let (one, other) = (
            Ring::from_mapping(memory, shape),
            Ring::from_mapping(again, shape),
        );
        let first = u32::MAX - 2;
        one.producer().store(first, Ordering::Relaxed);
        one.consumer().store(first, Ordering::Relaxed);
        let at = |ring| Ring { own: first, other: first, ..ring };
        (Producer(at(one)), Consumer(at(other)))
    }

    #[test]
    fn pieces_leave_a_ring_once_and_in_order() {
        let (mut producer, mut consumer) = ends::<XdpDesc>();
        for round in 0..5 {
            assert_eq!((producer.room(), producer.waiting()), (SIZE, 0));
            for number in 0..SIZE {
                producer.push(FramePart {
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
    fn pushing_to_a_full_ring_panics() {
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
        let mut piece = FramePart { buffer: last, start: 60, len: 4, continues: false };
        assert_eq!(buffers.read(&piece), [7; 4]);
        (piece.start, piece.len) = (60, u32::MAX);
        assert_eq!(buffers.read(&piece), [7; 4]);
        piece.start = u32::MAX;
        assert!(buffers.read(&piece).is_empty());
    }
}
