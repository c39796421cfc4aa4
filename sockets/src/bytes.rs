//! An ordered byte stream over any program.
//!
//! If a program's connections have streams (`open`), a byte stream is the first of them, and it has its
//! connection to itself. Both end together, and the peer's other streams are refused. For any other program
//! the byte stream is the connection.

use std::io;

use hawser_engine::{Direction, Handle, Notice};

use crate::endpoint::{Endpoint, HandleState};

impl Endpoint {
    /// Returns the byte stream of a connection that this end opened, once the connection is open. If it is a
    /// stream within the connection, it has its own handle, and closing it ends the connection as well.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] while the connection is not open or the peer allows no stream,
    /// or the reason for which the connection failed.
    pub fn byte_stream(&mut self, connection: Handle) -> io::Result<Handle> {
        if !self.connected(connection)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if !self.stack.has_streams() {
            return Ok(connection);
        }
        let stream = self.open_stream(connection, Direction::Both)?;
        self.join(connection, stream);
        Ok(stream)
    }

    /// Takes the next byte stream of a listener. Connections without a stream hold up no other. If more
    /// connections wait than the backlog allows, the one that has waited longest without a stream is aborted,
    /// or the newest if all of them have one.
    ///
    /// # Errors
    /// As [`Endpoint::accept`].
    pub fn accept_stream(&mut self, listener: Handle) -> io::Result<Handle> {
        if !self.stack.has_streams() {
            return self.accept(listener);
        }
        let state = self.state(listener)?;
        let nothing = state.nothing_waits();
        let mut waiting = self.connections[&listener].waiting.iter();
        let has_stream = |connection: &Handle| self.has_waiting(*connection);
        let at = waiting.position(has_stream).ok_or(nothing)?;
        let connection = self.state(listener)?.waiting.remove(at);
        let connection = connection.ok_or(io::ErrorKind::WouldBlock)?;
        let stream = self.accept(connection)?;
        self.join(connection, stream);
        Ok(stream)
    }

    fn has_waiting(&self, connection: Handle) -> bool {
        let state = self.connections.get(&connection);
        state.is_some_and(|state| !state.waiting.is_empty())
    }

    /// Dedicates the connection to this stream.
    fn join(&mut self, connection: Handle, stream: Handle) {
        if let Some(state) = self.connections.get_mut(&stream) {
            state.connection = Some(connection);
            state.parent = None;
        }
        let Some(state) = self.connections.get_mut(&connection) else {
            return;
        };
        (state.is_joined, state.parent) = (true, None);
        let others = std::mem::take(&mut state.waiting);
        others.into_iter().for_each(|other| self.abort(other));
    }

    /// Returns the handle that has a byte stream's options, variables and addresses: the stream's connection
    /// or its own.
    pub(crate) fn connection_of(&self, handle: Handle) -> Handle {
        let state = self.connections.get(&handle);
        state.and_then(|state| state.connection).unwrap_or(handle)
    }

    /// Records a new connection of a listener, or a new stream of a connection.
    pub(crate) fn note_accepted(&mut self, parent: Handle, child: Handle) {
        let state = HandleState { connected: true, parent: Some(parent), ..HandleState::default() };
        self.connections.insert(child, state);
        let Some(state) = self.connections.get_mut(&parent) else {
            return;
        };
        if state.is_joined {
            return self.abort(child);
        }
        state.waiting.push_back(child);
        if let Some(listener) = state.parent {
            // A task that waits for a byte stream may have one now.
            self.note_change(listener);
        } else if state.backlog.is_some() && self.stack.has_streams() {
            self.limit_waiting(parent);
        }
    }

    /// Limits the number of waiting connections, because connections with streams wait here to be accepted.
    fn limit_waiting(&mut self, listener: Handle) {
        // The program no longer counts the connection.
        self.stack.accept(listener);
        let state = &self.connections[&listener];
        if state.waiting.len() as u64 <= u64::from(state.backlog.unwrap_or(u32::MAX)) {
            return;
        }
        let idle = |connection: &&Handle| !self.has_waiting(**connection);
        let last = state.waiting.iter().find(idle).or(state.waiting.back());
        if let Some(connection) = last.copied() {
            self.drop_waiting(listener, connection);
        }
    }

    /// Drops a connection that ended before it was accepted, if only its streams would be of use.
    pub(crate) fn forget_ended(&mut self, handle: Handle, notice: Notice) {
        if !matches!(notice, Notice::Closed | Notice::Failed(_)) || !self.stack.has_streams() {
            return;
        }
        let parent = self.connections.get(&handle).and_then(|state| state.parent);
        let is_listener = |parent: &Handle| {
            self.connections
                .get(parent)
                .is_some_and(|parent| parent.backlog.is_some())
        };
        if let Some(listener) = parent.filter(is_listener) {
            self.drop_waiting(listener, handle);
        }
    }

    fn drop_waiting(&mut self, listener: Handle, connection: Handle) {
        if let Some(state) = self.connections.get_mut(&listener) {
            state.waiting.retain(|other| *other != connection);
        }
        self.abort(connection);
    }
}
