//! Linux constants by name (from the headers of its user API), and the values of expressions.

use crate::script::syntax::tree::Expression;

/// The constants, in groups. Options that only FreeBSD has get its number plus 2^16, which avoids collisions
/// with Linux's. FreeBSD's names of states (TCPI_…) have Linux's numbers.
#[rustfmt::skip]
const CONSTANTS: &[(&str, i64)] = &[
    ("NULL", 0),
    ("AF_UNSPEC", 0), ("AF_INET", 2), ("AF_INET6", 10), ("PF_INET", 2), ("PF_INET6", 10),
    ("SOCK_STREAM", 1), ("SOCK_DGRAM", 2), ("SOCK_RAW", 3), ("SOCK_NONBLOCK", 0o4000), ("SOCK_CLOEXEC", 0o2000000),
    ("IPPROTO_IP", 0), ("IPPROTO_ICMP", 1), ("IPPROTO_TCP", 6), ("IPPROTO_UDP", 17), ("IPPROTO_IPV6", 41),
    ("IPPROTO_MPTCP", 262),
    ("SOL_IP", 0), ("SOL_SOCKET", 1), ("SOL_TCP", 6), ("SOL_IPV6", 41),
    ("SO_REUSEADDR", 2), ("SO_TYPE", 3), ("SO_ERROR", 4), ("SO_DONTROUTE", 5), ("SO_BROADCAST", 6),
    ("SO_SNDBUF", 7), ("SO_RCVBUF", 8), ("SO_KEEPALIVE", 9), ("SO_OOBINLINE", 10), ("SO_PRIORITY", 12),
    ("SO_LINGER", 13), ("SO_REUSEPORT", 15), ("SO_RCVLOWAT", 18), ("SO_SNDLOWAT", 19), ("SO_RCVTIMEO", 20),
    ("SO_SNDTIMEO", 21), ("SO_ACCEPTCONN", 30), ("SO_SNDBUFFORCE", 32), ("SO_RCVBUFFORCE", 33),
    ("SO_MARK", 36), ("SO_TIMESTAMPING", 37), ("SO_BUSY_POLL", 46), ("SO_MAX_PACING_RATE", 47),
    ("SO_INCOMING_CPU", 49), ("SO_ZEROCOPY", 60),
    ("IP_TOS", 1), ("IP_TTL", 2), ("IP_MTU_DISCOVER", 10), ("IP_RECVERR", 11), ("IP_MTU", 14), ("IP_FREEBIND", 15),
    ("IPV6_UNICAST_HOPS", 16),
    ("IP_PMTUDISC_DONT", 0), ("IP_PMTUDISC_WANT", 1), ("IP_PMTUDISC_DO", 2), ("IP_PMTUDISC_PROBE", 3),
    ("IPV6_RECVERR", 25), ("IPV6_V6ONLY", 26), ("IPV6_TCLASS", 67), ("IPV6_MTU_DISCOVER", 23),
    ("TCP_NODELAY", 1), ("TCP_MAXSEG", 2), ("TCP_CORK", 3), ("TCP_KEEPIDLE", 4), ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 6), ("TCP_SYNCNT", 7), ("TCP_LINGER2", 8), ("TCP_DEFER_ACCEPT", 9), ("TCP_WINDOW_CLAMP", 10),
    ("TCP_INFO", 11), ("TCP_QUICKACK", 12), ("TCP_CONGESTION", 13), ("TCP_MD5SIG", 14),
    ("TCP_THIN_LINEAR_TIMEOUTS", 16), ("TCP_USER_TIMEOUT", 18), ("TCP_FASTOPEN", 23), ("TCP_TIMESTAMP", 24),
    ("TCP_NOTSENT_LOWAT", 25), ("TCP_SAVE_SYN", 27), ("TCP_FASTOPEN_CONNECT", 30), ("TCP_ULP", 31),
    ("TCP_FASTOPEN_KEY", 33), ("TCP_FASTOPEN_NO_COOKIE", 34), ("TCP_ZEROCOPY_RECEIVE", 35), ("TCP_INQ", 36),
    ("TCP_CM_INQ", 36), ("TCP_TX_DELAY", 37),
    ("TCP_NOPUSH", 0x1_0004), ("TCP_NOOPT", 0x1_0008), ("TCP_REMOTE_UDP_ENCAPS_PORT", 0x1_0047), ("TCP_MAXRXTSHIFT", 0x1_0440),
    ("TCP_KEEPINIT", 0x1_0080), ("TCP_FUNCTION_BLK", 0x1_2000), ("TCP_RACK_PACE_RATE_SS", 0x1_0442),
    ("TCP_RACK_PACE_ALWAYS", 0x1_0443), ("TCP_RACK_PACE_MAX_SEG", 0x1_0444), ("IPV6_USE_MIN_MTU", 0x1_002a),
    ("O_RDONLY", 0), ("O_WRONLY", 1), ("O_RDWR", 2), ("O_NONBLOCK", 0o4000),
    ("F_GETFD", 1), ("F_SETFD", 2), ("F_GETFL", 3), ("F_SETFL", 4),
    ("SIOCINQ", 0x541b), ("FIONREAD", 0x541b), ("SIOCOUTQ", 0x5411), ("TIOCOUTQ", 0x5411), ("SIOCOUTQNSD", 0x894b),
    ("SHUT_RD", 0), ("SHUT_WR", 1), ("SHUT_RDWR", 2),
    ("MSG_OOB", 1), ("MSG_PEEK", 2), ("MSG_DONTROUTE", 4), ("MSG_CTRUNC", 8), ("MSG_TRUNC", 0x20),
    ("MSG_DONTWAIT", 0x40), ("MSG_EOR", 0x80), ("MSG_WAITALL", 0x100), ("MSG_NOSIGNAL", 0x4000),
    ("MSG_ERRQUEUE", 0x2000), ("MSG_MORE", 0x8000), ("MSG_ZEROCOPY", 0x400_0000), ("MSG_FASTOPEN", 0x2000_0000),
    ("POLLIN", 1), ("POLLPRI", 2), ("POLLOUT", 4), ("POLLERR", 8), ("POLLHUP", 16), ("POLLNVAL", 32),
    ("POLLRDNORM", 64), ("POLLWRNORM", 256), ("POLLRDHUP", 0x2000),
    ("EPOLLIN", 1), ("EPOLLPRI", 2), ("EPOLLOUT", 4), ("EPOLLERR", 8), ("EPOLLHUP", 16), ("EPOLLRDNORM", 64),
    ("EPOLLWRNORM", 256), ("EPOLLRDHUP", 0x2000), ("EPOLLEXCLUSIVE", 1 << 28), ("EPOLLONESHOT", 1 << 30),
    ("EPOLLET", 1 << 31),
    ("EPOLL_CTL_ADD", 1), ("EPOLL_CTL_DEL", 2), ("EPOLL_CTL_MOD", 3),
    ("TCP_ESTABLISHED", 1), ("TCP_SYN_SENT", 2), ("TCP_SYN_RECV", 3), ("TCP_FIN_WAIT1", 4), ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6), ("TCP_CLOSE", 7), ("TCP_CLOSE_WAIT", 8), ("TCP_LAST_ACK", 9), ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
    ("TCPI_ESTABLISHED", 1), ("TCPI_SYN_SENT", 2), ("TCPI_SYN_RECEIVED", 3), ("TCPI_FIN_WAIT_1", 4), ("TCPI_FIN_WAIT_2", 5),
    ("TCPI_TIME_WAIT", 6), ("TCPI_CLOSED", 7), ("TCPI_CLOSE_WAIT", 8), ("TCPI_LAST_ACK", 9), ("TCPI_LISTEN", 10),
    ("TCPI_CLOSING", 11),
    ("TCP_CA_Open", 0), ("TCP_CA_Disorder", 1), ("TCP_CA_CWR", 2), ("TCP_CA_Recovery", 3), ("TCP_CA_Loss", 4),
    ("SO_EE_ORIGIN_NONE", 0), ("SO_EE_ORIGIN_LOCAL", 1), ("SO_EE_ORIGIN_ICMP", 2), ("SO_EE_ORIGIN_ICMP6", 3),
    ("SO_EE_ORIGIN_TIMESTAMPING", 4), ("SO_EE_ORIGIN_ZEROCOPY", 5), ("SO_EE_CODE_ZEROCOPY_COPIED", 1),
    ("SCM_TIMESTAMPING", 37), ("SCM_TSTAMP_SND", 0), ("SCM_TSTAMP_SCHED", 1), ("SCM_TSTAMP_ACK", 2),
    ("SOF_TIMESTAMPING_TX_HARDWARE", 1), ("SOF_TIMESTAMPING_TX_SOFTWARE", 2), ("SOF_TIMESTAMPING_RX_HARDWARE", 4),
    ("SOF_TIMESTAMPING_RX_SOFTWARE", 8), ("SOF_TIMESTAMPING_SOFTWARE", 16), ("SOF_TIMESTAMPING_OPT_ID", 128),
    ("SOF_TIMESTAMPING_TX_SCHED", 256), ("SOF_TIMESTAMPING_TX_ACK", 512), ("SOF_TIMESTAMPING_OPT_TSONLY", 2048),
    ("TCPI_OPT_TIMESTAMPS", 1), ("TCPI_OPT_SACK", 2), ("TCPI_OPT_WSCALE", 4), ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_ECN_SEEN", 16), ("TCPI_OPT_SYN_DATA", 32),
];

