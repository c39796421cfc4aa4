//! Segmentation rules, packet schedulers, and a program's declarations of the network header.

use hawser_ir as ir;
use hawser_ir::{Base, PacketQueue, QueuePolicy, SegRule, Ty};
use hawser_syntax::Diagnostic;
use hawser_syntax::ast::{ExprKind, Ident};

use crate::body::{Body, BodyKind, Variable, inside, region};
use crate::codes;
use crate::state::{Checker, NET};
use crate::types::Type;

/// The maximum number of queues of a `sched`.
const MAX_QUEUES: usize = 64;

impl<'a> Checker<'a> {
    /// Declares the queues: the default one, then those of each `sched` in order.
    pub(crate) fn schedulers(&mut self) {
        self.module.queues.push(PacketQueue {
            name: "default".to_owned(),
            policy: QueuePolicy::Fifo,
            prio: 0,
        });
        for index in 0..self.scheds.len() {
            self.scheds[index].first = self.module.queues.len() as u32;
            let decl = &self.scheds[index];
            let (name, policy, args, queues) = (decl.name, decl.policy, decl.args, decl.queues);
            let levels = self.priority_levels(policy, args);
            if queues.len() > levels.min(MAX_QUEUES) {
                self.error(
                    codes::SCHED,
                    name.span,
                    format!("{} queues", queues.len()),
                    format!("expected at most {}", levels.min(MAX_QUEUES)),
                );
            }
            for (prio, (queue, policy, args)) in queues.iter().enumerate() {
                if queues[..prio].iter().any(|(other, ..)| other.name == queue.name) {
                    self.error(
                        codes::DEFINED_TWICE,
                        queue.span,
                        format!("the queue `{}` is declared twice", queue.name),
                        "expected a name that is free here",
                    );
                }
                let policy = self.queue_policy(policy, args);
                let name = format!("{}.{}", name.name, queue.name);
                self.module
                    .queues
                    .push(PacketQueue { name, policy, prio: prio as u32 });
            }
        }
    }

    fn priority_levels(&mut self, policy: &Ident, args: &'a [hawser_syntax::ast::Expr]) -> usize {
        match (policy.name.as_str(), args) {
            ("PRIO", [levels]) => match self.constant_expr(levels, &Ty::uint(32)) {
                Some(levels) => levels as usize,
                None => MAX_QUEUES,
            },
            _ => {
                self.error(
                    codes::SCHED,
                    policy.span,
                    format!("unknown schedule `{}`", policy.name),
                    "expected `PRIO(n)`",
                );
                MAX_QUEUES
            }
        }
    }

    fn queue_policy(&mut self, policy: &Ident, args: &[hawser_syntax::ast::Expr]) -> QueuePolicy {
        let per_flow =
            matches!(args, [only] if matches!(&only.kind, ExprKind::Name(n) if n.name == "PER_FLOW"));
        match policy.name.as_str() {
            "FIFO" if args.is_empty() => QueuePolicy::Fifo,
            "RANK" if args.is_empty() => QueuePolicy::Rank,
            "RATE" if args.is_empty() => QueuePolicy::Rate,
            "RATE" if per_flow => QueuePolicy::RatePerFlow,
            _ => {
                self.error(
                    codes::SCHED,
                    policy.span,
                    format!("unknown queue policy `{}`", policy.name),
                    "expected FIFO, RANK, RATE or RATE(PER_FLOW)",
                );
                QueuePolicy::Fifo
            }
        }
    }

    /// Lowers the segmentation rules. Their numbers are those of their declarations.
    pub(crate) fn rules(&mut self) {
        for index in 0..self.rule_decls.len() {
            let rule = self.rule(index);
            // A broken rule keeps its number; no module is returned in this case.
            let rule = rule.unwrap_or_else(|| broken_rule(&self.rule_decls[index].name.name));
            self.module.seg_rules.push(rule);
        }
    }

