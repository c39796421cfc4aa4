//! The socket's file. It is created so that no other user can connect in between, and it replaces only a file
//! without a listener.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as Listener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FlockOperation, RenameFlags, flock, renameat_with, unlinkat};
use socket2::{Domain, SockAddr, Socket as Raw, Type};
use tokio::net::UnixListener;

/// The reasons for which a socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another process listens there.
    #[error("{}: another process listens there; end it, or choose another path", .0.display())]
    InUse(PathBuf),
    /// There is a file at the path that is not a socket.
    #[error("{} is not a socket and was not changed; choose another path", .0.display())]
    NoSocket(PathBuf),
    /// Another process has locked the folder.
    #[error("{}: another process has locked its folder for a second; use a folder of your own", .0.display())]
    Locked(PathBuf),
    /// The path is too long for a socket.
    #[error("{}: the path is too long for a socket: it must be shorter than 81 bytes", .0.display())]
    PathTooLong(PathBuf),
    /// The thread that was to serve it has ended before it listened.
    #[error("{}: its thread has ended", .0.display())]
    ThreadEnded(PathBuf),
    /// A system call failed.
    #[error("{}: {error}", path.display())]
    System {
        /// The socket's file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// A socket that listens. Its file is removed when it is dropped.
pub struct Socket {
    listener: UnixListener,
    /// Removes the file when dropped.
    _file: SocketFile,
}

/// The path of a file, valid as long as the file there is the one that was created.
struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

/// Locks the folder, which other processes lock only briefly, without waiting for ever. Returns whether it
/// succeeded.
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
    /// Listens at a path, whose folder is created if it is missing. Needs a tokio runtime.
    pub fn open(path: &Path) -> Result<Socket, SocketError> {
        let system = |error: io::Error| SocketError::System { path: path.into(), error };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        super::folder(folder).map_err(system)?;
        // One process at a time checks whether the path is free, and takes it.
        let lock = File::open(folder).map_err(system)?;
        if !lock_soon(&lock).map_err(system)? {
            return Err(SocketError::Locked(path.into()));
        }
        let is_stale = is_stale(path)?;
        let nest = PrivateFolder::new(folder).map_err(system)?;
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

    /// Accepts connections of any process that may open the file.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|file| file.file_type().is_socket() && (file.dev(), file.ino()) == self.identity);
        if is_ours {
            // A file that cannot be removed is stale for the next process.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns whether there is a socket without a listener; an error if it has one, or if the file is not a
/// socket.
fn is_stale(path: &Path) -> Result<bool, SocketError> {
    let system = |error: io::Error| SocketError::System { path: path.into(), error };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(system(error)),
        Ok(file) if !file.file_type().is_socket() => return Err(SocketError::NoSocket(path.into())),
        Ok(_) => {}
    }
    let probe = Raw::new(Domain::UNIX, Type::STREAM, None).map_err(system)?;
    // A listener with a full queue is alive, so the probe does not wait for a place in the queue.
    probe.set_nonblocking(true).map_err(system)?;
    match probe.connect(&SockAddr::unix(path).map_err(system)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        Ok(()) => Err(SocketError::InUse(path.into())),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(SocketError::InUse(path.into())),
        Err(error) => Err(system(error)),
    }
}

/// A private folder that no other user may enter. A file made in it gets its mode before another user can
/// reach it.
struct PrivateFolder(PathBuf);

impl PrivateFolder {
    fn new(folder: &Path) -> io::Result<PrivateFolder> {
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let path = folder.join(format!(".hawser-{:016x}", u64::from_ne_bytes(random)));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(PrivateFolder(path))
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

    /// Moves a stale socket into the folder, with which it is removed. A file that turns out not to be a
    /// socket is moved back.
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

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        for name in ["s", "old"] {
            // A file that is not a socket is never removed, not even here.
            let path = self.0.join(name);
            if fs::symlink_metadata(&path).is_ok_and(|file| file.file_type().is_socket()) {
                let _ = unlinkat(CWD, &path, AtFlags::empty());
            }
        }
        let _ = fs::remove_dir(&self.0);
    }
}
