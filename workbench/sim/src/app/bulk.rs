//! Bulk transfer: a number of bytes each way, as fast as the transport accepts them.

use hawser_time::Instant;

use super::{FlowSide, Script};

/// One end of a bulk transfer.
#[derive(Clone, Debug)]
pub struct BulkEnd {
    outgoing: u64,
    incoming: u64,
}

impl BulkEnd {
    /// Creates one end; `forward` bytes go from client to server, `backward` bytes the other way.
    #[must_use]
    pub fn new(side: FlowSide, forward: u64, backward: u64) -> BulkEnd {
        match side {
            FlowSide::Client => BulkEnd { outgoing: forward, incoming: backward },
            FlowSide::Server => BulkEnd { outgoing: backward, incoming: forward },
        }
    }
}

impl Script for BulkEnd {
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
