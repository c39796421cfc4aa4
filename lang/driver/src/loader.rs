//! Sources of texts: the disk, or memory for built-in programs and tests.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use hawser_syntax::MAX_TEXT_BYTES;

/// A source of texts, which are identified by path.
pub trait Loader {
    /// Returns a file's unique name, regardless of the path by which it is reached. A file is loaded once
    /// under that name.
    fn identity(&self, path: &Path) -> PathBuf;

    /// Returns the text of a file.
    ///
    /// # Errors
    /// If there is no such file, or if it is not text.
    fn load(&self, path: &Path) -> Result<String, LoadError>;

    /// Returns the file that an import of `path` refers to. It differs from `path` if a part of a program is
    /// replaced.
    fn meant(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }
}

/// A program in which one file is replaced by another, wherever it is imported.
pub struct Instead<'a> {
    /// The source of the texts.
    pub loader: &'a dyn Loader,
    /// The file that is replaced.
    pub part: &'a Path,
    /// The replacement.
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

/// A text could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The file does not exist.
    Missing,
    /// The path is a directory, a device or a pipe.
    NotAFile,
    /// The file has more than [`MAX_TEXT_BYTES`] bytes.
    TooLarge,
    /// The file is not UTF-8.
    NotText {
        /// The offset of the first invalid byte.
        byte: usize,
        /// Its line, from 1.
        line: usize,
    },
    /// The operating system refused access, for this reason.
    Refused(String),
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadError::Missing => write!(f, "the file does not exist"),
            LoadError::NotAFile => write!(f, "the path is not a file"),
            LoadError::TooLarge => write!(f, "the file has more than {MAX_TEXT_BYTES} bytes"),
            LoadError::NotText { byte, line } => write!(
                f,
                "the file is not UTF-8 at byte {byte}, in line \
                 {line}"
            ),
            LoadError::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for LoadError {}

/// Loads texts from the file system.
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
        // This check comes before opening the file, because opening a pipe would wait for its writer.
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

/// Texts that are held in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryLoader {
    texts: BTreeMap<PathBuf, Vec<u8>>,
}

impl MemoryLoader {
    /// Creates a loader from paths and texts.
    pub fn new<P: AsRef<Path>, T: Into<Vec<u8>>>(texts: impl IntoIterator<Item = (P, T)>) -> MemoryLoader {
        let texts = texts
            .into_iter()
            .map(|(path, text)| (normalised(path.as_ref()), text.into()))
            .collect();
        MemoryLoader { texts }
    }
}

impl Loader for MemoryLoader {
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

/// Removes `.`, and `..` together with the name in front of it.
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
