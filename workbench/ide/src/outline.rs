//! The declarations of a file, and those of all known files.

use std::path::Path;

use hawser_check::index::DefKind;
use hawser_syntax::ast::{Extended, Field, Ident, Item, ItemKind, Member};
use hawser_syntax::{Span, parse};

use crate::{FileRange, Workspace};

/// The maximum number of symbols in the result of a search.
const MAX_SYMBOLS: usize = 256;

/// A declaration of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Symbol {
    /// The declared name.
    pub name: String,
    /// The kind of the declaration.
    pub kind: DefKind,
    /// Its type as written; empty if it has no type.
    pub detail: String,
    /// The byte range of the whole declaration.
    pub range: (usize, usize),
    /// The byte range of the name in it.
    pub name_range: (usize, usize),
    /// The parts of the declaration: fields, variants, chains, queues.
    pub children: Vec<Symbol>,
}

impl Workspace {
    /// Returns the declarations of an open file, in order.
    #[must_use]
    pub fn outline(&self, path: &Path) -> Vec<Symbol> {
        self.text(path).map_or_else(Vec::new, symbols)
    }

    /// Returns the declarations of all known files whose names contain the letters of a query in order.
    #[must_use]
    pub fn symbols(&self, query: &str) -> Vec<(Symbol, FileRange)> {
        let mut found = Vec::new();
        for path in self.known_paths() {
            let text = self.any_text(path).unwrap_or_default();
            for symbol in symbols(&text) {
                if found.len() < MAX_SYMBOLS && is_like(&symbol.name, query) {
                    let place = FileRange { path: path.to_path_buf(), range: symbol.name_range };
                    found.push((symbol, place));
                }
            }
        }
        found
    }
}

/// True if a name contains the letters of a query in order, regardless of case.
fn is_like(name: &str, query: &str) -> bool {
    let mut letters = name.chars().map(|letter| letter.to_ascii_lowercase());
    let mut wanted = query.chars().map(|letter| letter.to_ascii_lowercase());
    wanted.all(|wanted| letters.any(|letter| letter == wanted))
}

fn symbols(text: &str) -> Vec<Symbol> {
    let (file, _) = parse(text, 0);
    let symbol = |item| symbol(text, item);
    file.items.iter().filter_map(symbol).collect()
}

fn written(text: &str, at: Span) -> &str {
    text.get(at.start as usize..at.end as usize).unwrap_or("")
}

fn range(at: Span) -> (usize, usize) {
    (at.start as usize, at.end as usize)
}

fn named(name: &Ident, kind: DefKind, detail: &str, whole: Span) -> Symbol {
    Symbol {
        name: name.name.clone(),
        kind,
        detail: detail.split_whitespace().collect::<Vec<_>>().join(" "),
        range: range(whole),
        name_range: range(name.span),
        children: Vec::new(),
    }
}

fn symbol(text: &str, item: &Item) -> Option<Symbol> {
    let (name, kind, detail) = head(text, &item.kind, item.span)?;
    let mut symbol = named(&name, kind, &detail, item.span);
    symbol.children = children(text, &item.kind);
    (!symbol.name.is_empty()).then_some(symbol)
}

