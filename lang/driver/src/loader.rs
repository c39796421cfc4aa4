//! Where texts come from: the disk, or memory for programs that are built in and for tests.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use hawser_syntax::MAX_TEXT_BYTES;

/// Gives texts by path.
pub trait Loader {
    /// The one name of a file, however it is reached; a file is loaded once under it.
    fn identity(&self, path: &Path) -> PathBuf;

    /// The text of a file.
    ///
    /// # Errors
    /// When there is none, or it is no text.
    fn load(&self, path: &Path) -> Result<String, LoadError>;

    /// The file that an import of this one means: another where a part of a program is exchanged.
    fn meant(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }
}

/// A program with one of its files exchanged for another, wherever it is imported.
pub struct Instead<'a> {
    /// Where the texts come from.
    pub loader: &'a dyn Loader,
    /// The file that is not to be used.
    pub part: &'a Path,
    /// The one in its place.
    pub other: &'a Path,
}

impl Loader for Instead<'_> {
    fn identity(&self, path: &Path) -> PathBuf {
        self.loader.identity(path)
    }

    fn load(&self, path: &Path) -> Result<String, LoadError> {
        self.loader.load(path)
    }

    fn meant(&self, path: &Path) -> PathBuf {
        let is_part = self.loader.identity(path) == self.loader.identity(self.part);
        if is_part {
            self.other.to_path_buf()
        } else {
            self.loader.meant(path)
        }
    }
}

/// Why a text could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// There is no such file.
    Missing,
    /// It is a directory, a device, a pipe.
    NotAFile,
    /// It has more than [`MAX_TEXT_BYTES`] bytes.
    TooLarge,
    /// It is not UTF-8.
    NotText {
        /// The first byte that does not fit.
        byte: usize,
        /// Its line, from 1.
        line: usize,
    },
    /// The system refused, and gave the reason.
    Refused(String),
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadError::Missing => write!(f, "there is no such file"),
            LoadError::NotAFile => write!(f, "it is not a file"),
            LoadError::TooLarge => write!(f, "it has more than {MAX_TEXT_BYTES} bytes"),
            LoadError::NotText { byte, line } => write!(f, "it is not UTF-8: byte {byte}, in line {line}"),
            LoadError::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for LoadError {}

/// Texts from the file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Loader for Disk {
    fn identity(&self, path: &Path) -> PathBuf {
        path.canonicalize().unwrap_or_else(|_| normalised(path))
    }

    fn load(&self, path: &Path) -> Result<String, LoadError> {
        let refused = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => LoadError::Missing,
            _ => LoadError::Refused(error.to_string()),
        };
        // Before opening: opening a pipe would wait for its writer.
        if !std::fs::metadata(path).map_err(refused)?.is_file() {
            return Err(LoadError::NotAFile);
        }
        let mut bytes = Vec::new();
        let limit = MAX_TEXT_BYTES as u64 + 1;
        File::open(path)
            .map_err(refused)?
            .take(limit)
            .read_to_end(&mut bytes)
            .map_err(refused)?;
        text(bytes)
    }
}

/// Texts from memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    texts: BTreeMap<PathBuf, Vec<u8>>,
}

impl Memory {
    /// Of paths and texts.
    pub fn new<P: AsRef<Path>, T: Into<Vec<u8>>>(texts: impl IntoIterator<Item = (P, T)>) -> Memory {
        let texts = texts
            .into_iter()
            .map(|(path, text)| (normalised(path.as_ref()), text.into()))
            .collect();
        Memory { texts }
    }
}

impl Loader for Memory {
    fn identity(&self, path: &Path) -> PathBuf {
        normalised(path)
    }

    fn load(&self, path: &Path) -> Result<String, LoadError> {
        self.texts
            .get(&normalised(path))
            .cloned()
            .ok_or(LoadError::Missing)
            .and_then(text)
    }
}

fn text(bytes: Vec<u8>) -> Result<String, LoadError> {
    if bytes.len() > MAX_TEXT_BYTES {
        return Err(LoadError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..byte].iter().filter(|b| **b == b'\n').count() + 1;
        LoadError::NotText { byte, line }
    })
}

/// Without `.` and, where a name stands before it, `..`.
fn normalised(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                out.pop();
            }
            component => out.push(component),
        }
    }
    out
}
