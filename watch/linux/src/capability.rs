//! The capabilities of a machine's kernel, and the reasons why others are missing.

use crate::hook::{Hook, Hooks, sources};
use crate::{FlowEvent, Missing, Variable};

/// The subject of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapabilitySubject {
    /// Loading, on which all other capabilities depend.
    Load,
    /// Subscribing to an event.
    Event(FlowEvent),
    /// Modifying a variable under a lease.
    Variable(Variable),
    /// Acting on live sockets: [`crate::Kernel::set`] and similar functions.
    Reach,
}

impl CapabilitySubject {
    /// Returns its name, with the provider's before it.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            CapabilitySubject::Load => "load".to_owned(),
            CapabilitySubject::Event(event) => format!("kernel.tcp.{}", event.name()),
            CapabilitySubject::Variable(variable) => format!("kernel.tcp.{}", variable.name()),
            CapabilitySubject::Reach => "reach".to_owned(),
        }
    }
}

/// A capability, present or missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The event, the variable or other subject of the capability.
    pub subject: CapabilitySubject,
    /// The reason why it is missing; `None` if it is present.
    pub missing: Option<Missing>,
    /// The difference from the event or variable of the same name of our own TCP; empty if there is none.
    pub note: &'static str,
}

/// The capability of loading.
pub(crate) fn load(missing: Option<Missing>) -> Capability {
    Capability {
        subject: CapabilitySubject::Load,
        missing,
        note: "needs privileges; later operations do not",
    }
}

/// Returns the capabilities that exist once the programs are loaded.
pub(crate) fn table(available: Hooks) -> Vec<Capability> {
    let events = FlowEvent::ALL.into_iter().map(|it| Capability {
        subject: CapabilitySubject::Event(it),
        missing: event(it, available).err(),
        note: note(it),
    });
    let missing = |hook, missing| (!available.has(hook)).then_some(missing);
    let variables = Variable::ALL.into_iter().map(|variable| Capability {
        subject: CapabilitySubject::Variable(variable),
        missing: missing(Hook::CongestionControl, Missing::NoCongestionControl),
        note: "of flows that our congestion control runs; acts at the next ACK",
    });
    let reach = Capability {
        subject: CapabilitySubject::Reach,
        missing: missing(Hook::Reach, Missing::Hook(Hook::Reach.place())),
        note: "in the calling thread's network namespace",
    };
    events.chain(variables).chain([reach]).collect()
}

/// Checks that the hooks of an event are present.
pub(crate) fn event(event: FlowEvent, available: Hooks) -> Result<(), Missing> {
    if event == FlowEvent::RoundTrip
        && !available.has(Hook::CongestionControl)
        && !available.has(Hook::InCgroup)
    {
        return Err(Missing::NoCgroup);
    }
    let missing = sources(event).iter().find(|&&hook| !available.has(hook));
    missing.map_or(Ok(()), |hook| Err(Missing::Hook(hook.place())))
}

fn note(event: FlowEvent) -> &'static str {
    match event {
        FlowEvent::Established => "rtt is the smoothed one, in whole microseconds; 0 when none was measured",
        FlowEvent::Acked => {
            "under another congestion control rtt is the sample before this ACK's, and ACKs after the FIN \
             are not reported"
        }
        FlowEvent::Sent => {
            "seen where the packet enters a device's queue; at is a sequence number; one for each super-segment"
        }
        FlowEvent::Timeout => "of established connections; again: since the last acknowledgment",
        FlowEvent::DuplicateAck => "the kernel itself counts selective acknowledgments instead",
        FlowEvent::RecoveryBegan | FlowEvent::RecoveryEnded => "",
        FlowEvent::Closed => {
            "also of connections that were never established; duration counts from the SYN or the acceptance, 0: \
             it began before this was loaded"
        }
        FlowEvent::Retransmitted => "at is a sequence number; probes for a lost tail are among them",
        FlowEvent::AvoidanceBegan => "seen at an ACK",
        FlowEvent::StateChanged => "TIME-WAIT is not reported: the kernel keeps it outside of the connection",
        FlowEvent::RoundTrip => {
            "every sample under our congestion control; else one in each round trip, of flows in the cgroup"
        }
        FlowEvent::SegmentLost => {
            "one for each ACK or timeout that marked segments; at is the oldest one not acknowledged"
        }
        FlowEvent::PeerWindowClosed => {
            "when the peer announces it, whether or not something waits to be sent"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_without_its_hook_is_missing() {
        let all: Hooks = Hook::ALL.into_iter().collect();
        assert!(table(all).iter().all(|capability| capability.missing.is_none()));
        let mut few = all;
        few.remove(Hook::Queued);
        let gone: Vec<_> = table(few).into_iter().filter(|it| it.missing.is_some()).collect();
        assert_eq!(gone.len(), 1);
        assert_eq!(gone[0].subject.name(), "kernel.tcp.sent");
        assert_eq!(gone[0].missing, Some(Missing::Hook("tp_btf/net_dev_queue")));
    }

    #[test]
    fn round_trips_come_from_either_of_two_hooks() {
        let mut hooks: Hooks = Hook::ALL.into_iter().collect();
        hooks.remove(Hook::CongestionControl);
        assert_eq!(event(FlowEvent::RoundTrip, hooks), Ok(()));
        hooks.remove(Hook::InCgroup);
        assert_eq!(event(FlowEvent::RoundTrip, hooks), Err(Missing::NoCgroup));
    }
}
