//! Refuses programs with constructs that the engine does not run yet, when they are loaded: no program
//! runs and does something else than it states.

use hawser_interp::Unsupported;
use hawser_ir::{AppOp, Module, Source};

/// The first construct of a program that does not run on this engine.
///
/// What the interpreter cannot run it reports itself: pure externs.
pub(crate) fn unsupported(module: &Module) -> Option<Unsupported> {
    let externs = hawser_engine::known_externs(module).err();
    let what = externs.map(|name| format!("it declares the extern {name}, which no target provides"));
    let what = what.or_else(|| options(module)).or_else(|| {
        (module.reads_sub && !has_numbers(module))
            .then(|| "it reads op.sub, which only `connect`, `open`, `message` and `call` have".to_owned())
    })?;
    Some(Unsupported {
        program: module.name.clone(),
        what,
    })
}

/// Whether its connections, streams or messages are numbered by `op.sub`.
fn has_numbers(module: &Module) -> bool {
    let numbers = |op| matches!(op, AppOp::Connect | AppOp::Open | AppOp::Message | AppOp::Call);
    let is_numbered = |source| matches!(source, Source::App(op) if numbers(op));
    module.parsers.iter().any(|parser| is_numbered(parser.source))
}

/// Payload inside an option or a frame.
fn options(module: &Module) -> Option<String> {
    module
        .opt_lists
        .iter()
        .flat_map(|list| &list.members)
        .find_map(|member| {
            let body = module.blueprints.get(member.blueprint.0 as usize)?;
            body.data_at?;
            Some(format!(
                "its option {} holds data_t, and payload inside options is not sent yet",
                member.name
            ))
        })
}
