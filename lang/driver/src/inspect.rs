//! Expressions over a stopped program: from text to a function for the interpreter, or to diagnostics.

use hawser_check::{Inspected, Visible};

use crate::load;
use crate::{Compilation, has_errors};

/// The name of the expression's text in messages.
const NAME: &str = "expression";

/// The result of checking an expression.
#[derive(Clone, Debug)]
pub struct Expression {
    /// The function that evaluates it, if no error was found.
    pub inspected: Option<Inspected>,
    /// The diagnostics, and the texts that they refer to: those of the program, followed by the expression's.
    pub compilation: Compilation,
}

/// Checks an expression over the variables of a stopped program; see [`hawser_check::inspect`].
#[must_use]
pub fn inspect(
    program: &hawser_ir::Module,
    text: &str,
    visible: &[Visible],
    this: Option<usize>,
) -> Expression {
    let load::ParsedFiles { mut sources, files, mut diagnostics, .. } = load::beside(&program.files, &[]);
    let number = sources.add(NAME, text);
    let (parsed, found) = hawser_syntax::parse_expression(text, number);
    diagnostics.extend(found);
    let mut inspected = None;
    if let Some(parsed) = parsed.filter(|_| !has_errors(&diagnostics)) {
        let (checked, found) = hawser_check::inspect(&program.name, &sources, &files, &parsed, visible, this);
        inspected = checked;
        diagnostics = found;
    }
    Expression {
        inspected,
        compilation: Compilation { module: None, diagnostics, sources },
    }
}
