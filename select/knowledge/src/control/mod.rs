//! The control socket: controllers on this host put, list, delete and watch nodes.
//!
//! * `protocol`: lines of JSON to commands, without I/O
//! * `serve`: connections, with what bounds them
//!
//! The protocol is in `docs/knowledge.md`. Invariants: only the same user and root are served, by
//! mode and by credentials; a line, a connection and their number are bounded; who reads slowly loses
//! its connection, and makes nobody wait.

pub(super) mod protocol;
mod serve;

pub(super) use hawser_socket::local::Socket;
pub use hawser_socket::local::SocketError;
pub(super) use serve::serve;

#[cfg(test)]
mod tests;
