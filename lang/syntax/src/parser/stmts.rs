//! Statements.

use super::{MAX_DEPTH, MAX_HEIGHT, Parse, Parser, Reported, SignRole};
use crate::Diagnostic;
use crate::ast::{Arm, BinOp, Block, Declarator, Expr, ExprKind, Init, Stmt, StmtKind};
use crate::token::{Keyword, TokenKind};

impl Parser<'_> {
    /// `{ … }`. A statement that fails is skipped; a missing `}` is reported once.
    pub(super) fn block(&mut self) -> Parse<Block> {
        let open = self.expect(TokenKind::LeftBrace)?;
        let mut stmts = Vec::new();
        while !matches!(self.kind(), TokenKind::RightBrace | TokenKind::End) && !self.at_next_item() {
            stmts.push(self.statement());
        }
        self.close_braces(open);
        Ok(Block { span: self.since(open.start), stmts })
    }

    /// Parses a statement. One that fails is skipped and becomes [`StmtKind::Error`].
    fn statement(&mut self) -> Stmt {
        let start = self.token().start;
        let before = self.at;
        let kind = match self.nested(Self::statement_kind) {
            Ok(kind) => kind,
            Err(Reported) => {
                self.skip_member(before);
                StmtKind::Error
            }
        };
        Stmt { span: self.since(start), kind }
    }

    fn statement_kind(&mut self) -> Parse<StmtKind> {
        match self.kind() {
            TokenKind::LeftBrace => Ok(StmtKind::Block(self.block()?)),
            TokenKind::Keyword(word) => self.keyword_statement(word),
            TokenKind::Ident if self.at_declaration() => self.declare(),
            TokenKind::Ident if self.at_foreign_statement() => Err(self.foreign_statement()),
            TokenKind::Semicolon => {
                self.report(
                    Diagnostic::error(
                        "E0109",
                        self.span_of(self.token()),
                        "this `;` has no statement \
                         before it",
                    )
                    .label("expected a statement")
                    .hint("delete it; write `{ }` for an empty body"),
                );
                self.advance();
                Ok(StmtKind::Error)
            }
            _ => self.assign_or_call(),
        }
    }

    fn keyword_statement(&mut self, word: Keyword) -> Parse<StmtKind> {
        match word {
            Keyword::If => self.if_(),
            Keyword::Match => self.match_(),
            Keyword::For => self.for_(),
            Keyword::Emit => self.emit(),
            Keyword::Break => self.alone("`break`", StmtKind::Break),
            Keyword::Continue => self.alone("`continue`", StmtKind::Continue),
            Keyword::Done => self.alone("`done`", StmtKind::Done),
            Keyword::Return => self.return_(),
            Keyword::Refuse => self.with_argument("refuse", StmtKind::Refuse),
            Keyword::Assert => self.with_argument("assert", StmtKind::Assert),
            Keyword::Else => Err(self.else_without_if()),
            Keyword::Const | Keyword::Param => Err(self.local_constant()),
            _ => self.assign_or_call(),
        }
    }

    fn alone(&mut self, what: &str, kind: StmtKind) -> Parse<StmtKind> {
        self.advance();
        self.semicolon(what)?;
        Ok(kind)
    }

    fn return_(&mut self) -> Parse<StmtKind> {
        self.advance();
        let bare = match self.kind() {
            TokenKind::Semicolon | TokenKind::RightBrace => true,
            TokenKind::Keyword(word) => word.begins_statement(),
            _ => false,
        };
        let value = if bare { None } else { Some(self.expr()?) };
        self.semicolon("`return`")?;
        Ok(StmtKind::Return(value))
    }

    /// `refuse(CODE);`, `assert(e);`
    fn with_argument(&mut self, word: &str, make: impl FnOnce(Expr) -> StmtKind) -> Parse<StmtKind> {
        self.advance();
        self.mark(SignRole::Attached);
        let argument = self.condition(word)?;
        self.semicolon(&format!("`{word}`"))?;
        Ok(make(argument))
    }

    fn emit(&mut self) -> Parse<StmtKind> {
        self.advance();
        let instr = self.expr()?;
        let answer = if self.eat_arrow() {
            Some(self.name("the answering event")?)
        } else {
            None
        };
        self.semicolon("the instruction")?;
        Ok(StmtKind::Emit { instr, answer })
    }

    fn if_(&mut self) -> Parse<StmtKind> {
        self.advance();
        let start = self.token().start;
        let before = self.at;
        let cond = match self.condition("if") {
            Ok(cond) => cond,
            Err(reported) => {
                if !self.skip_to_body(before) {
                    return Err(reported);
                }
                Expr { span: self.since(start), kind: ExprKind::Error }
            }
        };
        let then = self.body();
        if !self.eat(TokenKind::Keyword(Keyword::Else)) {
            return Ok(StmtKind::If { cond, then, otherwise: None });
        }
        Ok(StmtKind::If { cond, then, otherwise: Some(self.statement().into()) })
    }

    /// Parses a block, or a single statement as a block. The block is no nesting level of its own, because
    /// its `if` is one.
    fn body(&mut self) -> Block {
        if self.is(TokenKind::LeftBrace)
            && let Ok(block) = self.block()
        {
            return block;
        }
        let stmt = self.statement();
        Block { span: stmt.span, stmts: vec![stmt] }
    }

    /// `match (e) { A, B -> s  default -> s }`. Each arm nests more deeply than the one before, as `else if`
    /// does.
    fn match_(&mut self) -> Parse<StmtKind> {
        self.advance();
        let value = self.condition("match")?;
        let open = self.expect(TokenKind::LeftBrace)?;
        let (depth, outer_arms) = (self.depth, self.arms);
        let mut arms = Vec::new();
        while !matches!(self.kind(), TokenKind::RightBrace | TokenKind::End) && !self.at_next_item() {
            let before = self.at;
            match self.nested(Self::arm) {
                Ok(arm) => arms.push(arm),
                // The same would be reported for each of the other arms.
                Err(Reported) if self.depth >= MAX_DEPTH => self.skip_block(),
                Err(Reported) => self.skip_member(before),
            }
            self.depth += 1;
            self.arms += 1;
        }
        (self.depth, self.arms) = (depth, outer_arms);
        self.close_braces(open);
        Ok(StmtKind::Match { value, arms })
    }

    fn arm(&mut self) -> Parse<Arm> {
        let start = self.token().start;
        let mut cases = Vec::new();
        if self.is_word("default") && self.peek(1).kind != TokenKind::ColonColon {
            self.advance();
        } else {
            cases.push(self.case()?);
            while self.eat(TokenKind::Comma) {
                if cases.len() >= MAX_HEIGHT as usize {
                    return Err(self.too_many_cases());
                }
                cases.push(self.case()?);
            }
        }
        if !self.eat_arrow() {
            return Err(self.unexpected("`,` or `->`"));
        }
        let body = self.body();
        Ok(Arm { span: self.since(start), cases, body })
    }

    /// An arm is lowered to as many comparisons as it has cases.
    fn too_many_cases(&mut self) -> Reported {
        let message = format!("this arm has more than {MAX_HEIGHT} cases");
        let diagnostic = Diagnostic::error("E0110", self.span_of(self.token()), message)
            .label(format!("expected at most {MAX_HEIGHT} in one arm"))
            .hint("divide it into several arms that call the same helper function, or use `default`");
        self.report(diagnostic)
    }

    /// `A`, `kind_t::A`
    fn case(&mut self) -> Parse<Expr> {
        let name = self.name("a variant, or `default`")?;
        let start = name.span.start;
        let kind = match self.eat(TokenKind::ColonColon) {
            true => ExprKind::Path(name, self.member_name()?),
            false => ExprKind::Name(name),
        };
        Ok(Expr { span: self.since(start), kind })
    }

    fn for_(&mut self) -> Parse<StmtKind> {
        self.advance();
        let before = self.at;
        let header = match self.for_header() {
            Ok(header) => header,
            Err(reported) => {
                if !self.skip_to_body(before) {
                    return Err(reported);
                }
                self.body();
                return Ok(StmtKind::Error);
            }
        };
        let ForHeader { var, over, to, max } = header;
        let body = self.body();
        Ok(match to {
            Some(to) => StmtKind::ForRange { var, from: over, to, max, body },
            None => StmtKind::ForEach { var, list: over, max, body },
        })
    }

    /// `(x in list, K)`, `(i in a..b, K)`
    fn for_header(&mut self) -> Parse<ForHeader> {
        if !self.is(TokenKind::LeftParen) {
            return Err(self.unexpected("`(` after `for`"));
        }
        let open = self.advance();
        let foreign = self.peek(1);
        let var = self.name("the loop's variable")?;
        if !self.is_word("in") {
            let span = self.span_of(foreign);
            let message = format!("expected `in`, found {}", self.found());
            let diagnostic = Diagnostic::error("E0111", span, message)
                .label("expected `in`")
                .hint("loops are `for (x in list, K)` and `for (i in a..b, K)` with a constant bound K");
            return Err(self.report(diagnostic));
        }
        self.advance();
        let over = self.expr()?;
        let to = if self.eat(TokenKind::DotDot) {
            Some(self.expr()?)
        } else {
            None
        };
        let max = if self.eat(TokenKind::Comma) {
            Some(self.expr()?)
        } else {
            None
        };
        self.expect_closing(TokenKind::RightParen, open)?;
        Ok(ForHeader { var, over, to, max })
    }

    /// `T a = e, b, c(x, y);`
    fn declare(&mut self) -> Parse<StmtKind> {
        let ty = self.type_()?;
        let mut vars = Vec::new();
        loop {
            let name = self.name("the variable's name")?;
            let init = match self.kind() {
                TokenKind::Assign => {
                    self.advance();
                    Init::Value(self.assigned()?)
                }
                TokenKind::LeftParen => Init::Args(self.arguments(Self::expr)?),
                _ => Init::None,
            };
            vars.push(Declarator { name, init });
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        self.semicolon("the declaration")?;
        Ok(StmtKind::Declare { ty, vars })
    }

    /// `place = e;`, `place += e;`, `f(x);`
    fn assign_or_call(&mut self) -> Parse<StmtKind> {
        let place = self.expr()?;
        if let Some(op) = self.assignment() {
            self.check_place(&place);
            let value = match op {
                None => self.assigned()?,
                Some(_) => self.expr()?,
            };
            self.semicolon("the assignment")?;
            return Ok(StmtKind::Assign { place, op, value });
        }
        if !matches!(place.kind, ExprKind::Call { .. }) {
            if !matches!(self.kind(), TokenKind::Semicolon | TokenKind::RightBrace) && !self.at_line_start() {
                return Err(self.unexpected("`=`, an operator or `;`"));
            }
            self.no_effect(&place);
        }
        self.semicolon("the statement")?;
        Ok(StmtKind::Expr(place))
    }

    /// Parses the value of an assignment or of a variable: an expression, or `{a, b}`.
    fn assigned(&mut self) -> Parse<Expr> {
        if !self.is(TokenKind::LeftBrace) {
            return self.expr();
        }
        let start = self.token().start;
        let sources = self.set(Self::expr)?;
        Ok(Expr { span: self.since(start), kind: ExprKind::Fields(sources) })
    }

    /// Consumes the assignment operator that comes next, and returns it without its `=`.
    fn assignment(&mut self) -> Option<Option<BinOp>> {
        let op = match self.kind() {
            TokenKind::Assign => None,
            TokenKind::PlusAssign => Some(BinOp::Add),
            TokenKind::MinusAssign => Some(BinOp::Sub),
            TokenKind::StarAssign => Some(BinOp::Mul),
            TokenKind::SlashAssign => Some(BinOp::Div),
            TokenKind::PercentAssign => Some(BinOp::Rem),
            TokenKind::AndAssign => Some(BinOp::BitAnd),
            TokenKind::OrAssign => Some(BinOp::BitOr),
            TokenKind::CaretAssign => Some(BinOp::BitXor),
            TokenKind::ShiftLeftAssign => Some(BinOp::Shl),
            TokenKind::Greater if self.peek(1).kind == TokenKind::GreaterEq => {
                self.advance();
                self.mark(SignRole::Attached);
                Some(BinOp::Shr)
            }
            _ => return None,
        };
        self.advance();
        Some(op)
    }

    fn check_place(&mut self, place: &Expr) {
        if matches!(
            place.kind,
            ExprKind::Name(_) | ExprKind::Field(..) | ExprKind::Index(..)
        ) {
            return;
        }
        self.report(
            Diagnostic::error("E0119", place.span, "this cannot be assigned to")
                .label("expected a variable, a field or a list's element"),
        );
    }

    fn no_effect(&mut self, expr: &Expr) {
        let diagnostic = Diagnostic::error("E0109", expr.span, "this statement does nothing")
            .label("expected an assignment, a call or `emit`");
        let hint = match &expr.kind {
            ExprKind::Binary(BinOp::Eq, ..) => Some("`==` compares; write `=` to assign"),
            ExprKind::Name(name) if name.name == "pass" => Some("write `{ }` for an empty body"),
            _ => None,
        };
        self.report(match hint {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        });
    }

    fn else_without_if(&mut self) -> Reported {
        let diagnostic = Diagnostic::error(
            "E0112",
            self.span_of(self.token()),
            "this `else` has no `if` before it",
        )
        .label("expected a statement")
        .hint("several statements before `else` need braces");
        let reported = self.report(diagnostic);
        self.advance();
        if self.is(TokenKind::LeftBrace) {
            self.body();
        }
        reported
    }

    fn local_constant(&mut self) -> Reported {
        let message = format!("{} is inside a function", self.found());
        let diagnostic = Diagnostic::error("E0112", self.span_of(self.token()), message)
            .label("expected a statement")
            .hint("declare constants outside functions, and local values by `T name = e;`");
        self.report(diagnostic)
    }

    /// True at words that begin a statement in other languages, followed by the token that follows them
    /// there.
    fn at_foreign_statement(&self) -> bool {
        foreign_hint(self.text_of(self.token())).is_some()
            && matches!(
                self.peek(1).kind,
                TokenKind::LeftParen | TokenKind::LeftBrace | TokenKind::Keyword(_)
            )
    }

    fn foreign_statement(&mut self) -> Reported {
        let before = self.at;
        let word = self.text_of(self.token());
        let diagnostic = Diagnostic::error(
            "E0111",
            self.span_of(self.token()),
            format!("MTP has no statement `{word}`"),
        )
        .label("expected a statement")
        .hint(foreign_hint(word).unwrap_or_default());
        let reported = self.report(diagnostic);
        if self.skip_to_body(before) {
            self.body();
        }
        reported
    }
}

struct ForHeader {
    var: crate::ast::Ident,
    over: Expr,
    to: Option<Expr>,
    max: Option<Expr>,
}

fn foreign_hint(word: &str) -> Option<&'static str> {
    Some(match word {
        "while" | "do" | "loop" | "until" => "write a bounded loop: `for (i in a..b, K) { … }`, with `break`",
        "switch" => "use `match (e) { A, B -> … default -> … }`",
        "elif" | "elsif" | "elseif" => "write `else if`",
        "try" | "goto" => "MTP has neither exceptions nor jumps; use `if` and `return`",
        _ => return None,
    })
}
