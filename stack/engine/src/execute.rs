//! Carries out the records of one chain, in order.
//!
//! The only place where instructions take effect. A record that names something that is not there
//! is counted and passed over: programs cannot make that happen by accident, since a chain knows
//! its context, but a context's end and a refused unit have to be harmless.

use hawser_ir::ContextId;
use hawser_ir::EventId;
use hawser_ir::abi::{
    self, ContextRec, Data, INF, Id, NOTIFY_ACCEPTED, NOTIFY_CLOSED, NOTIFY_CONNECTED, NOTIFY_EOF,
    NOTIFY_FAILED, NOTIFY_MESSAGE, NotifyRec, ON_FRESH, PacketRec, QueueRec, RaiseRec, RecordKind, TimerRec,
    UnitRec,
};
use hawser_ir::buf::{Record, RecordBuf};

use crate::chain::Cause;
use crate::contexts::Slot;
use crate::handles::{After, Errno, Flow, Notice};
use crate::packets::{Buffers, Pending};
use crate::rxunit::RxUnit;
use crate::stack::Stack;
use crate::txunit::TxUnit;
use crate::units::Place;

/// One chain's records being carried out.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    keyed: Option<Slot>,
    fresh: Option<Slot>,
    creates: Option<(ContextId, usize)>,
    cause: &'a Cause<'a>,
    keyed_ends: bool,
    fresh_ends: bool,
    /// It had a signal for the interactive layer.
    signalled: bool,
}

impl<'a> Run<'a> {
    /// A chain on `keyed` that may create a context of type and size `creates`.
    pub(crate) fn new(
        keyed: Option<Slot>,
        creates: Option<(ContextId, usize)>,
        cause: &'a Cause<'a>,
    ) -> Run<'a> {
        Run {
            keyed,
            fresh: None,
            creates,
            cause,
            keyed_ends: false,
            fresh_ends: false,
            signalled: false,
        }
    }

    /// The keyed context.
    pub(crate) fn keyed(&self) -> Option<Slot> {
        self.keyed
    }

    /// The context made.
    pub(crate) fn fresh(&self) -> Option<Slot> {
        self.fresh
    }

    /// It had a signal.
    pub(crate) fn signalled(&self) -> bool {
        self.signalled
    }

    /// A context was made.
    pub(crate) fn made(&self) -> bool {
        self.fresh.is_some()
    }

    /// The context that a record is about.
    #[inline]
    fn on(&self, on: u8) -> Option<Slot> {
        if on == ON_FRESH { self.fresh } else { self.keyed }
    }
}

impl Stack {
    /// Carries out a chain's records in order.
    pub(crate) fn execute(&mut self, records: &RecordBuf, run: &mut Run<'_>) {
        for record in records.iter() {
            let done = match record.kind {
                RecordKind::NewTx => self.new_tx(&record, run),
                RecordKind::AddTx => self.add_tx(&record, run),
                RecordKind::FlushTx => self.flush_tx(&record, run),
                RecordKind::NewRx => self.new_rx(&record, run),
                RecordKind::AddRx => self.add_rx(&record, run),
                RecordKind::FlushRx => self.flush_rx(&record, run),
                RecordKind::Packet => self.packet(&record, run),
                RecordKind::TimerStart | RecordKind::TimerStop => self.timer(&record, run),
                RecordKind::NewContext => self.new_context(&record, run),
                RecordKind::DelContext => del_context(&record, run),
                RecordKind::AddId | RecordKind::DropId => self.change_id(&record, run),
                RecordKind::Notify => self.notify(&record, run),
                RecordKind::Raise => self.raise(&record, run),
                RecordKind::Signal => {
                    self.counters.signals += 1;
                    run.signalled = true;
                    Some(())
                }
                RecordKind::QueueRate | RecordKind::QueuePrio | RecordKind::QueueReset => self.queue(&record),
                RecordKind::DelTx => self.del_tx(&record, run),
                RecordKind::DelRx => self.del_rx(&record, run),
                RecordKind::Extern => {
                    self.counters.unsupported += 1;
                    Some(())
                }
            };
            if done.is_none() {
                self.counters.dangling += 1;
            }
        }
    }

