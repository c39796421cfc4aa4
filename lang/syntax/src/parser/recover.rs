//! Recovery: where parsing goes on after a finding, chosen so that one slip gives one finding.

use super::Parser;
use crate::Diagnostic;
use crate::token::{Keyword, Token, TokenKind};

impl Parser<'_> {
    /// Whether a function's header begins here: a type, a name, `(`.
    pub(super) fn at_function(&self) -> bool {
        let Some(name) = self.after_type() else {
            return false;
        };
        let named = matches!(self.peek(name).kind, TokenKind::Ident | TokenKind::Keyword(_));
        let meant = crate::nearest::nearest(self.text_of(self.token()), ["seg_rule", "coalesce"]);
        named && self.peek(name + 1).kind == TokenKind::LeftParen && meant.is_none()
    }

    /// How many tokens the type that begins here has; `None` when there is none.
    fn after_type(&self) -> Option<usize> {
        if !self.is(TokenKind::Ident) {
            return None;
        }
        if self.peek(1).kind != TokenKind::Less {
            return Some(1);
        }
        let mut open = 0_usize;
        for ahead in 1..MAX_TYPE_TOKENS {
            match self.peek(ahead).kind {
                TokenKind::Less => open += 1,
                TokenKind::Greater if open == 1 => return Some(ahead + 1),
                TokenKind::Greater => open -= 1,
                TokenKind::Ident
                | TokenKind::Int
                | TokenKind::Comma
                | TokenKind::LeftParen
                | TokenKind::RightParen
                | TokenKind::Plus
                | TokenKind::Minus
                | TokenKind::Star
                | TokenKind::Slash => {}
                _ => return None,
            }
        }
        None
    }

    /// Whether, within braces, the next item begins: then a `}` is missing.
    pub(super) fn at_next_item(&self) -> bool {
        match self.kind() {
            TokenKind::Keyword(Keyword::Const | Keyword::Param) => false,
            TokenKind::Keyword(word) if word.begins_item() => {
                let next = self.peek(1).kind;
                matches!(next, TokenKind::Ident | TokenKind::Keyword(_) | TokenKind::Str)
                    || (next == TokenKind::LeftBrace && matches!(word, Keyword::Deploy | Keyword::Scratchpad))
            }
            TokenKind::Ident => self.at_function_with_params(),
            _ => false,
        }
    }

    /// `T name(T x` or `T name() {`: a header, as against a variable `flow_id id(a, b);`.
    fn at_function_with_params(&self) -> bool {
        if !self.at_function() {
            return false;
        }
        let Some(name) = self.after_type() else {
            return false;
        };
        let first = self.peek(name + 2).kind;
        let second = self.peek(name + 3).kind;
        match first {
            TokenKind::RightParen => second == TokenKind::LeftBrace,
            TokenKind::Ident => matches!(second, TokenKind::Ident | TokenKind::Less),
            _ => false,
        }
    }

    /// `}`; when it is missing, says so, once for all the braces open at this place.
    pub(super) fn close_braces(&mut self, open: Token) {
        if self.eat(TokenKind::RightBrace) || self.unclosed_at == Some(self.at) {
            return;
        }
        self.unclosed_at = Some(self.at);
        let found = self.found();
        let finding =
            Diagnostic::error("E0103", self.span_of(self.token()), format!("expected `}}`, found {found}"))
                .label("expected `}` before this")
                .related(self.span_of(open), "to close this `{`, or one around it");
        self.report(finding);
    }

    /// Skips to the `{` of a body whose header failed; whether there is one.
    pub(super) fn skip_to_body(&mut self) -> bool {
        loop {
            match self.kind() {
                TokenKind::LeftBrace => return true,
                TokenKind::Semicolon | TokenKind::RightBrace | TokenKind::End => return false,
                TokenKind::Keyword(word) if word.begins_statement() && self.at_line_start() => return false,
                _ if self.at_line_start() && self.at_next_item() => return false,
                _ => self.advance(),
            };
        }
    }

    /// Skips a statement that began at the token `before`: past its `;` or its braces.
    pub(super) fn skip_statement(&mut self, before: usize) {
        self.skip_member(before);
    }

    /// Skips what stands between braces and failed; it began at the token `before`.
    pub(super) fn skip_member(&mut self, before: usize) {
        if self.at > before && self.ended_by_brace() {
            return;
        }
        loop {
            match self.kind() {
                TokenKind::Semicolon => {
                    self.advance();
                    break;
                }
                TokenKind::RightBrace | TokenKind::End => break,
                TokenKind::LeftBrace => {
                    self.skip_braces();
                    if self.is(TokenKind::Semicolon) {
                        continue;
                    }
                    if self.at_line_start() {
                        break;
                    }
                }
                TokenKind::Keyword(word)
                    if word.begins_statement() && self.at > before && self.at_line_start() =>
                {
                    break;
                }
                _ if self.at > before
                    && self.at_line_start()
                    && (self.at_next_item() || self.at_declaration()) =>
                {
                    break;
                }
                _ => {
                    self.advance();
                }
            }
        }
        if self.at == before && !matches!(self.kind(), TokenKind::RightBrace | TokenKind::End) {
            self.advance();
        }
    }

    /// Whether what was consumed last is a whole body.
    fn ended_by_brace(&self) -> bool {
        self.at > 0 && self.tokens[self.at - 1].kind == TokenKind::RightBrace && self.at_line_start()
    }

    /// Skips an item that began at the token `before`: past its `;` or its braces, or to where
    /// the next one clearly begins.
    pub(super) fn skip_item(&mut self, before: usize) {
        if self.at == before {
            self.advance();
        }
        while !self.is(TokenKind::End) {
            if self.at_line_start() && (self.at_next_item() || self.is_constant()) {
                return;
            }
            match self.kind() {
                TokenKind::Semicolon => {
                    self.advance();
                    return;
                }
                TokenKind::LeftBrace => {
                    self.skip_braces();
                    self.eat(TokenKind::Semicolon);
                    return;
                }
                TokenKind::RightBrace => {
                    self.advance();
                    self.eat(TokenKind::Semicolon);
                    return;
                }
                _ => {
                    self.advance();
                }
            }
        }
    }

    fn is_constant(&self) -> bool {
        matches!(self.kind(), TokenKind::Keyword(Keyword::Const | Keyword::Param))
    }

    /// Past the `}` that closes the `{` that comes next, or to where the next item begins.
    fn skip_braces(&mut self) {
        let mut open = 0_u32;
        loop {
            match self.kind() {
                TokenKind::LeftBrace => open += 1,
                TokenKind::RightBrace => open = open.saturating_sub(1),
                TokenKind::End => return,
                _ if self.at_line_start() && self.at_next_item() => return,
                _ => {}
            }
            self.advance();
            if open == 0 {
                return;
            }
        }
    }
}

/// No sensible type is longer.
const MAX_TYPE_TOKENS: usize = 64;
