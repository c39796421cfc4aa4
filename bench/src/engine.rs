//! The engines that a program can run on, by name.

use std::sync::Arc;

use hawser_engine::program::Program;

/// What runs the program unless another is asked for.
pub(crate) const DEFAULT: &str = "interp";

/// The built-in TCP on an engine, with params as users write them.
///
/// # Errors
/// The message to show: no such engine, or a param that the program does not have.
pub(crate) fn program(engine: &str, params: &[String]) -> Result<Arc<dyn Program>, String> {
    match engine {
        "interp" => hawser::programs::resolve_with("tcp", params),
        other => Err(format!("there is no engine `{other}`; there is: interp")),
    }
}
