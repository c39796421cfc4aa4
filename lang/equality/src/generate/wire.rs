//! Declarations of wire formats: headers, options, rules, queues.

use super::body::{Body, Rules};
use super::plan::{Blueprint, Options, ProgramPlan, Rule};
use super::scope::Var;
use super::types::{Field, StructureDecl, StructureKind, Type};
use crate::rng::Rng;

/// A header while it is generated: its text, and the current bit position in a byte.
struct Header {
    name: String,
    text: String,
    fields: Vec<Field>,
    bits: u32,
    /// The number of whole bytes of fixed length so far.
    bytes: u32,
    pads: u32,
    /// True for a structure, whose initial values are constants.
    is_struct: bool,
}

impl Header {
    fn new(word: &str, name: &str) -> Header {
        Header {
            name: name.to_owned(),
            text: format!("{word} {name} {{\n"),
            fields: Vec::new(),
            bits: 0,
            bytes: 0,
            pads: 0,
            is_struct: word == "struct",
        }
    }

    /// Adds a field of `bits` bits, declared by `line`.
    fn add(&mut self, name: &str, ty: Type, bits: u32, line: &str) {
        self.text += &format!("    {line};\n");
        self.fields.push(Field::new(name, ty));
        self.bytes += (self.bits + bits) / 8;
        self.bits = (self.bits + bits) % 8;
    }

    /// Adds a number of any width.
    fn number(&mut self, plan: &ProgramPlan, rng: &mut Rng, name: &str) {
        let ty = match rng.below(5) {
            0 => Type::Bool,
            1 => Type::circular(rng),
            _ => Type::integer(rng),
        };
        let bits = match ty {
            Type::Uint(bits) | Type::Int(bits) | Type::Seq(bits) => u32::from(bits),
            _ => 1,
        };
        let line = format!("{} {name}", plan.written(&ty));
        self.add(name, ty, bits, &line);
    }

    /// Pads to the next whole byte.
    fn align(&mut self) {
        if self.bits > 0 {
            let (bits, name) = (8 - self.bits, format!("z{}", self.pads));
            self.pads += 1;
            self.add(&name, Type::Uint(bits as u8), bits, &format!("uint{bits} {name}"));
        }
    }

    /// Adds fields of all kinds, up to a whole byte.
    fn body(&mut self, plan: &ProgramPlan, rng: &mut Rng, count: usize, plain: bool) {
        for i in 0..count {
            let name = format!("h{}", self.fields.len());
            match rng.below(11) {
                10 => {
                    self.align();
                    let bits = *rng.pick(&[16u8, 32, 64]);
                    let line = format!("le_uint{bits} {name}");
                    self.add(&name, Type::Uint(bits), u32::from(bits), &line);
                }
                0 if !plain => {
                    self.align();
                    self.add(&name, Type::Varint, 8, &format!("varint_t {name}"));
                }
                1 => {
                    self.align();
                    self.add(&name, Type::Ip, 128, &format!("ip_addr_t {name}"));
                }
                2 if !plain && rng.one_in(2) => {
                    self.align();
                    let (count, cap) = (format!("n{}", self.fields.len()), 1 + rng.below(20) as u32);
                    if rng.one_in(2) {
                        self.add(&count, Type::Uint(8), 8, &format!("uint8 {count}"));
                    } else {
                        self.add(&count, Type::Varint, 8, &format!("varint_t {count}"));
                    }
                    let line = format!("bytes<{cap}> {name} count({count})");
                    self.add(&name, Type::Bytes(cap), 0, &line);
                }
                2 => {
                    self.align();
                    let len = 1 + rng.below(7) as u32;
                    self.add(&name, Type::Bytes(len), len * 8, &format!("bytes<{len}> {name}"));
                }
                3 => {
                    let bits = plan.enum_bits;
                    self.add(&name, Type::Enum, bits.into(), &format!("kinds {name}"));
                }
                4 if i > 0 => self.filled(plan, rng, &name),
                _ => self.number(plan, rng, &name),
            }
        }
        self.align();
    }

