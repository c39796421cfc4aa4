//! A program by name, prepared for an engine. Params are set last.

use std::path::Path;
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_ir::Module;

use crate::builtin::checked;
use crate::library::{BuildError, Library, LibraryError, compile_in};
use crate::native::Code;
use crate::{Attached, Engine, Interpreted, Native, Rejected, RunError, builtin, load, names};

/// A program could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No built-in program has this name.
    #[error(
        "unknown program `{0}`: the built-in programs are {known}; the name of a file ends in .mtp, or in .so \
         if `hawser build` made it",
        known = names().collect::<Vec<_>>().join(", ")
    )]
    Unknown(String),
    /// The program's text does not pass the checker.
    #[error(transparent)]
    Rejected(Rejected),
    /// The library cannot be run.
    #[error(transparent)]
    Library(LibraryError),
    /// The program could not be compiled to machine code.
    #[error(transparent)]
    Build(BuildError),
    /// A file names the machine code of another file, which the user has not allowed.
    #[error(
        "{0} is not run as machine code, because a file names it, not the command line: use --allow-native to \
         run it, or --engine interp to interpret its text"
    )]
    NativeNotAllowed(String),
}

impl LoadError {
    /// Returns whether this machine lacks something, so that the program itself may be correct.
    #[must_use]
    pub fn is_environment(&self) -> bool {
        match self {
            LoadError::Build(error) => !matches!(error, BuildError::Unsupported(_)),
            LoadError::Unknown(_)
            | LoadError::Rejected(_)
            | LoadError::Library(_)
            | LoadError::NativeNotAllowed(_) => false,
        }
    }
}

/// A program that any number of stacks can run, each with its own params.
#[derive(Clone, Debug)]
pub struct LoadedProgram {
    /// The module, including attachments.
    module: Arc<Module>,
    /// The machine code; `None` if the program is interpreted.
    code: Option<Code>,
    /// The module from which the machine code was made, if attachments have changed the program since.
    own: Option<Arc<Module>>,
}

impl LoadedProgram {
    /// Loads the program of this name. The name is a file if it ends in `.mtp`, a library made by `hawser
    /// build` if it ends in `.so`, and otherwise a built-in program.
    ///
    /// Without an engine, `.mtp` files are interpreted and all other programs run as machine code. Machine
    /// code of an `.mtp` file is compiled on the spot with the machine's C compiler. To interpret a library,
    /// Hawser only reads its texts and does not run its code.
    ///
    /// # Errors
    /// The reason why the program cannot be run.
    pub fn open(name: &str, engine: Option<Engine>) -> Result<LoadedProgram, LoadError> {
        let engine = engine.unwrap_or(Engine::default_for(name));
        if name.ends_with(".so") {
            let path = Path::new(name);
            return match engine {
                Engine::Interp => Library::read(path).map(LoadedProgram::interpreted),
                Engine::Native => Library::open(path).map(|library| LoadedProgram::of_library(&library)),
            }
            .map_err(LoadError::Library);
        }
        if name.ends_with(".mtp") {
            let module = load(Path::new(name)).map_err(LoadError::Rejected)?;
            return match engine {
                Engine::Interp => Ok(LoadedProgram::interpreted(Arc::new(module))),
                Engine::Native => Ok(LoadedProgram::of_library(&LoadedProgram::compiled(&module)?)),
            };
        }
        let module = builtin(name).ok_or_else(|| LoadError::Unknown(name.to_owned()))?;
        let module = Arc::new(module.map_err(LoadError::Rejected)?);
        let code = Code::builtin(name).filter(|_| engine == Engine::Native);
        Ok(LoadedProgram { module, code, own: None })
    }

    fn interpreted(module: Arc<Module>) -> LoadedProgram {
        LoadedProgram { module, code: None, own: None }
    }

    fn of_library(library: &Library) -> LoadedProgram {
        LoadedProgram {
            module: library.module().clone(),
            code: Some(library.code().clone()),
            own: None,
        }
    }

    /// Compiles a module, opens the resulting library and removes its file at once.
    fn compiled(module: &Module) -> Result<Library, LoadError> {
        // A loaded library stays mapped after its folder is removed.
        let (_folder, file) = compile_in(module).map_err(LoadError::Build)?;
        Library::open(&file).map_err(LoadError::Library)
    }

    /// Returns the program's tables.
    #[must_use]
    pub fn module(&self) -> &Arc<Module> {
        &self.module
    }

    /// Returns the engine that will run the program.
    #[must_use]
    pub fn engine(&self) -> Engine {
        if self.code.is_some() {
            Engine::Native
        } else {
            Engine::Interp
        }
    }

    /// Returns the program with an attachment: the file `path` with this text, whose processors run before or
    /// after named ones. The changed chains are interpreted, on whichever engine the others run. Several
    /// attachments build on each other.
    ///
    /// # Errors
    /// The fault in the text.
    pub fn attach(&self, path: &Path, text: &str) -> Result<LoadedProgram, LoadError> {
        let compilation = hawser_driver::attach(&self.module, &[(path, text)]);
        let module = checked(compilation).map_err(LoadError::Rejected)?;
        let own = self.own.clone().unwrap_or_else(|| self.module.clone());
        Ok(LoadedProgram { module: Arc::new(module), code: self.code.clone(), own: Some(own) })
    }

    /// Sets the program's params. Params that are absent from `params` keep their defaults.
    ///
    /// # Errors
    /// Fails on a param that the program does not have, or on a construct that does not run yet.
    pub fn with(&self, params: &[(String, u64)]) -> Result<Arc<dyn Program>, RunError> {
        let values = self.module.params_with(params)?;
        let interpreted = |values| Interpreted::from_module(self.module.clone(), values);
        let Some(code) = &self.code else {
            return Ok(Arc::new(interpreted(values)?));
        };
        let Some(own) = &self.own else {
            return Ok(Arc::new(Native::new(self.module.clone(), values, code.clone())?));
        };
        // The params of attachments follow the program's own.
        let own_values = values.iter().take(own.params.len()).copied().collect();
        let native = Native::new(own.clone(), own_values, code.clone())?;
        Ok(Arc::new(Attached::new(Arc::new(native), interpreted(values)?)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second program must not be mistaken for the first, even if its file gets the descriptor that the
    /// first had.
    #[test]
    fn two_native_programs_are_loaded_separately() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let open = |file: &str| {
            let name = folder.join(file).display().to_string();
            LoadedProgram::open(&name, Some(Engine::Native)).unwrap_or_else(|error| panic!("{error}"))
        };
        let files = ["../../examples/stop-and-wait.mtp", "../../examples/go-back-n.mtp"];
        for (loaded, file) in files.map(open).iter().zip(files) {
            let names = |module: &Module| module.contexts.iter().map(|c| c.name.clone()).collect::<Vec<_>>();
            let right = load(&folder.join(file)).unwrap_or_else(|rejected| panic!("{rejected}"));
            assert_eq!(names(loaded.module()), names(&right), "{file}");
            assert_eq!(loaded.engine(), Engine::Native);
        }
    }
}
