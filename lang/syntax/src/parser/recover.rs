//! Recovery: the place from which parsing continues after a diagnostic, chosen so that one mistake yields one
//! diagnostic.

use super::Parser;
use super::types::GENERIC;
use crate::Diagnostic;
use crate::token::{Keyword, Token, TokenKind};

impl Parser<'_> {
    /// True if a function's header begins here: a type, a name, `(`.
    pub(super) fn at_function(&self) -> bool {
        let Some(name) = self.after_type() else {
            return false;
        };
        let named = matches!(self.peek(name).kind, TokenKind::Ident | TokenKind::Keyword(_));
        if !named || self.peek(name + 1).kind != TokenKind::LeftParen {
            return false;
        }
        crate::nearest::nearest(self.text_of(self.token()), ["seg_rule", "coalesce"]).is_none()
    }

    /// True if a function's header begins here in which a `>` or `(` is missing.
    pub(super) fn at_broken_function(&self) -> bool {
        match self.text_of(self.token()) {
            "void" => self.peek(1).kind == TokenKind::Ident,
            word => GENERIC.contains(&word) && self.peek(1).kind == TokenKind::Less,
        }
    }

    /// `name(T x` or `name() {`
    pub(super) fn at_function_without_type(&self) -> bool {
        self.peek(1).kind == TokenKind::LeftParen && self.params_at(2)
    }

    /// Returns the number of tokens of the type that begins here, or `None` if no type does.
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

    /// True if the next item begins here, within braces. In that case a `}` is missing.
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

    /// `T name(T x` or `T name() {`: a header, in contrast to a variable such as `flow_id id(a, b);`.
    fn at_function_with_params(&self) -> bool {
        if !self.at_function() {
            return false;
        }
        let Some(name) = self.after_type() else {
            return false;
        };
        self.params_at(name + 2)
    }

    /// True if parameters, in contrast to arguments, stand `ahead` tokens ahead.
    fn params_at(&self, ahead: usize) -> bool {
        let second = self.peek(ahead + 1).kind;
        match self.peek(ahead).kind {
            TokenKind::RightParen => second == TokenKind::LeftBrace,
            TokenKind::Ident => matches!(second, TokenKind::Ident | TokenKind::Less),
            _ => false,
        }
    }

    /// Parses `}`. A missing one is reported once for all the braces that are open at this place.
    pub(super) fn close_braces(&mut self, open: Token) {
        if self.eat(TokenKind::RightBrace) || self.unclosed_at == Some(self.at) {
            return;
        }
        self.unclosed_at = Some(self.at);
        let found = self.found();
        let diagnostic = Diagnostic::error(
            "E0103",
            self.span_of(self.token()),
            format!("expected `}}`, found {found}"),
        )
        .label("expected `}` before this")
        .related(self.span_of(open), "to close this `{`, or one around it");
        self.report(diagnostic);
    }

    /// Skips to the body behind a header that failed. The header, with its parenthesis, began at the token
    /// `before`. Returns true if there is a body: a `{`, or a statement on the same line.
    pub(super) fn skip_to_body(&mut self, before: usize) -> bool {
        let mut open = self.opened_since(before, TokenKind::LeftParen, TokenKind::RightParen);
        let parenthesised = open > 0;
        loop {
            match self.kind() {
                TokenKind::LeftBrace => return true,
                TokenKind::RightBrace | TokenKind::End => return false,
                // In `for (i = 0; i < 5; i++)`, the `;` belongs to the header.
                TokenKind::Semicolon if open == 0 || self.at_line_start() => return false,
                TokenKind::Keyword(word) if word.begins_statement() && self.at_line_start() => return false,
                _ if self.at_line_start() && self.at_next_item() => return false,
                TokenKind::LeftParen => open += 1,
                TokenKind::RightParen => {
                    open = open.saturating_sub(1);
                    if open == 0 && parenthesised {
                        self.advance();
                        return !matches!(
                            self.kind(),
                            TokenKind::RightBrace | TokenKind::Semicolon | TokenKind::End
                        );
                    }
                }
                _ => {}
            }
            self.advance();
        }
    }

    /// Returns the number of these brackets that were opened since the token `before` and are not closed.
    fn opened_since(&self, before: usize, open: TokenKind, close: TokenKind) -> usize {
        self.tokens[before..self.at]
            .iter()
            .fold(0, |depth, token| match token.kind {
                kind if kind == open => depth + 1,
                kind if kind == close => depth.saturating_sub(1),
                _ => depth,
            })
    }

    /// Skips a failed statement or member within braces, which began at the token `before`. It ends with its
    /// `;` or its braces, or where the next one clearly begins.
    pub(super) fn skip_member(&mut self, before: usize) {
        if self.at > before && self.ended_by_brace() {
            return;
        }
        let mut open = self.opened_since(before, TokenKind::LeftBrace, TokenKind::RightBrace);
        loop {
            let moved = self.at > before;
            match self.kind() {
                TokenKind::End => break,
                // Inside `s{a: 1; b: 2}`.
                TokenKind::Semicolon if open > 0 && self.closes_on_this_line() => {}
                TokenKind::Semicolon => {
                    self.advance();
                    break;
                }
                TokenKind::RightBrace if open == 0 => break,
                TokenKind::RightBrace => open -= 1,
                TokenKind::LeftBrace => {
                    self.skip_braces();
                    if self.at_line_start() && !self.is(TokenKind::Semicolon) {
                        break;
                    }
                    continue;
                }
                TokenKind::Keyword(word) if word.begins_statement() && moved && self.at_line_start() => break,
                _ if moved && self.at_line_start() && (self.at_next_item() || self.at_declaration()) => break,
                _ => {}
            }
            self.advance();
        }
        if self.at == before && !matches!(self.kind(), TokenKind::RightBrace | TokenKind::End) {
            self.advance();
        }
    }

    /// True if a `}` follows on the line of the next token.
    fn closes_on_this_line(&self) -> bool {
        let rest = &self.text[self.token().end as usize..];
        rest.lines().next().is_some_and(|line| line.contains('}'))
    }

    /// True if the tokens consumed last form a whole body.
    fn ended_by_brace(&self) -> bool {
        self.at > 0 && self.tokens[self.at - 1].kind == TokenKind::RightBrace && self.at_line_start()
    }

    /// Skips an item that began at the token `before`. It ends with its `;` or its braces, or where the next
    /// one clearly begins.
    pub(super) fn skip_item(&mut self, before: usize) {
        if self.at == before {
            self.advance();
        }
        let mut open = self.opened_since(before, TokenKind::LeftBrace, TokenKind::RightBrace);
        while !self.is(TokenKind::End) {
            if self.at_line_start() && (self.at_next_item() || self.is_constant()) {
                return;
            }
            match self.kind() {
                TokenKind::Semicolon if open == 0 => {
                    self.advance();
                    return;
                }
                TokenKind::LeftBrace => {
                    self.skip_braces();
                    if open == 0 {
                        self.eat(TokenKind::Semicolon);
                        return;
                    }
                }
                TokenKind::RightBrace => {
                    self.advance();
                    open = open.saturating_sub(1);
                    if open == 0 {
                        self.eat(TokenKind::Semicolon);
                        return;
                    }
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

    /// Skips to the `}` that closes the current block, or to the beginning of the next item.
    pub(super) fn skip_block(&mut self) {
        while !matches!(self.kind(), TokenKind::RightBrace | TokenKind::End) && !self.at_next_item() {
            if self.is(TokenKind::LeftBrace) {
                self.skip_braces();
            } else {
                self.advance();
            }
        }
    }

    /// Skips past the `}` that closes the next `{`, or to the beginning of the next item.
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

/// The maximum number of tokens of a type; no sensible type is longer.
const MAX_TYPE_TOKENS: usize = 64;
