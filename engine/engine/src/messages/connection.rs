//! A connection that carries frames, and its opening.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use hawser_ir::abi::OPT_NODELAY;
use hawser_time::Instant;

use super::frame::{Decoder, FrameKind};
use crate::{Errno, Handle, RequestError, Stack};

/// Makes small frames leave at once, if the program has that option.
const FIRST_OPTIONS: [(u32, u64); 1] = [(OPT_NODELAY, 1)];

/// A connection that carries frames.
#[derive(Debug)]
pub(super) struct FramedConnection {
    pub(super) socket: u64,
    pub(super) handle: Handle,
    pub(super) peer: SocketAddr,
    /// True if the peer opened it.
    pub(super) is_accepted: bool,
    /// True if it can be written to.
    pub(super) is_open: bool,
    /// True if it accepts no more calls: the frames in `outgoing` still leave, and received data is
    /// discarded.
    pub(super) is_closing: bool,
    /// True if the peer sends no more.
    pub(super) is_at_end: bool,
    /// True if it is among the connections that the socket reads from again when there is room.
    pub(super) is_paused: bool,
    pub(super) outgoing: VecDeque<OutgoingFrame>,
    /// The number of bytes of `outgoing` that the stack has not accepted.
    pub(super) unsent: usize,
    pub(super) incoming: Decoder,
    /// Received bytes that have not been decoded yet.
    pub(super) rest: Vec<u8>,
    /// Calls that wait for replies on this connection.
    pub(super) calls: BTreeSet<u64>,
    /// The peer's unanswered calls, by their numbers.
    pub(super) serving: BTreeMap<u64, u64>,
    /// The time of the last byte from the peer; `moved` is that of the last one in either direction.
    pub(super) received: Instant,
    pub(super) moved: Instant,
    /// The time of the next check.
    pub(super) due: Instant,
}

/// A frame on its way into the stack.
#[derive(Debug)]
pub(super) struct OutgoingFrame {
    pub(super) kind: FrameKind,
    pub(super) number: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) taken: usize,
}

/// Opens a listener, with small frames sent at once if the program supports that.
pub(super) fn listen(
    stack: &mut Stack,
    now: Instant,
    local: SocketAddr,
    backlog: u32,
) -> Result<Handle, RequestError> {
    match stack.listen_with(now, local, backlog, &FIRST_OPTIONS) {
        Err(RequestError::Refused(Errno::UNKNOWN_OPTION)) => stack.listen(now, local, backlog),
        opened => opened,
    }
}

pub(super) fn connect(
    stack: &mut Stack,
    now: Instant,
    peer: SocketAddr,
    local: SocketAddr,
) -> Result<Handle, RequestError> {
    let local = Some(SocketAddr::new(local.ip(), 0));
    match stack.connect_with(now, peer, local, &FIRST_OPTIONS) {
        Err(RequestError::Refused(Errno::UNKNOWN_OPTION)) => stack.connect(now, peer, local),
        opened => opened,
    }
}

impl FramedConnection {
    /// Returns true if no call or frame is in progress on it.
    pub(super) fn is_idle(&self) -> bool {
        let is_still = self.outgoing.is_empty() && self.calls.is_empty() && self.serving.is_empty();
        is_still && !self.incoming.is_within() && self.rest.is_empty()
    }

    /// Passes frames to the stack as far as it accepts them. Returns an error if the stack refuses for
    /// another reason than lack of room.
    pub(super) fn write(&mut self, stack: &mut Stack, now: Instant) -> Option<Errno> {
        while let Some(out) = self.outgoing.front_mut() {
            match stack.send(now, self.handle, &out.bytes[out.taken..]) {
                Ok(0) => return None,
                Ok(len) => {
                    out.taken += len;
                    self.unsent -= len;
                    self.moved = now;
                }
                Err(error) => return Some(error.errno()),
            }
            if out.taken == out.bytes.len() {
                self.outgoing.pop_front();
            }
        }
        None
    }
}
