//! The formatter: one style for all programs.
//!
//! It works on the tokens, so nothing is lost, and comments and blank lines stay where they are.
//! The author decides which statements share a line and where a long one is broken; the formatter
//! decides indentation (4 spaces), that the items of a list whose bracket ends a line stand one to a
//! line, that a conditional's `?` and `:` begin lines where what stands before them takes several,
//! spaces between tokens (more than one between statements on
//! one line are kept: they make columns), where braces stand, where comments behind code stand
//! unless the author set them in one column, that no line is longer than [`MAX_COLUMNS`] where it can be
//! broken, and that at most one blank line stands in a row. A body that the author wrote on one
//! line stays there if it fits.
//!
//! Invariant: formatting what is formatted changes nothing, and formatting never changes the
//! tree; the tests hold it to both.

mod conditional;
mod layout;
mod pieces;
mod spacing;
mod trailing;

use crate::parser::parse_tokens;
use crate::{Diagnostic, MAX_TEXT_BYTES};

/// The longest line that is not broken.
pub const MAX_COLUMNS: usize = 110;

/// The text in its one style.
///
/// # Errors
/// The diagnostics, when the text is no program: then nothing is known about its style.
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(crate::parse(text, 0).1);
    }
    // Line feeds end lines in the one style, and carriage returns do nowhere.
    if text.contains('\r') {
        let lines = text.replace("\r\n", "\n").replace('\r', "\n");
        return format(&lines).map_err(|_| crate::parse(text, 0).1);
    }
    let mut lexed = crate::lexer::lex(text, 0);
    let lexical = std::mem::take(&mut lexed.diagnostics);
    let (_, roles, diagnostics) = parse_tokens(text, 0, &lexed, lexical);
    if !diagnostics.is_empty() {
        return Err(diagnostics);
    }
    let pieces = pieces::pieces(text, &lexed, &roles);
    Ok(layout::lay_out(&pieces))
}
