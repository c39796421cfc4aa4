//! Which bytes go where: the stream by its urgency, the carrier by the scheduler.

use std::time::Duration;

use bytes::Bytes;

use super::{Instruction, Session};
use crate::scheduler::{Choice, PathView, Pending};
use crate::segment::data_header;
use crate::send::{Next, Slots};

/// A header's bytes.
const HEADER: u64 = 20;
/// The longest segment's payload.
const MOST: usize = 65_536;

impl Session {
    /// Sends whatever may be sent.
    pub(super) fn pump(&mut self, now: Duration) {
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
            let pending = Pending {
                stream: id,
                length: next.length.min(MOST),
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
                    self.wait_until = now.checked_add(time);
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
            let Some(path) = path.as_ref().filter(|_| usable & 1 << slot != 0) else { continue };
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

    /// The most urgent stream that may send, and what.
    fn next_pending(&mut self) -> Option<(u32, Next)> {
        while let Some(&rank) = self.sendable.first() {
            let id = rank.2;
            let budget = self.credit.saturating_sub(self.sent);
            if let Some(stream) = self.streams.get_mut(&id) {
                let limit = stream.send_credit.min(stream.send.fresh() + budget);
                if let Some(next) = stream.send.next(limit) {
                    return Some((id, next));
                }
                stream.queued = None;
            }
            self.sendable.pop_first();
        }
        None
    }

    /// Cuts a segment for the carrier at `index` of the views, and sends it.
    fn send_next(&mut self, index: usize, id: u32, next: Next, now: Duration) {
        let view = &mut self.views[index];
        let (slot, most) = (view.slot, view.segment.min(next.length));
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let fresh_before = stream.send.fresh();
        let (body, end) = stream.send.cut(next.offset, most, slot as u32);
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
        self.scheduler.sent(carrier, body.len());
        self.out.push_back(Instruction::Send { carrier, head: Bytes::copy_from_slice(&head), body });
        self.turn += 1;
        let turn = self.turn;
        if let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.priority.incremental) {
            stream.turn = turn;
            self.queue(id);
        }
        if self.paths[slot].as_ref().is_some_and(|path| path.quota == Some(0)) {
            self.views.retain(|view| view.slot != slot);
        }
    }

    /// Every carrier gets every byte, each at its own pace: the lowest that it has not had.
    fn pump_copies(&mut self, now: Duration) {
        let mut index = 0;
        while index < self.views.len() {
            if self.views[index].room == 0 {
                index += 1;
                continue;
            }
            let slot = self.views[index].slot as u32;
            let fresh = self.next_pending();
            let copy = self
                .streams
                .iter()
                .filter_map(|(&id, stream)| Some((stream.rank(id), id, stream.send.copy_for(slot)?)))
                .min_by_key(|(rank, ..)| *rank)
                .map(|(_, id, next)| (id, next));
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

    /// Nothing new can be sent. What is under way on a slow carrier goes once more on one that
    /// would have it there clearly sooner: at the tail of the data, or when the peer's credit is
    /// held up by it.
    fn reinject(&mut self, now: Duration) {
        loop {
            let Some(index) = (0..self.views.len())
                .filter(|&index| self.views[index].room > 0)
                .min_by_key(|&index| self.views[index].statistics.arrival())
            else {
                return;
            };
            let slot = self.views[index].slot as u32;
            let lowest = self.streams.iter().find_map(|(&id, stream)| {
                let copy = stream.send.copy_for(slot)?;
                Some((id, copy, stream.send.carriers_of(copy.offset)))
            });
            let Some((id, copy, on)) = lowest else { return };
            if on.count_ones() != 1 {
                return;
            }
            let Some(holder) = self.path(on.trailing_zeros() as usize) else { return };
            let length = self.views[index].segment.min(copy.length);
            // A copy is not worth money: never on a dearer path, nor out of a quota.
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

    /// Puts a stream among those that have something to send, at its place.
    pub(super) fn queue(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let rank = stream.rank(id);
        if stream.queued == Some(rank) {
            return;
        }
        if let Some(before) = stream.queued.replace(rank) {
            self.sendable.remove(&before);
        }
        self.sendable.insert(rank);
    }

    /// Credit or loss changed what may be sent: every stream with something to send is asked again.
    pub(super) fn queue_all(&mut self) {
        for (&id, stream) in &mut self.streams {
            if stream.queued.is_none() && stream.send.next(stream.send_credit).is_some() {
                let rank = stream.rank(id);
                stream.queued = Some(rank);
                self.sendable.insert(rank);
            }
        }
    }
}
