//! Conditionals over several lines. `?` and `:` bind more weakly than anything in front of them. If a line
//! ends inside the condition, both begin lines of their own. If a line ends inside the first value, `:` does.

use super::MAX_COLUMNS;
use super::pieces::{Piece, PieceKind};
use crate::parser::SignRole;
use crate::token::{Keyword, TokenKind};

/// The number of pieces that are examined on either side. It bounds the work on a text that is one huge
/// expression.
const WINDOW: usize = 2 * MAX_COLUMNS;

/// Returns the `?` and `:` that must begin lines if a line ends before `at`.
pub(super) fn separators(pieces: &[Piece<'_>], at: usize) -> Vec<usize> {
    if begins_operand(&pieces[at - 1], &pieces[at]) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut depth = 0_usize;
    let mut open = usize::from(is_in_first_value(pieces, at));
    for (index, piece) in pieces.iter().enumerate().skip(at).take(WINDOW) {
        if piece.opens() {
            depth += 1;
        } else if piece.closes() && depth == 0 {
            break;
        } else if piece.closes() {
            depth -= 1;
        } else if depth > 0 {
            continue;
        } else if piece.is(TokenKind::Question) {
            found.push(index);
            open += 1;
        } else if is_colon(piece) && open > 0 {
            found.push(index);
            open -= 1;
            if open == 0 {
                break;
            }
        } else if ends_expression(piece) {
            break;
        }
    }
    found
}

/// True if a `?` stands before this piece and its `:` does not.
fn is_in_first_value(pieces: &[Piece<'_>], at: usize) -> bool {
    let mut depth = 0_usize;
    for piece in pieces[..at].iter().rev().take(WINDOW) {
        if piece.closes() {
            depth += 1;
        } else if piece.opens() && depth == 0 {
            return false;
        } else if piece.opens() {
            depth -= 1;
        } else if depth == 0 && piece.is(TokenKind::Question) {
            return true;
        } else if depth == 0 && (is_colon(piece) || ends_expression(piece)) {
            return false;
        }
    }
    false
}

/// True if a line that ends between these pieces does not end inside an operand of a conditional.
fn begins_operand(before: &Piece<'_>, piece: &Piece<'_>) -> bool {
    let PieceKind::Token(kind) = before.kind else {
        return true;
    };
    before.opens()
        || ends_expression(before)
        || matches!(
            kind,
            TokenKind::Question
                | TokenKind::Colon
                | TokenKind::RightBrace
                | TokenKind::Keyword(Keyword::Return)
        )
        || piece.is(TokenKind::Question)
        || is_colon(piece)
}

fn is_colon(piece: &Piece<'_>) -> bool {
    piece.is(TokenKind::Colon) && piece.role == SignRole::Spaced
}

fn ends_expression(piece: &Piece<'_>) -> bool {
    let PieceKind::Token(kind) = piece.kind else {
        return false;
    };
    // `>>=` is two tokens.
    let shifts = kind == TokenKind::GreaterEq && piece.role == SignRole::Attached;
    shifts
        || matches!(
            kind,
            TokenKind::Comma
                | TokenKind::Semicolon
                | TokenKind::Assign
                | TokenKind::ShiftLeftAssign
                | TokenKind::PlusAssign
                | TokenKind::MinusAssign
                | TokenKind::StarAssign
                | TokenKind::SlashAssign
                | TokenKind::PercentAssign
                | TokenKind::AndAssign
                | TokenKind::OrAssign
                | TokenKind::CaretAssign
        )
}
