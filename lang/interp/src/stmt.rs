//! Statements: one arm per node.

use hawser_ir::abi::{Data, EventHeader, Id};
use hawser_ir::number::ScalarShape;
use hawser_ir::{ContainerOp, Expr, IdPart, Items, Operand, Place, Stmt, StmtKind, Ty};

use crate::containers::{List, Sorted};
use crate::machine::{ControlFlow, Halt, Machine};
use crate::memory::{Loc, Region};

impl<'a> Machine<'a> {
    /// Runs statements in order, up to the first that leaves the block.
    pub(crate) fn block(&mut self, stmts: &'a [Stmt]) -> Result<ControlFlow, Halt> {
        for stmt in stmts {
            match self.stmt(stmt)? {
                ControlFlow::Next => {}
                elsewhere @ (ControlFlow::Break | ControlFlow::Continue | ControlFlow::Return(_)) => {
                    return Ok(elsewhere);
                }
            }
        }
        Ok(ControlFlow::Next)
    }

    fn stmt(&mut self, stmt: &'a Stmt) -> Result<ControlFlow, Halt> {
        if let Some(steps) = &mut self.memory.steps {
            steps.at = stmt.span;
            if steps.notes_statements && steps.node(stmt) {
                return Err(self.halt());
            }
        }
        match &stmt.kind {
            StmtKind::Store(place, expr) => {
                let value = self.eval(expr)?;
                self.store(place, value)?;
            }
            StmtKind::Copy(to, from) => {
                let len = self.size(&to.ty);
                let from = self.locate(from)?;
                let to = self.locate(to)?;
                self.memory.copy(to, from, len);
            }
            StmtKind::Init(place) => {
                let loc = self.locate(place)?;
                self.init(loc, &place.ty);
            }
            StmtKind::MakeId(place, parts) => self.make_id(place, parts)?,
            StmtKind::MakeData { dst, uid, off, len, seg_size } => {
                self.make_data(dst, uid, [off, len, seg_size])?;
            }
            StmtKind::MakeIpv4(place, expr) => {
                let number = self.eval(expr)? as u32;
                let loc = self.locate(place)?;
                self.memory.put(
                    loc,
                    &std::net::Ipv4Addr::from_bits(number).to_ipv6_mapped().octets(),
                );
            }
            StmtKind::MakeIpv6(place, high, low) => {
                let bits = u128::from(self.eval(high)?) << 64 | u128::from(self.eval(low)?);
                let loc = self.locate(place)?;
                self.memory.put(loc, &bits.to_be_bytes());
            }
            StmtKind::Container { op, ok } => {
                let worked = self.container(op)?;
                if let Some(ok) = ok {
                    self.store(ok, u64::from(worked))?;
                }
            }
            StmtKind::If(condition, then, otherwise) => {
                let taken = if self.is_true(condition)? { then } else { otherwise };
                return self.block(taken);
            }
            StmtKind::For { var, from, to, max, body } => return self.count(var, from, to, *max, body),
            StmtKind::Break => return Ok(ControlFlow::Break),
            StmtKind::Continue => return Ok(ControlFlow::Continue),
            StmtKind::Return(None) => return Ok(ControlFlow::Return(0)),
            StmtKind::Return(Some(expr)) => return Ok(ControlFlow::Return(self.eval(expr)?)),
            StmtKind::Call(function, args) => {
                self.call(*function, args)?;
            }
            StmtKind::Emit(instr) => {
                self.emit(instr)?;
                if let (Some(steps), Some(records)) = (&mut self.memory.steps, &self.records) {
                    steps.recorded(records, stmt.span);
                }
            }
            StmtKind::Done => return Err(Halt::Done),
            StmtKind::Refuse(code) => return Err(Halt::Refused(self.eval(code)? as u32)),
            StmtKind::Assert(expr, index) => {
                if !self.is_true(expr)? {
                    return Err(Halt::Assert(*index));
                }
            }
            StmtKind::Extract { blueprint, dst, ok } => {
                let dst = self.locate(dst)?;
                let taken = self.extract(*blueprint, dst);
                match (ok, taken) {
                    (Some(ok), taken) => self.store(ok, u64::from(taken.is_ok()))?,
                    (None, Ok(())) => {}
                    (None, Err(error)) => return Err(Halt::Drop(error)),
                }
            }
            StmtKind::SetIds { event, ids } => self.set_ids(event, ids)?,
            StmtKind::PushEvent { event, from } => self.push_event(*event, from)?,
            StmtKind::Drop => return Err(Halt::Drop(hawser_ir::abi::ParseError::Frame)),
        }
        Ok(ControlFlow::Next)
    }

