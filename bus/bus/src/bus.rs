//! The central handler: the sources, their subscribers and subscriptions, and the rights of each subscriber.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};

use hawser_time::Instant;
use parking_lot::{Mutex, MutexGuard};

use crate::attach::Attachable;
use crate::audit::{Audit, AuditEntry, RequestOrigin};
use crate::documents::Documents;
use crate::error::BusError;
use crate::flow::SourceId;
use crate::notice::Notices;
use crate::order::{Admitted, Compiled, Outlet, SourceOrder, SubscriberId};
use crate::pattern::Pattern;
use crate::rights::Rights;
use crate::ring::{Ring, Waker};
use crate::schema::Schema;
use crate::signal::{MAX_VALUES, SubscriptionId};
use crate::subscriber::Subscriber;
use crate::subscription::Subscription;
use crate::tware::Tware;

/// The maximum number of orders queued at one source. Orders that must not be dropped may exceed it.
const ORDERS: usize = 1024;
/// The maximum number of subscribers of a bus.
const MAX_SUBSCRIBERS: usize = 1024;
/// The maximum number of subscriptions of a bus.
const MAX_SUBSCRIPTIONS: usize = 4096;
/// The number of entries that the log of modifications keeps.
const AUDIT_ENTRIES: usize = 4096;
/// The number of closed sources whose schemas are kept, because readers may still process their last signals.
const GONE: usize = 64;

/// The central handler.
///
/// Cloning is cheap: all clones are the same bus.
#[derive(Clone, Default)]
pub struct Bus {
    inner: Arc<Mutex<Inner>>,
    audit: Arc<Mutex<Log>>,
    wall: Option<WallClock>,
}

/// A clock whose origin is the Unix epoch.
pub type WallClock = fn() -> Instant;

struct Log(Arc<Mutex<Audit>>);

impl Default for Log {
    fn default() -> Log {
        Log(Arc::new(Mutex::new(Audit::new(AUDIT_ENTRIES))))
    }
}

impl std::fmt::Debug for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bus").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Inner {
    sources: Vec<SourceEntry>,
    gone: VecDeque<(SourceId, Arc<Schema>)>,
    documents: Option<Weak<dyn Documents>>,
    subscribers: Vec<SubscriberEntry>,
    subscriptions: Vec<PersistentSubscription>,
    next_source: u32,
    next_subscriber: u32,
    next_subscription: u32,
}

/// The bus's end of a source.
struct SourceEntry {
    id: SourceId,
    schema: Arc<Schema>,
    orders: Sender<SourceOrder>,
    /// The number of orders queued at the source.
    called: Arc<AtomicUsize>,
    waker: Option<Waker>,
    attachable: Option<Arc<dyn Attachable>>,
}

/// The handles that a source receives when it registers with the bus.
pub(crate) struct Registered {
    pub(crate) id: SourceId,
    pub(crate) orders: Receiver<SourceOrder>,
    /// The number of orders queued at this source.
    pub(crate) called: Arc<AtomicUsize>,
    pub(crate) audit: Arc<Mutex<Audit>>,
    pub(crate) wall: Option<WallClock>,
}

/// Makes a subscriber's T-ware for one more source.
pub(crate) type Factory = Arc<dyn Fn() -> Box<dyn Tware> + Send + Sync>;

/// A subscriber, as the bus records it.
struct SubscriberEntry {
    id: SubscriberId,
    name: Arc<str>,
    rights: Arc<Rights>,
    priority: u8,
    in_loop: Option<Factory>,
    origin: RequestOrigin,
    notices: Arc<Notices>,
}

/// A subscription that also applies to sources that register later.
struct PersistentSubscription {
    id: SubscriptionId,
    subscriber: SubscriberId,
    subscription: Subscription,
    outlet: Outlet,
}

/// A source, as other components see it.
#[derive(Clone, Debug)]
pub struct SourceInfo {
    pub id: SourceId,
    /// The events and variables that the source offers.
    pub schema: Arc<Schema>,
}