    fn rule(&mut self, index: usize) -> Option<SegRule> {
        let decl = &self.rule_decls[index];
        let (name, params, field, values) = (decl.name, decl.params, decl.field, decl.values);
        let record = self.blueprint_record(decl.blueprint)?;
        let blueprint = self.blueprint_of(record)?;
        let id = Checker::struct_of(record);
        self.note_field(id, field);
        let fields = &self.module.structs[id.0 as usize].fields;
        let Some(target) = fields.iter().find(|f| f.name == field.name) else {
            let known: Vec<String> = fields.iter().map(|f| f.name.clone()).collect();
            let hint = self.nearest_member(&field.name, known.iter().map(String::as_str));
            let owner = self.records[record].name.clone();
            let mut diagnostic = Diagnostic::error(
                codes::UNKNOWN_MEMBER,
                field.span,
                format!("`{owner}` has no member `{}`", field.name),
            )
            .label("expected a field of the blueprint");
            diagnostic.hint = hint;
            self.report(diagnostic);
            return None;
        };
        let (offset, ty) = (target.offset, target.ty.clone());
        if !ty.is_scalar() {
            self.error(
                codes::RULE,
                field.span,
                format!("`{}` is not a number", field.name),
                "expected a scalar field",
            );
            return None;
        }
        if !(1..=4).contains(&values.len()) || params.len() > hawser_ir::abi::MAX_RULE_ARGS {
            self.error(codes::RULE, name.span, "unknown form of a rule", "expected `[BP::field, first, mid, last, only]`, the last three optional, and at most 4 parameters");
            return None;
        }
        self.rule_decls[index].target = Some((blueprint, ty.clone()));
        let mut body = Body::new(self, BodyKind::Rule(blueprint));
        for (i, param) in params.iter().enumerate() {
            body.bind(param, Variable::RuleArg(i as u16, ty.clone()), Some("parameter"));
        }
        let mut lowered = Vec::new();
        for value in values {
            lowered.push(body.expr_as(value, &ty));
        }
        for scope in std::mem::take(&mut body.scopes) {
            body.report_unused(scope);
        }
        let place = inside(&region(Base::Blueprint, Ty::Struct(id)), offset, ty);
        let first = lowered[0].clone();
        let mid = lowered.get(1).unwrap_or(&first).clone();
        let last = lowered.get(2).unwrap_or(&mid).clone();
        let only = lowered.get(3).unwrap_or(&first).clone();
        let (name, args) = (name.name.clone(), params.len() as u16);
        Some(SegRule { name, args, blueprint, field: place, first, mid, last, only })
    }

    /// Checks that a `net_header` names fields of the built-in one, with their types.
    pub(crate) fn check_net_headers(&mut self) {
        for (name, fields) in std::mem::take(&mut self.net_headers) {
            if name.name != "IPheader" {
                self.error(
                    codes::NET_HEADER,
                    name.span,
                    format!("unknown network header `{}`", name.name),
                    "expected `IPheader`",
                );
                continue;
            }
            for field in fields {
                self.note_field(NET, &field.name);
                let builtin = &self.module.structs[NET.0 as usize].fields;
                let known = builtin
                    .iter()
                    .find(|f| f.name == field.name.name)
                    .map(|f| f.ty.clone());
                match (known, self.resolve_field(&field.ty)) {
                    (_, Type::Error) => {}
                    (Some(known), Type::Value(found)) if known == found => {}
                    (Some(known), _) => {
                        let expected = self.show(&known);
                        self.error(
                            codes::NET_HEADER,
                            field.ty.span,
                            format!("`{}` is of another type", field.name.name),
                            format!("expected {expected}"),
                        );
                    }
                    (None, _) => {
                        let builtin = self.module.structs[NET.0 as usize].fields.clone();
                        let hint =
                            self.nearest_member(&field.name.name, builtin.iter().map(|f| f.name.as_str()));
                        let mut diagnostic = Diagnostic::error(
                            codes::NET_HEADER,
                            field.name.span,
                            format!("the network header has no field `{}`", field.name.name),
                        )
                        .label("expected a field of `IPheader`");
                        diagnostic.hint = hint;
                        self.report(diagnostic);
                    }
                }
            }
        }
    }
}

fn broken_rule(name: &str) -> SegRule {
    let zero = crate::fold::constant(0, Ty::uint(8));
    SegRule {
        name: name.to_owned(),
        args: 0,
        blueprint: ir::BlueprintId(0),
        field: region(Base::Blueprint, Ty::uint(8)),
        first: zero.clone(),
        mid: zero.clone(),
        last: zero.clone(),
        only: zero,
    }
}
