//! How a proxy is to be.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser::select::transports::Tcp;
use hawser::select::{Destination, Policies, Profile, Transport, Watcher};

use crate::{Credential, Event};

/// Who is notified what happens. It is called from tasks: it must not block.
pub type Observer = Arc<dyn Fn(Event) + Send + Sync>;

/// Who learns from the race for a destination. What it gives must not block either.
pub type Learner = Arc<dyn Fn(&Destination) -> Watcher + Send + Sync>;

/// How a proxy is to be.
#[derive(Clone)]
pub struct Settings {
    /// Where it listens; at first port 1080 of this host alone.
    pub listen: Vec<SocketAddr>,
    /// Who may use it; anybody where there is none, which is allowed on loopback alone.
    pub credential: Option<Credential>,
    /// The transports that are raced.
    pub choice: Choice,
    /// The rules of the races.
    pub profile: Profile,
    /// How long a race may take, names included.
    pub deadline: Duration,
    /// What is bounded, and how.
    pub limits: Limits,
    /// Who is notified what happens.
    pub observer: Option<Observer>,
    /// Who learns from the races.
    pub learner: Option<Learner>,
}

/// Which transports are raced.
#[derive(Clone, Debug)]
pub enum Choice {
    /// Always these.
    Always(Arc<[Arc<dyn Transport>]>),
    /// What a policy chooses for the destination.
    ByPolicy(Policies),
}

/// What is bounded, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients at once; more are reset.
    pub connections: usize,
    /// How long a client may take for its request: SOCKS5 until its request, HTTP for each head.
    pub head: Duration,
    /// The longest head of an HTTP request, in bytes; at least 8192.
    pub head_bytes: usize,
    /// How long a tunnel of which one direction has ended may be idle in the other.
    pub half_open: Duration,
    /// How long an origin of plain HTTP may take until its answer begins.
    pub answer: Duration,
    /// How long connections may go on after the proxy was asked to stop.
    pub drain: Duration,
}

impl Default for Limits {
    /// 256 connections, 10 s, 16 KiB, 1 min, 5 min, 3 s.
    fn default() -> Limits {
        Limits {
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
    /// Port 1080 of this host, nobody's credential, the default transports by RFC 8305 within 30 s.
    fn default() -> Settings {
        Settings {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 1080))],
            credential: None,
            choice: Choice::Always(Arc::new([Arc::new(Tcp::default()) as Arc<dyn Transport>])),
            profile: Profile::RFC8305,
            deadline: Duration::from_secs(30),
            limits: Limits::default(),
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