/// A subscription, as other components see it.
#[derive(Clone, Debug)]
pub struct Subscribed {
    pub id: SubscriptionId,
    /// The name of the subscriber that owns it.
    pub who: String,
    pub subscription: Subscription,
}

/// An answer that a source has yet to give.
#[derive(Debug)]
pub struct PendingAnswer<T>(pub(crate) Receiver<T>);

impl<T> PendingAnswer<T> {
    /// Waits for the answer, for at most `timeout`. The thread that drives the source must not call this.
    ///
    /// # Errors
    /// [`BusError::Timeout`] when the answer did not arrive in time.
    pub fn wait(&self, timeout: std::time::Duration) -> Result<T, BusError> {
        self.0.recv_timeout(timeout).map_err(|_| BusError::Timeout)
    }

    /// Returns the answer if it has arrived.
    #[must_use]
    pub fn ready(&self) -> Option<T> {
        self.0.try_recv().ok()
    }
}

impl Bus {
    /// Makes a bus without sources and subscribers.
    #[must_use]
    pub fn new() -> Bus {
        Bus::default()
    }

    /// Makes a bus whose log also records wall-clock time. The bus has no clock of its own.
    #[must_use]
    pub fn with_wall_clock(clock: WallClock) -> Bus {
        Bus { wall: Some(clock), ..Bus::default() }
    }

    /// Registers a source, and sends it the orders that follow from all present subscribers and
    /// subscriptions.
    pub(crate) fn register(
        &self,
        schema: &Arc<Schema>,
        waker: Option<Waker>,
        attachable: Option<Arc<dyn Attachable>>,
    ) -> Registered {
        let (sender, orders) = channel();
        let called = Arc::new(AtomicUsize::new(0));
        let mut inner = self.lock();
        let id = SourceId(inner.next_source);
        inner.next_source += 1;
        let line = SourceEntry {
            id,
            schema: schema.clone(),
            orders: sender,
            called: called.clone(),
            waker,
            attachable,
        };
        for subscriber in &inner.subscribers {
            line.order(SourceOrder::Admit(Box::new(subscriber.admitted(schema))));
        }
        for standing in &inner.subscriptions {
            if let Some(compiled) = inner.compile(standing, schema) {
                line.order(SourceOrder::Subscribe(Box::new(compiled)));
            }
        }
        inner.sweep();
        inner.sources.push(line);
        Registered {
            id,
            orders,
            called,
            audit: self.audit.lock().0.clone(),
            wall: self.wall,
        }
    }

    /// Sets the bus's provider of documents, and replaces an earlier one. The bus holds it weakly, so the
    /// offer lasts for as long as another owner keeps the provider alive.
    pub fn offer_documents(&self, provider: &Arc<dyn Documents>) {
        self.lock().documents = Some(Arc::downgrade(provider));
    }

    /// Returns the provider of documents, while there is one.
    #[must_use]
    pub fn documents(&self) -> Option<Arc<dyn Documents>> {
        self.lock().documents.as_ref()?.upgrade()
    }

    /// Adds a subscriber. Its modifications have `priority`.
    ///
    /// # Errors
    /// When its rights do not allow that priority, or there are too many subscribers.
    pub fn join(&self, name: &str, rights: Rights, priority: u8) -> Result<Subscriber, BusError> {
        self.admit(name, rights, priority, None, RequestOrigin::default(), None)
    }

    /// Adds a subscriber that lives elsewhere, such as in another process. `waker` is called when notices are
    /// queued for it.
    ///
    /// # Errors
    /// As [`Bus::join`].
    pub fn join_from(
        &self,
        origin: RequestOrigin,
        name: &str,
        rights: Rights,
        priority: u8,
        waker: Waker,
    ) -> Result<Subscriber, BusError> {
        self.admit(name, rights, priority, None, origin, Some(waker))
    }

