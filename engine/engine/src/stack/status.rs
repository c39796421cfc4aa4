//! The state of a connection as far as the engine knows it: the data that it holds and the work that it waits
//! for. It helps to find out why a connection makes no progress.

use hawser_ir::AppOp;
use hawser_time::Instant;

use super::Stack;
use crate::scalar;
use crate::state::Handle;

/// The state of a handle's connection or listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionStatus<'a> {
    /// The type of the context.
    pub context: &'a str,
    /// The timers in order of declaration, with the time at which each fires; `None` if it is not armed.
    pub timers: Vec<(&'a str, Option<Instant>)>,
    /// The number of bytes accepted for sending that the program has not retired: unacknowledged and unsent
    /// ones.
    pub kept: u64,
    /// The number of bytes accepted for sending that no packet has carried yet.
    pub unsent: u64,
    /// The number of delivered bytes that the application has not read.
    pub unread: u64,
    /// True if the application found no room to send and waits for some.
    pub is_blocked: bool,
    /// The requests that the program has not received, because the worst case of their chains was not free.
    pub deferred: Vec<AppOp>,
}

impl Stack {
    /// Returns the state of a handle's connection or listener; `None` if its context has ended.
    #[must_use]
    pub fn standing(&self, handle: Handle) -> Option<ConnectionStatus<'_>> {
        let slot = self.context_of(handle).ok()?;
        let contexts = &self.chains.state.contexts;
        let (entry, bytes) = (contexts.entry(slot), contexts.bytes(slot));
        let context = &self.module().contexts[entry.kind.0 as usize];
        let timers = context.timers.iter().map(|timer| {
            let offset = timer.offset as usize;
            let deadline = scalar::load(&bytes[offset..offset + 8]);
            let armed = (deadline > 0).then(|| Instant::from_nanos(deadline));
            (timer.name.as_str(), armed)
        });
        let deferred = &entry.deferred;
        let given_up = self.chains.state.given_up.get(&slot.index);
        let waiting = [
            (deferred.abort, AppOp::Abort),
            (deferred.release, AppOp::Release),
            (deferred.taken > 0, AppOp::Recv),
            (given_up.is_some_and(|all| all.reset.is_some()), AppOp::Reset),
            (given_up.is_some_and(|all| all.stop.is_some()), AppOp::Stop),
            (deferred.close, AppOp::Close),
        ];
        Some(ConnectionStatus {
            context: &context.name,
            timers: timers.collect(),
            kept: entry.units.sending_bytes(),
            unsent: entry.units.unsent_bytes(),
            unread: entry.units.readable(),
            is_blocked: entry.units.blocked,
            deferred: waiting
                .into_iter()
                .filter_map(|(is_waiting, op)| is_waiting.then_some(op))
                .collect(),
        })
    }
}
