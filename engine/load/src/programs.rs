//! Transport programs by name or by file, on a chosen engine.
//!
//! A name is that of a built-in program, an `.mtp` file, or a `.so` file that [`build`] made from one. An
//! [`Engine`] runs it. By default, `.mtp` files are interpreted, and all other programs run as machine code.

use std::collections::BTreeMap;
use std::sync::Arc;

use hawser_engine::program::Program;
use parking_lot::Mutex;

pub use crate::names as builtin_names;
pub use crate::{
    AttachError, Attachments, BuildError, Engine, Installed, LoadError, LoadedProgram, Machine, build, emit,
};
use crate::{ParamError, RunError, Unsupported};
pub use hawser_ir::{ADDRESS_HALVES, Module};

/// A program could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A setting does not fit the program's params.
    #[error(transparent)]
    Setting(#[from] ParamError),
    /// The program cannot run at all, or not with these params.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Error {
    /// Returns whether this machine lacks something, such as a C compiler, so that the request may be
    /// correct.
    #[must_use]
    pub fn is_environment(&self) -> bool {
        matches!(self, Error::Load(error) if error.is_environment())
    }

    /// Returns whether the request itself is wrong: an unknown built-in program, an unknown param, or a value
    /// that the param does not take.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Error::Setting(_) | Error::Run(RunError::Param(_)) | Error::Load(LoadError::Unknown(_))
        )
    }
}

/// Returns the program of this name, with params set to raw values. Durations are in nanoseconds.
///
/// # Errors
/// The fault in the program, or the names that exist.
pub fn resolve(name: &str, params: &[(String, u64)]) -> Result<Arc<dyn Program>, Error> {
    resolve_on(None, name, params)
}

/// Like [`resolve`], with params as users write them: `MIN_RTO=200ms`.
///
/// # Errors
/// As [`resolve`], and the invalid setting: an unknown name, another kind of value, or a value that does not
/// fit.
pub fn resolve_with(name: &str, settings: &[String]) -> Result<Arc<dyn Program>, Error> {
    resolve_with_on(None, name, settings)
}

/// Like [`resolve`], on a chosen engine. `None` selects the program's default engine.
///
/// # Errors
/// As [`resolve`], and the reason why the program does not run on that engine.
pub fn resolve_on(
    engine: Option<Engine>,
    name: &str,
    params: &[(String, u64)],
) -> Result<Arc<dyn Program>, Error> {
    Ok(LoadedProgram::open(name, engine)?.with(params)?)
}

/// Like [`resolve_with`], on a chosen engine.
///
/// # Errors
/// As [`resolve_with`], and the reason why the program does not run on that engine.
pub fn resolve_with_on(
    engine: Option<Engine>,
    name: &str,
    settings: &[String],
) -> Result<Arc<dyn Program>, Error> {
    set(&LoadedProgram::open(name, engine)?, settings)
}

/// The param that takes the rate of a program's link, in bits per second.
const LINK_RATE: &str = "LINK_RATE";

/// Like [`resolve_with_on`], on a link whose rate may be known, in bits per second. A program with the param
/// `LINK_RATE` gets the rate as its value, unless a setting states another one.
///
/// # Errors
/// As [`resolve_with_on`].
pub fn resolve_on_line(
    engine: Option<Engine>,
    name: &str,
    settings: &[String],
    rate: Option<u64>,
) -> Result<Arc<dyn Program>, Error> {
    let loaded = LoadedProgram::open(name, engine)?;
    let program = set(&loaded, settings)?;
    let param = |setting: &String| setting.split('=').next().unwrap_or_default().trim() == LINK_RATE;
    let asks = program
        .module()
        .params
        .iter()
        .any(|param| param.name == LINK_RATE);
    match rate.filter(|_| asks && !settings.iter().any(param)) {
        None => Ok(program),
        Some(rate) => set(&loaded, &[settings, &[format!("{LINK_RATE}={rate}")]].concat()),
    }
}

/// Checks that a program can run, since the language has more than the engine runs yet.
///
/// # Errors
/// The construct that does not run yet.
pub fn runs(module: &Module) -> Result<(), Unsupported> {
    crate::Interpreted::runs(module)
}

/// Sets a loaded program's params as users write them.
///
/// # Errors
/// The invalid setting, or a construct that does not run yet.
pub fn set(loaded: &LoadedProgram, settings: &[String]) -> Result<Arc<dyn Program>, Error> {
    let module = loaded.module();
    let params = crate::parse_params(&module.params, &module.enums, settings)?;
    Ok(loaded.with(&params)?)
}

/// A cache of programs by name. Each program is read, compiled and loaded once. It serves callers that run a
/// program many times, and names that come from files.
///
/// Machine code in a file (`.so`) has all rights of this process. Therefore, a library named by a scenario is
/// interpreted from its text. [`Programs::with_native_files`] states that the names are the user's own and
/// lifts this restriction.
#[derive(Debug, Default)]
pub struct Programs {
    known: Mutex<BTreeMap<(String, Option<Engine>), LoadedProgram>>,
    native_files: bool,
}

impl Programs {
    /// Sets whether the machine code of libraries may run.
    #[must_use]
    pub fn with_native_files(self, native_files: bool) -> Programs {
        Programs { native_files, ..self }
    }

    /// Returns the program of this name, on a chosen engine.
    ///
    /// # Errors
    /// The reason why the program cannot be run.
    pub fn open(&self, engine: Option<Engine>, name: &str) -> Result<LoadedProgram, LoadError> {
        let engine = match engine {
            Some(Engine::Native) if self.holds_back(name) => {
                return Err(LoadError::NativeNotAllowed(name.to_owned()));
            }
            None if self.holds_back(name) => Some(Engine::Interp),
            engine => engine,
        };
        let key = (name.to_owned(), engine);
        // The lock is held while a program is compiled, so that other callers wait for the result.
        let mut known = self.known.lock();
        if let Some(loaded) = known.get(&key) {
            return Ok(loaded.clone());
        }
        let loaded = LoadedProgram::open(name, engine)?;
        known.insert(key, loaded.clone());
        Ok(loaded)
    }

    /// Returns whether the program of this name has machine code that may not run.
    fn holds_back(&self, name: &str) -> bool {
        name.ends_with(".so") && !self.native_files
    }
}
