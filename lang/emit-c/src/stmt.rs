//! Statements: one function per node.

use std::collections::BTreeSet;

use hawser_ir::visit;
use hawser_ir::{Base, ContainerOp, Expr, IdPart, Place, Stmt, StmtKind, Ty};

use crate::Marks;
use crate::emitter::Emitter;
use crate::function::is_framed;
use crate::names::{comment, literal};
use crate::number;
use crate::scope::{ObjectExpr, Scope};
use crate::types::scalar;

impl Emitter<'_> {
    pub(crate) fn block(&mut self, s: &mut Scope, stmts: &[Stmt]) {
        let mut rest = stmts;
        while let [stmt, after @ ..] = rest {
            let done = self.ids_in_place(s, rest);
            if done == 0 {
                self.stmt(s, stmt);
            }
            rest = &after[done.saturating_sub(1)..];
        }
    }

    fn stmt(&mut self, s: &mut Scope, stmt: &Stmt) {
        self.mark(s, stmt);
        if self.declare_before(s, stmt) {
            return;
        }
        match &stmt.kind {
            StmtKind::Store(place, value) => self.store_stmt(s, place, value),
            StmtKind::Copy(to, from) => self.copy(s, to, from),
            StmtKind::Init(place) => self.init(s, place),
            StmtKind::MakeId(place, parts) => self.make_id(s, place, parts),
            StmtKind::MakeData { dst, uid, off, len, seg_size } => {
                self.make_data(s, dst, uid, [off, len, seg_size]);
            }
            StmtKind::MakeIpv4(place, number) => self.make_ipv4(s, place, number),
            StmtKind::MakeIpv6(place, high, low) => self.make_ipv6(s, place, [high, low]),
            StmtKind::Container { op, ok } => self.container_stmt(s, op, ok.as_ref()),
            StmtKind::If(condition, then, otherwise) => self.branch(s, condition, then, otherwise),
            StmtKind::For { var, from, to, max, body } => self.count(s, var, [from, to], *max, body),
            StmtKind::Break => s.out.line("break;"),
            StmtKind::Continue => s.out.line("continue;"),
            StmtKind::Return(value) => self.give_back(s, value.as_ref()),
            StmtKind::Call(func, args) => self.call_stmt(s, *func, args),
            StmtKind::Emit(instr) => self.instruction(s, instr),
            StmtKind::Done => self.end_run(s, "HW_OUTCOME(HW_STOP, 0)"),
            StmtKind::Refuse(code) => {
                let code = self.expr(s, code);
                self.end_run(s, &format!("HW_OUTCOME(HW_REFUSED, {code})"));
            }
            StmtKind::Assert(condition, index) => self.assertion(s, condition, *index),
            StmtKind::Extract { blueprint, dst, ok } => {
                crate::packet::extract(self, s, *blueprint, dst, ok.as_ref());
            }
            StmtKind::SetIds { event, ids } => self.set_ids(s, event, ids),
            StmtKind::PushEvent { event, from } => crate::packet::push_event(self, s, *event, from),
            StmtKind::Drop => crate::packet::drop_input(self, s),
        }
    }

    /// Marks the statement's place in the source, unless it equals that of the last one.
    pub(crate) fn mark(&mut self, s: &mut Scope, stmt: &Stmt) {
        let at = (stmt.span.file, self.line_of(stmt.span.file, stmt.span.start));
        let Some((path, _)) = self.module.files.get(at.0 as usize) else {
            return;
        };
        if s.mark == Some(at) {
            // One line of the source may become several lines of C. Compilers count on from the last
            // directive, so it is repeated.
            if self.options.marks != Marks::Directives {
                return;
            }
        }
        s.mark = Some(at);
        match self.options.marks {
            Marks::Directives => s.out.directive(&format!("#line {} {}", at.1, literal(path))),
            Marks::Comments => s.out.line(&format!("/* {}:{} */", comment(path), at.1)),
            Marks::Nothing => {}
        }
    }

    /// Declares the variables that are first mentioned here. Returns true if no code remains to be printed
    /// for the statement.
    fn declare_before(&mut self, s: &mut Scope, stmt: &Stmt) -> bool {
        for declared in s.plan.before(stmt).to_vec() {
            let ty = s.locals[declared.local].ty.clone();
            let zero = self.zero(&ty);
            match &stmt.kind {
                StmtKind::Store(_, value) if declared.set_whole => {
                    let text = self.at_once(s, value);
                    let text = number::cast(&text, &value.ty, &ty);
                    self.declare(s, declared.local, &text);
                    return true;
                }
                StmtKind::Copy(_, from) if declared.set_whole && !self.is_nowhere(s, from) => {
                    let from = self.seen(s, &Place { ty: ty.clone(), ..from.clone() }).lvalue();
                    self.declare(s, declared.local, &from);
                    return true;
                }
                StmtKind::Init(_) if declared.set_whole => {
                    let value = self.initial(&ty);
                    self.declare(s, declared.local, &value);
                    return true;
                }
                StmtKind::MakeId(place, parts) if declared.set_whole => {
                    let id = s.locals[declared.local].name.clone();
                    self.declare(s, declared.local, zero);
                    self.pack_id(s, &format!("{id}."), parts);
                    debug_assert!(place.base == Base::Local);
                    return true;
                }
                // It zeroes the image if the header is not found.
                StmtKind::Extract { .. } if declared.set_whole => self.declare_unset(s, declared.local),
                _ => self.declare(s, declared.local, zero),
            }
        }
        false
    }

    fn store_stmt(&mut self, s: &mut Scope, place: &Place, value: &Expr) {
        // A call may stand in the assignment itself if the assignment is certain to happen.
        let sure = place.steps.is_empty() && {
            let target = self.target(s, place);
            target.guard.is_none() && !target.nowhere
        };
        let mut text = if sure {
            self.at_once(s, value)
        } else {
            self.assigned(s, value)
        };
        if !self.plain_place(place) {
            text = s.keep(scalar(&value.ty), &text);
        }
        let text = number::cast(&text, &value.ty, &place.ty);
        self.store(s, place, &text);
    }

    fn copy(&mut self, s: &mut Scope, to: &Place, from: &Place) {
        let nowhere = self.is_nowhere(s, from);
        let from = if nowhere {
            String::new()
        } else {
            self.seen(s, &Place { ty: to.ty.clone(), ..from.clone() })
                .lvalue()
        };
        let target = self.target(s, to);
        if nowhere {
            self.clear(s, &target, &to.ty);
        } else if !target.nowhere {
            let size = self.layout().size(&to.ty);
            let to = target.at.lvalue();
            let line = self.copied(&to, &from, size);
            self.guarded(s, &target, |s| s.out.line(&line));
        }
    }

    /// Sets all of an object to zero.
    fn clear(&mut self, s: &mut Scope, target: &crate::place::AssignmentTarget, ty: &Ty) {
        let size = self.layout().size(ty);
        let line = format!("memset({}, 0, {size});", target.at.address());
        self.guarded(s, target, |s| s.out.line(&line));
    }

    /// Zeroes a value, then sets its structure's defaults.
    fn init(&mut self, s: &mut Scope, place: &Place) {
        let target = self.target(s, place);
        if place.ty.is_scalar() {
            self.store_at(s, &target, "0");
            return;
        }
        self.init_at(s, &target, &place.ty);
    }

    pub(crate) fn init_at(&mut self, s: &mut Scope, target: &crate::place::AssignmentTarget, ty: &Ty) {
        let lines = self.initialised(&target.at.lvalue(), ty);
        self.guarded(s, target, |s| lines.iter().for_each(|line| s.out.line(line)));
    }

    /// Returns statements that set an object to its type's initial value: all zeros, except for defaults.
    pub(crate) fn initialised(&mut self, lvalue: &str, ty: &Ty) -> Vec<String> {
        let defaults = self.defaults(ty);
        if !defaults.is_empty() && !self.is_ebpf() {
            return vec![format!("{lvalue} = ({}){};", self.type_of(ty), self.initial(ty))];
        }
        let size = self.layout().size(ty);
        let zero = format!(
            "memset({}, 0, {size});",
            ObjectExpr::Object(lvalue.to_owned()).address()
        );
        let fields = defaults.iter().map(|field| format!("({lvalue}){field};"));
        std::iter::once(zero).chain(fields).collect()
    }

    /// Returns a type's initial value as an initialiser.
    pub(crate) fn initial(&mut self, ty: &Ty) -> String {
        let defaults = self.defaults(ty);
        if defaults.is_empty() {
            self.zero(ty).to_owned()
        } else {
            format!("{{{}}}", defaults.join(", "))
        }
    }

    /// True if some field of a type has an initial value other than zero.
    pub(crate) fn has_defaults(&self, ty: &Ty) -> bool {
        !self.defaults(ty).is_empty()
    }

    /// Returns designated initialisers of the fields whose initial value is not zero.
    pub(crate) fn defaults(&self, ty: &Ty) -> Vec<String> {
        let Ty::Struct(id) = ty else { return Vec::new() };
        let names = self.field_names(*id);
        let fields = &self.module.structure(*id).fields;
        let mut found = Vec::new();
        for (field, name) in fields.iter().zip(names.iter()) {
            if let Ty::Struct(_) = field.ty {
                found.extend(
                    self.defaults(&field.ty)
                        .into_iter()
                        .map(|inner| format!(".{name}{}", inner)),
                );
            } else if let Some(value) = field.default.filter(|v| *v != 0) {
                found.push(format!(".{name} = {}", number::constant(value, &field.ty)));
            }
        }
        found
    }

    fn make_id(&mut self, s: &mut Scope, place: &Place, parts: &[IdPart]) {
        let id = s.names.take("id");
        s.out.line(&format!("hw_id {id} = {{0}};"));
        self.pack_id(s, &format!("{id}."), parts);
        self.store(s, place, &id);
    }

    /// Packs a tuple into an id, which is zero before; `id` is followed by `.` or `->`.
    pub(crate) fn pack_id(&mut self, s: &mut Scope, id: &str, parts: &[IdPart]) {
        let room = hawser_ir::abi::Id::MAX as u32;
        let len = s.names.take("len");
        s.out.line(&format!("size_t {len} = 0;"));
        self.pack(s, parts, &format!("{id}bytes"), &len, room);
        s.out.line(&format!("{id}bytes[{room}] = (uint8_t){len};"));
    }

    fn make_data(&mut self, s: &mut Scope, dst: &Place, uid: &Place, [off, len, seg_size]: [&Expr; 3]) {
        let kept = [off, len, seg_size]
            .into_iter()
            .all(|e| self.plain(e))
            .then(|| self.seen_address(s, uid));
        let uid = if self.is_nowhere(s, uid) {
            None
        } else {
            Some(self.id(s, uid))
        };
        let uid = match kept {
            Some(at) if uid.is_some() => format!("hw_put_id(&HERE->uid, {at});"),
            Some(_) | None => {
                let value = uid.unwrap_or_else(|| "(hw_id){{0}}".into());
                format!("HERE->uid = {};", s.keep("hw_id", &value))
            }
        };
        // The values may be read from the object that is about to change.
        let values = self.values(s, [off, len, seg_size]);
        let values: Vec<String> = values
            .iter()
            .zip(["uint64_t", "uint32_t", "uint32_t"])
            .map(|(value, ty)| s.keep(ty, &format!("({ty}){}", number::paren(value))))
            .collect();
        let target = self.target(s, dst);
        let pointer = target.at.address();
        self.guarded(s, &target, |s| {
            let data = s.names.take("data");
            s.out.line(&format!("hw_data *{data} = {pointer};"));
            s.out.line(&uid.replace("HERE", &data));
            for (field, value) in ["off", "addr", "len", "seg_size"].into_iter().zip([
                values[0].as_str(),
                "0",
                &values[1],
                &values[2],
            ]) {
                s.out.line(&format!("{data}->{field} = {value};"));
            }
        });
    }

    /// Returns the id at a place, as a value.
    pub(crate) fn id(&mut self, s: &mut Scope, place: &Place) -> String {
        if self.is_nowhere(s, place) {
            return "(hw_id){{0}}".into();
        }
        let at = self.seen(s, place).address();
        format!("hw_id_at({at})")
    }

    fn make_ipv4(&mut self, s: &mut Scope, place: &Place, number: &Expr) {
        let value = self.expr(s, number);
        self.store(s, place, &format!("hw_ipv4((uint32_t){})", number::paren(&value)));
    }

    fn make_ipv6(&mut self, s: &mut Scope, place: &Place, halves: [&Expr; 2]) {
        let halves = self.values(s, halves);
        let halves: Vec<String> = halves.iter().map(|half| s.keep("uint64_t", half)).collect();
        let byte = |half: &String, shift| format!("(uint8_t)({half} >> {shift})");
        let shifts = (0..8).rev().map(|byte| 8 * byte);
        let bytes = halves
            .iter()
            .flat_map(|half| shifts.clone().map(|shift| byte(half, shift)));
        let bytes: Vec<String> = bytes.collect();
        self.store(s, place, &format!("(hw_ip){{{{{}}}}}", bytes.join(", ")));
    }

    fn container_stmt(&mut self, s: &mut Scope, op: &ContainerOp, ok: Option<&Place>) {
        let worked = self.container(s, op, ok.is_some());
        if let (Some(ok), Some(worked)) = (ok, worked) {
            let worked = number::cast(&worked, &Ty::Bool, &ok.ty);
            self.store(s, ok, &worked);
        }
    }

    fn branch(&mut self, s: &mut Scope, condition: &Expr, then: &[Stmt], otherwise: &[Stmt]) {
        let test = self.expr(s, condition);
        s.out.open(&format!("if ({})", number::bare_condition(&test)));
        self.block(s, then);
        if !otherwise.is_empty() {
            s.out.otherwise();
            self.block(s, otherwise);
        }
        s.out.close("");
    }

    /// Counts a variable from `from` (inclusive) to `to` (exclusive), in at most `max` rounds. Both limits
    /// are evaluated once. An assignment to the variable does not change the count.
    fn count(&mut self, s: &mut Scope, var: &Place, [from, to]: [&Expr; 2], max: u32, body: &[Stmt]) {
        let ty = scalar(&from.ty);
        let values = self.values(s, [from, to]);
        let next = s.names.take("next");
        let end = s.names.take("end");
        let round = s.names.take("round");
        s.out.line(&format!("{ty} {next} = {};", values[0]));
        s.out.line(&format!("const {ty} {end} = {};", values[1]));
        let mut carried = Vec::new();
        if self.is_ebpf() {
            carried = carried_by(s, body);
            carried.push(next.clone());
            carried
                .iter_mut()
                .for_each(|name| *name = format!("HW_STAY({name})"));
            s.out.line(&format!("{};", carried.join("; ")));
        }
        let one = Expr { ty: from.ty.clone(), kind: hawser_ir::ExprKind::Const(1) };
        let step = number::binary(hawser_ir::BinOp::Add, &next, &self.expr(s, &one), &from.ty, None);
        let less = number::compare(hawser_ir::CmpOp::Lt, &next, &end, &from.ty);
        s.out.open(&format!(
            "for (uint32_t {round} = HW_ZERO; HW_MORE({round} < {max}u && {}); HW_NEXT({round}), {next} = {step}{})",
            number::paren(&less),
            carried.iter().map(|stay| format!(", {stay}")).collect::<String>()
        ));
        let value = number::cast(&next, &from.ty, &var.ty);
        self.store(s, var, &value);
        self.block(s, body);
        s.out.close("");
    }

    /// Ends the run.
    pub(crate) fn end_run(&mut self, s: &mut Scope, outcome: &str) {
        s.out.line(&format!("run->outcome = {outcome};"));
        s.halt();
    }

    fn assertion(&mut self, s: &mut Scope, condition: &Expr, index: u32) {
        let holds = self.expr(s, condition);
        s.out
            .open(&format!("if (HW_UNLIKELY(!{}))", number::paren(&holds)));
        self.end_run(s, &format!("HW_OUTCOME(HW_ASSERT, {index})"));
        s.out.close("");
    }

    /// Stores the ids in an event's header.
    fn set_ids(&mut self, s: &mut Scope, event: &Place, ids: &[Place]) {
        let count = ids.len().min(3);
        let texts: Vec<String> = ids.iter().take(3).map(|place| self.id(s, place)).collect();
        // An id may lie in the header that is about to change.
        let apart = ids
            .iter()
            .all(|id| id.base == Base::Local && !overlap(s, id, event));
        let kept: Vec<String> = if apart {
            texts
        } else {
            texts.iter().map(|text| s.keep("hw_id", text)).collect()
        };
        let header = Place { ty: Ty::Struct(hawser_ir::StructId(0)), ..event.clone() };
        let target = self.target(s, &header);
        let pointer = target.at.address();
        self.guarded(s, &target, |s| {
            let name = s.names.take("header");
            s.out.line(&format!("hw_event *{name} = {pointer};"));
            s.out.line(&format!("{name}->ids = {count};"));
            for i in 0..3 {
                let value = kept.get(i).map_or("(hw_id){{0}}", String::as_str);
                s.out.line(&format!("{name}->id[{i}] = {value};"));
            }
        });
    }
}

/// Returns the variables whose values pass from round to round of a loop. They are numbers that are not in
/// memory, set in the loop and declared before it.
fn carried_by(s: &Scope, body: &[Stmt]) -> Vec<String> {
    let mut set = BTreeSet::new();
    visit::places(body, |place, access| {
        if place.base == Base::Local && access.writes() {
            set.extend(s.index_of(place.offset));
        }
    });
    hawser_ir::statements(body, &mut |stmt| {
        for declared in s.plan.before(stmt) {
            set.remove(&declared.local);
        }
    });
    let locals = set.into_iter().map(|index| &s.locals[index]);
    let numbers = locals.filter(|local| local.ty.is_scalar() && !is_framed(local));
    numbers.map(|local| local.name.clone()).collect()
}

/// True if two places may be in one variable.
fn overlap(s: &Scope, a: &Place, b: &Place) -> bool {
    let variable = |place: &Place| s.local(place.offset).map(|local| local.offset);
    b.base == Base::Local && variable(a) == variable(b)
}
