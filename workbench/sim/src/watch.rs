//! The state of a run while it goes on, from which figures over time are drawn.

use std::time::Duration;

use hawser_time::Instant;

use crate::build::{BuiltFlow, BuiltWorld, START};
use crate::host::Host;
use crate::world::StopReason;

/// A request for samples: their interval, their fields and their receiver.
pub struct SampleRequest<'a> {
    /// The time between two samples, and before the first.
    pub every: Duration,
    /// The program's observable fields to sample, on the clients' side of each flow.
    pub fields: &'a [&'a str],
    /// Receives the samples.
    pub reported: &'a mut dyn FnMut(&RunSample),
}

/// The state of a run at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSample {
    /// The time since the start.
    pub at: Duration,
    /// The flows, one per connection.
    pub flows: Vec<FlowMoment>,
    /// The directions of the links, as in the report.
    pub links: Vec<LinkMoment>,
}

/// The state of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMoment {
    /// The bytes that the server has read, and those that the client has read.
    pub received: [u64; 2],
    /// The values of [`SampleRequest::fields`]. A value is `None` while there is no connection, or if the
    /// program does not make the field observable.
    pub values: Vec<Option<u64>>,
}

/// The counters of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkMoment {
    /// The number of frames delivered.
    pub delivered: u64,
    /// The number of frames dropped, for any reason.
    pub dropped: u64,
    /// The bytes that wait in its queue.
    pub waiting: u64,
}

impl SampleRequest<'_> {
    /// Runs a world and samples it.
    pub(crate) fn run(
        self,
        built: &mut BuiltWorld,
        until: Instant,
        progress: &mut dyn FnMut(Instant),
    ) -> StopReason {
        let every = self.every.max(Duration::from_nanos(1));
        let mut next = START + every;
        loop {
            let end = built.world.run(
                next.min(until),
                |node| node.host().is_none_or(Host::is_finished),
                &mut *progress,
            );
            (self.reported)(&moment(built, self.fields));
            if end != StopReason::Time || next >= until {
                return end;
            }
            next += every;
        }
    }
}

fn moment(built: &mut BuiltWorld, fields: &[&str]) -> RunSample {
    let now = built.world.now();
    let links = (0..built.pipes.len()).map(|number| {
        let pipe = built.world.pipe_mut(number);
        let (_, waiting) = pipe.waiting(now);
        let counters = pipe.counters();
        let lost: u64 = pipe.stage_counters().map(|stage| stage.dropped).sum();
        let dropped = lost + counters.down + counters.overflow;
        LinkMoment { delivered: counters.delivered, dropped, waiting }
    });
    let links = links.collect();
    let flows = built.flows.iter().map(|flow| flow_moment(built, flow, fields));
    RunSample { at: now - START, flows: flows.collect(), links }
}

fn flow_moment(built: &BuiltWorld, flow: &BuiltFlow, fields: &[&str]) -> FlowMoment {
    let value_of = |field: &&str| flow.ends.value_of(built, field);
    FlowMoment {
        received: flow.ends.received(built),
        values: fields.iter().map(value_of).collect(),
    }
}
