//! The settings and limits of a proxy.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser::connect::transports::Tcp;
use hawser::connect::{Destination, Policies, Profile, ReportCallback, Transport};

use crate::{Credential, ProxyEvent};

/// The receiver of a proxy's events. It is called from tasks, so it must not block.
pub type Observer = Arc<dyn Fn(ProxyEvent) + Send + Sync>;

/// Creates a watcher that learns from the race for a destination. The watcher must not block, either.
pub type Learner = Arc<dyn Fn(&Destination) -> ReportCallback + Send + Sync>;

/// The settings of a proxy.
#[derive(Clone)]
pub struct Settings {
    /// The addresses to listen on; by default port 1080 on loopback.
    pub listen: Vec<SocketAddr>,
    /// The required credential. `None` admits every client, which is allowed only on loopback.
    pub credential: Option<Credential>,
    /// The transports to race.
    pub choice: Choice,
    /// The rules of the races.
    pub profile: Profile,
    /// The maximum time of a race, including name resolution.
    pub deadline: Duration,
    /// The limits of resources and times.
    pub limits: ProxyLimits,
    /// The receiver of events.
    pub observer: Option<Observer>,
    /// The observer that learns from the races.
    pub learner: Option<Learner>,
}

/// The choice of transports to race.
#[derive(Clone, Debug)]
pub enum Choice {
    /// The same transports for every destination.
    Always(Arc<[Arc<dyn Transport>]>),
    /// The transports that a policy chooses for the destination.
    ByPolicy(Policies),
}

/// The limits of resources and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyLimits {
    /// The maximum number of clients. Further ones wait in the backlog.
    pub connections: usize,
    /// The maximum time of a client's request: for SOCKS5 up to its request, for HTTP for each head.
    pub head: Duration,
    /// The maximum length of the head of an HTTP request, in bytes; at least 8192.
    pub head_bytes: usize,
    /// The time for which a tunnel may be idle after one direction has ended.
    pub half_open: Duration,
    /// The time in which an origin of plain HTTP must begin its answer.
    pub answer: Duration,
    /// The time for which connections may continue after the proxy was asked to stop.
    pub drain: Duration,
}

impl Default for ProxyLimits {
    /// 256 connections, 10 s, 16 KiB, 1 min, 5 min, 3 s.
    fn default() -> ProxyLimits {
        ProxyLimits {
            connections: 256,
            head: Duration::from_secs(10),
            head_bytes: 16 * 1024,
            half_open: Duration::from_secs(60),
            answer: Duration::from_secs(300),
            drain: Duration::from_secs(3),
        }
    }
}

impl Default for Settings {
    /// Port 1080 on loopback, no credential, the default transports by RFC 8305 within 30 s.
    fn default() -> Settings {
        Settings {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 1080))],
            credential: None,
            choice: Choice::Always(Arc::new([Arc::new(Tcp::default()) as Arc<dyn Transport>])),
            profile: Profile::RFC8305,
            deadline: Duration::from_secs(30),
            limits: ProxyLimits::default(),
            observer: None,
            learner: None,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { listen, choice, profile, deadline, limits, .. } = self;
        f.debug_struct("Settings")
            .field("listen", listen)
            .field("choice", choice)
            .field("profile", &profile.name)
            .field("deadline", deadline)
            .field("limits", limits)
            .finish_non_exhaustive()
    }
}
