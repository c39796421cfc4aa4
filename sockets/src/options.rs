//! Options of listeners and connections.
//!
//! Their meaning is the same for all transports. A program refuses an option that it does not know (errno
//! `ENOPROTOOPT`), and a value that it does not accept ([`std::io::ErrorKind::InvalidInput`]).

use std::time::Duration;

use hawser_time::nanos;

pub use hawser_ir::abi::{
    OPT_CORK, OPT_KEEPALIVE, OPT_KEEPALIVE_COUNT, OPT_KEEPALIVE_INTERVAL, OPT_LINGER, OPT_MAX_SEGMENT,
    OPT_NODELAY, OPT_NOT_SENT, OPT_PRIORITY, OPT_QUICK_ACK, OPT_RECEIVE_BUFFER, OPT_REUSE_PORT,
    OPT_SEND_BUFFER, OPT_TOS, OPT_TTL, OPT_USER_TIMEOUT,
};

/// Options for opening a connection or a listener; connections begin with their listener's.
///
/// ```
/// use std::time::Duration;
/// use hawser_sockets::Options;
///
/// let options = Options::new().nodelay(true).user_timeout(Some(Duration::from_secs(20)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(Vec<(u32, u64)>);

/// The times at which an idle peer is probed (RFC 9293, 3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// The time for which the peer has to be idle before the first probe.
    pub idle: Duration,
    /// The time between two probes.
    pub interval: Duration,
    /// The number of unanswered probes after which the connection fails, 1 to 127.
    pub count: u8,
}

impl Default for Keepalive {
    /// Returns two hours (RFC 9293, 3.8.4, MUST-28), 75 seconds, nine times.
    fn default() -> Keepalive {
        Keepalive {
            //= RFC9293 3.8.4
            //# MUST default to no less than two hours (MUST-28)
            idle: Duration::from_secs(7200),
            interval: Duration::from_secs(75),
            count: 9,
        }
    }
}

impl Options {
    /// Creates an empty set, which leaves the program's defaults.
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// Sends small pieces at once (TCP: no Nagle).
    #[must_use]
    pub fn nodelay(self, on: bool) -> Options {
        self.set(OPT_NODELAY, on.into())
    }

    /// Sets the probing of an idle peer; `None`, the default, disables it.
    #[must_use]
    pub fn keepalive(mut self, keepalive: Option<Keepalive>) -> Options {
        self.0.extend(keepalive_options(keepalive));
        self
    }

    /// Sets the time that a connection may go without progress until it fails (RFC 5482); `None` stands for
    /// the program's default.
    #[must_use]
    pub fn user_timeout(self, limit: Option<Duration>) -> Options {
        self.set(OPT_USER_TIMEOUT, limit.map_or(0, nanos))
    }

    /// Sets the number of bytes that may be in flight to the application or wait to be read.
    #[must_use]
    pub fn receive_buffer(self, bytes: u64) -> Options {
        self.set(OPT_RECEIVE_BUFFER, bytes)
    }

    /// Sets the number of bytes that are accepted from the application and not yet acknowledged.
    #[must_use]
    pub fn send_buffer(self, bytes: u64) -> Options {
        self.set(OPT_SEND_BUFFER, bytes)
    }

    /// Sets the number of bytes that are accepted from the application and not yet in a packet (Linux:
    /// TCP_NOTSENT_LOWAT). With 0, the default, only the send buffer limits them.
    #[must_use]
    pub fn not_sent(self, bytes: u64) -> Options {
        self.set(OPT_NOT_SENT, bytes)
    }

    /// Sets the maximum number of payload bytes of a packet, in either direction.
    #[must_use]
    pub fn max_segment(self, bytes: u16) -> Options {
        self.set(OPT_MAX_SEGMENT, bytes.into())
    }

    /// Lets several listeners share an address; each connection goes to one of them. All of them have to set
    /// the option.
    #[must_use]
    pub fn reuse_port(self, on: bool) -> Options {
        self.set(OPT_REUSE_PORT, on.into())
    }

    /// Sets the traffic class of packets: DSCP in the upper six bits (RFC 2474).
    #[must_use]
    pub fn traffic_class(self, class: u8) -> Options {
        self.set(OPT_TOS, class.into())
    }

    /// Sets the time to live of packets, which is IPv6's hop limit; 0 stands for the default.
    #[must_use]
    pub fn hop_limit(self, hops: u8) -> Options {
        self.set(OPT_TTL, hops.into())
    }

    /// Sets any option: one of the `OPT_…` constants, or a number that the program defines.
    #[must_use]
    pub fn set(mut self, option: u32, value: u64) -> Options {
        self.0.push((option, value));
        self
    }

    pub(crate) fn pairs(&self) -> &[(u32, u64)] {
        &self.0
    }
}

/// Returns the interval and the count before the idle time, because the latter starts the timer.
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
