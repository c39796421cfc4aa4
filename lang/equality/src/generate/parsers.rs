//! Parsers, shims, and the `deploy` block.

use super::body::{Body, Rules};
use super::plan::ProgramPlan;
use super::scope::Var;
use super::types::{ICMP, NET, OP, Type};
use crate::rng::Rng;

fn rules() -> Rules {
    Rules { function: true, no_effects: true, level: 3, ..Rules::default() }
}

/// Generates a parser for each source, and `deploy`.
pub(super) fn parsers(plan: &mut ProgramPlan, rng: &mut Rng) {
    let mut registered = Vec::new();
    let net = plan.events("NET_EVENT");
    let blueprints: Vec<usize> = plan.blueprints.iter().map(|b| b.record).collect();
    for (i, source) in ["ip(253)", "udp(4791)", "ip(6)", "icmp_error"]
        .into_iter()
        .enumerate()
    {
        let mut taken = vec![blueprints[i % blueprints.len()]];
        if rng.one_in(3) {
            taken.push(*rng.pick(&blueprints));
        }
        let name = packet_parser(
            plan,
            rng,
            i,
            &taken,
            *rng.clone().pick(&net),
            source == "icmp_error",
        );
        registered.push((name, source));
    }
    let app = plan.events("APP_EVENT");
    for (i, source) in ["connect", "send"].into_iter().enumerate() {
        let name = shim(plan, rng, i, app[i % app.len()]);
        registered.push((name, source));
    }
    for event in plan.events("SYS_EVENT") {
        let name = plan.records[event].name.clone();
        plan.line(format!("{name} on_start() {{ {name} e; return e; }}"));
        registered.push(("on_start".to_owned(), "start"));
    }
    let lines: Vec<String> = registered
        .iter()
        .map(|(name, source)| format!("    register_ev_parser({name}, {source});"))
        .collect();
    plan.line(format!(
        "deploy {{\n    register_ep_chains(table);\n    register_ctx_spec(ctx1, SHARD);\n    \
         register_ctx_spec(ctx2, GLOBAL);\n{}\n}}",
        lines.join("\n")
    ));
}

fn packet_parser(
    plan: &mut ProgramPlan,
    rng: &mut Rng,
    number: usize,
    headers: &[usize],
    event: usize,
    icmp: bool,
) -> String {
    let mut body = Body::new(plan, rng, rules());
    body.know(Var::new("i", Type::Record(NET), false));
    body.know(Var::new("p.len", Type::Uint(32), false));
    if icmp {
        body.know(Var::new("x", Type::Record(ICMP), false));
    }
    body.line("list<event_t> out;");
    for (i, header) in headers.iter().enumerate() {
        let name = format!("h{i}");
        let written = body.plan.records[*header].name.clone();
        body.line(format!("{written} {name};"));
        match body.rng.below(4) {
            0 => body.line(format!("if (!p.extract({name})) return out;")),
            1 => {
                body.line(format!("bool ok{i} = p.extract({name});"));
                body.know(Var::new(format!("ok{i}"), Type::Bool, true));
            }
            _ => body.line(format!("p.extract({name});")),
        }
        body.know(Var::new(name, Type::Record(*header), true));
    }
    body.statements(2, 1);
    for e in 0..1 + body.rng.below(2) {
        make_event(&mut body, &format!("e{e}"), event);
        if body.rng.one_in(4) {
            let condition = body.expr(&Type::Bool, 2);
            body.line(format!("if ({condition}) return out;"));
        }
        body.line(format!("out.add(e{e});"));
    }
    body.line("return out;");
    let lines = body.lines.join("\n");
    let name = format!("parse{number}");
    let extra = if icmp { ", icmp_t x" } else { "" };
    plan.line(format!(
        "list<event_t> {name}(pkt_t p, IPheader i{extra}) {{\n{lines}\n}}"
    ));
    name
}

/// Generates an event with its fields and ids.
fn make_event(body: &mut Body<'_>, name: &str, event: usize) {
    let written = body.plan.records[event].name.clone();
    body.line(format!("{written} {name};"));
    for field in body.plan.records[event].fields.clone() {
        if body.rng.one_in(4) {
            continue;
        }
        let value = if field.ty.is_scalar() {
            Some(body.expr(&field.ty, 2))
        } else {
            body.aggregate(&field.ty)
        };
        if let Some(value) = value {
            body.line(format!("{name}.{} = {value};", field.name));
        }
    }
    let mut ids = Vec::new();
    for i in 0..body.rng.below(4) {
        let id = format!("{name}id{i}");
        let tuple = body.tuple();
        body.line(format!("flow_id {id}({tuple});"));
        ids.push(id);
    }
    if !ids.is_empty() {
        body.line(format!("set_flow_id({name}, {});", ids.join(", ")));
        body.know(Var::new(format!("get_flow_id({name})"), Type::Id, false));
    }
    body.know(Var::new(name, Type::Record(event), true));
}

fn shim(plan: &mut ProgramPlan, rng: &mut Rng, number: usize, event: usize) -> String {
    let written = plan.records[event].name.clone();
    let mut body = Body::new(plan, rng, rules());
    body.know(Var::new("op", Type::Record(OP), false));
    body.statements(1, 1);
    make_event(&mut body, "e", event);
    body.line("return e;");
    let lines = body.lines.join("\n");
    let name = format!("shim{number}");
    plan.line(format!("{written} {name}(op_t op) {{\n{lines}\n}}"));
    name
}
