//! The checker's state: the declarations of the program, and the module that is being built.
//!
//! Declarations are kept in tables and referred to by index ([`Def`]); syntax is borrowed, never copied.
//! Structures receive their [`StructId`] when they are collected, before they are laid out. The built-in ones
//! come first, then one for each [`RecordDecl`] in order.

use std::collections::{HashMap, HashSet};

use hawser_ir as ir;
use hawser_ir::{BlueprintId, FuncId, StructId, Ty};
use hawser_syntax::ast::{self, Ident, Span};
use hawser_syntax::{Diagnostic, Hint, MAX_DIAGNOSTICS, Severity, SourceMap};

use crate::names::Def;
use crate::types::Type;

/// `event_t`: the header of an event of any type.
pub(crate) const EVENT: StructId = StructId(0);
/// `IPheader`
pub(crate) const NET: StructId = StructId(1);
/// `op_t`
pub(crate) const OP: StructId = StructId(2);
/// `icmp_t`
pub(crate) const ICMP: StructId = StructId(3);
/// The number of built-in structures.
pub(crate) const BUILTIN_STRUCTS: u32 = 4;

/// The maximum size of a structure, of a list, and of a function's frame, in bytes.
pub(crate) const MAX_SIZE: u64 = 1 << 20;

/// The maximum nesting depth of declarations. More is an error, so that no program overflows the stack.
pub(crate) const MAX_DEPTH: u32 = 64;

/// The kind of structure that a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Struct,
    /// Index in [`ir::Module::events`], which are in order of declaration.
    Event(u32, ir::EventKind),
    /// Index in [`ir::Module::contexts`].
    Context(u32),
    Scratchpad,
    /// Index in [`ir::Module::signals`].
    Signal(u32),
    Opt,
    Blueprint,
}

/// The progress of a declaration. If it is reached again while `Active`, it depends on itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeclProgress {
    Waiting,
    Active,
    Ready,
}

/// The type of a member, as its declaration gives it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MemberType<'a> {
    Written(&'a ast::Type),
    Timer(Option<&'a Ident>),
    Part(&'a Ident),
}

/// A field of a record, in any kind of declaration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberDecl<'a> {
    pub(crate) name: &'a Ident,
    pub(crate) ty: MemberType<'a>,
    /// The declaration, if it has more than a type and a name.
    pub(crate) field: Option<&'a ast::Field>,
}

/// A declaration with fields.
#[derive(Debug)]
pub(crate) struct RecordDecl<'a> {
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) kind: RecordKind,
    pub(crate) members: Vec<MemberDecl<'a>>,
    /// The number of each field by name, after it has been laid out.
    pub(crate) numbers: HashMap<&'a str, usize>,
    pub(crate) invariants: Vec<&'a ast::Expr>,
    pub(crate) progress: DeclProgress,
    /// Initial values that depend on params or on earlier fields: index of the field, value.
    pub(crate) computed: Vec<(usize, &'a ast::Expr)>,
    /// Its wire form, if it has been requested.
    pub(crate) blueprint: Option<BlueprintId>,
}

/// A constant or a param.
#[derive(Debug)]
pub(crate) struct ConstDecl<'a> {
    pub(crate) name: &'a Ident,
    pub(crate) ty: &'a ast::Type,
    pub(crate) value: &'a ast::Expr,
    pub(crate) progress: DeclProgress,
    /// Type and value, unless it is wrong.
    pub(crate) result: Option<(Ty, u64)>,
    /// A param's index in the module. An address has two there, the numbers of its halves.
    pub(crate) at: u32,
    /// True if something refers to it.
    pub(crate) used: bool,
}

/// `const T NAME[N] = {…};`
#[derive(Debug)]
pub(crate) struct TableDecl<'a> {
    pub(crate) name: &'a Ident,
    pub(crate) ty: &'a ast::Type,
    pub(crate) size: Option<&'a ast::Expr>,
    pub(crate) values: &'a [ast::Expr],
    pub(crate) progress: DeclProgress,
    /// Type and values, unless they are wrong.
    pub(crate) result: Option<(Ty, Vec<u64>)>,
    /// True if something refers to it.
    pub(crate) used: bool,
}

/// `extend context name { … }`
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtendDecl<'a> {
    pub(crate) of: ast::Extended,
    pub(crate) name: &'a Ident,
    pub(crate) members: &'a [ast::Member],
}

/// An enum. Its variants' values are in `values` when it is ready.
#[derive(Debug)]
pub(crate) struct EnumDecl<'a> {
    pub(crate) name: &'a Ident,
    pub(crate) repr: Option<&'a ast::Type>,
    pub(crate) variants: &'a [(Ident, Option<ast::Expr>)],
    pub(crate) progress: DeclProgress,
    pub(crate) ty: Option<Ty>,
    pub(crate) values: Vec<u64>,
    /// The variants that are named, by index.
    pub(crate) used: HashSet<usize>,
    /// True if a conversion turns numbers into values of it.
    pub(crate) converted: bool,
}

