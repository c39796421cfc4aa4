//! The central handler: who provides what, who has subscribed to it, and who may do what.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};

use hawser_time::Instant;
use parking_lot::{Mutex, MutexGuard};

use crate::attach::Attachable;
use crate::audit::{Audit, Entry, Origin};
use crate::documents::Documents;
use crate::error::BusError;
use crate::flow::SourceId;
use crate::notice::Notices;
use crate::order::{Admitted, Compiled, Order, Outlet, SubscriberId};
use crate::pattern::Pattern;
use crate::rights::Rights;
use crate::ring::{Ring, Waker};
use crate::schema::Schema;
use crate::signal::{MAX_VALUES, SubscriptionId};
use crate::subscriber::Subscriber;
use crate::subscription::Subscription;
use crate::tware::Tware;

/// Orders that wait at a source.
const ORDERS: usize = 1024;
/// Subscribers of a bus, at most.
const MAX_SUBSCRIBERS: usize = 1024;
/// Subscriptions of a bus, at most.
const MAX_SUBSCRIPTIONS: usize = 4096;
/// Entries of the log of modifications.
const AUDIT_ENTRIES: usize = 4096;
/// Sources that are gone whose schemas are remembered: somebody may still read their last signals.
const GONE: usize = 64;

/// The central handler.
///
/// Cheap to clone: all clones are the same bus.
#[derive(Clone, Default)]
pub struct Bus {
    inner: Arc<Mutex<Inner>>,
    audit: Arc<Mutex<Log>>,
    wall: Option<WallClock>,
}

/// A clock whose origin is the beginning of 1970.
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
    sources: Vec<Line>,
    gone: VecDeque<(SourceId, Arc<Schema>)>,
    documents: Option<Weak<dyn Documents>>,
    subscribers: Vec<Known>,
    subscriptions: Vec<Standing>,
    next_source: u32,
    next_subscriber: u32,
    next_subscription: u32,
}

/// The bus's end of a source.
struct Line {
    id: SourceId,
    schema: Arc<Schema>,
    orders: Sender<Order>,
    /// How many orders wait there.
    called: Arc<AtomicUsize>,
    waker: Option<Waker>,
    attachable: Option<Arc<dyn Attachable>>,
}

/// What a source has of the bus.
pub(crate) struct Registered {
    pub(crate) id: SourceId,
    pub(crate) orders: Receiver<Order>,
    /// How many orders wait.
    pub(crate) called: Arc<AtomicUsize>,
    pub(crate) audit: Arc<Mutex<Audit>>,
    pub(crate) wall: Option<WallClock>,
}

/// Makes a subscriber's T-ware for one more source.
pub(crate) type Factory = Arc<dyn Fn() -> Box<dyn Tware> + Send + Sync>;

/// A subscriber, as the bus knows it.
struct Known {
    id: SubscriberId,
    name: Arc<str>,
    rights: Arc<Rights>,
    priority: u8,
    in_loop: Option<Factory>,
    origin: Origin,
    notices: Arc<Notices>,
}

/// A subscription, which sources that come later shall have, too.
struct Standing {
    id: SubscriptionId,
    subscriber: SubscriberId,
    subscription: Subscription,
    outlet: Outlet,
}

/// A source, as others see it.
#[derive(Clone, Debug)]
pub struct SourceInfo {
    /// Its number.
    pub id: SourceId,
    /// What it offers.
    pub schema: Arc<Schema>,
}

/// A subscription, as others see it.
#[derive(Clone, Debug)]
pub struct Subscribed {
    /// Its number.
    pub id: SubscriptionId,
    /// Whose it is.
    pub who: String,
    /// What it asks for.
    pub subscription: Subscription,
}

/// An answer that a source has yet to give.
#[derive(Debug)]
pub struct Pending<T>(pub(crate) Receiver<T>);

impl<T> Pending<T> {
    /// Waits for it, for at most so long. Not for the thread that drives the source.
    ///
    /// # Errors
    /// [`BusError::Timeout`] when it did not come.
    pub fn wait(&self, timeout: std::time::Duration) -> Result<T, BusError> {
        self.0.recv_timeout(timeout).map_err(|_| BusError::Timeout)
    }

