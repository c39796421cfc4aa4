//! `extend context name { … }`: more members of a declaration in another file.

use hawser_ir::EventKind;
use hawser_syntax::ast::Extended;

use crate::codes;
use crate::names::{Def, member_decls};
use crate::state::{Checker, ExtendDecl, RecordKind};

impl Checker<'_> {
    /// Adds the members of all extensions behind those of the extended declarations, in the order of the
    /// files.
    pub(crate) fn extend_records(&mut self) {
        for extension in self.extensions.clone() {
            let Some(record) = self.extended(&extension) else {
                continue;
            };
            let (members, invariants) = member_decls(extension.members);
            self.note(Checker::struct_of(record), extension.name.span, &members);
            self.records[record].members.extend(members);
            self.records[record].invariants.extend(invariants);
        }
    }

    /// Returns the record to which an extension adds members.
    fn extended(&mut self, extension: &ExtendDecl<'_>) -> Option<usize> {
        let (name, word) = (extension.name, word(extension.of));
        let wrong = match self.lookup(name) {
            Some(Def::Record(record)) => match (self.records[record].kind, extension.of) {
                (RecordKind::Event(_, EventKind::Timer), Extended::Event)
                    if !extension.members.is_empty() =>
                {
                    "a timer's event has no fields".to_owned()
                }
                (RecordKind::Context(_), Extended::Context)
                | (RecordKind::Event(..), Extended::Event)
                | (RecordKind::Scratchpad, Extended::Scratchpad)
                | (RecordKind::Struct, Extended::Struct) => return Some(record),
                _ => format!("`{}` is not a declaration of this kind", name.name),
            },
            Some(other) => format!("it is {}", other.what()),
            None => {
                let hint = self.suggestion(name, |def| matches!(def, Def::Record(_)), []);
                self.unknown(name, &format!("the name of a {word}"), hint);
                return None;
            }
        };
        self.error_hint(
            codes::EXTENSION,
            name.span,
            format!("`extend {word}` cannot extend `{}`", name.name),
            wrong,
            "`extend` is followed by the kind of declaration: context, event, scratchpad, struct",
        );
        None
    }
}

fn word(of: Extended) -> &'static str {
    match of {
        Extended::Context => "context",
        Extended::Event => "event",
        Extended::Scratchpad => "scratchpad",
        Extended::Struct => "struct",
    }
}
