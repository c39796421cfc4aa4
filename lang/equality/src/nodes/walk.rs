//! Counts the nodes of a module by name.
//!
//! Matches are exhaustive: a new node does not compile until it has a name here.

use std::collections::BTreeSet;

use hawser_ir::visit::{Access, Visitor, visit_block, visit_expr};
use hawser_ir::{
    Arg, Base, ContainerOp, Expr, ExprKind, Fill, FuncId, IdPart, Index, Instr, Module, Place, Query, Stmt,
    StmtKind, Ty, WireFact, WireField,
};

use crate::coverage::Coverage;

/// Counts the nodes of a program's tables, of the functions in `ran`, and of their callees.
pub fn count(module: &Module, ran: &BTreeSet<FuncId>, coverage: &mut Coverage) {
    let mut walk = Walk { module, coverage, seen: BTreeSet::new() };
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
            .for_each(|place| self.place(place, Access::Reference));
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
                .for_each(|e| visit_expr(self, e));
        }
        for (invariant, _) in module.contexts.iter().flat_map(|context| &context.invariants) {
            self.coverage.count("module invariant");
            visit_expr(self, invariant);
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
            .for_each(|len| visit_expr(self, len));
    }

    fn wire_field(&mut self, field: &WireField) {
        match field {
            WireField::Bits { fill, .. } => {
                self.coverage.count("wire Bits");
                match fill {
                    None => {}
                    Some(Fill::Value(value)) => {
                        self.coverage.count("fill Value");
                        visit_expr(self, value);
                    }
                    Some(Fill::HeaderWords) => self.coverage.count("fill HeaderWords"),
                    Some(Fill::Checksum16 { .. }) => self.coverage.count("fill Checksum16"),
                    Some(Fill::Crc32 { .. }) => self.coverage.count("fill Crc32"),
                }
            }
            WireField::Varint { .. } => self.coverage.count("wire Varint"),
            WireField::Bytes { .. } => self.coverage.count("wire Bytes"),
            WireField::Opaque { .. } => self.coverage.count("wire Opaque"),
            WireField::Nested { when, .. } => {
                self.coverage.count("wire Nested");
                when.iter().for_each(|when| visit_expr(self, when));
            }
            WireField::Options { .. } => self.coverage.count("wire Options"),
            WireField::Repeat { .. } => self.coverage.count("wire Repeat"),
        }
    }

    fn function(&mut self, func: FuncId) {
        if self.seen.insert(func) {
            visit_block(self, &self.module.funcs[func.0 as usize].body);
        }
    }

    fn id_parts(&mut self, parts: &[IdPart]) {
        for part in parts {
            self.coverage.count(match part {
                IdPart::Scalar(..) => "id part Scalar",
                IdPart::Bytes(_) => "id part Bytes",
            });
        }
    }
}

impl Visitor<'_> for Walk<'_> {
    fn stmt(&mut self, stmt: &Stmt) {
        let name = match &stmt.kind {
            StmtKind::Store(..) => "Store",
            StmtKind::Copy(..) => "Copy",
            StmtKind::Init(_) => "Init",
            StmtKind::MakeId(_, parts) => {
                self.id_parts(parts);
                "MakeId"
            }
            StmtKind::MakeData { .. } => "MakeData",
            StmtKind::MakeIpv4(..) => "MakeIpv4",
            StmtKind::Container { op, .. } => {
                self.coverage.count(format!("container {}", container(op)));
                "Container"
            }
            StmtKind::If(..) => "If",
            StmtKind::For { .. } => "For",
            StmtKind::Break => "Break",
            StmtKind::Continue => "Continue",
            StmtKind::Return(_) => "Return",
            StmtKind::Call(..) => "Call",
            StmtKind::Emit(instr) => {
                self.coverage.count(format!("instr {}", instruction(instr)));
                "Emit"
            }
            StmtKind::Done => "Done",
            StmtKind::Refuse(_) => "Refuse",
            StmtKind::Assert(..) => "Assert",
            StmtKind::Extract { .. } => "Extract",
            StmtKind::SetIds { .. } => "SetIds",
            StmtKind::PushEvent { .. } => "PushEvent",
            StmtKind::Drop => "Drop",
        };
        self.coverage.count(format!("stmt {name}"));
    }