    /// Adds a number that is computed from earlier ones.
    fn filled(&mut self, plan: &ProgramPlan, rng: &mut Rng, name: &str) {
        let bits = *rng.pick(&[4u8, 8, 13, 16, 32]);
        let value = match rng.below(3) {
            _ if self.is_struct => format!("{}", rng.below(16)),
            0 => format!("{}", rng.below(16)),
            1 if bits >= 16 => "len(this)".to_owned(),
            _ => self.expression(plan, rng, &Type::Uint(bits)),
        };
        let line = format!("uint{bits} {name} = {value}");
        self.add(name, Type::Uint(bits), u32::from(bits), &line);
    }

    /// Generates an expression over the fields so far.
    fn expression(&self, plan: &ProgramPlan, rng: &mut Rng, ty: &Type) -> String {
        let mut body = Body::new(plan, rng, Rules::default());
        for field in self.fields.iter().filter(|f| f.ty.is_scalar()) {
            body.know(Var::new(field.name.clone(), field.ty.clone(), false));
        }
        let value = body.expr(ty, 2);
        // An expression that names no field is a constant, and constants are literals here.
        let computed = body.vars.iter().any(|var| value.contains(&var.path));
        if computed {
            value
        } else {
            super::literal::literal(rng, ty)
        }
    }

    fn finish(self, plan: &mut ProgramPlan, kind: StructureKind) -> usize {
        plan.line(format!("{}}}", self.text));
        plan.add(StructureDecl { name: self.name, kind, fields: self.fields, timers: Vec::new() })
    }
}

/// Generates all headers of a program.
pub(super) fn headers(plan: &mut ProgramPlan, rng: &mut Rng) {
    queues(plan, rng);
    let mut nested = Header::new("struct", "inner");
    nested.body(plan, rng, 2, false);
    let nested = nested.finish(plan, StructureKind::Struct);
    words(plan, rng, 0);
    frames(plan, rng, 1, nested);
    datagram(plan, rng, nested);
    trailed(plan, rng);
    for blueprint in 0..plan.blueprints.len() {
        rules(plan, rng, blueprint);
    }
    for blueprint in plan.blueprints.clone() {
        if rng.one_in(2) {
            coalesce(plan, rng, &blueprint);
        }
    }
}

fn queues(plan: &mut ProgramPlan, rng: &mut Rng) {
    let policies = ["FIFO", "RANK", "RATE", "RATE(PER_FLOW)"];
    let count = 1 + rng.below(4);
    plan.queues = (0..count).map(|_| *rng.pick(&policies)).collect();
    let declared = plan
        .queues
        .iter()
        .enumerate()
        .map(|(i, policy)| format!("q{i}: {policy}"));
    let declared: Vec<String> = declared.collect();
    plan.line(format!("sched nic = PRIO(8) {{ {} }};", declared.join(", ")));
}

/// Generates a header like TCP's: a length in words, a checksum, payload, and options with lengths.
fn words(plan: &mut ProgramPlan, rng: &mut Rng, list: usize) {
    plan.line("opt_t end_of { uint8 kind = 0; }\nopt_t nothing { uint8 kind = 1; }");
    let mut members = Vec::new();
    for name in ["end_of", "nothing"] {
        members.push(option(plan, name, vec![Field::new("kind", Type::Uint(8))]));
    }
    for i in 0..2 {
        let mut header = Header::new("opt_t", &format!("opt{i}"));
        header.add("kind", Type::Uint(8), 8, &format!("uint8 kind = {}", 2 + i));
        header.add("len", Type::Uint(8), 8, "uint8 len = LEN");
        let count = 1 + rng.below(2);
        header.body(plan, rng, count, true);
        header.text = header.text.replace("LEN", &header.bytes.to_string());
        members.push(header.finish(plan, StructureKind::Opt));
    }
    let mut header = Header::new("pkt_bp", "seg");
    header.add("off", Type::Uint(32), 4, "hdrlen4_t off");
    header.number(plan, rng, "h1");
    header.align();
    let pseudo = *rng.pick(&["", " over (pseudo, this)", " over (this)"]);
    header.add("sum", Type::Uint(16), 16, &format!("checksum16_t sum{pseudo}"));
    header.body(plan, rng, 2, true);
    while !header.bytes.is_multiple_of(4) {
        let name = format!("y{}", header.pads);
        header.pads += 1;
        header.add(&name, Type::Uint(8), 8, &format!("uint8 {name}"));
    }
    header.add("data", Type::Data, 0, "data_t data");
    let cap = 2 + rng.below(3) as u32;
    let names: Vec<String> = members.iter().map(|m| plan.records[*m].name.clone()).collect();
    plan.line(format!("opt_union union{list} {{ {} }}", names.join(", ")));
    plan.line(format!(
        "opt_list opts{list} {{ uint32 len = off * 4 - {}; uint32 type_select = 8; pad 4; list<union{list}, {cap}> all; }}",
        header.bytes
    ));
    plan.options.push(Options { members });
    header.add("opts", Type::Options(list, cap), 0, &format!("opts{list} opts"));
    let fits = header.bytes <= 60;
    if fits {
        let record = header.finish(plan, StructureKind::Blueprint);
        plan.blueprints.push(Blueprint { record, rules: Vec::new() });
    } else {
        // It would be too long for its length field, so a shorter one is generated.
        let mut short = Header::new("pkt_bp", "seg");
        short.add("off", Type::Uint(32), 4, "hdrlen4_t off");
        short.add("h1", Type::Uint(12), 12, "uint12 h1");
        short.add("sum", Type::Uint(16), 16, &format!("checksum16_t sum{pseudo}"));
        short.add("data", Type::Data, 0, "data_t data");
        short.add("opts", Type::Options(list, cap), 0, &format!("opts{list} opts"));
        plan.text = plan
            .text
            .replace(&format!("off * 4 - {}", header.bytes), "off * 4 - 4");
        let record = short.finish(plan, StructureKind::Blueprint);
        plan.blueprints.push(Blueprint { record, rules: Vec::new() });
    }
}

