//! The destination of a received file. The file has an unpredictable temporary name until it is complete, and
//! then gets its own. An existing file is neither written to, followed, nor replaced.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use hawser::lang::OneLine;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tokio::io::AsyncWriteExt;

use crate::exit::Exit;

/// A placeholder for a file name that is not known yet.
const PROBE: &str = ".hawser-probe";
/// The maximum length of a file name, in bytes.
const MAX_NAME: usize = 255;

/// Returns whether a name from another machine is safe for a local file. It must not be hidden, because
/// programs read hidden files unasked. No command may take it for an option, and it may contain no control
/// characters.
pub(crate) fn is_harmless(name: &str) -> bool {
    let shown = OneLine(name).to_string();
    !name.is_empty() && !name.starts_with(['.', '-']) && shown == name && !name.contains(char::is_control)
}

/// Returns the path of a received file, or `None` for standard output. A sender's name is never used as a
/// path.
pub(super) fn destination(output: Option<&Path>, name: &str) -> Result<Option<PathBuf>, Exit> {
    let own = || {
        let is_path = name.contains(['/', '\\']) || name.len() > MAX_NAME;
        if is_path || !is_harmless(name) {
            return Err(Exit::network(format!(
                "{name:?} is not a file name; name the output file with -o"
            )));
        }
        Ok(PathBuf::from(name))
    };
    match output {
        Some(path) if path.as_os_str() == "-" => Ok(None),
        Some(path) if path.is_dir() => Ok(Some(path.join(own()?))),
        Some(path) => Ok(Some(path.to_owned())),
        None => own().map(Some),
    }
}

/// Checks that a file can be created at `output`. Without `force`, an existing file is an error.
pub(super) fn check(output: Option<&Path>, force: bool) -> Result<(), Exit> {
    let path = match output {
        Some(path) if path.as_os_str() == "-" => return Ok(()),
        Some(path) if path.is_dir() => path.join(PROBE),
        Some(path) => path.to_owned(),
        None => PathBuf::from(PROBE),
    };
    refuse_existing(&path, force)?;
    let part = part_beside(&path);
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&part)
        .and_then(|_| std::fs::remove_file(&part))
        .map_err(|error| cannot_make_beside(&path, &error))
}

/// An incomplete file under a temporary name. It is removed if it is dropped before it is kept.
pub(crate) struct PartialFile {
    part: PathBuf,
    path: PathBuf,
    force: bool,
    is_kept: bool,
}

impl PartialFile {
    /// Creates a file in the folder of `path`, under a name that no other user could have planted. If the
    /// file replaces another, it gets that file's permissions.
    pub(crate) fn create(path: &Path, force: bool) -> io::Result<(File, PartialFile)> {
        let (file, part) = new_beside(path)?;
        let made = PartialFile { part, path: path.to_owned(), force, is_kept: false };
        if let (true, Ok(there)) = (force, std::fs::metadata(path)) {
            file.set_permissions(there.permissions())?;
        }
        Ok((file, made))
    }

    /// Renames the complete file to its final name.
    pub(crate) fn keep(&mut self) -> Result<(), Exit> {
        let kept = match self.force {
            true => std::fs::rename(&self.part, &self.path),
            false => rename_to_new(&self.part, &self.path),
        };
        kept.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => already_exists(&self.path),
            _ => Exit::environment(format!("cannot write {}: {error}", self.path.display())),
        })?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // A failure is harmless: a user who cannot remove the file could not have written it.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// The sink of a received file. A file is removed if it is dropped before it is kept.
pub(super) enum FileSink {
    Output(tokio::io::Stdout),
    File { file: tokio::fs::File, part: PartialFile },
}

impl FileSink {
    pub(super) async fn open(path: Option<PathBuf>, force: bool) -> Result<FileSink, Exit> {
        let Some(path) = path else {
            return Ok(FileSink::Output(tokio::io::stdout()));
        };
        refuse_existing(&path, force)?;
        let (file, part) =
            PartialFile::create(&path, force).map_err(|error| cannot_make_beside(&path, &error))?;
        Ok(FileSink::File { file: file.into(), part })
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Exit> {
        let (written, what) = match self {
            FileSink::Output(output) => (output.write_all(bytes).await, "standard output".to_owned()),
            FileSink::File { file, part } => (file.write_all(bytes).await, part.part.display().to_string()),
        };
        written.map_err(|error| Exit::environment(format!("cannot write {what}: {error}")))
    }

    /// Keeps the complete file, and returns its path.
    pub(super) async fn keep(&mut self) -> Result<Option<PathBuf>, Exit> {
        match self {
            FileSink::Output(output) => {
                output.flush().await.map_err(Exit::environment)?;
                Ok(None)
            }
            FileSink::File { file, part } => {
                let full =
                    |error| Exit::environment(format!("cannot write {}: {error}", part.path.display()));
                file.flush().await.map_err(full)?;
                part.keep()?;
                Ok(Some(part.path.clone()))
            }
        }
    }
}

fn refuse_existing(path: &Path, force: bool) -> Result<(), Exit> {
    match std::fs::symlink_metadata(path) {
        Ok(_) if !force => Err(already_exists(path)),
        Ok(there) if !there.is_file() && !there.is_symlink() => Err(Exit::environment(format!(
            "{} exists and is not a regular file",
            path.display()
        ))),
        _ => Ok(()),
    }
}

fn cannot_make_beside(path: &Path, error: &io::Error) -> Exit {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder.display().to_string(),
        _ => "the current folder".to_owned(),
    };
    Exit::environment(format!("cannot make a file in {folder}: {error}"))
}

