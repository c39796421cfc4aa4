//! Completion: the names that can be written at a place.

use std::collections::BTreeMap;
use std::path::Path;

use hawser_check::index::DefKind;
use hawser_syntax::Span;
use hawser_syntax::ast::{Block, Item, ItemKind, Stmt, StmtKind};
use hawser_syntax::token::{ITEM_WORDS, STATEMENT_WORDS, Token, TokenKind};

use crate::hover::{comments, declared_form};
use crate::keywords::{self, Sort};
use crate::program::Program;
use crate::{Workspace, scan};

/// The maximum number of proposals.
const MAX_PROPOSALS: usize = 2000;

/// A name that can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The text to insert.
    pub name: String,
    /// The kind of the name; `None` for words of the language.
    pub kind: Option<DefKind>,
    /// Its type or form.
    pub detail: String,
    /// A description of it; may be empty.
    pub meaning: String,
}

/// The names that can be written at a byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The range of the word so far, which is replaced.
    pub range: (usize, usize),
    /// The proposals, most useful first: names of the function come before others.
    pub proposals: Vec<Proposal>,
}

/// The surroundings of a name that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompletionContext {
    /// Behind `.`, `->`, `::`, or within `[`. The checker knows the possible names.
    Member,
    /// After `emit`.
    Instruction,
    /// In a function.
    Body,
    /// In `deploy`.
    Deploy,
    /// In `dispatch`.
    Dispatch,
    /// In a declaration with fields.
    Fields,
    /// Outside of all declarations.
    Top,
}

/// A placeholder where no name is written yet, so that the checker finds a name there.
const MARKER: &str = "completion_marker";

impl Workspace {
    /// Returns the names that can be written at a byte of an open file.
    #[must_use]
    pub fn completion(&self, path: &Path, byte: usize) -> Option<Completion> {
        let path = self.identity(path);
        let text = self.text(&path)?;
        let byte = scan::boundary(text, byte);
        let lexed = scan::tokens(text);
        let is_inside = |start: u32, end: u32| (start as usize) < byte && byte <= end as usize;
        if lexed
            .comments
            .iter()
            .any(|comment| is_inside(comment.start, comment.end))
        {
            return None;
        }
        let is_word = |token: &&Token| {
            let touches = token.start as usize <= byte && byte <= token.end as usize;
            touches && matches!(token.kind, TokenKind::Ident | TokenKind::Keyword(_))
        };
        let word = lexed.tokens.iter().find(is_word);
        let is_other = |token: &Token| {
            is_inside(token.start, token.end) && matches!(token.kind, TokenKind::Str | TokenKind::Int)
        };
        if lexed.tokens.iter().any(is_other) {
            return None;
        }
        let start = word.map_or(byte, |word| word.start as usize);
        let before: Vec<Token> = lexed
            .tokens
            .iter()
            .filter(|token| token.end as usize <= start)
            .copied()
            .collect();
        let (program, asked) = self.asked(&path, text, (start, word), &before)?;
        let item = program.item_at(Span { end: asked.start, ..asked });
        let members = &program.analysis.index.members;
        let proposals = match self.place(text, &before, item, !members.is_empty()) {
            CompletionContext::Member => members.iter().map(member).collect(),
            CompletionContext::Instruction => words(&[Sort::Instruction])
                .chain(globals(&program, &[DefKind::Extern]))
                .collect(),
            CompletionContext::Body => in_body(&program, item, asked),
            CompletionContext::Deploy => words(&[Sort::Registration, Sort::Source])
                .chain(globals(
                    &program,
                    &[
                        DefKind::Dispatch,
                        DefKind::Context,
                        DefKind::Function,
                        DefKind::Rule,
                        DefKind::Schedule,
                        DefKind::Blueprint,
                    ],
                ))
                .collect(),
            CompletionContext::Dispatch => {
                globals(&program, &[DefKind::Event, DefKind::Function, DefKind::Chain]).collect()
            }
            CompletionContext::Fields => in_fields(&program),
            CompletionContext::Top => words(&[Sort::Type])
                .chain(ITEM_WORDS.iter().map(|word| keyword(word)))
                .chain(globals(&program, TYPES))
                .collect(),
        };
        let mut proposals: Vec<Proposal> = proposals;
        proposals.retain(|proposal| proposal.name != MARKER);
        proposals.truncate(MAX_PROPOSALS);
        Some(Completion { range: (start, word.map_or(byte, |word| word.end as usize)), proposals })
    }

