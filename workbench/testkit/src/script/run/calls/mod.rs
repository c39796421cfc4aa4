//! System calls, on top of the stack's requests.
//!
//! * `mod`: sockets, their states, and the dispatch of calls
//! * `open`: socket, bind, listen, accept, connect, close, shutdown
//! * `data`: reading and writing
//! * `options`: setsockopt, getsockopt, fcntl, ioctl
//! * `events`: poll and epoll
//! * `errors`: error queues
//! * `error`: errors of making a call

mod data;
mod error;
mod errors;
mod events;
mod open;
mod options;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use hawser_engine::{Errno, Handle, Notice, Stack};
use hawser_time::Instant;

use super::config::Config;
use super::info::Info;
use super::symbols::{constant, number};
use super::system::System;
use super::table::Table;
use crate::script::syntax::tree::{Call, Expression};
pub(crate) use error::CallError;
use error::Misuse;
use errors::ErrorQueue;
use events::Poller;

/// The port of a script's sockets on either side unless the script states another.
pub(crate) const PORT: u16 = 8080;

/// The progress of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallProgress {
    /// The call returned.
    Done(CallAnswer),
    /// The call blocks.
    Blocked,
}

/// The result of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallAnswer {
    pub(crate) value: i64,
    /// The errno; 0 if the call succeeded.
    pub(crate) errno: u32,
    /// A further difference from the script, such as an option's value or an event.
    pub(crate) differs: Option<String>,
}

/// The result of making a call.
pub(crate) type CallResult = Result<CallProgress, CallError>;

fn done(value: i64) -> CallResult {
    Ok(CallProgress::Done(CallAnswer { value, ..CallAnswer::default() }))
}

fn fail(errno: u32) -> CallResult {
    Ok(CallProgress::Done(CallAnswer { value: -1, errno, differs: None }))
}

fn unsupported<T>(what: impl Into<String>) -> Result<T, CallError> {
    Err(CallError::Unsupported(what.into()))
}

/// Blocks the call, or fails with `errno` on a non-blocking socket.
fn block(waits: bool, errno: u32) -> CallResult {
    if waits {
        Ok(CallProgress::Blocked)
    } else {
        fail(errno)
    }
}

pub(crate) mod errno {
    //! The errno values that calls themselves return.
    pub(crate) const EBADF: u32 = 9;
    pub(crate) const EAGAIN: u32 = 11;
    pub(crate) const EFAULT: u32 = 14;
    pub(crate) const EEXIST: u32 = 17;
    pub(crate) const EINVAL: u32 = 22;
    pub(crate) const EPIPE: u32 = 32;
    pub(crate) const EOPNOTSUPP: u32 = 95;
    pub(crate) const ENOPROTOOPT: u32 = 92;
    pub(crate) const EISCONN: u32 = 106;
    pub(crate) const ENOTCONN: u32 = 107;
    pub(crate) const EALREADY: u32 = 114;
    pub(crate) const EINPROGRESS: u32 = 115;
    pub(crate) const ENOENT: u32 = 2;
}

/// The role of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketRole {
    /// Neither connected nor listening.
    Fresh,
    Listener(Handle),
    Connection(Handle),
}

/// A socket of the script.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) role: SocketRole,
    pub(super) nonblocking: bool,
    pub(super) bound: Option<SocketAddr>,
    pub(super) shut_read: bool,
    pub(super) shut_write: bool,
    /// True if the completion of a connect has been reported.
    pub(super) connect_reported: bool,
    /// True if SO_LINGER is on with a time of zero, so that close sends a reset.
    pub(super) abortive: bool,
    /// The options set, by level and name.
    pub(super) options: BTreeMap<(i64, i64), i64>,
}

impl Socket {
    fn new(role: SocketRole, nonblocking: bool) -> Socket {
        Socket {
            role,
            nonblocking,
            bound: None,
            shut_read: false,
            shut_write: false,
            connect_reported: false,
            abortive: false,
            options: BTreeMap::new(),
        }
    }
}

/// The state of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Connection {
    pub(super) connected: bool,
    pub(super) eof: bool,
    /// True if the connection has ended, possibly with an error.
    pub(super) over: bool,
    /// An error that has not been reported.
    pub(super) error: Option<Errno>,
    /// The numbers of bytes read and written.
    pub(super) taken: u64,
    pub(super) written: u64,
    /// True if the last write had MSG_MORE.
    pub(super) more: bool,
    pub(super) errors: ErrorQueue,
    /// The number of bytes written when counting began for timestamps.
    pub(super) counted: u64,
    /// Counts of new data to read and of new room to write, for edge-triggered waiting.
    pub(super) read_news: u64,
    pub(super) write_news: u64,
}

