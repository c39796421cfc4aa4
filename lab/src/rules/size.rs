//! Drops packets above a size silently. The path's MTU is smaller than the interfaces', and no router sends
//! ICMP's "too big" (a black hole, RFC 2923, 2.1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hawser_sim::frame::Frame;
use hawser_sim::link::{Rule, Verdict};
use hawser_sim::rng::Rng;
use hawser_time::Instant;

use super::packet::Packet;

/// See the [module](self).
pub(crate) struct Size {
    max_length: Arc<AtomicU64>,
}

impl Size {
    /// Makes a rule that follows this number of bytes, where 0 is no limit.
    pub(crate) fn new(max_length: &Arc<AtomicU64>) -> Size {
        Size { max_length: Arc::clone(max_length) }
    }
}

impl Rule for Size {
    fn name(&self) -> &'static str {
        "path_mtu"
    }

    fn apply(&mut self, _now: Instant, frame: &mut Frame, _rng: &mut Rng) -> Verdict {
        let max_length = self.max_length.load(Ordering::Relaxed);
        if max_length == 0 {
            return Verdict::Pass;
        }
        let length = Packet::find(&frame.head).map_or(0, |packet| packet.end - packet.network);
        if length as u64 > max_length {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    }
}
