//! Calls over a program whose connections have streams within them. Each call has its own stream, with its
//! message in one direction and the reply in the other. All calls to a peer share a connection.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use hawser_engine::{Direction, Handle, Notice, RequestError, Stack};
use hawser_time::Instant;

use crate::app::calls::content::MessageId;

/// The number of bytes that are read at a time.
const CHUNK: usize = 64 * 1024;

/// The outcome of a call, or an incoming call.
pub(super) enum CallEvent {
    /// The call's reply has arrived, or its message was delivered if no reply is due.
    Replied(u32, Vec<u8>),
    Failed(u32, String),
    /// A peer calls, on this stream.
    Called(Handle, Option<SocketAddr>, Vec<u8>),
}

/// The owner of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// A call of its own; `None` once it has its reply.
    Call(Option<u32>),
    /// A call of a peer; it is set once the whole message has arrived.
    Peer(Option<(usize, MessageId)>),
}

struct Stream {
    whose: Whose,
    /// The peer of its connection.
    peer: Option<SocketAddr>,
    /// True if no more data will be added to the outgoing bytes.
    is_whole: bool,
    is_closed: bool,
    has_ended: bool,
    outgoing: Vec<u8>,
    sent: usize,
    came: Vec<u8>,
}

/// The state of an agent whose calls are streams.
pub(super) struct Streamed {
    listener: Handle,
    /// The connections that it has opened, each with whether it is established.
    connections: BTreeMap<SocketAddr, (Handle, bool)>,
    /// The connections that its peers have opened.
    accepted: BTreeSet<Handle>,
    /// Calls that wait for their connection, or for room on it.
    waiting: VecDeque<(u32, SocketAddr, Vec<u8>)>,
    streams: BTreeMap<Handle, Stream>,
    /// Streams that may have work to do.
    due: BTreeSet<Handle>,
    news: Vec<CallEvent>,
}

impl Streamed {
    pub(super) fn listen(
        stack: &mut Stack,
        now: Instant,
        local: SocketAddr,
        backlog: u32,
    ) -> Result<Streamed, RequestError> {
        Ok(Streamed {
            listener: stack.listen(now, local, backlog)?,
            connections: BTreeMap::new(),
            accepted: BTreeSet::new(),
            waiting: VecDeque::new(),
            streams: BTreeMap::new(),
            due: BTreeSet::new(),
            news: Vec::new(),
        })
    }

    pub(super) fn owns(&self, handle: Handle) -> bool {
        self.listener == handle
            || self.accepted.contains(&handle)
            || self.streams.contains_key(&handle)
            || self
                .connections
                .values()
                .any(|(connection, _)| *connection == handle)
    }

    /// Opens the connection for calls to this peer.
    pub(super) fn connect(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        peer: SocketAddr,
    ) -> Result<(), RequestError> {
        if let Entry::Vacant(place) = self.connections.entry(peer) {
            place.insert((stack.connect(now, peer, None)?, false));
        }
        Ok(())
    }

    /// Accepts a call, which begins when there is room for it.
    pub(super) fn call(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        (call, peer): (u32, SocketAddr),
        message: Vec<u8>,
    ) -> Result<(), RequestError> {
        self.connect(stack, now, peer)?;
        self.waiting.push_back((call, peer, message));
        self.open_waiting(stack, now);
        Ok(())
    }

    /// Replies to a call, or ends the stream if it has no reply.
    pub(super) fn answer(&mut self, stream: Handle, to: Option<(usize, MessageId)>, reply: Vec<u8>) {
        if let Some(of) = self.streams.get_mut(&stream) {
            (of.whose, of.outgoing, of.is_whole) = (Whose::Peer(to), reply, true);
            self.due.insert(stream);
        }
    }

    pub(super) fn note(&mut self, stack: &mut Stack, now: Instant, handle: Handle, notice: Notice) {
        if let Notice::Accepted(child) = notice {
            stack.accept(handle);
            if handle == self.listener {
                self.accepted.insert(child);
            } else {
                self.enter(child, (Whose::Peer(None), stack.peer(handle)), None);
            }
        } else if let Some(stream) = self.streams.get_mut(&handle) {
            stream.has_ended |= notice == Notice::Eof;
            self.attend(stack, now, handle);
            self.end_stream(stack, handle, notice);
        } else {
            self.note_connection(stack, handle, notice);
        }
        self.open_waiting(stack, now);
    }

    fn end_stream(&mut self, stack: &mut Stack, handle: Handle, notice: Notice) {
        let why = match notice {
            Notice::Closed => "failed: its stream was closed".to_owned(),
            Notice::Failed(errno) => format!("failed: its stream failed: {errno}"),
            _ => return,
        };
        stack.release(handle);
        if let Some(Stream { whose: Whose::Call(Some(call)), .. }) = self.streams.remove(&handle) {
            self.news.push(CallEvent::Failed(call, why));
        }
    }

