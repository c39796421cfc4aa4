//! How the ends of a connection stood when a run was over: what each has done, and what it waits for.

use std::net::SocketAddr;

use hawser_engine::Handle;
use hawser_time::{Instant, nanos};
use serde::Serialize;

use crate::app::Application;
use crate::build::START;
use crate::host::Host;

/// How one end stood.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EndStanding {
    /// Its host.
    pub host: String,
    /// `client` or `server`.
    pub side: &'static str,
    /// Its own address, where there is a connection.
    pub local: Option<SocketAddr>,
    /// The other end's.
    pub remote: Option<SocketAddr>,
    /// What its application has done, and waits for.
    pub application: Application,
    /// When something went wrong at it, in seconds since the start; absent when only something did not happen.
    pub failed: Option<f64>,
    /// The type of its context; absent when there is none: not yet, or not any more.
    pub context: Option<String>,
    /// The timers of that.
    pub timers: Vec<TimerStanding>,
    /// Bytes accepted for sending that the program has not retired: those not acknowledged.
    pub kept: u64,
    /// Those of them that no packet has had yet.
    pub unsent: u64,
    /// Bytes delivered that the application has not read.
    pub unread: u64,
    /// Requests that the program has not received, because the worst case of their chains was not free.
    pub deferred: Vec<&'static str>,
}

/// A timer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimerStanding {
    /// Its name in the program.
    pub timer: String,
    /// When it fires, in seconds since the start; absent when it is not armed.
    pub fires: Option<f64>,
}

/// How an end of a host stands.
pub(crate) fn standing(host: &Host, number: usize, side: &'static str) -> EndStanding {
    let endpoint = host.endpoint(number);
    EndStanding {
        failed: endpoint.failed_at().map(seconds),
        ..standing_of(host, endpoint.handle(), endpoint.application(), side)
    }
}

/// How an end stands whose connection, or call, has this handle.
pub(crate) fn standing_of(
    host: &Host,
    handle: Option<Handle>,
    application: Application,
    side: &'static str,
) -> EndStanding {
    let stack = host.stack();
    let known = handle.and_then(|handle| stack.standing(handle));
    let mut standing = EndStanding {
        host: host.name().to_owned(),
        side,
        local: handle.and_then(|handle| stack.local(handle)),
        remote: handle.and_then(|handle| stack.peer(handle)),
        application,
        failed: None,
        context: None,
        timers: Vec::new(),
        kept: 0,
        unsent: 0,
        unread: handle.map_or(0, |handle| stack.readable(handle) as u64),
        deferred: Vec::new(),
    };
    if let Some(known) = known {
        let timer = |(name, deadline): &(&str, Option<Instant>)| TimerStanding {
            timer: (*name).to_owned(),
            fires: deadline.map(seconds),
        };
        standing.context = Some(known.context.to_owned());
        standing.timers = known.timers.iter().map(timer).collect();
        (standing.kept, standing.unsent) = (known.kept, known.unsent);
        standing.deferred = known.deferred.iter().map(|op| op.name()).collect();
    }
    standing
}

/// Since the start.
fn seconds(at: Instant) -> f64 {
    nanos(at - START) as f64 / 1e9
}
