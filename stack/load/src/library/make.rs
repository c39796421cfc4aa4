//! Builds a shared library from a checked program.

use std::fmt;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_emit_c::{Emitted, Machine, Options};
use hawser_interp::{Interpreter, Unsupported};
use hawser_ir::{EventId, Module};
use hawser_temporary::Folder;

use super::{texts, toolchain};

/// Why no library was made.
#[derive(Debug)]
pub enum BuildError {
    /// The program has a construct that does not run as machine code.
    Unsupported(Unsupported),
    /// There is no C compiler.
    NoCompiler {
        /// What was looked for.
        compiler: String,
    },
    /// The compiler rejected the C: a bug of the emitter, or of the compiler's set-up.
    Compiler {
        /// Which one.
        compiler: String,
        /// Its messages.
        output: String,
    },
    /// A file cannot be written, or a process not run.
    Io {
        /// What was tried.
        what: String,
        /// The error of the system.
        error: io::Error,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Unsupported(unsupported) => unsupported.fmt(f),
            BuildError::NoCompiler { compiler } => write!(
                f,
                "there is no C compiler `{compiler}` here: install one (Debian: apt install gcc libc6-dev; \
                 Fedora: dnf install gcc; Alpine: apk add gcc musl-dev), or name yours with CC=…; programs \
                 run without one on the interpreter (--engine interp)"
            ),
            BuildError::Compiler { compiler, output } => {
                write!(f, "{compiler} does not compile the program's C:\n{output}")
            }
            BuildError::Io { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Io { error, .. } => Some(error),
            BuildError::Unsupported(_) | BuildError::NoCompiler { .. } | BuildError::Compiler { .. } => None,
        }
    }
}

/// A program as one C file for a machine, its lines marked with those of the program.
///
/// # Errors
/// A construct that does not run yet.
pub fn emit(module: &Module, machine: Machine) -> Result<String, Unsupported> {
    emitted(module, machine, None).map(|emitted| emitted.c)
}

/// The chains of some events of a program, and what reads and writes its packets, as one C file for the kernel.
///
/// # Errors
/// A construct that does not run yet.
pub fn emit_chains(module: &Module, chains: Vec<EventId>) -> Result<String, Unsupported> {
    emitted(module, Machine::Ebpf, Some(chains)).map(|emitted| emitted.c)
}

pub(super) fn emitted(
    module: &Module,
    machine: Machine,
    chains: Option<Vec<EventId>>,
) -> Result<Emitted, Unsupported> {
    // The interpreter knows what runs at all.
    Interpreter::new(Arc::new(module.clone()), Vec::new())?;
    let options = Options { machine, chains, ..Options::default() };
    Ok(hawser_emit_c::emit(module, &options))
}

/// Makes a loadable program of a module, with the machine's C compiler, and puts it at `out`: all of
/// it or nothing. Nobody but the owner may write the file, or it would not be loaded.
///
/// # Errors
/// Why there is none; what was at `out` is then as before.
pub fn build(module: &Module, out: &Path) -> Result<(), BuildError> {
    let Emitted { c, symbol, .. } =
        emitted(module, Machine::Native, None).map_err(BuildError::Unsupported)?;
    let whole = format!("{c}{}", texts::exports(module, &symbol));
    let io = |error| BuildError::Io { what: format!("cannot write {}", out.display()), error };
    // In the same folder, so that it can be renamed; nobody else can put a link in its place.
    let parent = out
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let folder = Folder::within(parent).map_err(io)?;
    let made = folder.join("made.so");
    toolchain::compile(&whole, &made)?;
    std::fs::set_permissions(&made, Permissions::from_mode(0o755)).map_err(io)?;
    std::fs::rename(&made, out).map_err(io)
}

/// Builds a module in a folder of its own, for use at once; gives the file, which goes with the folder.
pub(crate) fn compile_in(module: &Module) -> Result<(Folder, PathBuf), BuildError> {
    let io = |error| BuildError::Io { what: "cannot make a temporary folder".to_owned(), error };
    let folder = Folder::new().map_err(io)?;
    let file = folder.join(format!("{}.so", module.name));
    build(module, &file)?;
    Ok((folder, file))
}
