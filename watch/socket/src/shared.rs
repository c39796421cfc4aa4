//! A ring of signals in memory that two processes share, and the waker of its reader.
//!
//! Invariants: the memory is sealed against shrinking before another process has it, so that no access to it
//! can fault. Every access is atomic, so that any write of the other process is read as a plain value. The
//! waker is signalled without waiting, from an end that the other process does not have, so it cannot be made
//! to block. An eventfd could, because both ends share its flags.

#![allow(unsafe_code)] // Memory that is mapped has to be looked at; see the invariants above.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hawser_bus::ring::{Consumer, MAX_SLOTS, Ring, RingMemory, Waker, words_for};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const WORD: usize = size_of::<u64>();

/// A mapping of words, for reading and writing.
struct Mapping {
    begin: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to this value alone and stays in place until the value is dropped; it is
// accessed through atomics only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first words of a file, which must have that length and be sealed against shrinking.
    fn new(file: &OwnedFd, words: usize) -> io::Result<Mapping> {
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the system chooses.
        let begin = unsafe {
            mmap(
                std::ptr::null_mut(),
                words * WORD,
                flags,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        let begin = NonNull::new(begin.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Mapping { begin, words })
    }
}

impl RingMemory for Mapping {
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: this many words are mapped at `begin`, which is aligned to a page, for as long as `self`
        // exists; the file behind them is sealed against shrinking; any bits are a valid word, and atomics
        // may be changed by others.
        unsafe { std::slice::from_raw_parts(self.begin.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this address and length, and no borrow of it is left.
        let _ = unsafe { munmap(self.begin.as_ptr().cast(), self.words * WORD) };
    }
}

/// A ring for another process.
pub(super) struct SharedRing {
    /// The producers' end, which stays here.
    pub(super) ring: Ring,
    /// The descriptors for the other process: the memory, and its end of the waker.
    pub(super) files: Vec<OwnedFd>,
}

/// Makes a ring of at least this many slots, up to the maximum.
pub(super) fn offer(slots: usize) -> io::Result<SharedRing> {
    let words = words_for(slots);
    let memory = memfd_create("hawser-ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&memory, (words * WORD) as u64)?;
    fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let (waker, other) = UnixDatagram::pair()?;
    waker.set_nonblocking(true)?;
    // If the socket is full, its reader wakes in any case.
    let waker: Waker = Arc::new(move || drop(waker.send(&[1])));
    let ring = Ring::create(Arc::new(Mapping::new(&memory, words)?), slots, Some(waker));
    Ok(SharedRing { ring, files: vec![memory, other.into()] })
}

/// The reasons for which memory from another process is not accepted as a ring.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The system refuses.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The memory could shrink while it is read.
    #[error("the ring's memory is not sealed")]
    NotSealed,
    /// The memory's size is not valid for a ring.
    #[error("the ring has an invalid size")]
    Size,
    /// The memory does not begin as a ring does.
    #[error("the memory is not a ring")]
    NoRing,
}

/// Maps a ring's memory that came from another process.
pub(super) fn map(memory: &OwnedFd) -> Result<impl RingMemory + use<>, RingError> {
    if !fcntl_get_seals(memory)
        .map_err(io::Error::from)?
        .contains(SealFlags::SHRINK)
    {
        return Err(RingError::NotSealed);
    }
    let size = fstat(memory).map_err(io::Error::from)?.st_size;
    let words = usize::try_from(size).unwrap_or(0) / WORD;
    if words == 0 || words > words_for(MAX_SLOTS) {
        return Err(RingError::Size);
    }
    Ok(Mapping::new(memory, words)?)
}

/// Opens the reader's end of a ring that another process has made.
pub(super) fn accept(memory: &OwnedFd) -> Result<Consumer, RingError> {
    Consumer::open(Arc::new(map(memory)?)).ok_or(RingError::NoRing)
}

/// Wakes the reader of a ring.
#[derive(Debug)]
pub struct RingWaker(UnixDatagram);

impl RingWaker {
    pub(super) fn new(file: OwnedFd) -> RingWaker {
        RingWaker(UnixDatagram::from(file))
    }

    /// Sleeps until a signal is in the ring, for at most `timeout`. Returns true when there may be a signal.
    ///
    /// # Errors
    /// When the other process is gone.
    pub fn wait(&self, ring: &Consumer, timeout: Duration) -> io::Result<bool> {
        if !ring.doze() {
            return Ok(true);
        }
        self.0
            .set_read_timeout(Some(timeout.max(Duration::from_millis(1))))?;
        match self.0.recv(&mut [0]) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Ok(ring.is_ready())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(ring.is_ready()),
            Err(error) => Err(error),
        }
    }
}

impl std::os::fd::AsFd for RingWaker {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}
