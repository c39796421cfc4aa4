//! Carries out the records of one chain, in order.
//!
//! Instructions take effect only here. A record that names a non-existent object is counted and skipped. A
//! program cannot cause this by accident, because a chain knows its context. It must be harmless
//! nevertheless, for the cases of an ended context and a refused unit.

use hawser_ir::ContextId;
use hawser_ir::EventId;
use hawser_ir::abi::{
    ContextRec, Data, INF, Id, NOTIFY_ACCEPTED, NOTIFY_CLOSED, NOTIFY_CONNECTED, NOTIFY_EOF, NOTIFY_FAILED,
    NOTIFY_MESSAGE, NOTIFY_RESET, NOTIFY_STOPPED, NotifyRec, ON_FRESH, ON_TARGET, PacketRec, QueueRec,
    RaiseRec, RecordKind, TimerRec, UnitRec,
};
use hawser_ir::buf::{Record, Records};
use hawser_time::Instant;

use super::cause::Cause;
use super::tap::Observer;
use crate::data::{RecvBuffer, SendBuffer};
use crate::program::Program;
use crate::state::{
    Errno, FlowKey, ForwardTo, ForwardedEvent, Notice, PendingInstruction, Slot, StackState, TimerOwner,
};
use crate::tables::Tables;

/// The execution of one chain's records: its inputs and its results.
#[derive(Debug)]
pub(crate) struct Effects<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) state: &'a mut StackState,
    pub(crate) cause: &'a Cause<'a>,
    pub(crate) now: Instant,
    /// The context that the chain may create: its type, and the bytes that the chain left in the fresh slot.
    pub(crate) creates: Option<(ContextId, &'a [u8])>,
    pub(crate) keyed: Option<Slot>,
    /// The created context.
    pub(crate) fresh: Option<Slot>,
    /// True if `del_ctx` named the keyed context.
    pub(crate) keyed_ends: bool,
    /// True if `del_ctx` named the created context.
    pub(crate) fresh_ends: bool,
    /// True if there was a signal for the interactive layer.
    pub(crate) signalled: bool,
}

