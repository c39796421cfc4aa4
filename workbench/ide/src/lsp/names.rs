//! The protocol's names for kinds of names and for colours.

use lsp_types::{CompletionItemKind, SymbolKind};

use crate::{Colour, Kind};

/// The names of token colours. The index is the number in the protocol.
pub(super) const TOKEN_TYPES: &[&str] = &[
    "keyword",
    "comment",
    "number",
    "string",
    "type",
    "function",
    "enumMember",
    "variable",
    "enum",
    "struct",
    "class",
    "event",
    "namespace",
    "property",
    "parameter",
    "method",
];

/// The modifiers of a colour, one bit each.
pub(super) const TOKEN_MODIFIERS: &[&str] = &["readonly", "defaultLibrary", "documentation"];

const READ_ONLY: u32 = 1;
const OF_THE_LANGUAGE: u32 = 2;
const CITATION: u32 = 4;

/// Returns the number and the modifiers of a colour.
pub(super) fn token(colour: Colour) -> (u32, u32) {
    let (name, modifiers) = match colour {
        Colour::Keyword => ("keyword", 0),
        Colour::Comment => ("comment", 0),
        Colour::Citation => ("comment", CITATION),
        Colour::Number => ("number", 0),
        Colour::Text => ("string", 0),
        Colour::Type => ("type", OF_THE_LANGUAGE),
        Colour::Function => ("function", OF_THE_LANGUAGE),
        Colour::Constant => ("enumMember", READ_ONLY | OF_THE_LANGUAGE),
        Colour::Name(kind) => match kind {
            Kind::Const | Kind::Table | Kind::Param => ("variable", READ_ONLY),
            Kind::Variant => ("enumMember", READ_ONLY),
            Kind::Enum => ("enum", 0),
            Kind::Struct | Kind::Signal | Kind::Option | Kind::Blueprint => ("struct", 0),
            Kind::OptionUnion | Kind::OptionList => ("type", 0),
            Kind::Context | Kind::Scratchpad => ("class", 0),
            Kind::Event => ("event", 0),
            Kind::Rule | Kind::Extern | Kind::Function => ("function", 0),
            Kind::Schedule | Kind::Dispatch | Kind::Chain => ("namespace", 0),
            Kind::Queue | Kind::Field | Kind::Timer | Kind::Part => ("property", 0),
            Kind::Parameter => ("parameter", 0),
            Kind::Variable => ("variable", 0),
            Kind::Method => ("method", OF_THE_LANGUAGE),
        },
    };
    let number = TOKEN_TYPES.iter().position(|known| *known == name);
    (number.unwrap_or(0) as u32, modifiers)
}

/// Returns the symbol kind that represents a kind of names.
pub(super) fn symbol(kind: Kind) -> SymbolKind {
    match kind {
        Kind::Const | Kind::Table | Kind::Param => SymbolKind::CONSTANT,
        Kind::Variant => SymbolKind::ENUM_MEMBER,
        Kind::Enum => SymbolKind::ENUM,
        Kind::Struct | Kind::Signal | Kind::Option | Kind::Blueprint => SymbolKind::STRUCT,
        Kind::OptionUnion | Kind::OptionList => SymbolKind::STRUCT,
        Kind::Context | Kind::Scratchpad => SymbolKind::CLASS,
        Kind::Event => SymbolKind::EVENT,
        Kind::Rule | Kind::Extern | Kind::Function => SymbolKind::FUNCTION,
        Kind::Schedule | Kind::Dispatch | Kind::Chain => SymbolKind::NAMESPACE,
        Kind::Queue | Kind::Field | Kind::Timer | Kind::Part => SymbolKind::FIELD,
        Kind::Parameter | Kind::Variable => SymbolKind::VARIABLE,
        Kind::Method => SymbolKind::METHOD,
    }
}

/// Returns the icon of a completion.
pub(super) fn proposal(kind: Option<Kind>) -> CompletionItemKind {
    match kind {
        None => CompletionItemKind::KEYWORD,
        Some(Kind::Const | Kind::Table | Kind::Param) => CompletionItemKind::CONSTANT,
        Some(Kind::Variant) => CompletionItemKind::ENUM_MEMBER,
        Some(Kind::Enum) => CompletionItemKind::ENUM,
        Some(Kind::Struct | Kind::Signal | Kind::Option | Kind::Blueprint) => CompletionItemKind::STRUCT,
        Some(Kind::OptionUnion | Kind::OptionList) => CompletionItemKind::STRUCT,
        Some(Kind::Context | Kind::Scratchpad) => CompletionItemKind::CLASS,
        Some(Kind::Event) => CompletionItemKind::EVENT,
        Some(Kind::Rule | Kind::Extern | Kind::Function) => CompletionItemKind::FUNCTION,
        Some(Kind::Schedule | Kind::Dispatch | Kind::Chain) => CompletionItemKind::MODULE,
        Some(Kind::Queue | Kind::Field | Kind::Timer | Kind::Part) => CompletionItemKind::FIELD,
        Some(Kind::Parameter | Kind::Variable) => CompletionItemKind::VARIABLE,
        Some(Kind::Method) => CompletionItemKind::METHOD,
    }
}
