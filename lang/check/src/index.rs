//! The index of names: the meaning of every name in a program, and the names that could stand in its place.
//!
//! It serves editors ([`crate::check_with_index`]). The passes record a name at the point where they resolve
//! it, so that no second resolver can disagree. They record names only if the index was requested.

use std::cell::RefCell;
use std::collections::HashMap;

use hawser_ir::{StructId, Ty};
use hawser_syntax::ast::{Ident, Span};

use crate::container::{LIST_METHODS, OPTION_METHODS, SORTED_METHODS, WINDOW_METHODS};
use crate::field::DATA_FIELDS;
use crate::state::{Checker, EVENT, MemberType, RecordKind};

/// The kind of thing that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum DefKind {
    Const,
    Table,
    Param,
    Enum,
    Variant,
    Struct,
    Event,
    Context,
    Scratchpad,
    Signal,
    Option,
    Blueprint,
    OptionUnion,
    OptionList,
    Rule,
    Schedule,
    Queue,
    Extern,
    Function,
    Dispatch,
    Chain,
    Field,
    Timer,
    Part,
    Parameter,
    Variable,
    /// An operation of a container.
    Method,
}

/// A name that the program declares.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// The declared name.
    pub name: String,
    pub kind: DefKind,
    /// The place of the name in its declaration.
    pub at: Span,
    /// The type of its value, as a program writes it; empty if it has no type.
    pub ty: String,
    /// The structure, enum or scheduler that it belongs to.
    pub owner: Option<String>,
    /// For a field of a header: its first bit and its number of bits, if both are fixed.
    pub wire: Option<(u32, u32)>,
}

/// The meaning of a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaning {
    /// A declaration of the program, whose name stands at this place.
    Declared(Span),
    /// A built-in name with its type or form: `ev.now`, `l.push_back`.
    Builtin(DefKind, String),
}

/// A name that may follow a dot, or stand in the braces of a struct value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub kind: DefKind,
    /// Its type; for an operation, its form.
    pub form: String,
}

/// The names of a program.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// The declarations, by the place of the name.
    pub declarations: HashMap<Span, Declaration>,
    /// The meaning of each resolved name, declarations included, in order of place.
    pub uses: Vec<(Span, Meaning)>,
    /// The names that could stand at the place in question.
    pub members: Vec<Member>,
    /// The fields that are copied by name, in the order of the text's functions.
    pub copies: Vec<Copied>,
}

/// A field that `place = {structure};` copies by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The place of the structure between the braces.
    pub at: Span,
    /// The declaration of the field that is set, unless it is built in.
    pub to: Option<Span>,
    /// The declaration of the field that is read, unless it is built in.
    pub from: Option<Span>,
}

/// The names recorded while a program is checked.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// In order of resolution. If a name is resolved again, the last meaning counts.
    uses: RefCell<Vec<(Span, Meaning)>>,
    locals: RefCell<Vec<Declaration>>,
    wire: RefCell<HashMap<Span, (u32, u32)>>,
    members: RefCell<Vec<Member>>,
    copies: RefCell<Vec<Copied>>,
    asked: Option<Span>,
}

impl Notes {
    /// Creates notes that also collect the names that could stand at a place.
    pub(crate) fn about(asked: Option<Span>) -> Notes {
        Notes { asked, ..Notes::default() }
    }
}

