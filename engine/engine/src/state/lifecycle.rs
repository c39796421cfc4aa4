//! Operations that concern a context, its handle and the shared memory at once: notices, deferred requests,
//! the accept queue, and the end of a context.

use hawser_ir::AppOp;
use hawser_ir::abi::Id;

use super::handles::ContextRemains;
use super::{Errno, GivenUp, Notice, Slot, StackState};

impl StackState {
    /// Notifies the application of a context's handle, if there is one. An end of stream that arrives before
    /// the handle exists is kept for it.
    pub(crate) fn notify_context(&mut self, slot: Slot, notice: Notice) {
        let Some(handle) = self.contexts.entry(slot).handle else {
            self.contexts.entry_mut(slot).early_eof |= notice == Notice::Eof;
            return;
        };
        if !self.handles.notify(handle, notice) {
            self.counters.notices_dropped += 1;
        }
    }

    /// Fails a context that asks for more than a limit allows: its application is notified, and its program
    /// gets an `abort`.
    pub(crate) fn fail(&mut self, slot: Slot, errno: Errno) {
        if !std::mem::replace(&mut self.contexts.entry_mut(slot).deferred.abort, true) {
            self.notify_context(slot, Notice::Failed(errno));
            self.defer(slot);
        }
    }

    /// Lists a context that has deferred requests, which the program receives with the next poll.
    pub(crate) fn defer(&mut self, slot: Slot) {
        let deferred = &mut self.contexts.entry_mut(slot).deferred;
        let any_flag = deferred.abort || deferred.close || deferred.release || deferred.given_up;
        let has_any = any_flag || deferred.taken > 0;
        if !deferred.listed && has_any {
            deferred.listed = true;
            self.deferred.push_back(slot);
        }
    }

    /// Records the directions of a stream that an application gives up, for the program to receive later.
    pub(crate) fn give_up(&mut self, slot: Slot, what: GivenUp) {
        self.contexts.entry_mut(slot).deferred.given_up = true;
        let known = self.given_up.entry(slot.index).or_default();
        known.reset = what.reset.or(known.reset);
        known.stop = what.stop.or(known.stop);
    }

    /// Returns the next request of this kind, with its reason.
    pub(crate) fn next_given_up(&mut self, slot: Slot) -> Option<(AppOp, u64)> {
        let known = self.given_up.entry(slot.index).or_default();
        let stop = known.stop.take().map(|reason| (AppOp::Stop, reason));
        let next = stop.or_else(|| known.reset.take().map(|reason| (AppOp::Reset, reason)));
        if known.reset.is_none() {
            self.given_up.remove(&slot.index);
            self.contexts.entry_mut(slot).deferred.given_up = false;
        }
        next
    }

    /// Records that an application waits for room: for bytes, or for packet instructions, which all contexts
    /// share.
    pub(crate) fn block(&mut self, slot: Slot, on_packets: bool) {
        let units = &mut self.contexts.entry_mut(slot).units;
        let first = !std::mem::replace(&mut units.blocked, true);
        if first && on_packets {
            self.blocked.push(slot);
        }
    }

    /// Records that the program put off an application's request, which is offered again once a chain has run
    /// to its end.
    pub(crate) fn put_off(&mut self, slot: Slot) {
        self.block(slot, false);
        self.put_off.push((slot, self.reactions()));
    }

    /// Returns the number of chains that have run to their ends.
    fn reactions(&self) -> u64 {
        self.counters.chains - self.counters.refused
    }

    /// Notifies the applications whose requests were put off, once a later chain has run.
    pub(crate) fn offer_again(&mut self) {
        if self.put_off.is_empty() {
            return;
        }
        let reactions = self.reactions();
        for (slot, before) in std::mem::take(&mut self.put_off) {
            if !self.contexts.is_live(slot) || !self.contexts.entry(slot).units.blocked {
                continue;
            }
            if before == reactions {
                self.put_off.push((slot, before));
            } else {
                self.unblock(slot);
            }
        }
    }

    /// Notifies the applications that waited for packets to leave, if there is room.
    pub(crate) fn unblock_all(&mut self) {
        if self.blocked.is_empty() {
            return;
        }
        // Packets that wait for their rates may stay for any length of time.
        let (held_back, waiting) = (self.packets.held_back(None), self.packets.len());
        let limit = self.limits.pending_packets;
        if waiting - held_back >= limit.saturating_sub(held_back) / 2 {
            return;
        }
        for slot in std::mem::take(&mut self.blocked) {
            if !self.contexts.is_live(slot) {
                continue;
            }
            if self.packets.held_back(Some(slot)) <= limit.saturating_sub(waiting) / 2 {
                self.unblock(slot);
            } else {
                self.blocked.push(slot);
            }
        }
    }

