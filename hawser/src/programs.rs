//! Transport programs by name or by file.

use std::path::Path;
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_programs::Interpreted;

pub use hawser_programs::names as builtin_names;

/// The program that `name` means: a built-in one, or a file when it ends in `.mtp`; with params
/// set to raw values, durations in nanoseconds.
///
/// # Errors
/// The message to show: what is wrong with the program, or which names there are.
pub fn resolve(name: &str, params: &[(String, u64)]) -> Result<Arc<dyn Program>, String> {
    let module = match name.ends_with(".mtp") {
        true => hawser_programs::load(Path::new(name)),
        false => hawser_programs::builtin(name).ok_or_else(|| {
            let known: Vec<_> = builtin_names().collect();
            format!("no program `{name}`; built in: {}; a file's name ends in .mtp", known.join(", "))
        })?,
    };
    let module = module.map_err(|rejected| rejected.to_string())?;
    Ok(Arc::new(Interpreted::new(module, params)?))
}

/// Params as written by a user: `MIN_RTO=200ms`.
///
/// # Errors
/// Which one cannot be read, and what a value looks like.
pub fn parse_params(texts: &[String]) -> Result<Vec<(String, u64)>, String> {
    texts.iter().map(|text| hawser_programs::parse_param(text).map_err(|e| e.to_string())).collect()
}
