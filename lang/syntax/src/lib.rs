//! Text to syntax tree: lexer, parser with recovery, formatter, diagnostics.
//!
//! * [`ast`]: the tree
//! * [`diag`]: what is wrong, where, what was expected, and what to do
//! * [`source`]: the files of one compilation
//!
//! Invariant: nothing here reads a file; texts come from the caller.

pub mod ast;
pub mod diag;
pub mod source;

pub use ast::Span;
pub use diag::{Diagnostic, Severity};
pub use source::SourceMap;