    /// It, if it is there.
    #[must_use]
    pub fn ready(&self) -> Option<T> {
        self.0.try_recv().ok()
    }
}

impl Bus {
    /// A bus that nobody uses yet.
    #[must_use]
    pub fn new() -> Bus {
        Bus::default()
    }

    /// The same whose log has wall time: the bus has no clock of its own.
    #[must_use]
    pub fn with_wall_clock(clock: WallClock) -> Bus {
        Bus { wall: Some(clock), ..Bus::default() }
    }

    /// Takes in a provider's end, which has the orders of all who are here from the start.
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
        let line = Line {
            id,
            schema: schema.clone(),
            orders: sender,
            called: called.clone(),
            waker,
            attachable,
        };
        for subscriber in &inner.subscribers {
            line.order(Order::Admit(Box::new(subscriber.admitted(schema))));
        }
        for standing in &inner.subscriptions {
            if let Some(compiled) = inner.compile(standing, schema) {
                line.order(Order::Subscribe(Box::new(compiled)));
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

    /// Offers a provider's documents, in place of another's, for as long as the provider is held elsewhere.
    pub fn offer_documents(&self, provider: &Arc<dyn Documents>) {
        self.lock().documents = Some(Arc::downgrade(provider));
    }

    /// The provider of documents, while there is one.
    #[must_use]
    pub fn documents(&self) -> Option<Arc<dyn Documents>> {
        self.lock().documents.as_ref()?.upgrade()
    }

    /// A new subscriber. What it sets has `priority`.
    ///
    /// # Errors
    /// When it may not have that priority, or there are too many subscribers.
    pub fn join(&self, name: &str, rights: Rights, priority: u8) -> Result<Subscriber, BusError> {
        self.admit(name, rights, priority, None, Origin::default(), None)
    }

    /// The same for one that comes from elsewhere, for which `waker` is called when there are notices for it.
    ///
    /// # Errors
    /// As [`Bus::join`].
    pub fn join_from(
        &self,
        origin: Origin,
        name: &str,
        rights: Rights,
        priority: u8,
        waker: Waker,
    ) -> Result<Subscriber, BusError> {
        self.admit(name, rights, priority, None, origin, Some(waker))
    }

    /// Admits a subscriber to every source, with its T-ware if that lives there.
    fn admit(
        &self,
        name: &str,
        rights: Rights,
        priority: u8,
        in_loop: Option<Factory>,
        origin: Origin,
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
        let known = Known {
            id,
            name: name.into(),
            rights: Arc::new(rights),
            priority,
            in_loop,
            origin,
            notices: notices.clone(),
        };
        for line in &inner.sources {
            line.order(Order::Admit(Box::new(known.admitted(&line.schema))));
        }
        inner.subscribers.push(known);
        Ok(Subscriber::new(self.clone(), id, name, origin, notices))
    }

    /// A new subscriber whose T-ware runs in the loop: `make` makes one for each source.
    ///
    /// # Errors
    /// What is wrong with one of its subscriptions; then it does not exist.
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
            Origin::default(),
            None,
        )?;
        for (number, subscription) in subscriptions.into_iter().enumerate() {
            self.subscribe(subscriber.id(), subscription, Outlet::Loop(number))?;
        }
        Ok(subscriber)
    }

    /// The sources that there are.
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

