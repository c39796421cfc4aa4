//! Reading and writing. The bytes are a pattern of their sequence numbers, which makes wrong data
//! recognisable.

use hawser_ir::abi::{OPT_CORK, OPT_FAST_OPEN};

use super::errno::{EAGAIN, EALREADY, EBADF, EFAULT, EINPROGRESS, ENOTCONN, EPIPE};
use super::{
    Arguments, CallAnswer, CallError, CallProgress, CallResult, Connection, Kernel, Misuse, SocketRole,
    block, done, fail, unsupported,
};
use crate::script::run::symbols::{field, number};
use crate::script::run::system::System;
use crate::script::syntax::tree::Expression;
use crate::script::wire::pattern;

const IPPROTO_TCP: i64 = 6;
const MSG_OOB: i64 = 1;
const MSG_PEEK: i64 = 2;
const MSG_DONTWAIT: i64 = 0x40;
const MSG_EOR: i64 = 0x80;
const MSG_WAITALL: i64 = 0x100;
const MSG_ERRQUEUE: i64 = 0x2000;
const MSG_MORE: i64 = 0x8000;
const MSG_ZEROCOPY: i64 = 0x400_0000;
const MSG_FASTOPEN: i64 = 0x2000_0000;
/// Flags that the runner does not support, with their names.
const BEYOND: [(i64, &str); 2] = [(MSG_OOB, "MSG_OOB"), (MSG_EOR, "MSG_EOR")];
/// The maximum number of bytes that one call reads or writes here.
const MAX_CALL_BYTES: u64 = 1 << 26;
/// The maximum number of bytes passed to the stack at a time.
const PIECE: usize = 1 << 16;

impl Kernel {
    pub(super) fn read(&mut self, arguments: &Arguments<'_>, stage: &mut u64) -> CallResult {
        let transfer = TransferProgress::from_arguments(arguments)?;
        let Some(socket) = self.sockets.get(&arguments.number(0)?) else {
            return fail(EBADF);
        };
        let waits = !socket.nonblocking && transfer.flags & MSG_DONTWAIT == 0;
        if transfer.flags & MSG_ERRQUEUE != 0 {
            let handle = self.handle_of(arguments.number(0)?);
            return self.read_errors(handle, arguments);
        }
        let SocketRole::Connection(handle) = socket.role else {
            return fail(ENOTCONN);
        };
        let shut = socket.shut_read;
        if transfer.bad_buffer {
            return fail(EFAULT);
        }
        let readable = self.stack.readable(handle) as u64;
        if readable > 0 && transfer.flags & MSG_PEEK != 0 {
            return done(readable.min(transfer.len) as i64);
        }
        let all = transfer.flags & MSG_WAITALL != 0;
        if readable > 0 && transfer.len > *stage {
            let differs = self.take(handle, (transfer.len - *stage).min(readable), stage)?;
            if differs.is_some() || *stage == transfer.len || !all {
                let differs = differs.or_else(|| self.control_differs(arguments, handle));
                return Ok(CallProgress::Done(CallAnswer {
                    value: *stage as i64,
                    errno: 0,
                    differs,
                }));
            }
        }
        let state = self.connections.entry(handle).or_default();
        if transfer.len == *stage || (*stage > 0 && (state.eof || state.over || !all)) {
            return done(*stage as i64);
        }
        if let (false, Some(error)) = (shut, state.error) {
            state.error = None;
            return fail(error.0);
        }
        match () {
            () if shut || state.eof || (state.over && state.connected) => done(0),
            () if !state.connected && state.over => fail(ENOTCONN),
            () => block(waits, EAGAIN),
        }
    }

    /// Reads bytes from the stack and compares them with the peer's. Returns the difference.
    fn take(
        &mut self,
        handle: hawser_engine::Handle,
        mut len: u64,
        stage: &mut u64,
    ) -> Result<Option<String>, CallError> {
        let isn = self
            .stack
            .peer(handle)
            .and_then(|peer| self.peer_isns.get(&peer).copied());
        let mut buffer = vec![0; PIECE];
        while len > 0 {
            let part = len.min(PIECE as u64) as usize;
            let count = self.stack.recv(self.now, handle, &mut buffer[..part]);
            let count = count.map_err(Misuse::Stack)?;
            if count == 0 {
                break;
            }
            let state = self.connections.entry(handle).or_default();
            let first = isn.map(|isn| isn.wrapping_add(1).wrapping_add(state.taken as u32));
            state.taken += count as u64;
            *stage += count as u64;
            len -= count as u64;
            let wrong = first.and_then(|first| {
                let mut bytes = buffer[..count].iter().zip(0_u32..);
                bytes
                    .find(|(byte, i)| **byte != pattern(first.wrapping_add(*i)))
                    .map(|(_, i)| first.wrapping_add(i))
            });
            if let Some(at) = wrong {
                return Ok(Some(format!(
                    "the byte at sequence number {at} is not what the peer sent there"
                )));
            }
        }
        Ok(None)
    }