/// `opt_union`
#[derive(Debug)]
pub(crate) struct UnionDecl<'a> {
    pub(crate) name: &'a Ident,
    pub(crate) members: &'a [Ident],
    /// The members' records, in order, filled by the layout.
    pub(crate) records: Option<Vec<usize>>,
}

/// `opt_list`
#[derive(Debug)]
pub(crate) struct OptListDecl<'a> {
    pub(crate) name: &'a Ident,
    pub(crate) fields: &'a [ast::Field],
    pub(crate) pad: Option<&'a ast::Expr>,
}

/// An option list of one blueprint. Its `len` is computed from that blueprint's fields, so each use of an
/// [`OptListDecl`] is a list of its own. The index is the [`ir::OptListId`].
#[derive(Debug)]
pub(crate) struct OptListUse {
    pub(crate) decl: usize,
    /// The union, if it was found.
    pub(crate) union: Option<usize>,
}

/// A function with its signature resolved.
#[derive(Debug)]
pub(crate) struct FuncDecl<'a> {
    pub(crate) name: &'a Ident,
    pub(crate) ret: &'a ast::Type,
    pub(crate) params: &'a [ast::Param],
    pub(crate) body: &'a ast::Block,
    pub(crate) span: Span,
    pub(crate) param_types: Vec<Type>,
    pub(crate) result: Type,
    /// True if it stands in a chain.
    pub(crate) in_chain: bool,
    /// True if it is called, is a parser, or decides coalescing.
    pub(crate) used: bool,
}

/// `extern`
#[derive(Debug)]
pub(crate) struct ExternDecl<'a> {
    pub(crate) ret: &'a ast::Type,
    pub(crate) name: &'a Ident,
    pub(crate) params: &'a [ast::Param],
    pub(crate) answer: Option<&'a Ident>,
    /// Filled together with the signatures of functions.
    pub(crate) param_types: Vec<Type>,
    pub(crate) result: Type,
}

/// `seg_rule`
#[derive(Debug)]
pub(crate) struct RuleDecl<'a> {
    pub(crate) name: &'a Ident,
    pub(crate) params: &'a [Ident],
    pub(crate) blueprint: &'a Ident,
    pub(crate) field: &'a Ident,
    pub(crate) values: &'a [ast::Expr],
    /// The blueprint and the type of the field, unless the rule is wrong.
    pub(crate) target: Option<(BlueprintId, Ty)>,
}

/// `coalesce`
#[derive(Debug)]
pub(crate) struct CoalesceDecl<'a> {
    pub(crate) blueprint: &'a Ident,
    pub(crate) a: &'a Ident,
    pub(crate) b: &'a Ident,
    pub(crate) body: &'a ast::Block,
    pub(crate) span: Span,
}

/// `sched`; its queues have consecutive numbers in the module, starting at `first`.
#[derive(Debug)]
pub(crate) struct SchedDecl<'a> {
    pub(crate) name: &'a Ident,
    pub(crate) policy: &'a Ident,
    pub(crate) args: &'a [ast::Expr],
    pub(crate) queues: &'a [(Ident, Ident, Vec<ast::Expr>)],
    pub(crate) first: u32,
}

/// `dispatch`
#[derive(Debug)]
pub(crate) struct DispatchDecl<'a> {
    pub(crate) name: &'a Ident,
    pub(crate) entries: &'a [ast::DispatchEntry],
    pub(crate) registered: bool,
}

/// `attach processor after anchor;`
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttachDecl<'a> {
    pub(crate) processor: &'a Ident,
    pub(crate) side: ast::Side,
    pub(crate) anchor: &'a Ident,
}

