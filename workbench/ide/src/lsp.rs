//! A server of the Language Server Protocol, which answers an editor by a [`Workspace`](crate::Workspace).
//!
//! * [`Server`]: the life cycle, the open documents, and the publication of diagnostics
//! * `requests`, `outlines`: the answers to requests, about a place and about a whole file
//! * [`read_all`]: the messages of a byte stream; [`read_frame`]: one frame, also of other protocols of editors
//! * `convert`, `names`: positions, paths, kinds and colours in the terms of the protocol
//!
//! Invariant: the server performs no I/O. Its caller gives it streams and a channel, and finds the files
//! ([`Files`]).

mod convert;
mod frames;
mod names;
mod outlines;
mod requests;
mod server;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvError;

pub use frames::{read_all, read_frame};
pub use lsp_server::Message;
pub use server::Server;

/// The maximum number of messages queued between the reader and the server. A faster editor blocks.
pub const WAITING: usize = 64;

/// The files of the machine on which the editor runs.
pub trait Files {
    /// Returns all programs below a folder of the editor.
    fn programs(&self, folder: &Path) -> Vec<PathBuf>;

    /// Returns the scenarios that run a program.
    fn scenarios(&self, program: &Path) -> Vec<PathBuf>;

    /// Returns a folder that contains the language's library as files, which an editor can show.
    fn library(&self) -> Option<&Path>;
}

/// The result of reading one frame from the editor.
#[derive(Debug)]
pub enum Incoming {
    /// A message of the protocol.
    Message(Message),
    /// A complete frame that is not a message. The next frame can still be read.
    Malformed(String),
    /// The end of the stream, with the error unless the stream ended regularly.
    End(Option<String>),
}

/// The connection to the editor ended before the editor had taken leave.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A message could not be sent.
    #[error("the connection to the editor ended: {0}")]
    Send(#[from] io::Error),
    /// The thread that reads messages has ended.
    #[error("the connection to the editor ended: {0}")]
    Reader(#[from] RecvError),
    /// The stream could not be read.
    #[error("the connection to the editor ended: {0}")]
    Unreadable(String),
    /// The editor closed the stream.
    #[error("the connection to the editor ended: the editor closed it before `exit`")]
    Closed,
    /// The editor violated the order of the protocol.
    #[error("the connection to the editor ended: the editor sent `exit` before `shutdown`")]
    EarlyExit,
}
