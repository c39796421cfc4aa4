//! Groups of Connections, and the state that they share (RFC 9622, 7.4).
//!
//! All connection properties except `connPriority` belong to the group: a change applies to all members.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::task::AbortHandle;

use super::event::ConnectionEvent;
use super::state::{ConnectionState, Core};
use crate::taps::plan::ConnectionPlan;
use crate::taps::property::{
    Action, Preference, Property, PropertyError, PropertyValue, TransportProperties,
};
use crate::{SharedStreams, Tuning};

/// The maximum number of Connections of one group.
pub(super) const MAX_MEMBERS: usize = 1_024;
/// The default idle time after which keep-alive packets are sent, if they are wanted and no time is set.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// The time that a peer whose Connections have all ended has to open another on the same transport
/// connection.
const LINGER: Duration = Duration::from_secs(10);

/// The state that Connections of one group share.
pub(crate) struct Group {
    /// The plan by which they were established; further ones are established in the same way.
    pub(super) plan: Arc<ConnectionPlan>,
    inner: Mutex<Inner>,
}

struct Inner {
    properties: Arc<TransportProperties>,
    members: Vec<Weak<Core>>,
    /// The other streams of the transport connection, if it has several.
    streams: Option<SharedStreams>,
    tasks: Vec<AbortHandle>,
    /// Ends the transport connection some time after its last member.
    lingering: Option<AbortHandle>,
}

impl Inner {
    /// A transport connection ends with its last stream.
    fn end(&mut self) {
        self.streams = None;
        self.tasks.drain(..).for_each(|task| task.abort());
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end();
    }
}

