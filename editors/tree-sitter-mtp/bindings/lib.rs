//! The tree-sitter grammar of MTP, for editors.
//!
//! `grammar.js` is the grammar. `scripts/grammar` generates `src/parser.c` from it, which is committed
//! because editors build it without a generator.

#![allow(unsafe_code)] // The parser is a function in C.

use tree_sitter_language::LanguageFn;

unsafe extern "C" {
    fn tree_sitter_mtp() -> *const ();
}

/// The language, for `tree_sitter::Parser`.
// SAFETY: the generated parser defines this function, in the version that `LanguageFn` expects.
pub const LANGUAGE: LanguageFn = unsafe { LanguageFn::from_raw(tree_sitter_mtp) };

/// The query that assigns highlight classes to its nodes.
pub const HIGHLIGHTS: &str = include_str!("../queries/highlights.scm");
