//! Declarations of memory: constants, structures, events, contexts, the scratchpad.

use super::body::{Body, Rules};
use super::literal::literal;
use super::plan::{Extern, ProgramPlan};
use super::scope::Var;
use super::types::{Field, StructureDecl, StructureKind, Type};
use crate::rng::Rng;

/// Generates constants, params and an enum.
pub(super) fn constants(plan: &mut ProgramPlan, rng: &mut Rng) {
    for i in 0..rng.below(3) {
        let ty = Type::integer(rng);
        plan.line(format!(
            "const {} C{i} = {};",
            plan.written(&ty),
            literal(rng, &ty)
        ));
        plan.constants.push((format!("C{i}"), ty));
    }
    for i in 0..1 + rng.below(3) {
        let ty = match rng.below(5) {
            0 => Type::Duration,
            1 => Type::Bool,
            _ => Type::integer(rng),
        };
        plan.line(format!(
            "param {} P{i} = {};",
            plan.written(&ty),
            literal(rng, &ty)
        ));
        plan.constants.push((format!("P{i}"), ty));
    }
    for i in 0..1 + rng.below(3) {
        let (ty, len) = (Type::scalar(rng), 1 + rng.below(6));
        let ty = if matches!(ty, Type::Enum | Type::Varint) {
            Type::Bool
        } else {
            ty
        };
        let values: Vec<String> = (0..len).map(|_| literal(rng, &ty)).collect();
        let size = if rng.one_in(2) {
            len.to_string()
        } else {
            String::new()
        };
        plan.line(format!(
            "const {} TABLE{i}[{size}] = {{{}}};",
            plan.written(&ty),
            values.join(", ")
        ));
        plan.tables.push((format!("TABLE{i}"), ty, len));
    }
    let bits = *rng.pick(&[3u8, 8, 16, 32]);
    plan.enum_bits = bits;
    plan.line(format!(
        "enum kinds : uint{bits} {{ RED, GREEN = {}, BLUE }}",
        2 + rng.below(5)
    ));
    plan.line(format!("param kinds PK = {};", literal(rng, &Type::Enum)));
    for name in ["RED", "GREEN", "kinds::BLUE", "PK"] {
        plan.constants.push((name.to_owned(), Type::Enum));
    }
}

/// Generates structures: rows of numbers for lists, and structures with fields of every type.
pub(super) fn structures(plan: &mut ProgramPlan, rng: &mut Rng) {
    for i in 0..2 {
        let fields = (0..2 + rng.below(3)).map(|f| {
            let ty = if rng.one_in(3) {
                Type::circular(rng)
            } else {
                Type::integer(rng)
            };
            Field::new(format!("r{f}"), ty)
        });
        let fields = fields.collect();
        declare(
            plan,
            rng,
            &format!("row{i}"),
            StructureKind::Struct,
            fields,
            "struct",
            5,
        );
    }
    let rows: Vec<usize> = (plan.records.len() - 2..plan.records.len()).collect();
    for i in 0..1 + rng.below(3) {
        let count = 3 + rng.below(5);
        let fields = fields(plan, rng, "s", &rows, count, 2);
        declare(
            plan,
            rng,
            &format!("thing{i}"),
            StructureKind::Struct,
            fields,
            "struct",
            4,
        );
    }
    let structs: Vec<usize> = (rows[0]..plan.records.len()).collect();
    plan.parts = vec![*rng.pick(&structs)];
    for record in &structs {
        plan.locals.push(Type::Record(*record));
    }
    for _ in 0..3 {
        let ty = container(plan, rng, &rows);
        plan.locals.push(ty);
    }
    plan.locals.push(Type::Bytes(1 + rng.below(20) as u32));
    let notice = (0..1 + rng.below(4))
        .map(|f| Field::new(format!("w{f}"), Type::scalar(rng)))
        .collect();
    plan.notice = declare(plan, rng, "reported", StructureKind::Struct, notice, "struct", 6);
    for i in 0..1 + rng.below(2) {
        let fields = fields(plan, rng, "x", &rows, 2, 0);
        declare(
            plan,
            rng,
            &format!("signalled{i}"),
            StructureKind::Signal,
            fields,
            "signal",
            5,
        );
    }
}

/// Generates fields of all types that memory can have. At most `containers` of them are containers.
fn fields(
    plan: &ProgramPlan,
    rng: &mut Rng,
    prefix: &str,
    structs: &[usize],
    count: usize,
    containers: usize,
) -> Vec<Field> {
    let mut left = containers;
    let mut field = |f: usize| {
        let ty = match rng.below(12) {
            0 => Type::Ip,
            1 => Type::Id,
            2 => Type::Bytes(1 + rng.below(20) as u32),
            3 => Type::Record(*rng.pick(structs)),
            4..=6 if left > 0 => {
                left -= 1;
                container(plan, rng, structs)
            }
            _ => Type::scalar(rng),
        };
        Field::new(format!("{prefix}{f}"), ty)
    };
    (0..count).map(&mut field).collect()
}