    /// The context that a record is about, and where it has the sending unit with this uid.
    #[inline]
    fn sender(&self, record: &Record<'_>, uid: &Id, run: &Run<'_>) -> Option<(Slot, Place)> {
        let slot = run.on(record.on)?;
        Some((slot, self.contexts.entry(slot).find_sending(uid)?))
    }

    /// The same for this receiving unit.
    #[inline]
    fn receiver(&self, record: &Record<'_>, uid: &Id, run: &Run<'_>) -> Option<(Slot, Place)> {
        let slot = run.on(record.on)?;
        Some((slot, self.contexts.entry(slot).find_receiving(uid)?))
    }

    fn new_tx(&mut self, record: &Record<'_>, run: &Run<'_>) -> Option<()> {
        let rec: &UnitRec = record.view();
        let slot = run.on(record.on)?;
        if self.has_room_for_unit(slot) {
            let size = if rec.len == 0 { INF } else { rec.len };
            let added = self
                .contexts
                .entry_mut(slot)
                .add_sending(rec.uid, TxUnit::new(size));
            self.counters.duplicate_ids += u64::from(!added);
        }
        Some(())
    }

    /// Whether a context may have one more unit; one that may not ends. Whoever asked for a unit puts
    /// bytes into it next, and none of them may be lost in silence.
    fn has_room_for_unit(&mut self, slot: Slot) -> bool {
        let units = &mut self.contexts.entry_mut(slot).units;
        units.prune();
        let room = units.len() < self.limits.units_per_context;
        if !room {
            self.counters.unit_limit += 1;
            self.fail(slot, Errno::NO_BUFFERS);
        }
        room
    }

    /// Ends a context that asks for more than a limit allows: its application is notified, and its
    /// program gets an `abort`.
    fn fail(&mut self, slot: Slot, errno: Errno) {
        if !std::mem::replace(&mut self.contexts.entry_mut(slot).owed.abort, true) {
            self.notify_context(slot, Notice::Failed(errno));
            self.owe(slot);
        }
    }

    fn new_rx(&mut self, record: &Record<'_>, run: &Run<'_>) -> Option<()> {
        let rec: &UnitRec = record.view();
        let slot = run.on(record.on)?;
        let most = self.limits.rx_bytes;
        let cap = if rec.off == 0 || rec.off == INF {
            most
        } else {
            rec.off
        };
        if cap > most {
            // What lies within the cap is never given up (docs/language.md, Instructions), and the program
            // tells its peer so. A promise that cannot be kept must not be made.
            self.counters.receive_limit += 1;
            self.fail(slot, Errno::NO_BUFFERS);
        }
        if self.has_room_for_unit(slot) {
            let added = self
                .contexts
                .entry_mut(slot)
                .add_receiving(rec.uid, RxUnit::new(rec.len, cap));
            self.counters.duplicate_ids += u64::from(!added);
        }
        Some(())
    }

    fn del_tx(&mut self, record: &Record<'_>, run: &Run<'_>) -> Option<()> {
        let rec: &UnitRec = record.view();
        let (slot, place) = self.sender(record, &rec.uid, run)?;
        let units = &mut self.contexts.entry_mut(slot).units;
        self.tx_held -= units.sending(place)?.end(&mut self.chunks);
        self.left_sending(slot);
        Some(())
    }

    fn del_rx(&mut self, record: &Record<'_>, run: &Run<'_>) -> Option<()> {
        let rec: &UnitRec = record.view();
        let (slot, place) = self.receiver(record, &rec.uid, run)?;
        let units = &mut self.contexts.entry_mut(slot).units;
        let unit = units.receiving(place)?;
        let before = unit.memory();
        unit.end(&mut self.pages);
        self.rx_held -= before - unit.memory();
        units.prune();
        Some(())
    }

    fn add_tx(&mut self, record: &Record<'_>, run: &Run<'_>) -> Option<()> {
        let rec: &UnitRec = record.view();
        let (slot, place) = self.sender(record, &rec.uid, run)?;
        // A request's bytes always fit; a chain that sends what a packet brought may be clipped.
        let room = self.room_to_send(slot);
        let unit = self.contexts.entry_mut(slot).units.sending(place)?;
        let before = unit.held();
        for bytes in run.cause.buffer.get(rec.addr, rec.len.min(room)) {
            unit.append(bytes, &mut self.chunks);
        }
        let added = unit.held() - before;
        self.tx_held += added;
        self.counters.clip_sending(rec.len - added);
        Some(())
    }

