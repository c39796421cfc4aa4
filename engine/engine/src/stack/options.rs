//! Options of listeners and connections: those that an application sets through the program, and the few that
//! the engine itself implements.
//!
//! The numbers are the `OPT_…` constants of [`hawser_ir::abi`]. A program refuses an unknown option
//! (`ENOPROTOOPT`); a program without a shim for `option` refuses every option.

use hawser_ir::AppOp;
use hawser_ir::abi::{OPT_NOT_SENT, OPT_REUSE_PORT, OPT_SEND_BUFFER, Op};
use hawser_time::Instant;

use super::{RequestError, Stack};
use crate::chain::{Buffer, Cause};
use crate::state::{Errno, Handle, Slot};
use crate::tables::op_index;

/// The smallest [`OPT_SEND_BUFFER`] in bytes: two full Ethernet packets.
const MIN_SEND_BUFFER: u64 = 4096;

impl Stack {
    /// Sets an option of a listener or a connection: one of the `OPT_…` constants of [`hawser_ir::abi`], or a
    /// number that the program defines.
    ///
    /// An option that affects the first packet has to be set before the connection opens: see
    /// [`Stack::connect_with`]. Connections that a listener accepts begin with the listener's options.
    ///
    /// # Errors
    /// Returns [`RequestError::Refused`] with `ENOPROTOOPT` for an option that the program does not know, and
    /// with `EINVAL` for a value that it does not accept. For other errors see [`RequestError`]. On an error
    /// the option is unchanged.
    pub fn set_option(
        &mut self,
        now: Instant,
        handle: Handle,
        option: u32,
        value: u64,
    ) -> Result<(), RequestError> {
        let slot = self.context_of(handle)?;
        match option {
            OPT_SEND_BUFFER => self.set_send_buffer(slot, value),
            OPT_NOT_SENT => {
                self.chains.state.contexts.entry_mut(slot).not_sent = value;
                self.chains.state.bound_changed(slot);
                Ok(())
            }
            // Sharing of a port is decided when the port is taken.
            OPT_REUSE_PORT => Err(RequestError::Refused(Errno::INVALID)),
            _ => self.request_option(now, handle, slot, option, value),
        }
    }

    /// Sets the options that came with `listen` or `connect`. If one is refused, the new handle and its
    /// context are removed without a notice; no packet has left.
    pub(super) fn set_first_options(
        &mut self,
        now: Instant,
        handle: Handle,
        options: &[(u32, u64)],
    ) -> Result<(), RequestError> {
        let of_program = options.iter().filter(|(option, _)| *option != OPT_REUSE_PORT);
        let result = of_program
            .map(|(option, value)| self.set_option(now, handle, *option, *value))
            .find(Result::is_err);
        if result.is_some() {
            let context = self
                .chains
                .state
                .handles
                .close(handle)
                .and_then(|entry| entry.context);
            context.into_iter().for_each(|slot| self.chains.end_context(slot));
        }
        result.unwrap_or(Ok(()))
    }

    fn request_option(
        &mut self,
        now: Instant,
        handle: Handle,
        slot: Slot,
        option: u32,
        value: u64,
    ) -> Result<(), RequestError> {
        let parser = self.chains.tables.app[op_index(AppOp::Option)];
        let parser = parser.ok_or(RequestError::Refused(Errno::UNKNOWN_OPTION))?;
        let op = Op { option, arg: value, ..self.op(slot) };
        let cause = Cause { handle: Some(handle), ..Cause::application(Buffer::default()) };
        self.run(now, AppOp::Option, parser, &op, &cause)
            .map(drop)
            .map_err(RequestError::from)
    }

    /// Sets the size of the send buffer, at most the stack's limit for a connection.
    fn set_send_buffer(&mut self, slot: Slot, bytes: u64) -> Result<(), RequestError> {
        let state = &mut self.chains.state;
        let max = state.limits.tx_bytes;
        state.contexts.entry_mut(slot).send_buffer = bytes.clamp(MIN_SEND_BUFFER.min(max), max);
        state.bound_changed(slot);
        Ok(())
    }
}
