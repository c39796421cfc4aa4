//! Programs with a single change, run in the simulator. Checks of a program should detect them.

use std::path::Path;
use std::sync::Arc;

pub use crate::mutations::{Mutant, MutationKind};
use hawser_driver::MemoryLoader;
use hawser_engine::program::Program;
use hawser_load::Interpreted;

use crate::{Report, RunError, Scenario, resolver};
use hawser_load::programs::{Module, Programs};

/// The texts of a program, its main file first.
pub struct ProgramTexts(Vec<(String, String)>);

impl ProgramTexts {
    /// Returns the texts from which a program was made.
    #[must_use]
    pub fn from_module(module: &Module) -> ProgramTexts {
        ProgramTexts(module.files.clone())
    }

    /// Returns all mutants with these changes, file by file, each with its file's path. Imports from the
    /// library are not changed.
    #[must_use]
    pub fn mutants(&self, changes: &[MutationKind]) -> Vec<(String, Mutant)> {
        let of_file = |(path, text): &(String, String)| {
            let mutants = crate::mutations::mutants(text, changes).into_iter();
            mutants.map(|mutant| (path.clone(), mutant)).collect::<Vec<_>>()
        };
        let own = self.0.iter().filter(|(path, _)| !hawser_driver::is_library(path));
        own.flat_map(of_file).collect()
    }

    /// Compiles the program with one file changed. Returns `None` if the checker rejects it.
    #[must_use]
    pub fn compile(&self, file: &str, mutant: &Mutant) -> Option<Module> {
        let changed = |(path, text): &(String, String)| {
            let text = if path == file {
                mutant.applied(text)
            } else {
                text.clone()
            };
            (path.clone(), text)
        };
        let main = Path::new(&self.0.first()?.0);
        hawser_driver::compile_with(&MemoryLoader::new(self.0.iter().map(changed)), main).module
    }
}

/// Runs a scenario with this program instead of its own, interpreted. A run with more than `events_max`
/// events counts as failed. The programs of single hosts, and of an observer, stay as they are named.
///
/// # Errors
/// The reason why it cannot be run at all.
pub fn run(
    programs: &Programs,
    module: &Module,
    scenario: &Scenario,
    events_max: u64,
) -> Result<Report, RunError> {
    let named = resolver(programs, None);
    let resolve = |name: &str, settings: &[String]| -> Result<Arc<dyn Program>, hawser_sim::ResolveError> {
        if name != scenario.program {
            return named(name, settings);
        }
        let params = hawser_load::parse_params(&module.params, &module.enums, settings)?;
        Ok(Arc::new(Interpreted::new(module.clone(), &params)?))
    };
    let options = hawser_sim::Options { events_max, ..Default::default() };
    hawser_sim::run(scenario, &resolve, options)
}
