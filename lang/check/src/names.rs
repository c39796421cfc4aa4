//! Names: the single namespace of all files, and "did you mean".

use std::collections::{HashMap, HashSet};

use hawser_ir as ir;
use hawser_ir::EventKind;
use hawser_syntax::ast::{self, Field, Ident, Item, ItemKind, Member, Span};
use hawser_syntax::nearest;
use hawser_syntax::{Diagnostic, Hint, SourceMap};

use crate::codes;
use crate::state::{
    AttachDecl, Checker, CoalesceDecl, ConstDecl, DeclProgress, DispatchDecl, EnumDecl, ExtendDecl,
    ExternDecl, FuncDecl, MemberDecl, MemberType, OptListDecl, RecordDecl, RecordKind, RuleDecl, SchedDecl,
    UnionDecl,
};
use crate::types::Type;
use crate::vocabulary::{Sort, word};

/// The number of diagnostics up to which unknown names are compared with similar known ones.
const HINTED_DIAGNOSTICS: usize = 50;

/// The meaning of a name: an index in the table of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Def {
    Const(usize),
    Table(usize),
    Param(usize),
    Enum(usize),
    Variant(usize, usize),
    Record(usize),
    Union(usize),
    OptList(usize),
    Rule(usize),
    Sched(usize),
    Extern(usize),
    Func(usize),
    Dispatch,
}

impl Def {
    /// For messages: "`x` is a …".
    pub(crate) fn what(self) -> &'static str {
        match self {
            Def::Const(_) => "a constant",
            Def::Table(_) => "a table of constants",
            Def::Param(_) => "a param",
            Def::Enum(_) => "an enum",
            Def::Variant(..) => "a variant of an enum",
            Def::Record(_) => "a type with fields",
            Def::Union(_) => "an option union",
            Def::OptList(_) => "an option list",
            Def::Rule(_) => "a segmentation rule",
            Def::Sched(_) => "a packet schedule",
            Def::Extern(_) => "an extern",
            Def::Func(_) => "a function",
            Def::Dispatch => "a dispatch table",
        }
    }
}

impl<'a> Checker<'a> {
    /// Fills the tables from all files.
    pub(crate) fn collect(&mut self) {
        for file in self.files {
            for item in &file.items {
                self.check_attachment_item(item);
                self.collect_item(item);
            }
        }
        self.extend_records();
        if let [_, second, ..] = self.scratchpads[..] {
            let (first, second) = (self.scratchpads[0], second);
            self.report(
                Diagnostic::error(
                    codes::TWO_SCRATCHPADS,
                    self.records[second].span,
                    "the scratchpad is declared twice",
                )
                .label("a program has one scratchpad")
                .related(self.records[first].span, "the first one")
                .hint("combine both, as `part`s if they belong to different files"),
            );
        }
    }

    fn collect_context(&mut self, name: &'a Ident, members: &'a [Member]) {
        let index = self.module.contexts.len() as u32;
        self.module.contexts.push(ir::Context {
            name: name.name.clone(),
            granularity: ir::Granularity::Flow,
            body: Checker::struct_of(self.records.len()),
            ends: None,
            timers: Vec::new(),
            invariants: Vec::new(),
        });
        self.collect_members(&name.name, name.span, RecordKind::Context(index), members);
        self.define(name, Def::Record(self.records.len() - 1));
    }

    fn collect_item(&mut self, item: &'a Item) {
        match &item.kind {
            ItemKind::Import { .. } => {}
            ItemKind::Const { ty, name, value } => {
                self.define(name, Def::Const(self.consts.len()));
                self.consts.push(constant(ty, name, value));
            }
            ItemKind::Param { ty, name, value } => {
                self.define(name, Def::Param(self.params.len()));
                self.params.push(constant(ty, name, value));
            }
            ItemKind::Table { ty, name, size, values } => self.collect_table(ty, name, size.as_ref(), values),
            ItemKind::Enum { name, repr, variants } => self.collect_enum(name, repr.as_ref(), variants),
            ItemKind::Struct { name, fields } => self.collect_record(name, RecordKind::Struct, fields),
            ItemKind::Event { name, kind, fields } => self.collect_event(name, kind, fields),
            ItemKind::Context { name, members } => self.collect_context(name, members),
            ItemKind::Scratchpad { name, members } => {
                self.collect_scratchpad(name.as_ref(), item.span, members)
            }
            ItemKind::Signal { name, fields } => self.collect_signal(name, fields),
            ItemKind::Opt { name, fields } => self.collect_record(name, RecordKind::Opt, fields),
            ItemKind::OptUnion { name, members } => {
                self.define(name, Def::Union(self.unions.len()));
                self.unions.push(UnionDecl { name, members, records: None });
            }
            ItemKind::OptList { name, fields, pad } => {
                self.define(name, Def::OptList(self.opt_lists.len()));
                self.opt_lists
                    .push(OptListDecl { name, fields, pad: pad.as_ref() });
            }
            ItemKind::Blueprint { name, fields } => self.collect_record(name, RecordKind::Blueprint, fields),
            ItemKind::NetHeader { name, fields } => self.net_headers.push((name, fields)),
            ItemKind::SegRule { name, params, blueprint, field, values } => {
                self.collect_rule(name, params, blueprint, field, values)
            }
            ItemKind::Coalesce { .. } | ItemKind::Attach { .. } | ItemKind::Extend { .. } => {
                self.collect_nameless(item);
            }
            ItemKind::Sched { name, policy, args, queues } => {
                self.collect_schedule(name, policy, args, queues)
            }
            ItemKind::Extern { ret, name, params, answer } => {
                self.collect_extern(ret, name, params, answer.as_ref())
            }
            ItemKind::Func { ret, name, params, body } => {
                self.collect_function(ret, name, params, body, item.span)
            }
            ItemKind::Dispatch { name, entries } => {
                self.define(name, Def::Dispatch);
                self.dispatches
                    .push(DispatchDecl { name, entries, registered: false });
            }
            ItemKind::Deploy { calls } => self.deploys.push(calls),
        }
    }

