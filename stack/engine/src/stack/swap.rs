//! Another program for a stack that runs: the same memory, other chains.
//!
//! Called between polls, so that no batch sees both. Contexts, timers, ordered data, pending packets
//! and raised events stay as they are: the two programs have the same tables for them.

use std::sync::Arc;

use hawser_bus::SchemaError;

use super::Stack;
use crate::config::ConfigError;
use crate::program::Program;
use crate::tables::{Tables, check_limits};

/// Why a stack goes on with the program that it has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwapError {
    /// The memory of the one would mean nothing to the other.
    #[error("the other program has other {0}: start it in a stack of its own")]
    Tables(&'static str),
    /// The other's tables contradict each other, or its chains can need more than the limits allow.
    #[error(transparent)]
    Program(#[from] ConfigError),
    /// The other offers more than the interactive layer has room for.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// What gives a stack another program; see [`Stack::swap_program`].
pub type Swap<'a> = &'a mut dyn FnMut(Arc<dyn Program>) -> Result<Arc<dyn Program>, SwapError>;

/// Why a checked change of what is attached is not made. The program stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The stack cannot go on with it.
    #[error(transparent)]
    Swap(#[from] SwapError),
    /// Something else has changed since it was checked.
    #[error("something else was attached or detached meanwhile: try again")]
    OutOfDate,
}

/// A change of what is attached to a stack's program, checked and ready: the stack makes it between two
/// events.
pub type Step = Box<dyn FnOnce(Swap<'_>) -> Result<(), StepError> + Send>;

impl Stack {
    /// Goes on with another program from the next event on, and gives the one until now. It has
    /// the same contexts, events and packets as the one that the stack began with
    /// ([`hawser_ir::Module::shares_memory_with`]); chains, functions, params and further signals may differ. A chain's worst case is the other's from now on.
    ///
    /// # Errors
    /// See [`SwapError`]; nothing has changed.
    pub fn swap_program(&mut self, program: Arc<dyn Program>) -> Result<Arc<dyn Program>, SwapError> {
        // Not with the one that runs: what two of them have behind the same beginning may differ.
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
        // Its index was one in the other's list.
        chains.last_assert = None;
        Ok(std::mem::replace(&mut chains.program, program))
    }
}
