//! Opening and closing: socket, bind, listen, accept, connect, shutdown, close.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hawser_engine::Handle;
use hawser_ir::abi::OPT_FAST_OPEN;

use super::errno::{EAGAIN, EALREADY, EBADF, EINPROGRESS, EINVAL, EISCONN, ENOTCONN, EOPNOTSUPP};
use super::{
    Arguments, CallError, CallResult, Kernel, Misuse, PORT, Socket, SocketRole, block, done, fail,
    unsupported,
};
use crate::script::run::symbols::{self, field, number};
use crate::script::syntax::tree::Expression;

const SOCK_STREAM: i64 = 1;
const SOCK_NONBLOCK: i64 = 0o4000;
const IPPROTO_TCP: i64 = 6;
/// EPROTONOSUPPORT.
const NO_PROTOCOL: u32 = 93;

impl Kernel {
    pub(super) fn socket(&mut self, arguments: &Arguments<'_>) -> CallResult {
        let kind = arguments.number(1)?;
        let protocol = arguments.optional(2)?.unwrap_or(IPPROTO_TCP);
        let stream = kind & 0xf == SOCK_STREAM;
        if stream && !matches!(protocol, 0 | IPPROTO_TCP) {
            return fail(NO_PROTOCOL);
        }
        if !stream {
            return unsupported("sockets other than SOCK_STREAM");
        }
        let fd = self.new_fd(arguments);
        self.sockets
            .insert(fd, Socket::new(SocketRole::Fresh, kind & SOCK_NONBLOCK != 0));
        done(fd)
    }

    /// Returns the descriptor that the script expects, or the lowest free one. As in packetdrill, descriptors
    /// are names local to the script: a reused one refers to the new socket.
    pub(super) fn new_fd(&self, arguments: &Arguments<'_>) -> i64 {
        let free = |fd: &i64| !self.sockets.contains_key(fd) && !self.pollers.contains_key(fd);
        arguments.expected().or_else(|| (3..).find(free)).unwrap_or(3)
    }

    pub(super) fn bind(&mut self, arguments: &Arguments<'_>) -> CallResult {
        let address = self.address(arguments.get(1)?, self.config.local)?;
        let Some(socket) = self.sockets.get_mut(&arguments.number(0)?) else {
            return fail(EBADF);
        };
        if socket.bound.is_some() {
            return fail(EINVAL);
        }
        socket.bound = Some(address);
        done(0)
    }

    pub(super) fn listen(&mut self, arguments: &Arguments<'_>) -> CallResult {
        let backlog = arguments.optional(1)?.unwrap_or(1).clamp(0, 65_535) as u32;
        let fd = arguments.number(0)?;
        let Some(socket) = self.sockets.get(&fd) else {
            return fail(EBADF);
        };
        let local = socket.bound.unwrap_or(SocketAddr::new(self.config.local, PORT));
        match socket.role {
            SocketRole::Listener(_) => return done(0),
            SocketRole::Connection(_) => return fail(EINVAL),
            SocketRole::Fresh => {}
        }
        let options = self.first_options(fd);
        match self.stack.listen_with(self.now, local, backlog, &options) {
            Ok(handle) => {
                self.set_role(fd, SocketRole::Listener(handle));
                self.listening = Some(local.port());
                done(0)
            }
            Err(error) => fail(error.errno().0),
        }
    }

    pub(super) fn accept(&mut self, arguments: &Arguments<'_>) -> CallResult {
        let fd = arguments.number(0)?;
        let Some(socket) = self.sockets.get(&fd) else {
            return fail(EBADF);
        };
        let SocketRole::Listener(listener) = socket.role else {
            return fail(EINVAL);
        };
        let waits = !socket.nonblocking;
        let flags = if arguments.call.name == "accept4" {
            arguments.optional(3)?.unwrap_or(0)
        } else {
            0
        };
        let Some(child) = self.queues.get_mut(&listener).and_then(|queue| queue.pop_front()) else {
            return block(waits, EAGAIN);
        };
        self.stack.accept(listener);
        let inherited = self
            .sockets
            .get(&fd)
            .map(|socket| (socket.options.clone(), socket.abortive));
        let mut socket = Socket::new(SocketRole::Connection(child), flags & SOCK_NONBLOCK != 0);
        socket.connect_reported = true;
        (socket.options, socket.abortive) = inherited.unwrap_or_default();
        let new = self.new_fd(arguments);
        self.sockets.insert(new, socket);
        self.current = Some(child);
        done(new)
    }

    pub(super) fn connect(&mut self, arguments: &Arguments<'_>, stage: &mut u64) -> CallResult {
        let fd = arguments.number(0)?;
        let Some(socket) = self.sockets.get(&fd) else {
            return fail(EBADF);
        };
        let waits = !socket.nonblocking;
        let handle = match socket.role {
            SocketRole::Listener(_) => return fail(EISCONN),
            SocketRole::Connection(handle) => handle,
            SocketRole::Fresh => {
                let fast = self.chose(fd, IPPROTO_TCP, "TCP_FASTOPEN_CONNECT") != 0;
                let handle = match self.begin_to_connect(fd, arguments.get(1)?, fast)? {
                    Ok(handle) => handle,
                    Err(errno) => return fail(errno),
                };
                *stage = 1;
                // The first written data goes with the SYN, which waits for it.
                return if self.fast_open_room(handle) > 0 {
                    done(0)
                } else {
                    block(waits, EINPROGRESS)
                };
            }
        };
        let state = self.connections.entry(handle).or_default();
        if let Some(error) = state.error.take() {
            return fail(error.0);
        }
        if state.over && !state.connected {
            return fail(ENOTCONN);
        }
        if !state.connected {
            return match *stage {
                0 if !waits => fail(EALREADY),
                _ => block(waits, EALREADY),
            };
        }
        match self
            .sockets
            .get_mut(&fd)
            .map(|socket| std::mem::replace(&mut socket.connect_reported, true))
        {
            Some(false) => done(0),
            _ => fail(EISCONN),
        }
    }

