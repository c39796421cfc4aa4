//! Events for other stacks of the same addresses (shards), which the stacks' driver carries.

use hawser_ir::EventId;

use super::Stack;
use crate::net::Steering;
use crate::state::{ForwardTo, ForwardedEvent};

impl Stack {
    /// Returns the rule by which packets are distributed to this stack.
    #[must_use]
    pub fn steering(&self) -> Steering {
        self.chains.tables.steering
    }

    /// Returns the next event that a chain raised for another stack; call it after each [`Stack::poll`].
    pub fn next_forwarded(&mut self) -> Option<ForwardedEvent> {
        self.chains.state.raised.forwarded.pop_front()
    }

    /// Accepts an event that another stack has raised. Its chain runs with the next [`Stack::poll`] if the
    /// event's context is here. Returns false, and counts the event, if too many are waiting.
    pub fn take_forwarded(&mut self, event: &ForwardedEvent) -> bool {
        let chains = &mut self.chains;
        let fits = |plan: &crate::tables::EventPlan| plan.size == event.bytes.len();
        let is_known = chains
            .tables
            .events
            .get(usize::from(event.event))
            .is_some_and(fits);
        let is_absent = || chains.state.contexts.find(&event.target).is_none();
        if event.to == ForwardTo::Others && is_absent() {
            return true;
        }
        let raised = &mut chains.state.raised;
        if !is_known || raised.held() >= chains.state.limits.raised {
            chains.state.counters.no_room_raised += 1;
            return false;
        }
        raised.push(EventId(event.event.into()), event.target, &event.bytes);
        true
    }
}
