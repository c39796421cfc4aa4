//! Options of sockets and descriptors: setsockopt, getsockopt, fcntl, ioctl.

use hawser_engine::Handle;
use hawser_ir::abi::{
    OPT_CORK, OPT_FAST_OPEN, OPT_KEEPALIVE, OPT_KEEPALIVE_COUNT, OPT_KEEPALIVE_INTERVAL, OPT_LINGER,
    OPT_MAX_SEGMENT, OPT_NODELAY, OPT_OPEN_REPEATS, OPT_QUICK_ACK, OPT_RECEIVE_BUFFER, OPT_SEND_BUFFER,
    OPT_TOS, OPT_TTL, OPT_USER_TIMEOUT,
};
use hawser_time::nanos;

use super::errno::{EBADF, EINVAL, ENOPROTOOPT};
use super::{
    Arguments, CallAnswer, CallProgress, CallResult, Kernel, Misuse, Socket, SocketRole, done, fail,
    unsupported,
};
use crate::script::run::symbols::{constant, field, number};
use crate::script::run::system::System;
use crate::script::syntax::tree::Expression;

/// The levels of options.
const IP: i64 = 0;
const SOCKET: i64 = 1;
const TCP: i64 = 6;
const IPV6: i64 = 41;

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;
/// The default time to live (RFC 1700).
const USUAL_TTL: i64 = 64;

/// The effect of an option.
enum OptionEffect {
    /// The option is passed to the stack with this value.
    Stack(u32, u64),
    /// The option is stored without an effect.
    Kept,
}

impl Kernel {
    pub(super) fn setsockopt(&mut self, arguments: &Arguments<'_>) -> CallResult {
        let fd = arguments.number(0)?;
        let (level, name) = (arguments.number(1)?, arguments.number(2)?);
        if !self.sockets.contains_key(&fd) {
            return fail(EBADF);
        }
        let value = arguments.get(3)?;
        if (level, name) == (SOCKET, known("SO_LINGER")) {
            return self.set_linger(fd, value);
        }
        if (level, name) == (TCP, known("TCP_CONGESTION")) {
            return self.set_congestion(value);
        }
        let value = match number(value) {
            Err(_) if self.effect(fd, level, name, 0).is_none() => {
                return unsupported(format!("the option {}", shown(arguments)));
            }
            value => value?,
        };
        if value < 0 {
            return fail(EINVAL);
        }
        let Some(effect) = self.effect(fd, level, name, value) else {
            return unsupported(format!("the option {}", shown(arguments)));
        };
        if let (OptionEffect::Stack(option, value), Some(handle)) = (effect, self.handle_of(fd))
            && let Err(error) = self.stack.set_option(self.now, handle, option, value)
        {
            return match error.errno().0 {
                ENOPROTOOPT => unsupported(format!("the option {} of this program", shown(arguments))),
                errno => fail(errno),
            };
        }
        if let (true, Some(handle)) = ((level, name) == (TCP, known("TCP_NODELAY")), self.handle_of(fd))
            && self.chose(fd, TCP, "TCP_CORK") != 0
            && self.is_for(System::Linux)
        {
            // On Linux, TCP_NODELAY releases corked data once.
            let _ = self.stack.set_option(self.now, handle, OPT_CORK, 0);
            let _ = self.stack.set_option(self.now, handle, OPT_CORK, 1);
        }
        if let Some(socket) = self.sockets.get_mut(&fd) {
            socket.options.insert((level, name), value);
        }
        if let (true, Some(handle)) = (
            (level, name) == (SOCKET, known("SO_TIMESTAMPING")),
            self.handle_of(fd),
        ) {
            let state = self.connections.entry(handle).or_default();
            state.counted = state.written;
        }
        done(0)
    }

