//! Listeners: they accept Connections that peers begin (RFC 9622, 7.2).

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Weak};

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::candidates::{objection, unknown};
use super::connection::Group;
use super::establish::addresses;
use super::plan::ConnectionPlan;
use super::property::Property;
use super::security::Mode;
use super::{Connection, EstablishmentError, log};
use crate::listener::{self as transport, Incoming, ListenOptions};
use crate::{Duplex, SharedStreams};

/// The maximum number of addresses of one Listener.
const MAX_ADDRESSES: usize = 16;
/// The maximum number of queued Connections; further ones wait with their transport.
const WAITING: usize = 16;

/// An event of a Listener.
pub enum ListenerEvent {
    /// A peer has begun a Connection, or a further one of its group. It is ready.
    ConnectionReceived(Connection),
    /// The Listener has stopped. This is the last event.
    Stopped,
}

/// Takes the Connections that peers begin. It stops when it is dropped.
pub struct Listener {
    incoming: mpsc::Receiver<(Arc<Group>, Box<dyn Duplex>)>,
    addresses: Vec<SocketAddr>,
    tasks: Vec<AbortHandle>,
    /// The number of Connections that are still delivered; `None` means no limit.
    limit: Option<u64>,
    is_stopped: bool,
    has_reported_stop: bool,
}

/// The peers that are accepted.
struct Admission {
    plan: Arc<ConnectionPlan>,
    /// The addresses of the remote endpoints that have names.
    named: Vec<IpAddr>,
}

/// Listens at every address of a plan.
pub(super) async fn open(plan: Arc<ConnectionPlan>) -> Result<Listener, EstablishmentError> {
    unknown(&plan)?;
    if plan.security.mode == Mode::Required && plan.security.identity.is_none() {
        let why = "a Listener needs a certificate of its own, or security disabled by name";
        return Err(EstablishmentError::Security(why.into()));
    }
    let mut named = Vec::new();
    for name in plan.remotes.iter().filter_map(|remote| remote.host_name()) {
        named.extend(addresses(name).await?);
    }
    let admission = Arc::new(Admission { plan: Arc::clone(&plan), named });
    let (sender, incoming) = mpsc::channel(WAITING);
    let mut listener = Listener {
        incoming,
        addresses: Vec::new(),
        tasks: Vec::new(),
        limit: None,
        is_stopped: false,
        has_reported_stop: false,
    };
    for options in options(&plan)? {
        let below = transport::Listener::open(&options).map_err(|error| {
            EstablishmentError::Endpoint(format!("cannot listen on {}: {error}", options.address))
        })?;
        if let Some(property) = objection(&below.features(), &plan) {
            let why = format!("no transport that can listen here fulfils {property}");
            return Err(EstablishmentError::Properties(why));
        }
        log::listening(below.address());
        listener.addresses.push(below.address());
        let task = tokio::spawn(admit(Arc::clone(&admission), below, sender.clone()));
        listener.tasks.push(task.abort_handle());
    }
    Ok(listener)
}

/// Returns the listen options of a plan, one for each address.
fn options(plan: &ConnectionPlan) -> Result<Vec<ListenOptions>, EstablishmentError> {
    let endpoint = |why: &str| EstablishmentError::Endpoint(why.to_owned());
    if plan.locals.is_empty() {
        return Err(endpoint("a Listener needs a local endpoint"));
    }
    let identity = match plan.security.mode {
        Mode::Disabled => None,
        Mode::Required | Mode::Opportunistic => plan.security.identity.clone(),
    };
    let mut options = Vec::new();
    for local in plan.locals.iter().take(MAX_ADDRESSES) {
        let port = local.port()?;
        let all = match local.address {
            Some(address) if address.is_multicast() => {
                return Err(endpoint(
                    "multicast is not supported: no transport here receives datagrams",
                ));
            }
            Some(address) => vec![address],
            None => vec![
                IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            ],
        };
        options.extend(all.into_iter().map(|address| ListenOptions {
            address: SocketAddr::new(address, port),
            identity: identity.clone(),
            protocols: plan.security.alpn.clone(),
            is_multipath: plan.properties.word(Property::Multipath, plan.action) != "Disabled",
            interface: local.interface.clone(),
        }));
    }
    Ok(options)
}