/// Generates an array, a list, a sorted list or a window, small enough to be full often.
fn container(plan: &ProgramPlan, rng: &mut Rng, structs: &[usize]) -> Type {
    let cap = 1 + rng.below(4) as u32;
    match rng.below(5) {
        4 => {
            let elem = match rng.below(6) {
                0 => Type::Array(Box::new(Type::scalar(rng)), 1 + rng.below(3) as u32),
                1 => Type::List(Box::new(Type::scalar(rng)), 1 + rng.below(3) as u32),
                2 => Type::Ip,
                _ => Type::scalar(rng),
            };
            Type::Array(Box::new(elem), cap)
        }
        0 => Type::List(Box::new(Type::scalar(rng)), cap),
        1 => {
            let elem = match rng.below(4) {
                0 => Type::Ip,
                1 => Type::Id,
                _ => Type::Record(*rng.pick(structs)),
            };
            Type::List(Box::new(elem), cap)
        }
        2 => {
            let rows: Vec<usize> = structs
                .iter()
                .copied()
                .filter(|r| plan.records[*r].name.starts_with("row"))
                .collect();
            let row = *rng.pick(&rows);
            let count = plan.records[row].fields.len();
            let by = (0..count - 1).take(1 + rng.below(2)).collect();
            Type::Sorted(row, cap + 1, by, count - 1)
        }
        _ => Type::Window(cap, Box::new(Type::position(rng))),
    }
}

/// Writes a record. One scalar field in `initial` has an initial value.
fn declare(
    plan: &mut ProgramPlan,
    rng: &mut Rng,
    name: &str,
    kind: StructureKind,
    fields: Vec<Field>,
    word: &str,
    initial: usize,
) -> usize {
    let (head, may_grow) = match kind {
        StructureKind::Event(kind) => (format!("{word} {name} : {kind}"), true),
        kind => (format!("{word} {name}"), kind == StructureKind::Struct),
    };
    let own = if may_grow {
        plan.own_members(fields.len())
    } else {
        fields.len()
    };
    let mut text = format!("{head} {{\n");
    for (at, field) in fields.iter().enumerate() {
        if at == own {
            text += &format!("}}\nextend {word} {name} {{\n");
        }
        let value = if field.ty.is_scalar() && field.ty != Type::Addr && rng.one_in(initial) {
            format!(" = {}", literal(rng, &field.ty))
        } else {
            String::new()
        };
        text += &format!("    {} {}{value};\n", plan.written(&field.ty), field.name);
    }
    plan.line(format!("{text}}}"));
    plan.add(StructureDecl { name: name.to_owned(), kind, fields, timers: Vec::new() })
}

/// Returns all structures except that of notices.
fn small_structures(plan: &ProgramPlan) -> Vec<usize> {
    let all = plan.records.iter().enumerate();
    all.filter(|(i, r)| r.kind == StructureKind::Struct && *i != plan.notice)
        .map(|(i, _)| i)
        .collect()
}

/// Generates events of every kind, and the externs that some of them answer.
pub(super) fn events(plan: &mut ProgramPlan, rng: &mut Rng) {
    let structs = small_structures(plan);
    let kinds = ["APP_EVENT", "NET_EVENT", "SYS_EVENT", "EVENT"];
    for (i, kind) in kinds.into_iter().enumerate() {
        let count = 3 + rng.below(4);
        let mut fields = fields(plan, rng, "f", &structs, count, 1);
        if kind != "SYS_EVENT" {
            fields.push(Field::new("addr", Type::Addr));
        }
        declare(
            plan,
            rng,
            &format!("ev{i}"),
            StructureKind::Event(kind),
            fields,
            "event",
            usize::MAX,
        );
    }
    for i in 0..2 {
        plan.line(format!("event late{i} : TIMER_EVENT {{ }}"));
        plan.add(StructureDecl {
            name: format!("late{i}"),
            kind: StructureKind::Event("TIMER_EVENT"),
            fields: Vec::new(),
            timers: Vec::new(),
        });
    }
    let params: Vec<Type> = (0..1 + rng.below(3)).map(|_| Type::scalar(rng)).collect();
    let written: Vec<String> = params
        .iter()
        .enumerate()
        .map(|(i, ty)| format!("{} a{i}", plan.written(ty)))
        .collect();
    plan.line(format!("extern instr_t outside({}) -> ev3;", written.join(", ")));
    plan.externs
        .push(Extern { name: "outside".to_owned(), params, answer: "ev3".to_owned() });
}