    /// Collects a declaration that defines no name but adds to something named.
    fn collect_nameless(&mut self, item: &'a Item) {
        match &item.kind {
            ItemKind::Coalesce { blueprint, a, b, body } => {
                self.coalesces
                    .push(CoalesceDecl { blueprint, a, b, body, span: item.span })
            }
            ItemKind::Extend { of, name, members } => {
                let of = *of;
                self.extensions.push(ExtendDecl { of, name, members });
            }
            ItemKind::Attach { processor, side, anchor } => {
                self.attachments
                    .push(AttachDecl { processor, side: *side, anchor })
            }
            _ => {}
        }
    }

    fn collect_scratchpad(&mut self, name: Option<&'a Ident>, item: Span, members: &'a [Member]) {
        let (text, at) = name.map_or(("scratchpad", item), |name| (name.name.as_str(), name.span));
        self.scratchpads.push(self.records.len());
        self.module
            .scratch
            .get_or_insert(Checker::struct_of(self.records.len()));
        self.collect_members(text, at, RecordKind::Scratchpad, members);
        if let Some(name) = name {
            self.define(name, Def::Record(self.records.len() - 1));
        }
    }

    fn collect_signal(&mut self, name: &'a Ident, fields: &'a [Field]) {
        let index = self.module.signals.len() as u32;
        let body = Checker::struct_of(self.records.len());
        self.module.signals.push((name.name.clone(), body));
        self.collect_record(name, RecordKind::Signal(index), fields);
    }

    fn collect_rule(
        &mut self,
        name: &'a Ident,
        params: &'a [Ident],
        blueprint: &'a Ident,
        field: &'a Ident,
        values: &'a [ast::Expr],
    ) {
        self.define(name, Def::Rule(self.rule_decls.len()));
        self.rule_decls
            .push(RuleDecl { name, params, blueprint, field, values, target: None });
    }

    fn collect_schedule(
        &mut self,
        name: &'a Ident,
        policy: &'a Ident,
        args: &'a [ast::Expr],
        queues: &'a [(Ident, Ident, Vec<ast::Expr>)],
    ) {
        self.define(name, Def::Sched(self.scheds.len()));
        self.scheds
            .push(SchedDecl { name, policy, args, queues, first: 0 });
    }

    fn collect_extern(
        &mut self,
        ret: &'a ast::Type,
        name: &'a Ident,
        params: &'a [ast::Param],
        answer: Option<&'a Ident>,
    ) {
        self.define(name, Def::Extern(self.externs.len()));
        self.externs.push(ExternDecl {
            ret,
            name,
            params,
            answer,
            param_types: Vec::new(),
            result: Type::Error,
        });
    }

    fn collect_function(
        &mut self,
        ret: &'a ast::Type,
        name: &'a Ident,
        params: &'a [ast::Param],
        body: &'a ast::Block,
        span: Span,
    ) {
        self.define(name, Def::Func(self.funcs.len()));
        self.funcs.push(FuncDecl {
            name,
            ret,
            params,
            body,
            span,
            param_types: Vec::new(),
            result: Type::Error,
            in_chain: false,
            used: false,
        });
    }

