//! What the language has and nothing here can run yet.

use hawser_ir::Module;

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
pub(crate) fn unsupported(module: &Module) -> Option<Unsupported> {
    let name = absent_extern(module)?;
    Some(Unsupported {
        program: module.name.clone(),
        what: format!("it calls the extern {name}, which no target provides yet"),
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
