//! The assignment of data: the stream by its priority, the carrier by the scheduler.

use bytes::Bytes;
use hawser_time::Instant;

use super::{Instruction, Session};
use crate::scheduler::{Choice, PathView, PendingData};
use crate::segment::data_header;
use crate::send::{SendRange, Slots};
use crate::stream::Rank;

/// The length of a DATA header in bytes.
const HEADER: u64 = 20;
/// The maximum payload of a segment in bytes.
const MAX_PAYLOAD: usize = 65_536;
/// The maximum number of streams that are examined for data worth a second copy. It keeps the cost of an
/// acknowledgement independent of the number of streams.
const LOOKED_AT: usize = 16;

impl Session {
    /// Sends all data that may be sent.
    pub(super) fn pump(&mut self, now: Instant) {
        self.wait_until = None;
        if !self.may_send() {
            return;
        }
        let usable = self.usable();
        if usable == 0 {
            return;
        }
        self.view(usable);
        if self.scheduler.is_redundant() {
            return self.pump_copies(now);
        }
        while let Some((id, next)) = self.next_pending() {
            let pending = PendingData {
                stream: id,
                length: next.length.min(MAX_PAYLOAD),
                waiting: self.unsent,
                credit: self.credit.saturating_sub(self.sent),
                window: self.credit.saturating_sub(self.counters.acknowledged),
                again: next.again,
            };
            match self.scheduler.choose(&self.views, &pending, now) {
                Choice::Send(index) if self.views.get(index).is_some_and(|view| view.room > 0) => {
                    self.send_next(index, id, next, now);
                }
                Choice::Send(_) => return,
                Choice::Wait(time) => {
                    self.wait_until = Some(now + time).filter(|at| *at < Instant::NEVER);
                    return;
                }
            }
            if self.views.iter().all(|view| view.room == 0) {
                return;
            }
        }
        if self.config.reinject {
            self.reinject(now);
        }
    }

    /// Shows the scheduler the carriers in `usable`.
    fn view(&mut self, usable: Slots) {
        self.views.clear();
        for (slot, path) in self.paths.iter().enumerate() {
            let Some(path) = path.as_ref().filter(|_| usable & 1 << slot != 0) else {
                continue;
            };
            self.views.push(PathView {
                carrier: path.id,
                statistics: path.statistics,
                room: path.room,
                weight: path.weight,
                cost: path.cost,
                slot,
                segment: path.statistics.segment(),
            });
        }
    }

    /// Returns the most urgent stream that may send, and its next part.
    fn next_pending(&mut self) -> Option<(u32, SendRange)> {
        let budget = self.credit.saturating_sub(self.sent);
        loop {
            let held_up = self.held_up.first().filter(|_| budget > 0);
            let &rank = self.sendable.first().into_iter().chain(held_up).min()?;
            let id = rank.2;
            if let Some(stream) = self.streams.get_mut(id) {
                let limit = stream.send_credit.min(stream.send.fresh() + budget);
                if let Some(next) = stream.send.next(limit) {
                    return Some((id, next));
                }
                if stream.send.next(stream.send_credit).is_some() {
                    self.held_up.insert(rank);
                } else {
                    stream.queued = None;
                    self.held_up.remove(&rank);
                }
            }
            self.sendable.remove(&rank);
        }
    }

    /// Cuts a segment for the carrier at `index` of the views, and sends it.
    fn send_next(&mut self, index: usize, id: u32, next: SendRange, now: Instant) {
        let view = &mut self.views[index];
        let (slot, max_len) = (view.slot, view.segment.min(next.length));
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        let (fresh_before, rank_before) = (stream.send.fresh(), stream.rank(id));
        let (body, end) = stream.send.cut(next.offset, max_len, slot as u32);
        let fresh = stream.send.fresh() - fresh_before;
        self.sent += fresh;
        self.unsent -= fresh;
        let head = data_header(id, next.offset, body.len(), end);
        let length = HEADER + body.len() as u64;
        view.room = view.room.saturating_sub(length as usize);
        view.statistics.queued += length;
        let carrier = view.carrier;
        if let Some(path) = self.paths[slot].as_mut() {
            if path.statistics.outstanding() == 0 {
                path.progress_at = now;
            }
            path.statistics.queued += length;
            path.spend(length, now);
            if next.again {
                path.counts.again += body.len() as u64;
            } else {
                path.counts.fresh += body.len() as u64;
            }
        }
        self.under_way.insert(id);
        self.scheduler.sent(carrier, body.len());
        self.out
            .push_back(Instruction::Send { carrier, head: Bytes::copy_from_slice(&head), body });
        self.turn += 1;
        let turn = self.turn;
        if let Some(stream) = self
            .streams
            .get_mut(id)
            .filter(|stream| stream.priority.incremental)
        {
            stream.turn = turn;
            self.queue(id);
        }
        if self.scheduler.is_redundant() {
            self.offer_copies(slot, id, rank_before);
        }
        if self.paths[slot]
            .as_ref()
            .is_some_and(|path| path.quota == Some(0))
        {
            self.views.retain(|view| view.slot != slot);
        }
    }

