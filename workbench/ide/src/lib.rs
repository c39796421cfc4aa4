//! Answers an editor's questions about programs: a workspace of texts in, answers out.
//!
//! * [`Workspace`]: the open texts, and the programs that they belong to
//! * `diagnostics`, `fixes`: problems, and edits that fix them
//! * `hover`, `navigate`, `rename`: about a name
//! * `complete`, `signature`: about code that is being written
//! * `outline`, `tokens`, `hints`: about a whole file
//! * [`Lines`]: positions as editors count them
//! * `lsp`, a feature: all of it as a server of the Language Server Protocol
//!
//! Invariants:
//! * This crate reads no file; texts come from a [`Loader`](hawser_driver::Loader).
//! * The checker alone resolves names ([`hawser_check::index`]); there is no second resolver.
//! * Places are byte offsets in a text. No text and no place causes a panic.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod complete;
mod diagnostics;
pub mod dissector;
mod hints;
#[cfg(feature = "hostile")]
pub mod hostile;
mod hover;
mod keywords;
mod lines;
#[cfg(feature = "lsp")]
pub mod lsp;
mod navigate;
mod outline;
mod program;
mod rename;
mod scan;
mod signature;
mod tokens;
mod workspace;

pub use complete::{Completion, Proposal};
pub use diagnostics::{FileDiagnostics, Fix, Problem};
pub use hawser_check::index::DefKind;
pub use hawser_syntax::Severity;
pub use hints::{Hint, Runnable};
pub use hover::Hover;
pub use lines::Lines;
pub use outline::Symbol;
pub use signature::Signature;
pub use tokens::{Colour, Coloured};
pub use workspace::Workspace;

use std::ops::Range;
use std::path::PathBuf;

/// A byte range in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileRange {
    /// The path of the file.
    pub path: PathBuf,
    /// The offsets of the first byte and of the byte behind the last.
    pub range: (usize, usize),
}

/// A replacement of a part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The byte range to replace.
    pub range: Range<usize>,
    /// The new text.
    pub text: String,
}
