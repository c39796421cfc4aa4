//! Other params for a program that runs.

use std::sync::Arc;

use super::Stack;
use crate::program::Program;

/// The program is another one: only its params may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stack goes on with the same program alone, under other params")]
pub struct AnotherProgram;

impl Stack {
    /// Goes on with the same program under other params, which count from the next event on. What
    /// contexts took from params when they were made stays as it is.
    ///
    /// # Errors
    /// [`AnotherProgram`]; nothing has changed.
    pub fn change_params(&mut self, program: Arc<dyn Program>) -> Result<(), AnotherProgram> {
        if program.module() != self.module() {
            return Err(AnotherProgram);
        }
        self.chains.program = program;
        Ok(())
    }
}
