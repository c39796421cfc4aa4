//! Transport programs by name or by file, on the engine of choice.
//!
//! A name is that of a built-in program, a file that ends in `.mtp`, or one that ends in `.so`,
//! which [`build`] made of such a file. An [`Engine`] runs it: where none is chosen, `.mtp` files are
//! interpreted, and everything else runs as machine code.

use std::collections::BTreeMap;
use std::sync::Arc;

use hawser_engine::program::Program;
use parking_lot::Mutex;

pub use crate::names as builtin_names;
pub use crate::{
    AttachError, Attachments, BuildError, Engine, Installed, LoadError, Loaded, Machine, build, emit,
};
use crate::{ParamError, RunError, Unsupported};
pub use hawser_ir::Module;

/// Why there is no program to run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A setting does not fit its params.
    #[error(transparent)]
    Setting(#[from] ParamError),
    /// It cannot run, or not with these params.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Error {
    /// Whether this machine lacks something (a C compiler), and what was asked for may be right.
    #[must_use]
    pub fn is_environment(&self) -> bool {
        matches!(self, Error::Load(error) if error.is_environment())
    }

    /// Whether what was asked for does not exist: no such built-in program, no such param, or a value
    /// that it does not take.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Error::Setting(_) | Error::Run(RunError::Param(_)) | Error::Load(LoadError::Unknown(_))
        )
    }
}

/// The program that `name` means, with params set to raw values, durations in nanoseconds.
///
/// # Errors
/// What is wrong with the program, or which names there are.
pub fn resolve(name: &str, params: &[(String, u64)]) -> Result<Arc<dyn Program>, Error> {
    resolve_on(None, name, params)
}

/// The same, with params as a user writes them: `MIN_RTO=200ms`.
///
/// # Errors
/// Also which setting is wrong: an unknown name, another kind of value, one that does not fit.
pub fn resolve_with(name: &str, settings: &[String]) -> Result<Arc<dyn Program>, Error> {
    resolve_with_on(None, name, settings)
}

/// As [`resolve`], on an engine; `None`: the one that runs such a program by default.
///
/// # Errors
/// As [`resolve`], and why it does not run on that engine.
pub fn resolve_on(
    engine: Option<Engine>,
    name: &str,
    params: &[(String, u64)],
) -> Result<Arc<dyn Program>, Error> {
    Ok(Loaded::open(name, engine)?.with(params)?)
}

/// As [`resolve_with`], on an engine.
///
/// # Errors
/// As [`resolve_with`], and why it does not run on that engine.
pub fn resolve_with_on(
    engine: Option<Engine>,
    name: &str,
    settings: &[String],
) -> Result<Arc<dyn Program>, Error> {
    set(&Loaded::open(name, engine)?, settings)
}

/// The param by which a program is told the rate of its line, in bits per second.
const LINK_RATE: &str = "LINK_RATE";

/// As [`resolve_with_on`], on a line whose rate in bits per second is known perhaps: a program that has the param
/// `LINK_RATE` gets it there, unless the settings say another one.
///
/// # Errors
/// As [`resolve_with_on`].
pub fn resolve_on_line(
    engine: Option<Engine>,
    name: &str,
    settings: &[String],
    rate: Option<u64>,
) -> Result<Arc<dyn Program>, Error> {
    let loaded = Loaded::open(name, engine)?;
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

/// Whether a checked program can run: the language has more than the engine runs yet.
///
/// # Errors
/// The construct that does not run yet.
pub fn runs(module: &Module) -> Result<(), Unsupported> {
    crate::Interpreted::runs(module)
}

/// A program with params as a user writes them.
///
/// # Errors
/// Which setting is wrong, or that the program holds what does not run yet.
pub fn set(loaded: &Loaded, settings: &[String]) -> Result<Arc<dyn Program>, Error> {
    let module = loaded.module();
    let params = crate::parse_params(&module.params, &module.enums, settings)?;
    Ok(loaded.with(&params)?)
}

/// Programs by name, each read, compiled and loaded once: for those who run one many times, and for
/// names that come from files.
///
/// Machine code in a file (`.so`) can do all that this process can. A name that a scenario gives is
/// therefore interpreted, from the text in the library, unless [`Programs::with_native_files`] says
/// that the names are the user's own.
#[derive(Debug, Default)]
pub struct Programs {
    known: Mutex<BTreeMap<(String, Option<Engine>), Loaded>>,
    native_files: bool,
}

impl Programs {
    /// Also runs the machine code of libraries.
    #[must_use]
    pub fn with_native_files(self, native_files: bool) -> Programs {
        Programs { native_files, ..self }
    }

    /// The program that `name` means, on an engine.
    ///
    /// # Errors
    /// Why it cannot be run.
    pub fn open(&self, engine: Option<Engine>, name: &str) -> Result<Loaded, LoadError> {
        let engine = match engine {
            Some(Engine::Native) if self.holds_back(name) => {
                return Err(LoadError::NativeNotAllowed(name.to_owned()));
            }
            None if self.holds_back(name) => Some(Engine::Interp),
            engine => engine,
        };
        let key = (name.to_owned(), engine);
        // Held while one is compiled: whoever wants the same waits for it.
        let mut known = self.known.lock();
        if let Some(loaded) = known.get(&key) {
            return Ok(loaded.clone());
        }
        let loaded = Loaded::open(name, engine)?;
        known.insert(key, loaded.clone());
        Ok(loaded)
    }

    /// Whether the machine code that a name means is not run.
    fn holds_back(&self, name: &str) -> bool {
        name.ends_with(".so") && !self.native_files
    }
}
