//! How much of the memory that all contexts share one of them may hold.
//!
//! A context may hold for sending what [`Limits::first_bytes`](crate::Limits::first_bytes) states, and
//! twice what is in flight, as Linux sizes send buffers by the congestion window: what is in flight can double
//! in a round trip, and all beyond that only waits, and is gone from the processor's memory when its turn comes.
//! So a peer that does not read costs little, and one that reads is not held up. For receiving, where nobody knows what
//! is in flight, it may hold twice what has been taken, and only while memory is scarce, since a program promises its
//! peer a window before anything was read.
//!
//! Memory is scarce when half of the total is held. Then each context may hold a quarter of what is
//! free, too: a dynamic threshold (Choudhury and Hahne, "Dynamic queue length thresholds for
//! shared-memory packet switches", IEEE/ACM Transactions on Networking 6(2), 1998), with which there
//! is always some left for the next. And each may hold
//! [`Limits::min_bytes`](crate::Limits::min_bytes) even when nothing is free, so that everybody
//! gets on.

use super::State;
use super::slot::Slot;
use crate::data::PAGE;

/// Packets up to this many bytes may be taken in beyond a context's share, as long as an eighth
/// of the total is free: acknowledgements have to get through for memory to become free.
const SMALL_PACKET: usize = 128;

/// What one context may take in.
struct Share {
    /// What it holds.
    own: u64,
    /// The most that it holds while memory is plenty,
    plenty: u64,
    /// and while it is scarce.
    scarce: u64,
}

impl Share {
    /// Bytes that it may take in when `held` of `total` are held by all.
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

impl State {
    /// Bytes that a context can take for sending now.
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

    /// The longest message that a context can take for sending at all.
    pub(crate) fn longest_message(&self, slot: Slot) -> u64 {
        let longest = match self.contexts.entry(slot).send_buffer {
            0 => self.limits.tx_bytes,
            chosen => chosen,
        };
        longest.min(u64::from(u32::MAX))
    }

    /// Whether so many packet instructions more may wait. What the rate of a context holds back of what
    /// its application has offered is at most as much as is still free for others: a rate of 0 stops nobody else. Their
    /// payload is bounded as what is held for sending is, since programs may retire it before it has left.
    #[inline]
    pub(crate) fn room_for_packets(&self, count: usize, offered_to: Option<Slot>) -> bool {
        let free = self.limits.pending_packets.saturating_sub(self.packets.len());
        let own = offered_to.map_or(0, |slot| self.packets.held_back(Some(slot)));
        let is_bounded = self.packets.held() <= self.limits.tx_total;
        count <= free && is_bounded && (own == 0 || own + count <= free)
    }

    /// Whether a context can take a message of `len` bytes for sending now. One that holds nothing has earned
    /// nothing either, and takes its longest all the same: no part of a message can go ahead.
    pub(crate) fn room_for_message(&self, slot: Slot, len: u64) -> bool {
        let is_first = self.contexts.entry(slot).units.sending_bytes() == 0;
        let free = self.limits.tx_total.saturating_sub(self.tx_held);
        len <= self.room_to_send(slot) || (is_first && len <= self.longest_message(slot).min(free / 2))
    }

    /// Whether a packet of `len` bytes can be taken in for a context, or for one to be made.
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

    /// What a context may hold whose peer was seen to take so many bytes.
    fn earned(&self, seen: u64) -> u64 {
        self.limits.first_bytes.saturating_add(seen.saturating_mul(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOTAL: u64 = 512 << 20;
    const MIN_BYTES: u64 = 16 << 10;

    /// Contexts that take in all they may and give nothing back, one after the other: what is held
    /// in the end, and what the last one got.
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
    fn a_context_alone_gets_all_that_one_may_have() {
        assert_eq!(greedy(1, 4 << 20, 4 << 20), (4 << 20, 4 << 20));
    }

    #[test]
    fn the_total_is_bounded_and_each_gets_the_minimum() {
        let (held, last) = greedy(20_000, 8 << 20, 128 << 10);
        assert_eq!(last, MIN_BYTES);
        assert!(held <= TOTAL + 20_000 * MIN_BYTES, "{held}");
    }

    /// Half is held by those who came first. The 1,000 after them, which have shown nothing, take
    /// 128 KiB each, and who is read from still has more than a megabyte.
    #[test]
    fn a_context_that_gives_memory_back_has_room_beside_many_that_do_not() {
        let (held, last) = greedy(1000, 1 << 20, 128 << 10);
        assert_eq!(last, 128 << 10);
        let honest = Share { own: 0, plenty: 8 << 20, scarce: 8 << 20 };
        assert_eq!(honest.room(TOTAL, held, MIN_BYTES), 8 << 20, "{held}");
    }
}
