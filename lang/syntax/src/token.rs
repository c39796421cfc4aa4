//! Tokens: small, copyable, and without text of their own; the text is a slice of the source.
//!
//! `>>` and `>>=` are not tokens. The lexer yields `>`, and the parser joins adjacent ones in expressions, so
//! that `list<seq<32>>` needs no space.

/// A token and its byte range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    /// Offset of the first byte.
    pub start: u32,
    /// Offset one past the last byte.
    pub end: u32,
}

/// Words that cannot be names. Words such as `part`, `when` or `queue` are special only in one place and are
/// ordinary names elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Keyword {
    Import,
    Const,
    Param,
    Enum,
    Struct,
    Event,
    Context,
    Scratchpad,
    Signal,
    Opt,
    OptUnion,
    OptList,
    Blueprint,
    NetHeader,
    SegRule,
    Coalesce,
    Sched,
    Extern,
    Dispatch,
    Deploy,
    If,
    Else,
    Match,
    For,
    Break,
    Continue,
    Return,
    Emit,
    Done,
    Refuse,
    Assert,
    True,
    False,
}

/// Words that begin a declaration, used for the "did you mean" hint.
pub const ITEM_WORDS: [&str; 21] = [
    "import",
    "const",
    "param",
    "enum",
    "struct",
    "event",
    "context",
    "scratchpad",
    "scratchpad_t",
    "signal",
    "opt_t",
    "opt_union",
    "opt_list",
    "pkt_bp",
    "net_header",
    "seg_rule",
    "coalesce",
    "sched",
    "extern",
    "dispatch",
    "deploy",
];

/// Words that begin a statement, and the two constants that are keywords.
pub const STATEMENT_WORDS: [&str; 13] = [
    "if", "else", "match", "for", "break", "continue", "return", "emit", "done", "refuse", "assert", "true",
    "false",
];

/// Words that are special only in one place and are ordinary names elsewhere.
pub const PLACE_WORDS: [&str; 22] = [
    "in",
    "default",
    "observable",
    "modifiable",
    "part",
    "invariant",
    "when",
    "count",
    "over",
    "mask",
    "pad",
    "by",
    "key",
    "queue",
    "rank",
    "cost",
    "chain",
    "select",
    "attach",
    "extend",
    "before",
    "after",
];

impl Keyword {
    /// Returns the keyword that this word is, if it is one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Keyword> {
        Some(match word {
            "import" => Keyword::Import,
            "const" => Keyword::Const,
            "param" => Keyword::Param,
            "enum" => Keyword::Enum,
            "struct" => Keyword::Struct,
            "event" => Keyword::Event,
            "context" => Keyword::Context,
            "scratchpad" | "scratchpad_t" => Keyword::Scratchpad,
            "signal" => Keyword::Signal,
            "opt_t" => Keyword::Opt,
            "opt_union" => Keyword::OptUnion,
            "opt_list" => Keyword::OptList,
            "pkt_bp" => Keyword::Blueprint,
            "net_header" => Keyword::NetHeader,
            "seg_rule" => Keyword::SegRule,
            "coalesce" => Keyword::Coalesce,
            "sched" => Keyword::Sched,
            "extern" => Keyword::Extern,
            "dispatch" => Keyword::Dispatch,
            "deploy" => Keyword::Deploy,
            "if" => Keyword::If,
            "else" => Keyword::Else,
            "match" => Keyword::Match,
            "for" => Keyword::For,
            "break" => Keyword::Break,
            "continue" => Keyword::Continue,
            "return" => Keyword::Return,
            "emit" => Keyword::Emit,
            "done" => Keyword::Done,
            "refuse" => Keyword::Refuse,
            "assert" => Keyword::Assert,
            "true" => Keyword::True,
            "false" => Keyword::False,
            _ => return None,
        })
    }

    /// True if it begins a declaration.
    #[must_use]
    pub fn begins_item(self) -> bool {
        (self as u8) <= (Keyword::Deploy as u8)
    }

    /// True if it can only begin a statement.
    #[must_use]
    pub fn begins_statement(self) -> bool {
        (Keyword::If as u8..=Keyword::Assert as u8).contains(&(self as u8))
    }
}