/// errno values by name.
#[rustfmt::skip]
const ERRNOS: &[(&str, u32)] = &[
    ("EPERM", 1), ("ENOENT", 2), ("EINTR", 4), ("EIO", 5), ("EBADF", 9), ("EAGAIN", 11), ("EWOULDBLOCK", 11),
    ("ENOMEM", 12), ("EACCES", 13), ("EFAULT", 14), ("EBUSY", 16), ("EEXIST", 17), ("EINVAL", 22), ("EMFILE", 24),
    ("EPIPE", 32), ("ENOMSG", 42), ("EPROTO", 71), ("EOVERFLOW", 75), ("ENOTSOCK", 88), ("EDESTADDRREQ", 89), ("EMSGSIZE", 90),
    ("EPROTOTYPE", 91), ("ENOPROTOOPT", 92), ("EPROTONOSUPPORT", 93), ("ESOCKTNOSUPPORT", 94), ("EOPNOTSUPP", 95),
    ("EAFNOSUPPORT", 97), ("EADDRINUSE", 98), ("EADDRNOTAVAIL", 99), ("ENETDOWN", 100), ("ENETUNREACH", 101),
    ("ENETRESET", 102), ("ECONNABORTED", 103), ("ECONNRESET", 104), ("ENOBUFS", 105), ("EISCONN", 106),
    ("ENOTCONN", 107), ("ESHUTDOWN", 108), ("ETIMEDOUT", 110), ("ECONNREFUSED", 111), ("EHOSTDOWN", 112),
    ("EHOSTUNREACH", 113), ("EALREADY", 114), ("EINPROGRESS", 115), ("ECANCELED", 125),
];

