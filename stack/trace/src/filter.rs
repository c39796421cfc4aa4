//! Which events are wanted.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use crate::event::Event;

/// Conditions that an event has to meet, all of them. The default wants all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// It happened on this host.
    pub host: Option<String>,
    /// Its context is of one of these connections, or of their listener.
    pub flow: Option<Flow>,
    /// It happened at this time after the start of the run, or later.
    pub from: Option<Duration>,
    /// It happened at this time after the start of the run, or earlier.
    pub to: Option<Duration>,
    /// It changed this field of a context: `cc.cwnd`, or `tcp_conn.cc.cwnd`.
    pub field: Option<String>,
    /// It sent this packet.
    pub packet: Option<Packet>,
}

/// A packet of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its number in a capture of the run; the first is 1.
    pub number: u64,
    /// The host that sent it.
    pub host: String,
    /// The instruction that it comes from, by its number among those of the host.
    pub cause: u32,
}

/// A flow of a scenario.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The hosts at its ends.
    pub hosts: [String; 2],
    /// The ports that its servers listen on.
    pub ports: RangeInclusive<u16>,
}

impl Filter {
    /// Whether an event of a host with instructions of these numbers can be wanted: asked before anything is found out
    /// about it.
    #[must_use]
    pub fn admits(&self, host: &str, at: Duration, causes: &Range<u32>) -> bool {
        self.host.as_deref().is_none_or(|wanted| wanted == host)
            && self
                .flow
                .as_ref()
                .is_none_or(|flow| flow.hosts.iter().any(|wanted| wanted == host))
            && self
                .packet
                .as_ref()
                .is_none_or(|packet| packet.host == host && causes.contains(&packet.cause))
            && self.from.is_none_or(|from| at >= from)
            && self.to.is_none_or(|to| at <= to)
    }

    /// Whether an event is wanted, among those that are admitted.
    #[must_use]
    pub fn wants(&self, event: &Event) -> bool {
        let of_flow = |flow: &Flow| {
            let contexts = event.context.iter().chain(&event.created);
            let mut ends = contexts
                .flat_map(|context| [context.local, context.remote])
                .flatten();
            ends.any(|end| flow.ports.contains(&end.port()))
        };
        let changed = |field: &String| {
            event.changes.iter().any(|change| {
                change.field == *field
                    || field
                        .strip_prefix(change.context.as_str())
                        .and_then(|rest| rest.strip_prefix('.'))
                        == Some(&change.field)
            })
        };
        self.flow.as_ref().is_none_or(of_flow) && self.field.as_ref().is_none_or(changed)
    }
}