    fn flush_tx(&mut self, record: &Record<'_>, run: &Run<'_>) -> Option<()> {
        let rec: &UnitRec = record.view();
        let (slot, place) = self.sender(record, &rec.uid, run)?;
        let units = &mut self.contexts.entry_mut(slot).units;
        let retired = units.sending(place)?.retire(rec.len, &mut self.chunks);
        self.tx_held -= retired;
        self.counters.clip_sending(rec.len - retired);
        self.left_sending(slot);
        Some(())
    }

    /// Bytes have left a context's sending units: an application that waits for room gets a notice, and
    /// units that are over go.
    fn left_sending(&mut self, slot: Slot) {
        self.contexts.entry_mut(slot).units.prune();
        self.made_room(slot);
    }

    /// Bytes have left a context's sending units, or were put into a packet: an application that waits for
    /// room gets a notice.
    fn made_room(&mut self, slot: Slot) {
        let entry = self.contexts.entry(slot);
        if !entry.units.starved {
            return;
        }
        // Not for every few bytes: a quarter of the room, which an emptied unit always has; where unsent
        // bytes are bounded, half of that.
        let enough = match entry.not_sent {
            0 => entry.units.sending_bytes() / 3,
            most => (entry.units.sending_bytes() / 3).min(most / 2),
        };
        if self.room_to_send(slot) >= enough {
            self.contexts.entry_mut(slot).units.starved = false;
            self.notify_context(slot, Notice::Writable);
        }
    }

    fn add_rx(&mut self, record: &Record<'_>, run: &Run<'_>) -> Option<()> {
        let rec: &UnitRec = record.view();
        let (slot, place) = self.receiver(record, &rec.uid, run)?;
        let unit = self.contexts.entry_mut(slot).units.receiving(place)?;
        let before = unit.memory();
        let [head, tail] = run.cause.buffer.get(rec.addr, rec.len);
        let mut left_out = unit.add(rec.off, head, &mut self.pages);
        if !tail.is_empty() {
            left_out += unit.add(rec.off.saturating_add(head.len() as u64), tail, &mut self.pages);
        }
        let found = (head.len() + tail.len()) as u64;
        self.rx_held += unit.memory() - before;
        self.counters.clip_receiving(left_out + (rec.len - found));
        Some(())
    }

    fn flush_rx(&mut self, record: &Record<'_>, run: &Run<'_>) -> Option<()> {
        let rec: &UnitRec = record.view();
        let (slot, place) = self.receiver(record, &rec.uid, run)?;
        let entry = self.contexts.entry_mut(slot);
        let place = entry.take_turn(place);
        let unit = entry.units.receiving(place)?;
        self.counters.clip_receiving(unit.flush(rec.len));
        if unit.readable() > 0 {
            if entry.orphan {
                self.discard_unread(slot);
            } else {
                self.notify_context(slot, Notice::Readable);
            }
        }
        Some(())
    }

    fn packet(&mut self, record: &Record<'_>, run: &Run<'_>) -> Option<()> {
        let rec: &PacketRec = record.view();
        let image = record.tail::<PacketRec>().get(..rec.bytes as usize)?;
        let (_, coalesces) = *self.tables.blueprints.get(rec.blueprint as usize)?;
        // Chains that found no context send, too: refusals to strangers.
        let slot = run.on(record.on);
        if slot.is_some_and(|slot| self.contexts.entry(slot).owed.abort) {
            return Some(()); // what is about to be aborted begins nothing more
        }
        let data = payload_of(rec, image)?;
        let program = &self.program;
        if data.len == 0
            && coalesces
            && let Some(earlier) = slot.and_then(|slot| self.packets.latest(slot, rec))
            && program.coalesce(rec.blueprint, &earlier.buffers.image, image)
        {
            // The most frequent case by far: one more acknowledgement.
            earlier.become_header(rec, image);
            self.counters.coalesced += 1;
            return Some(());
        }
        let mut buffers = self.packets.buffers();
        buffers.image.extend_from_slice(image);
        let len = if data.len > 0 {
            self.refer(record, run, &mut buffers, &data)?
        } else {
            0
        };
        let pending = Pending::new(*rec, buffers, len, data.seg_size);
        let program = &self.program;
        let replaced = self.packets.push(slot, pending, |earlier| {
            data.len > 0 && coalesces && program.coalesce(rec.blueprint, &earlier.buffers.image, image)
        });
        self.counters.coalesced += u64::from(replaced);
        Some(())
    }