    /// Zeroes a value, then sets its structure's defaults.
    pub(crate) fn init(&mut self, loc: Loc, ty: &Ty) {
        let defaults = match ty {
            Ty::Struct(id) => self.program.prepared.initial(*id),
            _ => None,
        };
        match defaults {
            Some(bytes) => self.memory.put(loc, bytes),
            None => self.memory.zero(loc, self.size(ty)),
        }
    }

    fn make_id(&mut self, place: &Place, parts: &[IdPart]) -> Result<(), Halt> {
        let mut id = Id::NONE;
        for part in parts {
            self.pack(part, &mut |bytes| id.push_bytes(bytes))?;
        }
        let loc = self.locate(place)?;
        self.memory.put(loc, &id.0);
        Ok(())
    }

    fn make_data(&mut self, dst: &Place, uid: &Place, [off, len, seg_size]: [&Expr; 3]) -> Result<(), Halt> {
        let uid = self.locate(uid)?;
        let data = Data {
            uid: self.id(uid),
            off: self.eval(off)?,
            addr: 0,
            len: self.eval(len)? as u32,
            seg_size: self.eval(seg_size)? as u32,
        };
        let dst = self.locate(dst)?;
        self.memory.put(dst, bytemuck::bytes_of(&data));
        Ok(())
    }

    /// Counts a variable from `from` (inclusive) to `to` (exclusive), in at most `max` rounds. Both limits
    /// are evaluated once. An assignment to the variable does not change the count.
    fn count(
        &mut self,
        var: &Place,
        from: &Expr,
        to: &Expr,
        max: u32,
        body: &'a [Stmt],
    ) -> Result<ControlFlow, Halt> {
        let shape = ScalarShape::from_type(&from.ty);
        let mut next = self.eval(from)?;
        let end = self.eval(to)?;
        for _ in 0..max {
            if !shape.less(next, end) {
                break;
            }
            self.store(var, next)?;
            match self.block(body)? {
                ControlFlow::Next | ControlFlow::Continue => {}
                ControlFlow::Break => break,
                returned @ ControlFlow::Return(_) => return Ok(returned),
            }
            next = shape.fit(next.wrapping_add(1));
        }
        Ok(ControlFlow::Next)
    }

    /// Stores the ids in an event's header.
    fn set_ids(&mut self, event: &Place, ids: &[Place]) -> Result<(), Halt> {
        let event = self.locate(event)?;
        let mut header: EventHeader = self.memory.pod(event);
        header.id = [Id::NONE; 3];
        header.ids = ids.len().min(header.id.len()) as u8;
        for (slot, place) in header.id.iter_mut().zip(ids) {
            let loc = self.locate(place)?;
            *slot = self.id(loc);
        }
        self.memory.put(event, bytemuck::bytes_of(&header));
        Ok(())
    }

