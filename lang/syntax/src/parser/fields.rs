//! The contents of declarations' braces: fields, and the members of contexts.

use super::{Parse, Parser, SignRole};
use crate::Diagnostic;
use crate::ast::{Expr, Field, FieldAccess, Member, OverTerm};
use crate::token::{Token, TokenKind};

impl Parser<'_> {
    /// `{ member… }`. A member that fails is skipped. A missing `}` is reported, and the members parsed so
    /// far are kept.
    pub(super) fn braced<T>(
        &mut self,
        mut member: impl FnMut(&mut Self, &mut Vec<T>) -> Parse<()>,
    ) -> Parse<Vec<T>> {
        self.mark(SignRole::Members);
        let open = self.opening_brace()?;
        let mut members = Vec::new();
        while !matches!(self.kind(), TokenKind::RightBrace | TokenKind::End) && !self.at_next_item() {
            let before = self.at;
            if self.nested(|p| member(p, &mut members)).is_err() {
                self.skip_member(before);
            }
        }
        self.close_braces(open);
        Ok(members)
    }

    /// `{`. If it is missing and a member follows, only the missing brace is reported.
    fn opening_brace(&mut self) -> Parse<Token> {
        if !self.is(TokenKind::LeftBrace) && self.at_declaration() {
            self.unexpected("`{`");
            return Ok(self.token());
        }
        self.expect(TokenKind::LeftBrace)
    }

    /// `{ T a, b = e; … }`. A struct's fields may be `observable`, because the struct can be part of a
    /// context.
    pub(super) fn fields(&mut self) -> Parse<Vec<Field>> {
        self.braced(|p, fields| {
            let access = p.access()?;
            p.field(access, fields)
        })
    }

    /// `T a = e, b when (c);`, which yields one [`Field`] for each name.
    pub(super) fn field(&mut self, access: FieldAccess, fields: &mut Vec<Field>) -> Parse<()> {
        let start = self.token().start;
        let ty = self.type_()?;
        loop {
            let name = self.name("a field's name")?;
            let mut field = Field {
                span: name.span,
                access: access.clone(),
                ty: ty.clone(),
                name,
                init: None,
                when: None,
                count: None,
                over: None,
            };
            self.clauses(&mut field)?;
            field.span = self.since(start);
            fields.push(field);
            if !self.eat(TokenKind::Comma) {
                return self.semicolon("the field");
            }
        }
    }

    /// `= e`, `when (e)`, `count(e)`, `over (…)`, in any order, each at most once.
    fn clauses(&mut self, field: &mut Field) -> Parse<()> {
        loop {
            let word = self.token();
            let twice = if self.eat(TokenKind::Assign) {
                field.init.replace(self.expr()?).is_some()
            } else if self.is_word("when") {
                self.advance();
                field.when.replace(self.condition("when")?).is_some()
            } else if self.is_word("count") {
                self.advance();
                self.mark(SignRole::Attached);
                field.count.replace(self.condition("count")?).is_some()
            } else if self.is_word("over") {
                self.advance();
                let open = self.expect(TokenKind::LeftParen)?;
                let terms = self.comma_list(TokenKind::RightParen, open, Self::over_term)?;
                field.over.replace(terms).is_some()
            } else {
                return Ok(());
            };
            if twice {
                let text = self.text_of(word);
                let diagnostic =
                    Diagnostic::error("E0114", self.span_of(word), format!("`{text}` is given twice"))
                        .label("expected only once")
                        .related(field.name.span, "for this field");
                self.report(diagnostic);
            }
        }
    }

    /// `pseudo`, `this`, `this mask{ecn, ttl}`
    fn over_term(&mut self) -> Parse<OverTerm> {
        let name = self.name("`pseudo`, `this` or a field's name")?;
        let mut mask = Vec::new();
        if self.is_word("mask") {
            self.advance();
            mask = self.names(SignRole::List, "a field's name")?;
        }
        Ok(OverTerm { name, mask })
    }

    /// Parses the members of a context or a scratchpad.
    pub(super) fn members(&mut self) -> Parse<Vec<Member>> {
        self.braced(Self::member)
    }

    fn member(&mut self, members: &mut Vec<Member>) -> Parse<()> {
        if self.is_word("invariant") {
            return self.invariant(members);
        }
        if self.is_word("part") {
            return self.part(members);
        }
        if self.is_word("timer_t") {
            return self.timers(members);
        }
        let access = self.access()?;
        let mut fields = Vec::new();
        let result = self.field(access, &mut fields);
        members.extend(fields.into_iter().map(Member::Field));
        result
    }

    /// `invariant e;`
    fn invariant(&mut self, members: &mut Vec<Member>) -> Parse<()> {
        let start = self.advance().start;
        let expr = self.expr()?;
        self.semicolon("the invariant")?;
        members.push(Member::Invariant { expr, span: self.since(start) });
        Ok(())
    }

    /// `part cc_t cc;`
    fn part(&mut self, members: &mut Vec<Member>) -> Parse<()> {
        self.advance();
        let ty = self.name("the part's type")?;
        let name = self.name("the part's name")?;
        members.push(Member::Part { ty, name });
        self.semicolon("the part")
    }

    /// `timer_t rtx -> tcp_rtx, keep;`
    fn timers(&mut self, members: &mut Vec<Member>) -> Parse<()> {
        let start = self.advance().start;
        loop {
            let name = self.name("the timer's name")?;
            let event = if self.eat_arrow() {
                Some(self.name("the timer's event")?)
            } else {
                None
            };
            members.push(Member::Timer { name, event, span: self.since(start) });
            if !self.eat(TokenKind::Comma) {
                return self.semicolon("the timer");
            }
        }
    }

    /// `observable`, `modifiable(min, max)`, in any order.
    fn access(&mut self) -> Parse<FieldAccess> {
        let mut access = FieldAccess::default();
        loop {
            if self.is_word("observable") {
                self.advance();
                access.observable = true;
            } else if self.is_word("modifiable") {
                self.advance();
                access.modifiable = Some(self.bounds()?);
            } else {
                return Ok(access);
            }
        }
    }

    /// `(min, max)`
    fn bounds(&mut self) -> Parse<(Expr, Expr)> {
        self.mark(SignRole::Attached);
        let open = self.expect(TokenKind::LeftParen)?;
        let min = self.expr()?;
        self.expect(TokenKind::Comma)?;
        let max = self.expr()?;
        self.expect_closing(TokenKind::RightParen, open)?;
        Ok((min, max))
    }

    /// Parses the members of an `opt_list`: fields and `pad 4;`.
    pub(super) fn option_list(&mut self) -> Parse<(Vec<Field>, Option<Expr>)> {
        let mut pad = None;
        let fields = self.braced(|p, fields| {
            if !p.is_word("pad") {
                return p.field(FieldAccess::default(), fields);
            }
            p.advance();
            pad = Some(p.expr()?);
            p.semicolon("`pad`")
        })?;
        Ok((fields, pad))
    }
}
