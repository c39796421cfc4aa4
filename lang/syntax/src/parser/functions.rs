//! Functions, externs and coalescing rules: what has parameters.

use super::{Parse, Parser};
use crate::ast::{ItemKind, Param};
use crate::token::TokenKind;

impl Parser<'_> {
    /// `T name(params) { … }`
    pub(super) fn function(&mut self) -> Parse<ItemKind> {
        let ret = self.type_()?;
        let name = self.name("the function's name")?;
        let params = match self.params() {
            Ok(params) => params,
            Err(reported) => {
                if !self.skip_to_body() {
                    return Err(reported);
                }
                Vec::new()
            }
        };
        let body = self.block()?;
        Ok(ItemKind::Func { ret, name, params, body })
    }

    /// `extern T name(params);`, `extern instr_t name(params) -> event;`
    pub(super) fn external(&mut self) -> Parse<ItemKind> {
        let ret = self.type_()?;
        let name = self.name("the function's name")?;
        let params = self.params()?;
        let answer = if self.eat(TokenKind::Arrow) { Some(self.name("the answering event")?) } else { None };
        self.semicolon("the extern")?;
        Ok(ItemKind::Extern { ret, name, params, answer })
    }

    fn params(&mut self) -> Parse<Vec<Param>> {
        let open = self.expect(TokenKind::LeftParen)?;
        self.comma_list(TokenKind::RightParen, open, |p| {
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
