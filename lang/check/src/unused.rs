//! What is declared and never used: warnings. Variables are warned of where their scope ends.

use hawser_ir::EventKind;
use hawser_syntax::Diagnostic;

use crate::codes;
use crate::state::{Checker, RecordKind};

impl Checker<'_> {
    /// Warns of functions, events, params and dispatch tables that nothing uses.
    pub(crate) fn find_unused(&mut self) {
        let mut diagnostics = Vec::new();
        for param in self.params.iter().filter(|param| !param.used) {
            diagnostics.push(
                Diagnostic::warning(
                    codes::UNUSED_PARAM,
                    param.name.span,
                    format!("the param `{}` is not used", param.name.name),
                )
                .label("setting it would change nothing"),
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
        // A file that others import has no chains of its own to judge by.
        let whole_program = !self.deploys.is_empty() && !self.chain_spans.is_empty();
        if whole_program {
            for func in self.funcs.iter().filter(|func| !func.used && !func.in_chain) {
                diagnostics.push(
                    Diagnostic::warning(
                        codes::UNUSED_FUNCTION,
                        func.name.span,
                        format!(
                            "`{}` is in no chain, is not called and parses nothing",
                            func.name.name
                        ),
                    )
                    .label("nothing runs it"),
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
                        .label("nothing happens on it")
                        .hint(format!("add `{} -> {{…}};` to a dispatch table", record.name)),
                    );
                }
            }
        }
        self.diagnostics.extend(diagnostics);
    }
}
