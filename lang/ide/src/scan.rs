//! What the tokens of a text show by themselves.

use std::path::{Path, PathBuf};

use hawser_syntax::lexer::{Lexed, lex};
use hawser_syntax::token::{Keyword, Token, TokenKind};
use hawser_syntax::{MAX_TEXT_BYTES, Span};

/// The tokens and comments of a text; of one that is too long for the language, none.
pub(crate) fn tokens(text: &str) -> Lexed {
    match text.len() <= MAX_TEXT_BYTES {
        true => lex(text, 0),
        false => Lexed::default(),
    }
}

/// The paths that a text imports, joined to the folder of its file, and whether it deploys.
pub(crate) fn program(path: &Path, text: &str) -> (Vec<PathBuf>, bool) {
    let folder = path.parent().unwrap_or(Path::new(""));
    let lexed = tokens(text);
    let pairs = lexed.tokens.windows(2);
    let import = |pair: &[Token]| {
        let is_import = pair[0].kind == TokenKind::Keyword(Keyword::Import) && pair[1].kind == TokenKind::Str;
        let written = text.get(pair[1].start as usize..pair[1].end as usize)?;
        is_import.then(|| folder.join(written.trim_matches('"')))
    };
    let deploy = TokenKind::Keyword(Keyword::Deploy);
    let deploys = lexed.tokens.iter().any(|token| token.kind == deploy);
    (pairs.filter_map(import).collect(), deploys)
}

/// The word at a byte, or right before it.
pub(crate) fn word_at(text: &str, byte: usize) -> Option<Span> {
    let is_word = |token: &Token| matches!(token.kind, TokenKind::Ident | TokenKind::Keyword(_));
    let byte = u32::try_from(byte).ok()?;
    let lexed = tokens(text);
    let words = lexed.tokens.iter().filter(|token| is_word(token));
    let mut touching = words.filter(|token| token.start <= byte && byte <= token.end);
    // Between two words that touch, which cannot be, the later one.
    touching.next_back().map(|token| Span {
        file: 0,
        start: token.start,
        end: token.end,
    })
}
