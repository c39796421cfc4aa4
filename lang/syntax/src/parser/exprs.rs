//! Expressions: C's operators and precedence, without pointers, assignment and comma.

use super::{MAX_HEIGHT, Parse, Parser, SignRole};
use crate::ast::{BinOp, CallArg, Expr, ExprKind, Ident, TypeArg, UnOp};
use crate::lexer::{duration_value, int_value};
use crate::token::{Keyword, Token, TokenKind};
use crate::{Diagnostic, Span};

/// An expression and the height of its tree, which is bounded by `MAX_HEIGHT`.
pub(super) struct Tree {
    pub(super) expr: Expr,
    height: u32,
}

/// Binding strengths of the operators, weakest first, as in C.
const OR: u8 = 1;
const EQUALITY: u8 = 6;
const RELATION: u8 = 7;
const SHIFT: u8 = 8;
const ADDITIVE: u8 = 9;

impl Parser<'_> {
    /// Parses an expression.
    pub(super) fn expr(&mut self) -> Parse<Expr> {
        Ok(self.conditional()?.expr)
    }

    /// Parses the value in a type's `<…>`. `>` ends it, so comparisons and shifts need parentheses.
    pub(super) fn type_value(&mut self) -> Parse<Expr> {
        Ok(self.nested(|p| p.binary(ADDITIVE))?.expr)
    }

    /// Parses `(e)` after `if` or `assert`, and reports missing parentheses.
    pub(super) fn condition(&mut self, after: &str) -> Parse<Expr> {
        if self.is(TokenKind::LeftParen) {
            let open = self.advance();
            let tree = self.in_parentheses(Self::conditional)?;
            self.expect_closing(TokenKind::RightParen, open)?;
            return Ok(tree.expr);
        }
        Err(self.unexpected(&format!("`(` after `{after}`")))
    }

    /// Runs `inner` in a place where `=` can only be a mistake for `==`.
    fn in_parentheses<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        self.conditions += 1;
        let result = inner(self);
        self.conditions -= 1;
        result
    }

    /// Runs `inner` in a place where `=` is probably an assignment behind a missing bracket.
    fn in_brackets<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        let conditions = std::mem::take(&mut self.conditions);
        let result = inner(self);
        self.conditions = conditions;
        result
    }

    /// Parses `c ? a : b`, or an expression that binds more strongly.
    fn conditional(&mut self) -> Parse<Tree> {
        self.nested(|p| {
            let start = p.token().start;
            let condition = p.binary(OR)?;
            if !p.eat(TokenKind::Question) {
                return Ok(condition);
            }
            let then = p.conditional()?;
            p.mark(SignRole::Spaced);
            p.expect(TokenKind::Colon)?;
            let otherwise = p.conditional()?;
            let height = condition.height.max(then.height).max(otherwise.height);
            let kind = ExprKind::Conditional(condition.expr.into(), then.expr.into(), otherwise.expr.into());
            p.tree(start, kind, height)
        })
    }

    /// Builds a node over parts of this height.
    fn tree(&mut self, start: u32, kind: ExprKind, parts: u32) -> Parse<Tree> {
        if parts >= MAX_HEIGHT {
            return Err(self.too_deep());
        }
        Ok(Tree { expr: Expr { span: self.since(start), kind }, height: parts + 1 })
    }

    /// Parses operators at least as strong as `weakest`, grouped to the left.
    fn binary(&mut self, weakest: u8) -> Parse<Tree> {
        let start = self.token().start;
        let mut left = self.unary()?;
        loop {
            if self.at_set() && weakest <= RELATION {
                left = self.membership(start, left)?;
                continue;
            }
            let Some(operator) = self.operator() else {
                return Ok(left);
            };
            if operator.strength < weakest {
                return Ok(left);
            }
            self.consume(&operator);
            let right = self.binary(operator.strength + 1)?;
            let height = left.height.max(right.height);
            let kind = ExprKind::Binary(operator.op, left.expr.into(), right.expr.into());
            left = self.tree(start, kind, height)?;
        }
    }

    /// Parses `{b, c}` with at least one value.
    pub(super) fn set(&mut self, value: impl FnMut(&mut Self) -> Parse<Expr>) -> Parse<Vec<Expr>> {
        if self.peek(1).kind == TokenKind::RightBrace {
            self.advance();
            return Err(self.no_expression());
        }
        self.marked_list(SignRole::List, TokenKind::LeftBrace, TokenKind::RightBrace, value)
    }

    /// True if `in {` comes next.
    fn at_set(&self) -> bool {
        self.is_word("in") && self.peek(1).kind == TokenKind::LeftBrace
    }

    /// `a in {b, c}`
    fn membership(&mut self, start: u32, left: Tree) -> Parse<Tree> {
        self.mark(SignRole::Spaced);
        self.advance();
        let mut height = left.height;
        let values = self.set(|p| {
            let value = p.conditional()?;
            height = height.max(value.height);
            Ok(value.expr)
        })?;
        // It is lowered to as many comparisons.
        height = height.saturating_add(u32::try_from(values.len()).unwrap_or(MAX_HEIGHT));
        self.tree(start, ExprKind::In(left.expr.into(), values), height)
    }

    /// Returns the operator that comes next, or the operator that was probably meant.
    fn operator(&self) -> Option<Operator> {
        let token = self.token();
        let joined = |next: Token| next.start == token.end;
        let plain = |op, strength| Some(Operator { op, strength, tokens: 1, slip: Slip::None });
        match token.kind {
            TokenKind::OrOr => plain(BinOp::Or, OR),
            TokenKind::AndAnd => plain(BinOp::And, 2),
            TokenKind::Or => plain(BinOp::BitOr, 3),
            TokenKind::Caret => plain(BinOp::BitXor, 4),
            TokenKind::And => plain(BinOp::BitAnd, 5),
            TokenKind::EqEq => plain(BinOp::Eq, EQUALITY),
            TokenKind::NotEq => plain(BinOp::Ne, EQUALITY),
            TokenKind::Less => plain(BinOp::Lt, RELATION),
            TokenKind::LessEq => plain(BinOp::Le, RELATION),
            TokenKind::GreaterEq => plain(BinOp::Ge, RELATION),
            TokenKind::Greater => match self.peek(1) {
                next if next.kind == TokenKind::Greater && joined(next) => {
                    Some(Operator { op: BinOp::Shr, strength: SHIFT, tokens: 2, slip: Slip::None })
                }
                next if next.kind == TokenKind::GreaterEq && joined(next) => None, // `>>=`
                _ => plain(BinOp::Gt, RELATION),
            },
            TokenKind::ShiftLeft => plain(BinOp::Shl, SHIFT),
            TokenKind::Plus => plain(BinOp::Add, ADDITIVE),
            TokenKind::Minus => plain(BinOp::Sub, ADDITIVE),
            TokenKind::Star => plain(BinOp::Mul, 10),
            TokenKind::Slash => plain(BinOp::Div, 10),
            TokenKind::Percent => plain(BinOp::Rem, 10),
            TokenKind::Assign if self.conditions > 0 => {
                Some(Operator { op: BinOp::Eq, strength: EQUALITY, tokens: 1, slip: Slip::Assign })
            }
            TokenKind::Ident if self.text_of(token) == "and" => {
                Some(Operator { op: BinOp::And, strength: 2, tokens: 1, slip: Slip::Word("&&") })
            }
            TokenKind::Ident if self.text_of(token) == "or" => {
                Some(Operator { op: BinOp::Or, strength: OR, tokens: 1, slip: Slip::Word("||") })
            }
            _ => None,
        }
    }

    /// Consumes the operator's tokens and reports mistakes in them.
    fn consume(&mut self, operator: &Operator) {
        let span = self.span_of(self.token());
        match operator.slip {
            Slip::None => {}
            Slip::Assign => {
                self.report(
                    Diagnostic::error("E0107", span, "`=` assigns; it does not compare")
                        .label("expected `==`")
                        .hint("write `==` to compare; an assignment is a statement of its own"),
                );
            }
            Slip::Word(symbol) => {
                let word = self.found();
                self.report(
                    Diagnostic::error("E0111", span, format!("{word} is not an operator"))
                        .label(format!("expected `{symbol}`"))
                        .hint(format!("write `{symbol}`")),
                );
            }
        }
        self.advance();
        for _ in 1..operator.tokens {
            self.mark(SignRole::Attached);
            self.advance();
        }
    }

    fn unary(&mut self) -> Parse<Tree> {
        let token = self.token();
        let op = match token.kind {
            TokenKind::Bang => UnOp::Not,
            TokenKind::Minus => UnOp::Neg,
            TokenKind::Tilde => UnOp::BitNot,
            TokenKind::And | TokenKind::Star => return Err(self.pointer()),
            TokenKind::PlusPlus | TokenKind::MinusMinus => return Err(self.step()),
            _ => return self.postfix(),
        };
        self.mark(SignRole::Unary);
        self.advance();
        let operand = self.nested(Self::unary)?;
        self.tree(
            token.start,
            ExprKind::Unary(op, operand.expr.into()),
            operand.height,
        )
    }

    /// Parses any number of the suffixes `.f`, `->f`, `[i]` and `(args)`.
    fn postfix(&mut self) -> Parse<Tree> {
        let start = self.token().start;
        let parenthesised = self.is(TokenKind::LeftParen);
        let mut tree = self.primary()?;
        loop {
            match self.kind() {
                // The answer of an instruction, `emit f(x) -> event;`, belongs to the statement.
                TokenKind::Arrow if matches!(tree.expr.kind, ExprKind::Call { .. }) => return Ok(tree),
                TokenKind::Dot | TokenKind::Arrow => {
                    self.mark(SignRole::Access);
                    self.advance();
                    let field = self.member_name()?;
                    tree = self.tree(start, ExprKind::Field(tree.expr.into(), field), tree.height)?;
                }
                TokenKind::LeftBracket => {
                    self.mark(SignRole::Attached);
                    let open = self.advance();
                    let index = self.in_brackets(Self::conditional)?;
                    self.expect_closing(TokenKind::RightBracket, open)?;
                    let height = tree.height.max(index.height);
                    tree = self.tree(
                        start,
                        ExprKind::Index(tree.expr.into(), index.expr.into()),
                        height,
                    )?;
                }
                TokenKind::LeftParen if parenthesised => return self.missing_operator(start, tree),
                TokenKind::LeftParen => tree = self.call(start, tree, Vec::new())?,
                TokenKind::PlusPlus | TokenKind::MinusMinus => return Err(self.step()),
                _ => return Ok(tree),
            }
        }
    }

    /// Handles `(a) (b)`: the paper omits `||` between two conditions.
    fn missing_operator(&mut self, start: u32, left: Tree) -> Parse<Tree> {
        let diagnostic = Diagnostic::error(
            "E0108",
            self.gap(),
            "an operator is missing between two conditions",
        )
        .label("expected `||` or `&&`")
        .related(self.span_of(self.token()), "the second condition")
        .hint("write `||` if one of them is enough, `&&` if both must hold");
        self.report(diagnostic);
        let right = self.nested(Self::postfix)?;
        let height = left.height.max(right.height);
        self.tree(
            start,
            ExprKind::Binary(BinOp::Or, left.expr.into(), right.expr.into()),
            height,
        )
    }

    fn call(&mut self, start: u32, callee: Tree, types: Vec<TypeArg>) -> Parse<Tree> {
        if !matches!(callee.expr.kind, ExprKind::Name(_) | ExprKind::Field(..)) {
            let diagnostic = Diagnostic::error("E0117", callee.expr.span, "this cannot be called")
                .label("expected the name of a function, an instruction or a type");
            return Err(self.report(diagnostic));
        }
        let generates = matches!(&callee.expr.kind, ExprKind::Name(name) if name.name == "pkt_gen");
        let mut height = callee.height;
        let args = self.in_parentheses(|p| {
            p.arguments(|p| {
                let label = p.argument_label(generates);
                let value = p.conditional()?;
                height = height.max(value.height);
                Ok(CallArg { label, value: value.expr })
            })
        })?;
        self.tree(
            start,
            ExprKind::Call { callee: callee.expr.into(), types, args },
            height,
        )
    }

    /// `queue nic.q0`, `rank e`, `cost e`. Without a value behind them, these words are ordinary names.
    fn argument_label(&mut self, generates: bool) -> Option<Ident> {
        let labelled = match self.peek(1).kind {
            TokenKind::Ident | TokenKind::Int | TokenKind::Duration => true,
            TokenKind::LeftParen => generates,
            _ => false,
        };
        let is_label = ["queue", "rank", "cost"].iter().any(|word| self.is_word(word));
        (labelled && is_label).then(|| self.ident())
    }

    fn primary(&mut self) -> Parse<Tree> {
        let token = self.token();
        let text = self.text_of(token);
        match token.kind {
            TokenKind::Int => {
                self.advance();
                self.tree(token.start, ExprKind::Int(int_value(text).unwrap_or(0)), 0)
            }
            TokenKind::Duration => {
                self.advance();
                self.tree(
                    token.start,
                    ExprKind::Duration(duration_value(text).unwrap_or(0)),
                    0,
                )
            }
            TokenKind::Keyword(Keyword::True | Keyword::False) => {
                self.advance();
                self.tree(token.start, ExprKind::Bool(text == "true"), 0)
            }
            TokenKind::Str => Err(self.string_in_expression()),
            TokenKind::LeftParen => {
                let open = self.advance();
                let mut inner = self.in_parentheses(Self::conditional)?;
                self.expect_closing(TokenKind::RightParen, open)?;
                inner.expr.span = self.since(token.start);
                Ok(inner)
            }
            TokenKind::Ident if self.at_cast() => {
                let name = self.ident();
                let types = self.type_args()?;
                let callee = self.tree(token.start, ExprKind::Name(name), 0)?;
                self.call(token.start, callee, types)
            }
            TokenKind::Ident => self.named(),
            // `emit signal(s{…});`: the only keyword that is also an instruction.
            TokenKind::Keyword(Keyword::Signal) if self.peek(1).kind == TokenKind::LeftParen => {
                let name = self.ident();
                self.tree(token.start, ExprKind::Name(name), 0)
            }
            TokenKind::Keyword(word) if word.begins_item() => {
                self.keyword_as_name(word);
                let name = self.ident();
                self.tree(token.start, ExprKind::Name(name), 0)
            }
            _ => Err(self.no_expression()),
        }
    }

    /// `name`, `A::b`, `name{f: v, …}`
    fn named(&mut self) -> Parse<Tree> {
        if self.is_word("not") && self.peek(1).kind == TokenKind::Ident {
            return self.word_not();
        }
        let name = self.ident();
        let start = name.span.start;
        match self.kind() {
            TokenKind::ColonColon => {
                self.advance();
                let member = self.member_name()?;
                self.tree(start, ExprKind::Path(name, member), 0)
            }
            TokenKind::LeftBrace => {
                let mut height = 0;
                let field = |p: &mut Self| {
                    let field = p.name("a field's name")?;
                    p.expect(TokenKind::Colon)?;
                    let value = p.conditional()?;
                    height = height.max(value.height);
                    Ok((field, value.expr))
                };
                let fields =
                    self.marked_list(SignRole::List, TokenKind::LeftBrace, TokenKind::RightBrace, field)?;
                self.tree(start, ExprKind::Struct { name, fields }, height)
            }
            _ => self.tree(start, ExprKind::Name(name), 0),
        }
    }

    fn word_not(&mut self) -> Parse<Tree> {
        let word = self.advance();
        let span = self.span_of(word);
        let diagnostic = Diagnostic::error("E0111", span, "`not` is not an operator")
            .label("expected `!`")
            .hint("write `!`");
        self.report(diagnostic);
        self.nested(Self::unary)
    }

    fn no_expression(&mut self) -> super::Reported {
        if matches!(self.kind(), TokenKind::Unknown | TokenKind::Ellipsis) {
            return self.unexpected("an expression");
        }
        let message = format!("expected an expression, found {}", self.found());
        let diagnostic =
            Diagnostic::error("E0105", self.span_of(self.token()), message).label("expected an expression");
        self.report(diagnostic)
    }

    fn string_in_expression(&mut self) -> super::Reported {
        let diagnostic = Diagnostic::error(
            "E0115",
            self.span_of(self.token()),
            "strings are allowed in `import` only",
        )
        .label("expected an expression")
        .hint("MTP has no string values: use an enum or a number");
        self.report(diagnostic)
    }

    fn pointer(&mut self) -> super::Reported {
        let found = self.found();
        let diagnostic = Diagnostic::error("E0111", self.span_of(self.token()), "MTP has no pointers")
            .label(format!("expected an expression, found {found}"))
            .hint("structures, lists and contexts are passed by reference without an operator");
        self.report(diagnostic)
    }

    fn step(&mut self) -> super::Reported {
        let symbol = self.text_of(self.token());
        let assignment = if symbol == "++" { "+= 1" } else { "-= 1" };
        let span: Span = self.span_of(self.token());
        let diagnostic = Diagnostic::error("E0111", span, format!("MTP has no operator `{symbol}`"))
            .label(format!("expected `{assignment}`"))
            .hint(format!("write `x {assignment};` as a statement of its own"));
        self.report(diagnostic)
    }
}

struct Operator {
    op: BinOp,
    strength: u8,
    tokens: u8,
    slip: Slip,
}

enum Slip {
    None,
    Assign,
    Word(&'static str),
}
