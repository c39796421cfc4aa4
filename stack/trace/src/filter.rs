//! Which events are wanted.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

/// Conditions that an event has to meet, all of them. The default wants all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// It happened on this host.
    pub host: Option<String>,
    /// Its context is of a connection of this flow, or of its listener.
    pub flow: Option<usize>,
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
    /// The ports that its servers listen on; 0 is none.
    pub ports: RangeInclusive<u16>,
}

impl Flow {
    /// Whether a context of this host with such ports is of the flow.
    pub(crate) fn has(&self, host: &str, mut ports: impl Iterator<Item = u16>) -> bool {
        self.hosts.iter().any(|end| end == host) && ports.any(|port| port > 0 && self.ports.contains(&port))
    }
}

impl Filter {
    /// Whether an event of a host with instructions of these numbers can be wanted: asked before anything is found out
    /// about it.
    pub(crate) fn admits(&self, host: &str, at: Duration, causes: &Range<u32>) -> bool {
        self.host.as_deref().is_none_or(|wanted| wanted == host)
            && self
                .packet
                .as_ref()
                .is_none_or(|packet| packet.host == host && causes.contains(&packet.cause))
            && self.from.is_none_or(|from| at >= from)
            && self.to.is_none_or(|to| at <= to)
    }
}

/// Whether this names a field of a context of this type: `cc.cwnd`, or `tcp_conn.cc.cwnd`.
pub(crate) fn is_field(wanted: &str, context: &str, field: &str) -> bool {
    let of_context = |rest: &str| rest.strip_prefix('.') == Some(field);
    wanted == field || wanted.strip_prefix(context).is_some_and(of_context)
}
