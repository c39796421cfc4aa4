//! Refuses, at load time, programs with constructs that the engine does not run yet. A program never runs
//! with a meaning other than its text states.

use hawser_interp::Unsupported;
use hawser_ir::{AppOp, Module, ParserInput};

/// Returns the first construct of a program that does not run on this engine.
///
/// The interpreter itself reports pure externs, which it cannot run.
pub(crate) fn unsupported(module: &Module) -> Option<Unsupported> {
    let externs = hawser_engine::known_externs(module).err();
    let what =
        externs.map(|name| format!("the program declares the extern {name}, which no target provides"));
    let what = what.or_else(|| options(module)).or_else(|| {
        (module.reads_sub && !has_numbers(module)).then(|| {
            "the program reads op.sub, which only `connect`, `open`, `message` and `call` have".to_owned()
        })
    })?;
    Some(Unsupported { program: module.name.clone(), what })
}

/// Returns whether the program numbers connections, streams or messages by `op.sub`.
fn has_numbers(module: &Module) -> bool {
    let numbers = |op| matches!(op, AppOp::Connect | AppOp::Open | AppOp::Message | AppOp::Call);
    let is_numbered = |source| matches!(source, ParserInput::App(op) if numbers(op));
    module.parsers.iter().any(|parser| is_numbered(parser.source))
}

/// Finds payload inside an option or a frame.
fn options(module: &Module) -> Option<String> {
    module
        .opt_lists
        .iter()
        .flat_map(|list| &list.members)
        .find_map(|member| {
            let body = module.blueprints.get(member.blueprint.0 as usize)?;
            body.data_at?;
            Some(format!(
                "the option {} contains a data_t, but payload inside options is not supported",
                member.name
            ))
        })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Interpreted;

    /// Builds a program from the texts of its `deploy` and other declarations.
    fn module(declarations: &str, body: &str, deploy: &str) -> Module {
        let text = format!(
            "event go : SYS_EVENT {{ }}\nevent asked : APP_EVENT {{ uint64 sub; }}\nevent came : NET_EVENT {{ }}\n\
             context total {{ uint64 n; }}\n{declarations}\n\
             void count(go ev, total t) {{ t.n += 1; {body} }}\n\
             void ask(asked ev, total t) {{ t.n += ev.sub; }}\nvoid see(came ev, total t) {{ t.n += 1; }}\n\
             go start() {{ go e; return e; }}\n\
             dispatch d {{ go -> {{count}}; asked -> {{ask}}; came -> {{see}}; }}\n\
             deploy {{ register_ep_chains(d); register_ctx_spec(total, GLOBAL); \
             register_ev_parser(start, start); {deploy} }}\n"
        );
        let files = hawser_driver::MemoryLoader::new([("p.mtp", text.as_str())]);
        let compilation = hawser_driver::compile_with(&files, Path::new("p.mtp"));
        assert!(!compilation.failed(), "{}", compilation.render(false));
        compilation.module.expect("no error, so a module")
    }

    fn refusal(module: Module) -> String {
        Interpreted::new(module, &[])
            .expect_err("it does not run")
            .to_string()
    }

    #[test]
    fn unsupported_constructs_are_refused_when_loaded() {
        let app = "asked on_send(op_t op) { asked e; e.sub = op.sub; return e; }";
        let pure_extern = "extern uint64 cookie(uint64 a);\n\
                           asked on_send(op_t op) { asked e; e.sub = cookie(op.arg); return e; }";
        let send = "register_ev_parser(on_send, send);";
        for (declarations, body, deploy, sentence) in [
            (
                "extern instr_t atomic(uint64 a) -> reported;\nevent reported : EVENT { }",
                "emit atomic(1);",
                "",
                "p: the program declares the extern atomic, which no target",
            ),
            (
                pure_extern,
                "",
                send,
                "p: the program declares the extern cookie, which no target",
            ),
            (
                "opt_t bulk { uint8 kind = 1; data_t data; }\nopt_union frame { bulk }\n\
                 opt_list frames { uint32 type_select = 8; list<frame, 4> all; }\n\
                 pkt_bp head { uint8 kind; frames f; }",
                "",
                "",
                "p: the option bulk contains a data_t, but payload inside options",
            ),
            (
                app,
                "",
                send,
                "p: the program reads op.sub, which only `connect`, `open`, `message` and `call` have",
            ),
        ] {
            let refusal = refusal(module(declarations, body, deploy));
            assert!(refusal.starts_with(sentence), "{refusal}");
        }
    }

    #[test]
    fn supported_constructs_are_not_refused() {
        let net = "sched nic = PRIO(4) { control: FIFO, other: RANK, paced: RATE, each: RATE(PER_FLOW) };\n\
                   came parse(pkt_t p, IPheader i) { came e; return e; }\n\
                   asked on_send(op_t op) { asked e; e.sub = op.sub; return e; }";
        let deploy = "register_ev_parser(parse, ip(253)); register_ev_parser(on_send, message);";
        let runs = module(
            net,
            "emit set_queue_prio(nic.other, 0); emit queue_reset(nic.other); emit set_queue_rate(nic.paced, 1000);",
            deploy,
        );
        assert_eq!(unsupported(&runs), None);
        assert!(Interpreted::new(runs, &[]).is_ok());
    }
}