    /// Translates an option's value for the stack. Returns `None` for an unknown option.
    fn effect(&self, fd: i64, level: i64, name: i64, value: i64) -> Option<OptionEffect> {
        let number = value as u64;
        let is = |of: i64, option: &str| level == of && name == known(option);
        let seconds = |value: u64| value.saturating_mul(SECOND);
        let stack = |option, value| Some(OptionEffect::Stack(option, value));
        match () {
            () if is(SOCKET, "SO_KEEPALIVE") => {
                let idle = self.chosen(fd, TCP, "TCP_KEEPIDLE");
                let idle = idle.map_or(nanos(self.config.keepalive_idle), |idle| seconds(idle as u64));
                stack(OPT_KEEPALIVE, if value == 0 { 0 } else { idle })
            }
            () if is(TCP, "TCP_KEEPIDLE") => {
                let on = self
                    .sockets
                    .get(&fd)
                    .and_then(|s| s.options.get(&(SOCKET, known("SO_KEEPALIVE"))));
                match on {
                    Some(1..) => stack(OPT_KEEPALIVE, seconds(number)),
                    _ => Some(OptionEffect::Kept),
                }
            }
            () if is(TCP, "TCP_KEEPINTVL") => stack(OPT_KEEPALIVE_INTERVAL, seconds(number)),
            () if is(TCP, "TCP_KEEPCNT") => stack(OPT_KEEPALIVE_COUNT, number),
            // Holds until the connection is open; then TCP_USER_TIMEOUT applies again.
            () if is(TCP, "TCP_KEEPINIT") => match self.handle_of(fd) {
                None => stack(OPT_USER_TIMEOUT, seconds(number)),
                Some(_) => Some(OptionEffect::Kept),
            },
            () if is(TCP, "TCP_USER_TIMEOUT") => stack(OPT_USER_TIMEOUT, number.saturating_mul(MILLISECOND)),
            () if is(TCP, "TCP_NODELAY") => stack(OPT_NODELAY, u64::from(value != 0)),
            () if is(TCP, "TCP_CORK") => stack(OPT_CORK, u64::from(value != 0)),
            () if is(TCP, "TCP_QUICKACK") => stack(OPT_QUICK_ACK, u64::from(value != 0)),
            () if is(TCP, "TCP_MAXSEG") => stack(OPT_MAX_SEGMENT, number),
            () if is(TCP, "TCP_FASTOPEN") => stack(OPT_FAST_OPEN, number.min(u16::MAX.into())),
            () if is(TCP, "TCP_SYNCNT") => stack(OPT_OPEN_REPEATS, number),
            // Linux allocates twice the requested size. The other half is for its own bookkeeping.
            () if is(SOCKET, "SO_SNDBUF") || is(SOCKET, "SO_SNDBUFFORCE") => {
                stack(OPT_SEND_BUFFER, number.saturating_mul(2))
            }
            () if is(SOCKET, "SO_RCVBUF") || is(SOCKET, "SO_RCVBUFFORCE") => {
                stack(OPT_RECEIVE_BUFFER, number)
            }
            () if is(IP, "IP_TOS") || is(IPV6, "IPV6_TCLASS") => stack(OPT_TOS, number),
            () if (is(IP, "IP_TTL") || is(IPV6, "IPV6_UNICAST_HOPS")) && value > 0 => stack(OPT_TTL, number),
            () if KEPT.iter().any(|(of, option)| is(*of, option)) => Some(OptionEffect::Kept),
            () => None,
        }
    }

    /// Returns the value of an option that was set.
    fn chosen(&self, fd: i64, level: i64, option: &str) -> Option<i64> {
        self.sockets
            .get(&fd)?
            .options
            .get(&(level, known(option)))
            .copied()
    }

    /// Returns the value of an option, or 0 if it was not set.
    pub(super) fn chose(&self, fd: i64, level: i64, option: &str) -> i64 {
        self.chosen(fd, level, option).unwrap_or(0)
    }

    /// Returns the options that a socket has before it opens, for the stack.
    pub(super) fn first_options(&self, fd: i64) -> Vec<(u32, u64)> {
        let Some(socket) = self.sockets.get(&fd) else {
            return Vec::new();
        };
        let effects = socket.options.iter().filter_map(|((level, name), value)| {
            match self.effect(fd, *level, *name, *value)? {
                OptionEffect::Stack(option, value) => Some((option, value)),
                OptionEffect::Kept => None,
            }
        });
        effects.collect()
    }

