//! Compatibility of two programs: whether both can run on the same memory. Everything in that memory, and
//! everything that refers to it by number, must be the same in both.
//!
//! Functions, chains and params may differ. So may the additional rows at the end of tables that only
//! functions use (structures, signals).

use crate::body::{Instr, StmtKind};
use crate::module::{Context, Module};
use crate::visit::statements;

impl Module {
    /// Checks whether this program can continue with the contexts, events and pending packets of another.
    /// Both must have the same events, contexts, scratchpad, parsers, headers, rules and queues, byte for
    /// byte. Signals must keep their numbers.
    ///
    /// # Errors
    /// Returns a description of the first table that differs.
    pub fn shares_memory_with(&self, other: &Module) -> Result<(), &'static str> {
        let contexts = |module: &Module| {
            let row = |c: &Context| (c.name.clone(), c.granularity, c.body, c.ends, c.timers.clone());
            module.contexts.iter().map(row).collect::<Vec<_>>()
        };
        let parsers = |module: &Module| {
            module
                .parsers
                .iter()
                .map(|p| (p.source, p.max_events))
                .collect::<Vec<_>>()
        };
        let rules = |module: &Module| {
            module
                .seg_rules
                .iter()
                .map(|r| (r.name.clone(), r.args, r.blueprint))
                .collect::<Vec<_>>()
        };
        let coalesced = |module: &Module| module.coalesce.iter().map(|c| c.blueprint).collect::<Vec<_>>();
        let same = [
            (begin_alike(&self.structs, &other.structs), "structures"),
            (self.events == other.events, "events"),
            (contexts(self) == contexts(other), "contexts"),
            (self.scratch == other.scratch, "the scratchpad"),
            (parsers(self) == parsers(other), "parsers"),
            (self.blueprints == other.blueprints, "headers"),
            (self.opt_lists == other.opt_lists, "option lists"),
            (rules(self) == rules(other), "segmentation rules"),
            (coalesced(self) == coalesced(other), "coalescing rules"),
            (self.queues == other.queues, "queues"),
            (self.externs == other.externs, "externs"),
            (begin_alike(&self.signals, &other.signals), "signals"),
        ];
        match same.into_iter().find(|(same, _)| !same) {
            Some((_, what)) => Err(what),
            None => Ok(()),
        }
    }

    /// For each blueprint, whether a function sends it. Machine code builds only these headers.
    #[must_use]
    pub fn sent_blueprints(&self) -> Vec<bool> {
        let mut sent = vec![false; self.blueprints.len()];
        for func in &self.funcs {
            statements(&func.body, &mut |stmt| {
                if let StmtKind::Emit(Instr::PktGen { blueprint, .. }) = &stmt.kind
                    && let Some(sent) = sent.get_mut(blueprint.0 as usize)
                {
                    *sent = true;
                }
            });
        }
        sent
    }
}

/// True if one list is a prefix of the other.
fn begin_alike<T: PartialEq>(a: &[T], b: &[T]) -> bool {
    a.iter().zip(b).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, EventKind, StructId};

    #[test]
    fn programs_are_compatible_if_their_memory_layout_agrees() {
        let event =
            |name: &str| Event { name: name.to_owned(), kind: EventKind::Internal, body: StructId(0) };
        let a = Module { events: vec![event("a")], ..Module::default() };
        let b = Module { events: vec![event("b")], ..Module::default() };
        assert_eq!(a.shares_memory_with(&b), Err("events"));
        let more = Module {
            signals: vec![("s".to_owned(), StructId(0))],
            name: "m".to_owned(),
            ..a.clone()
        };
        assert_eq!(
            (a.shares_memory_with(&more), more.shares_memory_with(&a)),
            (Ok(()), Ok(()))
        );
    }
}
