//! Builds a shared library from a checked program.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_documents::temporary::Folder;
use hawser_emit_c::{Emitted, Machine, Options};
use hawser_interp::{Interpreter, Unsupported};
use hawser_ir::{EventId, Module};

use super::{texts, toolchain};

/// A library could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The program uses a construct that does not run as machine code.
    #[error(transparent)]
    Unsupported(Unsupported),
    /// No C compiler was found.
    #[error(
        "cannot find the C compiler `{compiler}`: install one (Debian: apt install gcc libc6-dev; Fedora: dnf \
         install gcc; Alpine: apk add gcc musl-dev), or name yours with CC=…; programs run without one on the \
         interpreter (--engine interp)"
    )]
    NoCompiler {
        /// The command that was not found.
        compiler: String,
    },
    /// The compiler rejected the C. The emitter or the compiler's configuration is at fault.
    #[error("{compiler} cannot compile the program's C:\n{output}")]
    Compiler {
        /// The compiler's command.
        compiler: String,
        /// The compiler's messages.
        output: String,
    },
    /// A file could not be written, or a process could not be run.
    #[error("{what}: {error}")]
    Io {
        /// The operation that failed.
        what: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

/// Emits a program as one C file for a machine, with line marks that point into the program.
///
/// # Errors
/// The construct that does not run yet.
pub fn emit(module: &Module, machine: Machine) -> Result<String, Unsupported> {
    emitted(module, machine, None).map(|emitted| emitted.c)
}

/// Emits the chains of some events, and the code that reads and writes the program's packets, as one C file
/// for the kernel.
///
/// # Errors
/// The construct that does not run yet.
pub fn emit_chains(module: &Module, chains: Vec<EventId>) -> Result<String, Unsupported> {
    emitted(module, Machine::Ebpf, Some(chains)).map(|emitted| emitted.c)
}

pub(super) fn emitted(
    module: &Module,
    machine: Machine,
    chains: Option<Vec<EventId>>,
) -> Result<Emitted, Unsupported> {
    // The interpreter knows every construct that does not run.
    Interpreter::new(Arc::new(module.clone()), Vec::new())?;
    let options = Options { machine, chains, ..Options::default() };
    Ok(hawser_emit_c::emit(module, &options))
}

/// Compiles a module with the machine's C compiler and writes the library to `out`, completely or not at all.
/// Only the owner may write the file; otherwise it would not be loaded.
///
/// # Errors
/// The reason why no library was built. `out` is then unchanged.
pub fn build(module: &Module, out: &Path) -> Result<(), BuildError> {
    let Emitted { c, symbol, .. } =
        emitted(module, Machine::Native, None).map_err(BuildError::Unsupported)?;
    let whole = format!("{c}{}", texts::exports(module, &symbol));
    let io = |error| BuildError::Io { what: format!("cannot write {}", out.display()), error };
    // The temporary folder is on the same file system, so that the result can be renamed. No other user can
    // plant a link in it.
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

/// Builds a module in a temporary folder for immediate use. The file disappears with the folder.
pub(crate) fn compile_in(module: &Module) -> Result<(Folder, PathBuf), BuildError> {
    let io = |error| BuildError::Io { what: "cannot make a temporary folder".to_owned(), error };
    let folder = Folder::new().map_err(io)?;
    let file = folder.join(format!("{}.so", module.name));
    build(module, &file)?;
    Ok((folder, file))
}
