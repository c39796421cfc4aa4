//! The effects of one direction of a link on frames, as numbers.

use std::time::Duration;

/// One direction of a link in numbers. The default is a perfect link without faults or delay.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The line's rate in bits per second; `None` means no limit, and no queue.
    pub rate: Option<u64>,
    /// The maximum number of bytes in the queue in front of the line, including the frame on the line. A
    /// frame always fits in an empty queue.
    pub queue_bytes: u64,
    /// The maximum number of frames in the queue, including the one on the line.
    pub queue_packets: u64,
    /// The number of waiting bytes from which frames of ECN-capable transports are marked "congestion
    /// experienced"; `None` means never.
    pub ecn_bytes: Option<u64>,
    /// The number of waiting bytes from which all frames are marked, and the share that is marked just below
    /// it, 0 to 1. The share rises linearly from `ecn_bytes` on. `None` means that all frames are marked from
    /// `ecn_bytes` on.
    pub ecn_all: Option<(u64, f64)>,
    /// The numbers of lost frames, counted from 1 as offered; in ascending order.
    pub drop: Vec<u64>,
    /// The share of frames that are lost, 0 to 1.
    pub loss: f64,
    /// The mean number of frames lost in a row; with 1 or less, losses are independent.
    pub burst: f64,
    /// The share of frames in which one bit flips.
    pub corrupt: f64,
    /// The share of frames that are duplicated.
    pub duplicate: f64,
    /// The propagation delay.
    pub delay: Duration,
    /// The maximum additional delay, which is uniformly distributed; order is kept.
    pub jitter: Duration,
    /// The share of frames that are held back, so that later ones overtake them.
    pub reorder: f64,
    /// The time for which frames are held back.
    pub hold: Duration,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile {
            rate: None,
            queue_bytes: u64::MAX,
            queue_packets: 1000,
            ecn_bytes: None,
            ecn_all: None,
            drop: Vec::new(),
            loss: 0.0,
            burst: 1.0,
            corrupt: 0.0,
            duplicate: 0.0,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            reorder: 0.0,
            hold: Duration::from_millis(1),
        }
    }
}