    fn expr(&mut self, expr: &Expr) {
        let name = match &expr.kind {
            ExprKind::Const(_) => "Const",
            ExprKind::Param(_) => "Param",
            ExprKind::Load(_) => "Load",
            ExprKind::Cast(_) => "Cast",
            ExprKind::Binary(op, a, _) => {
                self.coverage.count(format!("binary {op:?}"));
                self.coverage.count(format!("computed {}", class(&a.ty)));
                "Binary"
            }
            ExprKind::Compare(op, a, _) => {
                self.coverage.count(format!("compare {op:?}"));
                self.coverage.count(format!("compared {}", class(&a.ty)));
                "Compare"
            }
            ExprKind::Unary(op, _) => {
                self.coverage.count(format!("unary {op:?}"));
                "Unary"
            }
            ExprKind::And(..) => "And",
            ExprKind::Or(..) => "Or",
            ExprKind::Select(..) => "Select",
            ExprKind::Builtin(function, _) => {
                self.coverage.count(format!("builtin {function:?}"));
                "Builtin"
            }
            ExprKind::SameBytes(..) => "SameBytes",
            ExprKind::IsZero(_) => "IsZero",
            ExprKind::Query(asked) => {
                self.coverage.count(format!("query {}", query(asked)));
                "Query"
            }
            ExprKind::KeyedHash(_, parts) => {
                self.id_parts(parts);
                "KeyedHash"
            }
            ExprKind::Call(..) => "Call",
            ExprKind::RuleArg(_) => "RuleArg",
            ExprKind::Table(..) => "Table",
            ExprKind::Wanted(_) => "Wanted",
            ExprKind::Wire(fact) => {
                self.coverage.count(match fact {
                    WireFact::TotalLen => "wire fact TotalLen",
                    WireFact::HeaderLen => "wire fact HeaderLen",
                    WireFact::DataLen => "wire fact DataLen",
                });
                "Wire"
            }
        };
        self.coverage.count(format!("expr {name}"));
    }

    fn place(&mut self, place: &Place, _: Access) {
        self.coverage.count(match place.base {
            Base::Local => "base local",
            Base::Ref(_) => "base ref",
            Base::Event => "base event",
            Base::Keyed => "base keyed",
            Base::Fresh => "base fresh",
            Base::Global(_) => "base global",
            Base::Scratch => "base scratch",
            Base::Blueprint => "base blueprint",
        });
        for step in &place.steps {
            self.coverage.count(match &step.index {
                Index::At(_) => "index At",
                Index::Tag(_) => "index Tag",
                Index::Key(..) => "index Key",
            });
        }
    }

    fn call(&mut self, func: FuncId, _: &[Arg]) {
        self.function(func);
    }
}

fn container(op: &ContainerOp) -> &'static str {
    match op {
        ContainerOp::PushBack(..) => "PushBack",
        ContainerOp::PopFront(..) => "PopFront",
        ContainerOp::Clear(_) => "Clear",
        ContainerOp::Put(..) => "Put",
        ContainerOp::Remove(..) => "Remove",
        ContainerOp::WindowSet(..) => "WindowSet",
        ContainerOp::WindowUnset(..) => "WindowUnset",
        ContainerOp::WindowSlide(..) => "WindowSlide",
        ContainerOp::OptionAdd(..) => "OptionAdd",
    }
}

fn query(query: &Query) -> &'static str {
    match query {
        Query::Len(_) => "Len",
        Query::HasTag(..) => "HasTag",
        Query::HasKey(..) => "HasKey",
        Query::FirstFrom(..) => "FirstFrom",
        Query::WindowHead(_) => "WindowHead",
        Query::WindowIsSet(..) => "WindowIsSet",
        Query::WindowFirstSet(..) => "WindowFirstSet",
        Query::WindowFirstUnset(..) => "WindowFirstUnset",
        Query::WindowRunFrom(..) => "WindowRunFrom",
        Query::WindowRunTo(..) => "WindowRunTo",
    }
}

fn instruction(instr: &Instr) -> &'static str {
    match instr {
        Instr::NewTxOrderedData { .. } => "NewTxOrderedData",
        Instr::AddTxData { .. } => "AddTxData",
        Instr::TxFlushAndNotify { .. } => "TxFlushAndNotify",
        Instr::NewRxOrderedData { .. } => "NewRxOrderedData",
        Instr::AddRxDataSeg { .. } => "AddRxDataSeg",
        Instr::RxFlushAndNotify { .. } => "RxFlushAndNotify",
        Instr::DelTxOrderedData { .. } => "DelTxOrderedData",
        Instr::DelRxOrderedData { .. } => "DelRxOrderedData",
        Instr::PktGen { .. } => "PktGen",
        Instr::TimerStart { .. } => "TimerStart",
        Instr::TimerStop { .. } => "TimerStop",
        Instr::NewCtx { .. } => "NewCtx",
        Instr::DelCtx { .. } => "DelCtx",
        Instr::AddId { .. } => "AddId",
        Instr::DropId { .. } => "DropId",
        Instr::Notify { .. } => "Notify",
        Instr::Raise { .. } => "Raise",
        Instr::Signal { .. } => "Signal",
        Instr::SetQueueRate { .. } => "SetQueueRate",
        Instr::SetQueuePrio { .. } => "SetQueuePrio",
        Instr::QueueReset { .. } => "QueueReset",
        Instr::Extern { .. } => "Extern",
    }
}

/// Names the group of types that share one kind of arithmetic.
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
