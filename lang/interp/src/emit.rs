//! Instructions: each becomes one record. The engine executes the records after the chain, in order.

use bytemuck::Zeroable;
use hawser_ir::abi::{
    ContextRec, EventHeader, ExternRec, Id, MAX_RULE_ARGS, MAX_RULES, NotifyRec, ON_FRESH, ON_KEYED,
    ON_TARGET, PacketRec, QueueRec, RaiseRec, RecordHeader, RecordKind, SignalRec, TimerRec, UnitRec,
};
use hawser_ir::{Base, BlueprintId, ContextId, EventId, Expr, Instr, Place, QueueId, RuleId, Ty, Uid};

use crate::machine::{Halt, Machine};
use crate::memory::{Loc, Region};

impl Machine<'_> {
    /// Performs an instruction's effect on memory and writes its record.
    pub(crate) fn emit(&mut self, instr: &Instr) -> Result<(), Halt> {
        match instr {
            Instr::NewTxOrderedData { size, uid, addr } => {
                self.unit(RecordKind::NewTx, uid, Some(addr), Some(size), None)
            }
            Instr::AddTxData { addr, len, uid } => {
                self.unit(RecordKind::AddTx, uid, Some(addr), Some(len), None)
            }
            Instr::TxFlushAndNotify { uid, len } => {
                self.unit(RecordKind::FlushTx, uid, None, Some(len), None)
            }
            Instr::NewRxOrderedData { size, uid, addr, cap } => {
                self.unit(RecordKind::NewRx, uid, Some(addr), Some(size), Some(cap))
            }
            Instr::AddRxDataSeg { addr, len, uid, off } => {
                self.unit(RecordKind::AddRx, uid, Some(addr), Some(len), Some(off))
            }
            Instr::RxFlushAndNotify { uid, len, addr } => {
                self.unit(RecordKind::FlushRx, uid, Some(addr), Some(len), None)
            }
            Instr::DelTxOrderedData { uid } => self.unit(RecordKind::DelTx, uid, None, None, None),
            Instr::DelRxOrderedData { uid } => self.unit(RecordKind::DelRx, uid, None, None, None),
            Instr::PktGen { net, blueprint, bp, rules, queue, rank } => {
                self.packet(net, *blueprint, bp, rules, *queue, rank.as_ref())
            }
            Instr::TimerStart { timer, index, dur } => {
                // Never 0, which means "not armed", and never beyond the largest time.
                let deadline = self.setting.now.saturating_add(self.eval(dur)?).max(1);
                self.timer(RecordKind::TimerStart, timer, *index, deadline)
            }
            Instr::TimerStop { timer, index } => self.timer(RecordKind::TimerStop, timer, *index, 0),
            Instr::NewCtx { context } => {
                self.new_context(*context);
                Ok(())
            }
            Instr::DelCtx { on } => {
                self.context(RecordKind::DelContext, self.subject(*on), Id::NONE);
                Ok(())
            }
            Instr::AddId { id } => self.alias(RecordKind::AddId, id),
            Instr::DropId { id } => self.alias(RecordKind::DropId, id),
            Instr::Notify { on, code, error, id, args } => {
                self.notify(*on, *code, error.as_ref(), id.as_ref(), args)
            }
            Instr::Raise { event, from, target } => self.raise(*event, from, target.as_ref()),
            Instr::Signal { signal, from } => {
                let (_, structure) = self.module().signals[signal.0 as usize];
                let bytes = self.module().structure(structure).size;
                let from = self.locate(from)?;
                let record = SignalRec { header: RecordHeader::zeroed(), signal: signal.0, bytes };
                self.record_with(
                    RecordKind::Signal,
                    self.subject(Base::Keyed),
                    &record,
                    from,
                    bytes as usize,
                );
                Ok(())
            }
            Instr::SetQueueRate { queue, rate } => self.queue(RecordKind::QueueRate, *queue, Some(rate)),
            Instr::SetQueuePrio { queue, prio } => self.queue(RecordKind::QueuePrio, *queue, Some(prio)),
            Instr::QueueReset { queue } => self.queue(RecordKind::QueueReset, *queue, None),
            Instr::Extern { callee, args } => self.call_extern(callee.0, args),
        }
    }

    /// Writes a record without a tail.
    fn record<R: bytemuck::Pod>(&mut self, kind: RecordKind, on: u8, record: &R) {
        if let Some(records) = self.records.as_deref_mut() {
            records.push(kind, on, record, &[]);
        }
    }

    /// Writes a record followed by `len` bytes of memory; bytes beyond the end of memory are zero.
    fn record_with<R: bytemuck::Pod>(&mut self, kind: RecordKind, on: u8, record: &R, at: Loc, len: usize) {
        let Some(records) = self.records.as_deref_mut() else {
            return;
        };
        let found = self.memory.bytes(at, len);
        if found.len() == len {
            records.push(kind, on, record, found);
        } else {
            self.spare.clear();
            self.spare.extend_from_slice(found);
            self.spare.resize(len, 0);
            records.push(kind, on, record, &self.spare);
        }
    }

    fn unit(
        &mut self,
        kind: RecordKind,
        uid: &Uid,
        addr: Option<&Expr>,
        len: Option<&Expr>,
        off: Option<&Expr>,
    ) -> Result<(), Halt> {
        let id = self.locate(&uid.id)?;
        let of = uid.of.as_ref().map(|context| self.locate(context)).transpose()?;
        let record = UnitRec {
            header: RecordHeader::zeroed(),
            uid: self.id(id),
            addr: self.optional(addr)?,
            len: self.optional(len)?,
            off: self.optional(off)?,
        };
        self.record(kind, self.owner(of), &record);
        Ok(())
    }

    fn optional(&mut self, expr: Option<&Expr>) -> Result<u64, Halt> {
        expr.map_or(Ok(0), |e| self.eval(e))
    }

    fn packet(
        &mut self,
        net: &Place,
        id: BlueprintId,
        bp: &Place,
        rules: &[(RuleId, Vec<Expr>)],
        queue: QueueId,
        rank: Option<&Expr>,
    ) -> Result<(), Halt> {
        let net = self.locate(net)?;
        let image = self.locate(bp)?;
        let blueprint = &self.module().blueprints[id.0 as usize];
        let bytes = self.module().structure(blueprint.body).size;
        let mut record = PacketRec {
            header: RecordHeader::zeroed(),
            net: self.memory.pod(net),
            rank: self.optional(rank)?,
            args: [0; MAX_RULE_ARGS],
            queue: queue.0,
            blueprint: id.0 as u16,
            rules: rules.len().min(MAX_RULES) as u16,
            rule: [0; MAX_RULES],
            data_at: blueprint.data_at.unwrap_or(u32::MAX),
            bytes,
        };
        let mut args = record.args.iter_mut();
        for (slot, (rule, values)) in record.rule.iter_mut().zip(rules) {
            *slot = rule.0 as u16;
            // The values come first: when they end, `zip` must not have consumed a slot.
            for (value, arg) in values.iter().zip(args.by_ref()) {
                *arg = self.eval(value)?;
            }
        }
        self.record_with(
            RecordKind::Packet,
            self.owner(None),
            &record,
            image,
            bytes as usize,
        );
        Ok(())
    }

    /// Writes a timer record. A timer belongs to the context that contains its place.
    fn timer(&mut self, kind: RecordKind, timer: &Place, index: u32, deadline: u64) -> Result<(), Halt> {
        let loc = self.locate(timer)?;
        self.store_at(loc, &Ty::Timer, deadline);
        let record = TimerRec { header: RecordHeader::zeroed(), deadline, timer: index, pad: 0 };
        match (loc.region, self.records.as_deref_mut()) {
            (Region::Global(context), Some(records)) => {
                records.push_global(kind, context as u16, &record, &[]);
            }
            (Region::Fresh, _) => self.record(kind, ON_FRESH, &record),
            _ => self.record(kind, ON_KEYED, &record),
        }
        Ok(())
    }

    /// Turns the reserved slot into a context: all defaults, except for the id that the engine stored there.
    fn new_context(&mut self, context: ContextId) {
        if self.setting.fresh.is_none() {
            return;
        }
        let fresh = Loc::start(Region::Fresh);
        let id = self.id(fresh);
        self.init(
            fresh,
            &Ty::Struct(self.module().contexts[context.0 as usize].body),
        );
        self.memory.put(fresh, &id.0);
        self.setting.created = true;
        let record = ContextRec { header: RecordHeader::zeroed(), id, context: context.0, pad: 0 };
        self.record(RecordKind::NewContext, ON_FRESH, &record);
    }

    /// Returns the context that owns a unit, a packet or a further id. If `of` is given, it is the keyed or
    /// the fresh context. Otherwise it is the fresh one if it exists, and the keyed one before that.
    fn owner(&self, of: Option<Loc>) -> u8 {
        match of {
            Some(context) if context.region == Region::Keyed => ON_KEYED,
            None if !self.setting.created => ON_KEYED,
            Some(_) | None => ON_FRESH,
        }
    }

    /// Returns the context that an instruction refers to. This is the fresh context if the instruction says
    /// so or if no context was found; otherwise it is the keyed one.
    fn subject(&self, on: Base) -> u8 {
        let nothing_found = self.setting.keyed.is_none() && self.setting.created;
        if on == Base::Fresh || nothing_found {
            ON_FRESH
        } else {
            ON_KEYED
        }
    }

    /// Writes an instruction about the context itself.
    fn context(&mut self, kind: RecordKind, on: u8, id: Id) {
        let context = if on == ON_FRESH {
            self.setting.fresh
        } else {
            self.setting.keyed
        };
        if let Some(context) = context {
            let record = ContextRec { header: RecordHeader::zeroed(), id, context: context.0, pad: 0 };
            self.record(kind, on, &record);
        }
    }

    fn alias(&mut self, kind: RecordKind, id: &Place) -> Result<(), Halt> {
        let loc = self.locate(id)?;
        self.context(kind, self.owner(None), self.id(loc));
        Ok(())
    }

    fn notify(
        &mut self,
        on: Base,
        code: u32,
        error: Option<&Expr>,
        id: Option<&Place>,
        args: &[Expr],
    ) -> Result<(), Halt> {
        let mut record = NotifyRec {
            header: RecordHeader::zeroed(),
            id: Id::NONE,
            code,
            error: self.optional(error)? as u32,
            arg: [0; 4],
        };
        if let Some(place) = id {
            let loc = self.locate(place)?;
            record.id = self.id(loc);
        }
        for (slot, arg) in record.arg.iter_mut().zip(args) {
            *slot = self.eval(arg)?;
        }
        self.record(RecordKind::Notify, self.subject(on), &record);
        Ok(())
    }

    fn raise(&mut self, event: EventId, from: &Place, target: Option<&Place>) -> Result<(), Halt> {
        let from = self.locate(from)?;
        let (on, target) = match target {
            Some(place) => {
                let loc = self.locate(place)?;
                (ON_TARGET, self.id(loc))
            }
            None => (self.subject(Base::Keyed), Id::NONE),
        };
        let bytes = self.module().event_size(event) as u32;
        let number = std::mem::offset_of!(EventHeader, event);
        self.memory.write(from.plus(number), 2, u64::from(event.0));
        let record = RaiseRec { header: RecordHeader::zeroed(), target, event: event.0, bytes };
        self.record_with(RecordKind::Raise, on, &record, from, bytes as usize);
        Ok(())
    }

    fn queue(&mut self, kind: RecordKind, queue: QueueId, value: Option<&Expr>) -> Result<(), Halt> {
        let value = self.optional(value)?;
        let record = QueueRec { header: RecordHeader::zeroed(), value, queue: queue.0, pad: 0 };
        self.record(kind, self.owner(None), &record);
        Ok(())
    }

    fn call_extern(&mut self, callee: u32, args: &[Expr]) -> Result<(), Halt> {
        self.spare.clear();
        for arg in args {
            let value = self.eval(arg)?;
            self.spare.extend_from_slice(&value.to_ne_bytes());
        }
        let record = ExternRec {
            header: RecordHeader::zeroed(),
            extern_: callee,
            args: args.len() as u32,
        };
        let on = self.subject(Base::Keyed);
        if let Some(records) = self.records.as_deref_mut() {
            records.push(RecordKind::Extern, on, &record, &self.spare);
        }
        Ok(())
    }
}
