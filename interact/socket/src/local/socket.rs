//! The socket's file: made so that nobody else can connect in between, and taken over only from the
//! dead.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as Listener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FlockOperation, RenameFlags, flock, renameat_with, unlinkat};
use socket2::{Domain, SockAddr, Socket as Raw, Type};
use tokio::net::UnixListener;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Somebody listens there.
    #[error("{}: another process listens there; end it, or choose another path", .0.display())]
    InUse(PathBuf),
    /// Something is there that is no socket.
    #[error("{} is no socket, and is left alone; choose another path", .0.display())]
    NoSocket(PathBuf),
    /// Other processes keep its folder to themselves.
    #[error("{}: its folder has been locked by another process for a second; use a folder of your own", .0.display())]
    Locked(PathBuf),
    /// No socket has so long a path.
    #[error("{}: the path is too long for a socket: with 27 more bytes it has to be under 108", .0.display())]
    PathTooLong(PathBuf),
    /// The thread that was to serve it has ended before it listened.
    #[error("{}: its thread has ended", .0.display())]
    ThreadEnded(PathBuf),
    /// The system refuses.
    #[error("{}: {error}", path.display())]
    System {
        /// The socket's file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// A socket that listens. Its file goes with it.
pub struct Socket {
    listener: UnixListener,
    /// Takes the file away when dropped.
    _file: SocketFile,
}

/// A file, as long as it is the one that was made.
struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

/// Locks the folder, which others do for an instant; nobody may make this process wait for ever. Whether it
/// could.
fn lock_soon(folder: &File) -> io::Result<bool> {
    const TURNS: u32 = 50;
    for _ in 0..TURNS {
        match flock(folder, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(20)),
            result => return Ok(result.map(|()| true)?),
        }
    }
    Ok(false)
}

impl Socket {
    /// Listens at a path, whose folder is made if it is missing. Needs a tokio runtime.
    pub fn open(path: &Path) -> Result<Socket, SocketError> {
        let system = |error: io::Error| SocketError::System { path: path.into(), error };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        super::folder(folder).map_err(system)?;
        // One process at a time checks whether the place is free, and takes it.
        let lock = File::open(folder).map_err(system)?;
        if !lock_soon(&lock).map_err(system)? {
            return Err(SocketError::Locked(path.into()));
        }
        let is_stale = is_stale(path)?;
        let nest = Nest::new(folder).map_err(system)?;
        let listener = nest.listen().map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => SocketError::PathTooLong(path.into()),
            _ => system(error),
        })?;
        if is_stale {
            nest.take(path)?;
        }
        let made = nest.socket();
        let identity = fs::symlink_metadata(&made)
            .map(|file| (file.dev(), file.ino()))
            .map_err(system)?;
        match renameat_with(CWD, &made, CWD, path, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => return Err(SocketError::InUse(path.into())),
            Err(error) => return Err(system(error.into())),
        }
        let file = SocketFile { path: path.into(), identity };
        listener.set_nonblocking(true).map_err(system)?;
        let listener = UnixListener::from_std(listener).map_err(system)?;
        Ok(Socket { listener, _file: file })
    }

    /// Accepts connections of whoever may open the file.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|file| file.file_type().is_socket() && (file.dev(), file.ino()) == self.identity);
        if is_ours {
            // What cannot be taken away is stale for who comes next.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether there is a socket that nobody listens to. An error where somebody does, or where there is
/// something else.
fn is_stale(path: &Path) -> Result<bool, SocketError> {
    let system = |error: io::Error| SocketError::System { path: path.into(), error };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(system(error)),
        Ok(file) if !file.file_type().is_socket() => return Err(SocketError::NoSocket(path.into())),
        Ok(_) => {}
    }
    let probe = Raw::new(Domain::UNIX, Type::STREAM, None).map_err(system)?;
    // A listener whose queue is full is alive: no waiting for a place in it.
    probe.set_nonblocking(true).map_err(system)?;
    match probe.connect(&SockAddr::unix(path).map_err(system)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        Ok(()) => Err(SocketError::InUse(path.into())),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(SocketError::InUse(path.into())),
        Err(error) => Err(system(error)),
    }
}

/// A folder of its own that nobody else may enter: what is made in it gets its mode before anybody can
/// reach it.
struct Nest(PathBuf);

impl Nest {
    fn new(folder: &Path) -> io::Result<Nest> {
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let path = folder.join(format!(".hawser-{:016x}", u64::from_ne_bytes(random)));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Nest(path))
    }

    fn socket(&self) -> PathBuf {
        self.0.join("s")
    }

    fn listen(&self) -> io::Result<Listener> {
        let path = self.socket();
        let listener = Listener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    }

    /// Takes a stale socket in, which goes with the nest. What proves to be no socket goes back.
    fn take(&self, path: &Path) -> Result<(), SocketError> {
        let system = |error: io::Error| SocketError::System { path: path.into(), error };
        let old = self.0.join("old");
        fs::rename(path, &old).map_err(system)?;
        if fs::symlink_metadata(&old).is_ok_and(|file| file.file_type().is_socket()) {
            return Ok(());
        }
        renameat_with(CWD, &old, CWD, path, RenameFlags::NOREPLACE).map_err(|error| system(error.into()))?;
        Err(SocketError::NoSocket(path.into()))
    }
}

impl Drop for Nest {
    fn drop(&mut self) {
        for name in ["s", "old"] {
            // Whatever is no socket is not removed, here either.
            let path = self.0.join(name);
            if fs::symlink_metadata(&path).is_ok_and(|file| file.file_type().is_socket()) {
                let _ = unlinkat(CWD, &path, AtFlags::empty());
            }
        }
        let _ = fs::remove_dir(&self.0);
    }
}
