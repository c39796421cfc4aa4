//! The protocol's names for kinds of names and for colours.

use lsp_types::{CompletionItemKind, SymbolKind};

use crate::{Colour, DefKind};

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
            DefKind::Const | DefKind::Table | DefKind::Param => ("variable", READ_ONLY),
            DefKind::Variant => ("enumMember", READ_ONLY),
            DefKind::Enum => ("enum", 0),
            DefKind::Struct | DefKind::Signal | DefKind::Option | DefKind::Blueprint => ("struct", 0),
            DefKind::OptionUnion | DefKind::OptionList => ("type", 0),
            DefKind::Context | DefKind::Scratchpad => ("class", 0),
            DefKind::Event => ("event", 0),
            DefKind::Rule | DefKind::Extern | DefKind::Function => ("function", 0),
            DefKind::Schedule | DefKind::Dispatch | DefKind::Chain => ("namespace", 0),
            DefKind::Queue | DefKind::Field | DefKind::Timer | DefKind::Part => ("property", 0),
            DefKind::Parameter => ("parameter", 0),
            DefKind::Variable => ("variable", 0),
            DefKind::Method => ("method", OF_THE_LANGUAGE),
        },
    };
    let number = TOKEN_TYPES.iter().position(|known| *known == name);
    (number.unwrap_or(0) as u32, modifiers)
}

/// Returns the symbol kind that represents a kind of names.
pub(super) fn symbol(kind: DefKind) -> SymbolKind {
    match kind {
        DefKind::Const | DefKind::Table | DefKind::Param => SymbolKind::CONSTANT,
        DefKind::Variant => SymbolKind::ENUM_MEMBER,
        DefKind::Enum => SymbolKind::ENUM,
        DefKind::Struct | DefKind::Signal | DefKind::Option | DefKind::Blueprint => SymbolKind::STRUCT,
        DefKind::OptionUnion | DefKind::OptionList => SymbolKind::STRUCT,
        DefKind::Context | DefKind::Scratchpad => SymbolKind::CLASS,
        DefKind::Event => SymbolKind::EVENT,
        DefKind::Rule | DefKind::Extern | DefKind::Function => SymbolKind::FUNCTION,
        DefKind::Schedule | DefKind::Dispatch | DefKind::Chain => SymbolKind::NAMESPACE,
        DefKind::Queue | DefKind::Field | DefKind::Timer | DefKind::Part => SymbolKind::FIELD,
        DefKind::Parameter | DefKind::Variable => SymbolKind::VARIABLE,
        DefKind::Method => SymbolKind::METHOD,
    }
}

/// Returns the icon of a completion.
pub(super) fn proposal(kind: Option<DefKind>) -> CompletionItemKind {
    match kind {
        None => CompletionItemKind::KEYWORD,
        Some(DefKind::Const | DefKind::Table | DefKind::Param) => CompletionItemKind::CONSTANT,
        Some(DefKind::Variant) => CompletionItemKind::ENUM_MEMBER,
        Some(DefKind::Enum) => CompletionItemKind::ENUM,
        Some(DefKind::Struct | DefKind::Signal | DefKind::Option | DefKind::Blueprint) => {
            CompletionItemKind::STRUCT
        }
        Some(DefKind::OptionUnion | DefKind::OptionList) => CompletionItemKind::STRUCT,
        Some(DefKind::Context | DefKind::Scratchpad) => CompletionItemKind::CLASS,
        Some(DefKind::Event) => CompletionItemKind::EVENT,
        Some(DefKind::Rule | DefKind::Extern | DefKind::Function) => CompletionItemKind::FUNCTION,
        Some(DefKind::Schedule | DefKind::Dispatch | DefKind::Chain) => CompletionItemKind::MODULE,
        Some(DefKind::Queue | DefKind::Field | DefKind::Timer | DefKind::Part) => CompletionItemKind::FIELD,
        Some(DefKind::Parameter | DefKind::Variable) => CompletionItemKind::VARIABLE,
        Some(DefKind::Method) => CompletionItemKind::METHOD,
    }
}
