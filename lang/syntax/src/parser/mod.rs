//! The parser: recursive descent, one function per construct, precedence climbing in expressions.
//!
//! Invariants:
//! * It never panics and always ends: every loop consumes a token or stops.
//! * Nesting is limited ([`MAX_DEPTH`], [`MAX_HEIGHT`]), so neither the parser nor the walks over the tree
//!   can overflow the stack.
//! * A function that returns [`Reported`] has reported the error. The statement, member or item that contains
//!   it is skipped, and parsing continues behind it, so that one mistake yields one diagnostic.
//! * Mistakes whose meaning is clear (a missing `;`, `=` for `==`) are reported, and parsing continues as if
//!   the text were correct.

mod exprs;
mod fields;
mod functions;
mod items;
mod recover;
mod stmts;
mod types;
mod wiring;

use crate::ast::{Expr, File, Ident, Item, Span};
use crate::lexer::{Comment, Lexed, lex};
use crate::token::{Keyword, Token, TokenKind};
use crate::{Diagnostic, Hint, MAX_DIAGNOSTICS, MAX_TEXT_BYTES};

/// The maximum nesting depth of blocks, parentheses and types.
pub const MAX_DEPTH: u32 = 128;

/// The maximum height of one expression's tree: `a + b + c` is a tree of height 3.
pub const MAX_HEIGHT: u32 = 256;

/// Parses one file. Unparsable parts are left out of the tree and reported in the diagnostics, in the order
/// of the text. The diagnostics are cut to [`MAX_DIAGNOSTICS`].
#[must_use]
pub fn parse(text: &str, file: u32) -> (File, Vec<Diagnostic>) {
    if text.len() > MAX_TEXT_BYTES {
        let diagnostic = Diagnostic::error("E0007", Span { file, start: 0, end: 0 }, "the file is too large")
            .label(format!("the limit is {MAX_TEXT_BYTES} bytes"))
            .hint("divide the file, and join the parts by `import`");
        return (File::default(), vec![diagnostic]);
    }
    let mut lexed = lex(text, file);
    let lexical = std::mem::take(&mut lexed.diagnostics);
    let (items, _, diagnostics) = parse_tokens(text, file, &lexed, lexical);
    (
        File { items, citations: citations(text, &lexed.comments, file) },
        diagnostics,
    )
}

/// Parses an expression that stands by itself, such as one that is typed into a debugger. Returns no
/// expression if it is wrong; the diagnostics give the reason.
#[must_use]
pub fn parse_expression(text: &str, file: u32) -> (Option<Expr>, Vec<Diagnostic>) {
    let cut = text.len().min(MAX_TEXT_BYTES);
    let mut lexed = lex(text.get(..cut).unwrap_or(""), file);
    let lexical = std::mem::take(&mut lexed.diagnostics);
    let mut parser = Parser::new(text, file, &lexed, lexical);
    let expression = parser.expr().and_then(|expression| {
        if parser.is(TokenKind::End) {
            Ok(expression)
        } else {
            Err(parser.unexpected("an operator, or the end"))
        }
    });
    let diagnostics = bounded(parser.diagnostics, file, text.len() as u32);
    (expression.ok().filter(|_| diagnostics.is_empty()), diagnostics)
}

/// Parses tokens into items, the role of each token, and the diagnostics. The given diagnostics are included.
pub(crate) fn parse_tokens(
    text: &str,
    file: u32,
    lexed: &Lexed,
    diagnostics: Vec<Diagnostic>,
) -> (Vec<Item>, Vec<SignRole>, Vec<Diagnostic>) {
    let mut parser = Parser::new(text, file, lexed, diagnostics);
    let items = parser.file();
    let diagnostics = bounded(parser.diagnostics, file, text.len() as u32);
    (items, parser.roles, diagnostics)
}

/// The role of a sign whose shape is ambiguous. The formatter chooses spaces by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignRole {
    /// The sign's ordinary role.
    Plain,
    /// `<` and `>` around the arguments of a type.
    Type,
    /// An operator before its operand.
    Unary,
    /// `->` between a name and its field.
    Access,
    /// Belongs to the token before it: `(` and `[` to a word, the second `>` of `>>` to the first.
    Attached,
    /// `:` with a space on both sides.
    Spaced,
    /// Braces around names or values: `{a, b}`, `new_ctx{f: v}`.
    List,
    /// Braces around declarations separated by commas, as in an enum.
    Variants,
    /// Braces around the members of a declaration, as in a struct.
    Members,
}