/// Returns the value of a constant; errno names are constants, too.
pub(crate) fn constant(name: &str) -> Option<i64> {
    let found = CONSTANTS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| *value);
    found.or_else(|| errno(name).map(i64::from))
}

/// Returns the value of an errno.
pub(crate) fn errno(name: &str) -> Option<u32> {
    ERRNOS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| *value)
}

/// Returns the name of an errno.
pub(crate) fn errno_name(value: u32) -> String {
    let name = ERRNOS
        .iter()
        .find(|(_, known)| *known == value)
        .map(|(name, _)| (*name).to_owned());
    name.unwrap_or_else(|| format!("errno {value}"))
}

/// An expression could not be converted to a number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NumberError {
    #[error("`{0}` is not a known constant")]
    UnknownConstant(String),
    #[error("`{0}` takes one number")]
    OneArgument(String),
    #[error("expected a number")]
    NoNumber,
}

/// Returns the value of an expression as a number.
pub(crate) fn number(expression: &Expression) -> Result<i64, NumberError> {
    match expression {
        Expression::Number(value) => Ok(*value),
        Expression::Word(name) => constant(name).ok_or_else(|| NumberError::UnknownConstant(name.clone())),
        Expression::Or(left, right) => Ok(number(left)? | number(right)?),
        Expression::Apply(name, arguments) if matches!(name.as_str(), "htons" | "htonl") => {
            match arguments.as_slice() {
                [value] => number(value),
                _ => Err(NumberError::OneArgument(name.clone())),
            }
        }
        Expression::Array(items) => match items.as_slice() {
            [value] => number(value),
            _ => Err(NumberError::NoNumber),
        },
        Expression::Anything
        | Expression::Text(..)
        | Expression::Field(..)
        | Expression::Struct(_)
        | Expression::Apply(..) => Err(NumberError::NoNumber),
    }
}

/// Returns a field of a structure by name.
pub(crate) fn field<'a>(structure: &'a Expression, name: &str) -> Option<&'a Expression> {
    let Expression::Struct(fields) = structure else {
        return None;
    };
    fields.iter().find_map(|item| match item {
        Expression::Field(known, _, value) if known == name => Some(&**value),
        _ => None,
    })
}
