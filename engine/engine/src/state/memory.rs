//! The share of the common memory that a single context may hold.
//!
//! For sending, a context may hold [`Limits::first_bytes`](crate::StackLimits::first_bytes) plus twice the
//! bytes in flight, as Linux sizes send buffers by the congestion window. The bytes in flight can double in a
//! round trip. Further bytes would only wait, and would have left the processor's caches by the time they are
//! sent. A peer that does not read thus costs little, and one that reads is not held up. For receiving, the
//! bytes in flight are unknown, so a context may hold twice the bytes that the application has taken. This
//! limit applies only while memory is scarce, because a program promises its peer a window before the
//! application has read anything.
//!
//! Memory is scarce when half of the total is held. Each context may then also hold at most a quarter of the
//! free memory. This is a dynamic threshold (Choudhury and Hahne, "Dynamic queue length thresholds for
//! shared-memory packet switches", IEEE/ACM Transactions on Networking 6(2), 1998), which always leaves some
//! memory for the next context. Each context may hold [`Limits::min_bytes`](crate::StackLimits::min_bytes)
//! even when no memory is free, so that all make progress.

use super::StackState;
use super::slot::Slot;
use crate::data::PAGE;

/// Packets up to this many bytes may exceed a context's share as long as an eighth of the total is free.
/// Acknowledgements have to get through for memory to become free.
const SMALL_PACKET: usize = 128;

/// The share of one context, in bytes.
struct Share {
    /// The bytes that it holds.
    own: u64,
    /// The maximum that it may hold while memory is plenty.
    plenty: u64,
    /// The maximum that it may hold while memory is scarce.
    scarce: u64,
}

impl Share {
    /// Returns the number of bytes that the context may accept when all contexts together hold `held` of
    /// `total`.
    fn room(&self, total: u64, held: u64, min: u64) -> u64 {
        let free = total.saturating_sub(held);
        let limit = if held < total / 2 {
            self.plenty
        } else {
            self.scarce.min(free / 4)
        };
        let shared = limit.saturating_sub(self.own).min(free);
        shared.max(min.min(self.plenty).saturating_sub(self.own))
    }
}

impl StackState {
    /// Returns the number of bytes that a context can accept for sending now.
    pub(crate) fn room_to_send(&self, slot: Slot) -> u64 {
        let (limits, entry) = (&self.limits, self.contexts.entry(slot));
        let (own, unsent) = (entry.units.sending_bytes(), entry.units.unsent_bytes());
        let limit = match entry.send_buffer {
            0 => self.earned(own - unsent).min(limits.tx_bytes),
            chosen => chosen,
        };
        let share = Share { own, plenty: limit, scarce: limit };
        let room = share.room(limits.tx_total, self.tx_held, limits.min_bytes);
        match entry.not_sent {
            0 => room,
            limit => room.min(limit.saturating_sub(unsent)),
        }
    }

    /// Returns the length of the longest message that a context can ever accept for sending.
    pub(crate) fn longest_message(&self, slot: Slot) -> u64 {
        let longest = match self.contexts.entry(slot).send_buffer {
            0 => self.limits.tx_bytes,
            chosen => chosen,
        };
        longest.min(u64::from(u32::MAX))
    }

    /// Returns true if `count` more packet instructions may wait. Instructions with an application's data
    /// that wait for their context's own rate may not exceed the free room: a rate of 0 must not block other
    /// contexts. Their payload is bounded like bytes held for sending, because programs may retire it before
    /// it has left.
    #[inline]
    pub(crate) fn room_for_packets(&self, count: usize, offered_to: Option<Slot>) -> bool {
        let free = self.limits.pending_packets.saturating_sub(self.packets.len());
        let own = offered_to.map_or(0, |slot| self.packets.held_back(Some(slot)));
        let is_bounded = self.packets.held() <= self.limits.tx_total;
        count <= free && is_bounded && (own == 0 || own + count <= free)
    }

    /// Returns true if a context can accept a message of `len` bytes for sending now. A context that holds no
    /// bytes may accept its longest message, although it has no bytes in flight. The reason is that no part
    /// of a message can be sent ahead.
    pub(crate) fn room_for_message(&self, slot: Slot, len: u64) -> bool {
        let is_first = self.contexts.entry(slot).units.sending_bytes() == 0;
        let free = self.limits.tx_total.saturating_sub(self.tx_held);
        len <= self.room_to_send(slot) || (is_first && len <= self.longest_message(slot).min(free / 2))
    }

    /// Returns true if a packet of `len` bytes can be accepted for a context, or for one that is to be
    /// created.
    pub(crate) fn room_to_receive(&self, keyed: Option<Slot>, len: usize) -> bool {
        if len == 0 {
            return true;
        }
        let limits = &self.limits;
        let needed = (len + PAGE) as u64;
        let units = keyed.map(|slot| &self.contexts.entry(slot).units);
        let own = units.map_or(0, |units| units.receiving_memory());
        if len <= SMALL_PACKET
            && own + needed <= limits.rx_bytes
            && self.rx_held + needed <= limits.rx_total / 8 * 7
        {
            return true;
        }
        let earned = self.earned(units.map_or(0, |units| units.taken_bytes()));
        let share = Share { own, plenty: limits.rx_bytes, scarce: earned.min(limits.rx_bytes) };
        needed <= share.room(limits.rx_total, self.rx_held, limits.min_bytes)
    }

    /// Returns the number of bytes that a context may hold, given the number that were seen to leave.
    fn earned(&self, seen: u64) -> u64 {
        self.limits.first_bytes.saturating_add(seen.saturating_mul(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOTAL: u64 = 512 << 20;
    const MIN_BYTES: u64 = 16 << 10;

    /// Fills contexts one after the other, each accepting all that it may without releasing any. Returns the
    /// number of bytes held in the end, and the last context's share.
    fn greedy(count: usize, plenty: u64, scarce: u64) -> (u64, u64) {
        (0..count).fold((0, 0), |(held, _), _| {
            let mut share = Share { own: 0, plenty, scarce };
            let before = held;
            let mut held = held;
            loop {
                let room = share.room(TOTAL, held, MIN_BYTES).min(1460);
                if room == 0 {
                    return (held, held - before);
                }
                share.own += room;
                held += room;
            }
        })
    }

    #[test]
    fn a_sole_context_gets_the_maximum_memory() {
        assert_eq!(greedy(1, 4 << 20, 4 << 20), (4 << 20, 4 << 20));
    }

    #[test]
    fn the_total_is_bounded_and_each_context_gets_the_minimum() {
        let (held, last) = greedy(20_000, 8 << 20, 128 << 10);
        assert_eq!(last, MIN_BYTES);
        assert!(held <= TOTAL + 20_000 * MIN_BYTES, "{held}");
    }

    /// Early contexts hold half of the memory. The 1,000 after them, which have taken no bytes yet, get 128
    /// KiB each. A context whose application reads still has more than a megabyte.
    #[test]
    fn a_context_that_returns_memory_gets_room_beside_hoarders() {
        let (held, last) = greedy(1000, 1 << 20, 128 << 10);
        assert_eq!(last, 128 << 10);
        let honest = Share { own: 0, plenty: 8 << 20, scarce: 8 << 20 };
        assert_eq!(honest.room(TOTAL, held, MIN_BYTES), 8 << 20, "{held}");
    }
}