    /// Resolves a blueprint's payload and sets its length in the image to what is really there, which
    /// it returns.
    fn refer(
        &mut self,
        record: &Record<'_>,
        run: &Run<'_>,
        buffers: &mut Buffers,
        data: &Data,
    ) -> Option<u32> {
        let at = record.view::<PacketRec>().data_at as usize;
        let room = buffers.image.get_mut(at..at + size_of::<Data>())?;
        let owner = self.sender(record, &data.uid, run);
        let unit = owner.and_then(|(slot, place)| self.contexts.entry_mut(slot).units.sending(place));
        let len = unit.map_or(0, |unit| unit.refer(data.off, data.len, &mut buffers.payload));
        if let Some((slot, _)) = owner {
            self.made_room(slot);
        }
        self.counters.clip_sending(u64::from(data.len - len));
        room.copy_from_slice(bytemuck::bytes_of(&Data { len, ..*data }));
        Some(len)
    }

    fn timer(&mut self, record: &Record<'_>, run: &Run<'_>) -> Option<()> {
        let rec: &TimerRec = record.view();
        let slot = run.on(record.on)?;
        let kind = self.contexts.entry(slot).kind;
        self.tables.contexts[kind.0 as usize]
            .timers
            .get(rec.timer as usize)?;
        if record.kind == RecordKind::TimerStart {
            self.timers.start(slot, rec.timer, rec.deadline);
        } else {
            self.timers.stop(slot, rec.timer);
        }
        Some(())
    }

    fn new_context(&mut self, record: &Record<'_>, run: &mut Run<'_>) -> Option<()> {
        let rec: ContextRec = record.fixed();
        let (kind, size) = run
            .creates
            .filter(|(kind, _)| kind.0 == rec.context && run.fresh.is_none())?;
        if rec.id.is_none() || self.contexts.find(&rec.id).is_some() {
            self.counters.duplicate_ids += 1;
            return Some(());
        }
        let slot = self
            .contexts
            .insert(kind, rec.id, &bytemuck::cast_slice(&self.fresh)[..size]);
        if run.cause.shared && self.tables.contexts[kind.0 as usize].replicated {
            self.contexts.join(slot);
        }
        self.counters.contexts_made += 1;
        run.fresh = Some(slot);
        let inherited = run.keyed.map(|listener| self.contexts.entry(listener));
        let (send_buffer, not_sent) = inherited.map_or((0, 0), |entry| (entry.send_buffer, entry.not_sent));
        let entry = self.contexts.entry_mut(slot);
        entry.flow = run.cause.flow;
        (entry.send_buffer, entry.not_sent) = (send_buffer, not_sent);
        if run.cause.application
            && let Some(handle) = run.cause.handle
            && let Some(bound) = self.handles.get_mut(handle)
        {
            entry.handle = Some(handle);
            bound.context = bound.context.or(Some(slot));
        }
        Some(())
    }

    fn change_id(&mut self, record: &Record<'_>, run: &Run<'_>) -> Option<()> {
        let rec: ContextRec = record.fixed();
        let slot = run.on(record.on)?;
        let done = if record.kind == RecordKind::AddId {
            self.contexts.add_id(slot, rec.id, self.limits.ids_per_context)
        } else {
            self.contexts.drop_id(slot, &rec.id)
        };
        self.counters.duplicate_ids += u64::from(!done);
        Some(())
    }

    fn notify(&mut self, record: &Record<'_>, run: &Run<'_>) -> Option<()> {
        let rec: NotifyRec = record.fixed();
        let slot = run.on(record.on)?;
        let notice = match rec.code {
            NOTIFY_CONNECTED => Notice::Connected,
            NOTIFY_EOF => Notice::Eof,
            NOTIFY_CLOSED => Notice::Closed,
            NOTIFY_FAILED => Notice::Failed(Errno(rec.error)),
            NOTIFY_MESSAGE => Notice::Message(rec.arg),
            NOTIFY_ACCEPTED => return self.enqueue(slot, &rec.id, &rec.flow),
            _ => return None,
        };
        self.notify_context(slot, notice);
        Some(())
    }

