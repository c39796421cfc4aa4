//! Orders of the bus to a source.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use crate::attach::Attaching;
use crate::audit::RequestOrigin;
use crate::error::Refusal;
use crate::filter::Filter;
use crate::flow::{FlowId, FlowInfo};
use crate::notice::Notices;
use crate::ring::{Consumer, Ring};
use crate::schema::{EventId, Schema, VariableId};
use crate::scope::Scope;
use crate::signal::SubscriptionId;
use crate::subscriber::FlowSnapshot;
use crate::subscription::Statistics;
use crate::tware::Tware;

/// The number of a subscriber, which is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SubscriberId(pub(crate) u32);

/// A subscription in a source's own numbers.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) id: SubscriptionId,
    pub(crate) subscriber: SubscriberId,
    pub(crate) events: Vec<EventId>,
    /// `None` stands for a variable that this source does not have.
    pub(crate) with: Vec<Option<VariableId>>,
    pub(crate) scope: Scope,
    pub(crate) priority: u8,
    pub(crate) filter: Filter,
    pub(crate) outlet: Outlet,
}

/// The destination of signals.
#[derive(Clone, Debug)]
pub(crate) enum Outlet {
    /// Into a queue.
    Ring(Ring),
    /// To the subscriber's T-ware in the source, as the subscription of this number.
    Loop(usize),
}

/// A subscriber at a source: the variables that it may set, and its T-ware if that lives there.
pub(crate) struct Admitted {
    pub(crate) id: SubscriberId,
    pub(crate) name: Arc<str>,
    pub(crate) origin: RequestOrigin,
    /// The queue for notices of leases that ended early.
    pub(crate) notices: Arc<Notices>,
    /// The smallest and the largest value that it may set, by variable.
    pub(crate) grants: Vec<Option<(u64, u64)>>,
    /// The priority of its modifications.
    pub(crate) priority: u8,
    pub(crate) tware: Option<Box<dyn Tware>>,
    /// Its queue of modifications that do not wait for an answer, if it has one.
    pub(crate) steering: Option<Steering>,
}

/// A queue of modifications that do not wait for an answer.
pub(crate) struct Steering {
    pub(crate) queue: Consumer,
    /// The number of modifications that found the queue full since the source last emptied it.
    pub(crate) dropped: Arc<AtomicU64>,
}

/// An order. A reply is dropped if the caller has stopped waiting for it.
pub(crate) enum SourceOrder {
    Admit(Box<Admitted>),
    Expel(SubscriberId),
    /// The subscriber's modifications come through this ring from now on.
    Steer(SubscriberId, Steering),
    Subscribe(Box<Compiled>),
    /// The source offers another schema from now on; the subscriptions are given in its numbers.
    Offer(Arc<Schema>, Vec<Compiled>),
    Change(SubscriptionId, Filter, Scope, u8),
    Unsubscribe(SubscriptionId),
    Modify(
        SubscriberId,
        FlowId,
        VariableId,
        Option<(u64, Duration)>,
        u8,
        SyncSender<Result<u64, Refusal>>,
    ),
    Probe(FlowId, Vec<VariableId>, SyncSender<Option<FlowSnapshot>>),
    Flows(SyncSender<Vec<(FlowId, FlowInfo)>>),
    Statistics(SubscriptionId, SyncSender<Statistics>),
    Attach(Box<Attaching>),
}
