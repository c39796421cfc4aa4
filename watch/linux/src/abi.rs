//! The layouts that the eBPF programs and this crate share, as in `bpf/maps.bpf.h`.

use bytemuck::{Pod, Zeroable};

/// The maximum number of simultaneous subscriptions.
pub const SUBSCRIPTIONS: usize = 16;

/// `struct tcp_state`: the state of a flow, in the kernel's own units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawState {
    pub(crate) acked: u64,
    pub(crate) received: u64,
    pub(crate) pacing_rate: u64,
    pub(crate) flight: u32,
    pub(crate) wnd: u32,
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: u32,
    pub(crate) srtt: u32,
    pub(crate) rttvar: u32,
    pub(crate) rto: u32,
    pub(crate) min_rtt: u32,
    pub(crate) mss: u32,
    pub(crate) delivered: u32,
    pub(crate) retransmissions: u32,
    pub(crate) lost: u32,
    pub(crate) rate_delivered: u32,
    pub(crate) rate_interval: u32,
}

/// Stands in place of a connection's state that was not read.
pub(crate) const UNSEEN: u8 = 0xff;

/// `struct record`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawRecord {
    pub(crate) flow: u64,
    pub(crate) time: u64,
    pub(crate) event: u8,
    pub(crate) state: u8,
    pub(crate) subscription: u16,
    pub(crate) lost: u32,
    pub(crate) values: [u64; 3],
    pub(crate) stood: RawState,
}

/// `struct subscription`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawSubscription {
    pub(crate) interval: u64,
    pub(crate) flow: u64,
    pub(crate) frequency: u32,
    pub(crate) generation: u32,
    pub(crate) port: u16,
    pub(crate) unused: [u16; 3],
}

/// `struct settings`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawSettings {
    pub(crate) wake: u64,
    pub(crate) ring_half: u64,
    pub(crate) wanted: [u16; 14],
    pub(crate) epoch: u32,
    pub(crate) subscriptions: [RawSubscription; SUBSCRIPTIONS],
}

/// `struct choices`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawChoices {
    pub(crate) congestion_control: [u8; 16],
    pub(crate) marked_only: u8,
    pub(crate) adopt: u8,
    pub(crate) unused: [u8; 2],
    pub(crate) network: u32,
}

/// `struct of_subscription`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawOfSubscription {
    pub(crate) flow: u64,
    pub(crate) subscription: u32,
    pub(crate) unused: u32,
}

/// One variable of `struct lease`: the time until which the process's value holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawTerm {
    pub(crate) value: u64,
    pub(crate) until: u64,
}

/// `struct lease`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawLease {
    pub(crate) flow: u64,
    pub(crate) of: [RawTerm; 3],
    pub(crate) seal: u64,
}

impl RawLease {
    /// Returns the lease with the seal by which the programs see that it is complete.
    #[must_use]
    pub(crate) fn sealed(mut self) -> Self {
        self.seal = self
            .of
            .iter()
            .fold(self.flow, |seal, term| seal ^ term.value ^ term.until);
        self
    }
}

/// `struct standing`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawStanding {
    pub(crate) ours: u64,
    pub(crate) granted: u64,
    pub(crate) fallbacks: u64,
}

/// The operations, in the order of the enumeration in `bpf/reach.bpf.h`.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Operation {
    Inspect,
    SetCongestionControl,
    SetTcpOption,
    SetSocketOption,
    Destroy,
    Adopt,
    PutBack,
}

/// `struct request`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawRequest {
    pub(crate) flow: u64,
    pub(crate) what: u32,
    pub(crate) done: u32,
    pub(crate) error: i32,
    pub(crate) option: u32,
    pub(crate) number: i32,
    pub(crate) unused: u32,
    pub(crate) text: [u8; 16],
    pub(crate) answer: RawAnswer,
}

/// `struct adoption`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawAdoption {
    pub(crate) outcome: u32,
    pub(crate) error: i32,
    pub(crate) name: [u8; 16],
}

/// The answer in `struct request`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawAnswer {
    pub(crate) snd_una: u32,
    pub(crate) snd_nxt: u32,
    pub(crate) snd_wnd: u32,
    pub(crate) snd_cwnd: u32,
    pub(crate) snd_ssthresh: u32,
    pub(crate) snd_cwnd_clamp: u32,
    pub(crate) mss: u32,
    pub(crate) lost: u32,
    pub(crate) pacing_rate: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_the_xor_of_the_other_words() {
        let term = |value, until| RawTerm { value, until };
        let lease = RawLease {
            flow: 0b1,
            of: [term(0b10, 0b100), term(0, 0b1000), term(0b1, 0)],
            seal: 99,
        };
        assert_eq!(lease.sealed().seal, 0b1110);
    }
}