impl Group {
    pub(crate) fn new(plan: Arc<ConnectionPlan>) -> Arc<Group> {
        let properties = Arc::new(plan.properties.clone());
        let inner = Inner {
            properties,
            members: Vec::new(),
            streams: None,
            tasks: Vec::new(),
            lingering: None,
        };
        Arc::new(Group { plan, inner: Mutex::new(inner) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    pub(super) fn properties(&self) -> Arc<TransportProperties> {
        Arc::clone(&self.lock().properties)
    }

    pub(super) fn join(&self, core: &Arc<Core>) {
        self.lock().members.push(Arc::downgrade(core));
    }

    /// Returns the members that have not ended.
    pub(super) fn members(&self) -> Vec<Arc<Core>> {
        let all: Vec<Arc<Core>> = self.lock().members.iter().filter_map(Weak::upgrade).collect();
        all.into_iter()
            .filter(|core| core.lock().phase != ConnectionState::Closed)
            .collect()
    }

    /// Handles the end of a member.
    pub(super) fn left(self: &Arc<Self>, core: &Core) {
        let is_there =
            |member: &Weak<Core>| member.strong_count() > 0 && !std::ptr::eq(member.as_ptr(), core);
        let mut inner = self.lock();
        inner.members.retain(is_there);
        if !inner.members.is_empty() {
            return;
        }
        if self.plan.action == Action::Initiate || inner.streams.is_none() {
            return inner.end();
        }
        // Further streams of the peer may be on their way.
        let group = Arc::clone(self);
        let task = tokio::spawn(async move {
            tokio::time::sleep(LINGER).await;
            let mut inner = group.lock();
            if inner.members.is_empty() {
                inner.end();
            }
        });
        if let Some(earlier) = inner.lingering.replace(task.abort_handle()) {
            earlier.abort();
        }
    }

    pub(crate) fn streams(&self) -> Option<SharedStreams> {
        self.lock().streams.clone()
    }

    pub(crate) fn set_streams(&self, streams: Option<SharedStreams>) {
        self.lock().streams = streams;
    }

    /// Notifies all members of changes of the paths below.
    pub(crate) fn watch(self: &Arc<Self>, streams: SharedStreams) {
        let group = Arc::downgrade(self);
        let task = tokio::spawn(async move {
            while let Some(change) = streams.next_change().await {
                let Some(members) = group.upgrade().map(|group| group.members()) else {
                    return;
                };
                members
                    .iter()
                    .for_each(|core| core.lock().notify(ConnectionEvent::PathChange(change.clone())));
            }
        });
        self.keep(task.abort_handle());
    }

    /// Keeps a task that holds the transport connection: it ends after the last member, or with the group.
    pub(crate) fn keep(&self, task: AbortHandle) {
        self.lock().tasks.push(task);
    }

    /// Returns whether the peer may add another Connection (8.1.9).
    pub(crate) fn has_place(&self) -> bool {
        let count = self.members().len();
        let limit = self.properties().number(Property::GroupConnLimit);
        // The first Connection was not added by the peer.
        count < MAX_MEMBERS && limit.is_none_or(|limit| (count as u64) <= limit)
    }

    /// Changes a property for all members.
    pub(super) fn set(&self, property: Property, value: PropertyValue) -> Result<(), PropertyError> {
        let mut inner = self.lock();
        let mut properties = TransportProperties::clone(&inner.properties);
        properties.set(property, value)?;
        inner.properties = Arc::new(properties);
        Ok(())
    }

    /// Returns the settings that are requested of its transports.
    pub(super) fn tuning(&self) -> Tuning {
        tuning(&self.properties(), self.plan.action)
    }
}

fn tuning(properties: &TransportProperties, action: Action) -> Tuning {
    let timeout = properties.time(Property::ConnTimeout);
    let wants_keep_alive = properties.preference(Property::KeepAlive, action) >= Preference::Prefer;
    let keep_alive = properties
        .time(Property::KeepAliveTimeout)
        // A keep-alive interval longer than the Connection's timeout has no effect (8.1.4).
        .filter(|idle| timeout.is_none_or(|timeout| *idle <= timeout))
        .or_else(|| wants_keep_alive.then_some(KEEP_ALIVE));
    let profile = properties.word(Property::ConnCapacityProfile, action);
    let is_chosen = properties.chosen(Property::ConnCapacityProfile).is_some();
    Tuning {
        keep_alive,
        timeout,
        code_point: is_chosen.then(|| code_point(profile)),
        is_eager: !matches!(profile, "Capacity-Seeking" | "Scavenger"),
    }
}

/// Returns the code point that RFC 9622, 8.1.6 recommends. Of an assured forwarding class, it is the one with
/// the lowest drop precedence (RFC 2597, 6).
fn code_point(profile: &str) -> u8 {
    match profile {
        // RFC 8622.
        "Scavenger" => 1,
        "Low Latency/Interactive" => 34,
        "Low Latency/Non-Interactive" => 18,
        "Constant-Rate Streaming" => 26,
        "Capacity-Seeking" => 10,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_become_options_of_transports() {
        let mut properties = TransportProperties::new();
        let of = |properties: &TransportProperties| tuning(properties, Action::Initiate);
        assert_eq!(of(&properties), Tuning { is_eager: true, ..Tuning::default() });
        properties
            .set(Property::KeepAliveTimeout, Duration::from_secs(5))
            .expect("a time");
        properties
            .set(Property::ConnTimeout, Duration::from_secs(3))
            .expect("a time");
        assert_eq!(
            of(&properties).keep_alive,
            None,
            "longer than the Connection's timeout (8.1.4)"
        );
        properties
            .set(Property::ConnTimeout, Duration::from_secs(9))
            .expect("a time");
        assert_eq!(of(&properties).keep_alive, Some(Duration::from_secs(5)));
        // AF41, AF21, AF31, AF11 (RFC 2597, 6), LE (RFC 8622).
        for (profile, code_point) in [
            ("Low Latency/Interactive", 0b100_010),
            ("Low Latency/Non-Interactive", 0b010_010),
            ("Constant-Rate Streaming", 0b011_010),
            ("Capacity-Seeking", 0b001_010),
            ("Scavenger", 0b000_001),
            ("Default", 0),
        ] {
            properties
                .set(Property::ConnCapacityProfile, profile)
                .expect("a profile");
            assert_eq!(of(&properties).code_point, Some(code_point), "{profile}");
        }
    }
}