    fn set_linger(&mut self, fd: i64, value: &Expression) -> CallResult {
        let on = field(value, "onoff").map(number).transpose()?;
        let time = field(value, "linger").map(number).transpose()?;
        let (Some(on), Some(time)) = (on, time) else {
            return Err(Misuse::Linger.into());
        };
        self.sockets
            .entry(fd)
            .and_modify(|socket| socket.abortive = on != 0 && time == 0);
        if on != 0
            && time > 0
            && let Some(handle) = self.handle_of(fd)
        {
            let time = (time as u64).saturating_mul(SECOND);
            if self.stack.set_option(self.now, handle, OPT_LINGER, time).is_err() {
                return unsupported("the option SO_LINGER of this program");
            }
        }
        done(0)
    }

    /// Sets the congestion control. A program has a fixed set of algorithms, so others cannot be set.
    fn set_congestion(&mut self, value: &Expression) -> CallResult {
        let name = match value {
            Expression::Text(name, _) => name.as_str(),
            Expression::Array(items) => match items.as_slice() {
                [Expression::Text(name, _)] => name.as_str(),
                _ => "",
            },
            _ => "",
        };
        match self.table.constant(&format!("congestion_{name}")) {
            Some(_) => done(0),
            None => unsupported(format!("the congestion control `{name}` in this program")),
        }
    }

    pub(super) fn getsockopt(&mut self, arguments: &Arguments<'_>) -> CallResult {
        let fd = arguments.number(0)?;
        let (level, name) = (arguments.number(1)?, arguments.number(2)?);
        let Some(socket) = self.sockets.get(&fd) else {
            return fail(EBADF);
        };
        let kept = socket.options.get(&(level, name)).copied();
        let connection = match socket.role {
            SocketRole::Connection(handle) => Some(handle),
            SocketRole::Fresh | SocketRole::Listener(_) => None,
        };
        let value = if (level, name) == (SOCKET, known("SO_ERROR")) {
            let error = connection.and_then(|handle| self.connections.get_mut(&handle)?.error.take());
            error.map_or(0, |error| i64::from(error.0))
        } else if (level, name) == (TCP, known("TCP_MAXSEG")) {
            let sent = connection.and_then(|_| self.info().number("tcpi_snd_mss"));
            kept.or(sent).unwrap_or(536)
        } else if self.is_for(System::Linux)
            && level == SOCKET
            && [known("SO_SNDBUF"), known("SO_RCVBUF")].contains(&name)
        {
            // Linux doubles the requested size for its own bookkeeping, and reports the doubled value.
            kept.unwrap_or(65_536).saturating_mul(2)
        } else if level == SOCKET && name == known("SO_TYPE") {
            1
        } else {
            let value = kept.or_else(|| self.usual(level, name)).unwrap_or(0);
            let is_buffer = (level, name) == (SOCKET, known("SO_RCVBUF"));
            match connection.filter(|_| is_buffer && self.is_for(System::FreeBsd)) {
                Some(handle) => self.in_segments(handle, value),
                None => value,
            }
        };
        let expected = arguments.get(3)?;
        let differs = match expected {
            Expression::Anything => None,
            expected => {
                let expected = number(expected)?;
                (expected != value).then(|| format!("the option's value is {value}, not {expected}"))
            }
        };
        Ok(CallProgress::Done(CallAnswer { value: 0, errno: 0, differs }))
    }

    /// Rounds the receive buffer of an open connection to whole segments, as FreeBSD does.
    fn in_segments(&self, handle: Handle, bytes: i64) -> i64 {
        let info = self.info_of(handle);
        let knows_peer = info
            .number("tcpi_state")
            .is_some_and(|state| state != known("TCP_SYN_SENT"));
        let segment = info.number("maxseg").filter(|size| knows_peer && *size > 0);
        segment.map_or(bytes, |size| (bytes as u64).next_multiple_of(size as u64) as i64)
    }

    /// Returns the default value of an option.
    fn usual(&self, level: i64, name: i64) -> Option<i64> {
        let is = |of: i64, option: &str| level == of && name == known(option);
        let in_force = |param: &str, unit: u64| Some((self.config.param(param)? / unit) as i64);
        match () {
            () if is(TCP, "TCP_KEEPIDLE") => Some(self.config.keepalive_idle.as_secs() as i64),
            () if is(IP, "IP_TTL") || is(IPV6, "IPV6_UNICAST_HOPS") => Some(USUAL_TTL),
            () if is(SOCKET, "SO_SNDBUF") => self.config.send_buffer.map(|bytes| bytes as i64),
            () => {
                let (_, shown) = self.table.options().iter().find(|(option, _)| {
                    let of = if option.starts_with("SO_") { SOCKET } else { TCP };
                    is(of, option)
                })?;
                in_force(&shown.param, shown.unit)
            }
        }
    }

