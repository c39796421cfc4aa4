//! The spaces between two pieces on one line.

use super::pieces::{Piece, PieceKind};
use crate::parser::SignRole;
use crate::token::TokenKind;

/// Returns the number of spaces between two neighbours on one line.
pub(super) fn spaces(before: &Piece<'_>, after: &Piece<'_>) -> usize {
    if after.kind == PieceKind::LineComment {
        return 2;
    }
    if before.is_comment() || after.is_comment() {
        return 1;
    }
    let (PieceKind::Token(left), PieceKind::Token(right)) = (before.kind, after.kind) else {
        return 1;
    };
    if left == TokenKind::Minus && right == TokenKind::Minus {
        return 1; // `--` is another token
    }
    if never_before(right, after) || never_after(left, before) {
        return 0;
    }
    if before.is_body() || after.is_body() || left == TokenKind::Semicolon {
        return 1;
    }
    match right {
        // `f(`, `l[` and `new_ctx{` have no space; `-> {`, `= {` and `in {` have one.
        TokenKind::LeftParen | TokenKind::LeftBracket => usize::from(after.role != SignRole::Attached),
        TokenKind::LeftBrace => usize::from(left != TokenKind::Ident || before.role == SignRole::Spaced),
        TokenKind::Colon => usize::from(after.role == SignRole::Spaced),
        _ => 1,
    }
}

fn never_before(right: TokenKind, after: &Piece<'_>) -> bool {
    match right {
        TokenKind::Semicolon
        | TokenKind::Comma
        | TokenKind::Dot
        | TokenKind::DotDot
        | TokenKind::ColonColon
        | TokenKind::RightParen
        | TokenKind::RightBracket => true,
        TokenKind::RightBrace => after.role == SignRole::List,
        TokenKind::Arrow => after.role == SignRole::Access,
        TokenKind::Less => after.role == SignRole::Type,
        TokenKind::Greater | TokenKind::GreaterEq => {
            matches!(after.role, SignRole::Type | SignRole::Attached)
        }
        _ => false,
    }
}

fn never_after(left: TokenKind, before: &Piece<'_>) -> bool {
    match left {
        TokenKind::LeftParen
        | TokenKind::LeftBracket
        | TokenKind::Dot
        | TokenKind::DotDot
        | TokenKind::ColonColon => true,
        TokenKind::LeftBrace => before.role == SignRole::List,
        TokenKind::Arrow => before.role == SignRole::Access,
        TokenKind::Less => before.role == SignRole::Type,
        _ => before.role == SignRole::Unary,
    }
}
