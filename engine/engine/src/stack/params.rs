//! Changing the params of a running program.

use std::sync::Arc;

use super::Stack;
use crate::program::Program;

/// The given program is a different one; only the params may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stack can only continue with the same program under other params")]
pub struct AnotherProgram;

impl Stack {
    /// Continues with the same program under other params, which apply from the next event on. Values that
    /// contexts took from params at their creation do not change.
    ///
    /// # Errors
    /// Returns [`AnotherProgram`]; the stack is then unchanged.
    pub fn change_params(&mut self, program: Arc<dyn Program>) -> Result<(), AnotherProgram> {
        if program.module() != self.module() {
            return Err(AnotherProgram);
        }
        self.chains.program = program;
        Ok(())
    }
}
