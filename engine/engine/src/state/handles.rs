//! Handles, by which applications refer to listeners and connections, and the notices to applications.
//!
//! A handle is bound to a context while the context lives. Afterwards it keeps the flushed bytes that have
//! not been read, until the application releases it.
//!
//! Invariants: a handle never comes to refer to another connection, because its number carries a generation.
//! A notice of a kind is not repeated while one is waiting.

use std::collections::VecDeque;
use std::fmt;

use super::flow::FlowKey;
use super::paged::Paged;
use super::slot::Slot;
use crate::data::Units;

/// An application's name for a listener or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(Slot);

/// An errno value, numbered as in the language and in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub u32);

impl Errno {
    /// `EAGAIN`.
    pub const AGAIN: Errno = Errno(11);
    /// `ECONNREFUSED`.
    pub const CONNECTION_REFUSED: Errno = Errno(111);
    /// `EADDRINUSE`.
    pub const ADDRESS_IN_USE: Errno = Errno(98);
    /// `EINVAL`.
    pub const INVALID: Errno = Errno(22);
    /// `ENOPROTOOPT`.
    pub const UNKNOWN_OPTION: Errno = Errno(92);
    /// `EOVERFLOW`: when opening, params that ask for more than a connection may hold.
    pub const OVERFLOW: Errno = Errno(75);
    /// `ENOBUFS`.
    pub const NO_BUFFERS: Errno = Errno(105);

    /// Converts to the operating system's error.
    #[must_use]
    pub fn to_io(self) -> std::io::Error {
        std::io::Error::from_raw_os_error(self.0 as i32)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_io().fmt(f)
    }
}

/// A notice to the application that holds a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The connection is established.
    Connected,
    /// The listener has a new connection, with this handle.
    Accepted(Handle),
    /// There are bytes to read.
    Readable,
    /// There is room again, after a `send` that found no room.
    Writable,
    /// The peer will send no more.
    Eof,
    /// The connection has ended; no further notice follows on this handle.
    Closed,
    /// The connection has failed; no further notice follows on this handle.
    Failed(Errno),
    /// The peer's application gave up sending, for this reason.
    Reset(u64),
    /// The peer's application gave up reading, for this reason.
    Stopped(u64),
    /// A notice that the program defines.
    Message([u64; 4]),
}

/// The remains of a context for its handle.
#[derive(Debug)]
pub(crate) struct ContextRemains {
    /// The flushed data that has not been read.
    pub(crate) units: Units,
    /// The addresses of the connection.
    pub(crate) flow: Option<FlowKey>,
}

/// The state of a handle.
#[derive(Debug, Default)]
pub(crate) struct HandleEntry {
    generation: u32,
    live: bool,
    /// The context that requests go to, while it lives.
    pub(crate) context: Option<Slot>,
    /// The remains of the context after its end.
    pub(crate) after: Option<Box<ContextRemains>>,
    /// True if the application announced that it will send no more.
    pub(crate) closing: bool,
    /// The kinds of notice that are waiting, so that they are not repeated.
    waiting: u8,
}

/// All handles, and the notices to their applications.
#[derive(Debug)]
pub(crate) struct Handles {
    entries: Paged<HandleEntry>,
    free: Vec<u32>,
    notices: VecDeque<(Handle, Notice)>,
    max_handles: usize,
    max_notices: usize,
}

impl Handles {
    /// Creates a table for at most `max_handles` handles and `max_notices` waiting notices at a time.
    pub(crate) fn new(max_handles: usize, max_notices: usize) -> Handles {
        Handles {
            entries: Paged::default(),
            free: Vec::new(),
            notices: VecDeque::new(),
            max_handles,
            max_notices,
        }
    }

