//! What an editor asks about programs: a workspace of texts in, answers out.
//!
//! * [`Workspace`]: the texts that are open, and the programs that they belong to
//! * `diagnostics`, `fixes`: what is wrong, and edits that mend it
//! * `hover`, `navigate`, `rename`: about a name
//! * `complete`, `signature`: about what is being written
//! * `outline`, `tokens`, `hints`: about a whole file
//! * [`Lines`]: positions as editors count them
//!
//! Invariants: nothing here reads a file, texts come from a [`Loader`](hawser_driver::Loader); what a name stands
//! for is the checker's answer ([`hawser_check::index`]), there is no second resolver; places are bytes
//! of a text, and no text and no place makes it panic.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod complete;
mod diagnostics;
mod hints;
#[cfg(feature = "hostile")]
pub mod hostile;
mod hover;
mod lines;
mod navigate;
mod outline;
mod program;
mod rename;
mod scan;
mod signature;
mod tokens;
mod words;
mod workspace;

pub use complete::{Completion, Proposal};
pub use diagnostics::{FileDiagnostics, Fix, Problem};
pub use hawser_check::index::Kind;
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

/// Bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// First byte, and one past the last.
    pub range: (usize, usize),
}

/// A text to put in place of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What is replaced.
    pub range: Range<usize>,
    /// By what.
    pub text: String,
}
