//! Helpers and processors, and the chains that consist of them.

use super::body::{Body, Rules};
use super::call::Helper;
use super::plan::ProgramPlan;
use super::scope::Var;
use super::types::Type;
use crate::rng::Rng;

/// Generates helpers of three levels. Helpers of the first level call no others.
pub(super) fn helpers(plan: &mut ProgramPlan, rng: &mut Rng) {
    for (number, level) in [0, 0, 1, 1, 2].into_iter().enumerate() {
        let pure_ = rng.one_in(2);
        helper(plan, rng, number, level, pure_);
    }
}

fn helper(plan: &mut ProgramPlan, rng: &mut Rng, number: usize, level: u32, pure_: bool) {
    let params: Vec<Type> = (0..1 + rng.below(3))
        .map(|_| match rng.below(5) {
            0 => Type::Ip,
            1 => Type::Id,
            2 | 3 if !plan.locals.is_empty() => rng.pick(&plan.locals).clone(),
            _ => Type::scalar(rng),
        })
        .map(|ty| if ty == Type::Varint { Type::Uint(64) } else { ty })
        .collect();
    let result = match rng.below(6) {
        0 => None,
        1 => Some(rng.pick(&[Type::Ip, Type::Id]).clone()),
        2 => Some(rng.pick(&plan.locals).clone()),
        3 => Some(Type::Bool),
        _ => Some(Type::scalar(rng))
            .filter(|ty| *ty != Type::Varint)
            .or(Some(Type::Uint(32))),
    };
    let result = if pure_ && result.is_none() {
        Some(Type::Uint(16))
    } else {
        result
    };
    let light = level == 0 && (pure_ || rng.one_in(2));
    let rules = Rules {
        function: true,
        no_effects: pure_,
        level,
        emits: !pure_ && !light,
        refuses: false,
        ends: !pure_,
        returns: result.clone(),
        may_return: true,
        listed: false,
    };
    let written: Vec<String> = params
        .iter()
        .enumerate()
        .map(|(i, ty)| format!("{} a{i}", plan.written(ty)))
        .collect();
    let mut body = Body::new(plan, rng, rules);
    for (i, ty) in params.iter().enumerate() {
        body.know(Var::new(format!("a{i}"), ty.clone(), ty.is_scalar() || !pure_));
    }
    if let Some(ty) = result.as_ref().filter(|ty| !ty.is_scalar()) {
        let written = body.plan.written(ty);
        body.line(format!("{written} made;"));
        body.know(Var::new("made", ty.clone(), true));
    }
    body.statements(if light { 2 } else { 4 }, 1);
    if let Some(ty) = &result {
        let value = if ty.is_scalar() {
            body.expr(ty, 3)
        } else {
            "made".to_owned()
        };
        body.line(format!("return {value};"));
    }
    let lines = body.lines.join("\n");
    let gives = result.as_ref().map_or("void".to_owned(), |ty| plan.written(ty));
    let name = format!("helper{number}");
    plan.line(format!("{gives} {name}({}) {{\n{lines}\n}}", written.join(", ")));
    plan.helpers
        .push(Helper { name, params, result, level, pure_, light });
}

/// The keyed context that a processor asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keyed {
    Found(usize),
    Absent,
    Any,
}

/// Generates processors for every event, and the dispatch table that binds them.
pub(super) fn chains(plan: &mut ProgramPlan, rng: &mut Rng) {
    let mut entries = Vec::new();
    let shared = shared_tail(plan, rng);
    for kind in ["APP_EVENT", "NET_EVENT", "SYS_EVENT", "EVENT", "TIMER_EVENT"] {
        for event in plan.events(kind) {
            let mut names = Vec::new();
            // A guard comes first, because it may refuse only before anything has changed.
            let mut guards = 0;
            if kind == "APP_EVENT" {
                guards = 2;
                names.push(processor(
                    plan,
                    rng,
                    event,
                    Keyed::Found(plan.contexts[0]),
                    true,
                    false,
                ));
                names.push(processor(plan, rng, event, Keyed::Absent, true, false));
            }
            for keyed in wanted(plan, rng, kind) {
                names.push(processor(plan, rng, event, keyed, false, false));
            }
            if kind == "NET_EVENT" || (kind == "APP_EVENT" && rng.one_in(2)) {
                names.push(processor(plan, rng, event, Keyed::Absent, false, true));
            }
            plan.chains.push((event, names[guards..].to_vec()));
            if rng.one_in(2) {
                let name = if rng.one_in(2) { "tail" } else { &shared };
                names.extend(on_parts(plan, name));
            }
            entries.push(format!(
                "    {} -> {{{}}};",
                plan.records[event].name,
                names.join(", ")
            ));
        }
    }
    plan.line(format!(
        "dispatch table {{\n    chain tail = {{{shared}}};\n{}\n}}",
        entries.join("\n")
    ));
}

/// Names a processor or a chain. If a type has several parts, it is named once for each of the chosen parts.
fn on_parts(plan: &mut ProgramPlan, name: &str) -> Vec<String> {
    let parts: &[&str] = match (plan.twins, plan.additions.below(3)) {
        (false, _) => return vec![name.to_owned()],
        (true, 0) => &["part0"],
        (true, 1) => &["twin0"],
        (true, _) => &["twin0", "part0"],
    };
    let on = |part: &&str| format!("{name}({part})");
    parts.iter().map(on).collect()
}

