//! Runs scripts against a program, by its name or its file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_load::{Engine, LoadError, LoadedProgram, RunError};

use super::{
    Departures, DeparturesError, IpVersion, Leniency, Observe, RunTarget, ScriptEnvironment, ScriptReport,
    System, Table, TableError, run,
};

/// A program that is set up to run scripts.
pub struct Scripts {
    loaded: LoadedProgram,
    table: Table,
    departures: Departures,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The system for which the scripts were written. Its settings apply, and declared differences in form
    /// are not compared.
    pub system: Option<System>,
    /// The environment. On a device, the process must be in its own network namespace.
    pub target: RunTarget,
    /// The IP version of scripts that state none.
    pub version: IpVersion,
    /// Words to replace, as in packetdrill's `-D NAME=VALUE`.
    pub defines: Vec<(String, String)>,
    /// Params of the program, as raw values.
    pub params: Vec<(String, u64)>,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            system: None,
            target: RunTarget::Sim,
            version: IpVersion::V4,
            defines: Vec::new(),
            params: Vec::new(),
        }
    }
}

/// A program could not be set up to run scripts.
#[derive(Debug, thiserror::Error)]
pub enum ScriptsError {
    /// The program could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The program's `script.toml` could not be parsed.
    #[error("script.toml: {0}")]
    Table(#[from] TableError),
    /// The program's list of departures could not be parsed.
    #[error("departures.toml: {0}")]
    Departures(#[from] DeparturesError),
}

/// A file or a folder of scripts could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {error}", path.display())]
pub struct FindError {
    /// The file or folder.
    pub path: PathBuf,
    /// The system's error.
    pub error: std::io::Error,
}

impl Scripts {
    /// Sets up a program for scripts. The name is that of a built-in program, or of an `.mtp` file with its
    /// `script.toml` beside it.
    ///
    /// # Errors
    /// The reason why the program cannot run on that engine, or the fault in its files for scripts.
    pub fn new(program: &str, engine: Option<Engine>) -> Result<Scripts, ScriptsError> {
        let loaded = LoadedProgram::open(program, engine)?;
        let beside = |file: &str| -> Option<String> {
            let folder = Path::new(program).parent()?;
            program
                .ends_with(".mtp")
                .then(|| {
                    hawser_documents::files::named(&folder.join(file), hawser_documents::files::DOCUMENT_MAX)
                        .ok()
                })
                .flatten()
        };
        let table = hawser_load::script_table(program)
            .map(str::to_owned)
            .or_else(|| beside("script.toml"));
        let table = Table::parse(&table.unwrap_or_default())?;
        let departures = hawser_load::departures(program).map(str::to_owned);
        let departures = departures
            .or_else(|| beside("scripts/departures.toml"))
            .unwrap_or_default();
        let departures = Departures::parse(&departures)?;
        Ok(Scripts { loaded, table, departures })
    }

    /// Returns the engine that runs the program.
    #[must_use]
    pub fn engine(&self) -> Engine {
        self.loaded.engine()
    }

    /// Returns the program's declared departures.
    #[must_use]
    pub fn departures(&self) -> &Departures {
        &self.departures
    }

    /// Runs the script in `text`, which came from `path`, in virtual time.
    #[must_use]
    pub fn run(&self, path: &Path, text: &str, options: &RunOptions) -> ScriptReport {
        self.run_observed(path, text, options, None)
    }

    /// Like `Scripts::run`. `observe` receives the stack and the time before the run begins.
    #[must_use]
    pub fn run_observed(
        &self,
        path: &Path,
        text: &str,
        options: &RunOptions,
        observe: Option<Observe<'_>>,
    ) -> ScriptReport {
        let program = |params: &[(String, u64)]| -> Result<Arc<dyn Program>, RunError> {
            let mut all = options.params.clone();
            all.extend(
                params
                    .iter()
                    .filter(|(name, _)| !options.params.iter().any(|(n, _)| n == name))
                    .cloned(),
            );
            self.loaded.with(&all)
        };
        let leniency = match options.system {
            Some(system) => self.departures.leniency(system),
            None => Leniency::default(),
        };
        let bench = ScriptEnvironment {
            program: &program,
            table: &self.table,
            read: &|path| {
                hawser_documents::files::named(Path::new(path), hawser_documents::files::DOCUMENT_MAX).ok()
            },
            defines: options.defines.iter().cloned().collect(),
            version: options.version,
            target: options.target,
            system: options.system,
            leniency,
            observe,
        };
        run(text, path.parent().unwrap_or(Path::new("")), &bench)
    }
}

/// Returns all scripts below these files and folders, sorted.
///
/// # Errors
/// The first file or folder that cannot be read.
pub fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, FindError> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            walk(path, 0, &mut found)?
        } else {
            found.push(path.clone())
        }
    }
    Ok(found)
}

/// The maximum depth of the search in folders.
const MAX_DEPTH: usize = 16;

fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), FindError> {
    let cannot = |error| FindError { path: folder.to_owned(), error };
    let entries = std::fs::read_dir(folder).map_err(cannot)?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(cannot)?;
    paths.sort();
    for path in paths {
        if path.is_dir() && depth < MAX_DEPTH {
            walk(&path, depth + 1, found)?;
        } else if path.extension().is_some_and(|extension| extension == "pkt") {
            found.push(path);
        }
    }
    Ok(())
}
