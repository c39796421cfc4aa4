//! From the kernel's ring to the bus, a batch at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{CapabilitySubject, EventRecord, FlowEvent, Kernel, SubscriptionId};
use hawser_bus::{EventId, FlowId, SharedSubscription, Source};
use hawser_time::Instant;
use rustix::time::{ClockId, clock_gettime};
use tracing::{debug, warn};

use super::pace::PollInterval;
use super::view::View;

/// The maximum time for which the thread sleeps.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The kernel subscriptions, by event.
type Subscribed = [Option<There>; FlowEvent::ALL.len()];

/// The source's numbers of events, by event: those that this machine's kernel provides have one.
type Ids = [Option<EventId>; FlowEvent::ALL.len()];

/// A subscription in the kernel.
#[derive(Clone, Copy)]
struct There {
    id: SubscriptionId,
    common: SharedSubscription,
    /// The number of records that found the ring full, according to the newest record.
    lost: u32,
}

/// Returns the number of records lost since the newest record so far. Records of several processors may
/// overtake each other before they reach the ring.
fn newly_lost(newest: &mut u32, so_far: u32) -> u32 {
    let more = so_far.wrapping_sub(*newest);
    if more > u32::MAX / 2 {
        return 0;
    }
    *newest = so_far;
    more
}

/// Serves until `over` is set. A turn polls the bus once, reads the ring once, wakes each subscriber once,
/// and writes once for each flow that was modified. If no work is left, it sleeps by one system call.
pub(super) fn run(mut source: Source, mut view: View, mut pace: PollInterval, over: &AtomicBool) {
    let mut subscribed: Subscribed = [None; FlowEvent::ALL.len()];
    let ids = FlowEvent::ALL.map(|event| source.schema().event(&CapabilitySubject::Event(event).name()));
    let mut records: Vec<EventRecord> = Vec::new();
    let mut losses_due = Instant::ORIGIN;
    while !over.load(Ordering::Relaxed) {
        view.now = now();
        if view.kernel.was_frozen() {
            for (flow, why) in view.take_lost() {
                source.failed(view.now, FlowId(flow), &why);
            }
        }
        let called = source.poll(view.now, &mut view);
        if called {
            follow(&mut source, &ids, &mut view, &mut subscribed);
        }
        // Records that cannot be read now are read at the next turn.
        let _ = view.kernel.take(|record| records.push(*record));
        source.begin_batch();
        for record in records.drain(..) {
            pace.see(Duration::from_nanos(
                record.state.map_or(0, |state| state.min_rtt),
            ));
            publish(&mut source, &ids, &mut view, &mut subscribed, &record);
        }
        source.end_batch();
        let turn = view.now;
        view.commit(|flow, why| {
            debug!(flow, why = ?why, "the kernel refused a lease");
            source.failed(turn, FlowId(flow), why);
        });
        if let Some(wait) = pace.change(view.now) {
            // If it cannot be set, the present time stays.
            let _ = view.kernel.set_wake(wait);
        }
        if view.now >= losses_due {
            losses_due = view.now + POLL_INTERVAL;
            report_losses(&mut source, &ids, &view.kernel, &mut subscribed);
        }
        if !called {
            let deadlines = [source.next_deadline(), view.next_deadline()];
            let deadline = deadlines.into_iter().flatten().min().map(|at| at - now());
            // If the sleep fails, the next turn begins at once.
            let _ = view
                .kernel
                .sleep(Some(deadline.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL)));
        }
    }
    // The last records are published, too.
    let _ = view.kernel.take(|record| records.push(*record));
    for record in records.drain(..) {
        publish(&mut source, &ids, &mut view, &mut subscribed, &record);
    }
}