    /// Returns the difference in the control messages of a `recvmsg`. TCP_CM_INQ states the number of bytes
    /// left.
    fn control_differs(&self, arguments: &Arguments<'_>, handle: hawser_engine::Handle) -> Option<String> {
        if arguments.call.name != "recvmsg" {
            return None;
        }
        let Expression::Array(messages) = field(arguments.get(1).ok()?, "msg_control")? else {
            return None;
        };
        let expected = messages.iter().find_map(|message| {
            let is_inq =
                matches!(field(message, "cmsg_type"), Some(Expression::Word(name)) if name == "TCP_CM_INQ");
            field(message, "cmsg_data")
                .filter(|_| is_inq)
                .and_then(|data| number(data).ok())
        })?;
        let eof = self.connections.get(&handle).is_some_and(|state| state.eof);
        let left = self.stack.readable(handle) as i64;
        // As in Linux, the end counts as one more byte, which means that a read will not block.
        let left = if left == 0 && eof { 1 } else { left };
        (left != expected).then(|| format!("TCP_CM_INQ says {left}, not {expected}"))
    }

    pub(super) fn write(&mut self, arguments: &Arguments<'_>, stage: &mut u64) -> CallResult {
        let transfer = TransferProgress::from_arguments(arguments)?;
        let fd = arguments.number(0)?;
        let Some(socket) = self.sockets.get(&fd) else {
            return fail(EBADF);
        };
        let waits = !socket.nonblocking && transfer.flags & MSG_DONTWAIT == 0;
        let shut = socket.shut_write;
        // FreeBSD's sendto() connects a socket with TCP_FASTOPEN.
        let implied = self.is_for(System::FreeBsd) && self.chose(fd, IPPROTO_TCP, "TCP_FASTOPEN") != 0;
        let fast = transfer.flags & MSG_FASTOPEN != 0 || implied && arguments.call.name == "sendto";
        let handle = match socket.role {
            SocketRole::Connection(handle) if fast && !waits => {
                let state = self.connections.get(&handle);
                let known = state.is_some_and(|state| state.connected || state.over || state.error.is_some());
                if !known && self.fast_open_room(handle) == 0 {
                    return fail(EALREADY);
                }
                handle
            }
            SocketRole::Connection(handle) => handle,
            SocketRole::Listener(_) => return fail(EPIPE),
            SocketRole::Fresh if transfer.bad_buffer => return fail(EFAULT),
            SocketRole::Fresh if fast => match self.begin_to_connect(fd, transfer.address, true)? {
                Ok(handle) => handle,
                Err(errno) => return fail(errno),
            },
            SocketRole::Fresh => return fail(EPIPE),
        };
        let Connection { connected, over, error, .. } =
            self.connections.get(&handle).cloned().unwrap_or_default();
        if let (Some(error), true) = (error, *stage == 0 || !connected) {
            self.connections
                .entry(handle)
                .and_modify(|state| state.error = None);
            return fail(error.0);
        }
        if shut || over {
            return if *stage > 0 {
                done(*stage as i64)
            } else {
                fail(EPIPE)
            };
        }
        if transfer.bad_buffer {
            return fail(EFAULT);
        }
        if !connected {
            return self.write_early(fd, handle, (&transfer, waits), stage);
        }
        let more = transfer.flags & MSG_MORE != 0;
        let was_more = std::mem::replace(&mut self.connections.entry(handle).or_default().more, more);
        if more && !was_more {
            self.set_cork(handle, true);
        }
        if let Err(errno) = self.give(handle, transfer.len, stage) {
            return fail(errno);
        }
        if was_more && !more {
            self.set_cork(handle, false);
        }
        if *stage < transfer.len && waits {
            return Ok(CallProgress::Blocked);
        }
        if *stage > 0 {
            self.note_write(fd, handle, transfer.flags & MSG_ZEROCOPY != 0);
        }
        match *stage {
            0 if transfer.len > 0 => fail(EAGAIN),
            stage => done(stage as i64),
        }
    }
}

