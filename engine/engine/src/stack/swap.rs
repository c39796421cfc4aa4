//! Replacing the program of a running stack: the same memory, other chains.
//!
//! The program is replaced between polls, so that no batch sees both. Contexts, timers, ordered data, pending
//! packets and raised events stay as they are: the two programs have the same tables for them.

use std::sync::Arc;

use hawser_bus::SchemaError;

use super::Stack;
use crate::config::StackConfigError;
use crate::program::Program;
use crate::tables::{Tables, check_limits};

/// The stack could not replace its program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwapError {
    /// The two programs have different memory layouts.
    #[error("the other program has different {0}: start it in a stack of its own")]
    Tables(&'static str),
    /// The new program's tables contradict each other, or its chains can need more than the limits allow.
    #[error(transparent)]
    Program(#[from] StackConfigError),
    /// The new program offers more than the interactive layer has room for.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// A function that replaces the program of a stack; see [`Stack::swap_program`].
pub type Swap<'a> = &'a mut dyn FnMut(Arc<dyn Program>) -> Result<Arc<dyn Program>, SwapError>;

/// A checked change of attachments was not made. The program stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The stack cannot continue with the new program.
    #[error(transparent)]
    Swap(#[from] SwapError),
    /// Another change was made after this one was checked.
    #[error("another file was attached or detached in the meantime: try again")]
    OutOfDate,
}

/// A checked change of the attachments of a stack's program, which the stack makes between two events.
pub type Step = Box<dyn FnOnce(Swap<'_>) -> Result<(), StepError> + Send>;

impl Stack {
    /// Continues with another program from the next event on, and returns the previous one. The new program
    /// has the same contexts, events and packets as the one that the stack began with
    /// ([`hawser_ir::Module::shares_memory_with`]). Chains, functions, params and further signals may differ.
    /// From now on a chain's worst case is that of the new program.
    ///
    /// # Errors
    /// See [`SwapError`]; the stack is then unchanged.
    pub fn swap_program(&mut self, program: Arc<dyn Program>) -> Result<Arc<dyn Program>, SwapError> {
        // Not compared with the running program: two programs may differ in the parts behind their common
        // beginning.
        self.begun
            .module()
            .shares_memory_with(program.module())
            .map_err(SwapError::Tables)?;
        let tables = Tables::new(program.module(), self.chains.tables.steering)?;
        let chains = &mut self.chains;
        check_limits(&chains.state.limits, &tables)?;
        if let Some(interactive) = &mut chains.interactive {
            interactive.offer(program.module())?;
            chains.memory.records.want(interactive.wanted());
        }
        chains.memory.fit(&tables);
        chains.state.reports_taken = tables.reports_taken();
        chains.tables = tables;
        // The index referred to the previous program's list.
        chains.last_assert = None;
        Ok(std::mem::replace(&mut chains.program, program))
    }
}
