//! packetdrill's script syntax: text to tree.
//!
//! Invariants: whatever the text, reading ends with a tree or a [`SyntaxError`] that says line,
//! column and, where there is one, a hint; nesting is bounded.

mod call;
mod conditional;
mod options;
mod packet;
mod script;
pub(crate) mod text;
pub mod tree;

pub use script::{Defines, parse};
pub use text::{Place, SyntaxError};
pub use tree::Script;