    fn collect_enum(
        &mut self,
        name: &'a Ident,
        repr: Option<&'a ast::Type>,
        variants: &'a [(Ident, Option<ast::Expr>)],
    ) {
        let index = self.enums.len();
        self.define(name, Def::Enum(index));
        for (i, (variant, _)) in variants.iter().enumerate() {
            self.define(variant, Def::Variant(index, i));
        }
        self.enums.push(EnumDecl {
            name,
            repr,
            variants,
            progress: DeclProgress::Waiting,
            ty: None,
            values: Vec::new(),
            used: HashSet::new(),
            converted: false,
        });
    }

    fn collect_event(&mut self, name: &'a Ident, kind: &'a Ident, fields: &'a [Field]) {
        let parsed = match kind.name.to_ascii_lowercase().as_str() {
            "app_event" => EventKind::App,
            "net_event" => EventKind::Net,
            "timer_event" => EventKind::Timer,
            "sys_event" => EventKind::Sys,
            "event" => EventKind::Internal,
            _ => {
                self.error(
                    codes::EVENT_KIND,
                    kind.span,
                    format!("`{}` is not a kind of event", kind.name),
                    "expected APP_EVENT, NET_EVENT, TIMER_EVENT, SYS_EVENT or EVENT",
                );
                EventKind::Internal
            }
        };
        if let (EventKind::Timer, Some(first)) = (parsed, fields.first()) {
            self.error_hint(
                codes::EVENT_KIND,
                first.span,
                "a timer's event cannot have a field",
                "no statement could set it",
                "store the value in the context, which the event carries",
            );
        }
        let index = self.module.events.len() as u32;
        let body = Checker::struct_of(self.records.len());
        self.module
            .events
            .push(ir::Event { name: name.name.clone(), kind: parsed, body });
        self.collect_record(name, RecordKind::Event(index, parsed), fields);
    }

    fn collect_record(&mut self, name: &'a Ident, kind: RecordKind, fields: &'a [Field]) {
        self.define(name, Def::Record(self.records.len()));
        let members = fields.iter().map(member_of).collect();
        self.push_record(&name.name, name.span, kind, members, Vec::new());
    }

    fn collect_members(&mut self, name: &str, at: Span, kind: RecordKind, members: &'a [Member]) {
        let (fields, invariants) = member_decls(members);
        self.push_record(name, at, kind, fields, invariants);
    }
    fn push_record(
        &mut self,
        name: &str,
        at: Span,
        kind: RecordKind,
        members: Vec<MemberDecl<'a>>,
        invariants: Vec<&'a ast::Expr>,
    ) {
        let id = Checker::struct_of(self.records.len());
        if let Some(text) = comment(self.sources, at) {
            self.module.notes.push((id, String::new(), text));
        }
        self.note(id, at, &members);
        self.module
            .structs
            .push(ir::Struct { name: name.to_owned(), fields: Vec::new(), size: 0 });
        self.records.push(RecordDecl {
            name: name.to_owned(),
            span: at,
            kind,
            members,
            numbers: HashMap::new(),
            invariants,
            progress: DeclProgress::Waiting,
            computed: Vec::new(),
            blueprint: None,
        });
    }

    /// Stores the comments beside the fields of a structure whose name stands at `at`.
    pub(crate) fn note(&mut self, id: ir::StructId, at: Span, members: &[MemberDecl<'a>]) {
        let sources = self.sources;
        for name in members.iter().map(|member| member.name) {
            let between = Span { end: name.span.start, start: at.end, ..at };
            // A comment on the structure's own line describes the whole structure.
            if sources.text(between).contains('\n')
                && let Some(text) = comment(sources, name.span)
            {
                self.module.notes.push((id, name.name.clone(), text));
            }
        }
    }

    pub(crate) fn define(&mut self, name: &'a Ident, def: Def) {
        if name.name.is_empty() {
            return;
        }
        if is_reserved(&name.name) {
            self.error_hint(
                codes::RESERVED_NAME,
                name.span,
                format!("`{}` is a reserved word of the language", name.name),
                "expected a name of your own",
                "choose another name",
            );
        }
        let is_attached = self.is_attached(name.span);
        let defs = self.defs_of(name.span.file);
        if let Some((_, first)) = defs.get(name.name.as_str()) {
            let first = *first;
            self.report(
                Diagnostic::error(
                    codes::DEFINED_TWICE,
                    name.span,
                    format!("`{}` is defined twice", name.name),
                )
                .label(match is_attached {
                    true => "an attachment has one namespace",
                    false => "all files share one namespace",
                })
                .related(first, "first defined here")
                .hint("rename one of them"),
            );
            return;
        }
        defs.insert(&name.name, (def, name.span));
    }

    /// True if a place is in an attached file.
    pub(crate) fn is_attached(&self, at: Span) -> bool {
        self.attached_from.is_some_and(|first| at.file >= first)
    }

    /// Returns the names into which a file defines: those of the program, or an attachment's own.
    fn defs_of(&mut self, file: u32) -> &mut HashMap<&'a str, (Def, Span)> {
        match self.attached_from {
            Some(first) if file >= first => self.own_defs.entry(file).or_default(),
            Some(_) | None => &mut self.defs,
        }
    }