/// Generates two keyed contexts, a global one, and the scratchpad.
pub(super) fn contexts(plan: &mut ProgramPlan, rng: &mut Rng) {
    let parts = plan.parts.clone();
    let rows = small_structures(plan);
    for i in 0..3 {
        let global = i == 2;
        let count = 5 + rng.below(5);
        let mut declared = fields(plan, rng, "c", &rows, count, 4);
        // A timer's event has a keyed context in some chain, because its processors refer to one.
        let timers = if global { rng.below(2) } else { 1 + rng.below(2) };
        let timers: Vec<String> = (0..timers).map(|t| format!("t{t}")).collect();
        let mut text = format!("context ctx{i} {{\n");
        let mut added = String::new();
        let own = plan.own_members(declared.len());
        for (at, field) in declared.iter().enumerate() {
            let initial = initial_value(plan, rng, &declared[..at], &field.ty, global);
            let access = match (&field.ty, rng.below(8)) {
                (Type::Uint(_), 0) => "modifiable(0, 1) ",
                (ty, 1) if ty.is_scalar() => "observable ",
                _ => "",
            };
            let member = format!(
                "    {access}{} {}{initial};\n",
                plan.written(&field.ty),
                field.name
            );
            let place = if at < own { &mut text } else { &mut added };
            place.push_str(&member);
        }
        // The first context has both of two parts; the second has them in some programs.
        let is_twin = i == 0 || plan.additions.one_in(2);
        let names = ["part0", "twin0"]
            .into_iter()
            .take(1 + usize::from(plan.twins && is_twin));
        for name in names.filter(|_| i < 2) {
            let member = format!("    part {} {name};\n", plan.records[parts[0]].name);
            let place = if plan.extends && name == "twin0" {
                &mut added
            } else {
                &mut text
            };
            place.push_str(&member);
            declared.push(Field::new(name, Type::Record(parts[0])));
        }
        for (t, timer) in timers.iter().enumerate() {
            text += &format!("    timer_t {timer} -> late{t};\n");
        }
        if rng.one_in(3) {
            text += &format!("    invariant {};\n", invariant(plan, rng, &declared));
        }
        plan.line(format!("{text}}}"));
        if !added.is_empty() {
            plan.line(format!("extend context ctx{i} {{\n{added}}}"));
        }
        let record = plan.add(StructureDecl {
            name: format!("ctx{i}"),
            kind: StructureKind::Context,
            fields: declared,
            timers,
        });
        if global {
            plan.globals.push(record)
        } else {
            plan.contexts.push(record)
        }
    }
    let mut declared = fields(plan, rng, "p", &rows, 3, 2);
    let lines: Vec<String> = declared
        .iter()
        .map(|f| format!("    {} {};\n", plan.written(&f.ty), f.name))
        .collect();
    let own = plan.own_members(lines.len());
    plan.line(format!(
        "scratchpad pad {{\n{}    addr_t kept;\n}}",
        lines[..own].concat()
    ));
    if own < lines.len() {
        plan.line(format!("extend scratchpad pad {{\n{}}}", lines[own..].concat()));
    }
    declared.push(Field::new("kept", Type::Addr));
    let record = StructureDecl {
        name: "pad".to_owned(),
        kind: StructureKind::Scratch,
        fields: declared,
        timers: Vec::new(),
    };
    plan.scratch = Some(plan.add(record));
}

/// Generates an initial value or an empty text. The value is a constant or, for keyed contexts, possibly an
/// expression over earlier fields and params.
fn initial_value(plan: &ProgramPlan, rng: &mut Rng, earlier: &[Field], ty: &Type, global: bool) -> String {
    if !ty.is_scalar() || !rng.one_in(3) {
        return String::new();
    }
    if global || rng.one_in(2) || *ty == Type::Varint {
        return format!(" = {}", literal(rng, ty));
    }
    let mut body = Body::new(plan, rng, Rules::default());
    for field in earlier.iter().filter(|f| f.ty.is_scalar()) {
        body.know(Var::new(field.name.clone(), field.ty.clone(), false));
    }
    for (name, ty) in &plan.constants {
        body.know(Var::new(name.clone(), ty.clone(), false));
    }
    let value = body.expr(ty, 2);
    // An expression that names neither a field nor a param is a constant, and constants consist of operators
    // alone.
    let computed = body
        .vars
        .iter()
        .any(|var| !var.path.starts_with('C') && value.contains(&var.path));
    let plain = !computed || value.contains("kinds") || value.contains("GREEN") || value.contains("RED");
    format!(" = {}", if plain { literal(rng, ty) } else { value })
}

/// Generates an invariant that often holds.
fn invariant(plan: &ProgramPlan, rng: &mut Rng, fields: &[Field]) -> String {
    let mut body = Body::new(plan, rng, Rules::default());
    for field in fields {
        body.know(Var::new(field.name.clone(), field.ty.clone(), false));
    }
    let often = body.expr(&Type::Uint(8), 2);
    format!("{} || {often} < 200", body.expr(&Type::Bool, 2))
}
