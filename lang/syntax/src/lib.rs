//! Text to syntax tree: lexer, parser with recovery, formatter, diagnostics.
//!
//! * [`parse`]: text to tree, with all that is wrong in it; [`parse_expression`]: the same of an expression
//! * [`format()`]: text in its one style
//! * [`ast`]: the tree
//! * [`token`], [`lexer`]: below it
//! * [`codes`]: the table behind `hawser explain`
//! * [`diag`]: what is wrong, where, what was expected, and what to do
//! * [`source`]: the files of one compilation
//!
//! Invariant: nothing here reads a file; texts come from the caller.

#![forbid(unsafe_code)]

pub mod ast;
pub mod codes;
pub mod diag;
mod format;
pub mod lexer;
pub mod nearest;
mod parser;
mod printable;
pub mod source;
pub mod token;

pub use ast::Span;
pub use codes::explain;
pub use diag::{Diagnostic, Hint, Severity};
pub use format::{MAX_COLUMNS, format};
pub use nearest::nearest;
pub use parser::{MAX_DEPTH, MAX_HEIGHT, parse, parse_expression};
pub use printable::{OneLine, Printable, masked};
pub use source::{SourceFile, SourceMap};

/// The largest text that is parsed.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// The maximum number of diagnostics in one file; one more says that there are more.
pub const MAX_DIAGNOSTICS: usize = 100;
