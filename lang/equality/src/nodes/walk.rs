//! A walk over a module that counts its nodes by name.
//!
//! Matches are exhaustive: a new node does not compile until it has a name here.

use std::collections::BTreeSet;

use hawser_ir::{
    Arg, Base, BinOp, ContainerOp, Expr, ExprKind, Fill, FuncId, IdPart, Index, Instr, Module, Operand,
    Place, Query, Stmt, StmtKind, Ty, WireFact, WireField,
};

use crate::coverage::Coverage;

/// Counts a whole program's tables, and the functions that `ran` and what they call.
pub fn count(module: &Module, ran: &BTreeSet<FuncId>, coverage: &mut Coverage) {
    let mut walk = Walk {
        module,
        coverage,
        seen: BTreeSet::new(),
    };
    ran.iter().for_each(|func| walk.function(*func));
    walk.tables();
}

struct Walk<'a> {
    module: &'a Module,
    coverage: &'a mut Coverage,
    seen: BTreeSet<FuncId>,
}

impl Walk<'_> {
    fn tables(&mut self) {
        let module = self.module;
        let processors = module.chains.iter().flat_map(|chain| &chain.processors);
        processors
            .flat_map(|processor| &processor.args)
            .for_each(|place| self.place(place));
        module
            .parsers
            .iter()
            .for_each(|parser| self.function(parser.func));
        for rule in &module.coalesce {
            self.coverage.count("module coalesce");
            self.function(rule.func);
        }
        for rule in &module.seg_rules {
            self.coverage.count("module seg rule");
            [&rule.first, &rule.mid, &rule.last, &rule.only]
                .into_iter()
                .for_each(|e| self.expr(e));
        }
        for (invariant, _) in module.contexts.iter().flat_map(|context| &context.invariants) {
            self.coverage.count("module invariant");
            self.expr(invariant);
        }
        for field in module
            .blueprints
            .iter()
            .flat_map(|b| b.header.iter().chain(&b.trailer))
        {
            self.wire_field(field);
        }
        module
            .opt_lists
            .iter()
            .filter_map(|list| list.len.as_ref())
            .for_each(|len| self.expr(len));
    }

    fn wire_field(&mut self, field: &WireField) {
        match field {
            WireField::Bits { fill, .. } => {
                self.coverage.count("wire Bits");
                match fill {
                    None => {}
                    Some(Fill::Value(value)) => {
                        self.coverage.count("fill Value");
                        self.expr(value);
                    }
                    Some(Fill::HeaderWords) => self.coverage.count("fill HeaderWords"),
                    Some(Fill::Checksum16 { .. }) => self.coverage.count("fill Checksum16"),
                    Some(Fill::Crc32 { .. }) => self.coverage.count("fill Crc32"),
                }
            }
            WireField::Varint { .. } => self.coverage.count("wire Varint"),
            WireField::Bytes { .. } => self.coverage.count("wire Bytes"),
            WireField::Nested { when, .. } => {
                self.coverage.count("wire Nested");
                when.iter().for_each(|when| self.expr(when));
            }
            WireField::Options { .. } => self.coverage.count("wire Options"),
            WireField::Repeat { .. } => self.coverage.count("wire Repeat"),
        }
    }

    fn function(&mut self, func: FuncId) {
        if self.seen.insert(func) {
            self.block(&self.module.funcs[func.0 as usize].body);
        }
    }

    fn block(&mut self, stmts: &[Stmt]) {
        stmts.iter().for_each(|stmt| self.stmt(&stmt.kind));
    }

    fn stmt(&mut self, stmt: &StmtKind) {
        let name = match stmt {
            StmtKind::Store(place, value) => {
                self.place(place);
                self.expr(value);
                "Store"
            }
            StmtKind::Copy(to, from) => {
                self.place(to);
                self.place(from);
                "Copy"
            }
            StmtKind::Init(place) => {
                self.place(place);
                "Init"
            }
            StmtKind::MakeId(place, parts) => {
                self.place(place);
                self.parts(parts);
                "MakeId"
            }
            StmtKind::MakeData {
                dst,
                uid,
                off,
                len,
                seg_size,
            } => {
                [dst, uid].into_iter().for_each(|p| self.place(p));
                [off, len, seg_size].into_iter().for_each(|e| self.expr(e));
                "MakeData"
            }
            StmtKind::MakeIpv4(place, value) => {
                self.place(place);
                self.expr(value);
                "MakeIpv4"
            }
            StmtKind::Container { op, ok } => {
                self.container(op);
                ok.iter().for_each(|ok| self.place(ok));
                "Container"
            }
            StmtKind::If(condition, then, otherwise) => {
                self.expr(condition);
                self.block(then);
                self.block(otherwise);
                "If"
            }
            StmtKind::For {
                var, from, to, body, ..
            } => {
                self.place(var);
                self.expr(from);
                self.expr(to);
                self.block(body);
                "For"
            }
            StmtKind::Break => "Break",
            StmtKind::Continue => "Continue",
            StmtKind::Return(value) => {
                value.iter().for_each(|value| self.expr(value));
                "Return"
            }
            StmtKind::Call(func, args) => {
                self.call(*func, args);
                "Call"
            }
            StmtKind::Emit(instr) => {
                self.instr(instr);
                "Emit"
            }
            StmtKind::Done => "Done",
            StmtKind::Refuse(code) => {
                self.expr(code);
                "Refuse"
            }
            StmtKind::Assert(condition, _) => {
                self.expr(condition);
                "Assert"
            }
            StmtKind::Extract { dst, ok, .. } => {
                self.place(dst);
                ok.iter().for_each(|ok| self.place(ok));
                "Extract"
            }
            StmtKind::SetIds { event, ids } => {
                self.place(event);
                ids.iter().for_each(|id| self.place(id));
                "SetIds"
            }
            StmtKind::PushEvent { from, .. } => {
                self.place(from);
                "PushEvent"
            }
            StmtKind::Drop => "Drop",
        };
        self.coverage.count(format!("stmt {name}"));
    }

    fn container(&mut self, op: &ContainerOp) {
        let (name, place) = match op {
            ContainerOp::PushBack(place, operand) => {
                self.operand(operand);
                ("PushBack", place)
            }
            ContainerOp::PopFront(place, to) => {
                to.iter().for_each(|to| self.place(to));
                ("PopFront", place)
            }
            ContainerOp::Clear(place) => ("Clear", place),
            ContainerOp::Put(place, operand) => {
                self.operand(operand);
                ("Put", place)
            }
            ContainerOp::Remove(place, key) => {
                self.expr(key);
                ("Remove", place)
            }
            ContainerOp::WindowSet(place, a, b) => {
                self.expr(a);
                self.expr(b);
                ("WindowSet", place)
            }
            ContainerOp::WindowUnset(place, a, b) => {
                self.expr(a);
                self.expr(b);
                ("WindowUnset", place)
            }
            ContainerOp::WindowSlide(place, to) => {
                self.expr(to);
                ("WindowSlide", place)
            }
            ContainerOp::OptionAdd(place, _, from) => {
                self.place(from);
                ("OptionAdd", place)
            }
        };
        self.place(place);
        self.coverage.count(format!("container {name}"));
    }

    fn operand(&mut self, operand: &Operand) {
        match operand {
            Operand::Value(value) => self.expr(value),
            Operand::Ref(place) => self.place(place),
        }
    }

    fn call(&mut self, func: FuncId, args: &[Arg]) {
        for arg in args {
            match arg {
                Arg::Value(value) => self.expr(value),
                Arg::Ref(place) => self.place(place),
            }
        }
        self.function(func);
    }

    fn parts(&mut self, parts: &[IdPart]) {
        for part in parts {
            match part {
                IdPart::Scalar(value, _) => {
                    self.coverage.count("id part Scalar");
                    self.expr(value);
                }
                IdPart::Bytes(place) => {
                    self.coverage.count("id part Bytes");
                    self.place(place);
                }
            }
        }
    }

    fn place(&mut self, place: &Place) {
        let base = match place.base {
            Base::Local => "local",
            Base::Ref(_) => "ref",
            Base::Event => "event",
            Base::Keyed => "keyed",
            Base::Fresh => "fresh",
            Base::Global(_) => "global",
            Base::Scratch => "scratch",
            Base::Blueprint => "blueprint",
        };
        self.coverage.count(format!("base {base}"));
        for step in &place.steps {
            match &step.index {
                Index::At(index) => {
                    self.coverage.count("index At");
                    self.expr(index);
                }
                Index::Tag(_) => self.coverage.count("index Tag"),
                Index::Key(key, _) => {
                    self.coverage.count("index Key");
                    self.expr(key);
                }
            }
        }
    }

    fn expr(&mut self, expr: &Expr) {
        let name = match &expr.kind {
            ExprKind::Const(_) => "Const",
            ExprKind::Param(_) => "Param",
            ExprKind::Load(place) => {
                self.place(place);
                "Load"
            }
            ExprKind::Cast(inner) => {
                self.expr(inner);
                "Cast"
            }
            ExprKind::Binary(op, a, b) => {
                self.binary(*op, a, b);
                "Binary"
            }
            ExprKind::Compare(op, a, b) => {
                self.coverage.count(format!("compare {op:?}"));
                self.coverage.count(format!("compared {}", class(&a.ty)));
                self.expr(a);
                self.expr(b);
                "Compare"
            }
            ExprKind::Unary(op, a) => {
                self.coverage.count(format!("unary {op:?}"));
                self.expr(a);
                "Unary"
            }
            ExprKind::And(a, b) => {
                self.expr(a);
                self.expr(b);
                "And"
            }
            ExprKind::Or(a, b) => {
                self.expr(a);
                self.expr(b);
                "Or"
            }
            ExprKind::Select(condition, a, b) => {
                [condition, a, b].into_iter().for_each(|e| self.expr(e));
                "Select"
            }
            ExprKind::Builtin(function, args) => {
                self.coverage.count(format!("builtin {function:?}"));
                args.iter().for_each(|e| self.expr(e));
                "Builtin"
            }
            ExprKind::SameBytes(a, b) => {
                self.place(a);
                self.place(b);
                "SameBytes"
            }
            ExprKind::IsZero(place) => {
                self.place(place);
                "IsZero"
            }
            ExprKind::Query(query) => {
                self.query(query);
                "Query"
            }
            ExprKind::KeyedHash(keys, parts) => {
                keys.iter().for_each(|e| self.expr(e));
                self.parts(parts);
                "KeyedHash"
            }
            ExprKind::Call(func, args) => {
                self.call(*func, args);
                "Call"
            }
            ExprKind::RuleArg(_) => "RuleArg",
            ExprKind::Wanted(_) => "Wanted",
            ExprKind::Wire(fact) => {
                let fact = match fact {
                    WireFact::TotalLen => "TotalLen",
                    WireFact::HeaderLen => "HeaderLen",
                    WireFact::DataLen => "DataLen",
                };
                self.coverage.count(format!("wire fact {fact}"));
                "Wire"
            }
        };
        self.coverage.count(format!("expr {name}"));
    }

    fn binary(&mut self, op: BinOp, a: &Expr, b: &Expr) {
        self.coverage.count(format!("binary {op:?}"));
        self.coverage.count(format!("computed {}", class(&a.ty)));
        self.expr(a);
        self.expr(b);
    }

    fn query(&mut self, query: &Query) {
        let (name, place) = match query {
            Query::Len(place) => ("Len", place),
            Query::HasTag(place, _) => ("HasTag", place),
            Query::HasKey(place, key) => {
                self.expr(key);
                ("HasKey", place)
            }
            Query::FirstFrom(place, values) => {
                values.iter().for_each(|e| self.expr(e));
                ("FirstFrom", place)
            }
            Query::WindowHead(place) => ("WindowHead", place),
            Query::WindowIsSet(place, x) => {
                self.expr(x);
                ("WindowIsSet", place)
            }
            Query::WindowFirstSet(place, x) => {
                self.expr(x);
                ("WindowFirstSet", place)
            }
            Query::WindowFirstUnset(place, x) => {
                self.expr(x);
                ("WindowFirstUnset", place)
            }
            Query::WindowRunFrom(place, i) => {
                self.expr(i);
                ("WindowRunFrom", place)
            }
            Query::WindowRunTo(place, i) => {
                self.expr(i);
                ("WindowRunTo", place)
            }
        };
        self.place(place);
        self.coverage.count(format!("query {name}"));
    }

    fn instr(&mut self, instr: &Instr) {
        let name = match instr {
            Instr::NewTxOrderedData { size, uid, addr } => {
                self.unit(uid, &[size, addr]);
                "NewTxOrderedData"
            }
            Instr::AddTxData { addr, len, uid } => {
                self.unit(uid, &[addr, len]);
                "AddTxData"
            }
            Instr::TxFlushAndNotify { uid, len } => {
                self.unit(uid, &[len]);
                "TxFlushAndNotify"
            }
            Instr::NewRxOrderedData { size, uid, addr, cap } => {
                self.unit(uid, &[size, addr, cap]);
                "NewRxOrderedData"
            }
            Instr::AddRxDataSeg { addr, len, uid, off } => {
                self.unit(uid, &[addr, len, off]);
                "AddRxDataSeg"
            }
            Instr::RxFlushAndNotify { uid, len, addr } => {
                self.unit(uid, &[len, addr]);
                "RxFlushAndNotify"
            }
            Instr::DelTxOrderedData { uid } => {
                self.place(uid);
                "DelTxOrderedData"
            }
            Instr::DelRxOrderedData { uid } => {
                self.place(uid);
                "DelRxOrderedData"
            }
            Instr::PktGen {
                net, bp, rules, rank, ..
            } => {
                self.place(net);
                self.place(bp);
                rules.iter().flat_map(|(_, args)| args).for_each(|e| self.expr(e));
                rank.iter().for_each(|e| self.expr(e));
                "PktGen"
            }
            Instr::TimerStart { timer, dur, .. } => {
                self.unit(timer, &[dur]);
                "TimerStart"
            }
            Instr::TimerStop { timer, .. } => {
                self.place(timer);
                "TimerStop"
            }
            Instr::NewCtx { .. } => "NewCtx",
            Instr::DelCtx { .. } => "DelCtx",
            Instr::AddId { id } => {
                self.place(id);
                "AddId"
            }
            Instr::DropId { id } => {
                self.place(id);
                "DropId"
            }
            Instr::Notify { error, id, args, .. } => {
                id.iter().for_each(|id| self.place(id));
                error.iter().chain(args).for_each(|e| self.expr(e));
                "Notify"
            }
            Instr::Raise { from, target, .. } => {
                self.place(from);
                target.iter().for_each(|target| self.place(target));
                "Raise"
            }
            Instr::Signal { from, .. } => {
                self.place(from);
                "Signal"
            }
            Instr::SetQueueRate { rate, .. } => {
                self.expr(rate);
                "SetQueueRate"
            }
            Instr::SetQueuePrio { prio, .. } => {
                self.expr(prio);
                "SetQueuePrio"
            }
            Instr::QueueReset { .. } => "QueueReset",
            Instr::Extern { args, .. } => {
                args.iter().for_each(|e| self.expr(e));
                "Extern"
            }
        };
        self.coverage.count(format!("instr {name}"));
    }

    fn unit(&mut self, place: &Place, values: &[&Expr]) {
        self.place(place);
        values.iter().for_each(|e| self.expr(e));
    }
}

