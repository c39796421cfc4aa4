//! The subscriptions in the kernel, and the settings that the programs read.

use std::time::Duration;

use crate::abi::{RawRecord, RawSettings, RawSubscription, SUBSCRIPTIONS};
use crate::hook::{Hooks, sources};
use crate::{EventRecord, Filter, FlowEvent, FlowState, KernelError, SubscriptionId};

/// A slot that is in use.
#[derive(Clone, Copy, Debug)]
struct UsedSlot {
    event: FlowEvent,
    enabled: bool,
    /// The slot's count of losses when this subscription took it.
    lost_before: u64,
}

/// The table of subscriptions, with [`SUBSCRIPTIONS`] slots.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    places: [Option<UsedSlot>; SUBSCRIPTIONS],
    settings: RawSettings,
}

impl Subscriptions {
    pub(crate) fn new(wake: Duration, ring_bytes: u32) -> Self {
        let settings = RawSettings {
            wake: nanoseconds(wake),
            ring_half: u64::from(ring_bytes / 2),
            epoch: 1,
            ..RawSettings::default()
        };
        Self { places: [None; SUBSCRIPTIONS], settings }
    }

    /// Returns the settings that the programs read.
    pub(crate) fn settings(&self) -> &RawSettings {
        &self.settings
    }

    /// Takes a slot, which receives no events yet. `lost` has the losses of all slots so far.
    pub(crate) fn prepare(
        &mut self,
        event: FlowEvent,
        filter: Filter,
        lost: &[u64; SUBSCRIPTIONS],
    ) -> Result<SubscriptionId, KernelError> {
        let free = self.places.iter().position(Option::is_none);
        let place = free.ok_or(KernelError::Subscriptions(SUBSCRIPTIONS))?;
        self.places[place] = Some(UsedSlot { event, enabled: false, lost_before: lost[place] });
        let generation = self.settings.subscriptions[place].generation.wrapping_add(1);
        self.settings.subscriptions[place] = raw(filter, generation);
        Ok(SubscriptionId { place: place as u16, generation })
    }

    /// Enables the delivery of events to a prepared slot.
    pub(crate) fn enable(&mut self, id: SubscriptionId) -> Result<(), KernelError> {
        let taken = self.taken(id)?;
        taken.enabled = true;
        let event = taken.event;
        self.settings.wanted[event as usize] |= 1 << id.place;
        Ok(())
    }

    pub(crate) fn change(&mut self, id: SubscriptionId, filter: Filter) -> Result<(), KernelError> {
        self.taken(id)?;
        self.settings.subscriptions[usize::from(id.place)] = raw(filter, id.generation);
        Ok(())
    }

    pub(crate) fn disable(&mut self, id: SubscriptionId) -> Result<(), KernelError> {
        let event = self.taken(id)?.event;
        self.settings.wanted[event as usize] &= !(1 << id.place);
        self.places[usize::from(id.place)] = None;
        Ok(())
    }

    pub(crate) fn check(&self, id: SubscriptionId) -> Result<(), KernelError> {
        let there = self
            .places
            .get(usize::from(id.place))
            .is_some_and(Option::is_some);
        let same = self.settings.subscriptions.get(usize::from(id.place));
        match same {
            Some(raw) if there && raw.generation == id.generation => Ok(()),
            Some(_) | None => Err(KernelError::NoSubscription),
        }
    }

    fn taken(&mut self, id: SubscriptionId) -> Result<&mut UsedSlot, KernelError> {
        self.check(id)?;
        self.places[usize::from(id.place)]
            .as_mut()
            .ok_or(KernelError::NoSubscription)
    }

    pub(crate) fn set_wake(&mut self, wake: Duration) {
        self.settings.wake = nanoseconds(wake);
    }

    /// Begins a new epoch: the programs' state of flows is stale, because some programs were not attached.
    pub(crate) fn new_epoch(&mut self) {
        self.settings.epoch = self.settings.epoch.wrapping_add(1).max(1);
    }

    /// Returns the hooks that the subscriptions need.
    pub(crate) fn hooks(&self) -> Hooks {
        let enabled = self.places.iter().flatten().filter(|taken| taken.enabled);
        enabled.flat_map(|taken| sources(taken.event)).copied().collect()
    }

