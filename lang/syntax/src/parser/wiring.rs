//! The wiring of a program: segmentation rules, schedulers, dispatch and deployment.

use super::{Parse, Parser, SignRole};
use crate::Diagnostic;
use crate::ast::{DispatchEntry, Expr, ExprKind, ItemKind, Listed, RegisterCall, Side, UnOp};
use crate::token::TokenKind;

impl Parser<'_> {
    /// `seg_rule r(x) [BP::f, first, mid, last, only];`
    pub(super) fn segmentation_rule(&mut self) -> Parse<ItemKind> {
        let name = self.name("the rule's name")?;
        let params = self.arguments(|p| p.name("a parameter's name"))?;
        let open = self.expect(TokenKind::LeftBracket)?;
        let blueprint = self.name("the blueprint's name")?;
        self.expect(TokenKind::ColonColon)?;
        let field = self.name("the field's name")?;
        let values = if self.eat(TokenKind::Comma) {
            self.comma_list(TokenKind::RightBracket, open, Self::expr)?
        } else {
            self.expect_closing(TokenKind::RightBracket, open)?;
            Vec::new()
        };
        if !(1..=4).contains(&values.len()) {
            let diagnostic = Diagnostic::error(
                "E0118",
                name.span,
                format!("a rule has one to four values, not {}", values.len()),
            )
            .label("expected [BP::field, first, mid, last, only]")
            .hint("`mid` defaults to `first`, `last` to `mid`, `only` to `first`");
            self.report(diagnostic);
        }
        self.semicolon("the rule")?;
        Ok(ItemKind::SegRule { name, params, blueprint, field, values })
    }

    /// `sched nic = PRIO(8) { q0: RANK, q1: RATE(PER_FLOW) };`
    pub(super) fn scheduler(&mut self) -> Parse<ItemKind> {
        let name = self.name("the scheduler's name")?;
        self.expect(TokenKind::Assign)?;
        let policy = self.name("the policy's name")?;
        let args = self.optional_args()?;
        let queue = |p: &mut Self| {
            let queue = p.name("the queue's name")?;
            p.expect(TokenKind::Colon)?;
            let kind = p.name("the queue's policy")?;
            Ok((queue, kind, p.optional_args()?))
        };
        let queues = self.marked_list(
            SignRole::Variants,
            TokenKind::LeftBrace,
            TokenKind::RightBrace,
            queue,
        )?;
        self.semicolon("the scheduler")?;
        Ok(ItemKind::Sched { name, policy, args, queues })
    }

    fn optional_args(&mut self) -> Parse<Vec<Expr>> {
        if self.is(TokenKind::LeftParen) {
            self.arguments(Self::expr)
        } else {
            Ok(Vec::new())
        }
    }

    /// `dispatch name { event -> {a, b}; chain tail = {c}; }`
    pub(super) fn dispatch(&mut self) -> Parse<ItemKind> {
        let name = self.name("the dispatch table's name")?;
        let entries = self.braced(|p, entries| {
            entries.push(p.dispatch_entry()?);
            p.semicolon("the entry")
        })?;
        Ok(ItemKind::Dispatch { name, entries })
    }

    fn dispatch_entry(&mut self) -> Parse<DispatchEntry> {
        let is_chain = self.is_word("chain") && self.peek(1).kind == TokenKind::Ident;
        if is_chain {
            self.advance();
        }
        let name = self.name(if is_chain {
            "the chain's name"
        } else {
            "an event's name"
        })?;
        let sign = if is_chain {
            TokenKind::Assign
        } else {
            TokenKind::Arrow
        };
        if !self.eat(sign) {
            self.wrong_sign(sign)?;
        }
        let processors = self.marked_list(
            SignRole::List,
            TokenKind::LeftBrace,
            TokenKind::RightBrace,
            Self::listed,
        )?;
        Ok(DispatchEntry { is_chain, name, processors })
    }

    /// `cubic`, `cubic(primary)`
    fn listed(&mut self) -> Parse<Listed> {
        let name = self.name("a processor's or a chain's name")?;
        let mut part = None;
        if self.is(TokenKind::LeftParen) {
            self.mark(SignRole::Attached);
            let open = self.advance();
            part = Some(self.name("the name of a part")?);
            self.expect_closing(TokenKind::RightParen, open)?;
        }
        Ok(Listed { name, part })
    }

    /// True if `attach a …` begins here; elsewhere the word is an ordinary name.
    pub(super) fn at_attachment(&self) -> bool {
        self.is_word("attach") && self.peek(1).kind == TokenKind::Ident
    }

    /// `attach processor before anchor;`, `attach processor after anchor;`
    pub(super) fn attachment(&mut self) -> Parse<ItemKind> {
        self.advance();
        let processor = self.name("the processor's name")?;
        let side = if self.is_word("before") {
            Side::Before
        } else if self.is_word("after") {
            Side::After
        } else {
            return Err(self.unexpected("`before` or `after`"));
        };
        self.advance();
        let anchor = self.name("a processor's name")?;
        self.semicolon("the attachment")?;
        Ok(ItemKind::Attach { processor, side, anchor })
    }

    /// Reports that `->` or `=` is missing, or that another sign stands in its place. The list still follows.
    fn wrong_sign(&mut self, expected: TokenKind) -> Parse<()> {
        let expected = expected.describe();
        let wrong = matches!(
            self.kind(),
            TokenKind::FatArrow | TokenKind::Colon | TokenKind::Assign | TokenKind::Arrow | TokenKind::Minus
        );
        if !wrong && !self.is(TokenKind::LeftBrace) {
            return Err(self.unexpected(expected));
        }
        let message = format!("expected {expected}, found {}", self.found());
        let diagnostic = Diagnostic::error("E0116", self.span_of(self.token()), message)
            .label(format!("expected {expected}"))
            .hint("write `event -> {processors};` or `chain name = {processors};`");
        self.report(diagnostic);
        if wrong {
            self.advance();
        }
        Ok(())
    }

    /// `deploy { register_…(…); }`
    pub(super) fn deploy(&mut self) -> Parse<ItemKind> {
        let calls = self.braced(|p, calls| {
            let name = p.name("a registration")?;
            let args = p.arguments(Self::register_arg)?;
            calls.push(RegisterCall { name, args });
            p.semicolon("the registration")
        })?;
        Ok(ItemKind::Deploy { calls })
    }

    /// `select ev.hash`, or an expression.
    fn register_arg(&mut self) -> Parse<Expr> {
        let start = self.token().start;
        if !(self.is_word("select") && self.peek(1).kind == TokenKind::Ident) {
            return self.expr();
        }
        self.advance();
        let key = self.expr()?;
        Ok(Expr {
            span: self.since(start),
            kind: ExprKind::Unary(UnOp::Select, key.into()),
        })
    }
}
