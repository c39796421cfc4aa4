//! Whole messages: on a connection, and from an endpoint to any peer.
//!
//! An endpoint is a listener's handle. Each message that leaves it and each call that arrives has its own
//! handle. The handle is bound to one context, as a connection's is. Through it the application reads or
//! sends the reply, or aborts the message.

use std::net::SocketAddr;

use hawser_ir::AppOp;
use hawser_ir::abi::Op;
use hawser_time::Instant;

use super::request::op_of;
use super::{RequestError, Stack};
use crate::chain::{Buffer, Cause, Denied, InputOutcome};
use crate::state::{ANYBODY, Errno, FlowKey, Handle, Slot};
use crate::tables::op_index;

impl Stack {
    /// Sends a message from an endpoint, whose handle [`Stack::listen`] returned, to a peer's endpoint. The
    /// returned handle belongs to the message. [`Notice::Closed`](crate::Notice::Closed) on it reports that
    /// the peer has the message, and [`Notice::Failed`](crate::Notice::Failed) that it may not have it.
    /// [`Stack::abort`] gives the message up. Returns `None` if there is no room now or the program refused
    /// with `EAGAIN`; [`Notice::Writable`](crate::Notice::Writable) on the endpoint reports when to try
    /// again.
    ///
    /// # Errors
    /// See [`RequestError`]; no state remains. Returns [`RequestError::Unsupported`] if the program does not
    /// offer separate messages. Returns [`RequestError::WouldBlock`] while the message is longer than half of
    /// the bytes that all connections together may still hold for sending; no notice follows it.
    pub fn message(
        &mut self,
        now: Instant,
        endpoint: Handle,
        peer: SocketAddr,
        message: &[u8],
    ) -> Result<Option<Handle>, RequestError> {
        self.begin(now, AppOp::Message, endpoint, peer, message)
    }

    /// Calls a peer's endpoint: a [`Stack::message`] to which the peer replies with a message. The reply
    /// arrives on the returned handle ([`Stack::recv_message`]). The peer gets
    /// [`Notice::Accepted`](crate::Notice::Accepted) on the endpoint's handle; the accepted handle delivers
    /// the message and takes the reply ([`Stack::send_message`]).
    ///
    /// # Errors
    /// As [`Stack::message`].
    pub fn call(
        &mut self,
        now: Instant,
        endpoint: Handle,
        peer: SocketAddr,
        message: &[u8],
    ) -> Result<Option<Handle>, RequestError> {
        self.begin(now, AppOp::Call, endpoint, peer, message)
    }

    /// Opens a handle for a message of an endpoint and offers it to the program.
    fn begin(
        &mut self,
        now: Instant,
        kind: AppOp,
        endpoint: Handle,
        peer: SocketAddr,
        message: &[u8],
    ) -> Result<Option<Handle>, RequestError> {
        let parser = self.chains.tables.app[op_index(kind)].ok_or(RequestError::Unsupported(kind))?;
        let owner = self.context_of(endpoint)?;
        let bound = self.chains.state.contexts.entry(owner).flow;
        let bound = bound.filter(|flow| flow.remote == ANYBODY);
        let bound = bound.ok_or(RequestError::NotAnEndpoint)?.local;
        let (len, limits) = (message.len() as u64, &self.chains.state.limits);
        let (longest, held) = (
            limits.tx_bytes.min(u64::from(u32::MAX)),
            self.chains.state.tx_held,
        );
        if message.is_empty() {
            return Err(RequestError::MessageEmpty);
        }
        if len > longest {
            return Err(RequestError::MessageTooLong(longest));
        }
        if len > limits.tx_total.saturating_sub(held) / 2 {
            return Err(RequestError::WouldBlock);
        }
        let (source, remote, path_mtu) = self.route(bound.0, peer)?;
        let flow = FlowKey { local: (source, bound.1), remote };
        self.calls += 1;
        let buffer = Buffer::after(&mut self.last_buffer, message, &[]);
        let op = Op { path_mtu, addr: buffer.addr(), len, sub: self.calls, ..op_of(&flow) };
        let cause = |handle| Cause { flow: Some(flow), handle: Some(handle), ..Cause::application(buffer) };
        let begun = self.open_beside(owner, cause, |stack, cause| {
            stack.run(now, kind, parser, &op, cause)
        })?;
        Ok(begun.map(|(handle, slot)| {
            self.chains.state.contexts.entry_mut(slot).flow = Some(flow);
            handle
        }))
    }

    /// Opens a handle for the context that a request creates beside `owner`'s. Returns `None` if there is no
    /// room or the program refused with `EAGAIN`; the application of `owner` is then notified when it can try
    /// again.
    pub(super) fn open_beside<'a>(
        &mut self,
        owner: Slot,
        cause: impl FnOnce(Handle) -> Cause<'a>,
        run: impl FnOnce(&mut Stack, &Cause<'a>) -> Result<InputOutcome, Denied>,
    ) -> Result<Option<(Handle, Slot)>, RequestError> {
        let handle = self.chains.state.handles.open();
        let handle = handle.ok_or(RequestError::Limit("handles"))?;
        let outcome = run(self, &cause(handle));
        let context = self
            .chains
            .state
            .handles
            .get(handle)
            .and_then(|entry| entry.context);
        if let (Ok(_), Some(slot)) = (&outcome, context) {
            return Ok(Some((handle, slot)));
        }
        self.chains.state.handles.close(handle);
        match outcome {
            Ok(_) => Err(RequestError::NothingOpened),
            Err(Denied::NoRoom) => {
                self.chains.state.block(owner, true);
                Ok(None)
            }
            Err(Denied::Refused(Errno::AGAIN)) => {
                self.chains.state.put_off(owner);
                Ok(None)
            }
            Err(denied) => Err(denied.into()),
        }
    }

    /// Hands a whole message to the program, as one request. Returns false if there is no room now or the
    /// program refused with `EAGAIN`; a notice reports when to try again, as after [`Stack::send`].
    ///
    /// # Errors
    /// See [`RequestError`]. Returns [`RequestError::MessageTooLong`] if the message can never fit.
    pub fn send_message(
        &mut self,
        now: Instant,
        handle: Handle,
        message: &[u8],
    ) -> Result<bool, RequestError> {
        let parser = self.sends()?;
        let slot = self.context_of(handle)?;
        let (len, longest) = (message.len() as u64, self.chains.state.longest_message(slot));
        if message.is_empty() {
            return Err(RequestError::MessageEmpty);
        }
        if len > longest {
            return Err(RequestError::MessageTooLong(longest));
        }
        if !self.chains.state.room_for_message(slot, len) {
            self.chains.state.block(slot, false);
            return Ok(false);
        }
        let buffer = Buffer::after(&mut self.last_buffer, message, &[]);
        self.offer(now, (handle, slot), parser, buffer)
    }

    /// Moves the next message out: the bytes of a receiving unit of a stated size, once the program has
    /// delivered the last of them. Messages come in the order in which the program began to deliver them.
    /// Returns false if no message is complete. The program is notified afterwards.
    ///
    /// # Errors
    /// Returns [`RequestError::BadHandle`].
    pub fn recv_message(
        &mut self,
        now: Instant,
        handle: Handle,
        out: &mut Vec<u8>,
    ) -> Result<bool, RequestError> {
        let (_, unreported) = self.read(handle, |units, pages| {
            units.read_message(out, pages);
            out.len()
        })?;
        unreported.into_iter().for_each(|slot| self.deliver(now, slot));
        Ok(!out.is_empty())
    }
}
