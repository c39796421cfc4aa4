//! Top-level declarations.

use super::{Parse, Parser, Reported, SignRole};
use crate::Diagnostic;
use crate::ast::{Expr, Extended, Ident, Item, ItemKind, Member};
use crate::nearest::nearest;
use crate::token::{ITEM_WORDS, Keyword, TokenKind};

impl Parser<'_> {
    /// Parses all items; an item that fails is skipped.
    pub(super) fn file(&mut self) -> Vec<Item> {
        let mut items = Vec::new();
        while !self.is(TokenKind::End) {
            let before = self.at;
            match self.item() {
                Ok(Some(item)) => {
                    items.push(item);
                    self.astray = false;
                }
                Ok(None) => {}
                Err(Reported) => {
                    self.skip_item(before);
                    self.astray = true;
                }
            }
        }
        items
    }

    /// Parses one item. Yields `None` for a lone `;`, which C programmers put after `}` out of habit.
    fn item(&mut self) -> Parse<Option<Item>> {
        if self.eat(TokenKind::Semicolon) {
            return Ok(None);
        }
        let start = self.token().start;
        let kind = match self.kind() {
            TokenKind::Keyword(word) if word.begins_item() => self.declaration(word)?,
            TokenKind::Ident if self.at_function() || self.at_broken_function() => self.function()?,
            TokenKind::Ident if self.at_function_without_type() => self.function_without_type()?,
            TokenKind::Ident if self.at_attachment() => self.attachment()?,
            TokenKind::Ident if self.at_extension() => self.extension()?,
            TokenKind::Ident if self.at_statement() => return Err(self.stray_statement()),
            TokenKind::Ident => self.unknown_item()?,
            TokenKind::RightBrace => return Err(self.stray_brace()),
            TokenKind::Keyword(_) => return Err(self.stray_statement()),
            _ => return Err(self.unexpected("a declaration")),
        };
        Ok(Some(Item { span: self.since(start), kind }))
    }

    /// Parses the declaration that this keyword begins. The keyword is the next token.
    fn declaration(&mut self, word: Keyword) -> Parse<ItemKind> {
        self.advance();
        match word {
            Keyword::Import => self.import(),
            Keyword::Const => self.constant_or_table(),
            Keyword::Param => self.constant(|ty, name, value| ItemKind::Param { ty, name, value }),
            Keyword::Enum => self.enumeration(),
            Keyword::Struct => {
                self.with_fields("structure", |name, fields| ItemKind::Struct { name, fields })
            }
            Keyword::Event => self.event(),
            Keyword::Context => {
                let name = self.name("the context's name")?;
                Ok(ItemKind::Context { name, members: self.members()? })
            }
            Keyword::Scratchpad => self.scratchpad(),
            Keyword::Signal => self.with_fields("signal", |name, fields| ItemKind::Signal { name, fields }),
            Keyword::Opt => self.with_fields("option", |name, fields| ItemKind::Opt { name, fields }),
            Keyword::OptUnion => self.option_union(),
            Keyword::OptList => {
                let name = self.name("the option list's name")?;
                let (fields, pad) = self.option_list()?;
                Ok(ItemKind::OptList { name, fields, pad })
            }
            Keyword::Blueprint => {
                self.with_fields("blueprint", |name, fields| ItemKind::Blueprint { name, fields })
            }
            Keyword::NetHeader => {
                self.with_fields("header", |name, fields| ItemKind::NetHeader { name, fields })
            }
            Keyword::SegRule => self.segmentation_rule(),
            Keyword::Coalesce => self.coalesce(),
            Keyword::Sched => self.scheduler(),
            Keyword::Extern => self.external(),
            Keyword::Dispatch => self.dispatch(),
            Keyword::Deploy => self.deploy(),
            Keyword::If
            | Keyword::Else
            | Keyword::Match
            | Keyword::For
            | Keyword::Break
            | Keyword::Continue
            | Keyword::Return
            | Keyword::Emit
            | Keyword::Done
            | Keyword::Refuse
            | Keyword::Assert
            | Keyword::True
            | Keyword::False => Err(self.unexpected("a declaration")),
        }
    }

    /// `import "file.mtp";`
    fn import(&mut self) -> Parse<ItemKind> {
        if !self.is(TokenKind::Str) {
            return Err(self.unexpected("the file's name in quotation marks"));
        }
        let token = self.advance();
        if self.text_of(token).len() < 2 || !self.text_of(token).ends_with('"') {
            return Err(Reported); // the lexer has reported it
        }
        let path = self.text_of(token).trim_matches('"').to_owned();
        self.semicolon("the import")?;
        Ok(ItemKind::Import { path, path_span: self.span_of(token) })
    }

    /// `T NAME = e;`
    fn constant(&mut self, make: impl FnOnce(crate::ast::Type, Ident, Expr) -> ItemKind) -> Parse<ItemKind> {
        let ty = self.type_()?;
        let name = self.name("the constant's name")?;
        let value = self.constant_value()?;
        Ok(make(ty, name, value))
    }

    /// `T NAME = e;`, `T NAME[N] = {a, b};`
    fn constant_or_table(&mut self) -> Parse<ItemKind> {
        let ty = self.type_()?;
        let name = self.name("the constant's name")?;
        self.mark(SignRole::Attached);
        if !self.eat(TokenKind::LeftBracket) {
            let value = self.constant_value()?;
            return Ok(ItemKind::Const { ty, name, value });
        }
        let open = self.tokens[self.at - 1];
        let size = match self.kind() {
            TokenKind::RightBracket => None,
            _ => Some(self.expr()?),
        };
        self.expect_closing(TokenKind::RightBracket, open)?;
        self.expect(TokenKind::Assign)?;
        let values = self.marked_list(
            SignRole::List,
            TokenKind::LeftBrace,
            TokenKind::RightBrace,
            Self::expr,
        )?;
        self.semicolon("the table")?;
        Ok(ItemKind::Table { ty, name, size, values })
    }

    /// `= e;`
    fn constant_value(&mut self) -> Parse<Expr> {
        self.expect(TokenKind::Assign)?;
        let value = self.expr()?;
        if self.is(TokenKind::Comma) {
            let diagnostic =
                Diagnostic::error("E0101", self.span_of(self.token()), "expected `;`, found `,`")
                    .label("expected `;` after the constant")
                    .hint("each constant has a declaration of its own");
            return Err(self.report(diagnostic));
        }
        self.semicolon("the constant")?;
        Ok(value)
    }

    /// `enum name : T { A, B = 3 }`
    fn enumeration(&mut self) -> Parse<ItemKind> {
        let name = self.name("the enum's name")?;
        self.mark(SignRole::Spaced);
        let repr = if self.eat(TokenKind::Colon) {
            Some(self.type_()?)
        } else {
            None
        };
        let variant = |p: &mut Self| {
            let variant = p.name("a variant's name")?;
            let value = if p.eat(TokenKind::Assign) {
                Some(p.expr()?)
            } else {
                None
            };
            Ok((variant, value))
        };
        let variants = self.marked_list(
            SignRole::Variants,
            TokenKind::LeftBrace,
            TokenKind::RightBrace,
            variant,
        )?;
        Ok(ItemKind::Enum { name, repr, variants })
    }

    /// `name { fields }`
    fn with_fields(
        &mut self,
        what: &str,
        make: impl FnOnce(Ident, Vec<crate::ast::Field>) -> ItemKind,
    ) -> Parse<ItemKind> {
        let name = self.name(&format!("the {what}'s name"))?;
        Ok(make(name, self.fields()?))
    }

    /// `event name : KIND { fields }`
    fn event(&mut self) -> Parse<ItemKind> {
        let name = self.name("the event's name")?;
        if !self.is(TokenKind::Colon) {
            let diagnostic = Diagnostic::error("E0101", self.gap(), format!("the kind of the event `{}` is missing", name.name))
                .label("expected `:` and the kind")
                .hint("kinds: APP_EVENT, NET_EVENT, TIMER_EVENT, SYS_EVENT, and EVENT for those that are only raised");
            self.report(diagnostic);
            let kind = if self.is(TokenKind::Ident) && self.peek(1).kind == TokenKind::LeftBrace {
                self.ident()
            } else {
                Ident { name: "EVENT".to_owned(), span: name.span }
            };
            return Ok(ItemKind::Event { name, kind, fields: self.fields()? });
        }
        self.mark(SignRole::Spaced);
        self.advance();
        // `: event` is the kind of events that are only raised. The word is no mistake here.
        let kind = match self.kind() {
            TokenKind::Keyword(Keyword::Event) => self.ident(),
            _ => self.name("the event's kind")?,
        };
        Ok(ItemKind::Event { name, kind, fields: self.fields()? })
    }

    /// `scratchpad { … }`, `scratchpad_t name { … }`
    fn scratchpad(&mut self) -> Parse<ItemKind> {
        let name = if self.is(TokenKind::LeftBrace) {
            None
        } else {
            Some(self.name("the scratchpad's name")?)
        };
        Ok(ItemKind::Scratchpad { name, members: self.members()? })
    }

    /// True if `extend context …` begins here; elsewhere the word is an ordinary name.
    fn at_extension(&self) -> bool {
        self.is_word("extend") && matches!(self.peek(1).kind, TokenKind::Keyword(_))
    }

    /// `extend context name { members }`, and likewise for events, structures and the scratchpad.
    fn extension(&mut self) -> Parse<ItemKind> {
        self.advance();
        let of = match self.kind() {
            TokenKind::Keyword(Keyword::Context) => Extended::Context,
            TokenKind::Keyword(Keyword::Event) => Extended::Event,
            TokenKind::Keyword(Keyword::Scratchpad) => Extended::Scratchpad,
            TokenKind::Keyword(Keyword::Struct) => Extended::Struct,
            _ => return Err(self.unexpected("`context`, `event`, `scratchpad` or `struct`")),
        };
        self.advance();
        let name = self.name("the name of what is extended")?;
        let members = match of {
            Extended::Context | Extended::Scratchpad => self.members()?,
            Extended::Event | Extended::Struct => self.fields()?.into_iter().map(Member::Field).collect(),
        };
        Ok(ItemKind::Extend { of, name, members })
    }

    /// `opt_union name { a, b }`
    fn option_union(&mut self) -> Parse<ItemKind> {
        let name = self.name("the union's name")?;
        let members = self.names(SignRole::Variants, "an option's name")?;
        Ok(ItemKind::OptUnion { name, members })
    }

    /// Handles a word that begins no declaration. If it resembles one that does, it is parsed as that one.
    fn unknown_item(&mut self) -> Parse<ItemKind> {
        let token = self.token();
        let word = self.text_of(token);
        if self.peek(1).kind == TokenKind::Ident
            && matches!(
                self.peek(2).kind,
                TokenKind::Assign | TokenKind::Semicolon | TokenKind::Comma
            )
        {
            let diagnostic = Diagnostic::error(
                "E0104",
                self.span_of(token),
                "variables are not allowed \
                 outside functions",
            )
            .label("expected a declaration")
            .hint(
                "declare a constant by `const T NAME = value;`, a setting by `param`, and state in a \
                       `context`",
            );
            return Err(self.report(diagnostic));
        }
        let meant = nearest(word, ITEM_WORDS);
        let mut diagnostic = Diagnostic::error(
            "E0104",
            self.span_of(token),
            format!("`{word}` does not begin a declaration"),
        )
        .label("expected a declaration: event, context, dispatch, a function, …");
        if let Some(meant) = meant {
            diagnostic = diagnostic.hint(format!("did you mean `{meant}`?"));
        }
        let reported = self.report(diagnostic);
        match meant.and_then(Keyword::from_word) {
            Some(keyword) => self.declaration(keyword),
            None => Err(reported),
        }
    }

    /// True at a place, a call or an assignment, which may occur only in functions.
    fn at_statement(&self) -> bool {
        matches!(
            self.peek(1).kind,
            TokenKind::Dot
                | TokenKind::Arrow
                | TokenKind::LeftParen
                | TokenKind::LeftBracket
                | TokenKind::Assign
                | TokenKind::PlusAssign
                | TokenKind::MinusAssign
        )
    }

    fn stray_brace(&mut self) -> Reported {
        if self.astray {
            return Reported;
        }
        let diagnostic = Diagnostic::error(
            "E0113",
            self.span_of(self.token()),
            "this `}` has no matching \
             `{`",
        )
        .label("expected a declaration")
        .hint("delete it, or look for an extra `}` above");
        self.report(diagnostic)
    }

    fn stray_statement(&mut self) -> Reported {
        if self.astray {
            return Reported;
        }
        let message = format!("{} is outside a function", self.found());
        let diagnostic = Diagnostic::error("E0112", self.span_of(self.token()), message)
            .label("expected a declaration")
            .hint("write statements in functions, or look for an extra `}` above");
        self.report(diagnostic)
    }
}