    /// Admits a subscriber to every source, with its T-ware if that lives in the source.
    fn admit(
        &self,
        name: &str,
        rights: Rights,
        priority: u8,
        in_loop: Option<Factory>,
        origin: RequestOrigin,
        waker: Option<Waker>,
    ) -> Result<Subscriber, BusError> {
        if priority > rights.priority {
            let what = format!("take priority {priority} (its highest is {})", rights.priority);
            return Err(BusError::NoRight { who: name.to_owned(), what });
        }
        let mut inner = self.lock();
        if inner.subscribers.len() >= MAX_SUBSCRIBERS {
            return Err(BusError::Full("subscribers", MAX_SUBSCRIBERS));
        }
        let id = SubscriberId(inner.next_subscriber);
        inner.next_subscriber += 1;
        let notices = Arc::new(Notices::new(waker));
        let known = SubscriberEntry {
            id,
            name: name.into(),
            rights: Arc::new(rights),
            priority,
            in_loop,
            origin,
            notices: notices.clone(),
        };
        for line in &inner.sources {
            line.order(SourceOrder::Admit(Box::new(known.admitted(&line.schema))));
        }
        inner.subscribers.push(known);
        Ok(Subscriber::new(self.clone(), id, name, origin, notices))
    }

    /// Adds a subscriber whose T-ware runs in the loop: `make` makes one for each source.
    ///
    /// # Errors
    /// The error of the first of its subscriptions that is refused; the subscriber is then not added.
    pub fn attach(
        &self,
        name: &str,
        rights: Rights,
        priority: u8,
        make: impl Fn() -> Box<dyn Tware> + Send + Sync + 'static,
    ) -> Result<Subscriber, BusError> {
        let subscriptions = make().subscriptions();
        let subscriber = self.admit(
            name,
            rights,
            priority,
            Some(Arc::new(make)),
            RequestOrigin::default(),
            None,
        )?;
        for (number, subscription) in subscriptions.into_iter().enumerate() {
            self.subscribe(subscriber.id(), subscription, Outlet::Loop(number))?;
        }
        Ok(subscriber)
    }

    /// Returns all registered sources.
    #[must_use]
    pub fn sources(&self) -> Vec<SourceInfo> {
        let mut inner = self.lock();
        inner.sweep();
        inner
            .sources
            .iter()
            .map(|line| SourceInfo { id: line.id, schema: line.schema.clone() })
            .collect()
    }

