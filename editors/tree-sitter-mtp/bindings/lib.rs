//! The tree-sitter grammar of MTP, for editors.
//!
//! `grammar.js` is the grammar; `src/parser.c` is what `scripts/grammar` makes of it, committed because editors
//! build it without a generator.

use tree_sitter_language::LanguageFn;

unsafe extern "C" {
    fn tree_sitter_mtp() -> *const ();
}

/// The language, for `tree_sitter::Parser`.
// SAFETY: the function is the one that the generated parser defines, of the version that `LanguageFn` is for.
pub const LANGUAGE: LanguageFn = unsafe { LanguageFn::from_raw(tree_sitter_mtp) };

/// The colours of its nodes.
pub const HIGHLIGHTS: &str = include_str!("../queries/highlights.scm");