    /// The subscriptions that there are.
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
        let shown = |s: &Standing| Subscribed {
            id: s.id,
            who: who(s.subscriber),
            subscription: s.subscription.clone(),
        };
        inner.subscriptions.iter().map(shown).collect()
    }

    /// The log of modifications, oldest first, and how many entries had to go for newer ones. What
    /// happened within the last tenth of a second may be missing.
    #[must_use]
    pub fn audit(&self) -> (Vec<Entry>, u64) {
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
        let standing = Standing { id, subscriber, subscription, outlet };
        for line in &inner.sources {
            if let Some(compiled) = inner.compile(&standing, &line.schema) {
                line.order(Order::Subscribe(Box::new(compiled)));
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
        // What is named stays: a change is of how much is received, not of what.
        let mut subscription =
            Subscription { events: there.events.clone(), with: there.with.clone(), ..subscription };
        inner.check(subscriber, &mut subscription)?;
        for line in &inner.sources {
            line.order(Order::Change(
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
            .for_each(|line| line.order(Order::Unsubscribe(id)));
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
            .for_each(|line| line.order(Order::Expel(subscriber)));
    }

    /// Sends an order to a source.
    pub(crate) fn order(&self, source: SourceId, order: Order) -> Result<(), BusError> {
        let inner = self.lock();
        let line = inner.sources.iter().find(|line| line.id == source);
        line.ok_or(BusError::NoSource(source.0))?.order(order);
        Ok(())
    }

    /// Sends each source an order.
    pub(crate) fn order_all(&self, order: impl Fn() -> Order) {
        self.lock().sources.iter().for_each(|line| line.order(order()));
    }

    pub(crate) fn rights(&self, subscriber: SubscriberId) -> Option<Arc<Rights>> {
        self.lock()
            .subscribers
            .iter()
            .find(|known| known.id == subscriber)
            .map(|known| known.rights.clone())
    }

    /// What a source offers; or offered, for the last 64 that are gone: their last signals may be
    /// read after their end.
    ///
    /// # Errors
    /// [`BusError::NoSource`] when there is none of that number, or it is gone for longer.
    pub fn schema(&self, source: SourceId) -> Result<Arc<Schema>, BusError> {
        let inner = self.lock();
        let there = inner.sources.iter().map(|line| (line.id, &line.schema));
        let mut all = there.chain(inner.gone.iter().map(|(id, schema)| (*id, schema)));
        let found = all.find(|(id, _)| *id == source);
        found
            .map(|(_, schema)| schema.clone())
            .ok_or(BusError::NoSource(source.0))
    }

    /// A source offers another schema from now on.
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
        line.order(Order::Offer(schema.clone(), compiled));
    }

    /// What a source takes attachments with, and its provider.
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

impl Line {
    /// Sends an order and wakes the source. A source that is gone, or that has taken none for very
    /// long, does not get it: who waits for an answer gets [`BusError::Timeout`].
    fn order(&self, order: Order) {
        // What ends something is never left out: there is no more of it than of what began; nor is what the
        // source itself has published.
        let ends = matches!(order, Order::Expel(_) | Order::Unsubscribe(_) | Order::Offer(..));
        if !ends && self.called.load(Ordering::Relaxed) >= ORDERS {
            return;
        }
        // Counted first: the source may have taken it before this thread goes on.
        self.called.fetch_add(1, Ordering::Release);
        if self.orders.send(order).is_err() {
            self.called.fetch_sub(1, Ordering::Relaxed);
        } else if let Some(waker) = &self.waker {
            waker();
        }
    }

    /// A source that is gone has dropped its end.
    fn is_alive(&self) -> bool {
        Arc::strong_count(&self.called) > 1
    }
}

impl Known {
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
    /// Sources that have ended are remembered by what they offered, for a while.
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

    /// The place of a subscriber's subscription.
    fn own(&self, subscriber: SubscriberId, id: SubscriptionId) -> Result<usize, BusError> {
        let own = |s: &Standing| s.id == id && s.subscriber == subscriber;
        self.subscriptions
            .iter()
            .position(own)
            .ok_or(BusError::NoSubscription(id.0))
    }

    /// Whether a subscription names what there is, and no more than its subscriber may.
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
            // Everything may be nothing yet: a program without signals has variables all the same.
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

    /// A subscription in a source's numbers; nothing when the source has nothing of it.
    fn compile(&self, standing: &Standing, schema: &Schema) -> Option<Compiled> {
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

impl Line {
    fn has_any(&self, events: &[Pattern]) -> bool {
        events
            .iter()
            .any(|pattern| self.schema.events_like(pattern).next().is_some())
    }
}

/// `.conn.srtt` is the provider's.
fn whole_name(name: &str, schema: &Schema) -> String {
    if name.starts_with('.') {
        format!("{}{name}", schema.provider())
    } else {
        name.to_owned()
    }
}

/// The names that end alike, or all of them.
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
        n if n > SHOWN => format!("; there are {} and {} more", list[..SHOWN].join(", "), n - SHOWN),
        _ => format!("; there are {}", list.join(", ")),
    }
}

/// Queues of subscribers, for who makes them: see [`Ring`].
pub(crate) fn to_ring(ring: &Ring) -> Outlet {
    Outlet::Ring(ring.clone())
}
