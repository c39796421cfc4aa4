//! Bulk transfer: a number of bytes each way, as fast as the transport accepts them.

use hawser_time::Instant;

use super::{Script, Side};

/// One end of a bulk transfer.
#[derive(Clone, Debug)]
pub struct Bulk {
    outgoing: u64,
    incoming: u64,
}

impl Bulk {
    /// Creates one end; `forward` bytes go from client to server, `backward` bytes the other way.
    #[must_use]
    pub fn new(side: Side, forward: u64, backward: u64) -> Bulk {
        match side {
            Side::Client => Bulk { outgoing: forward, incoming: backward },
            Side::Server => Bulk { outgoing: backward, incoming: forward },
        }
    }
}

impl Script for Bulk {
    fn allowance(&mut self, _now: Instant, _received: u64) -> u64 {
        self.outgoing
    }

    fn wake_at(&self) -> Option<Instant> {
        None
    }

    fn outgoing(&self) -> u64 {
        self.outgoing
    }

    fn incoming(&self) -> u64 {
        self.incoming
    }
}
