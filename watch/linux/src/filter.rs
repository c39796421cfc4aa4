//! The filters of a subscription.

use std::time::Duration;

/// Limits which occurrences of an event are delivered. The filters run in the kernel, in the order of the
/// paper (iTCP, section 2.4): flow and port, interval, frequency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only events of this flow (a socket's cookie) pass; `None`: events of all flows.
    pub flow: Option<u64>,
    /// Only events of flows with this local or remote port pass; `None`: events of all flows.
    pub port: Option<u16>,
    /// The length of an interval, which begins with an event. Of the events in an interval only the last
    /// survives, and it is delivered when the interval ends. The next event then begins a new interval. If
    /// zero, all events survive at once.
    pub interval: Duration,
    /// Every n-th survivor passes; 0 and 1 pass all.
    pub frequency: u32,
}

/// Identifies a subscription of one [`crate::Kernel`]. A slot that is used again gets another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubscriptionId {
    pub(crate) place: u16,
    pub(crate) generation: u32,
}