    /// Returns all subscriptions.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<Subscribed> {
        let inner = self.lock();
        let who = |id| {
            inner
                .subscribers
                .iter()
                .find(|m| m.id == id)
                .map_or_else(String::new, |m| m.name.to_string())
        };
        let shown = |s: &PersistentSubscription| Subscribed {
            id: s.id,
            who: who(s.subscriber),
            subscription: s.subscription.clone(),
        };
        inner.subscriptions.iter().map(shown).collect()
    }

    /// Returns the log of modifications, oldest first, and the number of entries dropped for newer ones.
    /// Modifications of the last tenth of a second may be missing.
    #[must_use]
    pub fn audit(&self) -> (Vec<AuditEntry>, u64) {
        let log = self.audit.lock().0.clone();
        let audit = log.lock();
        (audit.entries().cloned().collect(), audit.forgotten())
    }

    pub(crate) fn subscribe(
        &self,
        subscriber: SubscriberId,
        mut subscription: Subscription,
        outlet: Outlet,
    ) -> Result<SubscriptionId, BusError> {
        let mut inner = self.lock();
        if inner.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return Err(BusError::Full("subscriptions", MAX_SUBSCRIPTIONS));
        }
        inner.check(subscriber, &mut subscription)?;
        let id = SubscriptionId(inner.next_subscription);
        inner.next_subscription += 1;
        let standing = PersistentSubscription { id, subscriber, subscription, outlet };
        for line in &inner.sources {
            if let Some(compiled) = inner.compile(&standing, &line.schema) {
                line.order(SourceOrder::Subscribe(Box::new(compiled)));
            }
        }
        inner.subscriptions.push(standing);
        Ok(id)
    }

    pub(crate) fn change(
        &self,
        subscriber: SubscriberId,
        id: SubscriptionId,
        change: impl FnOnce(&mut Subscription),
    ) -> Result<(), BusError> {
        let mut inner = self.lock();
        let at = inner.own(subscriber, id)?;
        let mut subscription = inner.subscriptions[at].subscription.clone();
        change(&mut subscription);
        let there = &inner.subscriptions[at].subscription;
        // The names stay: a change may alter how much is received, but not which events and variables.
        let mut subscription =
            Subscription { events: there.events.clone(), with: there.with.clone(), ..subscription };
        inner.check(subscriber, &mut subscription)?;
        for line in &inner.sources {
            line.order(SourceOrder::Change(
                id,
                subscription.filter,
                subscription.scope.clone(),
                subscription.priority,
            ));
        }
        inner.subscriptions[at].subscription = subscription;
        Ok(())
    }

    pub(crate) fn unsubscribe(&self, subscriber: SubscriberId, id: SubscriptionId) -> Result<(), BusError> {
        let mut inner = self.lock();
        let at = inner.own(subscriber, id)?;
        inner.subscriptions.remove(at);
        inner
            .sources
            .iter()
            .for_each(|line| line.order(SourceOrder::Unsubscribe(id)));
        Ok(())
    }

    pub(crate) fn leave(&self, subscriber: SubscriberId) {
        let mut inner = self.lock();
        inner
            .subscriptions
            .retain(|standing| standing.subscriber != subscriber);
        inner.subscribers.retain(|known| known.id != subscriber);
        inner
            .sources
            .iter()
            .for_each(|line| line.order(SourceOrder::Expel(subscriber)));
    }

    pub(crate) fn order(&self, source: SourceId, order: SourceOrder) -> Result<(), BusError> {
        let inner = self.lock();
        let line = inner.sources.iter().find(|line| line.id == source);
        line.ok_or(BusError::NoSource(source.0))?.order(order);
        Ok(())
    }

    /// Sends an order to each source.
    pub(crate) fn order_all(&self, order: impl Fn() -> SourceOrder) {
        self.lock().sources.iter().for_each(|line| line.order(order()));
    }

    pub(crate) fn rights(&self, subscriber: SubscriberId) -> Option<Arc<Rights>> {
        self.lock()
            .subscribers
            .iter()
            .find(|known| known.id == subscriber)
            .map(|known| known.rights.clone())
    }

    /// Returns the schema of a source. The schemas of the last 64 sources that closed are kept, because their
    /// last signals may be read after their end.
    ///
    /// # Errors
    /// [`BusError::NoSource`] when there is no source with that number, or it closed too long ago.
    pub fn schema(&self, source: SourceId) -> Result<Arc<Schema>, BusError> {
        let inner = self.lock();
        let there = inner.sources.iter().map(|line| (line.id, &line.schema));
        let mut all = there.chain(inner.gone.iter().map(|(id, schema)| (*id, schema)));
        let found = all.find(|(id, _)| *id == source);
        found
            .map(|(_, schema)| schema.clone())
            .ok_or(BusError::NoSource(source.0))
    }

    /// Records the new schema of a source.
    pub(crate) fn offer(&self, source: SourceId, schema: &Arc<Schema>) {
        let mut inner = self.lock();
        let compiled = inner
            .subscriptions
            .iter()
            .filter_map(|standing| inner.compile(standing, schema))
            .collect();
        let Some(line) = inner.sources.iter_mut().find(|line| line.id == source) else {
            return;
        };
        line.schema = schema.clone();
        line.order(SourceOrder::Offer(schema.clone(), compiled));
    }

    /// Returns the attachment checker of a source, and the source's provider.
    pub(crate) fn attachable(
        &self,
        source: SourceId,
    ) -> Result<(Option<Arc<dyn Attachable>>, String), BusError> {
        let inner = self.lock();
        let line = inner
            .sources
            .iter()
            .find(|line| line.id == source && line.is_alive());
        let line = line.ok_or(BusError::NoSource(source.0))?;
        Ok((line.attachable.clone(), line.schema.provider().to_owned()))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl SourceEntry {
    /// Sends an order and wakes the source. A source that is gone, or whose queue has been full for very
    /// long, does not receive it. A caller that waits for an answer then gets [`BusError::Timeout`].
    fn order(&self, order: SourceOrder) {
        // Orders that end something are never dropped, because there are no more of them than of orders that
        // began something. Nor are orders about the source's own schema.
        let ends = matches!(
            order,
            SourceOrder::Expel(_) | SourceOrder::Unsubscribe(_) | SourceOrder::Offer(..)
        );
        if !ends && self.called.load(Ordering::Relaxed) >= ORDERS {
            return;
        }
        // The count goes up first, because the source may take the order before this thread goes on.
        self.called.fetch_add(1, Ordering::Release);
        if self.orders.send(order).is_err() {
            self.called.fetch_sub(1, Ordering::Relaxed);
        } else if let Some(waker) = &self.waker {
            waker();
        }
    }

    /// Returns whether the source still exists; a closed source has dropped its end.
    fn is_alive(&self) -> bool {
        Arc::strong_count(&self.called) > 1
    }
}

impl SubscriberEntry {
    fn admitted(&self, schema: &Schema) -> Admitted {
        let ids = (0..schema.variables().len()).map(|at| crate::VariableId(at as u16));
        Admitted {
            id: self.id,
            name: self.name.clone(),
            origin: self.origin,
            notices: self.notices.clone(),
            grants: ids.map(|id| self.rights.may_set(schema, id)).collect(),
            priority: self.priority,
            tware: self.in_loop.as_ref().map(|make| make()),
            steering: None,
        }
    }
}

impl Inner {
    /// Removes sources that have ended, and keeps their schemas for a while.
    fn sweep(&mut self) {
        let Inner { sources, gone, .. } = self;
        sources.retain(|line| {
            let is_alive = line.is_alive();
            if !is_alive {
                gone.push_back((line.id, line.schema.clone()));
            }
            is_alive
        });
        gone.drain(..gone.len().saturating_sub(GONE));
    }

    /// Returns the index of a subscriber's subscription.
    fn own(&self, subscriber: SubscriberId, id: SubscriptionId) -> Result<usize, BusError> {
        let own = |s: &PersistentSubscription| s.id == id && s.subscriber == subscriber;
        self.subscriptions
            .iter()
            .position(own)
            .ok_or(BusError::NoSubscription(id.0))
    }

    /// Checks that a subscription names events and variables that exist, and only ones that its subscriber
    /// may observe.
    fn check(&self, subscriber: SubscriberId, subscription: &mut Subscription) -> Result<(), BusError> {
        let known = self.subscribers.iter().find(|known| known.id == subscriber);
        let known = known.ok_or(BusError::NoSubscription(0))?;
        let denied = |what: String| BusError::NoRight { who: known.name.to_string(), what };
        if subscription.priority > known.rights.priority {
            let (wanted, limit) = (subscription.priority, known.rights.priority);
            return Err(denied(format!("take priority {wanted} (its highest is {limit})")));
        }
        for pattern in &subscription.events {
            let mut any = false;
            for line in &self.sources {
                for event in line.schema.events_like(pattern) {
                    let name = &line.schema.events()[usize::from(event.0)].name;
                    any |= known.rights.may_observe(name);
                    if pattern.is_name() && !known.rights.may_observe(name) {
                        return Err(denied(format!("receive {name}")));
                    }
                }
            }
            // The pattern `*` may match no event yet: a program without signals still has variables.
            let is_nothing = self
                .sources
                .iter()
                .all(|line| line.schema.offered().next().is_none());
            let goes_without = is_nothing && pattern.as_str() == "*";
            if !any && !goes_without && !self.sources.is_empty() {
                let names = self
                    .sources
                    .iter()
                    .flat_map(|l| l.schema.offered())
                    .map(|(_, e)| e.name.as_str());
                return Err(BusError::NoEvent { name: pattern.to_string(), hint: hint(pattern, names) });
            }
        }
        let mut widest = 0;
        for line in self
            .sources
            .iter()
            .filter(|line| line.has_any(&subscription.events))
        {
            for name in &subscription.with {
                let whole = whole_name(name, &line.schema);
                if !known.rights.may_observe(&whole) {
                    return Err(denied(format!("read {whole}")));
                }
                if line.schema.variable(&whole).is_none() && !self.has_variable(name) {
                    let names = line.schema.variables().iter().map(|v| v.name.as_str());
                    let hint = hint(&Pattern::new(whole.as_str()), names);
                    return Err(BusError::NoVariable { name: whole, hint });
                }
            }
            let fields = subscription
                .events
                .iter()
                .flat_map(|p| line.schema.events_like(p));
            let fields = fields
                .map(|e| line.schema.events()[usize::from(e.0)].fields.len())
                .max();
            widest = widest.max(fields.unwrap_or(0) + subscription.with.len());
        }
        if widest > MAX_VALUES {
            Err(BusError::Wide(widest))
        } else {
            Ok(())
        }
    }

    fn has_variable(&self, name: &str) -> bool {
        self.sources
            .iter()
            .any(|line| line.schema.variable(&whole_name(name, &line.schema)).is_some())
    }

    /// Compiles a subscription into a source's numbers; `None` when the source has no event of the
    /// subscription.
    fn compile(&self, standing: &PersistentSubscription, schema: &Schema) -> Option<Compiled> {
        let known = self
            .subscribers
            .iter()
            .find(|known| known.id == standing.subscriber)?;
        let subscription = &standing.subscription;
        let mut events: Vec<_> = subscription
            .events
            .iter()
            .flat_map(|p| schema.events_like(p))
            .collect();
        events.retain(|e| known.rights.may_observe(&schema.events()[usize::from(e.0)].name));
        events.sort_unstable();
        events.dedup();
        let readable = |name: &String| {
            let whole = whole_name(name, schema);
            schema
                .variable(&whole)
                .filter(|_| known.rights.may_observe(&whole))
        };
        (!events.is_empty()).then(|| Compiled {
            id: standing.id,
            subscriber: standing.subscriber,
            events,
            with: subscription.with.iter().map(readable).collect(),
            scope: subscription.scope.clone(),
            priority: subscription.priority,
            filter: subscription.filter,
            outlet: standing.outlet.clone(),
        })
    }
}

impl SourceEntry {
    fn has_any(&self, events: &[Pattern]) -> bool {
        events
            .iter()
            .any(|pattern| self.schema.events_like(pattern).next().is_some())
    }
}

/// Completes a relative name: `.conn.srtt` belongs to the schema's provider.
fn whole_name(name: &str, schema: &Schema) -> String {
    if name.starts_with('.') {
        format!("{}{name}", schema.provider())
    } else {
        name.to_owned()
    }
}

/// Lists the names with the same ending, or all names.
pub(crate) fn hint<'a>(wanted: &Pattern, names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 8;
    let names: std::collections::BTreeSet<&str> = names.collect();
    let last = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let end = last(wanted.as_str());
    let alike: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| last(name).contains(&end))
        .collect();
    let list = if alike.is_empty() {
        names.into_iter().collect()
    } else {
        alike
    };
    match list.len() {
        0 => String::new(),
        n if n > SHOWN => format!(
            "; known names: {} and {} more",
            list[..SHOWN].join(", "),
            n - SHOWN
        ),
        _ => format!("; known names: {}", list.join(", ")),
    }
}

/// Makes the outlet of a subscriber with a queue: see [`Ring`].
pub(crate) fn to_ring(ring: &Ring) -> Outlet {
    Outlet::Ring(ring.clone())
}
