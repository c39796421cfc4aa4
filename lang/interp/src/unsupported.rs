//! What the language has and nothing here can run yet.

use hawser_ir::{BlueprintId, Instr, Module, StmtKind};

use crate::wire::{CrcField, trailer_len};

/// A construct of a program that does not run yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{program}: {what}")]
pub struct Unsupported {
    /// The program's name.
    pub program: String,
    /// A sentence for the user, which names the construct.
    pub what: String,
}

/// The first construct of a module that cannot run.
///
/// Headers are built without their payload at hand. So a blueprint that carries payload and has a
/// trailer, or a CRC over everything, can be taken apart but not sent.
pub(crate) fn unsupported(module: &Module) -> Option<Unsupported> {
    let unsupported = |what| Unsupported {
        program: module.name.clone(),
        what,
    };
    if let Some(name) = absent_extern(module) {
        let what = format!("it calls the extern {name}, which no target provides yet");
        return Some(unsupported(what));
    }
    let mut sent = None;
    for func in &module.funcs {
        hawser_ir::statements(&func.body, &mut |stmt| {
            if let StmtKind::Emit(Instr::PktGen { blueprint, .. }) = &stmt.kind
                && !can_be_built(module, *blueprint)
            {
                sent.get_or_insert(*blueprint);
            }
        });
    }
    sent.map(|id: BlueprintId| {
        let name = &module.blueprints[id.0 as usize].name;
        unsupported(format!(
            "packets of {name} end in a trailer or carry a CRC behind payload, which can be received but not sent yet"
        ))
    })
}

/// A pure extern that is called: the checker has made a function of its name to stand for it, until
/// a target puts its own in that place.
fn absent_extern(module: &Module) -> Option<&str> {
    let called = |name: &str| module.funcs.iter().any(|func| func.name == name);
    module
        .externs
        .iter()
        .filter(|ext| ext.pure_)
        .map(|ext| ext.name.as_str())
        .find(|name| called(name))
}

fn can_be_built(module: &Module, id: BlueprintId) -> bool {
    let blueprint = &module.blueprints[id.0 as usize];
    let behind_payload = trailer_len(blueprint) > 0 || CrcField::find(blueprint).is_some();
    blueprint.data_at.is_none() || !behind_payload
}
