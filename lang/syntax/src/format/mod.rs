//! The formatter: one style for all programs.
//!
//! It works on the tokens, so no text is lost, and comments and blank lines keep their places. The author
//! decides where a long line is broken. The formatter decides the rest:
//!
//! * Each statement has a line of its own.
//! * Indentation is 4 spaces.
//! * The items of a list whose bracket ends a line stand one to a line.
//! * A conditional's `?` and `:` begin lines if the text before them takes several lines.
//! * It sets the spaces between tokens.
//! * It places braces.
//! * Comments behind the code of a block stand in one column, where they fit.
//! * No line is longer than [`MAX_COLUMNS`] if it can be broken.
//! * At most one blank line stands in a row.
//!
//! A body of one statement, and a declaration with all its members, stay on one line if the author wrote them
//! so and they fit.
//!
//! Invariant: formatting a formatted text changes nothing, and formatting never changes the tree. Tests check
//! both.

mod conditional;
mod layout;
mod pieces;
mod spacing;
mod trailing;

use crate::parser::parse_tokens;
use crate::{Diagnostic, MAX_TEXT_BYTES};

/// The maximum width of a line that can be broken, in columns.
pub const MAX_COLUMNS: usize = 110;

/// Returns the text in the language's single style.
///
/// # Errors
/// Returns the diagnostics if the text is not a program, because its style is undefined then.
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(crate::parse(text, 0).1);
    }
    // The one style ends lines with line feeds; carriage returns end lines nowhere in it.
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