/// The application's side: the stack and the script's descriptors.
pub(crate) struct Kernel {
    pub(crate) stack: Stack,
    pub(crate) now: Instant,
    /// The system for which the script was written.
    system: Option<System>,
    /// The time when the script began.
    began: Instant,
    pub(crate) config: Config,
    pub(super) table: Table,
    pub(super) sockets: BTreeMap<i64, Socket>,
    pub(super) connections: BTreeMap<Handle, Connection>,
    pub(super) queues: BTreeMap<Handle, VecDeque<Handle>>,
    pub(super) pollers: BTreeMap<i64, Poller>,
    /// The peer's initial sequence number for each remote address. The received pattern begins there.
    pub(crate) peer_isns: BTreeMap<SocketAddr, u32>,
    /// The connection that a call used last.
    pub(crate) current: Option<Handle>,
    /// The last observable variables of a connection, kept in case it ends.
    last: (Option<Handle>, BTreeMap<String, u64>),
    /// The port of the latest listen.
    pub(crate) listening: Option<u16>,
    /// The addresses of the latest connect, from and to; the consumer takes them.
    pub(crate) connecting: Option<(SocketAddr, SocketAddr)>,
}

impl Kernel {
    pub(crate) fn new(
        stack: Stack,
        config: &Config,
        table: &Table,
        (now, system): (Instant, Option<System>),
    ) -> Kernel {
        Kernel {
            stack,
            now,
            system,
            began: now,
            config: config.clone(),
            table: table.clone(),
            sockets: BTreeMap::new(),
            connections: BTreeMap::new(),
            queues: BTreeMap::new(),
            pollers: BTreeMap::new(),
            peer_isns: BTreeMap::new(),
            current: None,
            last: (None, BTreeMap::new()),
            listening: None,
            connecting: None,
        }
    }

    /// Processes the stack's notices.
    pub(crate) fn take_notices(&mut self) -> bool {
        let (mut any, mut connected) = (false, Vec::new());
        while let Some((handle, notice)) = self.stack.next_notice() {
            any = true;
            let connection = self.connections.entry(handle).or_default();
            match notice {
                Notice::Connected => {
                    connection.connected = true;
                    connection.write_news += 1;
                    connected.push(handle);
                }
                Notice::Accepted(child) => {
                    self.queues.entry(handle).or_default().push_back(child);
                    let child_state = self.connections.entry(child).or_default();
                    child_state.connected = true;
                    child_state.write_news += 1;
                    self.current = Some(child);
                    self.connections.entry(handle).or_default().read_news += 1;
                }
                Notice::Readable => connection.read_news += 1,
                Notice::Writable => connection.write_news += 1,
                Notice::Eof => {
                    connection.eof = true;
                    connection.read_news += 1;
                }
                Notice::Closed | Notice::Failed(_) => {
                    connection.over = true;
                    connection.read_news += 1;
                    connection.write_news += 1;
                    if let Notice::Failed(errno) = notice {
                        connection.error = Some(errno);
                    }
                }
                Notice::Reset(_) | Notice::Stopped(_) | Notice::Message(_) => {}
            }
        }
        connected
            .into_iter()
            .for_each(|handle| self.handshake_over(handle));
        any
    }

    /// Makes a call or continues it. `stage` is 0 at first; later values belong to the call.
    pub(crate) fn call(&mut self, call: &Call, stage: &mut u64) -> CallResult {
        let arguments = Arguments { list: &call.arguments, call };
        match call.name.as_str() {
            "socket" => self.socket(&arguments),
            "bind" => self.bind(&arguments),
            "listen" => self.listen(&arguments),
            "accept" | "accept4" => self.accept(&arguments),
            "connect" => self.connect(&arguments, stage),
            "close" => self.close(&arguments),
            "shutdown" => self.shutdown(&arguments),
            "read" | "recv" | "recvfrom" | "readv" | "recvmsg" => self.read(&arguments, stage),
            "write" | "send" | "sendto" | "writev" | "sendmsg" => self.write(&arguments, stage),
            "fcntl" => self.fcntl(&arguments),
            "ioctl" => self.ioctl(&arguments),
            "setsockopt" => self.setsockopt(&arguments),
            "getsockopt" => self.getsockopt(&arguments),
            "poll" => self.poll(&arguments, stage),
            "epoll_create" | "epoll_create1" => self.epoll_create(&arguments),
            "epoll_ctl" => self.epoll_ctl(&arguments),
            "epoll_wait" | "epoll_pwait" => self.epoll_wait(&arguments, stage),
            name => unsupported(format!("the call {name}()")),
        }
    }