/// The kinds of token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TokenKind {
    Ident,
    Keyword(Keyword),
    /// `10`, `0xff`; the lexer has checked the value.
    Int,
    /// `200ms`; the lexer has checked the value.
    Duration,
    /// `"…"`
    Str,
    LeftParen,
    RightParen,
    LeftBrace,
    RightBrace,
    LeftBracket,
    RightBracket,
    Semicolon,
    Comma,
    Dot,
    DotDot,
    /// `...`: the paper's mark for an omission; an error in a program.
    Ellipsis,
    Colon,
    ColonColon,
    Question,
    Arrow,
    /// `=>`: not part of the language; recognised for the sake of its hint.
    FatArrow,
    Assign,
    EqEq,
    Bang,
    NotEq,
    Less,
    LessEq,
    Greater,
    GreaterEq,
    ShiftLeft,
    ShiftLeftAssign,
    Plus,
    PlusAssign,
    PlusPlus,
    Minus,
    MinusAssign,
    MinusMinus,
    Star,
    StarAssign,
    Slash,
    SlashAssign,
    Percent,
    PercentAssign,
    And,
    AndAssign,
    AndAnd,
    Or,
    OrAssign,
    OrOr,
    Caret,
    CaretAssign,
    Tilde,
    /// Characters that belong to no token; the lexer has reported them.
    Unknown,
    /// The end of the text.
    End,
}

impl TokenKind {
    /// Returns the name of the token for messages.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            TokenKind::Ident => "a name",
            TokenKind::Keyword(_) => "a keyword",
            TokenKind::Int => "a number",
            TokenKind::Duration => "a duration",
            TokenKind::Str => "a string",
            TokenKind::LeftParen => "`(`",
            TokenKind::RightParen => "`)`",
            TokenKind::LeftBrace => "`{`",
            TokenKind::RightBrace => "`}`",
            TokenKind::LeftBracket => "`[`",
            TokenKind::RightBracket => "`]`",
            TokenKind::Semicolon => "`;`",
            TokenKind::Comma => "`,`",
            TokenKind::Dot => "`.`",
            TokenKind::DotDot => "`..`",
            TokenKind::Ellipsis => "`...`",
            TokenKind::Colon => "`:`",
            TokenKind::ColonColon => "`::`",
            TokenKind::Question => "`?`",
            TokenKind::Arrow => "`->`",
            TokenKind::FatArrow => "`=>`",
            TokenKind::Assign => "`=`",
            TokenKind::EqEq => "`==`",
            TokenKind::Bang => "`!`",
            TokenKind::NotEq => "`!=`",
            TokenKind::Less => "`<`",
            TokenKind::LessEq => "`<=`",
            TokenKind::Greater => "`>`",
            TokenKind::GreaterEq => "`>=`",
            TokenKind::ShiftLeft => "`<<`",
            TokenKind::ShiftLeftAssign => "`<<=`",
            TokenKind::Plus => "`+`",
            TokenKind::PlusAssign => "`+=`",
            TokenKind::PlusPlus => "`++`",
            TokenKind::Minus => "`-`",
            TokenKind::MinusAssign => "`-=`",
            TokenKind::MinusMinus => "`--`",
            TokenKind::Star => "`*`",
            TokenKind::StarAssign => "`*=`",
            TokenKind::Slash => "`/`",
            TokenKind::SlashAssign => "`/=`",
            TokenKind::Percent => "`%`",
            TokenKind::PercentAssign => "`%=`",
            TokenKind::And => "`&`",
            TokenKind::AndAssign => "`&=`",
            TokenKind::AndAnd => "`&&`",
            TokenKind::Or => "`|`",
            TokenKind::OrAssign => "`|=`",
            TokenKind::OrOr => "`||`",
            TokenKind::Caret => "`^`",
            TokenKind::CaretAssign => "`^=`",
            TokenKind::Tilde => "`~`",
            TokenKind::Unknown => "an unknown character",
            TokenKind::End => "the end of the file",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyword_lists_contain_their_kind() {
        assert!(
            ITEM_WORDS
                .iter()
                .all(|word| Keyword::from_word(word).is_some_and(Keyword::begins_item))
        );
        let statements = STATEMENT_WORDS.map(Keyword::from_word);
        assert!(
            statements
                .iter()
                .all(|keyword| keyword.is_some_and(|keyword| !keyword.begins_item()))
        );
        assert!(PLACE_WORDS.iter().all(|word| Keyword::from_word(word).is_none()));
    }
}
