//! The knowledge of a host: its contexts, as its events left them.

use std::collections::BTreeMap;

use hawser_ir::abi::{ChainOutcome, ContextHeader, Id, ON_FRESH, RecordKind};
use hawser_ir::{ContextId, EventId, Module};

use crate::debug::player::HostEvent;

/// The contexts of a host, by type and id.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Contexts(pub(crate) BTreeMap<(ContextId, Id), Vec<u8>>);

impl Contexts {
    /// Applies the effects of an event.
    pub(crate) fn apply(&mut self, seen: &HostEvent) {
        if seen.kept.outcome.is_none() {
            return;
        }
        let carried_out = matches!(seen.kept.outcome, Some(ChainOutcome::Done | ChainOutcome::Stop));
        let deleted = |on: u8| {
            let mut records = seen.kept.records.iter();
            carried_out && records.any(|record| record.kind == RecordKind::DelContext && record.on == on)
        };
        if let Some((id, before)) = &seen.kept.before.keyed {
            // The context may differ from its last state, because the engine clears a timer that fires.
            let known = self.0.remove(&key(*id, before));
            debug_assert!(known.is_some(), "every context was made by an event");
        }
        let (keyed, fresh) = (deleted(hawser_ir::abi::ON_KEYED), deleted(ON_FRESH));
        for (context, is_deleted) in [(&seen.kept.context, keyed), (&seen.kept.fresh, fresh)] {
            if let Some((id, bytes)) = context.as_ref().filter(|_| !is_deleted) {
                self.0.insert(key(*id, bytes), bytes.clone());
            }
        }
        self.set_globals(&seen.kept.globals);
    }

    /// Returns the contexts with a chain's memory instead of the initial one.
    pub(crate) fn with(&self, halted: &hawser_interp::Halted, creates: Option<ContextId>) -> Contexts {
        let mut contexts = self.clone();
        if let Some((id, bytes)) = &halted.keyed {
            contexts.0.insert(key(*id, bytes), bytes.clone());
        }
        if let Some((id, bytes)) = creates
            .zip(halted.fresh.as_ref())
            .filter(|_| halted.has_created())
        {
            contexts.0.insert(key(id, bytes), bytes.clone());
        }
        contexts.set_globals(&halted.globals);
        contexts
    }

    fn set_globals(&mut self, globals: &[Vec<u8>]) {
        let set = globals.iter().enumerate().filter(|(_, bytes)| !bytes.is_empty());
        self.0
            .extend(set.map(|(index, bytes)| ((ContextId(index as u32), Id::NONE), bytes.clone())));
    }
}

fn key(id: ContextId, bytes: &[u8]) -> (ContextId, Id) {
    let mut header = [0; size_of::<ContextHeader>()];
    let len = bytes.len().min(header.len());
    header[..len].copy_from_slice(&bytes[..len]);
    (id, Id(header))
}

/// Returns the context type that an event's chain may create.
pub(crate) fn creates(module: &Module, event: EventId) -> Option<ContextId> {
    module.chains.get(event.0 as usize)?.creates
}
