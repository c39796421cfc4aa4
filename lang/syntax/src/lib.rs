//! From text to syntax tree: lexer, parser with recovery, formatter, diagnostics.
//!
//! * [`parse`]: text to tree, with all errors in it; [`parse_expression`]: the same for one expression
//! * [`format()`]: formats a text in the language's single style
//! * [`ast`]: the tree
//! * [`token`], [`lexer`]: the layers below the tree
//! * [`codes`]: the table behind `hawser explain`
//! * [`diag`]: problems with their places, expectations and hints
//! * [`source`]: the files of one compilation
//!
//! Invariant: this crate reads no file; the caller supplies all texts.

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

/// The maximum size of a text to parse, in bytes.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// The maximum number of diagnostics for one file. One more then reports that there are more.
pub const MAX_DIAGNOSTICS: usize = 100;
