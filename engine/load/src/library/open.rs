//! From a shared library to a module and its code.
//!
//! [`Library::read`] takes the texts out of the file and runs no code. [`Library::open`] also loads the code,
//! which runs its initialisers. It therefore checks the file first. The file must be regular, owned by this
//! process's user or by root, and writable only by its owner. By then, the texts have passed the checker.

use std::ffi::CStr;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_driver::{MemoryLoader, compile_with};
use hawser_emit_c::Machine;
use hawser_emit_c::abi::{ABI, Entry, RawProgram};
use hawser_ir::Module;

use super::make::emitted;
use super::texts::{TextsError, texts_of};
use crate::builtin::{Rejected, checked};
use crate::native::{Code, Mapped};

/// The maximum size of a library in bytes, 64 MiB. The compiler's output for a program at its limits is far
/// smaller.
const MAX_LIBRARY_BYTES: u64 = 1 << 26;

/// A library could not be run.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The file does not exist, or is not a library for this machine.
    #[error("cannot load {}: {why}", .path.display())]
    Unreadable {
        /// The path of the library.
        path: PathBuf,
        /// The system's error.
        why: String,
    },
    /// Users other than this one and root could have written to the file.
    #[error(
        "{} is not run: {why}; machine code is run only from files that only you or root can change",
        .path.display()
    )]
    NotOurs {
        /// The path of the library.
        path: PathBuf,
        /// The fault in its owner or its mode.
        why: &'static str,
    },
    /// The file is not a transport program.
    #[error("{} contains no transport program; make one with: hawser build FILE.mtp", .0.display())]
    Foreign(PathBuf),
    /// Another build of Hawser made the library, or its text does not match its code.
    #[error(
        "{path} was made by another version of Hawser, or has been changed: build it again with: hawser build \
         FILE.mtp -o {path}",
        path = .0.display()
    )]
    Stale(PathBuf),
    /// The text does not pass this build's checker.
    #[error(transparent)]
    Rejected(Rejected),
}

/// Returns the program's texts in the bytes of a library, the main one first, like [`Library::read`]. Returns
/// `None` if the bytes are not a library of this build.
#[must_use]
pub fn texts_in_library(library: &[u8]) -> Option<Vec<(String, String)>> {
    texts_of(library).ok()
}

/// `hw_library`, the table that a library exports under this name.
#[repr(C)]
struct RawLibrary {
    abi: u32,
    program: Option<Entry>,
}

const NAME: &[u8] = b"hawser_library\0";

/// A loadable program: its module, and its code, which stays loaded while it is in use.
#[derive(Clone, Debug)]
pub struct Library {
    module: Arc<Module>,
    code: Code,
}

impl Library {
    /// Reads the program in a file that [`super::build`] made, from its texts. No code of the file runs, so
    /// that its owner and mode do not matter.
    ///
    /// # Errors
    /// The reason why the file holds no usable program.
    pub fn read(path: &Path) -> Result<Arc<Module>, LibraryError> {
        // The type is checked before opening, because opening a pipe would wait for its writer.
        let found = std::fs::metadata(path).map_err(|error| unreadable(path, error))?;
        if !found.is_file() {
            return Err(LibraryError::NotOurs { path: path.to_owned(), why: NO_FILE });
        }
        checked_texts(path, &File::open(path).map_err(|error| unreadable(path, error))?)
    }

    /// Opens a file that [`super::build`] made, including its code.
    ///
    /// # Errors
    /// The reason why the file is not run.
    pub fn open(path: &Path) -> Result<Library, LibraryError> {
        let file = trusted(path)?;
        let module = checked_texts(path, &file)?;
        // The path goes through the descriptor, so that the loaded file is the file that was checked.
        let same = format!("/proc/self/fd/{}", file.as_raw_fd());
        // SAFETY: opening runs the library's initialisers. Only this user or root could write the file, and
        // either could run that code directly.
        let library = unsafe { libloading::Library::new(same) }.map_err(|error| {
            unreadable(
                path,
                error
                    .to_string()
                    .replace(&format!("/proc/self/fd/{}: ", file.as_raw_fd()), ""),
            )
        })?;
        let mapped = Mapped { library, _file: file };
        let foreign = || LibraryError::Foreign(path.to_owned());
        // SAFETY: if the symbol exists, `texts::exports` wrote it, whose C declares it with the fields of
        // `RawLibrary`. The first field is the version, which confirms that.
        let raw = unsafe { mapped.library.get::<*const RawLibrary>(NAME) }.map_err(|_| foreign())?;
        // SAFETY: the symbol's address is that of a constant that lives as long as the library.
        let raw: &'static RawLibrary = unsafe { (*raw).as_ref() }.ok_or_else(foreign)?;
        let stale = || LibraryError::Stale(path.to_owned());
        if raw.abi != ABI {
            return Err(stale());
        }
        let entry = raw.program.ok_or_else(foreign)?;
        // SAFETY: a function of the library that takes no arguments and returns the address of a constant in
        // the library.
        let program: &'static RawProgram = unsafe { entry().as_ref() }.ok_or_else(foreign)?;
        if (program.abi, program.size as usize) != (ABI, size_of::<RawProgram>()) {
            return Err(stale());
        }
        // SAFETY: the emitter ends the digest with a zero.
        let digest = unsafe { CStr::from_ptr(program.digest) };
        if emitted(&module, Machine::Native, None)
            .ok()
            .is_none_or(|c| digest.to_bytes() != c.digest.as_bytes())
        {
            return Err(stale());
        }
        // SAFETY: the digest shows that the code was made from the C that this emitter makes of this module.
        let code = unsafe { Code::loaded(program, Arc::new(mapped)) };
        Ok(Library { module, code })
    }

