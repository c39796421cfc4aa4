//! Signature help: the parameters of a call that is being written.

use std::path::Path;

use hawser_check::index::DefKind;
use hawser_syntax::token::{Token, TokenKind};

use crate::hover::declared_form;
use crate::keywords::{self, Sort};
use crate::{Workspace, scan};

/// The form of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The form of the call as declared.
    pub form: String,
    /// A description of the function; may be empty.
    pub meaning: String,
    /// The byte range of each parameter in the form.
    pub parameters: Vec<(usize, usize)>,
    /// The index of the parameter that is being written. The last parameter takes all further arguments.
    pub active: usize,
}

impl Workspace {
    /// Returns the form of the call that contains a byte.
    #[must_use]
    pub fn signature(&self, path: &Path, byte: usize) -> Option<Signature> {
        let (program, file) = self.program_of(path)?;
        let text = program.text(file);
        let (name_at, commas) = call_around(text, byte)?;
        let name = text.get(name_at.start as usize..name_at.end as usize)?;
        let is_callable = |kind| matches!(kind, DefKind::Function | DefKind::Extern | DefKind::Rule);
        let mut declarations = program.analysis.index.declarations.values();
        let declared = declarations.find(|known| known.name == name && is_callable(known.kind));
        let (form, meaning) = match declared {
            Some(declaration) => {
                let comments = crate::hover::comments(&program, declaration.at);
                (declared_form(&program, declaration), comments.unwrap_or_default())
            }
            None => match method(&program, file, name_at) {
                Some(form) => (form, String::new()),
                None => {
                    let word = keywords::word(name, |sort| !matches!(sort, Sort::Type | Sort::Value))?;
                    (word.form.to_owned(), word.meaning.to_owned())
                }
            },
        };
        let parameters = parameters(&form)?;
        Some(Signature {
            active: commas.min(parameters.len().saturating_sub(1)),
            form,
            meaning,
            parameters,
        })
    }
}

fn method(program: &crate::program::Program, file: u32, name: Token) -> Option<String> {
    match program.name_at(file, name.start as usize)?.1 {
        hawser_check::index::Meaning::Builtin(DefKind::Method, form) => Some(form.clone()),
        _ => None,
    }
}

/// Returns the name before the innermost `(` that is open at a byte, and the number of commas between that
/// `(` and the byte.
fn call_around(text: &str, byte: usize) -> Option<(Token, usize)> {
    let lexed = scan::tokens(text);
    let before = lexed.tokens.iter().filter(|token| token.end as usize <= byte);
    let before: Vec<Token> = before.copied().collect();
    let (mut closed, mut commas) = (0u32, 0);
    for (index, token) in before.iter().enumerate().rev() {
        match token.kind {
            TokenKind::RightParen | TokenKind::RightBracket | TokenKind::RightBrace => closed += 1,
            TokenKind::LeftParen if closed == 0 => {
                let name = before.get(index.checked_sub(1)?)?;
                // A keyword's parenthesis, as in `if (`, does not belong to a call.
                return (name.kind == TokenKind::Ident).then_some((*name, commas));
            }
            // The brace of a struct value that is an argument.
            TokenKind::LeftBrace
                if closed == 0 && index > 0 && before[index - 1].kind == TokenKind::Ident =>
            {
                commas = 0
            }
            TokenKind::LeftBracket if closed == 0 => commas = 0,
            TokenKind::LeftBrace | TokenKind::Semicolon if closed == 0 => return None,
            TokenKind::LeftParen | TokenKind::LeftBracket | TokenKind::LeftBrace => closed -= 1,
            TokenKind::Comma if closed == 0 => commas += 1,
            _ => {}
        }
    }
    None
}

/// Returns the ranges between the commas in the parentheses of a form.
fn parameters(form: &str) -> Option<Vec<(usize, usize)>> {
    let open = form.find('(')?;
    let close = form.rfind(')').filter(|close| open < *close)?;
    let mut depth = 0;
    let mut parameters = Vec::new();
    let mut start = open + 1;
    for (at, character) in form[..close].char_indices().filter(|(at, _)| *at > open) {
        match character {
            '(' | '<' | '{' | '[' => depth += 1,
            ')' | '>' | '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parameters.push((start, at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parameters.push((start, close));
    let trimmed = parameters.into_iter().filter_map(|(start, end)| {
        let written = &form[start..end];
        let start = start + (written.len() - written.trim_start().len());
        (!written.trim().is_empty()).then(|| (start, start + written.trim().len()))
    });
    Some(trimmed.collect())
}