fn already_exists(path: &Path) -> Exit {
    Exit::environment(format!("{} exists; --force overwrites it", path.display()))
}

fn part_beside(path: &Path) -> PathBuf {
    path.with_file_name(format!(".hawser-{:016x}.part", RandomState::new().hash_one(0)))
}

/// Creates a new file in the folder of `path`.
fn new_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    loop {
        let part = part_beside(path);
        match File::options().write(true).create_new(true).open(&part) {
            Ok(file) => return Ok((file, part)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Renames a file without replacing an existing one. It falls back to a hard link if the file system does not
/// support this in one step.
fn rename_to_new(part: &Path, path: &Path) -> io::Result<()> {
    match renameat_with(CWD, part, CWD, path, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            std::fs::hard_link(part, path)?;
            std::fs::remove_file(part)
        }
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_senders_name_is_never_a_path() {
        for wrong in [
            "",
            ".",
            "..",
            ".ssh",
            "/etc/passwd",
            "../x",
            "a\\b",
            "a\0b",
            "a\u{1b}[2J",
            "a\nb",
            "invoice\u{202e}fdp.sh",
            "-rf",
            &"a".repeat(256),
        ] {
            assert!(destination(None, wrong).is_err(), "{wrong}");
            assert!(destination(Some(Path::new("/tmp")), wrong).is_err(), "{wrong}");
        }
        let to = |output: Option<&str>| destination(output.map(Path::new), "a b.txt").ok().flatten();
        assert_eq!(to(None), Some("a b.txt".into()));
        assert_eq!(to(Some("/tmp")), Some("/tmp/a b.txt".into()));
        assert_eq!(to(Some("/tmp/other")), Some("/tmp/other".into()));
        assert_eq!(to(Some("-")), None);
        let hidden = destination(Some(Path::new("/tmp/.mine")), "x").ok().flatten();
        assert_eq!(hidden, Some("/tmp/.mine".into()), "whoever names it may hide it");
    }

    /// A folder that is removed with the test.
    struct Folder(hawser_documents::temporary::Folder);

    impl Folder {
        fn new() -> Self {
            Self(hawser_documents::temporary::Folder::new().expect("a folder"))
        }

        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).expect("a folder");
            let mut names: Vec<String> = entries
                .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            names
        }
    }

    #[test]
    fn an_unwritable_target_is_reported_before_the_transfer() {
        let folder = Folder::new();
        let path = folder.0.join("new");
        let ok = |path: &Path, force| check(Some(path), force).is_ok();
        assert!(ok(&path, false) && ok(&folder.0, false) && ok(Path::new("-"), false));
        assert!(!ok(&folder.0.join("none/new"), false), "there is no such folder");
        std::fs::write(&path, "mine").expect("a file");
        assert!(!ok(&path, false) && ok(&path, true));
        assert!(!ok(Path::new("/proc/new"), false), "the system refuses");
        assert_eq!(folder.names(), ["new"]);
    }

    #[tokio::test]
    async fn an_existing_file_is_neither_written_to_nor_followed() {
        let folder = Folder::new();
        let precious = folder.0.join("precious");
        std::fs::write(&precious, "mine").expect("a file");
        std::os::unix::fs::symlink(&precious, folder.0.join("new.part")).expect("a link");
        std::os::unix::fs::symlink(folder.0.join("nowhere"), folder.0.join("dangling")).expect("a link");
        let path = folder.0.join("new");
        let mut target = FileSink::open(Some(path.clone()), false).await.expect("a target");
        target.write(b"theirs").await.expect("room");
        drop(target);
        assert_eq!(std::fs::read_to_string(&precious).expect("it is there"), "mine");
        assert_eq!(
            folder.names(),
            ["dangling", "new.part", "precious"],
            "what was not kept is gone"
        );
        for taken in ["precious", "dangling"] {
            assert!(
                FileSink::open(Some(folder.0.join(taken)), false).await.is_err(),
                "{taken}"
            );
        }
        assert!(
            FileSink::open(Some("/dev/null".into()), true).await.is_err(),
            "no file"
        );
    }

    #[tokio::test]
    async fn a_file_created_during_the_transfer_is_not_replaced() {
        let folder = Folder::new();
        let path = folder.0.join("new");
        for (force, expected) in [(false, "mine"), (true, "theirs")] {
            let _ = std::fs::remove_file(&path);
            let mut target = FileSink::open(Some(path.clone()), force).await.expect("a target");
            target.write(b"theirs").await.expect("room");
            std::fs::write(&path, "mine").expect("a file");
            assert_eq!(target.keep().await.is_ok(), force);
            drop(target);
            assert_eq!(std::fs::read_to_string(&path).expect("it is there"), expected);
            assert_eq!(folder.names(), ["new"]);
        }
    }
}
