//! Streams within a connection.
//!
//! A stream has its own context beside its connection's, and its own handle. Bytes are sent and read on that
//! handle, and [`Stack::close`] ends sending, as on a connection. Streams that the peer opens are reported as
//! [`Notice::Accepted`](crate::Notice::Accepted) on the connection's handle.

use hawser_ir::AppOp;
use hawser_ir::abi::Op;
use hawser_time::Instant;

use super::{RequestError, Stack};
use crate::chain::{Buffer, Cause};
use crate::state::{GivenUp, Handle, Slot};
use crate::tables::op_index;

/// The ends that send on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Both ends.
    Both,
    /// Only the end that opened it.
    One,
}

impl Stack {
    /// Returns true if the program's connections have streams.
    #[must_use]
    pub fn has_streams(&self) -> bool {
        self.chains.tables.app[op_index(AppOp::Open)].is_some()
    }

    /// Opens a stream within a connection. Returns `None` if the peer allows no more streams now or there is
    /// no room; [`Notice::Writable`](crate::Notice::Writable) on the connection reports when to try again.
    ///
    /// # Errors
    /// See [`RequestError`]; no state remains. Returns [`RequestError::Unsupported`] if the program's
    /// connections have no streams.
    pub fn open_stream(
        &mut self,
        now: Instant,
        connection: Handle,
        direction: Direction,
    ) -> Result<Option<Handle>, RequestError> {
        let parser = self.chains.tables.app[op_index(AppOp::Open)];
        let parser = parser.ok_or(RequestError::Unsupported(AppOp::Open))?;
        let owner = self.context_of(connection)?;
        self.calls += 1;
        let op = Op {
            sub: self.calls,
            arg: u64::from(direction == Direction::One),
            ..self.op(owner)
        };
        let flow = self.chains.state.contexts.entry(owner).flow;
        let cause = |handle| Cause { flow, handle: Some(handle), ..Cause::application(Buffer::default()) };
        let opened = self.open_beside(owner, cause, |stack, cause| {
            stack.run(now, AppOp::Open, parser, &op, cause)
        })?;
        Ok(opened.map(|(handle, _)| handle))
    }

    /// Gives up the sent bytes of a stream that have not arrived, and sends no more. The peer's application
    /// receives the reason, a number that the two applications define.
    ///
    /// # Errors
    /// Returns [`RequestError::Unsupported`], [`RequestError::BadHandle`] or [`RequestError::NotConnected`].
    pub fn reset(&mut self, now: Instant, handle: Handle, reason: u64) -> Result<(), RequestError> {
        let slot = self.to_give_up(handle, AppOp::Reset)?;
        self.chains.state.give_up(slot, GivenUp::reset(reason));
        self.deliver(now, slot);
        Ok(())
    }

    /// Stops reading a stream, and asks the peer not to send more. The peer's application receives the
    /// reason, a number that the two applications define.
    ///
    /// # Errors
    /// As [`Stack::reset`].
    pub fn stop(&mut self, now: Instant, handle: Handle, reason: u64) -> Result<(), RequestError> {
        let slot = self.to_give_up(handle, AppOp::Stop)?;
        self.chains.state.give_up(slot, GivenUp::stop(reason));
        self.deliver(now, slot);
        Ok(())
    }

    /// Returns true if this end sends on a stream: its program has created a sending unit for it.
    #[must_use]
    pub fn sends_on(&self, handle: Handle) -> bool {
        let slot = self.context_of(handle);
        slot.is_ok_and(|slot| self.chains.state.contexts.entry(slot).units.has_sending())
    }

    fn to_give_up(&self, handle: Handle, kind: AppOp) -> Result<Slot, RequestError> {
        let is_known = self.chains.tables.app[op_index(kind)].is_some();
        is_known.then_some(()).ok_or(RequestError::Unsupported(kind))?;
        self.context_of(handle)
    }
}
