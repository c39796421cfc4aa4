//! Where the programs hang in the kernel, and which events come from where.

use crate::Event;

/// A program and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Hook {
    /// Connections change their state.
    State,
    /// A segment arrives at an established connection.
    SegmentArrived,
    /// Congestion control changes its state.
    Congestion,
    /// A segment leaves again.
    SentAgain,
    /// A packet enters a device's queue.
    Queued,
    /// Connections in a cgroup.
    InCgroup,
    /// The iterator over sockets.
    Reach,
    /// Our congestion control.
    CongestionControl,
}

/// How many hooks there are.
pub(crate) const HOOKS: usize = 8;

impl Hook {
    pub(crate) const ALL: [Hook; HOOKS] = [
        Hook::State,
        Hook::SegmentArrived,
        Hook::Congestion,
        Hook::SentAgain,
        Hook::Queued,
        Hook::InCgroup,
        Hook::Reach,
        Hook::CongestionControl,
    ];

    /// Those that are attached only while an event of theirs is subscribed to.
    pub(crate) const ON_DEMAND: [Hook; 4] = [
        Hook::SegmentArrived,
        Hook::Congestion,
        Hook::SentAgain,
        Hook::Queued,
    ];

    /// The program, as it is called in `bpf/`.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Hook::State => "state",
            Hook::SegmentArrived => "segment_arrived",
            Hook::Congestion => "congestion",
            Hook::SentAgain => "sent_again",
            Hook::Queued => "queued",
            Hook::InCgroup => "in_cgroup",
            Hook::Reach => "reach",
            Hook::CongestionControl => "decide",
        }
    }

    /// Its place, as the kernel calls it.
    pub(crate) fn place(self) -> &'static str {
        match self {
            Hook::State => "tp_btf/inet_sock_set_state",
            Hook::SegmentArrived => "tp_btf/tcp_probe",
            Hook::Congestion => "tp_btf/tcp_cong_state_set",
            Hook::SentAgain => "tp_btf/tcp_retransmit_skb",
            Hook::Queued => "tp_btf/net_dev_queue",
            Hook::InCgroup => "sockops",
            Hook::Reach => "iter/tcp",
            Hook::CongestionControl => "struct_ops/tcp_congestion_ops",
        }
    }

    /// The types that a kernel has if it has the hook.
    pub(crate) fn types(self) -> &'static [&'static str] {
        match self {
            Hook::State => &["btf_trace_inet_sock_set_state"],
            Hook::SegmentArrived => &["btf_trace_tcp_probe"],
            Hook::Congestion => &["btf_trace_tcp_cong_state_set"],
            Hook::SentAgain => &["btf_trace_tcp_retransmit_skb"],
            Hook::Queued => &["btf_trace_net_dev_queue"],
            Hook::InCgroup => &["bpf_sock_ops_kern"],
            Hook::Reach => &["bpf_iter__tcp"],
            Hook::CongestionControl => &["bpf_struct_ops_tcp_congestion_ops"],
        }
    }
}

/// The hooks that an event comes from. Our congestion control and the cgroup are not among them: they are
/// attached from loading on.
pub(crate) fn sources(event: Event) -> &'static [Hook] {
    match event {
        Event::Established | Event::Closed | Event::StateChanged => &[Hook::State],
        Event::Acked | Event::DuplicateAck | Event::AvoidanceBegan | Event::PeerWindowClosed => {
            &[Hook::SegmentArrived]
        }
        Event::SegmentLost => &[Hook::SegmentArrived, Hook::Congestion],
        Event::Timeout | Event::RecoveryBegan | Event::RecoveryEnded => &[Hook::Congestion],
        Event::Retransmitted => &[Hook::SentAgain],
        Event::Sent => &[Hook::Queued],
        Event::RoundTrip => &[],
    }
}

/// A set of hooks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hooks(u8);

impl Hooks {
    pub(crate) fn has(self, hook: Hook) -> bool {
        self.0 & (1 << hook as u8) != 0
    }

    pub(crate) fn remove(&mut self, hook: Hook) {
        self.0 &= !(1 << hook as u8);
    }
}

impl FromIterator<Hook> for Hooks {
    fn from_iter<I: IntoIterator<Item = Hook>>(hooks: I) -> Self {
        Hooks(hooks.into_iter().fold(0, |set, hook| set | 1 << hook as u8))
    }
}