/// Accepts the admitted peers, with all the streams that each opens.
async fn admit(
    admission: Arc<Admission>,
    mut below: transport::Listener,
    incoming: mpsc::Sender<(Arc<Group>, Box<dyn Duplex>)>,
) {
    while let Some(Incoming { stream }) = below.accept().await {
        let peer = stream.about().peer;
        let Admission { plan, named } = &*admission;
        let is_meant = |peer: SocketAddr| {
            plan.remotes.is_empty() || plan.remotes.iter().any(|remote| remote.admits(peer, named))
        };
        if !peer.is_none_or(is_meant) {
            log::rejected(peer, "the peer is not one of the remote endpoints");
            stream.abort();
            continue;
        }
        let group = Group::new(Arc::clone(plan));
        let streams = stream.streams();
        group.set_streams(streams.clone());
        if let Some(streams) = streams {
            group.watch(Arc::clone(&streams));
            let task = tokio::spawn(further(Arc::downgrade(&group), streams, incoming.clone()));
            group.keep(task.abort_handle());
        }
        if incoming.send((group, stream)).await.is_err() {
            return;
        }
    }
}

/// Takes the further streams of a transport connection as Connections of one group.
async fn further(
    group: Weak<Group>,
    streams: SharedStreams,
    incoming: mpsc::Sender<(Arc<Group>, Box<dyn Duplex>)>,
) {
    loop {
        let stream = tokio::select! {
            stream = streams.accept() => stream,
            () = incoming.closed() => return,
        };
        let (Ok(stream), Some(group)) = (stream, group.upgrade()) else {
            return;
        };
        if !group.has_place() {
            log::rejected(stream.about().peer, "the group of the Connection is full");
            stream.abort();
            continue;
        }
        if incoming.send((group, stream)).await.is_err() {
            return;
        }
    }
}

impl Listener {
    /// Waits for the next event; `None` after [`ListenerEvent::Stopped`] was taken. The future may be dropped
    /// before it is ready, without losing an event.
    pub async fn next_event(&mut self) -> Option<ListenerEvent> {
        if self.has_reported_stop {
            return None;
        }
        if !self.is_stopped && self.limit == Some(0) {
            // Peers wait until the limit is raised, which takes `&mut self`.
            std::future::pending::<()>().await;
        }
        let next = if self.is_stopped {
            None
        } else {
            self.incoming.recv().await
        };
        match next {
            Some((group, stream)) => {
                if let Some(limit) = &mut self.limit {
                    *limit -= 1;
                }
                Some(ListenerEvent::ConnectionReceived(Connection::accepted(
                    &group, stream,
                )))
            }
            None => {
                self.has_reported_stop = true;
                Some(ListenerEvent::Stopped)
            }
        }
    }

    /// Waits for the next Connection; `None` when the Listener has stopped.
    pub async fn accept(&mut self) -> Option<Connection> {
        match self.next_event().await? {
            ListenerEvent::ConnectionReceived(connection) => Some(connection),
            ListenerEvent::Stopped => None,
        }
    }

    /// Stops: no further Connections are accepted. Connections that were taken stay.
    pub fn stop(&mut self) {
        self.is_stopped = true;
        self.tasks.drain(..).for_each(|task| task.abort());
        self.incoming.close();
        let waiting: VecDeque<_> = std::iter::from_fn(|| self.incoming.try_recv().ok()).collect();
        waiting.into_iter().for_each(|(_, stream)| stream.abort());
    }

    /// Sets the number of Connections that are still delivered; `None` means no limit
    /// (SetNewConnectionLimit).
    pub fn set_new_connection_limit(&mut self, limit: Option<u64>) {
        self.limit = limit;
    }

    /// Returns the addresses at which it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}
