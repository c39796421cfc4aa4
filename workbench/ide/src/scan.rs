//! Facts about a text that its tokens alone show.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hawser_syntax::lexer::{Lexed, lex};
use hawser_syntax::token::{Keyword, Token, TokenKind};
use hawser_syntax::{MAX_TEXT_BYTES, Span};

/// Returns the tokens and comments of a text. Both are empty if the text is too long for the language.
pub(crate) fn tokens(text: &str) -> Lexed {
    match text.len() <= MAX_TEXT_BYTES {
        true => lex(text, 0),
        false => Lexed::default(),
    }
}

/// The relation of a text to the programs around it.
pub(crate) struct Scanned {
    /// The paths that it imports, joined to the folder of its file.
    pub(crate) imports: Vec<PathBuf>,
    /// The structures and functions that it declares.
    pub(crate) declares: BTreeSet<String>,
    /// True if it has a `deploy` block.
    pub(crate) deploys: bool,
}

/// Determines the relation of a text to the programs around it.
pub(crate) fn program(path: &Path, text: &str) -> Scanned {
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
    // At the outermost level, a name before a brace is a structure's, and a name before a parenthesis is a
    // function's.
    let mut depth = 0u32;
    let mut declares = BTreeSet::new();
    for pair in lexed.tokens.windows(2) {
        match pair[0].kind {
            TokenKind::LeftBrace | TokenKind::LeftParen | TokenKind::LeftBracket => depth += 1,
            TokenKind::RightBrace | TokenKind::RightParen | TokenKind::RightBracket => {
                depth = depth.saturating_sub(1)
            }
            TokenKind::Ident
                if depth == 0 && matches!(pair[1].kind, TokenKind::LeftBrace | TokenKind::LeftParen) =>
            {
                let name = text.get(pair[0].start as usize..pair[0].end as usize);
                declares.extend(name.map(str::to_owned));
            }
            _ => {}
        }
    }
    Scanned { imports: pairs.filter_map(import).collect(), declares, deploys }
}

/// Returns the last character boundary at or before a byte.
pub(crate) fn boundary(text: &str, byte: usize) -> usize {
    let mut byte = byte.min(text.len());
    while !text.is_char_boundary(byte) {
        byte -= 1;
    }
    byte
}

/// Returns the word at a byte, or directly before it.
pub(crate) fn word_at(text: &str, byte: usize) -> Option<Span> {
    let is_word = |token: &Token| matches!(token.kind, TokenKind::Ident | TokenKind::Keyword(_));
    let byte = u32::try_from(byte).ok()?;
    let lexed = tokens(text);
    let words = lexed.tokens.iter().filter(|token| is_word(token));
    let mut touching = words.filter(|token| token.start <= byte && byte <= token.end);
    // If two words touch, which valid text never has, the later one.
    touching
        .next_back()
        .map(|token| Span { file: 0, start: token.start, end: token.end })
}