/// `//= RFC9293 3.10.7.4`
fn citations(text: &str, comments: &[Comment], file: u32) -> Vec<(String, Span)> {
    let citation = |comment: &Comment| {
        let cited = text
            .get(comment.start as usize..comment.end as usize)?
            .strip_prefix("//=")?;
        Some((
            cited.trim().to_owned(),
            Span { file, start: comment.start, end: comment.end },
        ))
    };
    comments.iter().filter_map(citation).collect()
}

/// Sorts the diagnostics by their place in the text and limits their number.
fn bounded(mut diagnostics: Vec<Diagnostic>, file: u32, end: u32) -> Vec<Diagnostic> {
    diagnostics.sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.span.end));
    if diagnostics.len() > MAX_DIAGNOSTICS {
        diagnostics.truncate(MAX_DIAGNOSTICS);
        diagnostics.push(
            Diagnostic::error(
                "E0100",
                Span { file, start: end, end },
                "too many errors in this file",
            )
            .label("the rest is not shown")
            .hint("correct the first ones, and check that this is an MTP program"),
        );
    }
    diagnostics
}

/// The diagnostic has been recorded. A caller that receives this skips to a place from which parsing can
/// continue.
#[derive(Clone, Copy, Debug)]
struct Reported;

type Parse<T> = Result<T, Reported>;

