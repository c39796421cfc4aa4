//! How a connection stands: what it holds and what it waits for, as far as the engine knows. For whoever asks why
//! nothing happens any more.

use hawser_ir::AppOp;
use hawser_time::Instant;

use super::Stack;
use crate::scalar;
use crate::state::Handle;

/// How the connection or listener of a handle stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing<'a> {
    /// The type of its context.
    pub context: &'a str,
    /// Its timers, in order of declaration, with the time at which each fires; nothing: it is not armed.
    pub timers: Vec<(&'a str, Option<Instant>)>,
    /// Bytes accepted for sending that the program has not retired: those not acknowledged, unsent ones included.
    pub kept: u64,
    /// Bytes accepted for sending that no packet has had yet.
    pub unsent: u64,
    /// Bytes delivered that the application has not read.
    pub unread: u64,
    /// The application found no room to send, and waits for some.
    pub is_blocked: bool,
    /// Requests that the program has not received, because the worst case of their chains was not free.
    pub deferred: Vec<AppOp>,
}

impl Stack {
    /// How a handle's connection or listener stands. Nothing when its context has ended.
    #[must_use]
    pub fn standing(&self, handle: Handle) -> Option<Standing<'_>> {
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
        Some(Standing {
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