/// Types of one kind of arithmetic.
fn class(ty: &Ty) -> String {
    let width = |bits: u8| match bits {
        8 | 16 | 32 | 64 => bits.to_string(),
        0..=8 => "below 8".to_owned(),
        9..=16 => "below 16".to_owned(),
        17..=32 => "below 32".to_owned(),
        33.. => "below 64".to_owned(),
    };
    match ty {
        Ty::Bool => "bool".to_owned(),
        Ty::Int { bits, signed: false } => format!("uint {}", width(*bits)),
        Ty::Int { bits, signed: true } => format!("int {}", width(*bits)),
        Ty::Enum { .. } => "enum".to_owned(),
        Ty::Seq { bits } => format!("seq {}", width(*bits)),
        Ty::Duration => "duration".to_owned(),
        Ty::Time => "time".to_owned(),
        Ty::Varint => "varint".to_owned(),
        Ty::Addr => "address".to_owned(),
        Ty::Timer => "timer".to_owned(),
        Ty::Ip
        | Ty::Id
        | Ty::Data
        | Ty::Bytes { .. }
        | Ty::Struct(_)
        | Ty::List { .. }
        | Ty::Sorted { .. }
        | Ty::Window { .. }
        | Ty::Options { .. } => "aggregate".to_owned(),
    }
}
