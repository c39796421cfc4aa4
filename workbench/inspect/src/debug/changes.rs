//! Changes since the last stop.

use crate::trace::context;

use crate::debug::contexts::Contexts;
use crate::debug::debugger::Debugger;
use crate::debug::program::HostProgram;
use crate::debug::stop::{Reason, Stop, ValueChange};

impl Debugger {
    /// Stops here and describes the stop.
    pub(crate) fn stopped(&mut self, reason: Reason) -> Stop {
        let known = self.known();
        let hosts = self.programs.iter().zip(&self.before).zip(&known);
        let changed = hosts
            .flat_map(|((program, old), new)| changes(program, old, new))
            .collect();
        self.before = known;
        Stop {
            reason: if self.current.is_none() {
                Reason::End
            } else {
                reason
            },
            breakpoints: Vec::new(),
            problems: Vec::new(),
            place: self.place(),
            end: self.end.clone(),
            changed,
        }
    }
}

fn changes(program: &HostProgram, old: &Contexts, new: &Contexts) -> Vec<ValueChange> {
    let reader = program.reader();
    let mut found = Vec::new();
    let changed = |id, bytes: &[u8], change| ValueChange {
        host: program.host.clone(),
        context: context(&program.module, id, bytes),
        change,
        field: None,
        old: None,
        new: None,
    };
    for ((id, key), after) in &new.0 {
        let Some(before) = old.0.get(&(*id, *key)) else {
            found.push(changed(*id, after, "created"));
            continue;
        };
        let leaves = program.contexts[id.0 as usize].iter();
        for leaf in leaves.filter(|leaf| !leaf.is_same(before, after)) {
            found.push(ValueChange {
                field: Some(leaf.name.to_string()),
                old: Some(leaf.value(&reader, before)),
                new: Some(leaf.value(&reader, after)),
                ..changed(*id, after, "field")
            });
        }
    }
    let gone = old.0.iter().filter(|(key, _)| !new.0.contains_key(key));
    found.extend(gone.map(|((id, _), bytes)| changed(*id, bytes, "ended")));
    found
}