    /// Returns the program's module.
    #[must_use]
    pub fn module(&self) -> &Arc<Module> {
        &self.module
    }

    /// Returns the program's code.
    pub(crate) fn code(&self) -> &Code {
        &self.code
    }
}

/// Compiles and checks the texts in a library.
fn checked_texts(path: &Path, file: &File) -> Result<Arc<Module>, LibraryError> {
    let mut bytes = Vec::new();
    file.take(MAX_LIBRARY_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, error))?;
    if bytes.len() as u64 > MAX_LIBRARY_BYTES {
        return Err(unreadable(
            path,
            format!("the file has more than {MAX_LIBRARY_BYTES} bytes"),
        ));
    }
    let texts = texts_of(&bytes).map_err(|error| match error {
        TextsError::Foreign => LibraryError::Foreign(path.to_owned()),
        TextsError::Stale => LibraryError::Stale(path.to_owned()),
    })?;
    let (main, _) = texts
        .first()
        .ok_or_else(|| LibraryError::Foreign(path.to_owned()))?;
    let compilation = compile_with(&MemoryLoader::new(texts.iter().cloned()), Path::new(main));
    checked(compilation).map(Arc::new).map_err(LibraryError::Rejected)
}

fn unreadable(path: &Path, why: impl fmt::Display) -> LibraryError {
    LibraryError::Unreadable { path: path.to_owned(), why: why.to_string() }
}

/// Returns the effective user of this process.
fn own_user() -> u32 {
    // SAFETY: the call takes no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// Opens a file if its code may be run.
fn trusted(path: &Path) -> Result<File, LibraryError> {
    let not_ours = |why| LibraryError::NotOurs { path: path.to_owned(), why };
    // The type is checked before opening, because opening a pipe would wait for its writer.
    let found = std::fs::metadata(path).map_err(|error| unreadable(path, error))?;
    mistrust(&found, own_user()).map_or(Ok(()), |why| Err(not_ours(why)))?;
    let file = File::open(path).map_err(|error| unreadable(path, error))?;
    let found = file.metadata().map_err(|error| unreadable(path, error))?;
    mistrust(&found, own_user()).map_or(Ok(file), |why| Err(not_ours(why)))
}

const NO_FILE: &str = "the path is not a regular file";

/// Returns the reason why a file's code may not be run, if there is one.
fn mistrust(found: &Metadata, user: u32) -> Option<&'static str> {
    mistrust_of(found.is_file(), found.uid(), found.mode(), user)
}

fn mistrust_of(is_file: bool, owner: u32, mode: u32, user: u32) -> Option<&'static str> {
    match () {
        () if !is_file => Some(NO_FILE),
        () if owner != user && owner != 0 => Some("the file belongs to another user"),
        () if mode & 0o022 != 0 => Some("other users can write to the file (chmod go-w)"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_no_other_user_can_write_are_loaded() {
        for (is_file, owner, mode, why) in [
            (true, 1000, 0o755, None),
            (true, 1000, 0o600, None),
            (true, 0, 0o755, None),
            (false, 1000, 0o755, Some("the path is not a regular file")),
            (true, 1001, 0o755, Some("the file belongs to another user")),
            (
                true,
                1000,
                0o775,
                Some("other users can write to the file (chmod go-w)"),
            ),
            (
                true,
                0,
                0o757,
                Some("other users can write to the file (chmod go-w)"),
            ),
        ] {
            assert_eq!(mistrust_of(is_file, owner, mode, 1000), why, "{owner} {mode:o}");
        }
    }
}