    /// Handles the departure of bytes from a context's sending units: notifies an application that waits for
    /// room, and removes units that are over.
    pub(crate) fn left_sending(&mut self, slot: Slot) {
        self.contexts.entry_mut(slot).units.prune();
        self.made_room(slot);
    }

    /// Notifies an application that waits for room, after bytes have left a context's sending units or were
    /// put into a packet.
    pub(crate) fn made_room(&mut self, slot: Slot) {
        let entry = self.contexts.entry(slot);
        if !entry.units.blocked {
            return;
        }
        // A notice does not follow every few bytes. It needs a quarter of the room, which an emptied unit
        // always has; if unsent bytes are bounded, half of that bound is enough.
        let enough = match entry.not_sent {
            0 => entry.units.sending_bytes() / 3,
            limit => (entry.units.sending_bytes() / 3).min(limit / 2),
        };
        if self.room_to_send(slot) >= enough {
            self.unblock(slot);
        }
    }

    /// Notifies an application that waits for room if a changed bound has made some.
    pub(crate) fn bound_changed(&mut self, slot: Slot) {
        if self.contexts.entry(slot).units.blocked && self.room_to_send(slot) > 0 {
            self.unblock(slot);
        }
    }

    fn unblock(&mut self, slot: Slot) {
        self.contexts.entry_mut(slot).units.blocked = false;
        self.notify_context(slot, Notice::Writable);
    }

    /// Discards bytes that will never be read, and reports them to the program.
    pub(crate) fn discard_unread(&mut self, slot: Slot) {
        let entry = self.contexts.entry_mut(slot);
        let before = entry.units.receiving_memory();
        let skipped = entry.units.skip(&mut self.pages);
        self.rx_held -= before - entry.units.receiving_memory();
        if skipped > 0 && self.reports_taken {
            entry.deferred.taken += skipped;
            self.defer(slot);
        }
    }

    /// Puts a connection on its listener's accept queue, under a new handle. If there is no listener's handle
    /// or no free handle, the connection is aborted. Returns `None` if the connection does not exist.
    pub(crate) fn enqueue(&mut self, listener: Slot, id: &Id) -> Option<()> {
        let child = self.contexts.find(id)?;
        let entry = self.contexts.entry_mut(child);
        if entry.handle.is_some() {
            return None;
        }
        let (readable, eof) = (entry.units.readable() > 0, entry.early_eof);
        let owner = self.contexts.entry(listener).handle;
        let Some((owner, handle)) = owner.and_then(|owner| Some((owner, self.handles.open()?))) else {
            self.counters.accept_overflow += 1;
            self.contexts.entry_mut(child).deferred.abort = true;
            self.defer(child);
            self.accepted(listener);
            return Some(());
        };
        let entry = self.contexts.entry_mut(child);
        entry.handle = Some(handle);
        if let Some(bound) = self.handles.get_mut(handle) {
            bound.context = Some(child);
        }
        self.handles.notify(owner, Notice::Accepted(handle));
        if readable {
            self.handles.notify(handle, Notice::Readable);
        }
        if eof {
            self.handles.notify(handle, Notice::Eof);
        }
        Some(())
    }

    /// Reports to the listener's program that a connection has left the accept queue, as it does for taken
    /// bytes, with the next poll.
    pub(crate) fn accepted(&mut self, listener: Slot) {
        if self.reports_taken {
            self.contexts.entry_mut(listener).deferred.taken += 1;
            self.defer(listener);
        }
    }

    /// Ends a context: its timers, units and ids are removed. Its flushed bytes stay readable under its
    /// handle, and packets already issued still leave.
    pub(crate) fn end_context(&mut self, slot: Slot) {
        self.counters.contexts_ended += 1;
        self.timers.stop_all(slot.index);
        self.packets.forget(slot);
        self.given_up.remove(&slot.index);
        let entry = self.contexts.entry_mut(slot);
        if let Some(flow) = entry.flow.filter(|_| entry.owns_port) {
            self.ports.give(flow.local, flow.remote);
        }
        let mut units = std::mem::take(&mut entry.units);
        self.tx_held -= units.sending_bytes();
        let before = units.receiving_memory();
        match entry.handle.and_then(|handle| self.handles.get_mut(handle)) {
            Some(bound) if bound.context == Some(slot) => {
                bound.context = None;
                units.keep_readable(&mut self.chunks, &mut self.pages);
                self.rx_held -= before - units.receiving_memory();
                bound.after = Some(Box::new(ContextRemains { units, flow: entry.flow }));
            }
            _ => {
                units.clear(&mut self.chunks, &mut self.pages);
                self.rx_held -= before;
            }
        }
        self.contexts.remove(slot);
    }
}
