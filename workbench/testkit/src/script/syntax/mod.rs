//! packetdrill's script syntax: text to tree.
//!
//! Invariants: for every text, parsing ends with a tree or a [`ScriptSyntaxError`] with line, column and
//! sometimes a hint. Nesting is bounded.

mod call;
mod conditional;
mod options;
mod packet;
mod script;
pub(crate) mod text;
pub mod tree;

pub use script::{Defines, parse};
pub use text::{ScriptPosition, ScriptSyntaxError};
pub use tree::Script;