/// Returns the name, kind and type of a declaration, or `None` if it is not shown in an outline.
fn head(text: &str, kind: &ItemKind, whole: Span) -> Option<(Ident, DefKind, String)> {
    let plain = |name: &Ident, kind| Some((name.clone(), kind, String::new()));
    let typed = |name: &Ident, kind, ty: Span| Some((name.clone(), kind, written(text, ty).to_owned()));
    let word = |word: &str| Ident {
        name: word.to_owned(),
        span: Span { end: whole.start + word.len() as u32, ..whole },
    };
    match kind {
        ItemKind::Const { ty, name, .. } => typed(name, DefKind::Const, ty.span),
        ItemKind::Table { ty, name, .. } => typed(name, DefKind::Table, ty.span),
        ItemKind::Param { ty, name, .. } => typed(name, DefKind::Param, ty.span),
        ItemKind::Enum { name, .. } => plain(name, DefKind::Enum),
        ItemKind::Struct { name, .. } => plain(name, DefKind::Struct),
        ItemKind::Event { name, kind, .. } => typed(name, DefKind::Event, kind.span),
        ItemKind::Context { name, .. } => plain(name, DefKind::Context),
        ItemKind::Scratchpad { name, .. } => match name {
            Some(name) => plain(name, DefKind::Scratchpad),
            None => Some((word("scratchpad"), DefKind::Scratchpad, String::new())),
        },
        ItemKind::Extend { of, name, .. } => {
            let kind = match of {
                Extended::Context => DefKind::Context,
                Extended::Event => DefKind::Event,
                Extended::Scratchpad => DefKind::Scratchpad,
                Extended::Struct => DefKind::Struct,
            };
            Some((name.clone(), kind, "extended".to_owned()))
        }
        ItemKind::Signal { name, .. } => plain(name, DefKind::Signal),
        ItemKind::Opt { name, .. } => plain(name, DefKind::Option),
        ItemKind::OptUnion { name, .. } => plain(name, DefKind::OptionUnion),
        ItemKind::OptList { name, .. } => plain(name, DefKind::OptionList),
        ItemKind::Blueprint { name, .. } => plain(name, DefKind::Blueprint),
        ItemKind::SegRule { name, .. } => plain(name, DefKind::Rule),
        ItemKind::Sched { name, .. } => plain(name, DefKind::Schedule),
        ItemKind::Extern { ret, name, .. } => typed(name, DefKind::Extern, ret.span),
        ItemKind::Func { ret, name, .. } => typed(name, DefKind::Function, ret.span),
        ItemKind::Dispatch { name, .. } => plain(name, DefKind::Dispatch),
        ItemKind::Deploy { .. } => Some((word("deploy"), DefKind::Dispatch, String::new())),
        ItemKind::Import { .. }
        | ItemKind::NetHeader { .. }
        | ItemKind::Coalesce { .. }
        | ItemKind::Attach { .. } => None,
    }
}

fn children(text: &str, kind: &ItemKind) -> Vec<Symbol> {
    let field = |field: &Field| {
        named(
            &field.name,
            DefKind::Field,
            written(text, field.ty.span),
            field.name.span,
        )
    };
    let plain = |name: &Ident, kind| named(name, kind, "", name.span);
    match kind {
        ItemKind::Struct { fields, .. }
        | ItemKind::Event { fields, .. }
        | ItemKind::Signal { fields, .. }
        | ItemKind::Opt { fields, .. }
        | ItemKind::OptList { fields, .. }
        | ItemKind::Blueprint { fields, .. } => fields.iter().map(field).collect(),
        ItemKind::Context { members, .. }
        | ItemKind::Scratchpad { members, .. }
        | ItemKind::Extend { members, .. } => {
            let member = |member: &Member| match member {
                Member::Field(declared) => Some(field(declared)),
                Member::Timer { name, .. } => Some(plain(name, DefKind::Timer)),
                Member::Part { ty, name } => Some(named(name, DefKind::Part, &ty.name, name.span)),
                Member::Invariant { .. } => None,
            };
            members.iter().filter_map(member).collect()
        }
        ItemKind::Enum { variants, .. } => {
            let variants = variants.iter();
            variants.map(|(name, _)| plain(name, DefKind::Variant)).collect()
        }
        ItemKind::Dispatch { entries, .. } => {
            let chains = entries.iter().filter(|entry| entry.is_chain);
            chains.map(|entry| plain(&entry.name, DefKind::Chain)).collect()
        }
        ItemKind::Sched { queues, .. } => {
            let queues = queues.iter();
            queues.map(|(name, ..)| plain(name, DefKind::Queue)).collect()
        }
        ItemKind::Import { .. }
        | ItemKind::Const { .. }
        | ItemKind::Table { .. }
        | ItemKind::Param { .. }
        | ItemKind::OptUnion { .. }
        | ItemKind::NetHeader { .. }
        | ItemKind::SegRule { .. }
        | ItemKind::Coalesce { .. }
        | ItemKind::Extern { .. }
        | ItemKind::Func { .. }
        | ItemKind::Deploy { .. }
        | ItemKind::Attach { .. } => Vec::new(),
    }
}