    /// Returns the meaning of a name at its place. In an attachment, its own names take precedence over the
    /// program's, and those of other attachments are invisible.
    pub(crate) fn lookup(&self, name: &Ident) -> Option<Def> {
        let own = self
            .own_defs
            .get(&name.span.file)
            .and_then(|own| own.get(name.name.as_str()));
        let (def, at) = own.or_else(|| self.defs.get(name.name.as_str()))?;
        self.note_use(name.span, *at);
        Some(*def)
    }

    /// Returns the known name nearest to an unknown one, among `more` and the names for which `suits` holds.
    pub(crate) fn suggestion(
        &self,
        name: &Ident,
        suits: impl Fn(Def) -> bool,
        more: impl IntoIterator<Item = &'static str>,
    ) -> Option<Hint> {
        if !self.gives_hints() {
            return None;
        }
        let mut known: Vec<&str> = more.into_iter().collect();
        let own = self.own_defs.get(&name.span.file).into_iter().flatten();
        let defs = self.defs.iter().chain(own);
        known.extend(defs.filter(|(_, (def, _))| suits(*def)).map(|(name, _)| *name));
        known.sort_unstable();
        nearest(&name.name, known).map(did_you_mean)
    }

    /// True if similar names are to be searched for. This is done only for the first diagnostics, because
    /// each search goes through all names.
    pub(crate) fn gives_hints(&self) -> bool {
        self.diagnostics.len() < HINTED_DIAGNOSTICS
    }

    /// Returns the hint for an unknown member.
    pub(crate) fn nearest_member<'n>(
        &self,
        name: &str,
        known: impl IntoIterator<Item = &'n str>,
    ) -> Option<Hint> {
        if !self.gives_hints() {
            return None;
        }
        let known: Vec<&str> = known.into_iter().collect();
        if let Some(near) = nearest(name, known.iter().copied()) {
            return Some(did_you_mean(near));
        }
        (!known.is_empty() && known.len() <= 24).then(|| format!("known names: {}", known.join(", ")).into())
    }

    /// Reports an unknown name.
    pub(crate) fn unknown(&mut self, name: &Ident, expected: &str, hint: Option<Hint>) {
        if name.name.is_empty() {
            return;
        }
        let mut diagnostic = Diagnostic::error(
            codes::UNKNOWN_NAME,
            name.span,
            format!("`{}` is unknown", name.name),
        )
        .label(format!("expected {expected}"));
        diagnostic.hint = hint;
        self.report(diagnostic);
    }
}

/// Returns the comment on the line on which a name ends, except citations.
fn comment(sources: &SourceMap, at: Span) -> Option<String> {
    let rest = sources.file(at.file).text.get(at.end as usize..)?;
    let (_, comment) = rest.lines().next()?.split_once("//")?;
    let text = comment.split("//=").next().unwrap_or_default().trim();
    (!text.is_empty() && !text.starts_with('=')).then(|| text.to_owned())
}

/// Returns the hint for a spelling mistake.
pub(crate) fn did_you_mean(name: &str) -> Hint {
    Hint::replacing(format!("did you mean `{name}`?"), name)
}

/// Splits members into fields and invariants.
pub(crate) fn member_decls(members: &[Member]) -> (Vec<MemberDecl<'_>>, Vec<&ast::Expr>) {
    let mut fields = Vec::new();
    let mut invariants = Vec::new();
    for member in members {
        match member {
            Member::Field(field) => fields.push(member_of(field)),
            Member::Timer { name, event, .. } => {
                fields.push(MemberDecl { name, ty: MemberType::Timer(event.as_ref()), field: None });
            }
            Member::Part { ty, name } => {
                fields.push(MemberDecl { name, ty: MemberType::Part(ty), field: None });
            }
            Member::Invariant { expr, .. } => invariants.push(expr),
        }
    }
    (fields, invariants)
}

fn member_of(field: &Field) -> MemberDecl<'_> {
    MemberDecl {
        name: &field.name,
        ty: MemberType::Written(&field.ty),
        field: Some(field),
    }
}

fn constant<'a>(ty: &'a ast::Type, name: &'a Ident, value: &'a ast::Expr) -> ConstDecl<'a> {
    ConstDecl {
        name,
        ty,
        value,
        progress: DeclProgress::Waiting,
        result: None,
        at: 0,
        used: false,
    }
}

fn is_reserved(name: &str) -> bool {
    word(name, |sort| !matches!(sort, Sort::Registration | Sort::Source)).is_some()
        || crate::types::integer_name(name).is_some()
        || crate::consts::builtin_constant(name).is_some()
}
