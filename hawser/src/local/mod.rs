//! Sockets of this host, at which other processes of the same user are served.
//!
//! * `socket`: the file, which is nobody's but its owner's from its first moment on
//! * `lines`: what is said there, a JSON value in each line
//!
//! Invariants: only the same user and root are served, by mode and by credentials; who reads slowly
//! loses its connection, and makes nobody wait.

mod lines;
mod socket;

pub(crate) use lines::{Answers, End, FILES, LINE, Lines};
pub(crate) use socket::Socket;
pub use socket::SocketError;

/// Makes a folder that is its owner's alone, if it is missing.
pub(crate) fn folder(path: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;

    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Who is at the other end, if it may be there: the same user, or root.
pub(crate) fn peer(stream: &tokio::net::UnixStream) -> Result<u32, End> {
    let owner = rustix::process::geteuid().as_raw();
    match stream.peer_cred().map(|peer| peer.uid()) {
        Ok(uid) if uid == owner || uid == 0 => Ok(uid),
        Ok(uid) => Err(End::Told(format!("user {uid} is not served here: only {owner} and root are"))),
        Err(_) => Err(End::Gone),
    }
}