    fn note_connection(&mut self, stack: &mut Stack, handle: Handle, notice: Notice) {
        let mut own = self.connections.iter_mut();
        let own = own.find(|(_, (connection, _))| *connection == handle);
        let why = match notice {
            Notice::Connected => {
                let _ = own.map(|(_, (_, is_open))| *is_open = true);
                return;
            }
            Notice::Closed => "failed: its connection was closed".to_owned(),
            Notice::Failed(errno) => format!("failed: its connection failed: {errno}"),
            _ => return,
        };
        let peer = own.map(|(peer, _)| *peer);
        stack.release(handle);
        self.accepted.remove(&handle);
        let Some(peer) = peer else { return };
        self.connections.remove(&peer);
        let (failed, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<VecDeque<_>, _>(|(_, to, _)| *to == peer);
        self.waiting = waiting;
        let failed = failed
            .into_iter()
            .map(|(call, ..)| CallEvent::Failed(call, why.clone()));
        self.news.extend(failed);
    }

    fn open_waiting(&mut self, stack: &mut Stack, now: Instant) {
        for (call, peer, message) in std::mem::take(&mut self.waiting) {
            let opened = match self.connections.get(&peer) {
                Some((connection, true)) => stack.open_stream(now, *connection, Direction::Both),
                _ => Ok(None),
            };
            match opened {
                Ok(Some(stream)) => {
                    self.enter(stream, (Whose::Call(Some(call)), Some(peer)), Some(message));
                    self.attend(stack, now, stream);
                }
                Ok(None) | Err(RequestError::WouldBlock) => self.waiting.push_back((call, peer, message)),
                Err(error) => self
                    .news
                    .push(CallEvent::Failed(call, format!("was refused: {error}"))),
            }
        }
    }

    fn enter(
        &mut self,
        handle: Handle,
        (whose, peer): (Whose, Option<SocketAddr>),
        message: Option<Vec<u8>>,
    ) {
        let stream = Stream {
            whose,
            peer,
            is_whole: message.is_some(),
            is_closed: false,
            has_ended: false,
            outgoing: message.unwrap_or_default(),
            sent: 0,
            came: Vec::new(),
        };
        self.streams.insert(handle, stream);
        self.due.insert(handle);
    }

    /// Returns the events since the last call of this function.
    pub(super) fn work(&mut self, stack: &mut Stack, now: Instant) -> Vec<CallEvent> {
        for handle in std::mem::take(&mut self.due) {
            self.attend(stack, now, handle);
        }
        std::mem::take(&mut self.news)
    }

    /// Writes as much to a stream as there is room for, and reads its incoming data.
    fn attend(&mut self, stack: &mut Stack, now: Instant, handle: Handle) {
        let Some(stream) = self.streams.get_mut(&handle) else {
            return;
        };
        while stream.sent < stream.outgoing.len() {
            // If the stack refuses the data, a notice gives the reason.
            match stack.send(now, handle, &stream.outgoing[stream.sent..]) {
                Ok(0) | Err(_) => break,
                Ok(taken) => stream.sent += taken,
            }
        }
        let has_sent = stream.is_whole && stream.sent == stream.outgoing.len();
        if has_sent && !std::mem::replace(&mut stream.is_closed, true) {
            stack.close(now, handle);
        }
        let mut buffer = [0; CHUNK];
        while let Ok(count @ 1..) = stack.recv(now, handle, &mut buffer) {
            stream.came.extend_from_slice(&buffer[..count]);
        }
        if !stream.has_ended || stack.readable(handle) > 0 {
            return;
        }
        stream.has_ended = false;
        let came = std::mem::take(&mut stream.came);
        match &mut stream.whose {
            Whose::Call(call) => self
                .news
                .extend(call.take().map(|call| CallEvent::Replied(call, came))),
            Whose::Peer(_) => self.news.push(CallEvent::Called(handle, stream.peer, came)),
        }
    }

    /// Closes the connections that it has opened.
    pub(super) fn close(&self, stack: &mut Stack, now: Instant) {
        for (connection, _) in self.connections.values() {
            stack.close(now, *connection);
        }
    }

    /// Returns the number of its calls in progress.
    pub(super) fn count(&self) -> usize {
        let own = |stream: &&Stream| matches!(stream.whose, Whose::Call(Some(_)));
        self.waiting.len() + self.streams.values().filter(own).count()
    }

    /// Returns true if it has released all that it opened.
    pub(super) fn is_closed(&self) -> bool {
        self.connections.is_empty() && self.streams.is_empty() && self.waiting.is_empty()
    }

    pub(super) fn handle_of(&self, call: u32) -> Option<Handle> {
        self.find(Whose::Call(Some(call)))
    }

    pub(super) fn handle_for(&self, wanted: (usize, MessageId)) -> Option<Handle> {
        self.find(Whose::Peer(Some(wanted)))
    }

    fn find(&self, whose: Whose) -> Option<Handle> {
        let mut streams = self.streams.iter();
        streams
            .find(|(_, stream)| stream.whose == whose)
            .map(|(handle, _)| *handle)
    }
}
