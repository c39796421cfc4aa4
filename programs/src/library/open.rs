//! From a shared library to a module and its code.
//!
//! Opening a library runs what is in it. So the file is looked at first: a regular file that only
//! its owner can write, and the owner is this process's user or root.

use std::ffi::{CStr, c_char};
use std::fmt;
use std::fs::{File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_driver::{Memory, compile_with};
use hawser_emit_c::abi::{ABI, Entry, RawProgram};
use hawser_ir::Module;

use super::make::emitted;
use crate::builtin::{Rejected, checked};
use crate::native::{Code, Mapped};

/// The most files of a program, and the most bytes of one: beyond the compiler's own limits.
const MOST: u64 = 1 << 24;

/// Why a file is not run.
#[derive(Debug)]
pub enum LibraryError {
    /// It is not there, or no library of this machine.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// Others than this user and root could have put something into it.
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It is no transport program.
    Foreign(PathBuf),
    /// Another Hawser made it, or its text does not belong to its code.
    Stale(PathBuf),
    /// Its text does not pass this Hawser's checker.
    Rejected(Rejected),
}

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LibraryError::Unreadable { path, why } => write!(f, "cannot load {}: {why}", path.display()),
            LibraryError::NotOurs { path, why } => {
                write!(
                    f,
                    "{} is not run: {why}; machine code is run only from files that nobody but you \
                     or root can change",
                    path.display()
                )
            }
            LibraryError::Foreign(path) => {
                write!(
                    f,
                    "{} holds no transport program; make one with: hawser build FILE.mtp",
                    path.display()
                )
            }
            LibraryError::Stale(path) => write!(
                f,
                "{} was made by another version of Hawser, or was changed since: build it again with: hawser \
                 build FILE.mtp -o {}",
                path.display(),
                path.display()
            ),
            LibraryError::Rejected(rejected) => rejected.fmt(f),
        }
    }
}

impl std::error::Error for LibraryError {}

/// `hw_text`: a file of the program.
#[repr(C)]
struct RawText {
    path: *const c_char,
    path_len: u64,
    text: *const c_char,
    text_len: u64,
}

/// `hw_library`: what a library exports, under this name.
#[repr(C)]
struct RawLibrary {
    abi: u32,
    texts: u32,
    text: *const RawText,
    program: Option<Entry>,
}

const NAME: &[u8] = b"hawser_library\0";

/// A loadable program: its module, and its code as long as anything uses it.
#[derive(Clone, Debug)]
pub struct Library {
    module: Arc<Module>,
    code: Code,
}

impl Library {
    /// Opens a file that [`super::build`] made.
    ///
    /// # Errors
    /// Why it is not run.
    pub fn open(path: &Path) -> Result<Library, LibraryError> {
        let file = trusted(path)?;
        // By its descriptor, so that what is loaded is what was looked at.
        let same = format!("/proc/self/fd/{}", file.as_raw_fd());
        // SAFETY: opening runs the library's initialisers. Nobody but this user or root could write
        // the file, and what they put there they could as well run themselves.
        let library = unsafe { libloading::Library::new(same) }.map_err(|error| {
            unreadable(path, error.to_string().replace(&format!("/proc/self/fd/{}: ", file.as_raw_fd()), ""))
        })?;
        let mapped = Mapped { library, _file: file };
        let foreign = || LibraryError::Foreign(path.to_owned());
        // SAFETY: the symbol, if there is one, was written by `texts::exports`, whose C declares it
        // with the fields of `RawLibrary`; the first field is the version that says so.
        let raw = unsafe { mapped.library.get::<*const RawLibrary>(NAME) }.map_err(|_| foreign())?;
        // SAFETY: the symbol's address is that of a constant that lives as long as the library.
        let raw: &'static RawLibrary = unsafe { (*raw).as_ref() }.ok_or_else(foreign)?;
        let stale = || LibraryError::Stale(path.to_owned());
        if raw.abi != ABI {
            return Err(stale());
        }
        let texts = texts(raw).ok_or_else(foreign)?;
        let entry = raw.program.ok_or_else(foreign)?;
        // SAFETY: a function of the library that takes nothing and gives the address of a constant
        // in it.
        let program: &'static RawProgram = unsafe { entry().as_ref() }.ok_or_else(foreign)?;
        if (program.abi, program.size as usize) != (ABI, size_of::<RawProgram>()) {
            return Err(stale());
        }
        let (main, _) = texts.first().ok_or_else(foreign)?;
        let compilation = compile_with(&Memory::new(texts.iter().cloned()), Path::new(main));
        let module = checked(compilation).map_err(LibraryError::Rejected)?;
        // SAFETY: the emitter ends the digest with a zero.
        let digest = unsafe { CStr::from_ptr(program.digest) };
        if emitted(&module).ok().is_none_or(|c| digest.to_bytes() != c.digest.as_bytes()) {
            return Err(stale());
        }
        // SAFETY: the digest says that the code was made from the C that this emitter makes of this
        // module.
        let code = unsafe { Code::loaded(program, Arc::new(mapped)) };
        Ok(Library { module: Arc::new(module), code })
    }