    /// Begins to connect a socket that is neither connected nor listening. Returns its connection or an
    /// errno. `fast` selects Fast Open.
    pub(super) fn begin_to_connect(
        &mut self,
        fd: i64,
        address: &Expression,
        fast: bool,
    ) -> Result<Result<Handle, u32>, CallError> {
        if fast && matches!(address, Expression::Word(name) if symbols::constant(name) == Some(0)) {
            return Ok(Err(EOPNOTSUPP));
        }
        let remote = self.address(address, self.config.remote)?;
        let mut options = self.first_options(fd);
        options.retain(|(option, _)| *option != OPT_FAST_OPEN);
        if fast {
            options.push((OPT_FAST_OPEN, 1));
        }
        let bound = self.sockets.get(&fd).and_then(|socket| socket.bound);
        let handle = match self.stack.connect_with(self.now, remote, bound, &options) {
            Ok(handle) => handle,
            Err(error) => return Ok(Err(error.errno().0)),
        };
        self.connecting = self.stack.local(handle).map(|local| (local, remote));
        self.connections.entry(handle).or_default();
        self.current = Some(handle);
        self.set_role(fd, SocketRole::Connection(handle));
        Ok(Ok(handle))
    }

    /// Returns the maximum number of bytes for which a SYN waits, or 0 if none waits.
    pub(super) fn fast_open_room(&self, handle: Handle) -> u64 {
        self.info_of(handle)
            .number("fast_open_room")
            .and_then(|room| u64::try_from(room).ok())
            .unwrap_or(0)
    }

    pub(super) fn shutdown(&mut self, arguments: &Arguments<'_>) -> CallResult {
        let (fd, how) = (arguments.number(0)?, arguments.number(1)?);
        if !(0..=2).contains(&how) {
            return fail(EINVAL);
        }
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return fail(EBADF);
        };
        let SocketRole::Connection(handle) = socket.role else {
            return fail(ENOTCONN);
        };
        let state = self.connections.get(&handle).cloned().unwrap_or_default();
        if state.over || !state.connected {
            return fail(ENOTCONN);
        }
        socket.shut_read |= how != 1;
        socket.shut_write |= how != 0;
        if how != 0 {
            self.stack.close(self.now, handle);
        }
        done(0)
    }

    /// Implements close. As in Linux and RFC 9293, 3.6 (SHLD-3), unread bytes turn a close into an abort.
    pub(super) fn close(&mut self, arguments: &Arguments<'_>) -> CallResult {
        let fd = arguments.number(0)?;
        if self.pollers.remove(&fd).is_some() {
            return done(0);
        }
        let Some(socket) = self.sockets.remove(&fd) else {
            return fail(EBADF);
        };
        self.pollers.values_mut().for_each(|poller| poller.forget(fd));
        match socket.role {
            SocketRole::Fresh => {}
            SocketRole::Listener(handle) => {
                for child in self.queues.remove(&handle).unwrap_or_default() {
                    self.stack.release(child);
                }
                self.stack.close(self.now, handle);
                self.stack.release(handle);
            }
            SocketRole::Connection(handle) => {
                let unread = self.stack.readable(handle) > 0;
                if socket.abortive || unread {
                    self.stack.abort(self.now, handle);
                } else {
                    self.stack.close(self.now, handle);
                }
                self.stack.release(handle);
            }
        }
        done(0)
    }

    fn set_role(&mut self, fd: i64, role: SocketRole) {
        self.sockets.entry(fd).and_modify(|socket| socket.role = role);
    }

    /// Parses an address argument; `...` is the usual address.
    fn address(&self, expression: &Expression, usual: IpAddr) -> Result<SocketAddr, CallError> {
        if *expression == Expression::Anything {
            return Ok(SocketAddr::new(usual, PORT));
        }
        if let Expression::Word(name) = expression
            && symbols::constant(name) == Some(0)
        {
            return unsupported("connect() to AF_UNSPEC");
        }
        let port = field(expression, "sin_port").or(field(expression, "sin6_port"));
        let port = port.map(number).transpose()?.unwrap_or(i64::from(PORT));
        let port = u16::try_from(port).map_err(|_| Misuse::Port)?;
        let address = field(expression, "sin_addr").or(field(expression, "sin6_addr"));
        let ip = match address {
            None | Some(Expression::Anything) => usual,
            Some(Expression::Apply(_, arguments)) => match arguments.first() {
                Some(Expression::Text(text, _)) => text.parse().map_err(|_| Misuse::Address(text.clone()))?,
                _ => return Err(Misuse::AddressForm.into()),
            },
            Some(Expression::Word(name)) if name == "INADDR_ANY" => match usual {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            },
            Some(_) => return Err(Misuse::AddressForm.into()),
        };
        Ok(SocketAddr::new(ip, port))
    }
}
