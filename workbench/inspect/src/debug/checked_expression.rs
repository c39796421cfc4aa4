//! Checked expressions that are ready to be evaluated.

use std::collections::BTreeMap;
use std::sync::Arc;

use hawser_check::Visible;
use hawser_driver::{Compilation, inspect, render};
use hawser_interp::{Halted, Interpreter, Variable};
use hawser_ir::{FuncId, Ty};

use crate::debug::program::HostProgram;

/// The maximum number of cached expressions.
const MAX_KEPT: usize = 64;

/// An expression could not be evaluated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PrintError {
    /// The checker rejects it.
    #[error("{}", render(&.0.diagnostics, &.0.sources, false).trim_end())]
    Wrong(Box<Compilation>),
    /// A function that it calls did not return.
    #[error("a function that it calls ended without a value")]
    NoValue,
    /// The run is over, and no host is selected.
    #[error("the run is over: choose a host, or go back")]
    Over,
    /// The condition is not a truth value.
    #[error("a condition must be of type `bool`: compare, for example `x != 0`")]
    Condition,
}

/// A cache of checked expressions, by host, text and visible variables.
#[derive(Default)]
pub(crate) struct Cache(BTreeMap<String, Arc<Ready>>);

/// A checked expression.
pub(crate) struct Ready {
    pub(crate) interpreter: Interpreter,
    pub(crate) func: FuncId,
    pub(crate) ty: Ty,
}

/// The variables that an expression sees.
pub(crate) struct VisibleVariables {
    pub(crate) host: usize,
    pub(crate) halted: Halted,
    pub(crate) variables: Vec<Variable>,
    /// The variable whose fields need no prefix.
    pub(crate) this: Option<usize>,
}

impl Cache {
    /// Returns an expression that is checked against its visible variables.
    pub(crate) fn ready(
        &mut self,
        program: &HostProgram,
        text: &str,
        sight: &VisibleVariables,
    ) -> Result<Arc<Ready>, PrintError> {
        let visible = sight
            .variables
            .iter()
            .map(|variable| Visible { name: variable.name.clone(), ty: variable.ty.clone() });
        let visible: Vec<Visible> = visible.collect();
        let key = format!("{} {text:?} {visible:?} {:?}", program.host, sight.this);
        if let Some(ready) = self.0.get(&key) {
            return Ok(Arc::clone(ready));
        }
        let expression = inspect(&program.module, text, &visible, sight.this);
        let Some(inspected) = expression.inspected else {
            return Err(PrintError::Wrong(Box::new(expression.compilation)));
        };
        let params = program.interpreter.params().to_vec();
        let interpreter = Interpreter::new(Arc::new(inspected.module), params);
        let ready = Arc::new(Ready {
            // The interpreter already runs every construct of the program itself.
            interpreter: interpreter.map_err(|_| PrintError::NoValue)?,
            func: inspected.func,
            ty: inspected.ty,
        });
        if self.0.len() >= MAX_KEPT {
            self.0.clear();
        }
        self.0.insert(key, Arc::clone(&ready));
        Ok(ready)
    }
}
