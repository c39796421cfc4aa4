//! Sockets of this host, at which other processes of the same user are served.
//!
//! * `socket`: the file, which only its owner can open from its first moment on
//! * `lines`: requests and answers, a JSON value in each line
//! * [`connect`], [`usual`]: the client's end
//!
//! Invariants: only the same user and root are served, checked by mode and by credentials. A peer that reads
//! slowly loses its connection, and delays no other. A client connects only to a process of the same user or
//! of root, because the data that it receives decides its actions.

mod lines;
mod socket;
#[cfg(test)]
mod tests;

pub use lines::{Answers, FILES, LINE, LineError, Lines, PeerLine};
pub use socket::Socket;
pub use socket::SocketError;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The maximum length of a line that a client reads from a server, in bytes, including its end. The offers of
/// many sources are one line, and so is a node of knowledge.
pub const MAX_ANSWER: usize = 16 << 20;

/// The reasons for which a connection to a socket of this host fails.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The system's error.
    #[error(transparent)]
    System(#[from] io::Error),
    /// A process of another user listens there; no data was sent to it.
    #[error(
        "user {0}, who is neither this user nor root, listens there; give the path of a socket of your own"
    )]
    OtherUser(u32),
}

/// Connects to a socket of this host, if a process of the same user or of root listens there.
///
/// # Errors
/// When no process listens there, or one of another user does.
pub fn connect(path: &Path) -> Result<UnixStream, ConnectError> {
    let stream = UnixStream::connect(path)?;
    // For a listening socket, these are the credentials of the process that made it listen (unix(7)).
    let uid = rustix::net::sockopt::socket_peercred(&stream)
        .map_err(io::Error::from)?
        .uid;
    if uid == rustix::process::geteuid() || uid.is_root() {
        Ok(stream)
    } else {
        Err(ConnectError::OtherUser(uid.as_raw()))
    }
}

/// Returns the usual path of a socket of this user. It is `hawser/NAME.sock` in `$XDG_RUNTIME_DIR`. Without
/// that variable it is in `/run`, if the process may write there, as root outside of user namespaces may.
/// Returns `None` if there is no such folder.
#[must_use]
pub fn usual(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("XDG_RUNTIME_DIR")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from);
    let may_write = |folder| rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
    let folder = folder.or_else(|| may_write("/run").then(|| "/run".into()))?;
    Some(folder.join(format!("hawser/{name}.sock")))
}

/// Returns whether only this user and root may write to a file or folder, so that its content can be trusted.
#[must_use]
pub fn is_own(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;

    let user = rustix::process::geteuid().as_raw();
    (found.uid() == user || found.uid() == 0) && found.mode() & 0o022 == 0
}

/// Makes a folder that only its owner can enter, if it is missing.
pub fn folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;

    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Returns the user at the other end, if it is allowed: the same user, or root.
pub fn peer(stream: &tokio::net::UnixStream) -> Result<u32, LineError> {
    let owner = rustix::process::geteuid().as_raw();
    match stream.peer_cred().map(|peer| peer.uid()) {
        Ok(uid) if uid == owner || uid == 0 => Ok(uid),
        Ok(uid) => Err(LineError::Refused(format!(
            "user {uid} is not admitted: only {owner} and root are"
        ))),
        Err(_) => Err(LineError::Gone),
    }
}