    /// Returns the cookies that scripts know in advance.
    pub(crate) fn cookies(&self) -> &BTreeMap<String, String> {
        self.table.cookies()
    }

    /// Returns TCP_INFO of the current connection.
    pub(crate) fn info(&self) -> Info<'_> {
        Info {
            stack: &self.stack,
            table: &self.table,
            handle: self.current,
            last: &self.last,
        }
    }

    /// Returns TCP_INFO of a connection.
    fn info_of(&self, handle: Handle) -> Info<'_> {
        Info { handle: Some(handle), ..self.info() }
    }

    /// Saves the values behind TCP_INFO for a connection that ends.
    pub(crate) fn remember(&mut self) {
        let Some(handle) = self.current else { return };
        let seen = |name: &String| Some((name.clone(), self.stack.observe(handle, name)?));
        let values: BTreeMap<String, u64> = self.table.observed().iter().filter_map(seen).collect();
        if !values.is_empty() {
            self.last = (Some(handle), values);
        }
    }

    /// Returns whether a socket listens at a port.
    pub(crate) fn listens(&self, port: u16) -> bool {
        self.sockets.values().any(|socket| match socket.role {
            SocketRole::Listener(handle) => {
                self.stack.local(handle).is_some_and(|local| local.port() == port)
            }
            SocketRole::Fresh | SocketRole::Connection(_) => false,
        })
    }

    /// Counts the script's sockets in a state, by its name in TCP_INFO's constants. Handshakes without a
    /// socket count with their listener.
    pub(crate) fn count_in(&self, state: &str) -> usize {
        let wanted = constant(state);
        let count = |socket: &Socket| match socket.role {
            SocketRole::Fresh => usize::from(state == "TCP_CLOSE"),
            SocketRole::Listener(handle) if state == "TCP_SYN_RECV" => {
                let embryonic = self.info_of(handle).number("embryonic");
                embryonic.map_or(0, |count| count as usize)
            }
            SocketRole::Listener(_) => usize::from(state == "TCP_LISTEN"),
            SocketRole::Connection(handle) => {
                usize::from(self.info_of(handle).number("tcpi_state") == wanted)
            }
        };
        self.sockets.values().map(count).sum()
    }

    /// Ends the connections in a state.
    pub(crate) fn drop_in(&mut self, state: &str) {
        let handles: Vec<Handle> = self.connections.keys().copied().collect();
        for handle in handles {
            if self.info_of(handle).number("tcpi_state") == constant(state) {
                self.stack.abort(self.now, handle);
            }
        }
    }

    /// Returns whether the script was written for a system.
    fn is_for(&self, system: System) -> bool {
        self.system == Some(system)
    }

    /// Returns the connection of a descriptor, if it has one.
    fn handle_of(&self, fd: i64) -> Option<Handle> {
        match self.sockets.get(&fd)?.role {
            SocketRole::Connection(handle) | SocketRole::Listener(handle) => Some(handle),
            SocketRole::Fresh => None,
        }
    }
}

/// The arguments of a call.
pub(super) struct Arguments<'a> {
    list: &'a [Expression],
    pub(super) call: &'a Call,
}

impl<'a> Arguments<'a> {
    /// Returns the i-th argument.
    fn get(&self, i: usize) -> Result<&'a Expression, Misuse> {
        self.list
            .get(i)
            .ok_or_else(|| Misuse::TooFewArguments { call: self.call.name.clone() })
    }

    /// Returns the i-th argument as a number.
    fn number(&self, i: usize) -> Result<i64, Misuse> {
        number(self.get(i)?).map_err(|error| Misuse::Argument {
            position: i + 1,
            call: self.call.name.clone(),
            error,
        })
    }

    /// Returns the i-th argument as a number, or `None` if it is `...` or missing.
    fn optional(&self, i: usize) -> Result<Option<i64>, Misuse> {
        match self.list.get(i) {
            None | Some(Expression::Anything) => Ok(None),
            Some(_) => self.number(i).map(Some),
        }
    }

    /// Returns the descriptor that the script expects as the result.
    fn expected(&self) -> Option<i64> {
        number(&self.call.result).ok().filter(|fd| *fd >= 0)
    }
}
