//! The hooks of the eBPF programs in the kernel, and the events that come from each.

use crate::FlowEvent;

/// A program and the hook that it is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Hook {
    /// A connection changes its state.
    State,
    /// A segment arrives at an established connection.
    SegmentArrived,
    /// Congestion control changes its state.
    Congestion,
    /// A segment is sent again.
    SentAgain,
    /// A packet enters a device's queue.
    Queued,
    /// The connections of a cgroup.
    InCgroup,
    /// The iterator over sockets.
    Reach,
    /// Our congestion control.
    CongestionControl,
}

/// The number of hooks.
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

    /// The hooks that are attached only while one of their events is subscribed to.
    pub(crate) const ON_DEMAND: [Hook; 4] = [
        Hook::SegmentArrived,
        Hook::Congestion,
        Hook::SentAgain,
        Hook::Queued,
    ];

    /// Returns the name of the program in `bpf/`.
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

    /// Returns the kernel's name of the hook.
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

    /// Returns the types that a kernel describes if it has the hook.
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

/// Returns the hooks that an event comes from. Our congestion control and the cgroup are not among them,
/// because they are attached from loading on.
pub(crate) fn sources(event: FlowEvent) -> &'static [Hook] {
    match event {
        FlowEvent::Established | FlowEvent::Closed | FlowEvent::StateChanged => &[Hook::State],
        FlowEvent::Acked
        | FlowEvent::DuplicateAck
        | FlowEvent::AvoidanceBegan
        | FlowEvent::PeerWindowClosed => &[Hook::SegmentArrived],
        FlowEvent::SegmentLost => &[Hook::SegmentArrived, Hook::Congestion],
        FlowEvent::Timeout | FlowEvent::RecoveryBegan | FlowEvent::RecoveryEnded => &[Hook::Congestion],
        FlowEvent::Retransmitted => &[Hook::SentAgain],
        FlowEvent::Sent => &[Hook::Queued],
        FlowEvent::RoundTrip => &[],
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
