//! A subscriber's end of the bus.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use hawser_time::Instant;
use parking_lot::Mutex;

use crate::audit::RequestOrigin;
use crate::bus::{Bus, PendingAnswer, hint, to_ring};
use crate::error::{BusError, Refusal};
use crate::flow::{FlowId, FlowInfo, SourceFlow, SourceId};
use crate::modifications::Modification;
use crate::notice::{Notice, Notices};
use crate::order::{SourceOrder, Steering, SubscriberId};
use crate::pattern::Pattern;
use crate::rights::Rights;
use crate::ring::Ring;
use crate::schema::VariableId;
use crate::signal::SubscriptionId;
use crate::subscription::{Statistics, Subscription};

/// The number of modifications that can be queued at a source.
const STEERING: usize = 256;

/// A subscriber. When it is dropped, its subscriptions and leases end.
#[derive(Debug)]
pub struct Subscriber {
    bus: Bus,
    id: SubscriberId,
    name: String,
    pub(crate) origin: RequestOrigin,
    notices: Arc<Notices>,
    /// The queues of modifications that do not wait for an answer, by source.
    steering: Mutex<BTreeMap<SourceId, (Ring, Arc<AtomicU64>)>>,
}

/// Variables of a flow at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSnapshot {
    /// The time of the probe, by the provider's clock.
    pub time: Instant,
    /// The values, in the order of the request; `None` where the flow has no such variable.
    pub values: Vec<Option<u64>>,
}

impl Subscriber {
    pub(crate) fn new(
        bus: Bus,
        id: SubscriberId,
        name: &str,
        origin: RequestOrigin,
        notices: Arc<Notices>,
    ) -> Subscriber {
        Subscriber {
            bus,
            id,
            name: name.to_owned(),
            origin,
            notices,
            steering: Mutex::default(),
        }
    }

