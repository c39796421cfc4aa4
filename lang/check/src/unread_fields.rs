//! Warnings about fields that are written but never read.
//!
//! Reads are recorded while expressions are lowered. Data that leaves the program is read elsewhere: fields
//! that are `observable` or `modifiable`, and the contents of externs, signals, events and headers.

use std::collections::HashSet;
use std::path::Path;

use hawser_ir::{FieldRef, StructId, Ty};
use hawser_syntax::Diagnostic;
use hawser_syntax::ast::Ident;

use crate::codes;
use crate::state::{Checker, MemberDecl, MemberType, RecordKind};
use crate::types::Type;

impl Checker<'_> {
    /// Records that an expression names a field, unless it is the target of an assignment.
    pub(crate) fn note_read(&mut self, structure: StructId, name: &Ident) {
        if self.written != Some(name.span) {
            self.read.insert((structure, name.name.clone()));
        }
    }

    /// Warns of fields that are never read, in a whole program.
    pub(crate) fn find_unread(&mut self) {
        let is_whole =
            !self.deploys.is_empty() && !self.chain_spans.is_empty() && self.attached_from.is_none();
        if !is_whole {
            return;
        }
        let outside = self.structures_outside();
        let keys = self.sorted_keys();
        let mut diagnostics = Vec::new();
        for (record, decl) in self.records.iter().enumerate() {
            let id = Self::struct_of(record);
            let is_inner = matches!(
                decl.kind,
                RecordKind::Struct | RecordKind::Context(_) | RecordKind::Scratchpad
            );
            if !is_inner || outside.contains(&id) {
                continue;
            }
            let is_own =
                |member: &&MemberDecl<'_>| is_private(member) && self.is_beside_main(member.name.span.file);
            for member in decl.members.iter().filter(is_own) {
                let name = &member.name.name;
                let Some(field) = self.field_named(id, name) else {
                    continue;
                };
                if self.read.contains(&(id, name.clone())) || keys.contains(&(id, field.offset)) {
                    continue;
                }
                diagnostics.push(
                    Diagnostic::warning(
                        codes::UNREAD_FIELD,
                        member.name.span,
                        format!("the field `{name}` of `{}` is never read", decl.name),
                    )
                    .label("its value has no effect"),
                );
            }
        }
        self.diagnostics.extend(diagnostics);
    }

    /// True if a file lies in the folder of the main one. Declarations in other folders may be read by other
    /// programs.
    fn is_beside_main(&self, file: u32) -> bool {
        let folder = |file| Path::new(&self.sources.file(file).path).parent();
        folder(file) == folder(0)
    }

    /// Returns the structures that are read outside of the program: those within events, signals, headers,
    /// externs' arguments and observable fields.
    pub(crate) fn structures_outside(&self) -> HashSet<StructId> {
        let mut outside = HashSet::new();
        for (record, decl) in self.records.iter().enumerate() {
            let fields = &self.module.structs[Self::struct_of(record).0 as usize].fields;
            let is_inner = matches!(
                decl.kind,
                RecordKind::Struct | RecordKind::Context(_) | RecordKind::Scratchpad
            );
            for field in fields {
                let member = decl.members.iter().find(|member| member.name.name == field.name);
                if !is_inner || member.is_some_and(|member| is_accessible(member)) {
                    self.add_structures(&field.ty, &mut outside);
                }
            }
        }
        for ty in self.externs.iter().flat_map(|decl| &decl.param_types) {
            if let Type::Value(ty) = ty {
                self.add_structures(ty, &mut outside);
            }
        }
        outside
    }

    fn add_structures(&self, ty: &Ty, to: &mut HashSet<StructId>) {
        let mut open = vec![ty];
        while let Some(ty) = open.pop() {
            match ty {
                Ty::Struct(id) if to.insert(*id) => {
                    open.extend(
                        self.module.structs[id.0 as usize]
                            .fields
                            .iter()
                            .map(|field| &field.ty),
                    );
                }
                Ty::Array { elem, .. }
                | Ty::List { elem, .. }
                | Ty::Sorted { elem, .. }
                | Ty::Window { elem, .. } => open.push(elem),
                _ => {}
            }
        }
    }

    /// Returns the fields by which sorted lists are ordered, by structure and offset.
    fn sorted_keys(&self) -> HashSet<(StructId, u32)> {
        let fields = self.module.structs.iter().flat_map(|structure| &structure.fields);
        let mut keys = HashSet::new();
        for field in fields {
            let Ty::Sorted { elem, by, key, .. } = &field.ty else {
                continue;
            };
            if let Ty::Struct(id) = **elem {
                let offsets = by.iter().chain([key]).map(|FieldRef { offset, .. }| *offset);
                keys.extend(offsets.map(|offset| (id, offset)));
            }
        }
        keys
    }
}

/// True for a field that is neither a timer nor a part, and that is not observable.
fn is_private(member: &MemberDecl<'_>) -> bool {
    matches!(member.ty, MemberType::Written(_)) && !is_accessible(member)
}

pub(crate) fn is_accessible(member: &MemberDecl<'_>) -> bool {
    member
        .field
        .is_some_and(|field| field.access.observable || field.access.modifiable.is_some())
}
