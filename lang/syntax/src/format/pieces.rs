//! The formatter's input: tokens and comments in one sequence, with the white space that the author put
//! between them.

use crate::lexer::Lexed;
use crate::parser::SignRole;
use crate::token::TokenKind;

/// A token or a comment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    pub(super) kind: PieceKind,
    pub(super) role: SignRole,
    /// The number of line ends between the previous piece and this one: 0, 1, or 2 for more.
    pub(super) newlines: u8,
    /// The index of the matching bracket, or its own index if it is no bracket.
    pub(super) partner: usize,
    /// The index of the opening bracket around it. A closing bracket holds the index of its own partner.
    pub(super) inside: Option<usize>,
    /// The index of the opening brace of the body around it.
    pub(super) parent: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceKind {
    Token(TokenKind),
    /// `// …`
    LineComment,
    /// `/* … */`
    BlockComment,
}

impl Piece<'_> {
    pub(super) fn is(&self, kind: TokenKind) -> bool {
        self.kind == PieceKind::Token(kind)
    }

    pub(super) fn is_comment(&self) -> bool {
        matches!(self.kind, PieceKind::LineComment | PieceKind::BlockComment)
    }

    /// Returns the column behind it if it begins in this one. A comment of several lines ends on its last
    /// line.
    pub(super) fn end_column(&self, column: usize) -> usize {
        match self.text.rsplit_once('\n') {
            Some((_, last)) => last.chars().count(),
            None => column + self.text.chars().count(),
        }
    }

    /// `(`, `[`, `{` or a type's `<`.
    pub(super) fn opens(&self) -> bool {
        match self.kind {
            PieceKind::Token(TokenKind::LeftParen | TokenKind::LeftBracket | TokenKind::LeftBrace) => true,
            PieceKind::Token(TokenKind::Less) => self.role == SignRole::Type,
            _ => false,
        }
    }

    /// `)`, `]`, `}` or a type's `>`.
    pub(super) fn closes(&self) -> bool {
        match self.kind {
            PieceKind::Token(TokenKind::RightParen | TokenKind::RightBracket | TokenKind::RightBrace) => true,
            PieceKind::Token(TokenKind::Greater) => self.role == SignRole::Type,
            _ => false,
        }
    }

    /// True for a brace of a body of statements, members or variants, in contrast to a list of names or
    /// values.
    pub(super) fn is_body(&self) -> bool {
        (self.is(TokenKind::LeftBrace) || self.is(TokenKind::RightBrace)) && self.role != SignRole::List
    }
}

/// Returns the pieces of a text without errors, in order.
pub(super) fn pieces<'a>(text: &'a str, lexed: &Lexed, roles: &[SignRole]) -> Vec<Piece<'a>> {
    let mut row = Vec::with_capacity(lexed.tokens.len() + lexed.comments.len());
    let tokens = lexed
        .tokens
        .iter()
        .zip(roles)
        .filter(|(token, _)| token.kind != TokenKind::End);
    row.extend(tokens.map(|(token, role)| (token.start, token.end, PieceKind::Token(token.kind), *role)));
    row.extend(lexed.comments.iter().map(|comment| {
        let kind = if comment.block {
            PieceKind::BlockComment
        } else {
            PieceKind::LineComment
        };
        (comment.start, comment.end, kind, SignRole::Plain)
    }));
    row.sort_unstable_by_key(|(start, ..)| *start);

    let mut before = 0;
    let mut pieces: Vec<Piece<'a>> = Vec::with_capacity(row.len());
    for (start, end, kind, role) in row {
        let gap = &text[before..start as usize];
        let newlines = gap.bytes().filter(|byte| *byte == b'\n').count().min(2) as u8;
        pieces.push(Piece {
            text: &text[start as usize..end as usize],
            kind,
            role,
            newlines,
            partner: pieces.len(),
            inside: None,
            parent: None,
        });
        before = end as usize;
    }
    match_brackets(&mut pieces);
    pieces
}

/// Sets `partner`, `inside` and `parent`. In a text without errors, brackets match.
fn match_brackets(pieces: &mut [Piece<'_>]) {
    let mut open: Vec<usize> = Vec::new();
    let mut bodies: Vec<usize> = Vec::new();
    for at in 0..pieces.len() {
        pieces[at].inside = open.last().copied();
        if pieces[at].closes()
            && let Some(partner) = open.pop()
        {
            pieces[at].partner = partner;
            pieces[partner].partner = at;
            // The parser marks only the opening brace; the closing one has the same role.
            pieces[at].role = pieces[partner].role;
            if pieces[at].is_body() {
                bodies.pop();
            }
        }
        pieces[at].parent = bodies.last().copied();
        if pieces[at].opens() {
            open.push(at);
            if pieces[at].is_body() {
                bodies.push(at);
            }
        }
    }
}
