//! The nodes of the intermediate form, which the random programs must cover.

use std::collections::BTreeSet;

use hawser_ir::visit::{Visitor, visit_block, visit_expr, visit_node};
use hawser_ir::{
    Arg, Base, BinOp, Builtin, CmpOp, ContainerOp, Expr, ExprKind, Fill, FuncId, IdPart, Index, Instr,
    Module, Node, Operand, Query, StmtKind, Ty, UnOp, WireFact, WireField,
};

use crate::coverage::Coverage;

/// Nodes that do not occur in any program, each with the reason.
pub const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "stmt Drop",
        "only a parser that makes an id from ids contains it: `lang/tests/run/ids.mtp`",
    ),
    ("wire fact HeaderLen", "the language cannot express it"),
];

/// Returns the names of all nodes that a checked program can have and the interpreter can run.
#[must_use]
pub fn all() -> Vec<String> {
    fn node_names<N: Node>() -> Vec<String> {
        let names = N::NAMES.iter();
        names.map(|name| format!("{} {name}", N::KIND)).collect()
    }
    let kinds = [
        node_names::<StmtKind>(),
        node_names::<ExprKind>(),
        node_names::<Instr>(),
        node_names::<ContainerOp>(),
        node_names::<Query>(),
        node_names::<Builtin>(),
        node_names::<BinOp>(),
        node_names::<CmpOp>(),
        node_names::<UnOp>(),
        node_names::<Base>(),
        node_names::<Index>(),
        node_names::<Arg>(),
        node_names::<IdPart>(),
        node_names::<Operand>(),
        node_names::<WireField>(),
        node_names::<WireFact>(),
        node_names::<Fill>(),
        ["module coalesce", "module invariant", "module seg rule"]
            .map(str::to_owned)
            .into(),
    ];
    let is_excepted = |name: &String| EXCEPTIONS.iter().any(|(excepted, _)| excepted == name);
    kinds
        .into_iter()
        .flatten()
        .filter(|name| !is_excepted(name))
        .collect()
}

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
            .for_each(|place| self.node(Base::KIND, place.base.name()));
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
            visit_node(self, field);
        }
        module
            .opt_lists
            .iter()
            .filter_map(|list| list.len.as_ref())
            .for_each(|len| visit_expr(self, len));
    }

    fn function(&mut self, func: FuncId) {
        if self.seen.insert(func) {
            visit_block(self, &self.module.funcs[func.0 as usize].body);
        }
    }
}

impl Visitor<'_> for Walk<'_> {
    fn node(&mut self, kind: &'static str, name: &'static str) {
        self.coverage.count(format!("{kind} {name}"));
    }

    fn expr(&mut self, expr: &Expr) {
        let (verb, a) = match &expr.kind {
            ExprKind::Binary(_, a, _) => ("computed", a),
            ExprKind::Compare(_, a, _) => ("compared", a),
            _ => return,
        };
        self.coverage.count(format!("{verb} {}", class(&a.ty)));
    }

    fn call(&mut self, func: FuncId, _: &[Arg]) {
        self.function(func);
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
        | Ty::Array { .. }
        | Ty::List { .. }
        | Ty::Sorted { .. }
        | Ty::Window { .. }
        | Ty::Options { .. } => "aggregate".to_owned(),
    }
}