    /// The program.
    #[must_use]
    pub fn module(&self) -> &Arc<Module> {
        &self.module
    }

    /// Its code.
    pub(crate) fn code(&self) -> &Code {
        &self.code
    }
}

fn unreadable(path: &Path, why: impl fmt::Display) -> LibraryError {
    LibraryError::Unreadable { path: path.to_owned(), why: why.to_string() }
}

/// The user that this process acts as.
fn own_user() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// A file whose code may be run.
fn trusted(path: &Path) -> Result<File, LibraryError> {
    let not_ours = |why| LibraryError::NotOurs { path: path.to_owned(), why };
    // Before opening: opening a pipe would wait for its writer.
    let found = std::fs::metadata(path).map_err(|error| unreadable(path, error))?;
    mistrust(&found, own_user()).map_or(Ok(()), |why| Err(not_ours(why)))?;
    let file = File::open(path).map_err(|error| unreadable(path, error))?;
    let found = file.metadata().map_err(|error| unreadable(path, error))?;
    mistrust(&found, own_user()).map_or(Ok(file), |why| Err(not_ours(why)))
}

/// Why a file's code is not run, if it is not.
fn mistrust(found: &Metadata, user: u32) -> Option<&'static str> {
    mistrust_of(found.is_file(), found.uid(), found.mode(), user)
}

fn mistrust_of(is_file: bool, owner: u32, mode: u32, user: u32) -> Option<&'static str> {
    match () {
        () if !is_file => Some("it is no regular file"),
        () if owner != user && owner != 0 => Some("it belongs to another user"),
        () if mode & 0o022 != 0 => Some("others can write it (chmod go-w)"),
        () => None,
    }
}

/// The program's files, path and text; nothing where that is not what the library holds.
fn texts(raw: &RawLibrary) -> Option<Vec<(String, String)>> {
    let text = |i: usize| {
        // SAFETY: `texts` counts the constants of the table that `text` points to.
        let row = unsafe { raw.text.add(i).as_ref() }?;
        Some((string(row.path, row.path_len)?, string(row.text, row.text_len)?))
    };
    if u64::from(raw.texts) > MOST || raw.text.is_null() {
        return None;
    }
    (0..raw.texts as usize).map(text).collect()
}

fn string(at: *const c_char, len: u64) -> Option<String> {
    if at.is_null() || len > MOST {
        return None;
    }
    // SAFETY: the library's constants have the lengths that stand beside them; `texts::exports` wrote
    // both.
    let bytes = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), len as usize) };
    String::from_utf8(bytes.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_nobody_else_can_write_are_run() {
        for (is_file, owner, mode, why) in [
            (true, 1000, 0o755, None),
            (true, 1000, 0o600, None),
            (true, 0, 0o755, None),
            (false, 1000, 0o755, Some("it is no regular file")),
            (true, 1001, 0o755, Some("it belongs to another user")),
            (true, 1000, 0o775, Some("others can write it (chmod go-w)")),
            (true, 0, 0o757, Some("others can write it (chmod go-w)")),
        ] {
            assert_eq!(mistrust_of(is_file, owner, mode, 1000), why, "{owner} {mode:o}");
        }
    }
}