    /// Returns the losses of a subscription's slot before the subscription.
    pub(crate) fn lost_before(&self, id: SubscriptionId) -> u64 {
        self.places[usize::from(id.place)].map_or(0, |taken| taken.lost_before)
    }

    /// Converts a raw record, unless its subscription has ended in the meantime.
    pub(crate) fn record(&self, raw: &RawRecord) -> Option<EventRecord> {
        let place = usize::from(raw.subscription);
        let taken = (*self.places.get(place)?)?;
        let event = FlowEvent::numbered(raw.event).filter(|&event| event == taken.event)?;
        let generation = self.settings.subscriptions[place].generation;
        Some(EventRecord {
            flow: raw.flow,
            time: raw.time,
            event,
            subscription: SubscriptionId { place: raw.subscription, generation },
            lost: raw.lost.wrapping_sub(taken.lost_before as u32),
            values: raw.values,
            state: FlowState::from_record(raw),
        })
    }
}

fn raw(filter: Filter, generation: u32) -> RawSubscription {
    RawSubscription {
        interval: nanoseconds(filter.interval),
        flow: filter.flow.unwrap_or(0),
        frequency: filter.frequency,
        generation,
        port: filter.port.unwrap_or(0),
        unused: [0; 3],
    }
}

/// Converts to nanoseconds, capped at 2^63 − 1, the limit of the kernel's timers.
pub(crate) fn nanoseconds(span: Duration) -> u64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{RawState, UNSEEN};
    use crate::hook::Hook;

    fn table() -> Subscriptions {
        Subscriptions::new(Duration::ZERO, 4096)
    }

    #[test]
    fn subscription_slots_are_bounded_and_reused_under_a_new_id() {
        let (mut table, lost) = (table(), [0; SUBSCRIPTIONS]);
        let subscribe = |table: &mut Subscriptions| table.prepare(FlowEvent::Acked, Filter::default(), &lost);
        let first = subscribe(&mut table).expect("there is room");
        for _ in 1..SUBSCRIPTIONS {
            subscribe(&mut table).expect("there is room");
        }
        assert!(matches!(
            subscribe(&mut table),
            Err(KernelError::Subscriptions(SUBSCRIPTIONS))
        ));
        table.disable(first).expect("it is there");
        assert!(matches!(table.disable(first), Err(KernelError::NoSubscription)));
        let again = subscribe(&mut table).expect("there is room");
        assert_eq!(again.place, first.place);
        assert!(table.check(again).is_ok() && table.check(first).is_err());
    }

    #[test]
    fn only_enabled_subscriptions_are_wanted() {
        let mut table = table();
        let id = table
            .prepare(FlowEvent::Timeout, Filter::default(), &[0; SUBSCRIPTIONS])
            .expect("room");
        assert_eq!(table.settings().wanted, [0; 14]);
        assert!(!table.hooks().has(Hook::Congestion));
        table.enable(id).expect("it is there");
        assert_eq!(table.settings().wanted[FlowEvent::Timeout as usize], 1);
        assert!(table.hooks().has(Hook::Congestion) && !table.hooks().has(Hook::Queued));
    }

    #[test]
    fn records_of_ended_subscriptions_are_dropped() {
        let mut table = table();
        let lost = [7; SUBSCRIPTIONS];
        let id = table
            .prepare(FlowEvent::Sent, Filter::default(), &lost)
            .expect("room");
        let raw = RawRecord {
            flow: 1,
            time: 2,
            event: FlowEvent::Sent as u8,
            state: UNSEEN,
            subscription: 0,
            lost: 9,
            values: [0; 3],
            stood: RawState::default(),
        };
        let record = table.record(&raw).expect("it is subscribed");
        assert_eq!((record.lost, record.state), (2, None));
        let seen = table
            .record(&RawRecord { state: 3, ..raw })
            .expect("it is subscribed");
        assert_eq!(seen.state.map(|state| state.state), Some(3));
        assert_eq!(
            table.record(&RawRecord { event: FlowEvent::Acked as u8, ..raw }),
            None
        );
        assert_eq!(table.record(&RawRecord { subscription: 99, ..raw }), None);
        table.disable(id).expect("it is there");
        assert_eq!(table.record(&raw), None);
    }
}