impl Kernel {
    /// Writes text until `len` bytes of the call are written or there is no more room. An error is an errno.
    fn give(&mut self, handle: hawser_engine::Handle, len: u64, stage: &mut u64) -> Result<(), u32> {
        while *stage < len {
            let part = (len - *stage).min(PIECE as u64) as u32;
            let written = self.connections.entry(handle).or_default().written as u32;
            let bytes: Vec<u8> = (1..=part).map(|i| pattern(written.wrapping_add(i))).collect();
            match self.stack.send(self.now, handle, &bytes) {
                Ok(0) => break,
                Ok(count) => {
                    self.connections.entry(handle).or_default().written += count as u64;
                    *stage += count as u64;
                }
                Err(error) => return Err(error.errno().0),
            }
        }
        Ok(())
    }

    /// Writes before the handshake is complete. Some data goes with a SYN that waits for it (RFC 7413). If
    /// the call blocks, the rest follows once the connection is open.
    fn write_early(
        &mut self,
        fd: i64,
        handle: hawser_engine::Handle,
        (transfer, waits): (&TransferProgress<'_>, bool),
        stage: &mut u64,
    ) -> CallResult {
        let room = self.fast_open_room(handle);
        if room > 0 && transfer.len == 0 {
            // The SYN need not wait for data.
            let _ = self.stack.set_option(self.now, handle, OPT_FAST_OPEN, 0);
        }
        let now = if waits {
            transfer.len
        } else {
            transfer.len.min(room)
        };
        if let Err(errno) = self.give(handle, now, stage) {
            return fail(errno);
        }
        match *stage {
            // FreeBSD's sendto() waits only for room in its buffer.
            stage if self.is_for(System::FreeBsd) && stage == transfer.len => done(stage as i64),
            _ if waits => Ok(CallProgress::Blocked),
            0 if transfer.flags & MSG_FASTOPEN != 0 => fail(EINPROGRESS),
            0 => fail(EAGAIN),
            stage => {
                self.note_write(fd, handle, transfer.flags & MSG_ZEROCOPY != 0);
                done(stage as i64)
            }
        }
    }

    /// Sets or releases a cork for one call, as MSG_MORE does. A program without corks ignores it.
    fn set_cork(&mut self, handle: hawser_engine::Handle, on: bool) {
        let _ = self.stack.set_option(self.now, handle, OPT_CORK, u64::from(on));
    }
}

/// The progress of a call that transfers bytes.
struct TransferProgress<'a> {
    len: u64,
    flags: i64,
    /// The destination, for MSG_FASTOPEN.
    address: &'a Expression,
    /// True if the call's buffer is NULL.
    bad_buffer: bool,
}

impl<'a> TransferProgress<'a> {
    fn from_arguments(arguments: &Arguments<'a>) -> Result<TransferProgress<'a>, CallError> {
        let (len, bad_buffer) = match arguments.call.name.as_str() {
            "readv" | "writev" => (vectors(arguments.get(1)?)?, false),
            "recvmsg" | "sendmsg" => {
                let message = arguments.get(1)?;
                let name = field(message, "msg_name");
                if !matches!(name, None | Some(Expression::Anything)) {
                    return unsupported("an address in a message");
                }
                let vector = field(message, "msg_iov").ok_or(Misuse::NoVector)?;
                (vectors(vector)?, false)
            }
            _ => {
                let null = matches!(arguments.get(1)?, Expression::Word(name) if name == "NULL");
                let len = u64::try_from(arguments.number(2)?).map_err(|_| Misuse::NegativeLength)?;
                (len, null && len > 0)
            }
        };
        if len > MAX_CALL_BYTES {
            return unsupported("a call about more than 64 MiB");
        }
        let flags = match arguments.call.name.as_str() {
            "recv" | "send" | "recvfrom" | "sendto" => arguments.optional(3)?.unwrap_or(0),
            "recvmsg" | "sendmsg" => arguments.optional(2)?.unwrap_or(0),
            _ => 0,
        };
        if let Some((_, name)) = BEYOND.iter().find(|(bit, _)| flags & bit != 0) {
            return unsupported(*name);
        }
        let address = match arguments.call.name.as_str() {
            "sendmsg" => field(arguments.get(1)?, "msg_name"),
            _ => arguments.get(4).ok(),
        };
        Ok(TransferProgress {
            len,
            flags,
            address: address.unwrap_or(&Expression::Anything),
            bad_buffer,
        })
    }
}

/// Returns the total length of `[{..., 1000}, {..., 500}]`.
fn vectors(expression: &Expression) -> Result<u64, CallError> {
    let Expression::Array(items) = expression else {
        return Err(Misuse::Buffers.into());
    };
    let mut sum: u64 = 0;
    for item in items {
        let len = match item {
            Expression::Struct(parts) => parts.get(1).map(number).transpose()?,
            _ => None,
        };
        let len = len.and_then(|len| u64::try_from(len).ok());
        sum = sum.saturating_add(len.ok_or(Misuse::Buffers)?);
    }
    Ok(sum)
}
