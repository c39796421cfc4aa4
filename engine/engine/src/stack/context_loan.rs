//! The loan of contexts to a front, which runs chains ahead of the stack while the stack's driver sleeps.

use std::io;
use std::sync::Arc;

use hawser_ir::abi::Id;
use hawser_time::Instant;

use super::Stack;
use crate::data::PAGE;
use crate::front::{FrontLimits, Lent};
use crate::wire::Wire;

impl Stack {
    /// Lends all contexts to the wire's front, if it has one, and returns true if it did. Call it right
    /// before waiting, when [`Stack::poll`] has no work left. The next call must be [`Stack::take_back`].
    ///
    /// No context is lent while the stack has waiting work, or while the chains are observed.
    pub fn lend(&mut self, wire: &mut dyn Wire) -> bool {
        let state = &self.chains.state;
        // The front runs the program that the stack began with.
        let is_same = std::ptr::addr_eq(Arc::as_ptr(&self.begun), Arc::as_ptr(&self.chains.program));
        let waits = state.raised.len() > 0 || state.packets.len() > 0 || !state.deferred.is_empty();
        let is_observed = self.chains.observer.is_set() || self.chains.interactive.is_some();
        if !is_same
            || waits
            || is_observed
            || self.wanted_signals() != 0
            || self.interface.knows_narrow_paths()
        {
            return false;
        }
        // Asked last: a call of `front` takes ownership of the shared memory, which only `open` returns.
        let Some(front) = wire.front() else {
            return false;
        };
        let until = self.next_deadline();
        let (free, per_chain) = self.room_for_chains();
        let state = &mut self.chains.state;
        let news = state.contexts.take_news();
        news.ended.iter().for_each(|number| front.remove(*number));
        let mut ids: Vec<Id> = Vec::new();
        for number in news.changed {
            let slot = state.contexts.at(number);
            if !state.contexts.is_live(slot) {
                continue;
            }
            ids.clear();
            ids.extend(state.contexts.ids(slot));
            let entry = state.contexts.entry(slot);
            let own = entry.units.receiving_memory();
            front.put(&Lent {
                number,
                kind: entry.kind,
                ids: &ids,
                bytes: state.contexts.bytes(slot),
                room: state.limits.rx_bytes.saturating_sub(own + PAGE as u64),
            });
            state.contexts.lent(slot);
        }
        let (held, total) = (state.rx_held, state.limits.rx_total);
        front.open(&FrontLimits {
            until,
            chains: free / per_chain,
            // As long as half of the memory is free, each context may use its full allowance.
            room: (total / 2).saturating_sub(held),
            params: self.chains.program.params(),
            globals: &self.chains.globals,
            is_complete: !state.contexts.shares_ids(),
            may_create: state.contexts.len() < state.limits.contexts,
            key: state.contexts.key(),
            mtu: self.interface.mtu(),
            ports: state.ports.held(),
        });
        true
    }

    /// Takes all contexts back and carries out the instructions that chains issued in the meantime. Call it
    /// as soon as the driver is awake, before any other call.
    ///
    /// # Errors
    /// Returns an error if the wire has failed for good.
    pub fn take_back(&mut self, now: Instant, wire: &mut dyn Wire) -> io::Result<()> {
        let Some(front) = wire.front() else {
            return Ok(());
        };
        let contexts = &mut self.chains.state.contexts;
        let mut frames = front.close(&mut self.chains.globals, &mut |number, bytes| {
            let slot = contexts.at(number);
            if contexts.is_live(slot) {
                let own = contexts.bytes_mut(slot);
                let len = own.len().min(bytes.len());
                own[..len].copy_from_slice(&bytes[..len]);
                contexts.lent(slot);
            }
        });
        self.takes_back = true;
        let mut result = Ok(());
        while frames > 0 && result.is_ok() {
            result = self.receive(now, wire).map(|taken| {
                frames = if taken > 0 {
                    frames.saturating_sub(taken)
                } else {
                    0
                };
            });
        }
        self.takes_back = false;
        result
    }

    /// Returns the number of instructions for which there is room, and the worst-case number of a chain.
    fn room_for_chains(&self) -> (u64, u64) {
        let state = &self.chains.state;
        let bounds = self.chains.tables.events.iter().map(|event| &event.bounds);
        let worst = bounds.map(|bounds| bounds.packets.max(bounds.raises)).max();
        let packets = state.limits.pending_packets.saturating_sub(state.packets.len());
        (
            packets.min(state.limits.raised) as u64,
            u64::from(worst.unwrap_or(0).max(1)),
        )
    }
}
