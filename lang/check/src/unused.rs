//! Warnings about declarations that are never used. Warnings about variables are reported at the end of their
//! scope.

use std::collections::HashSet;

use hawser_ir::{EventKind, StructId, Ty};
use hawser_syntax::Diagnostic;
use hawser_syntax::ast::Ident;

use crate::codes;
use crate::state::{Checker, RecordKind};
use crate::types::Type;
use crate::unread_fields::is_accessible;

impl Checker<'_> {
    /// Warns of unused functions, events, params and dispatch tables.
    pub(crate) fn find_unused(&mut self) {
        let mut diagnostics = Vec::new();
        for param in self.params.iter().filter(|param| !param.used) {
            diagnostics.push(
                Diagnostic::warning(
                    codes::UNUSED_PARAM,
                    param.name.span,
                    format!("the param `{}` is not used", param.name.name),
                )
                .label("setting it would have no effect"),
            );
        }
        for dispatch in self.dispatches.iter().filter(|dispatch| !dispatch.registered) {
            diagnostics.push(
                Diagnostic::warning(
                    codes::NOT_REGISTERED,
                    dispatch.name.span,
                    format!("the chains of `{}` never run", dispatch.name.name),
                )
                .label("not registered")
                .hint(format!(
                    "add `register_ep_chains({});` to `deploy`",
                    dispatch.name.name
                )),
            );
        }
        // A file that others import has no chains of its own, so its uses cannot be judged.
        let whole_program = !self.deploys.is_empty() && !self.chain_spans.is_empty();
        if whole_program {
            for func in self.funcs.iter().filter(|func| !func.used && !func.in_chain) {
                diagnostics.push(
                    Diagnostic::warning(
                        codes::UNUSED_FUNCTION,
                        func.name.span,
                        format!(
                            "`{}` is in no chain, is not called and is not a parser",
                            func.name.name
                        ),
                    )
                    .label("it is never run"),
                );
            }
            for record in &self.records {
                let RecordKind::Event(index, kind) = record.kind else {
                    continue;
                };
                let has_chain = self.chain_spans.get(index as usize).copied().flatten().is_some();
                if !has_chain && kind != EventKind::Sys {
                    diagnostics.push(
                        Diagnostic::warning(
                            codes::UNUSED_EVENT,
                            record.span,
                            format!("the event `{}` has no chain", record.name),
                        )
                        .label("the event has no effect")
                        .hint(format!("add `{} -> {{…}};` to a dispatch table", record.name)),
                    );
                }
            }
        }
        self.diagnostics.extend(diagnostics);
        if whole_program && self.attached_from.is_none() {
            self.find_unused_constants();
        }
    }

    /// Warns of unused constants, tables, enum variants and signals of the main file. Imported files serve
    /// other programs, too.
    fn find_unused_constants(&mut self) {
        let mut unused: Vec<(&Ident, &str)> = Vec::new();
        let constants = self.consts.iter().filter(|decl| !decl.used);
        unused.extend(constants.map(|decl| (decl.name, "constant")));
        let tables = self.tables.iter().filter(|decl| !decl.used);
        unused.extend(tables.map(|decl| (decl.name, "table")));
        let from_outside = self.enums_outside();
        for (index, decl) in self.enums.iter().enumerate() {
            if !decl.converted && !from_outside.contains(&(index as u32)) {
                let variants = decl.variants.iter().enumerate();
                let variants = variants.filter(|(variant, _)| !decl.used.contains(variant));
                unused.extend(variants.map(|(_, (name, _))| (name, "value")));
            }
        }
        let mut diagnostics = Vec::new();
        let mut warn = |file: u32, span, what: &str, name: &str| {
            if file == 0 {
                let message = format!("the {what} `{name}` is not used");
                diagnostics.push(Diagnostic::warning(codes::UNUSED_CONSTANT, span, message).label(
                    "the program does not \
                         use the name",
                ));
            }
        };
        for (name, what) in unused {
            warn(name.span.file, name.span, what, &name.name);
        }
        for record in &self.records {
            if let RecordKind::Signal(index) = record.kind
                && !self.signalled.contains(&index)
            {
                warn(record.span.file, record.span, "signal", &record.name);
            }
        }
        self.diagnostics.extend(diagnostics);
    }

    /// Returns the enums whose values come from outside, or are visible there.
    fn enums_outside(&self) -> HashSet<u32> {
        let outside = self.structures_outside();
        let mut found = HashSet::new();
        for (record, decl) in self.records.iter().enumerate() {
            let id: StructId = Self::struct_of(record);
            let is_inner = matches!(
                decl.kind,
                RecordKind::Struct | RecordKind::Context(_) | RecordKind::Scratchpad
            ) && !outside.contains(&id);
            for field in &self.module.structs[id.0 as usize].fields {
                let member = decl.members.iter().find(|member| member.name.name == field.name);
                if let Ty::Enum { index, .. } = field.ty
                    && (!is_inner || member.is_some_and(is_accessible))
                {
                    found.insert(index);
                }
            }
        }
        for ty in self.externs.iter().flat_map(|decl| &decl.param_types) {
            if let Type::Value(Ty::Enum { index, .. }) = ty {
                found.insert(*index);
            }
        }
        found
    }
}