/// The checker's whole state.
pub(crate) struct Checker<'a> {
    pub(crate) sources: &'a SourceMap,
    pub(crate) files: &'a [ast::File],
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) module: ir::Module,
    pub(crate) defs: HashMap<&'a str, (Def, Span)>,
    pub(crate) consts: Vec<ConstDecl<'a>>,
    pub(crate) params: Vec<ConstDecl<'a>>,
    pub(crate) tables: Vec<TableDecl<'a>>,
    pub(crate) extensions: Vec<ExtendDecl<'a>>,
    pub(crate) enums: Vec<EnumDecl<'a>>,
    pub(crate) records: Vec<RecordDecl<'a>>,
    pub(crate) unions: Vec<UnionDecl<'a>>,
    pub(crate) opt_lists: Vec<OptListDecl<'a>>,
    pub(crate) opt_list_uses: Vec<OptListUse>,
    /// For each use of an option list, the size in bytes of its largest member: [`ir::Layout::member_size`].
    pub(crate) member_size: Vec<u32>,
    pub(crate) funcs: Vec<FuncDecl<'a>>,
    pub(crate) externs: Vec<ExternDecl<'a>>,
    pub(crate) rule_decls: Vec<RuleDecl<'a>>,
    pub(crate) coalesces: Vec<CoalesceDecl<'a>>,
    pub(crate) scheds: Vec<SchedDecl<'a>>,
    pub(crate) dispatches: Vec<DispatchDecl<'a>>,
    pub(crate) deploys: Vec<&'a [ast::RegisterCall]>,
    pub(crate) attachments: Vec<AttachDecl<'a>>,
    /// The first of the files that are attached to a running program, if there are any.
    pub(crate) attached_from: Option<u32>,
    /// For each attached file, the names of its own.
    pub(crate) own_defs: HashMap<u32, HashMap<&'a str, (Def, Span)>>,
    pub(crate) net_headers: Vec<(&'a Ident, &'a [ast::Field])>,
    pub(crate) scratchpads: Vec<usize>,
    /// The facts about each function, its callees included.
    pub(crate) facts: Vec<crate::graph::FunctionFacts>,
    /// The placeholders of pure externs that are called.
    pub(crate) extern_funcs: Vec<(FuncId, ir::ExternId)>,
    /// The number of declarations that are being resolved inside each other.
    pub(crate) depth: u32,
    /// Timers that are started by an instruction: context and name.
    pub(crate) started: HashSet<(ir::ContextId, String)>,
    /// The signals that are issued, by their index in [`ir::Module::signals`].
    pub(crate) signalled: HashSet<u32>,
    /// Fields that are read by an expression: structure and name.
    pub(crate) read: HashSet<(StructId, String)>,
    /// The field name in the latest assignment; the field is written there, not read.
    pub(crate) written: Option<Span>,
    /// Names of parts in dispatch tables that selected one of several.
    pub(crate) parts_met: HashSet<Span>,
    /// The meaning of names, if an editor asks for it.
    pub(crate) notes: Option<Box<crate::index::Notes>>,
    /// The place of each event's chain in the source, for messages.
    pub(crate) chain_spans: Vec<Option<Span>>,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(name: &str, sources: &'a SourceMap, files: &'a [ast::File]) -> Checker<'a> {
        let files_text = sources
            .files()
            .iter()
            .map(|f| (f.path.clone(), f.text.clone()))
            .collect();
        let citations = files.iter().flat_map(|f| &f.citations);
        Checker {
            sources,
            files,
            diagnostics: Vec::new(),
            module: ir::Module {
                name: name.to_owned(),
                files: files_text,
                params: Vec::new(),
                tables: Vec::new(),
                structs: crate::layout::builtin_structs(),
                events: Vec::new(),
                contexts: Vec::new(),
                signals: Vec::new(),
                enums: Vec::new(),
                scratch: None,
                funcs: Vec::new(),
                chains: Vec::new(),
                creators: Vec::new(),
                parsers: Vec::new(),
                blueprints: Vec::new(),
                opt_lists: Vec::new(),
                seg_rules: Vec::new(),
                offloads: Vec::new(),
                coalesce: Vec::new(),
                queues: Vec::new(),
                externs: Vec::new(),
                reads_sub: false,
                asserts: Vec::new(),
                notes: Vec::new(),
                citations: citations.map(|(text, at)| (text.clone(), span(*at))).collect(),
            },
            defs: HashMap::new(),
            consts: Vec::new(),
            params: Vec::new(),
            tables: Vec::new(),
            extensions: Vec::new(),
            enums: Vec::new(),
            records: Vec::new(),
            unions: Vec::new(),
            opt_lists: Vec::new(),
            opt_list_uses: Vec::new(),
            member_size: Vec::new(),
            funcs: Vec::new(),
            externs: Vec::new(),
            rule_decls: Vec::new(),
            coalesces: Vec::new(),
            scheds: Vec::new(),
            dispatches: Vec::new(),
            deploys: Vec::new(),
            attachments: Vec::new(),
            attached_from: None,
            own_defs: HashMap::new(),
            net_headers: Vec::new(),
            scratchpads: Vec::new(),
            facts: Vec::new(),
            extern_funcs: Vec::new(),
            depth: 0,
            started: HashSet::new(),
            signalled: HashSet::new(),
            read: HashSet::new(),
            written: None,
            parts_met: HashSet::new(),
            notes: None,
            chain_spans: Vec::new(),
        }
    }

    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Reports an error.
    pub(crate) fn error(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
        label: impl Into<String>,
    ) {
        self.report(Diagnostic::error(code, at, message).label(label));
    }

    /// Reports an error with a hint.
    pub(crate) fn error_hint(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
        label: impl Into<String>,
        hint: impl Into<Hint>,
    ) {
        self.report(Diagnostic::error(code, at, message).label(label).hint(hint));
    }

    /// Returns the record behind a structure, unless it is built in.
    pub(crate) fn record_of(&self, id: StructId) -> Option<usize> {
        let index = id.0.checked_sub(BUILTIN_STRUCTS)? as usize;
        (index < self.records.len()).then_some(index)
    }

    pub(crate) fn struct_of(record: usize) -> StructId {
        StructId(BUILTIN_STRUCTS + record as u32)
    }

    pub(crate) fn field_named(&self, id: StructId, name: &str) -> Option<&ir::Field> {
        let fields = &self.module.structs[id.0 as usize].fields;
        match self.record_of(id) {
            Some(record) => fields.get(*self.records[record].numbers.get(name)?),
            None => fields.iter().find(|field| field.name == name),
        }
    }

    /// True if a structure declares a field of this name, even if its type is wrong.
    pub(crate) fn is_declared(&self, id: StructId, name: &str) -> bool {
        let record = self.record_of(id).map(|record| &self.records[record]);
        record.is_some_and(|record| record.members.iter().any(|member| member.name.name == name))
    }

    /// Returns the kind of record that a type is.
    pub(crate) fn kind_of(&self, ty: &Ty) -> Option<RecordKind> {
        let Ty::Struct(id) = ty else { return None };
        Some(self.records[self.record_of(*id)?].kind)
    }

    /// Returns the context type behind a structure.
    pub(crate) fn context_of(&self, ty: &Ty) -> Option<ir::ContextId> {
        match self.kind_of(ty) {
            Some(RecordKind::Context(index)) => Some(ir::ContextId(index)),
            _ => None,
        }
    }

    /// Returns the event type behind a structure.
    pub(crate) fn event_of(&self, ty: &Ty) -> Option<ir::EventId> {
        match self.kind_of(ty) {
            Some(RecordKind::Event(index, _)) => Some(ir::EventId(index)),
            _ => None,
        }
    }

    /// Returns sizes and alignments of the structures that are laid out so far.
    pub(crate) fn layout(&self) -> ir::Layout<'_> {
        ir::Layout { structs: &self.module.structs, member_size: &self.member_size }
    }

    /// Registers an `assert` or `invariant` and returns its number.
    pub(crate) fn assertion(&mut self, at: Span) -> u32 {
        self.assertion_of(at, self.sources.text(at).to_owned())
    }

    /// Registers an assertion at a place under a text of its own.
    pub(crate) fn assertion_of(&mut self, at: Span, text: String) -> u32 {
        self.module.asserts.push((span(at), text));
        (self.module.asserts.len() - 1) as u32
    }

    /// Returns the module, unless there is an error, and all diagnostics in order of place. Warnings are
    /// given only for programs without errors, because a missing use may be a consequence of an error.
    pub(crate) fn finish(self) -> (Option<ir::Module>, Vec<Diagnostic>) {
        let mut diagnostics = self.diagnostics;
        diagnostics.sort_by_key(|d| (d.span.file, d.span.start, d.code));
        diagnostics.dedup_by(|a, b| a.code == b.code && a.span == b.span && a.message == b.message);
        let failed = diagnostics.iter().any(|d| d.severity == Severity::Error);
        diagnostics.retain(|d| !failed || d.severity == Severity::Error);
        if let Some(first_not_shown) = diagnostics.get(MAX_DIAGNOSTICS) {
            let (at, count) = (first_not_shown.span, diagnostics.len() - MAX_DIAGNOSTICS);
            let (severity, what) = match failed {
                true => (Severity::Error, "errors"),
                false => (Severity::Warning, "warnings"),
            };
            diagnostics.truncate(MAX_DIAGNOSTICS);
            let rest = Diagnostic::error("E0100", at, format!("{count} {what} more"));
            let rest = rest
                .label("further errors are not shown")
                .hint("correct the first ones");
            diagnostics.push(Diagnostic { severity, ..rest });
        }
        ((!failed).then_some(self.module), diagnostics)
    }
}

/// Converts a place to the intermediate form's type.
pub(crate) fn span(at: Span) -> ir::Span {
    ir::Span { file: at.file, start: at.start, end: at.end }
}

/// Converts a place to the syntax's type.
pub(crate) fn ast_span(at: ir::Span) -> Span {
    Span { file: at.file, start: at.start, end: at.end }
}
