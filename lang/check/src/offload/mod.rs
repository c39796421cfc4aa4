//! Super-segments: the packet instructions that a segmenting device may cut ([`hawser_ir::Offload`]).
//!
//! For each blueprint with the rules that a `pkt_gen` uses, three things are shown:
//!
//! 1. `shape`: the effect of each rule on its field over the packets of an instruction;
//! 2. `header`: the place of each field in the header, and the parts that depend on the payload's length;
//! 3. `device`: that a device has exactly this effect on these places, and leaves all others alone.
//!
//! Every obstacle is kept with its place, so that a designer can see the necessary change.

mod device;
mod header;
mod reads;
mod shape;

use std::collections::BTreeMap;

use hawser_ir as ir;
use hawser_ir::{BlueprintId, Cut, Hindrance, Instr, Offload, RuleId, SegRule, StmtKind};

use hawser_syntax::Severity;

use crate::state::{Checker, span};

use header::Fields;
use shape::RuleShape;

impl Checker<'_> {
    /// Proves, for every packet instruction of the program, that a device may cut it, or collects the
    /// obstacles.
    pub(crate) fn prove_offloads(&mut self) {
        if self
            .diagnostics
            .iter()
            .any(|diagnostic| diagnostic.severity == Severity::Error)
        {
            return;
        }
        let mut sites: BTreeMap<(BlueprintId, Vec<RuleId>), Vec<ir::Span>> = BTreeMap::new();
        for func in &self.module.funcs {
            hawser_ir::statements(&func.body, &mut |stmt| {
                if let StmtKind::Emit(Instr::PktGen { blueprint, rules, .. }) = &stmt.kind {
                    let rules = rules.iter().map(|(rule, _)| *rule).collect();
                    sites.entry((*blueprint, rules)).or_default().push(stmt.span);
                }
            });
        }
        let proved = sites.into_iter().map(|((blueprint, rules), sites)| {
            let proof = self.prove(blueprint, &rules, sites[0]);
            Offload { blueprint, rules, sites, proof }
        });
        self.module.offloads = proved.collect();
    }

    fn prove(&self, id: BlueprintId, rules: &[RuleId], site: ir::Span) -> Result<Cut, Vec<Hindrance>> {
        let blueprint = &self.module.blueprints[id.0 as usize];
        let Some(data_at) = blueprint.data_at else {
            return Err(vec![hindrance(
                site,
                format!("`{}` carries no data", blueprint.name),
            )]);
        };
        if rules.is_empty() {
            return Err(vec![hindrance(
                site,
                "there are no rules: it is meant to make one packet".to_owned(),
            )]);
        }
        let shaped: Vec<(&SegRule, RuleShape, ir::Span)> = rules
            .iter()
            .map(|rule| {
                let rule_index = rule.0 as usize;
                let rule = &self.module.seg_rules[rule_index];
                (
                    rule,
                    RuleShape::from_rule(rule, data_at),
                    span(self.rule_decls[rule_index].name.span),
                )
            })
            .collect();
        let mut found = Vec::new();
        for (rule, shape, at) in &shaped {
            if let RuleShape::Other(reason) = shape {
                found.push(hindrance(*at, format!("the rule `{}` {reason}", rule.name)));
            }
        }
        let varying: Vec<u32> = shaped
            .iter()
            .filter(|(_, shape, _)| *shape != RuleShape::Same)
            .map(|(rule, ..)| rule.field.offset)
            .collect();
        let record = self.records.iter().find(|record| record.blueprint == Some(id));
        let declared = record.map_or(site, |record| span(record.span));
        let place = |name: &str| self.field_span(id, name).unwrap_or(declared);
        let fields = Fields::from_blueprint(&self.module, blueprint, &varying, &place, &mut found);
        let cut = device::cut(blueprint, &fields, &shaped, &place, &mut found);
        match cut {
            Some(cut) if found.is_empty() => Ok(cut),
            _ => Err(found),
        }
    }

    /// Returns the place where a blueprint declares a field.
    fn field_span(&self, blueprint: BlueprintId, name: &str) -> Option<ir::Span> {
        let record = self
            .records
            .iter()
            .find(|record| record.blueprint == Some(blueprint))?;
        let member = record.members.iter().find(|member| member.name.name == name)?;
        Some(span(member.name.span))
    }
}

fn hindrance(span: ir::Span, reason: String) -> Hindrance {
    Hindrance { span, reason }
}
