//! A debugger for transport programs: a run in the simulator, forwards and backwards, statement by statement.

pub use hawser_inspect::debug::*;

use crate::{Programs, Scenario};

/// Starts before the first event of a scenario's run. `seed` replaces the scenario's own.
///
/// # Errors
/// The reason why it cannot be debugged.
pub fn begin(programs: Programs, scenario: Scenario, seed: Option<u64>) -> Result<Debugger, DebugError> {
    let engine = crate::engine(&scenario);
    Debugger::begin(DebuggerInput {
        flows: crate::flows(&scenario).into(),
        scenario,
        seed,
        resolve: Box::new(move |name, settings| crate::resolver(&programs, engine)(name, settings)),
    })
}
