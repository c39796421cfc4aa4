//! What a subscription asks for.

use std::time::Duration;

/// How much of an event is delivered. The filters run in the kernel, in the order of the paper (iTCP,
/// section 2.4): flow and port, interval, frequency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only events of this flow (a socket's cookie); `None`: of all.
    pub flow: Option<u64>,
    /// Only events of flows with this local or remote port; `None`: of all.
    pub port: Option<u16>,
    /// From an event on, only the last within this long survives, and is delivered when it is over; the
    /// next event then begins the next such interval. Zero: all survive, at once.
    pub interval: Duration,
    /// Every n-th survivor passes; 0 and 1: all.
    pub frequency: u32,
}

/// Names a subscription of one [`crate::Kernel`]. A place that is used again gets another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubscriptionId {
    pub(crate) place: u16,
    pub(crate) generation: u32,
}