fn option(plan: &mut ProgramPlan, name: &str, fields: Vec<Field>) -> usize {
    plan.add(StructureDecl {
        name: name.to_owned(),
        kind: StructureKind::Opt,
        fields,
        timers: Vec::new(),
    })
}

/// Generates a header that consists of frames: selected by their type, of any length, with repetition.
fn frames(plan: &mut ProgramPlan, rng: &mut Rng, list: usize, nested: usize) {
    let mut members = Vec::new();
    let select = *rng.pick(&[8u8, 16]);
    for i in 0..3 {
        let mut header = Header::new("opt_t", &format!("frame{i}"));
        header.add(
            "kind",
            Type::Uint(select),
            u32::from(select),
            &format!("uint{select} kind = {}", i + 1),
        );
        let count = rng.below(3);
        header.body(plan, rng, count, false);
        if i == 2 {
            header.add("n", Type::Uint(8), 8, "uint8 n");
            let inner = plan.records[nested].name.clone();
            let cap = 1 + rng.below(3) as u32;
            let ty = Type::List(Box::new(Type::Record(nested)), cap);
            header.add("many", ty, 0, &format!("list<{inner}, {cap}> many count(n)"));
        }
        members.push(header.finish(plan, StructureKind::Opt));
    }
    let cap = 1 + rng.below(4) as u32;
    plan.line(format!("opt_union union{list} {{ frame2, frame0, frame1 }}"));
    plan.line(format!(
        "opt_list opts{list} {{ uint32 type_select = {select}; list<union{list}, {cap}> all; }}"
    ));
    plan.options
        .push(Options { members: vec![members[2], members[0], members[1]] });
    let mut header = Header::new("pkt_bp", "quick");
    header.body(plan, rng, 2, false);
    header.add("opts", Type::Options(list, cap), 0, &format!("opts{list} opts"));
    let record = header.finish(plan, StructureKind::Blueprint);
    plan.blueprints.push(Blueprint { record, rules: Vec::new() });
}