impl Effects<'_> {
    /// Returns the context that a record is about.
    #[inline]
    pub(super) fn on(&self, record: &Record<'_>) -> Option<Slot> {
        if record.on == ON_FRESH {
            self.fresh
        } else {
            self.keyed
        }
    }

    /// Carries out records in order, and notes for an observer the counters that each of them changed.
    pub(crate) fn execute_observed(
        &mut self,
        program: &dyn Program,
        mut records: Records<'_>,
        observer: &mut Observer,
    ) {
        let mut index = 0;
        while let Some(record) = records.next_alone() {
            let before = self.state.counters.clone();
            self.state.packets.cause = observer.next_cause();
            self.execute(program, record);
            observer.count(Some(index), &before, &self.state.counters);
            index += 1;
        }
    }

    /// Carries out records in order. It is compiled once, for observed chains as well, and has no code for
    /// observers.
    #[inline(never)]
    pub(crate) fn execute(&mut self, program: &dyn Program, records: Records<'_>) {
        for record in records {
            let done = match record.kind {
                RecordKind::NewTx => self.new_tx(&record),
                RecordKind::AddTx => self.add_tx(&record),
                RecordKind::FlushTx => self.flush_tx(&record),
                RecordKind::NewRx => self.new_rx(&record),
                RecordKind::AddRx => self.add_rx(&record),
                RecordKind::FlushRx => self.flush_rx(&record),
                RecordKind::Packet => self.packet(program, &record),
                RecordKind::TimerStart | RecordKind::TimerStop => self.timer(&record),
                RecordKind::NewContext => self.new_context(&record),
                RecordKind::DelContext => self.del_context(&record),
                RecordKind::AddId | RecordKind::DropId => self.change_id(&record),
                RecordKind::Notify => self.notify(&record),
                RecordKind::Raise => self.raise(&record),
                RecordKind::Signal => {
                    self.state.counters.signals += 1;
                    self.signalled = true;
                    Some(())
                }
                RecordKind::QueueRate | RecordKind::QueuePrio | RecordKind::QueueReset => self.queue(&record),
                RecordKind::DelTx => self.del_tx(&record),
                RecordKind::DelRx => self.del_rx(&record),
                RecordKind::Extern => self.memory(&record),
            };
            if done.is_none() {
                self.state.counters.dangling += 1;
            }
        }
    }

    fn new_tx(&mut self, record: &Record<'_>) -> Option<()> {
        let rec: &UnitRec = record.view();
        let slot = self.on(record)?;
        if self.has_room_for_unit(slot) {
            let size = if rec.len == 0 { INF } else { rec.len };
            let added = self
                .state
                .contexts
                .entry_mut(slot)
                .add_sending(rec.uid, SendBuffer::new(size));
            self.state.counters.duplicate_ids += u64::from(!added);
        }
        Some(())
    }

    /// Returns true if a context may have one more unit; otherwise the context fails. The program puts bytes
    /// into a requested unit next, and they may not be lost silently.
    fn has_room_for_unit(&mut self, slot: Slot) -> bool {
        let units = &mut self.state.contexts.entry_mut(slot).units;
        units.prune();
        let room = units.len() < self.state.limits.units_per_context;
        if !room {
            self.state.counters.unit_limit += 1;
            self.state.fail(slot, Errno::NO_BUFFERS);
        }
        room
    }

    fn new_rx(&mut self, record: &Record<'_>) -> Option<()> {
        let rec: &UnitRec = record.view();
        let slot = self.on(record)?;
        let max = self.state.limits.rx_bytes;
        let cap = if rec.off == 0 || rec.off == INF {
            max
        } else {
            rec.off
        };
        if cap > max {
            // Data within the cap is never given up (docs/language.md, Instructions), and the program has
            // promised the cap to its peer. A promise that cannot be kept must not be made.
            self.state.counters.receive_limit += 1;
            self.state.fail(slot, Errno::NO_BUFFERS);
        }
        if self.has_room_for_unit(slot) {
            let added = self
                .state
                .contexts
                .entry_mut(slot)
                .add_receiving(rec.uid, RecvBuffer::new(rec.len, cap));
            self.state.counters.duplicate_ids += u64::from(!added);
        }
        Some(())
    }

    fn del_tx(&mut self, record: &Record<'_>) -> Option<()> {
        let rec: &UnitRec = record.view();
        let slot = self.on(record)?;
        let unit = self.state.contexts.entry_mut(slot).sending(&rec.uid)?;
        self.state.tx_held -= unit.end(&mut self.state.chunks);
        self.state.left_sending(slot);
        Some(())
    }

    fn del_rx(&mut self, record: &Record<'_>) -> Option<()> {
        let rec: &UnitRec = record.view();
        let slot = self.on(record)?;
        let entry = self.state.contexts.entry_mut(slot);
        let unit = entry.receiving(&rec.uid)?;
        let before = unit.memory();
        unit.end(&mut self.state.pages);
        self.state.rx_held -= before - unit.memory();
        entry.units.prune();
        Some(())
    }

    fn add_tx(&mut self, record: &Record<'_>) -> Option<()> {
        let rec: &UnitRec = record.view();
        let slot = self.on(record)?;
        // Room for a request's bytes has been checked, and a message may exceed the context's allowance. A
        // chain that sends a packet's bytes may be clipped.
        let room = match self.cause.application {
            true => self.cause.buffer.len() as u64,
            false => self.state.room_to_send(slot),
        };
        let unit = self.state.contexts.entry_mut(slot).sending(&rec.uid)?;
        let before = unit.held();
        for bytes in self.cause.buffer.get(rec.addr, rec.len.min(room)) {
            match self.cause.buffer.refer(bytes) {
                Some(piece) => unit.share(piece, &mut self.state.chunks),
                None => unit.append(bytes, &mut self.state.chunks),
            }
        }
        let added = unit.held() - before;
        self.state.tx_held += added;
        self.state.counters.clip_sending(rec.len - added);
        Some(())
    }

    fn flush_tx(&mut self, record: &Record<'_>) -> Option<()> {
        let rec: &UnitRec = record.view();
        let slot = self.on(record)?;
        let unit = self.state.contexts.entry_mut(slot).sending(&rec.uid)?;
        let retired = unit.retire(rec.len, &mut self.state.chunks);
        self.state.tx_held -= retired;
        self.state.counters.clip_sending(rec.len - retired);
        self.state.left_sending(slot);
        Some(())
    }

    fn add_rx(&mut self, record: &Record<'_>) -> Option<()> {
        let rec: &UnitRec = record.view();
        let slot = self.on(record)?;
        let unit = self.state.contexts.entry_mut(slot).receiving(&rec.uid)?;
        let before = unit.memory();
        let pieces = self.cause.buffer.get(rec.addr, rec.len);
        let kept = unit.add(rec.off, pieces, &mut self.state.pages);
        self.state.rx_held += unit.memory() - before;
        self.state.counters.clip_receiving(rec.len - kept);
        Some(())
    }

    fn flush_rx(&mut self, record: &Record<'_>) -> Option<()> {
        let rec: &UnitRec = record.view();
        let slot = self.on(record)?;
        let entry = self.state.contexts.entry_mut(slot);
        let is_orphan = entry.orphan;
        let unit = entry.flushing(&rec.uid)?;
        self.state.counters.clip_receiving(unit.flush(rec.len));
        if unit.readable() > 0 {
            if is_orphan {
                self.state.discard_unread(slot);
            } else {
                self.state.notify_context(slot, Notice::Readable);
            }
        }
        Some(())
    }

    fn packet(&mut self, program: &dyn Program, record: &Record<'_>) -> Option<()> {
        let rec: &PacketRec = record.view();
        let image = record.tail::<PacketRec>().get(..rec.bytes as usize)?;
        let (_, coalesces) = *self.tables.blueprints.get(rec.blueprint as usize)?;
        // Chains without a context send as well: answers to segments for closed ports.
        let slot = self.on(record);
        if slot.is_some_and(|slot| self.state.contexts.entry(slot).deferred.abort) {
            return Some(()); // a context about to be aborted issues no more packets
        }
        let data = payload_of(rec, image)?;
        let cause = self.state.packets.cause;
        if data.len == 0
            && coalesces
            && let Some(earlier) = slot.and_then(|slot| self.state.packets.latest(slot, rec))
            && program.coalesce(rec.blueprint, &earlier.buffers.image, image)
        {
            // By far the most frequent case: one more acknowledgement.
            earlier.renew(rec, image);
            earlier.cause = cause;
            self.state.counters.coalesced += 1;
            return Some(());
        }
        let mut pending = self.state.packets.entry(rec, image);
        if data.len > 0 {
            self.refer(record, &mut pending, &data)?;
        }
        let replaced = self.state.packets.push(slot, pending, |earlier| {
            data.len > 0 && coalesces && program.coalesce(rec.blueprint, &earlier.buffers.image, image)
        });
        self.state.counters.coalesced += u64::from(replaced);
        Some(())
    }

    /// Resolves a blueprint's payload, and sets its length in the image to the available length.
    fn refer(&mut self, record: &Record<'_>, pending: &mut PendingInstruction, data: &Data) -> Option<()> {
        let at = record.view::<PacketRec>().data_at as usize;
        let buffers = &mut pending.buffers;
        let room = buffers.image.get_mut(at..at + size_of::<Data>())?;
        let mut len = 0;
        if let Some(slot) = self.on(record)
            && let Some(unit) = self.state.contexts.entry_mut(slot).sending(&data.uid)
        {
            len = unit.refer(data.off, data.len, &mut buffers.payload);
            self.state.made_room(slot);
        }
        self.state.counters.clip_sending(u64::from(data.len - len));
        room.copy_from_slice(bytemuck::bytes_of(&Data { len, ..*data }));
        pending.set_payload(len, data.seg_size);
        Some(())
    }

    fn timer(&mut self, record: &Record<'_>) -> Option<()> {
        let rec: &TimerRec = record.view();
        let (kind, owner) = match record.global() {
            Some(kind) => (kind, TimerOwner::Global(kind.0)),
            None => {
                let slot = self.on(record)?;
                (
                    self.state.contexts.entry(slot).kind,
                    TimerOwner::Context(slot.index),
                )
            }
        };
        let plan = self.tables.contexts.get(kind.0 as usize)?;
        plan.timers.get(rec.timer as usize)?;
        if record.kind == RecordKind::TimerStart {
            let deadline = Instant::from_nanos(rec.deadline);
            self.state.timers.start(owner, rec.timer, deadline);
        } else {
            self.state.timers.stop(owner, rec.timer);
        }
        Some(())
    }

    fn new_context(&mut self, record: &Record<'_>) -> Option<()> {
        let rec: ContextRec = record.fixed();
        let (kind, bytes) = self
            .creates
            .filter(|(kind, _)| kind.0 == rec.context && self.fresh.is_none())?;
        if rec.id.is_none() || self.state.contexts.find(&rec.id).is_some() {
            self.state.counters.duplicate_ids += 1;
            return Some(());
        }
        let ends = self.tables.contexts[kind.0 as usize].ends;
        let stated = || ends.and_then(|ends| FlowKey::from_context(bytes, &ends));
        let flow = self.cause.flow.or_else(stated);
        let slot = self.state.contexts.insert(kind, rec.id, bytes);
        if self.cause.shared && self.tables.contexts[kind.0 as usize].replicated {
            self.state.contexts.join(slot);
        }
        self.state.counters.contexts_made += 1;
        self.fresh = Some(slot);
        let inherited = self.keyed.map(|listener| self.state.contexts.entry(listener));
        let (send_buffer, not_sent) = inherited.map_or((0, 0), |entry| (entry.send_buffer, entry.not_sent));
        let entry = self.state.contexts.entry_mut(slot);
        entry.flow = flow;
        (entry.send_buffer, entry.not_sent) = (send_buffer, not_sent);
        if self.cause.application
            && let Some(handle) = self.cause.handle
            && let Some(bound) = self.state.handles.get_mut(handle)
        {
            entry.handle = Some(handle);
            bound.context = bound.context.or(Some(slot));
        }
        Some(())
    }

    fn change_id(&mut self, record: &Record<'_>) -> Option<()> {
        let rec: ContextRec = record.fixed();
        let slot = self.on(record)?;
        let done = if record.kind == RecordKind::AddId {
            self.state
                .contexts
                .add_id(slot, rec.id, self.state.limits.ids_per_context)
        } else {
            self.state.contexts.drop_id(slot, &rec.id)
        };
        self.state.counters.duplicate_ids += u64::from(!done);
        Some(())
    }

    fn notify(&mut self, record: &Record<'_>) -> Option<()> {
        let rec: NotifyRec = record.fixed();
        let slot = self.on(record)?;
        let notice = match rec.code {
            NOTIFY_CONNECTED => Notice::Connected,
            NOTIFY_EOF => Notice::Eof,
            NOTIFY_CLOSED => Notice::Closed,
            NOTIFY_FAILED => Notice::Failed(Errno(rec.error)),
            NOTIFY_MESSAGE => Notice::Message(rec.arg),
            NOTIFY_RESET => Notice::Reset(rec.arg[0]),
            NOTIFY_STOPPED => Notice::Stopped(rec.arg[0]),
            NOTIFY_ACCEPTED => return self.state.enqueue(slot, &rec.id),
            _ => return None,
        };
        self.state.notify_context(slot, notice);
        Some(())
    }

    /// Raises an event. Without a target it is for the context that the chain ran on or created, which does
    /// not exist for chains that run only on GLOBAL contexts. The target `NONE`, which is a GLOBAL context's
    /// id, does not denote a keyed context.
    fn raise(&mut self, record: &Record<'_>) -> Option<()> {
        let rec: RaiseRec = record.fixed();
        let bytes = record.tail::<RaiseRec>().get(..rec.bytes as usize)?;
        let plan = self.tables.events.get(rec.event as usize)?;
        let target = match self.on(record) {
            Some(slot) if record.on != ON_TARGET => self.state.contexts.first_id(slot),
            _ => rec.target,
        };
        if plan.size != bytes.len() {
            return None;
        }
        match self.elsewhere(rec.event, &target) {
            None => self.state.raised.push(EventId(rec.event), target, bytes),
            Some(to) => self.state.raised.forwarded.push_back(ForwardedEvent {
                to,
                event: rec.event as u16,
                target,
                bytes: bytes.to_vec(),
            }),
        }
        Some(())
    }

    /// Returns the other stacks that an event is for; `None` if it is for this one.
    fn elsewhere(&self, event: u32, target: &Id) -> Option<ForwardTo> {
        let steering = &self.tables.steering;
        if steering.shards == 1 {
            return None;
        }
        let is_firsts = self.tables.first.contains(&event);
        match steering.index {
            0 => {
                let is_absent = !target.is_none() && self.state.contexts.find(target).is_none();
                (is_absent && !is_firsts).then_some(ForwardTo::Others)
            }
            _ => is_firsts.then_some(ForwardTo::First),
        }
    }

    fn queue(&mut self, record: &Record<'_>) -> Option<()> {
        let rec: QueueRec = record.fixed();
        let context = self.on(record);
        let packets = &mut self.state.packets;
        let known = match record.kind {
            RecordKind::QueuePrio => packets.set_prio(rec.queue, rec.value),
            RecordKind::QueueReset => packets.reset(rec.queue, context),
            _ => packets.set_rate(rec.queue, context, self.now, rec.value),
        };
        known.then_some(())
    }

    fn del_context(&mut self, record: &Record<'_>) -> Option<()> {
        self.on(record)?;
        if record.on == ON_FRESH {
            self.fresh_ends = true;
        } else {
            self.keyed_ends = true;
        }
        Some(())
    }
}

/// Returns the payload that a blueprint asks for, which may be empty; `None` if its description lies outside
/// the image.
#[inline]
fn payload_of(rec: &PacketRec, image: &[u8]) -> Option<Data> {
    match rec.data_at {
        u32::MAX => Some(Data { uid: Id::NONE, off: 0, addr: 0, len: 0, seg_size: 0 }),
        at => Some(bytemuck::pod_read_unaligned(
            image.get(at as usize..)?.get(..size_of::<Data>())?,
        )),
    }
}
