//! Attachments: processors that a file puts before or after those of the program's chains.
//!
//! A file may be attached to a running program. It is then checked together with the program's own files,
//! behind them, and has a namespace of its own on top of the program's. It may not declare anything that lies
//! in memory or on the wire, because existing contexts, events and packets must stay as they are.

use hawser_syntax::Diagnostic;
use hawser_syntax::ast::{Ident, Item, ItemKind, Side, Span};

use crate::chain::ProcessorEntry;
use crate::codes;
use crate::names::Def;
use crate::state::{AttachDecl, Checker, RecordKind};
use crate::types::Type;

/// An attachment whose names have been resolved.
pub(crate) struct Attachment {
    /// The attached processor, and the place of the attachment in the source.
    func: usize,
    at: Span,
    side: Side,
    anchor: usize,
    /// The event that it takes; `None` for any event.
    event: Option<u32>,
    /// `met`: some chain has the anchor. `taken`: some chain has taken the attachment.
    met: bool,
    taken: bool,
}

impl<'a> Checker<'a> {
    /// Reports declarations that an attached file may not have.
    pub(crate) fn check_attachment_item(&mut self, item: &Item) {
        if !self.is_attached(item.span) {
            return;
        }
        let what = match &item.kind {
            ItemKind::Const { .. }
            | ItemKind::Table { .. }
            | ItemKind::Param { .. }
            | ItemKind::Enum { .. }
            | ItemKind::Struct { .. }
            | ItemKind::Signal { .. }
            | ItemKind::Func { .. }
            | ItemKind::Attach { .. } => return,
            ItemKind::Import { .. } => "an import",
            ItemKind::Extend { .. } => "an extension",
            ItemKind::Event { .. } => "an event",
            ItemKind::Context { .. } => "a context",
            ItemKind::Scratchpad { .. } => "a scratchpad",
            ItemKind::Opt { .. } | ItemKind::OptUnion { .. } | ItemKind::OptList { .. } => "an option",
            ItemKind::Blueprint { .. } | ItemKind::NetHeader { .. } => "a header",
            ItemKind::SegRule { .. } | ItemKind::Coalesce { .. } => "a rule for packets",
            ItemKind::Sched { .. } => "a scheduler",
            ItemKind::Extern { .. } => "an extern",
            ItemKind::Dispatch { .. } => "a dispatch table",
            ItemKind::Deploy { .. } => "a deployment",
        };
        self.error_hint(
            codes::ATTACH,
            item.span,
            format!("an attachment cannot contain {what}"),
            "an attachment cannot change the memory layout or the packets of a running program",
            "an attachment may contain processors, helpers, structures, enums, constants, params \
                       and signals",
        );
    }

    /// Returns the attachments of all files whose names resolve; the others are reported.
    pub(crate) fn attachments(&mut self) -> Vec<Attachment> {
        let declared = std::mem::take(&mut self.attachments);
        declared
            .iter()
            .filter_map(|attach| self.resolve_attachment(attach))
            .collect()
    }

    fn resolve_attachment(&mut self, attach: &AttachDecl<'a>) -> Option<Attachment> {
        let processor = self.lookup(attach.processor);
        let func = self.function_named(attach.processor, processor)?;
        self.funcs[func].in_chain = true;
        // Chains belong to the program: an attachment may give its processor the same name as the one beside
        // which it stands.
        let anchor = self.defs.get(attach.anchor.name.as_str()).map(|(def, _)| *def);
        let anchor = anchor.or_else(|| self.lookup(attach.anchor));
        let anchor = self.function_named(attach.anchor, anchor)?;
        let event = self.funcs[func].param_types.iter().find_map(|ty| {
            let Type::Value(ty) = ty else { return None };
            match self.kind_of(ty) {
                Some(RecordKind::Event(index, _)) => Some(index),
                _ => None,
            }
        });
        let at = attach.processor.span;
        Some(Attachment { func, at, side: attach.side, anchor, event, met: false, taken: false })
    }

    fn function_named(&mut self, name: &'a Ident, def: Option<Def>) -> Option<usize> {
        match def {
            Some(Def::Func(func)) => Some(func),
            Some(other) => {
                self.error(
                    codes::NOT_A_PROCESSOR,
                    name.span,
                    format!("`{}` is {}", name.name, other.what()),
                    "expected a processor",
                );
                None
            }
            None => {
                let functions = self.funcs.iter().map(|f| f.name.name.as_str());
                let near = self
                    .gives_hints()
                    .then(|| hawser_syntax::nearest(&name.name, functions));
                let hint = near.flatten().map(crate::names::did_you_mean);
                self.unknown(name, "a processor", hint);
                None
            }
        }
    }

    /// Inserts attachments into the chain of an event. Several on one side of a processor run in order of
    /// declaration. Each runs on the parts on which its neighbour runs.
    pub(crate) fn attach(event: u32, attachments: &mut [Attachment], chain: &mut Vec<ProcessorEntry<'a>>) {
        let own = std::mem::take(chain);
        for entry in own {
            for side in [Side::Before, Side::After] {
                for attachment in attachments
                    .iter_mut()
                    .filter(|a| a.anchor == entry.func && a.side == side)
                {
                    attachment.met = true;
                    if attachment.event.is_none_or(|taken| taken == event) {
                        attachment.taken = true;
                        let (func, at) = (attachment.func, attachment.at);
                        chain.push(ProcessorEntry { func, at, ..entry });
                    }
                }
                if side == Side::Before {
                    chain.push(entry);
                }
            }
        }
    }

    /// Reports attachments that no chain has taken.
    pub(crate) fn report_idle_attachments(&mut self, attachments: &[Attachment]) {
        for attachment in attachments.iter().filter(|attachment| !attachment.taken) {
            let anchor = self.funcs[attachment.anchor].name;
            let name = &self.funcs[attachment.func].name.name;
            let diagnostic = Diagnostic::error(
                codes::ATTACH,
                attachment.at,
                format!(
                    "no chain would run \
                 `{name}`"
                ),
            );
            let diagnostic = match attachment.event {
                Some(event) if attachment.met => {
                    let event = &self.module.events[event as usize].name;
                    diagnostic
                        .label(format!("no chain of `{event}` has `{}`", anchor.name))
                        .hint("take the event of a chain that contains the anchor, or `event_t`")
                }
                _ => diagnostic.label(format!("no chain has `{}`", anchor.name)),
            };
            self.report(diagnostic.related(anchor.span, "it is declared here"));
        }
    }
}
