//! `pkt_gen(net, bp, rule(x)…, queue q, rank r, cost c)`.

use hawser_ir as ir;
use hawser_ir::abi;
use hawser_ir::{Instr, Place, QueueId, QueuePolicy, RuleId, Ty};
use hawser_syntax::ast::{CallArg, Expr, ExprKind, Ident, Span};

use crate::body::Body;
use crate::codes;
use crate::convert::{How, Value};
use crate::names::Def;
use crate::state::{NET, RecordKind};

/// The policies of queues whose packets have ranks.
const RANKED: &[QueuePolicy] = &[QueuePolicy::Rank];
/// The policies of queues whose packets have costs.
const PACED: &[QueuePolicy] = &[QueuePolicy::Rate, QueuePolicy::RatePerFlow];

impl<'a> Body<'_, 'a> {
    /// `pkt_gen(net, bp, rule(x)…, queue q, rank r, cost c)`
    pub(crate) fn pkt_gen(&mut self, args: &'a [CallArg], at: Span) -> Option<Instr> {
        let [net, bp, rest @ ..] = args else {
            self.argument_count(
                at,
                "pkt_gen",
                "`pkt_gen(net, bp, rule(x)…, queue q, rank r, cost c)`",
                args.len(),
            );
            return None;
        };
        let net_place = self.aggregate(&net.value, &Ty::Struct(NET));
        let (blueprint, bp) = self.blueprint_argument(&bp.value)?;
        // A queue's policy never allows both a rank and a cost.
        let (mut rules, mut queue, mut weights) = (Vec::new(), QueueId(0), Vec::new());
        for arg in rest {
            match arg.label.as_ref().map(|l| l.name.as_str()) {
                Some("queue") => queue = self.queue(&arg.value)?,
                Some("rank") => weights.push((self.word(&arg.value), arg.value.span, "ranks", RANKED)),
                Some("cost") => weights.push((self.word(&arg.value), arg.value.span, "costs", PACED)),
                Some(_) | None => rules.push(self.rule_argument(&arg.value, blueprint)?),
            }
        }
        for (_, span, what, policies) in &weights {
            self.require_policy(queue, *span, what, policies);
        }
        self.rule_limits(&rules, at);
        let net = self.kept_place(net_place?);
        let bp = self.kept_place(bp);
        Some(Instr::PktGen {
            net,
            blueprint,
            bp,
            rules,
            queue,
            rank: weights.pop().map(|(weight, ..)| weight),
        })
    }

    fn blueprint_argument(&mut self, e: &'a Expr) -> Option<(ir::BlueprintId, Place)> {
        let value = self.value(e, None);
        if let Value::Place(place) = &value {
            let record = match place.ty {
                Ty::Struct(id) => self.ck.record_of(id),
                _ => None,
            };
            if let Some(record) = record.filter(|r| self.ck.records[*r].kind == RecordKind::Blueprint) {
                let blueprint = self.ck.blueprint_of(record)?;
                return Some((blueprint, place.clone()));
            }
        }
        if !matches!(value, Value::Error) {
            let found = self.describe(&value);
            self.error_hint(
                codes::PACKET,
                e.span,
                format!("{found} is not a blueprint"),
                "expected a variable of a `pkt_bp`",
                "`pkt_gen(net, bp, …)`: the network header comes first",
            );
        }
        None
    }

    fn rule_argument(&mut self, e: &'a Expr, blueprint: ir::BlueprintId) -> Option<(RuleId, Vec<ir::Expr>)> {
        let (name, args): (&Ident, &'a [CallArg]) = match &e.kind {
            ExprKind::Call { callee, args, .. } => match &callee.kind {
                ExprKind::Name(name) => (name, args),
                _ => return self.no_rule(e),
            },
            ExprKind::Name(name) => (name, &[]),
            ExprKind::Error => return None,
            _ => return self.no_rule(e),
        };
        let Some(Def::Rule(index)) = self.ck.lookup(name) else {
            return self.no_rule(e);
        };
        let args = self.unlabelled(args);
        let params = self.ck.rule_decls[index].params.len();
        let (rule_blueprint, ty) = self.ck.rule_decls[index].target.clone()?;
        if rule_blueprint != blueprint {
            let owner = self.ck.module.blueprints[rule_blueprint.0 as usize].name.clone();
            self.error(
                codes::RULE,
                e.span,
                format!("the rule `{}` is of another blueprint", name.name),
                format!("it sets a field of `{owner}`"),
            );
            return None;
        }
        if args.len() != params {
            self.argument_count(e.span, &name.name, &format!("{params} values"), args.len());
            return None;
        }
        let mut values = Vec::new();
        for arg in args {
            let value = self.value(arg, Some(&ty));
            let value = self.convert(value, &ty, How::Assign, arg.span);
            values.push(self.kept(value));
        }
        Some((RuleId(index as u32), values))
    }

    fn no_rule<T>(&mut self, e: &Expr) -> Option<T> {
        self.error_hint(
            codes::RULE,
            e.span,
            "this is not a segmentation rule",
            "expected `rule(x)`, `queue q`, `rank r` or `cost c`",
            "declare it: `seg_rule rule(x) [BP::field, x, prev.field + prev.data.len];`",
        );
        None
    }

    fn rule_limits(&mut self, rules: &[(RuleId, Vec<ir::Expr>)], at: Span) {
        let args: usize = rules.iter().map(|(_, args)| args.len()).sum();
        if rules.len() > abi::MAX_RULES || args > abi::MAX_RULE_ARGS {
            self.error(
                codes::RULE,
                at,
                format!("this instruction has {} rules with {args} arguments", rules.len()),
                format!(
                    "expected at most {} rules with {} arguments",
                    abi::MAX_RULES,
                    abi::MAX_RULE_ARGS
                ),
            );
        }
        for (i, (rule, _)) in rules.iter().enumerate() {
            let field = |id: &RuleId| self.ck.rule_decls[id.0 as usize].field.name.clone();
            if rules[..i].iter().any(|(other, _)| field(other) == field(rule)) {
                let name = field(rule);
                self.error(
                    codes::RULE,
                    at,
                    format!("two rules set `{name}`"),
                    "expected one rule for each field",
                );
            }
        }
    }
}
