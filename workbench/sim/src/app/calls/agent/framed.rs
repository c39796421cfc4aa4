//! Calls over a program that offers only streams: a socket of messages frames them on connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use hawser_engine::messages::{Call, Key, MessageError, MessageOptions, Messages, RequestId, Socket};
use hawser_engine::{Handle, Notice, Stack};
use hawser_time::Instant;

use crate::app::calls::content::MessageId;

/// The maximum length of a message: the default size of a stack's send buffer for a message.
const LONGEST: usize = 4 << 20;

/// The port range for sockets that choose a port themselves; the simulator has no such sockets.
const EPHEMERAL: RangeInclusive<u16> = 49152..=65535;

/// The state of an agent whose messages are framed on connections.
pub(super) struct Framed {
    pub(super) messages: Messages,
    pub(super) socket: Socket,
    pub(super) under_way: BTreeMap<u32, Call>,
    pub(super) calls: BTreeMap<Call, u32>,
    /// Requests whose replies have not been handed over: the caller, and the message to which the reply
    /// belongs.
    pub(super) serving: BTreeMap<RequestId, (usize, MessageId)>,
    pub(super) changed: Vec<Key>,
    /// True once it has closed its connections because no calls were left.
    pub(super) is_done: bool,
}

impl Framed {
    /// Binds a socket of messages at `local`. The flow limits the number of calls, so the socket does not.
    pub(super) fn bind(stack: &mut Stack, now: Instant, local: SocketAddr) -> Result<Framed, MessageError> {
        let options = MessageOptions {
            size: LONGEST,
            deadline: None,
            calls: usize::MAX,
            requests: usize::MAX,
            connections: usize::MAX,
            unsent: usize::MAX,
            ..MessageOptions::default()
        };
        let mut messages = Messages::new(EPHEMERAL);
        messages.take_changed(&mut Vec::new());
        let socket = messages.bind(stack, now, local, &options)?;
        Ok(Framed {
            messages,
            socket,
            under_way: BTreeMap::new(),
            calls: BTreeMap::new(),
            serving: BTreeMap::new(),
            changed: Vec::new(),
            is_done: false,
        })
    }

    pub(super) fn note(&mut self, stack: &mut Stack, now: Instant, handle: Handle, notice: Notice) {
        self.messages.note(stack, now, handle, notice);
    }

    pub(super) fn owns(&self, handle: Handle) -> bool {
        self.messages.owns(handle)
    }

    /// Opens the connections that calls to these peers will use, or returns the error.
    pub(super) fn connect(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        peers: impl Iterator<Item = SocketAddr>,
    ) -> Result<(), MessageError> {
        for peer in peers {
            self.messages.connect(stack, now, self.socket, peer)?;
        }
        Ok(())
    }

    /// Returns the number of its calls in progress.
    pub(super) fn count(&self) -> usize {
        self.under_way.len()
    }

    /// Returns true if it has no calls in progress and no connections.
    pub(super) fn is_closed(&self) -> bool {
        self.under_way.is_empty() && self.messages.connection_count() == 0
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.messages.next_deadline()
    }

    pub(super) fn handle_of(&self, call: u32) -> Option<Handle> {
        self.messages.handle_of(*self.under_way.get(&call)?)
    }

    pub(super) fn handle_for(&self, wanted: (usize, MessageId)) -> Option<Handle> {
        let (request, _) = self.serving.iter().find(|(_, serving)| **serving == wanted)?;
        self.messages.handle_for(*request)
    }
}
