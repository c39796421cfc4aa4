//! Links that the kernel alone carries: its shaper at each end, and the shaper's counters.
//!
//! A shaper counts packets as they are on the link. Without a shaper, the interface's own counters are used,
//! in which a super-segment is one packet. The reported counters continue when one replaces the other.

use hawser_host::netns::Netlink;

use crate::LabError;
use crate::network;
use crate::plan::LinkPlan;
use crate::spec::Rules;
use crate::statistics::Statistics;

/// One direction of such a link.
pub(crate) struct Shaper {
    rules: Rules,
    /// The difference between the reported and the present counters; it wraps.
    before: ShaperCounts,
}

/// The frames and bytes that have left, and the losses.
#[derive(Clone, Copy, Default)]
struct ShaperCounts {
    frames: u64,
    bytes: u64,
    dropped: u64,
}

impl ShaperCounts {
    fn plus(self, other: ShaperCounts) -> ShaperCounts {
        ShaperCounts {
            frames: self.frames.wrapping_add(other.frames),
            bytes: self.bytes.wrapping_add(other.bytes),
            dropped: self.dropped.wrapping_add(other.dropped),
        }
    }

    fn minus(self, other: ShaperCounts) -> ShaperCounts {
        ShaperCounts {
            frames: self.frames.wrapping_sub(other.frames),
            bytes: self.bytes.wrapping_sub(other.bytes),
            dropped: self.dropped.wrapping_sub(other.dropped),
        }
    }
}

impl Shaper {
    pub(crate) fn new(rules: &Rules) -> Shaper {
        Shaper { rules: rules.clone(), before: ShaperCounts::default() }
    }

    /// Changes the egress of the end `end` of a link. `netlink` is that of its host.
    pub(crate) fn change(
        &mut self,
        netlink: &mut Netlink,
        link: &LinkPlan,
        end: usize,
        rules: &Rules,
    ) -> Result<(), LabError> {
        let interface = &link.ends[end].interface;
        let rules = self.rules.overridden_by(rules);
        let (was, is) = (network::is_shaped(&self.rules), network::is_shaped(&rules));
        let (total, waiting) = self.count(netlink, interface)?;
        if is {
            network::shape(netlink, link, end, &rules)?;
        } else if was {
            netlink.unshape(interface)?;
        }
        self.rules = rules;
        if was != is {
            // Packets that waited in a shaper are lost with it.
            let total = ShaperCounts { dropped: total.dropped + waiting.frames, ..total };
            self.before = ShaperCounts::default();
            self.before = total.minus(self.count(netlink, interface)?.0);
        }
        Ok(())
    }

    /// Returns the statistics of the direction, without the time.
    pub(crate) fn statistics(&self, netlink: &mut Netlink, interface: &str) -> Result<Statistics, LabError> {
        let (counted, waiting) = self.count(netlink, interface)?;
        let lost = [("queue", counted.dropped)]
            .into_iter()
            .filter(|(_, count)| *count > 0);
        Ok(Statistics {
            sent: counted.frames + counted.dropped + waiting.frames,
            sent_bytes: counted.bytes + waiting.bytes,
            delivered: counted.frames,
            delivered_bytes: counted.bytes,
            queued: waiting.frames,
            queued_bytes: waiting.bytes,
            lost: lost.collect(),
            ..Statistics::default()
        })
    }

    /// Returns the counters of passed frames, and of waiting ones.
    fn count(
        &self,
        netlink: &mut Netlink,
        interface: &str,
    ) -> Result<(ShaperCounts, ShaperCounts), LabError> {
        let (present, waiting) = if network::is_shaped(&self.rules) {
            let queue = netlink.queue_counters(interface)?;
            let present =
                ShaperCounts { frames: queue.sent, bytes: queue.sent_bytes, dropped: queue.dropped };
            (
                present,
                ShaperCounts { frames: queue.waiting, bytes: queue.waiting_bytes, dropped: 0 },
            )
        } else {
            let sent = netlink.interface_counters(interface)?;
            (
                ShaperCounts { frames: sent.sent, bytes: sent.sent_bytes, dropped: 0 },
                ShaperCounts::default(),
            )
        };
        Ok((self.before.plus(present), waiting))
    }
}