impl Checker<'_> {
    /// Records that a name refers to the declaration at a place.
    pub(crate) fn note_use(&self, at: Span, declared: Span) {
        if let Some(notes) = &self.notes {
            notes.uses.borrow_mut().push((at, Meaning::Declared(declared)));
        }
    }

    /// Records a variable or a parameter.
    pub(crate) fn note_local(&self, name: &Ident, kind: DefKind, ty: impl FnOnce(&Self) -> String) {
        if let Some(notes) = &self.notes {
            notes
                .locals
                .borrow_mut()
                .push(declaration(name, kind, ty(self), None));
        }
    }

    /// Records the places of a header's fixed fields on the wire, by name: first bit, number of bits.
    pub(crate) fn note_wire(&self, record: usize, spans: &[(String, u32, u32)]) {
        let Some(notes) = &self.notes else { return };
        for member in &self.records[record].members {
            if let Some((_, bit, bits)) = spans.iter().find(|(name, ..)| *name == member.name.name) {
                notes.wire.borrow_mut().insert(member.name.span, (*bit, *bits));
            }
        }
    }

    /// Records a member of a value of this type, behind a dot.
    pub(crate) fn note_access(&self, ty: &Ty, name: &Ident) {
        if self.notes.is_some() {
            match ty {
                Ty::Struct(id) => self.note_field(*id, name),
                ty => self.note_member_of(name, || self.members_of(ty)),
            }
        }
    }

    /// Records one of these built-in members.
    pub(crate) fn note_member_of(&self, name: &Ident, members: impl FnOnce() -> Vec<Member>) {
        if self.notes.is_none() {
            return;
        }
        let members = members();
        if let Some(member) = members.iter().find(|member| member.name == name.name) {
            self.note_brought(name, member.clone());
        }
        self.answer(name.span, || members);
    }

    fn note_brought(&self, name: &Ident, member: Member) {
        if let Some(notes) = &self.notes {
            let meaning = Meaning::Builtin(member.kind, member.form);
            notes.uses.borrow_mut().push((name.span, meaning));
        }
    }

    /// Records a field of a structure at its name.
    pub(crate) fn note_field(&self, id: StructId, name: &Ident) {
        if self.notes.is_none() {
            return;
        }
        match self.declared_field(id, &name.name) {
            Some(declared) => self.note_use(name.span, declared),
            None => {
                if let Some(member) = self.brought_field(id, &name.name) {
                    self.note_brought(name, member);
                }
            }
        }
        self.answer(name.span, || self.fields_of(id));
    }

    /// Records a field that is copied by its name.
    pub(crate) fn note_copy(&self, name: &Ident, to: StructId, from: StructId) {
        if let Some(notes) = &self.notes {
            let [to, from] = [to, from].map(|id| self.declared_field(id, &name.name));
            notes.copies.borrow_mut().push(Copied { at: name.span, to, from });
        }
    }

    /// Returns the place at which a structure declares a field.
    fn declared_field(&self, id: StructId, name: &str) -> Option<Span> {
        let record = &self.records[self.record_of(id)?];
        let mut members = record.members.iter();
        let member = members.find(|member| member.name.name == name)?;
        Some(member.name.span)
    }

    /// Finds a built-in field of a structure without listing all the others.
    fn brought_field(&self, id: StructId, name: &str) -> Option<Member> {
        let field = |id| {
            let field = self.field_named(id, name)?;
            Some(member(name, DefKind::Field, &self.show(&field.ty)))
        };
        match self.record_of(id).map(|record| self.records[record].kind) {
            Some(RecordKind::Event(..)) => field(id).or_else(|| field(EVENT)),
            Some(RecordKind::Context(_)) if name == "self" => Some(member(name, DefKind::Field, "id_t")),
            Some(
                RecordKind::Context(_)
                | RecordKind::Struct
                | RecordKind::Scratchpad
                | RecordKind::Signal(_)
                | RecordKind::Opt
                | RecordKind::Blueprint,
            )
            | None => field(id),
        }
    }

    /// Records the names that could stand at a place, if it is the place in question.
    pub(crate) fn answer(&self, at: Span, members: impl FnOnce() -> Vec<Member>) {
        if let Some(notes) = &self.notes
            && notes.asked == Some(at)
        {
            *notes.members.borrow_mut() = members();
        }
    }

    /// Returns the members that may follow a dot behind a value of this type.
    fn members_of(&self, ty: &Ty) -> Vec<Member> {
        let methods = |forms: &[(&str, &str)]| {
            let member = |(name, form): &(&str, &str)| member(name, DefKind::Method, form);
            forms.iter().map(member).collect::<Vec<_>>()
        };
        let counted = [
            member("len", DefKind::Field, "uint32"),
            member("full", DefKind::Field, "bool"),
        ];
        match ty {
            Ty::Struct(id) => self.fields_of(*id),
            Ty::Data => {
                let field = |(name, _, ty): &(&str, usize, Ty)| member(name, DefKind::Field, &self.show(ty));
                DATA_FIELDS.iter().map(field).collect()
            }
            Ty::Timer => vec![member("armed", DefKind::Field, "bool")],
            Ty::Ip => vec![
                member("is_v4", DefKind::Field, "bool"),
                member("high", DefKind::Field, "uint64"),
                member("low", DefKind::Field, "uint64"),
            ],
            Ty::Array { .. } => counted[..1].to_vec(),
            Ty::List { .. } => [&counted[..], &methods(LIST_METHODS)].concat(),
            Ty::Sorted { .. } => [&counted[..], &methods(SORTED_METHODS)].concat(),
            Ty::Options { .. } => [&counted[..], &methods(OPTION_METHODS)].concat(),
            Ty::Window { elem, .. } => {
                let mut members = methods(WINDOW_METHODS);
                members.push(member("head", DefKind::Field, &self.show(elem)));
                members.push(member("len", DefKind::Field, "uint32"));
                members.push(member("runs", DefKind::Field, "uint32"));
                members
            }
            Ty::Bool
            | Ty::Int { .. }
            | Ty::Enum { .. }
            | Ty::Seq { .. }
            | Ty::Duration
            | Ty::Time
            | Ty::Varint
            | Ty::Id
            | Ty::Addr
            | Ty::Bytes { .. } => Vec::new(),
        }
    }

    fn fields_of(&self, id: StructId) -> Vec<Member> {
        let record = self.record_of(id).map(|record| &self.records[record]);
        let kind = |name: &str| {
            let members = record.map_or(&[][..], |record| &record.members);
            let declared = members.iter().find(|member| member.name.name == name);
            declared.map_or(DefKind::Field, |member| member_kind(&member.ty))
        };
        let shown = |id: StructId| {
            let fields = &self.module.structs[id.0 as usize].fields;
            fields
                .iter()
                .map(|field| member(&field.name, kind(&field.name), &self.show(&field.ty)))
        };
        let mut members: Vec<Member> = shown(id).collect();
        match record.map(|record| record.kind) {
            Some(RecordKind::Event(..)) => members.extend(shown(EVENT)),
            Some(RecordKind::Context(_)) => members.push(member("self", DefKind::Field, "id_t")),
            Some(
                RecordKind::Struct
                | RecordKind::Scratchpad
                | RecordKind::Signal(_)
                | RecordKind::Opt
                | RecordKind::Blueprint,
            )
            | None => {}
        }
        members
    }

    /// Builds the index after everything has been checked.
    pub(crate) fn index(&mut self) -> Index {
        let Some(notes) = self.notes.take() else {
            return Index::default();
        };
        let Notes { uses, locals, wire, members, copies, .. } = *notes;
        let (mut uses, wire) = (uses.into_inner(), wire.into_inner());
        let mut declared = locals.into_inner();
        self.declared_values(&mut declared);
        self.declared_records(&wire, &mut declared);
        self.declared_rules(&mut declared);
        let mut declarations = HashMap::with_capacity(declared.len());
        for declaration in declared {
            uses.push((declaration.at, Meaning::Declared(declaration.at)));
            declarations.insert(declaration.at, declaration);
        }
        uses.reverse();
        uses.sort_by_key(|(at, _)| (at.file, at.start, at.end));
        uses.dedup_by_key(|(at, _)| *at);
        Index {
            declarations,
            uses,
            members: members.into_inner(),
            copies: copies.into_inner(),
        }
    }

    fn declared_values(&self, out: &mut Vec<Declaration>) {
        let written = |ty: &hawser_syntax::ast::Type| self.sources.text(ty.span).to_owned();
        let value =
            |kind, decl: &crate::state::ConstDecl<'_>| declaration(decl.name, kind, written(decl.ty), None);
        out.extend(self.consts.iter().map(|decl| value(DefKind::Const, decl)));
        out.extend(self.params.iter().map(|decl| value(DefKind::Param, decl)));
        let table = |decl: &crate::state::TableDecl<'_>| {
            declaration(decl.name, DefKind::Table, format!("{}[]", written(decl.ty)), None)
        };
        out.extend(self.tables.iter().map(table));
        for decl in &self.enums {
            let repr = decl.repr.map_or("uint32".to_owned(), written);
            out.push(declaration(decl.name, DefKind::Enum, repr, None));
            let variant = |(name, _): &(Ident, _)| {
                let owner = decl.name.name.clone();
                declaration(name, DefKind::Variant, owner.clone(), Some(owner))
            };
            out.extend(decl.variants.iter().map(variant));
        }
        for decl in &self.funcs {
            out.push(declaration(decl.name, DefKind::Function, written(decl.ret), None));
        }
        for decl in &self.externs {
            out.push(declaration(decl.name, DefKind::Extern, written(decl.ret), None));
            let named = decl
                .params
                .iter()
                .filter_map(|param| Some((param.name.as_ref()?, &param.ty)));
            out.extend(named.map(|(name, ty)| declaration(name, DefKind::Parameter, written(ty), None)));
        }
    }

    fn declared_records(&self, wire: &HashMap<Span, (u32, u32)>, out: &mut Vec<Declaration>) {
        for (index, record) in self.records.iter().enumerate() {
            out.push(Declaration {
                name: record.name.clone(),
                kind: record_kind(record.kind),
                at: record.span,
                ty: String::new(),
                owner: None,
                wire: None,
            });
            let id = Checker::struct_of(index);
            for member in &record.members {
                let ty = self.field_named(id, &member.name.name);
                let ty = ty.map_or(String::new(), |field| self.show(&field.ty));
                let owner = Some(record.name.clone());
                let mut field = declaration(member.name, member_kind(&member.ty), ty, owner);
                field.wire = wire.get(&member.name.span).copied();
                out.push(field);
            }
        }
    }

    fn declared_rules(&self, out: &mut Vec<Declaration>) {
        let plain = |name: &Ident, kind| declaration(name, kind, String::new(), None);
        out.extend(
            self.unions
                .iter()
                .map(|decl| plain(decl.name, DefKind::OptionUnion)),
        );
        for decl in &self.opt_lists {
            out.push(plain(decl.name, DefKind::OptionList));
            let field = |field: &hawser_syntax::ast::Field| {
                let ty = self.sources.text(field.ty.span).to_owned();
                declaration(&field.name, DefKind::Field, ty, Some(decl.name.name.clone()))
            };
            out.extend(decl.fields.iter().map(field));
        }
        out.extend(self.rule_decls.iter().map(|decl| plain(decl.name, DefKind::Rule)));
        for decl in &self.scheds {
            out.push(plain(decl.name, DefKind::Schedule));
            let queue = |(name, policy, _): &(Ident, Ident, _)| {
                let owner = Some(decl.name.name.clone());
                declaration(name, DefKind::Queue, policy.name.clone(), owner)
            };
            out.extend(decl.queues.iter().map(queue));
        }
        for decl in &self.dispatches {
            out.push(plain(decl.name, DefKind::Dispatch));
            let chains = decl.entries.iter().filter(|entry| entry.is_chain);
            out.extend(chains.map(|entry| plain(&entry.name, DefKind::Chain)));
        }
    }
}

fn declaration(name: &Ident, kind: DefKind, ty: String, owner: Option<String>) -> Declaration {
    Declaration { name: name.name.clone(), kind, at: name.span, ty, owner, wire: None }
}

/// Creates a built-in member.
pub(crate) fn member(name: &str, kind: DefKind, form: &str) -> Member {
    Member { name: name.to_owned(), kind, form: form.to_owned() }
}

fn member_kind(ty: &MemberType<'_>) -> DefKind {
    match ty {
        MemberType::Written(_) => DefKind::Field,
        MemberType::Timer(_) => DefKind::Timer,
        MemberType::Part(_) => DefKind::Part,
    }
}

fn record_kind(kind: RecordKind) -> DefKind {
    match kind {
        RecordKind::Struct => DefKind::Struct,
        RecordKind::Event(..) => DefKind::Event,
        RecordKind::Context(_) => DefKind::Context,
        RecordKind::Scratchpad => DefKind::Scratchpad,
        RecordKind::Signal(_) => DefKind::Signal,
        RecordKind::Opt => DefKind::Option,
        RecordKind::Blueprint => DefKind::Blueprint,
    }
}
