//! Expressions that were checked, ready to be evaluated.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hawser_check::Visible;
use hawser_driver::{Compilation, inspect, render};
use hawser_interp::{Halted, Interpreter, Variable};
use hawser_ir::{FuncId, Ty};

use crate::program::HostProgram;

/// The maximum number of expressions that are kept ready.
const MAX_KEPT: usize = 64;

/// Why an expression has no value.
#[derive(Clone, Debug)]
pub enum PrintError {
    /// The checker refuses it.
    Wrong(Box<Compilation>),
    /// A function that it calls did not come to its end.
    NoValue,
    /// The run is over, and no host has been chosen.
    Over,
    /// A condition is not true or false.
    Condition,
}

impl fmt::Display for PrintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrintError::Wrong(wrong) => {
                f.write_str(render(&wrong.diagnostics, &wrong.sources, false).trim_end())
            }
            PrintError::NoValue => f.write_str("a function that it calls ended without a value"),
            PrintError::Over => f.write_str("the run is over: choose a host, or go back"),
            PrintError::Condition => {
                f.write_str("a condition has to be of type `bool`: compare, as in `x != 0`")
            }
        }
    }
}

impl std::error::Error for PrintError {}

/// Expressions that were checked already, by host, text, and what they could see.
#[derive(Default)]
pub(crate) struct Cache(BTreeMap<String, Arc<Ready>>);

/// An expression that was checked.
pub(crate) struct Ready {
    pub(crate) interpreter: Interpreter,
    pub(crate) func: FuncId,
    pub(crate) ty: Ty,
}

/// What an expression sees.
pub(crate) struct Sight {
    pub(crate) host: usize,
    pub(crate) halted: Halted,
    pub(crate) variables: Vec<Variable>,
    /// The variable whose fields need no prefix.
    pub(crate) this: Option<usize>,
}

impl Cache {
    /// An expression, checked over what it sees.
    pub(crate) fn ready(
        &mut self,
        program: &HostProgram,
        text: &str,
        sight: &Sight,
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
            // What the program has, the interpreter runs already.
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