    /// Checks the program with a name at the place, and returns it with the place of that name.
    fn asked(
        &self,
        path: &Path,
        text: &str,
        (start, word): (usize, Option<&Token>),
        before: &[Token],
    ) -> Option<(Program, Span)> {
        let root = self.roots(path).into_iter().next()?;
        let file = self.program(&root).file(path)?;
        let end = word.map_or(start, |word| word.end as usize);
        let in_literal = matches!(before, [.., name, brace]
            if name.kind == TokenKind::Ident && brace.kind == TokenKind::LeftBrace);
        let after = text[end..].trim_start();
        // A field of a struct value is parsed only with its colon, and a statement only with its end.
        let forms: &[&str] = match (in_literal || follows_field(before), after.starts_with(':')) {
            (true, false) => &[": 0", ""],
            _ => &[""],
        };
        let mut last = None;
        for form in forms {
            let name = match word {
                Some(word) => &text[start..word.end as usize],
                None => MARKER,
            };
            let supposed = format!("{}{name}{form}{}", &text[..start], &text[end..]);
            let asked = Span { file, start: start as u32, end: (start + name.len()) as u32 };
            let texts = BTreeMap::from([(path.to_path_buf(), supposed)]);
            let program = self.supposing(&root, &texts, Some(asked));
            let found = !program.analysis.index.members.is_empty();
            last = Some((program, asked));
            if found {
                break;
            }
        }
        last
    }

    fn place(
        &self,
        text: &str,
        before: &[Token],
        item: Option<&Item>,
        has_members: bool,
    ) -> CompletionContext {
        let last = before.last().map(|token| token.kind);
        if has_members || matches!(last, Some(TokenKind::Dot | TokenKind::ColonColon)) {
            return CompletionContext::Member;
        }
        let last_word = before
            .last()
            .and_then(|token| text.get(token.start as usize..token.end as usize));
        match item.map(|item| &item.kind) {
            Some(ItemKind::Func { .. } | ItemKind::Coalesce { .. }) if last_word == Some("emit") => {
                CompletionContext::Instruction
            }
            Some(ItemKind::Func { .. } | ItemKind::Coalesce { .. } | ItemKind::SegRule { .. }) => {
                CompletionContext::Body
            }
            Some(ItemKind::Deploy { .. }) => CompletionContext::Deploy,
            Some(ItemKind::Dispatch { .. }) => CompletionContext::Dispatch,
            Some(
                ItemKind::Struct { .. }
                | ItemKind::Event { .. }
                | ItemKind::Context { .. }
                | ItemKind::Scratchpad { .. }
                | ItemKind::Extend { .. }
                | ItemKind::Signal { .. }
                | ItemKind::Opt { .. }
                | ItemKind::OptList { .. }
                | ItemKind::OptUnion { .. }
                | ItemKind::Blueprint { .. }
                | ItemKind::NetHeader { .. },
            ) => CompletionContext::Fields,
            _ => CompletionContext::Top,
        }
    }
}

/// True if a field of a struct value may follow, as behind `name{f: v, `.
fn follows_field(before: &[Token]) -> bool {
    let Some((comma, rest)) = before.split_last() else {
        return false;
    };
    let mut closed = 0u32;
    for (index, token) in rest.iter().enumerate().rev() {
        match token.kind {
            TokenKind::RightBrace | TokenKind::RightParen | TokenKind::RightBracket => closed += 1,
            TokenKind::LeftBrace if closed == 0 => {
                let named = index > 0 && rest[index - 1].kind == TokenKind::Ident;
                return named && comma.kind == TokenKind::Comma;
            }
            TokenKind::LeftParen | TokenKind::LeftBracket | TokenKind::Semicolon if closed == 0 => {
                return false;
            }
            TokenKind::LeftBrace | TokenKind::LeftParen | TokenKind::LeftBracket => closed -= 1,
            _ => {}
        }
    }
    false
}

fn member(member: &hawser_check::index::Member) -> Proposal {
    Proposal {
        name: member.name.clone(),
        kind: Some(member.kind),
        detail: member.form.clone(),
        meaning: String::new(),
    }
}

fn keyword(word: &str) -> Proposal {
    Proposal {
        name: word.to_owned(),
        kind: None,
        detail: String::new(),
        meaning: String::new(),
    }
}

fn words(sorts: &'static [Sort]) -> impl Iterator<Item = Proposal> {
    let wanted = keywords::words().filter(|word| sorts.contains(&word.sort));
    wanted.map(|word| Proposal {
        name: word.name.to_owned(),
        kind: None,
        detail: word.form.to_owned(),
        meaning: word.meaning.to_owned(),
    })
}

const TYPES: &[DefKind] = &[
    DefKind::Struct,
    DefKind::Enum,
    DefKind::Event,
    DefKind::Context,
    DefKind::Scratchpad,
    DefKind::Blueprint,
    DefKind::Option,
    DefKind::Signal,
];