    pub(crate) fn id(&self) -> SubscriberId {
        self.id
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its rights; `None` once the bus has removed it.
    #[must_use]
    pub fn rights(&self) -> Option<Arc<Rights>> {
        self.bus.rights(self.id)
    }

    /// Returns the bus to which it belongs.
    #[must_use]
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Takes the next notice of a lease of its own that ended before its time.
    #[must_use]
    pub fn next_notice(&self) -> Option<Notice> {
        self.notices.take()
    }

    /// Returns whether [`Subscriber::next_notice`] has a notice.
    #[must_use]
    pub fn is_notified(&self) -> bool {
        !self.notices.is_empty()
    }

    /// Subscribes: signals go into this queue. One queue may serve several subscriptions; it then keeps their
    /// order.
    ///
    /// # Errors
    /// The reason why the bus refuses the subscription.
    pub fn subscribe(&self, subscription: Subscription, queue: &Ring) -> Result<SubscriptionId, BusError> {
        self.bus.subscribe(self.id, subscription, to_ring(queue))
    }

    /// Changes the scope, the filters or the priority of a subscription. The events and variables that it
    /// names stay.
    ///
    /// # Errors
    /// When there is no such subscription, or the change is not allowed.
    pub fn change(&self, id: SubscriptionId, change: impl FnOnce(&mut Subscription)) -> Result<(), BusError> {
        self.bus.change(self.id, id, change)
    }

    /// Ends a subscription.
    ///
    /// # Errors
    /// When there is no such subscription.
    pub fn unsubscribe(&self, id: SubscriptionId) -> Result<(), BusError> {
        self.bus.unsubscribe(self.id, id)
    }

    /// Returns the statistics of a subscription, summed over all sources that answer in time.
    #[must_use]
    pub fn statistics(&self, id: SubscriptionId, timeout: Duration) -> Statistics {
        let (reply, answers) = sync_channel(1024);
        self.bus.order_all(|| SourceOrder::Statistics(id, reply.clone()));
        drop(reply);
        let mut sum = Statistics::default();
        while let Ok(one) = answers.recv_timeout(timeout) {
            sum += one;
        }
        sum
    }

    /// Asks for the flows of a source.
    ///
    /// # Errors
    /// When there is no such source.
    pub fn flows(&self, source: SourceId) -> Result<PendingAnswer<Vec<(FlowId, FlowInfo)>>, BusError> {
        let (reply, answer) = sync_channel(1);
        self.bus.order(source, SourceOrder::Flows(reply))?;
        Ok(PendingAnswer(answer))
    }

    /// Finds variables of a source by whole name or pattern.
    ///
    /// # Errors
    /// When the pattern matches no variable that this subscriber may read.
    pub fn variables(&self, source: SourceId, pattern: &Pattern) -> Result<Vec<VariableId>, BusError> {
        let schema = self.bus.schema(source)?;
        let rights = self.bus.rights(self.id).ok_or(BusError::NoSource(source.0))?;
        let name = |id: &VariableId| schema.variables()[usize::from(id.0)].name.as_str();
        let meant: Vec<_> = schema.variables_like(pattern).collect();
        if meant.is_empty() {
            let hint = hint(pattern, schema.variables().iter().map(|v| v.name.as_str()));
            return Err(BusError::NoVariable { name: pattern.to_string(), hint });
        }
        let may: Vec<_> = meant
            .into_iter()
            .filter(|id| rights.may_observe(name(id)))
            .collect();
        if may.is_empty() {
            return Err(BusError::NoRight { who: self.name.clone(), what: format!("read {pattern}") });
        }
        Ok(may)
    }

    /// Asks for variables of a flow; the answer is `None` when there is no such flow.
    ///
    /// # Errors
    /// When there is no such source, or the subscriber may not read one of the variables.
    pub fn probe(
        &self,
        target: SourceFlow,
        variables: Vec<VariableId>,
    ) -> Result<PendingAnswer<Option<FlowSnapshot>>, BusError> {
        let schema = self.bus.schema(target.source)?;
        let rights = self
            .bus
            .rights(self.id)
            .ok_or(BusError::NoSource(target.source.0))?;
        for id in &variables {
            let variable = schema.variable_type(*id).map_or("?", |v| v.name.as_str());
            if !rights.may_observe(variable) {
                return Err(BusError::NoRight { who: self.name.clone(), what: format!("read {variable}") });
            }
        }
        let (reply, answer) = sync_channel(1);
        self.bus
            .order(target.source, SourceOrder::Probe(target.flow, variables, reply))?;
        Ok(PendingAnswer(answer))
    }

    /// Sets a variable of a flow for the length of a lease, or gives it back. The answer is the value before,
    /// or the source's refusal.
    ///
    /// # Errors
    /// When there is no such source. A refusal by the source is in the answer instead.
    pub fn modify(
        &self,
        modification: &Modification,
        priority: u8,
    ) -> Result<PendingAnswer<Result<u64, Refusal>>, BusError> {
        let Modification { target, variable, set } = *modification;
        let rights = self
            .bus
            .rights(self.id)
            .ok_or(BusError::NoSource(target.source.0))?;
        if priority > rights.priority {
            let what = format!("take priority {priority} (its highest is {})", rights.priority);
            return Err(BusError::NoRight { who: self.name.clone(), what });
        }
        let (reply, answer) = sync_channel(1);
        let order = SourceOrder::Modify(self.id, target.flow, variable, set, priority, reply);
        self.bus.order(target.source, order)?;
        Ok(PendingAnswer(answer))
    }

    /// Requests a modification with the subscriber's own priority and without an answer; meant for many
    /// modifications. Refusals are in the log. The source takes the modification at its next poll. Returns
    /// false when its queue is full: the modification is then dropped, and the log counts it.
    pub fn steer(&self, modification: &Modification) -> bool {
        let mut rings = self.steering.lock();
        let source = modification.target.source;
        let (ring, dropped) = match rings.entry(source) {
            std::collections::btree_map::Entry::Occupied(there) => there.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                let (ring, queue) = Ring::new(STEERING, None);
                let dropped = Arc::new(AtomicU64::new(0));
                let steering = Steering { queue, dropped: dropped.clone() };
                if self
                    .bus
                    .order(source, SourceOrder::Steer(self.id, steering))
                    .is_err()
                {
                    return false;
                }
                place.insert((ring, dropped))
            }
        };
        let there_is_room = ring.push(&modification.words());
        if !there_is_room {
            dropped.fetch_add(1, Ordering::Relaxed);
        }
        there_is_room
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.bus.leave(self.id);
    }
}
