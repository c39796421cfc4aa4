//! Handles: what an application holds of listeners and connections, and the notices to it.
//!
//! A handle is bound to a context while that lives. Afterwards it still has the bytes that were
//! flushed and not read, until the application releases it.
//!
//! Invariants: a handle never comes to mean something else (its number carries a generation);
//! notices of one kind are not repeated while one is waiting.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;

use hawser_ir::abi;

use crate::contexts::Slot;
use crate::net;
use crate::paged::Paged;
use crate::units::Units;

/// An application's name for a listener or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(u64);

impl Handle {
    fn new(index: usize, generation: u32) -> Handle {
        Handle(u64::from(generation) << 32 | index as u64)
    }

    fn index(self) -> usize {
        self.0 as u32 as usize
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// An errno value, as the language and Linux number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub u32);

impl Errno {
    /// `EAGAIN`.
    pub const AGAIN: Errno = Errno(11);
    /// The address is taken.
    pub const ADDRESS_IN_USE: Errno = Errno(98);
    /// `EINVAL`.
    pub const INVALID: Errno = Errno(22);
    /// `ENOPROTOOPT`.
    pub const UNKNOWN_OPTION: Errno = Errno(92);
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

/// What a handle's owner is told.
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
    /// The program's own.
    Message([u64; 4]),
}

/// The two ends of a connection; a listener has no remote one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    /// Local address and port, the address 16 bytes.
    pub(crate) local: ([u8; 16], u16),
    /// The remote end; zero where there is none.
    pub(crate) remote: ([u8; 16], u16),
}

impl Flow {
    /// The ends that a program states; nothing where it states none.
    pub(crate) fn stated(flow: &abi::Flow) -> Option<Flow> {
        let local = (flow.local_ip, flow.local_port);
        let remote = (flow.remote_ip, flow.remote_port);
        (flow.local_ip != [0; 16]).then_some(Flow { local, remote })
    }

    /// The local end.
    pub(crate) fn local(&self) -> SocketAddr {
        SocketAddr::new(net::from_bytes(self.local.0), self.local.1)
    }

    /// The remote end, if there is one.
    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        let (address, port) = self.remote;
        (address != [0; 16]).then(|| SocketAddr::new(net::from_bytes(address), port))
    }
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
    /// The application said that it will send no more.
    pub(crate) closing: bool,
    /// Kinds of notice that are waiting, so that they are not repeated.
    waiting: u8,
}

/// All handles, and the notices to their owners.
#[derive(Debug)]
pub(crate) struct Handles {
    entries: Paged<Entry>,
    free: Vec<usize>,
    notices: VecDeque<(Handle, Notice)>,
    most: usize,
    most_notices: usize,
}

impl Handles {
    /// No handle; `most` handles and `most_notices` waiting notices at a time.
    pub(crate) fn new(most: usize, most_notices: usize) -> Handles {
        Handles {
            entries: Paged::default(),
            free: Vec::new(),
            notices: VecDeque::new(),
            most,
            most_notices,
        }
    }

    /// A new handle, bound to nothing; nothing when there are too many.
    pub(crate) fn open(&mut self) -> Option<Handle> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.entries.len() < self.most => self.entries.push(Entry::default),
            None => return None,
        };
        let entry = self.entries.get_mut(index)?;
        let generation = entry.generation.wrapping_add(1);
        *entry = Entry {
            generation,
            live: true,
            ..Entry::default()
        };
        Some(Handle::new(index, generation))
    }

    /// Forgets a handle.
    pub(crate) fn close(&mut self, handle: Handle) -> Option<Entry> {
        let entry = self.get_mut(handle)?;
        let last = std::mem::take(entry);
        entry.generation = last.generation;
        self.free.push(handle.index());
        Some(last)
    }

    /// What is known of a handle.
    pub(crate) fn get(&self, handle: Handle) -> Option<&Entry> {
        self.entries
            .get(handle.index())
            .filter(|e| e.live && e.generation == handle.generation())
    }

    /// What is known of a handle.
    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut Entry> {
        self.entries
            .get_mut(handle.index())
            .filter(|e| e.live && e.generation == handle.generation())
    }

    /// Tells a handle's owner; false when the notice had to be dropped.
    ///
    /// Of the kinds that say all in their name, one waits at a time, so none of those is ever
    /// dropped; neither is an accepted connection, which has a handle of its own.
    pub(crate) fn notify(&mut self, handle: Handle, notice: Notice) -> bool {
        let full = self.notices.len() >= self.most_notices;
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
        let told: Vec<Notice> = std::iter::from_fn(|| handles.next_notice())
            .map(|n| n.1)
            .collect();
        let want = [
            Notice::Readable,
            Notice::Message([1; 4]),
            Notice::Message([2; 4]),
            Notice::Closed,
        ];
        assert_eq!(told, want);
        assert!(handles.notify(handle, Notice::Readable));
        assert_eq!(handles.next_notice(), Some((handle, Notice::Readable, true)));
    }
}
