//! Constructs of the language that the interpreter cannot run yet.

use hawser_ir::Module;

/// A program contains a construct that cannot run yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{program}: {what}")]
pub struct Unsupported {
    /// The program's name.
    pub program: String,
    /// A sentence for the user, which names the construct.
    pub what: String,
}

/// Returns the first construct of a module that cannot run.
pub(crate) fn unsupported(module: &Module) -> Option<Unsupported> {
    let name = absent_extern(module)?;
    Some(Unsupported {
        program: module.name.clone(),
        what: format!("the program calls the extern {name}, which no target provides yet"),
    })
}

/// Finds a pure extern that is called. The checker has made a function of its name as a placeholder, until a
/// target replaces it by its own.
fn absent_extern(module: &Module) -> Option<&str> {
    let called = |name: &str| module.funcs.iter().any(|func| func.name == name);
    module
        .externs
        .iter()
        .filter(|ext| ext.pure_)
        .map(|ext| ext.name.as_str())
        .find(|name| called(name))
}
