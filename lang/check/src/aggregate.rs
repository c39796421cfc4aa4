//! Structures and ids: initial values, `name{f: v}`, `flow_id id(a, b)`.

use hawser_ir::abi::Id;
use hawser_ir::{BinOp, CmpOp, Expr, ExprKind, IdPart, Index, Place, Query, Stmt, StmtKind, StructId, Ty};
use hawser_syntax::ast::{self, Ident, Span};

use crate::body::{Body, inside, load};
use crate::codes;
use crate::convert::{Conversion, How, Value, conversion};
use crate::fold;
use crate::names::Def;
use crate::state::{Checker, RecordKind};

impl<'a> Body<'_, 'a> {
    /// Lowers `name{f: v, …}` into a temporary.
    pub(crate) fn struct_literal(
        &mut self,
        name: &'a Ident,
        fields: &'a [(Ident, ast::Expr)],
        at: Span,
    ) -> Value {
        if name.name == "new_ctx" {
            self.error_hint(
                codes::NEW_CONTEXT,
                at,
                "`new_ctx` cannot be part of an expression",
                "expected in a declaration",
                "write `some_context c = new_ctx{…};`",
            );
            return Value::Error;
        }
        let Some(record) = self.literal_record(name) else {
            return Value::Error;
        };
        if !self.statements_allowed(at) {
            return Value::Error;
        }
        let place = self.temporary(Ty::Struct(Checker::struct_of(record)));
        self.fill_struct(&place, record, fields);
        Value::Place(place)
    }

    fn literal_record(&mut self, name: &'a Ident) -> Option<usize> {
        match self.ck.lookup(name) {
            Some(Def::Record(record)) => match self.ck.records[record].kind {
                RecordKind::Context(_) | RecordKind::Scratchpad => {
                    self.error(
                        codes::NEW_CONTEXT,
                        name.span,
                        format!("`{}` cannot be made with a structure's literal", name.name),
                        "a context is made by `new_ctx{…}`; the scratchpad always exists",
                    );
                    None
                }
                RecordKind::Struct
                | RecordKind::Event(..)
                | RecordKind::Signal(_)
                | RecordKind::Opt
                | RecordKind::Blueprint => Some(record),
            },
            Some(other) => {
                self.error(
                    codes::NOT_A_VALUE,
                    name.span,
                    format!("`{}` is {}", name.name, other.what()),
                    "expected a structure",
                );
                None
            }
            None => {
                let hint = self.ck.suggestion(name, |def| matches!(def, Def::Record(_)), []);
                self.ck.unknown(name, "a structure", hint);
                None
            }
        }
    }

    /// Initialises a structure at a place and stores the given fields.
    pub(crate) fn fill_struct(&mut self, place: &Place, record: usize, fields: &'a [(Ident, ast::Expr)]) {
        self.push(StmtKind::Init(place.clone()));
        self.store_fields(place, record, fields);
        self.computed_defaults(place, record, fields);
    }

    /// Stores the given fields in the order in which they are written.
    pub(crate) fn store_fields(&mut self, place: &Place, record: usize, fields: &'a [(Ident, ast::Expr)]) {
        let id = Checker::struct_of(record);
        for (i, (name, value)) in fields.iter().enumerate() {
            self.ck.note_field(id, name);
            let structure = &self.ck.module.structs[id.0 as usize];
            let Some(field) = structure.fields.iter().find(|f| f.name == name.name) else {
                let owner = structure.name.clone();
                let known: Vec<String> = structure.fields.iter().map(|f| f.name.clone()).collect();
                let hint = self
                    .ck
                    .nearest_member(&name.name, known.iter().map(String::as_str));
                self.unknown_member(name, &owner, hint);
                continue;
            };
            let target = inside(place, field.offset, field.ty.clone());
            if fields[..i].iter().any(|(before, _)| before.name == name.name) {
                self.error(
                    codes::DEFINED_TWICE,
                    name.span,
                    format!("`{}` is set twice", name.name),
                    "expected each field at most once",
                );
            }
            self.store(&target, value);
        }
    }

    /// `place = {a, b}`: assigns the fields of structures to the fields of the same names at a place. The
    /// indices of all places are evaluated once, before the first field is copied.
    pub(crate) fn copy_by_name(&mut self, place: &Place, id: StructId, sources: &'a [ast::Expr]) {
        let place = self.frozen(place.clone());
        let sources: Vec<(Place, Span)> = sources
            .iter()
            .filter_map(|source| Some((self.copy_source(source)?, source.span)))
            .collect();
        // An element is no longer found under its key once its key has been overwritten.
        let target = match has_key(&place) {
            true => self.keep_place(place.clone()),
            false => place.clone(),
        };
        for (from, at) in sources {
            self.copy_fields(&target, id, &from, at);
        }
        if target != place {
            self.push(StmtKind::Copy(place, target));
        }
    }

    /// Lowers a structure whose fields are copied one by one.
    fn copy_source(&mut self, source: &'a ast::Expr) -> Option<Place> {
        match self.value(source, None) {
            Value::Error => None,
            Value::Place(from) if matches!(from.ty, Ty::Struct(_)) => Some(match has_key(&from) {
                true => self.keep_place(from),
                false => self.frozen(from),
            }),
            other => {
                let found = self.describe(&other);
                self.error(
                    codes::MISMATCH,
                    source.span,
                    format!("{found} has no fields"),
                    "expected a structure",
                );
                None
            }
        }
    }

    /// Assigns the fields of a structure to the fields of the same names at a place. Timers are left out.
    fn copy_fields(&mut self, place: &Place, id: StructId, from: &Place, at: Span) {
        let Ty::Struct(other) = from.ty else { return };
        let fields = self.ck.module.structs[id.0 as usize].fields.clone();
        let mut is_any = false;
        for field in fields {
            let own = self.ck.field_named(other, &field.name).map(|own| own.ty.clone());
            if own.is_none_or(|own| own == Ty::Timer || field.ty == Ty::Timer) {
                continue;
            }
            is_any = true;
            let name = Ident { name: field.name, span: at };
            self.ck.note_copy(&name, id, other);
            if let Value::Place(own) = self.struct_field(from.clone(), other, &name) {
                self.copy_field(inside(place, field.offset, field.ty), own, &name.name, at);
            }
        }
        if !is_any {
            let (from, to) = (self.ck.show(&from.ty), self.ck.show(&place.ty));
            self.error(
                codes::NO_COMMON_FIELD,
                at,
                format!("`{to}` has no field of `{from}`"),
                "expected fields of the same names",
            );
        }
    }

    fn copy_field(&mut self, to: Place, from: Place, name: &str, at: Span) {
        let fits = match to.ty.is_scalar() && from.ty.is_scalar() {
            true => matches!(
                conversion(&load(from.clone()).ty, &to.ty, How::Assign),
                Conversion::Implicit
            ),
            false => from.ty == to.ty,
        };
        if !fits {
            let (found, expected) = (self.ck.show(&from.ty), self.ck.show(&to.ty));
            self.error(
                codes::MISMATCH,
                at,
                format!("the field `{name}` is {found} here and {expected} in the place"),
                "expected fields of types that convert",
            );
            return;
        }
        self.push(match to.ty.is_scalar() {
            true => {
                let value = fold::cast(load(from), &to.ty);
                StmtKind::Store(to, value)
            }
            false => StmtKind::Copy(to, from),
        });
    }

    /// Stores the initial values that are computed from params and earlier fields, for fields that are not
    /// given. Inner structures come first, in order of declaration.
    pub(crate) fn computed_defaults(
        &mut self,
        place: &Place,
        record: usize,
        given: &'a [(Ident, ast::Expr)],
    ) {
        if !self.ck.has_computed_defaults(record, 0) {
            return;
        }
        let fields = self.ck.module.structs[Checker::struct_of(record).0 as usize]
            .fields
            .clone();
        let computed = self.ck.records[record].computed.clone();
        for (index, field) in fields.iter().enumerate() {
            if given.iter().any(|(name, _)| name.name == field.name) {
                continue;
            }
            let target = inside(place, field.offset, field.ty.clone());
            if let Some((_, value)) = computed.iter().find(|(i, _)| *i == index) {
                // The value sees the structure's fields, but not the function's variables.
                let scopes = std::mem::take(&mut self.scopes);
                let this = self.this.replace(place.clone());
                let value = self.expr_as(value, &field.ty);
                self.this = this;
                self.scopes = scopes;
                self.push(StmtKind::Store(target, value));
            } else if let Ty::Struct(id) = field.ty
                && let Some(inner) = self.ck.record_of(id)
            {
                self.computed_defaults(&target, inner, &[]);
            }
        }
    }

    /// Makes an id from a tuple, in a temporary.
    pub(crate) fn make_id(&mut self, args: &[&'a ast::Expr], at: Span) -> Value {
        if !self.statements_allowed(at) {
            return Value::Error;
        }
        let place = self.temporary(Ty::Id);
        if self.make_id_at(&place, args, at) {
            Value::Place(place)
        } else {
            Value::Error
        }
    }

    /// `flow_id id(a, b)`
    pub(crate) fn make_id_at(&mut self, place: &Place, args: &[&'a ast::Expr], at: Span) -> bool {
        if args.is_empty() {
            self.argument_count(at, "id_t", "the values that make the id", 0);
            return false;
        }
        let Some(parts) = self.id_parts(args) else {
            return false;
        };
        // An id in the tuple is read twice: for its length, and for its bytes.
        let parts: Vec<IdPart> = parts
            .into_iter()
            .map(|part| match part {
                IdPart::Bytes(inner) => IdPart::Bytes(self.repeatable(inner)),
                IdPart::Scalar(..) => part,
            })
            .collect();
        let bytes: usize = parts.iter().map(|part| self.part_bytes(part)).sum();
        if bytes > Id::MAX {
            self.error_hint(
                codes::ID_TOO_LONG,
                at,
                format!("this id has {bytes} bytes"),
                format!("expected at most {} bytes", Id::MAX),
                "hash a part of the id: `keyed_hash(k0, k1, …)`",
            );
            return false;
        }
        self.check_width(bytes, &parts, at);
        self.push(StmtKind::MakeId(place.clone(), parts));
        true
    }

    /// Ends the chain or the parser at run time if the ids in a tuple leave no room for the rest of it.
    fn check_width(&mut self, fixed: usize, parts: &[IdPart], at: Span) {
        let inner = parts.iter().filter_map(|part| match part {
            IdPart::Bytes(place) if place.ty == Ty::Id => Some(place.clone()),
            IdPart::Bytes(_) | IdPart::Scalar(..) => None,
        });
        let word = Ty::uint(32);
        let len = |place| Expr { ty: Ty::uint(32), kind: ExprKind::Query(Query::Len(place)) };
        let add = |a, b| fold::binary(BinOp::Add, a, b, Ty::uint(32));
        let Some(inner_bytes) = inner.map(len).reduce(add) else {
            return;
        };
        if fixed == 0 && parts.len() == 1 {
            return;
        }
        let room = fold::constant((Id::MAX - fixed) as u64, word);
        let fits = fold::compare(CmpOp::Le, inner_bytes, room);
        if self.is_parser() {
            let drop = Stmt { span: crate::state::span(at), kind: StmtKind::Drop };
            self.push(StmtKind::If(fits, Vec::new(), vec![drop]));
        } else {
            let text = format!("`{}` has at most {} bytes", self.ck.sources.text(at), Id::MAX);
            let index = self.ck.assertion_of(at, text);
            self.push(StmtKind::Assert(fits, index));
        }
    }

    fn part_bytes(&self, part: &IdPart) -> usize {
        match part {
            IdPart::Scalar(_, bytes) => usize::from(*bytes),
            // For an id, only the bytes in use count, and their number is unknown here.
            IdPart::Bytes(place) if place.ty == Ty::Id => 0,
            IdPart::Bytes(place) => self.ck.layout().size(&place.ty) as usize,
        }
    }
}

/// True if a place is in an element that is selected by its key.
fn has_key(place: &Place) -> bool {
    place
        .steps
        .iter()
        .any(|step| matches!(step.index, Index::Key(..)))
}

impl Checker<'_> {
    /// True if a structure, or a structure nested in it, has computed initial values.
    pub(crate) fn has_computed_defaults(&self, record: usize, depth: u32) -> bool {
        if !self.records[record].computed.is_empty() {
            return true;
        }
        depth <= crate::state::MAX_DEPTH
            && self.module.structs[Checker::struct_of(record).0 as usize]
                .fields
                .iter()
                .any(|field| match field.ty {
                    Ty::Struct(id) => self
                        .record_of(id)
                        .is_some_and(|inner| self.has_computed_defaults(inner, depth + 1)),
                    _ => false,
                })
    }
}