const VALUES: &[DefKind] = &[
    DefKind::Const,
    DefKind::Table,
    DefKind::Param,
    DefKind::Variant,
    DefKind::Function,
    DefKind::Extern,
    DefKind::Rule,
    DefKind::Schedule,
];

/// Returns the program's own names of some kinds, by name.
fn globals<'a>(program: &'a Program, kinds: &'a [DefKind]) -> impl Iterator<Item = Proposal> + use<'a> {
    let wanted = program.analysis.index.declarations.values();
    let mut wanted: Vec<_> = wanted.filter(|declared| kinds.contains(&declared.kind)).collect();
    wanted.sort_by(|a, b| a.name.cmp(&b.name));
    wanted.into_iter().map(move |declared| Proposal {
        name: declared.name.clone(),
        kind: Some(declared.kind),
        detail: declared_form(program, declared),
        meaning: comments(program, declared.at).unwrap_or_default(),
    })
}

fn in_body(program: &Program, item: Option<&Item>, at: Span) -> Vec<Proposal> {
    let mut proposals = locals(program, item, at);
    proposals.extend(globals(program, VALUES));
    proposals.extend(words(&[Sort::Function, Sort::Value]));
    proposals.extend(STATEMENT_WORDS.iter().map(|word| keyword(word)));
    proposals.extend(words(&[Sort::Type]));
    proposals.extend(globals(program, TYPES));
    proposals
}

fn in_fields(program: &Program) -> Vec<Proposal> {
    let members = ["observable", "modifiable", "part", "invariant"];
    let mut proposals: Vec<Proposal> = words(&[Sort::Type]).collect();
    proposals.extend(members.iter().map(|word| keyword(word)));
    proposals.extend(globals(program, TYPES));
    proposals.extend(globals(
        program,
        &[
            DefKind::OptionList,
            DefKind::OptionUnion,
            DefKind::Const,
            DefKind::Param,
        ],
    ));
    proposals
}

/// Returns the variables and parameters that are known at a place, the nearest first.
fn locals(program: &Program, item: Option<&Item>, at: Span) -> Vec<Proposal> {
    let Some(item) = item else { return Vec::new() };
    let mut scopes = vec![item.span];
    match &item.kind {
        ItemKind::Func { body, .. } | ItemKind::Coalesce { body, .. } => scopes_of_block(body, &mut scopes),
        _ => {}
    }
    let holds = |scope: &Span, at: Span| scope.start <= at.start && at.end <= scope.end;
    let innermost = |at: Span| {
        let around = scopes.iter().filter(|scope| holds(scope, at));
        around.min_by_key(|scope| scope.end - scope.start)
    };
    let known = program.analysis.index.declarations.values().filter(|declared| {
        matches!(declared.kind, DefKind::Variable | DefKind::Parameter)
            && declared.at.file == at.file
            && holds(&item.span, declared.at)
            && declared.at.end <= at.start
            && innermost(declared.at).is_some_and(|scope| holds(scope, at))
    });
    let mut known: Vec<_> = known.collect();
    known.sort_by_key(|declared| std::cmp::Reverse(declared.at.start));
    let proposal = |declared: &hawser_check::index::Declaration| Proposal {
        name: declared.name.clone(),
        kind: Some(declared.kind),
        detail: declared.ty.clone(),
        meaning: String::new(),
    };
    known.into_iter().map(proposal).collect()
}

fn scopes_of_block(block: &Block, out: &mut Vec<Span>) {
    out.push(block.span);
    for stmt in &block.stmts {
        scopes_of(stmt, out);
    }
}

fn scopes_of(stmt: &Stmt, out: &mut Vec<Span>) {
    match &stmt.kind {
        StmtKind::If { then, otherwise, .. } => {
            scopes_of_block(then, out);
            if let Some(otherwise) = otherwise {
                scopes_of(otherwise, out);
            }
        }
        StmtKind::Match { arms, .. } => arms.iter().for_each(|arm| scopes_of_block(&arm.body, out)),
        StmtKind::ForEach { body, .. } | StmtKind::ForRange { body, .. } => {
            out.push(stmt.span);
            scopes_of_block(body, out);
        }
        StmtKind::Block(block) => scopes_of_block(block, out),
        StmtKind::Declare { .. }
        | StmtKind::Assign { .. }
        | StmtKind::Expr(_)
        | StmtKind::Emit { .. }
        | StmtKind::Break
        | StmtKind::Continue
        | StmtKind::Return(_)
        | StmtKind::Done
        | StmtKind::Refuse(_)
        | StmtKind::Assert(_)
        | StmtKind::Error => {}
    }
}
