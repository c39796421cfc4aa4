//! Types: `uint32`, `list<accept_res, 8>`, `sorted_list<rpc, 64, by (left, id), key id>`.

use super::{Parse, Parser, SignRole};
use crate::ast::{Type, TypeArg};
use crate::token::{Token, TokenKind};

/// The types that take arguments. In a statement, only these may be followed by `<`.
pub(super) const GENERIC: [&str; 7] = [
    "array",
    "bytes",
    "list",
    "seq",
    "sliding_wnd",
    "sorted_list",
    "instr",
];

impl Parser<'_> {
    pub(super) fn type_(&mut self) -> Parse<Type> {
        let start = self.token().start;
        let name = self.name("a type")?;
        let args = if self.is(TokenKind::Less) {
            self.nested(Self::type_args)?
        } else {
            Vec::new()
        };
        Ok(Type { span: self.since(start), name, args })
    }

    /// `<…>`
    pub(super) fn type_args(&mut self) -> Parse<Vec<TypeArg>> {
        self.marked_list(
            SignRole::Type,
            TokenKind::Less,
            TokenKind::Greater,
            Self::type_arg,
        )
    }

    fn type_arg(&mut self) -> Parse<TypeArg> {
        if self.is_word("by") && self.peek(1).kind == TokenKind::LeftParen {
            self.advance();
            let open = self.advance();
            return Ok(TypeArg::By(self.comma_list(
                TokenKind::RightParen,
                open,
                |p| p.name("a field's name"),
            )?));
        }
        if self.is_word("key") && self.peek(1).kind == TokenKind::Ident {
            self.advance();
            return Ok(TypeArg::Key(self.name("a field's name")?));
        }
        let type_follows = matches!(
            self.peek(1).kind,
            TokenKind::Less | TokenKind::Comma | TokenKind::Greater | TokenKind::GreaterEq
        );
        if self.is(TokenKind::Ident) && type_follows {
            return Ok(TypeArg::Type(self.type_()?));
        }
        Ok(TypeArg::Value(self.type_value()?))
    }

    /// True if a declaration `T name` begins here, in contrast to an expression.
    pub(super) fn at_declaration(&self) -> bool {
        if !self.is(TokenKind::Ident) {
            return false;
        }
        match self.peek(1).kind {
            TokenKind::Ident => true,
            // `bool done;`: a keyword in the place of the name.
            TokenKind::Keyword(_) => !self.line_break_before(self.peek(1)),
            TokenKind::Less => GENERIC.contains(&self.text_of(self.token())) && !self.at_cast(),
            _ => false,
        }
    }

    /// True if `seq<32>(` begins here.
    pub(super) fn at_cast(&self) -> bool {
        matches!(self.text_of(self.token()), "seq" | "bytes")
            && self.peek(1).kind == TokenKind::Less
            && matches!(self.peek(2).kind, TokenKind::Int | TokenKind::Ident)
            && self.peek(3).kind == TokenKind::Greater
            && self.peek(4).kind == TokenKind::LeftParen
    }

    /// True if a line ends between the next token and this one, which follows it directly.
    fn line_break_before(&self, token: Token) -> bool {
        self.text[self.token().end as usize..token.start as usize].contains('\n')
    }
}
