//! Handles: what an application holds of listeners and connections, and the notices to it.
//!
//! A handle is bound to a context while that lives. Afterwards it still has the bytes that were
//! flushed and not read, until the application releases it.
//!
//! Invariants: a handle never comes to mean something else (its number carries a generation);
//! notices of one kind are not repeated while one is waiting.

use std::collections::VecDeque;
use std::fmt;

use super::flow::Flow;
use super::paged::Paged;
use super::slot::Slot;
use crate::data::Units;

/// An application's name for a listener or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(Slot);

/// An errno value, as the language and Linux number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub u32);

impl Errno {
    /// `EAGAIN`.
    pub const AGAIN: Errno = Errno(11);
    /// `ECONNREFUSED`.
    pub const CONNECTION_REFUSED: Errno = Errno(111);
    /// The address is taken.
    pub const ADDRESS_IN_USE: Errno = Errno(98);
    /// `EINVAL`.
    pub const INVALID: Errno = Errno(22);
    /// `ENOPROTOOPT`.
    pub const UNKNOWN_OPTION: Errno = Errno(92);
    /// `EOVERFLOW`: at an opening, params that ask for more than a connection may hold.
    pub const OVERFLOW: Errno = Errno(75);
    /// `ENOBUFS`.
    pub const NO_BUFFERS: Errno = Errno(105);

    /// As the operating system's errors are.
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

/// What a handle's owner is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The connection is there.
    Connected,
    /// The listener has a new connection, under this handle.
    Accepted(Handle),
    /// There are bytes to read.
    Readable,
    /// There is room again, after a `send` that found none.
    Writable,
    /// The peer will send no more.
    Eof,
    /// Nothing more will happen on this handle.
    Closed,
    /// It failed, and nothing more will happen.
    Failed(Errno),
    /// The peer gave up what it sends, for this reason of its application.
    Reset(u64),
    /// The peer will not read what is sent, for this reason of its application.
    Stopped(u64),
    /// The program's own.
    Message([u64; 4]),
}

/// What remains of a context for its handle's owner.
#[derive(Debug)]
pub(crate) struct After {
    /// Its data, as far as it was flushed and not read.
    pub(crate) units: Units,
    /// Its addresses.
    pub(crate) flow: Option<Flow>,
}

/// What is known of a handle.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    generation: u32,
    live: bool,
    /// The context that requests go to, while it lives.
    pub(crate) context: Option<Slot>,
    /// What is left of it after its end.
    pub(crate) after: Option<Box<After>>,
    /// The application announced that it will send no more.
    pub(crate) closing: bool,
    /// Kinds of notice that are waiting, so that they are not repeated.
    waiting: u8,
}

/// All handles, and the notices to their owners.
#[derive(Debug)]
pub(crate) struct Handles {
    entries: Paged<Entry>,
    free: Vec<u32>,
    notices: VecDeque<(Handle, Notice)>,
    max_handles: usize,
    max_notices: usize,
}

impl Handles {
    /// No handle; at most `max_handles` handles and `max_notices` waiting notices at a time.
    pub(crate) fn new(max_handles: usize, max_notices: usize) -> Handles {
        Handles {
            entries: Paged::default(),
            free: Vec::new(),
            notices: VecDeque::new(),
            max_handles,
            max_notices,
        }
    }

    /// A new handle, bound to nothing; nothing when there are too many.
    pub(crate) fn open(&mut self) -> Option<Handle> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.entries.len() < self.max_handles => self.entries.push(Entry::default) as u32,
            None => return None,
        };
        let entry = self.entries.get_mut(index as usize)?;
        let generation = entry.generation.wrapping_add(1);
        *entry = Entry { generation, live: true, ..Entry::default() };
        Some(Handle(Slot { generation, index }))
    }

    /// Forgets a handle.
    pub(crate) fn close(&mut self, handle: Handle) -> Option<Entry> {
        let entry = self.get_mut(handle)?;
        let last = std::mem::take(entry);
        entry.generation = last.generation;
        self.free.push(handle.0.index);
        Some(last)
    }

    /// What is known of a handle.
    pub(crate) fn get(&self, handle: Handle) -> Option<&Entry> {
        self.entries
            .get(handle.0.index as usize)
            .filter(|e| e.live && e.generation == handle.0.generation)
    }

    /// What is known of a handle.
    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut Entry> {
        self.entries
            .get_mut(handle.0.index as usize)
            .filter(|e| e.live && e.generation == handle.0.generation)
    }

    /// Notifies a handle's owner; false when the notice had to be dropped.
    ///
    /// Of the kinds that carry no data, one waits at a time, so none of those is ever
    /// dropped; neither is an accepted connection, which has a handle of its own.
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

    /// The oldest notice. Those to handles that are gone come out as well, marked false: an
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

/// The kinds of which one waits at a time.
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
    fn a_released_handle_means_nothing_ever_after() {
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
