//! What one direction of a link does to frames, as numbers.

use std::time::Duration;

/// One direction of a link in numbers. The default is a perfect link: nothing happens and no
/// time passes.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Bits per second of the line; `None`: no limit, and no queue.
    pub rate: Option<u64>,
    /// Bytes that the queue in front of the line holds, the frame on the line included. A frame
    /// always fits when nothing waits.
    pub queue_bytes: u64,
    /// Frames that it holds, the one on the line included.
    pub queue_packets: u64,
    /// Frames of ECN-capable transports that find this many bytes waiting are marked
    /// "congestion experienced"; `None`: never.
    pub ecn_bytes: Option<u64>,
    /// Bytes that wait from which on all frames are marked, and the share of those that are just below it, 0 to 1, to which it
    /// rises evenly from `ecn_bytes` on; `None`: all from `ecn_bytes` on.
    pub ecn_all: Option<(u64, f64)>,
    /// Frames lost by number, the first offered being 1; in ascending order.
    pub drop: Vec<u64>,
    /// Share of frames lost, 0 to 1.
    pub loss: f64,
    /// Mean number of frames lost in a row; 1 or less: each frame on its own.
    pub burst: f64,
    /// Share of frames in which one bit flips.
    pub corrupt: f64,
    /// Share of frames that a copy follows.
    pub duplicate: f64,
    /// Propagation delay.
    pub delay: Duration,
    /// The maximum that is added to it, uniformly; order is kept.
    pub jitter: Duration,
    /// Share of frames held back, so that later ones overtake them.
    pub reorder: f64,
    /// For how long.
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
