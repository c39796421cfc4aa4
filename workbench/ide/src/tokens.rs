//! Semantic highlighting: the role of each token of a file.

use std::collections::HashMap;
use std::path::Path;

use hawser_check::index::{DefKind, Meaning};
use hawser_syntax::lexer::Comment;
use hawser_syntax::token::{PLACE_WORDS, Token, TokenKind};

use crate::keywords::{self, Sort};
use crate::{Workspace, scan};

/// A coloured piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coloured {
    /// The byte range of the piece.
    pub range: (usize, usize),
    /// The role that determines its colour.
    pub colour: Colour,
}

/// The role of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// A word that begins a declaration or a statement, or that is special in its place.
    Keyword,
    /// A comment.
    Comment,
    /// A citation such as `//= RFC9293 3.10.7.4`, or a line of its quotation (`//# …`).
    Citation,
    /// A number or a duration.
    Number,
    /// The name of an imported file.
    Text,
    /// A type of the language.
    Type,
    /// A function or an instruction of the language.
    Function,
    /// A constant of the language: `NONE`, `ECONNRESET`.
    Constant,
    /// A resolved name.
    Name(DefKind),
}

impl Workspace {
    /// Returns the coloured pieces of an open file, in order.
    #[must_use]
    pub fn colours(&self, path: &Path) -> Vec<Coloured> {
        let Some((program, file)) = self.program_of(path) else {
            return Vec::new();
        };
        let text = program.text(file);
        let declared = &program.analysis.index.declarations;
        let names: HashMap<u32, DefKind> = program
            .names_of(file)
            .iter()
            .filter_map(|(at, meaning)| match meaning {
                Meaning::Declared(declaration) => Some((at.start, declared.get(declaration)?.kind)),
                Meaning::Builtin(kind, _) => Some((at.start, *kind)),
            })
            .collect();
        let lexed = scan::tokens(text);
        let comments = lexed.comments.iter().map(|comment| commented(text, *comment));
        let tokens = lexed.tokens.iter().filter_map(|token| {
            let colour = match names.get(&token.start) {
                Some(kind) => Colour::Name(*kind),
                None => colour(text, *token)?,
            };
            Some(Coloured { range: (token.start as usize, token.end as usize), colour })
        });
        let mut pieces: Vec<Coloured> = comments.chain(tokens).collect();
        pieces.sort_by_key(|piece| piece.range);
        pieces
    }
}

fn commented(text: &str, comment: Comment) -> Coloured {
    let range = (comment.start as usize, comment.end as usize);
    let is_citation = text
        .get(range.0..)
        .is_some_and(|comment| comment.starts_with("//=") || comment.starts_with("//#"));
    Coloured {
        range,
        colour: match is_citation {
            true => Colour::Citation,
            false => Colour::Comment,
        },
    }
}

/// Returns the colour of a token by itself, without its meaning.
fn colour(text: &str, token: Token) -> Option<Colour> {
    match token.kind {
        TokenKind::Keyword(_) => Some(Colour::Keyword),
        TokenKind::Int | TokenKind::Duration => Some(Colour::Number),
        TokenKind::Str => Some(Colour::Text),
        TokenKind::Ident => {
            let name = text.get(token.start as usize..token.end as usize)?;
            let word = keywords::word(name, |_| true).map(|word| word.sort);
            match word {
                Some(Sort::Type) => Some(Colour::Type),
                Some(Sort::Function | Sort::Instruction | Sort::Registration | Sort::Source) => {
                    Some(Colour::Function)
                }
                Some(Sort::Value) => Some(Colour::Constant),
                None if keywords::integer(name).is_some() => Some(Colour::Type),
                None if PLACE_WORDS.contains(&name) => Some(Colour::Keyword),
                None => Some(Colour::Constant),
            }
        }
        _ => None,
    }
}