    /// Sends every byte on every carrier, each at its own pace, beginning with the lowest that it was not
    /// given.
    fn pump_copies(&mut self, now: Instant) {
        let mut index = 0;
        while index < self.views.len() {
            if self.views[index].room == 0 {
                index += 1;
                continue;
            }
            let fresh = self.next_pending();
            let copy = self.next_copy(self.views[index].slot);
            let choice = match (fresh, copy) {
                (Some((id, next)), Some((other, copy))) if id == other && next.offset < copy.offset => {
                    Some((id, next))
                }
                (fresh, copy) => copy.or(fresh),
            };
            match choice {
                Some((id, next)) => {
                    let views = self.views.len();
                    self.send_next(index, id, next, now);
                    index -= usize::from(self.views.len() < views).min(index);
                }
                None => index += 1,
            }
        }
    }

    /// Returns the most urgent stream with bytes in flight that the carrier in `slot` was not given, and
    /// those bytes.
    fn next_copy(&mut self, slot: usize) -> Option<(u32, SendRange)> {
        let path = self.paths[slot].as_mut()?;
        loop {
            let &(.., id) = path.copies.first()?;
            let stream = self.streams.get(id);
            if let Some(copy) = stream.and_then(|stream| stream.send.copy_for(slot as u32)) {
                return Some((id, copy));
            }
            path.copies.pop_first();
        }
    }

    /// Offers more data of a stream, which went on the carrier in `slot`, to all other carriers. `before` is
    /// the stream's earlier rank.
    fn offer_copies(&mut self, slot: usize, id: u32, before: Rank) {
        let Some(rank) = self.streams.get(id).map(|stream| stream.rank(id)) else {
            return;
        };
        for (other, path) in self.paths.iter_mut().enumerate() {
            let Some(path) = path else { continue };
            if path.copies.remove(&before) || other != slot {
                path.copies.insert(rank);
            }
        }
    }

    /// Offers the carrier in `slot` all data in flight, because its earlier copies no longer count.
    pub(super) fn offer_all_copies(&mut self, slot: usize) {
        if let Some(path) = self.paths[slot]
            .as_mut()
            .filter(|_| self.scheduler.is_redundant())
        {
            let rank = |&id: &u32| self.streams.get(id).map(|stream| stream.rank(id));
            path.copies = self.under_way.iter().filter_map(rank).collect();
        }
    }

    /// Sends a second copy when no new data can be sent. Data in flight on a slow carrier goes to one that
    /// would deliver it clearly sooner. This applies at the tail of the data, or when the slow carrier holds
    /// up the peer's credit.
    fn reinject(&mut self, now: Instant) {
        loop {
            let Some(index) = (0..self.views.len())
                .filter(|&index| self.views[index].room > 0)
                .min_by_key(|&index| self.views[index].statistics.arrival())
            else {
                return;
            };
            let slot = self.views[index].slot as u32;
            let Some((id, copy)) = self.lowest_under_way(slot) else {
                return;
            };
            let Some(stream) = self.streams.get(id) else {
                return;
            };
            let on = stream.send.carriers_of(copy.offset);
            if on.count_ones() != 1 {
                return;
            }
            let Some(holder) = self.path(on.trailing_zeros() as usize) else {
                return;
            };
            let length = self.views[index].segment.min(copy.length);
            // A copy must not cost money: never on a more expensive path, nor on a metered one.
            let copier = self.path(slot as usize);
            if copier.is_none_or(|copier| copier.cost > holder.cost || copier.quota.is_some()) {
                return;
            }
            let there = holder.statistics.arrival();
            let here = self.views[index].arrival(length);
            if here + here / 4 >= there {
                return;
            }
            self.counters.reinjected += length as u64;
            self.send_next(index, id, copy, now);
        }
    }

    /// Returns the lowest bytes in flight that were not sent on the carrier in `slot`, among the first
    /// streams that have data in flight.
    fn lowest_under_way(&mut self, slot: u32) -> Option<(u32, SendRange)> {
        let mut from = 0;
        for _ in 0..LOOKED_AT {
            let id = *self.under_way.range(from..).next()?;
            from = id + 1;
            match self.streams.get(id).filter(|stream| stream.send.is_under_way()) {
                Some(stream) => {
                    if let Some(copy) = stream.send.copy_for(slot) {
                        return Some((id, copy));
                    }
                }
                None => drop(self.under_way.remove(&id)),
            }
        }
        None
    }

    /// Inserts a stream into the sending order, if it has data to send.
    pub(super) fn queue(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        let rank = stream.rank(id);
        if let Some(before) = stream.queued.replace(rank) {
            self.held_up.remove(&before);
            if before != rank {
                self.sendable.remove(&before);
            }
        }
        self.sendable.insert(rank);
    }

    /// Queues every stream with data to send, after a loss has changed what may be sent.
    pub(super) fn queue_all(&mut self) {
        self.held_up.clear();
        for (id, stream) in self.streams.iter_mut() {
            if stream.send.next(stream.send_credit).is_some() {
                let rank = stream.rank(id);
                self.sendable.insert(*stream.queued.get_or_insert(rank));
            }
        }
    }
}