/// Returns the time by the clock of the events.
fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    Instant::after(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Reports lost records that were not followed by another record that would have shown the loss.
fn report_losses(source: &mut Source, ids: &Ids, kernel: &Kernel, subscribed: &mut Subscribed) {
    for (id, place) in ids.iter().zip(subscribed) {
        let (Some(id), Some(there)) = (id, place) else {
            continue;
        };
        // A count that cannot be read now is read the next time.
        let Ok(so_far) = kernel.lost(there.id) else {
            continue;
        };
        let lost = newly_lost(&mut there.lost, so_far as u32);
        if lost > 0 {
            debug!(
                lost,
                "records of the kernel were lost because the buffer was full"
            );
            source.lost_before(*id, lost);
        }
    }
}

/// Adjusts the subscriptions in the kernel to those of the bus.
fn follow(source: &mut Source, ids: &Ids, view: &mut View, subscribed: &mut Subscribed) {
    let (now, kernel) = (view.now, &mut view.kernel);
    for event in FlowEvent::ALL {
        let Some(id) = ids[event as usize] else { continue };
        let wanted = wanted(source, event, id);
        let place = &mut subscribed[event as usize];
        match (*place, wanted) {
            (Some(there), Some(common)) if there.common == common => {}
            (Some(there), Some(common)) => {
                if kernel.change(there.id, in_kernel(common)).is_ok() {
                    *place = Some(There { common, ..there });
                }
            }
            (None, Some(common)) => match kernel.subscribe(event, in_kernel(common)) {
                Ok(id) => *place = Some(There { id, common, lost: 0 }),
                Err(error) => {
                    warn!(event = event.name(), %error, "the kernel does not provide an event");
                    source.unable(now, id, &error.to_string());
                }
            },
            (Some(there), None) => {
                let _ = kernel.unsubscribe(there.id);
                *place = None;
            }
            (None, None) => {}
        }
    }
}

/// Returns the filter with which an event is to be subscribed to in the kernel, if any.
fn wanted(source: &Source, event: FlowEvent, id: EventId) -> Option<SharedSubscription> {
    match event {
        // State that is kept of a flow is dropped at the flow's end. Ends of all flows are therefore
        // published whenever any event is wanted.
        FlowEvent::Closed => (source.wanted() != 0).then(SharedSubscription::default),
        _ => source.wants(id).then(|| source.common(id)),
    }
}

fn in_kernel(common: SharedSubscription) -> crate::Filter {
    let filter = common.filter.unwrap_or_default();
    crate::Filter {
        flow: common.flow.map(|flow| flow.0),
        port: None,
        interval: filter.interval,
        frequency: filter.frequency,
    }
}

/// Publishes the kernel's records on the bus.
fn publish(
    source: &mut Source,
    ids: &Ids,
    view: &mut View,
    subscribed: &mut Subscribed,
    record: &EventRecord,
) {
    let (event, flow) = (record.event, FlowId(record.flow));
    let time = Instant::from_nanos(record.time);
    let Some(id) = ids[event as usize] else { return };
    let fields = &record.values[..event.fields().len()];
    view.begin(record);
    let common = source.common(id);
    let there = subscribed[event as usize]
        .as_mut()
        .filter(|there| there.id == record.subscription);
    let is_filtered = common.filter.is_some() && there.as_ref().is_some_and(|there| common == there.common);
    let lost = there.map_or(0, |there| newly_lost(&mut there.lost, record.lost));
    if lost > 0 {
        source.lost_before(id, lost);
    }
    if is_filtered {
        source.publish_filtered(time, flow, id, fields, view);
    } else {
        source.publish(time, flow, id, fields, view);
    }
    if event == FlowEvent::Closed {
        source.ended(time, flow, view);
        view.forget(record.flow);
    }
    view.end();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hawser_bus::ring::Ring;
    use hawser_bus::{Bus, FlowInfo, ProviderState, Rights, Scope, SourceFlow, Subscription, VariableId};

    use super::*;

    /// A provider without readable state.
    struct StatelessProvider;

    impl ProviderState for StatelessProvider {
        fn read(&self, _: FlowId, _: VariableId) -> Option<u64> {
            None
        }

        fn write(&mut self, _: FlowId, _: VariableId, _: u64) -> bool {
            false
        }

        fn info(&self, _: FlowId) -> Option<FlowInfo> {
            None
        }

        fn flows(&self) -> Vec<FlowId> {
            Vec::new()
        }
    }

    /// State that is kept of a flow is dropped at its end, even if only one flow, or no end, is subscribed
    /// to.
    #[test]
    fn ends_of_flows_are_always_subscribed_to() {
        let bus = Bus::new();
        let mut source = bus.source(Arc::new(super::super::schema(&[])), None);
        let id = |event: FlowEvent| {
            source
                .schema()
                .event(&CapabilitySubject::Event(event).name())
                .expect("it is offered")
        };
        let (acked, closed) = (id(FlowEvent::Acked), id(FlowEvent::Closed));
        let asked = |source: &Source| {
            [(FlowEvent::Acked, acked), (FlowEvent::Closed, closed)]
                .map(|(event, id)| wanted(source, event, id))
        };
        assert_eq!(asked(&source), [None, None]);
        let watcher = bus.join("watcher", Rights::observer(), 0).expect("it may");
        let (queue, _signals) = Ring::new(16, None);
        let flow = FlowId(7);
        let scope = Scope::One(SourceFlow { source: source.id(), flow });
        let subscription = |event| Subscription::new([event]).with_scope(scope.clone()).priority(0);
        watcher
            .subscribe(subscription("kernel.tcp.acked"), &queue)
            .expect("it may");
        source.poll(Instant::ORIGIN, &mut StatelessProvider);
        let one = SharedSubscription { flow: Some(flow), filter: Some(hawser_bus::Filter::default()) };
        assert_eq!(asked(&source), [Some(one), Some(SharedSubscription::default())]);
        watcher
            .subscribe(subscription("kernel.tcp.closed"), &queue)
            .expect("it may");
        source.poll(Instant::ORIGIN, &mut StatelessProvider);
        assert_eq!(asked(&source), [Some(one), Some(SharedSubscription::default())]);
    }

    #[test]
    fn a_loss_is_reported_once_though_records_pass_each_other() {
        let mut newest = u32::MAX - 1;
        let reported = [u32::MAX - 1, 1, 0, 3, 2, 3].map(|so_far| newly_lost(&mut newest, so_far));
        assert_eq!(reported, [0, 3, 0, 2, 0, 0]);
    }
}