/// Generates a header with conditional parts, repetition, lengths, and payload.
fn datagram(plan: &mut ProgramPlan, rng: &mut Rng, nested: usize) {
    let inner = plan.records[nested].name.clone();
    let mut header = Header::new("pkt_bp", "gram");
    header.body(plan, rng, 3, false);
    header.add("n", Type::Uint(8), 8, "uint8 n");
    header.add("all", Type::Uint(16), 16, "uint16 all = len(this)");
    header.add("load", Type::Uint(16), 16, "uint16 load = len(data)");
    if rng.one_in(2) {
        let pseudo = *rng.pick(&[" over (pseudo, this)", " over (this)"]);
        header.add("sum", Type::Uint(16), 16, &format!("checksum16_t sum{pseudo}"));
    }
    let when = if rng.one_in(2) {
        "n == 1".to_owned()
    } else {
        header.expression(plan, rng, &Type::Bool)
    };
    header.add(
        "maybe",
        Type::Record(nested),
        0,
        &format!("{inner} maybe when ({when})"),
    );
    header.add("always", Type::Record(nested), 0, &format!("{inner} always"));
    let cap = 1 + rng.below(3) as u32;
    let ty = Type::List(Box::new(Type::Record(nested)), cap);
    header.add("many", ty, 0, &format!("list<{inner}, {cap}> many count(n)"));
    header.add("data", Type::Data, 0, "data_t data");
    let record = header.finish(plan, StructureKind::Blueprint);
    plan.blueprints.push(Blueprint { record, rules: Vec::new() });
}

/// Generates a header with a CRC and a trailer, with or without payload.
fn trailed(plan: &mut ProgramPlan, rng: &mut Rng) {
    let mut header = Header::new("pkt_bp", "ended");
    let in_header = rng.one_in(2);
    header.number(plan, rng, "h0");
    header.align();
    header.add("ttl", Type::Uint(8), 8, "uint8 ttl");
    let mask = *rng.pick(&["this", "this mask{ttl}", "this mask{ttl, h0}"]);
    if in_header {
        header.add("crc", Type::Uint(32), 32, &format!("crc32_t crc over ({mask})"));
        header.body(plan, rng, 1, true);
    }
    let payload = rng.one_in(2);
    if payload {
        header.add("data", Type::Data, 0, "data_t data");
        header.add("last", Type::Uint(16), 16, "uint16 last");
    }
    if !in_header {
        header.add("crc", Type::Uint(32), 32, &format!("crc32_t crc over ({mask})"));
    }
    let record = header.finish(plan, StructureKind::Blueprint);
    plan.blueprints.push(Blueprint { record, rules: Vec::new() });
}

/// Generates segmentation rules of a blueprint, for different fields.
fn rules(plan: &mut ProgramPlan, rng: &mut Rng, blueprint: usize) {
    let record = plan.blueprints[blueprint].record;
    let StructureDecl { name, fields, .. } = plan.records[record].clone();
    let numbers: Vec<&Field> = fields
        .iter()
        .filter(|f| f.ty.is_scalar() && f.ty != Type::Varint)
        .collect();
    for (i, field) in numbers.iter().enumerate().take(4) {
        if !rng.one_in(2) {
            continue;
        }
        let args = rng.below(3);
        let mut body = Body::new(plan, rng, Rules::default());
        for arg in 0..args {
            body.know(Var::new(format!("a{arg}"), field.ty.clone(), false));
        }
        for known in fields.iter().filter(|f| f.ty.is_scalar()) {
            body.know(Var::new(format!("prev.{}", known.name), known.ty.clone(), false));
        }
        if fields.iter().any(|f| f.ty == Type::Data) {
            body.know(Var::new("prev.data.len", Type::Uint(32), false));
        }
        let values = 1 + body.rng.below(4);
        let values: Vec<String> = (0..values).map(|_| body.expr(&field.ty, 2)).collect();
        let rule = format!("{name}_rule{i}");
        let params: Vec<String> = (0..args).map(|arg| format!("a{arg}")).collect();
        plan.line(format!(
            "seg_rule {rule}({}) [{name}::{}, {}];",
            params.join(", "),
            field.name,
            values.join(", ")
        ));
        plan.blueprints[blueprint]
            .rules
            .push(Rule { name: rule, args, ty: field.ty.clone() });
    }
}

/// Generates a rule that decides whether a later header replaces an earlier one.
fn coalesce(plan: &mut ProgramPlan, rng: &mut Rng, blueprint: &Blueprint) {
    let rules = Rules { function: true, no_effects: true, ..Rules::default() };
    let mut body = Body::new(plan, rng, rules);
    for name in ["a", "b"] {
        body.know(Var::new(name, Type::Record(blueprint.record), false));
    }
    body.statements(2, 1);
    let answer = body.expr(&Type::Bool, 3);
    body.line(format!("return {answer};"));
    let lines = body.lines.join("\n");
    plan.line(format!(
        "coalesce {} (a, b) {{\n{lines}\n}}",
        plan.records[blueprint.record].name
    ));
}
