//! Transport programs by name or by file.

use std::path::Path;
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_ir::Module;
use hawser_programs::Interpreted;

pub use hawser_programs::names as builtin_names;

/// The program that `name` means: a built-in one, or a file when it ends in `.mtp`; with params
/// set to raw values, durations in nanoseconds.
///
/// # Errors
/// The message to show: what is wrong with the program, or which names there are.
pub fn resolve(name: &str, params: &[(String, u64)]) -> Result<Arc<dyn Program>, String> {
    Ok(Arc::new(Interpreted::new(module(name)?, params)?))
}

/// The same, with params as a user writes them: `MIN_RTO=200ms`.
///
/// # Errors
/// Also which setting is wrong: an unknown name, another kind of value, one that does not fit.
pub fn resolve_with(name: &str, settings: &[String]) -> Result<Arc<dyn Program>, String> {
    let module = module(name)?;
    let params = hawser_programs::parse_params(&module, settings).map_err(|error| error.to_string())?;
    Ok(Arc::new(Interpreted::new(module, &params)?))
}

pub(crate) fn module(name: &str) -> Result<Module, String> {
    let module = match name.ends_with(".mtp") {
        true => hawser_programs::load(Path::new(name)),
        false => hawser_programs::builtin(name).ok_or_else(|| {
            let known: Vec<_> = builtin_names().collect();
            format!("no program `{name}`; built in: {}; a file's name ends in .mtp", known.join(", "))
        })?,
    };
    module.map_err(|rejected| rejected.to_string())
}