    /// Tells the owner of a context's handle, if there is one. The end of a stream whose first
    /// packet is its last waits for the handle.
    pub(crate) fn notify_context(&mut self, slot: Slot, notice: Notice) {
        let Some(handle) = self.contexts.entry(slot).handle else {
            self.contexts.entry_mut(slot).early_eof |= notice == Notice::Eof;
            return;
        };
        if !self.handles.notify(handle, notice) {
            self.counters.notices_dropped += 1;
        }
    }

    /// Puts a connection on its listener's accept queue, under a handle of its own. Where nobody
    /// can take it, it is aborted.
    fn enqueue(&mut self, listener: Slot, id: &Id, flow: &abi::Flow) -> Option<()> {
        let child = self.contexts.find(id)?;
        let entry = self.contexts.entry_mut(child);
        if entry.handle.is_some() {
            return None;
        }
        let (readable, eof) = (entry.units.readable() > 0, entry.early_eof);
        let owner = self.contexts.entry(listener).handle;
        let Some((owner, handle)) = owner.and_then(|owner| Some((owner, self.handles.open()?))) else {
            self.counters.accept_overflow += 1;
            self.contexts.entry_mut(child).owed.abort = true;
            self.owe(child);
            self.accepted(listener);
            return Some(());
        };
        let entry = self.contexts.entry_mut(child);
        entry.handle = Some(handle);
        entry.flow = Flow::stated(flow).or(entry.flow);
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

    /// Without a target the event is for the context that the chain ran on, or made; there is none in
    /// chains on GLOBAL contexts alone.
    fn raise(&mut self, record: &Record<'_>, run: &Run<'_>) -> Option<()> {
        let rec: RaiseRec = record.fixed();
        let bytes = record.tail::<RaiseRec>().get(..rec.bytes as usize)?;
        let plan = self.tables.events.get(rec.event as usize)?;
        let target = match run.on(record.on) {
            Some(slot) if rec.target.is_none() => self.contexts.first_id(slot),
            _ => rec.target,
        };
        (plan.size == bytes.len()).then(|| self.raised.push(EventId(rec.event), target, bytes))
    }

    fn queue(&mut self, record: &Record<'_>) -> Option<()> {
        let rec: QueueRec = record.fixed();
        let known = match record.kind {
            RecordKind::QueuePrio => self.packets.set_prio(rec.queue, rec.value),
            RecordKind::QueueReset => self.packets.reset(rec.queue),
            _ => {
                self.counters.unsupported += 1;
                true
            }
        };
        known.then_some(())
    }

    /// Ends the contexts that the chain's `del_ctx` named.
    pub(crate) fn end_contexts(&mut self, run: &Run<'_>) {
        let ended = [
            run.keyed.filter(|_| run.keyed_ends),
            run.fresh.filter(|_| run.fresh_ends),
        ];
        ended
            .into_iter()
            .flatten()
            .for_each(|slot| self.end_context(slot));
    }

    /// Ends a context: its timers, units and ids go; what it flushed stays readable under its
    /// handle; packets already issued still leave.
    pub(crate) fn end_context(&mut self, slot: Slot) {
        self.counters.contexts_ended += 1;
        self.interact_end(slot);
        self.timers.stop_all(slot);
        self.packets.forget(slot);
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
                bound.after = Some(Box::new(After {
                    units,
                    flow: entry.flow,
                }));
            }
            _ => {
                units.clear(&mut self.chunks, &mut self.pages);
                self.rx_held -= before;
            }
        }
        self.contexts.remove(slot);
    }
}

fn del_context(record: &Record<'_>, run: &mut Run<'_>) -> Option<()> {
    let slot = run.on(record.on)?;
    if run.keyed == Some(slot) {
        run.keyed_ends = true;
    } else {
        run.fresh_ends = true;
    }
    Some(())
}

/// Which payload a blueprint asks for, if it has any; nothing when it says so outside its image.
#[inline]
fn payload_of(rec: &PacketRec, image: &[u8]) -> Option<Data> {
    match rec.data_at {
        u32::MAX => Some(Data {
            uid: Id::NONE,
            off: 0,
            addr: 0,
            len: 0,
            seg_size: 0,
        }),
        at => Some(bytemuck::pod_read_unaligned(
            image.get(at as usize..)?.get(..size_of::<Data>())?,
        )),
    }
}
