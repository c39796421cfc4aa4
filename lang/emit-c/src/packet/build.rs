//! `wire_build_X`: builds the header of one packet of a `pkt_gen`, after the segmentation rules.

use hawser_ir::visit::{self, PlaceAccess, Visitor};
use hawser_ir::{Arg, Base, BlueprintId, FuncId, Instr, Place, RuleId, Stmt, StmtKind, Ty, WireField};

use super::Image;
use super::format::{checksums, protocol};
use crate::emitter::Emitter;
use crate::number::wrap;
use crate::scope::{ObjectExpr, Scope};

impl Emitter<'_> {
    /// Prints `wire_build_X`: applies the rules to the image, then writes its header and, behind it, its trailer.
    pub(super) fn build_function(&mut self, id: BlueprintId) {
        let module = self.module;
        let blueprint = &module.blueprints[id.0 as usize];
        let rules = self.rules_of(id);
        rules.iter().for_each(|rule| self.rule_function(*rule));

        let mut s = self.wire_scope(id, Image::There);
        let name = self.wire_name(id);
        let head = format!(
            "HW_FLAT HW_PART hw_built wire_build_{name}(hw_run *run, const hw_packet_rec *packet{}, hw_segment segment, \
             uint8_t *header, uint64_t room)",
            self.image_param(id, Image::There, false)
        );
        s.out.open(&head);
        self.apply_rules(&mut s, id, &rules);
        if let Some(at) = blueprint.data_at {
            let place = hawser_ir::Place { ty: Ty::Data, ..self.wire_place(id, at) };
            let data = self.target(&mut s, &place).at.member("len").lvalue();
            s.out.line(&format!("{data} = segment.len;"));
        }
        let trailer = self.trailer_len(&mut s, id);
        let facts = format!("const hw_facts facts = {{n + segment.len + {trailer}, n, segment.len}};");
        match self.options_write(&mut s, id) {
            Some((fixed, options)) => {
                s.out
                    .line("/* The options first: with them written, the header's length is known. */");
                s.out.line(&format!(
                    "hw_writer *out = &(hw_writer){{header, room, {fixed} + HW_ZERO}};"
                ));
                options.iter().for_each(|line| s.out.line(line));
                s.out.line("const uint64_t n = out->at;");
                s.out.line(&facts);
                s.out.line("hw_writer *first = &(hw_writer){header, room, 0};");
                s.out.line(&format!(
                    "uint64_t sum HW_UNUSED = wire_fields_{name}(run, h, facts, first);"
                ));
            }
            None => {
                s.out
                    .line(&format!("const uint64_t n = wire_measure_{name}(run, h);"));
                s.out.line(&facts);
                s.out
                    .line("hw_writer *out = &(hw_writer){header, room, HW_ZERO};");
                s.out.line(&format!(
                    "uint64_t sum HW_UNUSED = wire_write_{name}(run, h, facts, out);"
                ));
            }
        }
        s.out.line("hw_built built = {0, 0, 0, 0};");
        if let Some(pseudo) = checksums(blueprint).last() {
            let protocol = protocol(self.module);
            s.out.line(&format!(
                "built = hw_partial_sum(out, &packet->net, {protocol}, facts.total, sum, {pseudo});"
            ));
        }
        if !blueprint.trailer.is_empty() {
            s.out.line("const uint64_t behind = out->at;");
            self.write_groups(&mut s, id, &blueprint.trailer);
            s.out.line("built.trailer = (uint32_t)(out->at - behind);");
        }
        s.out.line("built.len = (uint32_t)hw_min(out->at, room);");
        s.out.line("return built;");
        s.out.close("");
        self.wire_function(&head, s);
    }

    /// Returns the length of the trailer in bytes, as an expression over the image.
    pub(super) fn trailer_len(&mut self, s: &mut Scope, id: BlueprintId) -> String {
        let module = self.module;
        let blueprint = &module.blueprints[id.0 as usize];
        let mut len = blueprint.trailer_len().to_string();
        for field in &blueprint.trailer {
            if let WireField::Opaque { cap, count_at, count_ty, .. } = field {
                len += &format!(" + {}", self.repeated(s, id, *count_at, count_ty, *cap));
            }
        }
        len
    }

    /// Returns the rules of a blueprint.
    fn rules_of(&self, id: BlueprintId) -> Vec<RuleId> {
        let rules = self.module.seg_rules.iter().enumerate();
        rules
            .filter(|(_, rule)| rule.blueprint == id)
            .map(|(i, _)| RuleId(i as u32))
            .collect()
    }

    /// Applies the rules in order. All rules see the image of the previous packet.
    fn apply_rules(&mut self, s: &mut Scope, id: BlueprintId, rules: &[RuleId]) {
        if rules.is_empty() {
            return;
        }
        s.out.open("if (packet->rules > 0)");
        self.keep_previous(s, id, rules);
        let usual = self.usual_rules(id);
        if let Some(usual) = &usual {
            let same: Vec<String> = usual
                .iter()
                .enumerate()
                .map(|(i, rule)| format!("packet->rule[{i}] == {}", rule.0))
                .collect();
            let count = format!("packet->rules == {} && ", usual.len());
            s.out.open(&format!("if ({count}{})", same.join(" && ")));
            let mut taken = 0;
            for rule in usual {
                let call = self.rule_name(*rule);
                s.out.line(&format!(
                    "{call}(run, h, &previous, packet->args + {taken}, segment);"
                ));
                taken += self.module.seg_rules[rule.0 as usize].args;
            }
            s.out.otherwise();
        }
        s.out.line("hw_rule_args args = {{0}, 0};");
        s.out
            .open("for (unsigned i = HW_ZERO; HW_MORE(i < packet->rules && i < HW_MAX_RULES); HW_NEXT(i))");
        s.out.open("switch (packet->rule[i])");
        for rule in rules {
            let args = self.module.seg_rules[rule.0 as usize].args;
            s.out.line(&format!("case {}:", rule.0));
            s.out.line(&format!("    hw_take_args(&args, packet, {args});"));
            s.out.line(&format!(
                "    {}(run, h, &previous, args.value, segment);",
                self.rule_name(*rule)
            ));
            s.out.line("    break;");
        }
        s.out.line("default:");
        s.out.line("    break;");
        s.out.close("");
        s.out.close("");
        if usual.is_some() {
            s.out.close("");
        }
        s.out.close("");
    }

    /// Returns the rules that the program uses with a blueprint, if they are always the same.
    fn usual_rules(&self, id: BlueprintId) -> Option<Vec<RuleId>> {
        let mut lists = Vec::new();
        self.module
            .funcs
            .iter()
            .for_each(|func| rule_lists(&func.body, id, &mut lists));
        let given: Vec<&Vec<RuleId>> = lists.iter().filter(|list| !list.is_empty()).collect();
        let usual = given
            .first()
            .filter(|usual| given.iter().all(|list| list == *usual))?;
        let args: u32 = usual
            .iter()
            .map(|rule| u32::from(self.module.seg_rules[rule.0 as usize].args))
            .sum();
        (usual.len() <= 4 && args <= 4).then(|| usual.to_vec())
    }

    /// Declares `previous`: the parts of the previous packet's image that a rule reads.
    fn keep_previous(&mut self, s: &mut Scope, id: BlueprintId, rules: &[RuleId]) {
        let module = self.module;
        let image = self.image_type(id);
        let mut read = Read::default();
        for rule in rules.iter().map(|rule| &module.seg_rules[rule.0 as usize]) {
            for value in [&rule.only, &rule.first, &rule.mid, &rule.last] {
                visit::visit_expr(&mut read, value);
            }
        }
        if read.more {
            s.out.line(&format!("const {image} previous = *h;"));
            return;
        }
        s.out.line(&format!(
            "{image} previous HW_UNUSED; /* what rules read of it */"
        ));
        let body = Ty::Struct(module.blueprints[id.0 as usize].body);
        for place in read.fields {
            let from = self.seen(s, &place).lvalue();
            let image = s
                .blueprint
                .replace((ObjectExpr::Object("previous".to_owned()), body.clone()));
            let to = self.target(s, &place).at.lvalue();
            s.blueprint = image;
            s.out.line(&format!("{to} = {from};"));
        }
    }

    /// Prints `wire_rule_R`: sets the rule's field for one packet.
    fn rule_function(&mut self, id: RuleId) {
        let rule = &self.module.seg_rules[id.0 as usize];
        let image = self.image_type(rule.blueprint);
        let mut s = self.wire_scope(rule.blueprint, Image::There);
        s.rule_args = Some("args".to_owned());
        for name in ["previous", "args", "segment"] {
            s.names.take(name);
        }
        let head = format!(
            "HW_PART void {}(hw_run *run, {image} *h, const {image} *previous, const uint64_t *args, \
             hw_segment segment)",
            self.rule_name(id)
        );
        s.out.open(&head);
        s.out.line("const hw_facts facts HW_UNUSED = {0, 0, 0};");
        s.out.open("if (segment.count <= 1)");
        self.set_by_rule(&mut s, id, &rule.only);
        for (condition, value) in [
            ("segment.index == 0", &rule.first),
            ("segment.index + 1 == segment.count", &rule.last),
        ] {
            s.out.otherwise_if(condition);
            self.set_by_rule(&mut s, id, value);
        }
        s.out.otherwise();
        self.set_by_rule(&mut s, id, &rule.mid);
        s.out.close("");
        s.out.close("");
        self.wire_function(&head, s);
    }

    /// Sets a rule's field to a value over the previous packet's image.
    fn set_by_rule(&mut self, s: &mut Scope, id: RuleId, value: &hawser_ir::Expr) {
        let rule = &self.module.seg_rules[id.0 as usize];
        let body = self.module.blueprints[rule.blueprint.0 as usize].body;
        s.blueprint = Some((ObjectExpr::Pointer("previous".to_owned()), Ty::Struct(body)));
        let value = self.expr(s, value);
        s.blueprint = Some((ObjectExpr::Pointer("h".to_owned()), Ty::Struct(body)));
        let field = hawser_ir::Place { base: hawser_ir::Base::Blueprint, ..rule.field.clone() };
        self.store(s, &field, &wrap(&value, &rule.field.ty));
    }
}

/// Collects the rules of each instruction that sends a blueprint.
fn rule_lists(body: &[Stmt], id: BlueprintId, found: &mut Vec<Vec<RuleId>>) {
    hawser_ir::statements(body, &mut |stmt| {
        if let StmtKind::Emit(Instr::PktGen { blueprint, rules, .. }) = &stmt.kind
            && *blueprint == id
        {
            found.push(rules.iter().map(|(rule, _)| *rule).collect());
        }
    });
}

/// The reads of rules from the previous packet's image.
#[derive(Default)]
struct Read {
    fields: Vec<Place>,
    /// True if a rule reads something that is not a number.
    more: bool,
}

impl Visitor<'_> for Read {
    fn place(&mut self, place: &Place, _: PlaceAccess) {
        if place.base != Base::Blueprint {
            return;
        }
        self.more |= !place.steps.is_empty() || !place.ty.is_scalar();
        if !self.fields.contains(place) {
            self.fields.push(place.clone());
        }
    }

    fn call(&mut self, _: FuncId, _: &[Arg]) {
        self.more = true;
    }
}
