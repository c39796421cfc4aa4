//! Declarations with parameters: functions, externs and coalescing rules.

use super::{Parse, Parser};
use crate::Diagnostic;
use crate::ast::{Ident, ItemKind, Param, Type};
use crate::token::TokenKind;

impl Parser<'_> {
    /// `T name(params) { … }`
    pub(super) fn function(&mut self) -> Parse<ItemKind> {
        let ret = self.type_()?;
        self.function_named(ret)
    }

    /// `name(params) { … }`, with the return type missing.
    pub(super) fn function_without_type(&mut self) -> Parse<ItemKind> {
        let name = self.token();
        let diagnostic = Diagnostic::error("E0101", self.span_of(name), "the function's type is missing")
            .label("expected a type before the name")
            .hint("a function without a result is `void name(…) { … }`");
        self.report(diagnostic);
        let span = self.gap();
        self.function_named(Type { span, name: Ident { name: "void".to_owned(), span }, args: Vec::new() })
    }

    fn function_named(&mut self, ret: Type) -> Parse<ItemKind> {
        let name = self.name("the function's name")?;
        let before = self.at;
        let params = match self.params_and_brace() {
            Ok(params) => params,
            Err(reported) => {
                if !self.skip_to_body(before) || !self.is(TokenKind::LeftBrace) {
                    return Err(reported);
                }
                Vec::new()
            }
        };
        let body = self.block()?;
        Ok(ItemKind::Func { ret, name, params, body })
    }

    /// Parses the parameters, and checks that the body follows.
    fn params_and_brace(&mut self) -> Parse<Vec<Param>> {
        let params = self.params()?;
        if self.is(TokenKind::Arrow) {
            let diagnostic =
                Diagnostic::error("E0101", self.span_of(self.token()), "expected `{`, found `->`")
                    .label("expected the function's body")
                    .hint("write the type of the result before the name: `T name(…) { … }`");
            return Err(self.report(diagnostic));
        }
        if !self.is(TokenKind::LeftBrace) {
            return Err(self.unexpected("`{`"));
        }
        Ok(params)
    }

    /// `extern T name(params);`, `extern instr_t name(params) -> event;`
    pub(super) fn external(&mut self) -> Parse<ItemKind> {
        let ret = self.type_()?;
        let name = self.name("the function's name")?;
        let params = self.params()?;
        let answer = if self.eat_arrow() {
            Some(self.name("the answering event")?)
        } else {
            None
        };
        self.semicolon("the extern")?;
        Ok(ItemKind::Extern { ret, name, params, answer })
    }

    fn params(&mut self) -> Parse<Vec<Param>> {
        self.arguments(|p| {
            let ty = p.type_()?;
            let name = match p.kind() {
                TokenKind::Comma | TokenKind::RightParen if ty.name.name == "no_ctx" => None,
                _ => Some(p.name("the parameter's name")?),
            };
            Ok(Param { ty, name })
        })
    }

    /// `coalesce BP (a, b) { … }`
    pub(super) fn coalesce(&mut self) -> Parse<ItemKind> {
        let blueprint = self.name("the blueprint's name")?;
        let open = self.expect(TokenKind::LeftParen)?;
        let a = self.name("a name for the earlier packet")?;
        self.expect(TokenKind::Comma)?;
        let b = self.name("a name for the later packet")?;
        self.expect_closing(TokenKind::RightParen, open)?;
        let body = self.block()?;
        Ok(ItemKind::Coalesce { blueprint, a, b, body })
    }
}
