//! What runs Hawser's side of a measurement, by name.

use std::sync::Arc;

use hawser::programs::{Engine, resolve_with_on};
use hawser_engine::program::Program;

use crate::handwritten::Handwritten;

/// What runs the program unless another is asked for.
pub(crate) const DEFAULT: &str = "native";
/// TCP by hand in C, in place of the program.
pub(crate) const HANDWRITTEN: &str = "handwritten";
/// The built-in TCP.
pub(crate) const TCP: &str = "tcp";

/// The built-in TCP on an engine, or the one by hand, with params as users write them.
///
/// # Errors
/// The message to show: no such engine, or a param that the program does not have.
pub(crate) fn program(engine: &str, params: &[String]) -> Result<Arc<dyn Program>, String> {
    named(engine, TCP, params)
}

/// The same of any built-in program; by hand there is TCP alone.
///
/// # Errors
/// As [`program`].
pub(crate) fn named(engine: &str, name: &str, params: &[String]) -> Result<Arc<dyn Program>, String> {
    if engine == HANDWRITTEN && name == TCP {
        let program = Handwritten::new(params).map_err(|error| error.to_string())?;
        return Ok(Arc::new(program));
    }
    let engine: Engine = engine
        .parse()
        .map_err(|error| format!("{error}, {HANDWRITTEN}"))?;
    resolve_with_on(Some(engine), name, params).map_err(|error| error.to_string())
}