    /// Opens a new handle without a context; returns `None` if the limit is reached.
    pub(crate) fn open(&mut self) -> Option<Handle> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.entries.len() < self.max_handles => self.entries.push(HandleEntry::default) as u32,
            None => return None,
        };
        let entry = self.entries.get_mut(index as usize)?;
        let generation = entry.generation.wrapping_add(1);
        *entry = HandleEntry { generation, live: true, ..HandleEntry::default() };
        Some(Handle(Slot { generation, index }))
    }

    /// Removes a handle.
    pub(crate) fn close(&mut self, handle: Handle) -> Option<HandleEntry> {
        let entry = self.get_mut(handle)?;
        let last = std::mem::take(entry);
        entry.generation = last.generation;
        self.free.push(handle.0.index);
        Some(last)
    }

    /// Returns the state of a handle.
    pub(crate) fn get(&self, handle: Handle) -> Option<&HandleEntry> {
        self.entries
            .get(handle.0.index as usize)
            .filter(|e| e.live && e.generation == handle.0.generation)
    }

    /// Returns the state of a handle.
    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut HandleEntry> {
        self.entries
            .get_mut(handle.0.index as usize)
            .filter(|e| e.live && e.generation == handle.0.generation)
    }

    /// Sends a notice to a handle's application; returns false if the notice was dropped.
    ///
    /// At most one notice of each kind without data waits at a time, so that those are never dropped. A
    /// notice of an accepted connection, which has a handle of its own, is never dropped either.
    pub(crate) fn notify(&mut self, handle: Handle, notice: Notice) -> bool {
        let full = self.notices.len() >= self.max_notices;
        let Some(entry) = self.get_mut(handle) else {
            return true;
        };
        match bit(notice) {
            Some(bit) if entry.waiting & bit != 0 => return true,
            Some(bit) => entry.waiting |= bit,
            None if full && matches!(notice, Notice::Message(_)) => return false,
            None => {}
        }
        self.notices.push_back((handle, notice));
        true
    }

    /// Returns the oldest notice. Notices to released handles are returned as well, marked false, because an
    /// accepted connection among them has to be released.
    pub(crate) fn next_notice(&mut self) -> Option<(Handle, Notice, bool)> {
        let (handle, notice) = self.notices.pop_front()?;
        let entry = self.get_mut(handle);
        let known = entry.is_some();
        if let (Some(entry), Some(bit)) = (entry, bit(notice)) {
            entry.waiting &= !bit;
        }
        Some((handle, notice, known))
    }
}

/// Returns the bit of a notice without data; at most one notice of each such kind waits at a time.
fn bit(notice: Notice) -> Option<u8> {
    match notice {
        Notice::Connected => Some(1),
        Notice::Readable => Some(2),
        Notice::Writable => Some(4),
        Notice::Eof => Some(8),
        Notice::Closed => Some(16),
        Notice::Failed(_) => Some(32),
        Notice::Reset(_) => Some(64),
        Notice::Stopped(_) => Some(128),
        Notice::Accepted(_) | Notice::Message(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_handle_stays_invalid() {
        let mut handles = Handles::new(1, 10);
        let first = handles.open().expect("room for one");
        assert!(handles.open().is_none());
        assert!(handles.close(first).is_some());
        assert!(handles.close(first).is_none());
        let second = handles.open().expect("room again");
        assert_ne!(first, second);
        assert!(handles.get(first).is_none());
        assert!(handles.get(second).is_some());
    }

    #[test]
    fn notices_wait_once_and_messages_are_bounded() {
        let mut handles = Handles::new(2, 3);
        let handle = handles.open().expect("room");
        (0..10).for_each(|_| assert!(handles.notify(handle, Notice::Readable)));
        assert!(handles.notify(handle, Notice::Message([1; 4])));
        assert!(handles.notify(handle, Notice::Message([2; 4])));
        assert!(!handles.notify(handle, Notice::Message([3; 4])), "full");
        assert!(handles.notify(handle, Notice::Closed), "never dropped");
        let received: Vec<Notice> = std::iter::from_fn(|| handles.next_notice())
            .map(|n| n.1)
            .collect();
        let want = [
            Notice::Readable,
            Notice::Message([1; 4]),
            Notice::Message([2; 4]),
            Notice::Closed,
        ];
        assert_eq!(received, want);
        assert!(handles.notify(handle, Notice::Readable));
        assert_eq!(handles.next_notice(), Some((handle, Notice::Readable, true)));
    }
}