    /// Performs an operation on a container. Returns true if the container had room, or if it found the
    /// element.
    fn container(&mut self, op: &ContainerOp) -> Result<bool, Halt> {
        match op {
            ContainerOp::PushBack(place, operand) => {
                let list = self.locate(place)?;
                let Some(list) = List::new(&self.layout(), list, &place.ty) else {
                    return Ok(false);
                };
                let end = list.len(&self.memory);
                self.insert(&list, end, element(&place.ty), operand)
            }
            ContainerOp::PopFront(place, to) => {
                let list = self.locate(place)?;
                let Some(list) = List::new(&self.layout(), list, &place.ty) else {
                    return Ok(false);
                };
                if list.len(&self.memory) == 0 {
                    return Ok(false);
                }
                if let Some(to) = to {
                    let (len, target) = (self.size(&to.ty), self.locate(to)?);
                    if to.ty.is_scalar() {
                        // The value is reduced like every scalar that is read, because incoming memory may
                        // hold any bits.
                        let value = self.load_at(list.slot(0), &to.ty);
                        self.store_at(target, &to.ty, value);
                    } else {
                        self.memory.copy(target, list.slot(0), len);
                    }
                }
                list.remove(&mut self.memory, 0);
                Ok(true)
            }
            ContainerOp::Clear(place) => {
                let loc = self.locate(place)?;
                if let Some(list) = List::new(&self.layout(), loc, &place.ty) {
                    list.clear(&mut self.memory);
                }
                Ok(true)
            }
            ContainerOp::Put(place, operand) => self.put(place, operand),
            ContainerOp::Remove(place, key) => {
                let key = self.eval(key)?;
                let loc = self.locate(place)?;
                let Some(sorted) = Sorted::new(&self.layout(), loc, &place.ty) else {
                    return Ok(false);
                };
                let found = sorted.position(&self.memory, key);
                if let Some(position) = found {
                    sorted.list.remove(&mut self.memory, position);
                }
                Ok(found.is_some())
            }
            ContainerOp::WindowSet(place, a, b) => {
                let (a, b) = (self.eval(a)?, self.eval(b)?);
                Ok(self.window(place)?.is_some_and(|w| w.set(&mut self.memory, a, b)))
            }
            ContainerOp::WindowUnset(place, a, b) => {
                let (a, b) = (self.eval(a)?, self.eval(b)?);
                Ok(self
                    .window(place)?
                    .is_some_and(|w| w.unset(&mut self.memory, a, b)))
            }
            ContainerOp::WindowSlide(place, to) => {
                let to = self.eval(to)?;
                if let Some(window) = self.window(place)? {
                    window.slide(&mut self.memory, to);
                }
                Ok(true)
            }
            ContainerOp::OptionAdd(place, member, from) => {
                let len = self.size(&from.ty);
                let from = self.locate(from)?;
                let list = self.locate(place)?;
                let Some(list) = List::new(&self.layout(), list, &place.ty) else {
                    return Ok(false);
                };
                let end = list.len(&self.memory);
                let Some(slot) = list.insert(&mut self.memory, end) else {
                    return Ok(false);
                };
                self.memory
                    .write(slot, hawser_ir::OPTION_TAG as usize, u64::from(member.0));
                self.memory
                    .copy(slot.plus(hawser_ir::OPTION_TAG as usize), from, len);
                Ok(true)
            }
        }
    }

    /// Inserts an operand at a position of a list; false if the list is full.
    fn insert(&mut self, list: &List, index: u64, ty: &Ty, operand: &Operand) -> Result<bool, Halt> {
        match operand {
            Operand::Value(expr) => {
                let value = self.eval(expr)?;
                let slot = list.insert(&mut self.memory, index);
                if let Some(slot) = slot {
                    self.store_at(slot, ty, value);
                }
                Ok(slot.is_some())
            }
            Operand::Ref(from) => {
                let from = self.locate(from)?;
                let len = self.size(ty);
                let slot = list.insert(&mut self.memory, index);
                if let Some(slot) = slot {
                    self.memory.copy(slot, from, len);
                }
                Ok(slot.is_some())
            }
        }
    }

    /// Inserts an element in order, or replaces the element with the same key; false if the list is full.
    fn put(&mut self, place: &Place, operand: &Operand) -> Result<bool, Halt> {
        let loc = self.locate(place)?;
        let Some(sorted) = Sorted::new(&self.layout(), loc, &place.ty) else {
            return Ok(false);
        };
        // The element may itself lie in the list whose elements move, so its bytes are copied first.
        let ty = element(&place.ty);
        let len = self.size(ty);
        let aside = Loc { region: Region::Stack, at: self.memory.stack.len() };
        self.memory.stack.resize(aside.at + len.next_multiple_of(8), 0);
        match operand {
            Operand::Ref(from) => {
                let from = self.locate(from)?;
                self.memory.copy(aside, from, len);
            }
            Operand::Value(expr) => {
                let value = self.eval(expr)?;
                self.store_at(aside, ty, value);
            }
        }
        let key = sorted.key_of(&self.memory, aside);
        if let Some(position) = sorted.position(&self.memory, key) {
            sorted.list.remove(&mut self.memory, position);
        }
        let position = sorted.place_for(&self.memory, aside);
        let slot = sorted.list.insert(&mut self.memory, position);
        if let Some(slot) = slot {
            self.memory.copy(slot, aside, len);
        }
        self.memory.stack.truncate(aside.at);
        Ok(slot.is_some())
    }
}

fn element(list: &Ty) -> &Ty {
    match list.items() {
        Some((Items::Values(elem), _)) => elem,
        Some((Items::Options(_), _)) | None => list,
    }
}
