//! The standing of a connection's ends when a run is over: the progress of each, and the events that it waits
//! for.

use std::net::SocketAddr;

use hawser_engine::Handle;
use hawser_time::Instant;
use serde::Serialize;

use crate::app::Application;
use crate::build::START;
use crate::host::Host;
use crate::report::seconds;

/// The standing of one end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EndStanding {
    /// The name of its host.
    pub host: String,
    /// `client` or `server`.
    pub side: &'static str,
    /// Its own address, if it has a connection.
    pub local: Option<SocketAddr>,
    /// The address of the other end, if it has a connection.
    pub remote: Option<SocketAddr>,
    /// The progress of its application, and the event that it waits for.
    pub application: Application,
    /// The time at which an error occurred at this end, in seconds since the start; absent if an expected
    /// event merely did not occur.
    pub failed: Option<f64>,
    /// The type of its context; absent if it has no context yet, or no longer.
    pub context: Option<String>,
    /// The timers of its context.
    pub timers: Vec<TimerStanding>,
    /// The bytes accepted for sending that the program has not retired, because they are not acknowledged.
    pub kept: u64,
    /// The accepted bytes that no packet has carried yet.
    pub unsent: u64,
    /// The bytes delivered that the application has not read.
    pub unread: u64,
    /// Requests that the program has not received, because the worst case of their chains was not free.
    pub deferred: Vec<&'static str>,
}

/// The state of one timer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimerStanding {
    /// Its name in the program.
    pub timer: String,
    /// The time at which it fires, in seconds since the start; absent if it is not armed.
    pub fires: Option<f64>,
}

/// Returns the standing of the end whose connection, or call, has this handle.
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
            fires: deadline.map(|at| seconds(at - START)),
        };
        standing.context = Some(known.context.to_owned());
        standing.timers = known.timers.iter().map(timer).collect();
        (standing.kept, standing.unsent) = (known.kept, known.unsent);
        standing.deferred = known.deferred.iter().map(|op| op.name()).collect();
    }
    standing
}