struct Parser<'a> {
    text: &'a str,
    file: u32,
    tokens: &'a [Token],
    /// One role for each token.
    roles: Vec<SignRole>,
    /// Index of the next token; the last token, `End`, is never passed.
    at: usize,
    /// The nesting depth of blocks, parentheses and types around the next token.
    depth: u32,
    /// The number of these levels that are arms of a `match` before the current one.
    arms: u32,
    /// The nesting depth of parentheses within the statement, inside which `=` can only be a mistake for
    /// `==`.
    conditions: u32,
    diagnostics: Vec<Diagnostic>,
    /// One bit for each keyword that was reported as unusable for a name. Each is reported once per file.
    keywords_reported: u64,
    /// The token before which a missing `}` was reported. It is reported once for all open braces.
    unclosed_at: Option<usize>,
    /// True if text outside of items has been reported since the last good item. The text behind a stray
    /// brace thus yields one diagnostic.
    astray: bool,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, file: u32, lexed: &'a Lexed, diagnostics: Vec<Diagnostic>) -> Parser<'a> {
        Parser {
            text,
            file,
            tokens: &lexed.tokens,
            roles: vec![SignRole::Plain; lexed.tokens.len()],
            at: 0,
            depth: 0,
            arms: 0,
            conditions: 0,
            diagnostics,
            keywords_reported: 0,
            unclosed_at: None,
            astray: false,
        }
    }

    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    fn kind(&self) -> TokenKind {
        self.tokens[self.at].kind
    }

    /// Returns the token `ahead` places ahead, or `End` beyond the end.
    fn peek(&self, ahead: usize) -> Token {
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)]
    }

    fn is(&self, kind: TokenKind) -> bool {
        self.kind() == kind
    }

    fn text_of(&self, token: Token) -> &'a str {
        &self.text[token.start as usize..token.end as usize]
    }

    /// True if the next token is this word; for words that are special only in one place.
    fn is_word(&self, word: &str) -> bool {
        self.is(TokenKind::Ident) && self.text_of(self.token()) == word
    }

    fn advance(&mut self) -> Token {
        let token = self.token();
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }

    /// Sets the role of the next token.
    fn mark(&mut self, role: SignRole) {
        self.roles[self.at] = role;
    }

    /// Sets the role of the token consumed last.
    fn mark_last(&mut self, role: SignRole) {
        self.roles[self.at - 1] = role;
    }

    /// Parses `open a, b close` and marks both signs.
    fn marked_list<T>(
        &mut self,
        role: SignRole,
        open: TokenKind,
        close: TokenKind,
        element: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
        self.mark(role);
        let open = self.expect(open)?;
        let elements = self.comma_list(close, open, element)?;
        self.mark_last(role);
        Ok(elements)
    }

    /// Parses `(a, b)` directly behind a word.
    fn arguments<T>(&mut self, element: impl FnMut(&mut Self) -> Parse<T>) -> Parse<Vec<T>> {
        self.marked_list(
            SignRole::Attached,
            TokenKind::LeftParen,
            TokenKind::RightParen,
            element,
        )
    }

    /// `{a, b}`
    fn names(&mut self, role: SignRole, what: &str) -> Parse<Vec<Ident>> {
        self.marked_list(role, TokenKind::LeftBrace, TokenKind::RightBrace, |p| {
            p.name(what)
        })
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.is(kind);
        if found {
            self.advance();
        }
        found
    }

    fn span_of(&self, token: Token) -> Span {
        Span { file: self.file, start: token.start, end: token.end }
    }

    /// Returns the end of the token before the next one.
    fn end(&self) -> u32 {
        self.at.checked_sub(1).map_or(0, |before| self.tokens[before].end)
    }

    /// Returns the span from `start` to the end of the consumed text.
    fn since(&self, start: u32) -> Span {
        Span { file: self.file, start, end: self.end().max(start) }
    }

    /// Returns the place of something missing: directly behind the consumed text.
    fn gap(&self) -> Span {
        Span { file: self.file, start: self.end(), end: self.end() }
    }

    /// True if a line ends between the consumed text and the next token.
    fn at_line_start(&self) -> bool {
        self.text[self.end() as usize..self.token().start as usize].contains('\n')
    }

    fn report(&mut self, diagnostic: Diagnostic) -> Reported {
        // `bounded` cuts diagnostics beyond this number anyway. The file is still parsed to its end.
        if self.diagnostics.len() <= MAX_DIAGNOSTICS {
            self.diagnostics.push(diagnostic);
        }
        Reported
    }

    /// Returns the name of the next token for messages.
    fn found(&self) -> String {
        let token = self.token();
        match token.kind {
            TokenKind::Ident | TokenKind::Int | TokenKind::Duration => format!("`{}`", self.text_of(token)),
            TokenKind::Keyword(_) => format!("the keyword `{}`", self.text_of(token)),
            kind => kind.describe().to_owned(),
        }
    }

    /// Reports the general diagnostic: something else was expected here.
    fn unexpected(&mut self, expected: &str) -> Reported {
        let span = self.span_of(self.token());
        match self.kind() {
            TokenKind::Unknown => return Reported, // the lexer has reported it
            TokenKind::Ellipsis => return self.elided(),
            _ => {}
        }
        let message = format!("expected {expected}, found {}", self.found());
        self.report(Diagnostic::error("E0101", span, message).label(format!("expected {expected}")))
    }

    fn elided(&mut self) -> Reported {
        let diagnostic = Diagnostic::error("E0008", self.span_of(self.token()), "`...` replaces code here")
            .label("expected the code itself")
            .hint("printed snippets are shortened: write the missing code, or delete the dots");
        self.report(diagnostic)
    }

    fn expect(&mut self, kind: TokenKind) -> Parse<Token> {
        if self.is(kind) {
            Ok(self.advance())
        } else {
            Err(self.unexpected(kind.describe()))
        }
    }

    /// Parses the closing sign of a pair. A diagnostic also shows the place of the opening one.
    fn expect_closing(&mut self, kind: TokenKind, open: Token) -> Parse<Token> {
        self.expect_end(kind, open, false)
    }

    fn expect_end(&mut self, kind: TokenKind, open: Token, in_list: bool) -> Parse<Token> {
        if self.is(kind) {
            return Ok(self.advance());
        }
        if matches!(self.kind(), TokenKind::Unknown | TokenKind::Ellipsis) {
            return Err(self.unexpected(kind.describe()));
        }
        let expected = if in_list {
            format!("`,` or {}", kind.describe())
        } else {
            kind.describe().to_owned()
        };
        let message = format!("expected {expected}, found {}", self.found());
        let span = if self.at_line_start() {
            self.gap()
        } else {
            self.span_of(self.token())
        };
        let diagnostic = Diagnostic::error("E0103", span, message)
            .label(format!("expected {expected}"))
            .related(
                self.span_of(open),
                format!("to close this {}", open.kind.describe()),
            );
        Err(self.report(diagnostic))
    }

    /// `;`. A missing one is reported at its proper place. If the next line, a `}` or another statement
    /// follows, no other token is skipped.
    fn semicolon(&mut self, after: &str) -> Parse<()> {
        if self.eat(TokenKind::Semicolon) {
            return Ok(());
        }
        let statement_follows = match self.kind() {
            TokenKind::RightBrace | TokenKind::End => true,
            TokenKind::Keyword(word) => word.begins_statement() || word.begins_item(),
            TokenKind::Ident => self.at_line_start(),
            _ => false,
        };
        if !statement_follows {
            return Err(self.unexpected(&format!("`;` after {after}")));
        }
        self.report(
            Diagnostic::error("E0102", self.gap(), format!("`;` is missing after {after}"))
                .label("expected `;`")
                .hint(Hint::replacing("put `;` here", ";")),
        );
        Ok(())
    }

    /// `->`, where it is optional. `=>` in its place is reported and accepted.
    fn eat_arrow(&mut self) -> bool {
        if self.is(TokenKind::FatArrow) {
            let diagnostic =
                Diagnostic::error("E0116", self.span_of(self.token()), "expected `->`, found `=>`")
                    .label("expected `->`")
                    .hint(Hint::replacing("write `->`", "->"));
            self.report(diagnostic);
            self.advance();
            return true;
        }
        self.eat(TokenKind::Arrow)
    }

    /// Parses a name that is declared or used here. A keyword in its place is reported, once per file, and
    /// accepted as the name.
    fn name(&mut self, what: &str) -> Parse<Ident> {
        match self.kind() {
            TokenKind::Ident => Ok(self.ident()),
            // A keyword on the next line is more likely the next statement.
            TokenKind::Keyword(word) if !self.at_line_start() => {
                self.keyword_as_name(word);
                Ok(self.ident())
            }
            _ => Err(self.unexpected(what)),
        }
    }

    /// Parses the word after `.`. Keywords cannot stand there, so every word is a name.
    fn member_name(&mut self) -> Parse<Ident> {
        match self.kind() {
            TokenKind::Ident | TokenKind::Keyword(_) => Ok(self.ident()),
            _ => Err(self.unexpected("a name after `.`")),
        }
    }

    /// Takes the next token as a name, whatever its kind.
    fn ident(&mut self) -> Ident {
        let token = self.advance();
        Ident { name: self.text_of(token).to_owned(), span: self.span_of(token) }
    }

    fn keyword_as_name(&mut self, word: Keyword) {
        let bit = 1 << (word as u64);
        if self.keywords_reported & bit != 0 {
            return;
        }
        self.keywords_reported |= bit;
        let text = self.text_of(self.token());
        self.report(
            Diagnostic::error(
                "E0106",
                self.span_of(self.token()),
                format!("`{text}` is a keyword and cannot be a name"),
            )
            .label("expected a name")
            .hint("choose another name here and wherever it is used"),
        );
    }

    /// Runs `inner` one level deeper, and reports nesting that is too deep.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn too_deep(&mut self) -> Reported {
        let diagnostic = Diagnostic::error("E0110", self.span_of(self.token()), "this is nested too deeply")
            .label(format!(
                "the limit is {MAX_DEPTH} levels, and {MAX_HEIGHT} operators in a row"
            ))
            .hint(match self.arms > MAX_DEPTH / 2 {
                true => {
                    "each arm of a `match` is a level: give variants with the same statements one arm, or let \
                     `default` call a helper function with a `match` over the others"
                }
                false => "divide it into helper functions or several statements",
            });
        self.report(diagnostic)
    }

    /// Parses a list with commas up to `close`, which is consumed. In braces, a comma may end it; in a call,
    /// a final comma would hide a forgotten argument.
    fn comma_list<T>(
        &mut self,
        close: TokenKind,
        open: Token,
        mut element: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
        let mut elements = Vec::new();
        while !self.is(close) {
            elements.push(element(self)?);
            if !self.eat(TokenKind::Comma) {
                self.expect_end(close, open, true)?;
                return Ok(elements);
            }
            if self.is(close) && close != TokenKind::RightBrace {
                elements.push(element(self)?);
            }
        }
        self.expect_end(close, open, elements.is_empty())?;
        Ok(elements)
    }
}
