//! Sockets of this host, at which other processes of the same user are served.
//!
//! * `socket`: the file, which is nobody's but its owner's from its first moment on
//! * `lines`: requests and answers, a JSON value in each line
//! * [`connect`], [`usual`]: the client's end
//!
//! Invariants: only the same user and root are served, by mode and by credentials; who reads slowly
//! loses its connection, and makes nobody wait. A client speaks with a process of the same user or of
//! root, and with no other: what is sent to it decides what the client does.

mod lines;
mod socket;
#[cfg(test)]
mod tests;

pub use lines::{Answers, End, FILES, LINE, Line, Lines};
pub use socket::Socket;
pub use socket::SocketError;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Bytes of a line that a client reads from a server, with its end: the offers of many sources are one
/// line, and so is a node of knowledge.
pub const MAX_ANSWER: usize = 16 << 20;

/// Why there is no connection to a socket of this host.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The system's error.
    #[error(transparent)]
    System(#[from] io::Error),
    /// A process of another user listens there; nothing was sent to it.
    #[error(
        "user {0} listens there, who is neither this user nor root; give the path of a socket of your own"
    )]
    OtherUser(u32),
}

/// Connects to a socket of this host, if a process of the same user or of root listens there.
///
/// # Errors
/// Nobody listens there, or another user does.
pub fn connect(path: &Path) -> Result<UnixStream, ConnectError> {
    let stream = UnixStream::connect(path)?;
    // Of a socket that listens, these are the credentials of the process that made it listen (unix(7)).
    let uid = rustix::net::sockopt::socket_peercred(&stream)
        .map_err(io::Error::from)?
        .uid;
    if uid == rustix::process::geteuid() || uid.is_root() {
        Ok(stream)
    } else {
        Err(ConnectError::OtherUser(uid.as_raw()))
    }
}

/// The usual path of a socket of this user: `hawser/NAME.sock` in `$XDG_RUNTIME_DIR`, or in `/run` for
/// who may write there, as root outside of user namespaces. None where there is no such folder.
#[must_use]
pub fn usual(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("XDG_RUNTIME_DIR")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from);
    let may_write = |folder| rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
    let folder = folder.or_else(|| may_write("/run").then(|| "/run".into()))?;
    Some(folder.join(format!("hawser/{name}.sock")))
}

/// Whether nobody but this user and root may write to a file or folder, so that its content is theirs.
#[must_use]
pub fn is_own(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;

    let user = rustix::process::geteuid().as_raw();
    (found.uid() == user || found.uid() == 0) && found.mode() & 0o022 == 0
}

/// Makes a folder that is its owner's alone, if it is missing.
pub fn folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;

    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Who is at the other end, if it may be there: the same user, or root.
pub fn peer(stream: &tokio::net::UnixStream) -> Result<u32, End> {
    let owner = rustix::process::geteuid().as_raw();
    match stream.peer_cred().map(|peer| peer.uid()) {
        Ok(uid) if uid == owner || uid == 0 => Ok(uid),
        Ok(uid) => Err(End::Refused(format!(
            "user {uid} is not served here: only {owner} and root are"
        ))),
        Err(_) => Err(End::Gone),
    }
}