    /// Restores the options that held only for the handshake, once a connection is open.
    pub(super) fn handshake_over(&mut self, handle: Handle) {
        let of = |socket: &Socket| socket.role == SocketRole::Connection(handle);
        let Some((&fd, _)) = self.sockets.iter().find(|(_, socket)| of(socket)) else {
            return;
        };
        if self.chosen(fd, TCP, "TCP_KEEPINIT").is_some() {
            let limit = self.chose(fd, TCP, "TCP_USER_TIMEOUT") as u64;
            let limit = limit.saturating_mul(MILLISECOND);
            let _ = self.stack.set_option(self.now, handle, OPT_USER_TIMEOUT, limit);
        }
    }

    pub(super) fn fcntl(&mut self, arguments: &Arguments<'_>) -> CallResult {
        let (fd, command) = (arguments.number(0)?, arguments.number(1)?);
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return fail(EBADF);
        };
        let nonblock = known("O_NONBLOCK");
        match command {
            3 => done(known("O_RDWR") | if socket.nonblocking { nonblock } else { 0 }),
            4 => {
                socket.nonblocking = arguments.number(2)? & nonblock != 0;
                done(0)
            }
            1 | 2 => done(0),
            other => unsupported(format!("fcntl() with the command {other}")),
        }
    }

    pub(super) fn ioctl(&mut self, arguments: &Arguments<'_>) -> CallResult {
        let (fd, request) = (arguments.number(0)?, arguments.number(1)?);
        let Some(handle) = self.handle_of(fd) else {
            return fail(if self.sockets.contains_key(&fd) {
                EINVAL
            } else {
                EBADF
            });
        };
        let value = match request {
            _ if request == known("SIOCINQ") => self.stack.readable(handle) as i64,
            _ if request == known("SIOCOUTQ") => self.info().number("siocoutq").unwrap_or(-1),
            _ if request == known("SIOCOUTQNSD") => self.info().number("siocoutqnsd").unwrap_or(-1),
            _ => return unsupported(format!("ioctl() with the request {request:#x}")),
        };
        if value < 0 {
            return unsupported("the length of the send queue of this program");
        }
        let expected = number(arguments.get(2)?)?;
        let differs = (expected != value).then(|| format!("the value is {value}, not {expected}"));
        Ok(CallProgress::Done(CallAnswer { value: 0, errno: 0, differs }))
    }
}

/// Options that are stored and reported without an effect.
const KEPT: &[(i64, &str)] = &[
    (SOCKET, "SO_REUSEADDR"),
    (SOCKET, "SO_REUSEPORT"),
    (SOCKET, "SO_MARK"),
    (SOCKET, "SO_PRIORITY"),
    (SOCKET, "SO_OOBINLINE"),
    (SOCKET, "SO_RCVLOWAT"),
    (SOCKET, "SO_BUSY_POLL"),
    (SOCKET, "SO_ZEROCOPY"),
    (SOCKET, "SO_TIMESTAMPING"),
    (IP, "IP_FREEBIND"),
    (IP, "IP_MTU_DISCOVER"),
    (IPV6, "IPV6_V6ONLY"),
    (IPV6, "IPV6_MTU_DISCOVER"),
    (TCP, "TCP_FASTOPEN_CONNECT"),
    (TCP, "TCP_INQ"),
    (TCP, "TCP_NOTSENT_LOWAT"),
];

/// Returns a constant that is known to be in the table.
fn known(name: &str) -> i64 {
    constant(name).unwrap_or(-1)
}

/// Shows an option as the script wrote it.
fn shown(arguments: &Arguments<'_>) -> String {
    match arguments.list.get(2) {
        Some(Expression::Word(name)) => name.clone(),
        Some(Expression::Number(value)) => value.to_string(),
        _ => "that the script sets".into(),
    }
}
