//! The engine of Hawser's side of a measurement, by name.

use std::sync::Arc;

use hawser::programs::{Engine, resolve_with_on};
use hawser_engine::program::Program;

use crate::handwritten::Handwritten;

/// The default engine.
pub(crate) const DEFAULT: &str = "native";
/// The hand-written TCP in C, in place of the program.
pub(crate) const HANDWRITTEN: &str = "handwritten";
pub(crate) const TCP: &str = "tcp";

/// Returns the built-in TCP on an engine, or the hand-written one, with params as users write them.
///
/// # Errors
/// The engine does not exist, or the program does not have a param. The error is a message for users.
pub(crate) fn program(engine: &str, params: &[String]) -> Result<Arc<dyn Program>, String> {
    named(engine, TCP, params)
}

/// Returns any built-in program in the same way. The hand-written engine has TCP alone.
///
/// # Errors
/// The errors of [`program`].
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