/// Generates processors that are attached to chains, on either side of the chains' own processors.
pub(super) fn attached(plan: &mut ProgramPlan, rng: &mut Rng) {
    for _ in 0..1 + rng.below(4) {
        let (event, anchors) = rng.pick(&plan.chains).clone();
        // A processor for any context may be attached to chains that never have a keyed one.
        let keyed = match rng.below(4) {
            0 | 1 => Keyed::Absent,
            _ => Keyed::Found(*rng.pick(&plan.contexts)),
        };
        let name = processor(plan, rng, event, keyed, false, false);
        let side = *rng.pick(&["before", "after"]);
        let anchor = rng.pick(&anchors);
        plan.line(format!("attach {name} {side} {anchor};"));
    }
}

fn wanted(plan: &ProgramPlan, rng: &mut Rng, kind: &str) -> Vec<Keyed> {
    match kind {
        "SYS_EVENT" => vec![Keyed::Any],
        "TIMER_EVENT" => vec![Keyed::Found(*rng.pick(&plan.contexts))],
        _ => {
            let mut keyed: Vec<Keyed> = plan.contexts.iter().map(|c| Keyed::Found(*c)).collect();
            if rng.one_in(3) {
                keyed.push(Keyed::Any);
            }
            keyed
        }
    }
}

/// Generates a processor of any event, over the part that contexts share.
fn shared_tail(plan: &mut ProgramPlan, rng: &mut Rng) -> String {
    let part = plan.parts[0];
    let mut body = Body::new(plan, rng, processor_rules(false));
    body.know_event("ev");
    body.know(Var::new("part0", Type::Record(part), true));
    body.statements(3, 1);
    let lines = body.lines.join("\n");
    plan.line(format!(
        "void shared(event_t ev, {} part0) {{\n{lines}\n}}",
        plan.records[part].name
    ));
    "shared".to_owned()
}

fn processor_rules(guard: bool) -> Rules {
    Rules {
        function: true,
        no_effects: guard,
        level: 3,
        emits: !guard,
        refuses: guard,
        ends: true,
        returns: None,
        may_return: true,
        listed: false,
    }
}

/// Generates a processor: a guard, which may refuse; one that creates a context; or any other.
fn processor(
    plan: &mut ProgramPlan,
    rng: &mut Rng,
    event: usize,
    keyed: Keyed,
    guard: bool,
    makes: bool,
) -> String {
    let name = format!(
        "proc{}",
        plan.text.matches("\nvoid proc").count() + plan.text.matches("> proc").count()
    );
    let listed = !guard && rng.one_in(5);
    let rules = Rules {
        listed,
        // Most instructions are about a context, which does not exist before it is created.
        emits: !guard && keyed != Keyed::Absent,
        ..processor_rules(guard)
    };
    let mut params = vec![format!("{} ev", plan.records[event].name)];
    let (contexts, scratch) = (plan.globals.clone(), plan.scratch);
    let with_global = !contexts.is_empty() && rng.one_in(2);
    let with_scratch = rng.one_in(2);
    let fresh = *rng.pick(&plan.contexts);
    let mut body = Body::new(plan, rng, rules);
    body.know(Var::new("ev", Type::Record(event), true));
    body.know_event("ev");
    match keyed {
        Keyed::Found(record) => {
            params.push(format!("{} c", body.plan.records[record].name));
            body.know_context("c", record, !guard);
        }
        Keyed::Absent => params.push("no_ctx none".to_owned()),
        Keyed::Any => {}
    }
    if with_global {
        // A chain that names only GLOBAL contexts has no keyed one.
        body.rules.emits &= keyed != Keyed::Any;
        params.push(format!("{} g", body.plan.records[contexts[0]].name));
        body.know_context("g", contexts[0], !guard);
    }
    if let Some(pad) = scratch.filter(|_| with_scratch) {
        params.push("pad s".to_owned());
        body.know(Var::new("s", Type::Record(pad), true));
    }
    if listed {
        body.line("list<instr_t> out;");
    }
    if makes {
        make_context(&mut body, fresh);
    }
    body.statements(if guard { 1 } else { 6 }, 2);
    if guard && body.rng.one_in(2) {
        let (rare, code) = (body.expr(&Type::Uint(8), 2), body.expr(&Type::Uint(32), 2));
        body.line(format!("if (({rare} & uint8(7)) == uint8(0)) refuse({code});"));
    }
    if listed {
        body.line("return out;");
    }
    let lines = body.lines.join("\n");
    let gives = if listed { "list<instr_t>" } else { "void" };
    plan.line(format!("{gives} {name}({}) {{\n{lines}\n}}", params.join(", ")));
    name
}

/// Generates `ctx c = new_ctx{…};`, sometimes behind other statements, sometimes under a condition.
fn make_context(body: &mut Body<'_>, record: usize) {
    let literal = body.record_literal(record);
    let fields = literal
        .split_once('{')
        .map_or("}", |(_, fields)| fields)
        .to_owned();
    let name = body.plan.records[record].name.clone();
    if body.rng.one_in(3) {
        body.statements(1, 0);
    }
    if body.rng.one_in(3) {
        let condition = body.expr(&Type::Bool, 2);
        body.line(format!(
            "if ({condition}) return{};",
            if body.rules.listed { " out" } else { "" }
        ));
    }
    body.line(format!("{name} made = new_ctx{{{fields};"));
    body.rules.emits = true;
    body.know_context("made", record, true);
}
