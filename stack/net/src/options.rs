//! Options of listeners and connections.
//!
//! What they mean is alike for all transports; a program refuses those that it does not know
//! ([`std::io::ErrorKind::InvalidInput`] for a value that it does not take, errno `ENOPROTOOPT` for
//! an option).

use std::time::Duration;

use hawser_time::nanos;

pub use hawser_ir::abi::{
    OPT_CORK, OPT_KEEPALIVE, OPT_KEEPALIVE_COUNT, OPT_KEEPALIVE_INTERVAL, OPT_LINGER, OPT_MAX_SEGMENT,
    OPT_NODELAY, OPT_NOT_SENT, OPT_PRIORITY, OPT_QUICK_ACK, OPT_RECEIVE_BUFFER, OPT_REUSE_PORT,
    OPT_SEND_BUFFER, OPT_TOS, OPT_TTL, OPT_USER_TIMEOUT,
};

/// Options to open a connection or a listener with; connections begin with their listener's.
///
/// ```
/// use std::time::Duration;
/// use hawser_net::Options;
///
/// let options = Options::new().nodelay(true).user_timeout(Some(Duration::from_secs(20)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(Vec<(u32, u64)>);

/// When an idle peer is asked whether it is still there (RFC 9293, 3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// How long the peer has to be idle before it is asked.
    pub idle: Duration,
    /// From one question to the next.
    pub interval: Duration,
    /// Questions without an answer until the connection fails, 1 to 127.
    pub count: u8,
}

impl Default for Keepalive {
    /// Two hours (RFC 9293, 3.8.4, MUST-28), 75 seconds, nine times.
    fn default() -> Keepalive {
        Keepalive {
            idle: Duration::from_secs(7200),
            interval: Duration::from_secs(75),
            count: 9,
        }
    }
}

impl Options {
    /// None: the program's defaults.
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// Small pieces leave at once (TCP: no Nagle).
    #[must_use]
    pub fn nodelay(self, on: bool) -> Options {
        self.set(OPT_NODELAY, on.into())
    }

    /// An idle peer is asked whether it is still there; `None`: never, the default.
    #[must_use]
    pub fn keepalive(mut self, keepalive: Option<Keepalive>) -> Options {
        self.0.extend(keepalive_options(keepalive));
        self
    }

    /// How long a connection may go without progress until it fails (RFC 5482); `None`: as long as
    /// the program's default says.
    #[must_use]
    pub fn user_timeout(self, limit: Option<Duration>) -> Options {
        self.set(OPT_USER_TIMEOUT, limit.map_or(0, nanos))
    }

    /// Bytes that may be under way to the application, read or not.
    #[must_use]
    pub fn receive_buffer(self, bytes: u64) -> Options {
        self.set(OPT_RECEIVE_BUFFER, bytes)
    }

    /// Bytes that are taken from the application before they are acknowledged.
    #[must_use]
    pub fn send_buffer(self, bytes: u64) -> Options {
        self.set(OPT_SEND_BUFFER, bytes)
    }

    /// Bytes that are taken from the application before they are in a packet (Linux: TCP_NOTSENT_LOWAT);
    /// 0, the default: as many as the send buffer has room for.
    #[must_use]
    pub fn not_sent(self, bytes: u64) -> Options {
        self.set(OPT_NOT_SENT, bytes)
    }

    /// The maximum number of payload bytes of a packet, in either direction.
    #[must_use]
    pub fn max_segment(self, bytes: u16) -> Options {
        self.set(OPT_MAX_SEGMENT, bytes.into())
    }

    /// Several listeners may share an address; each connection goes to one of them. All of them
    /// have to say so.
    #[must_use]
    pub fn reuse_port(self, on: bool) -> Options {
        self.set(OPT_REUSE_PORT, on.into())
    }

    /// The traffic class of the packets: DSCP in the upper six bits (RFC 2474).
    #[must_use]
    pub fn traffic_class(self, class: u8) -> Options {
        self.set(OPT_TOS, class.into())
    }

    /// Time to live of the packets, IPv6's hop limit; 0: the usual one.
    #[must_use]
    pub fn hop_limit(self, hops: u8) -> Options {
        self.set(OPT_TTL, hops.into())
    }

    /// Any option: one of the `OPT_…` constants, or a number of the program's own.
    #[must_use]
    pub fn set(mut self, option: u32, value: u64) -> Options {
        self.0.push((option, value));
        self
    }

    pub(crate) fn pairs(&self) -> &[(u32, u64)] {
        &self.0
    }
}

/// The interval and the count first: the time itself sets the clock going.
pub(crate) fn keepalive_options(keepalive: Option<Keepalive>) -> Vec<(u32, u64)> {
    keepalive.map_or_else(
        || vec![(OPT_KEEPALIVE, 0)],
        |k| {
            vec![
                (OPT_KEEPALIVE_INTERVAL, nanos(k.interval)),
                (OPT_KEEPALIVE_COUNT, k.count.into()),
                (OPT_KEEPALIVE, nanos(k.idle)),
            ]
        },
    )
}
