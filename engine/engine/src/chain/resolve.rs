//! Resolution of an event's ids to its contexts.

use hawser_ir::abi::{EventHeader, Id};

use super::cause::Cause;
use crate::ids::same;
use crate::state::{Guess, Slot, StackState};
use crate::tables::EventPlan;

/// The context that an event is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aim {
    /// The context that the event's ids refer to; the first id may have been looked up before.
    Ids(Option<Guess>),
    /// The context with this id.
    Id(Id),
    /// This context.
    Slot(Slot),
}

/// The result of resolving an event's ids.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResolvedContext {
    /// The context that the chain runs on.
    pub(crate) keyed: Option<Slot>,
    /// The first id without a context.
    pub(crate) vacant: Option<Id>,
}

impl StackState {
    /// Finds the context that an event is for, and the id for a context that its chain may create.
    pub(crate) fn resolve(
        &self,
        header: &mut EventHeader,
        aim: Aim,
        cause: &Cause<'_>,
        plan: &EventPlan,
    ) -> ResolvedContext {
        let bound = || cause.slot.or_else(|| self.handles.get(cause.handle?)?.context);
        let names = |slot: Slot| {
            same(&self.contexts.first_id(slot), &header.id[0])
                && !plan.creates_on(self.contexts.entry(slot).kind)
        };
        let (slot, guess) = match aim {
            Aim::Slot(slot) => (Some(slot), None),
            Aim::Ids(_) if header.ids == 0 && cause.application => (bound(), None),
            // Most requests name the context that they are about, so no search is needed.
            Aim::Ids(_) if header.ids == 1 && cause.application => {
                (bound().filter(|slot| names(*slot)), None)
            }
            Aim::Ids(guess) => (None, guess),
            Aim::Id(target) => {
                (header.ids, header.id[0]) = (1, target);
                (None, None)
            }
        };
        if let Some(slot) = slot {
            header.ids = 1;
            header.id[0] = self.contexts.first_id(slot);
            header.hash = self.contexts.first_hash(slot) as u32;
            return ResolvedContext { keyed: Some(slot), vacant: None };
        }
        if let Some(Guess { hash, slot: Some(slot) }) = guess
            && self.contexts.is_known(slot, &header.id[0])
            && !plan.creates_on(self.contexts.entry(slot).kind)
        {
            header.hash = hash as u32;
            return ResolvedContext { keyed: Some(slot), vacant: None };
        }
        self.search(header, plan, guess)
    }

    /// Looks up an event's ids one after the other.
    fn search(&self, header: &mut EventHeader, plan: &EventPlan, guess: Option<Guess>) -> ResolvedContext {
        let mut found = ResolvedContext::default();
        for (i, id) in header.id.iter().take(header.ids as usize).enumerate() {
            let hash = match guess {
                Some(guess) if i == 0 => guess.hash,
                _ => self.contexts.hash(id),
            };
            if i == 0 {
                header.hash = hash as u32;
            }
            match self.contexts.find_or_choose(hash, id, header.hash) {
                Some(slot) => found.keyed = found.keyed.or(Some(slot)),
                None if id.is_none() => {}
                None => found.vacant = found.vacant.or(Some(*id)),
            }
            // A chain that creates no context when it runs on this one needs no free id.
            let Some(slot) = found.keyed else { continue };
            if found.vacant.is_some() || !plan.creates_on(self.contexts.entry(slot).kind) {
                break;
            }
        }
        found.vacant = found.vacant.filter(|_| match found.keyed {
            Some(slot) => plan.creates_on(self.contexts.entry(slot).kind),
            None => true,
        });
        found
    }
}
