//! The far end: accepts sessions, authenticates their clients, and connects their streams onwards.
//!
//! Invariants: before a session is accepted, only its greeting is read. Every wait has a limit
//! ([`GatewayLimits::request_timeout`], [`GatewayLimits::connect`], [`GatewayLimits::idle`],
//! [`GatewayLimits::session_idle`]), and every served stream has a place of its client and of the total. When
//! a session ends, so do its connections.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use hawser::race::resolve::Resolver;
use hawser::race::resolve::nat64::Prefix;
use hawser::session::admission::{AdmissionPermit as UnprovenPlace, EvictionReason};
use hawser::session::{Network, Notice, Server, Session, SessionStream};
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use hawser::session::relay::Destination;
use hawser::session::relay::wire::{
    ACCEPTED, Greeting, REFUSED, RESET, Reply, Request, TOO_MANY, UNAUTHENTICATED,
};

use crate::clients::Clients;
use crate::destination::AllowList;
use crate::limits::{Counts, GatewayLimits, SessionPermit, StreamPlace};
use crate::outbound::{Rules, reach};
use crate::relay::{DisconnectReason, RelayedBytes, relay};

/// The configuration of a gateway.
pub struct GatewayConfig {
    /// The clients that may use it.
    pub clients: Clients,
    /// The allowed destinations.
    pub allow: AllowList,
    /// The resolver of destinations' names.
    pub resolver: Resolver,
    /// The limits of its resources.
    pub limits: GatewayLimits,
}

/// An event of a gateway, for its operator.
#[derive(Clone, Debug)]
pub enum GatewayEvent {
    /// A client's session was accepted.
    Accepted {
        /// The client's name.
        client: Arc<str>,
    },
    /// A session was refused and closed.
    Refused {
        /// The reason, without any text from the peer.
        why: String,
    },
    /// A client's stream was connected.
    Connected {
        /// The client's name.
        client: Arc<str>,
        /// The requested destination.
        destination: Destination,
        /// The address of the connection.
        address: std::net::SocketAddr,
    },
    /// A client's stream was not connected.
    Denied {
        /// The client's name.
        client: Arc<str>,
        /// The requested destination, if it was stated.
        destination: Option<Destination>,
        /// The reply that was sent.
        reply: Reply,
        /// The reason as text.
        why: String,
    },
    /// A connection has ended.
    Ended {
        /// The client's name.
        client: Arc<str>,
        /// The destination of the connection.
        destination: Destination,
        /// The amount of data that it carried.
        carried: RelayedBytes,
        /// The reason for the end.
        end: DisconnectReason,
    },
    /// A client's session has ended.
    Left {
        /// The client's name.
        client: Arc<str>,
    },
}

/// The event as text, which may contain text from peers.
impl Display for GatewayEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            GatewayEvent::Accepted { client } => write!(f, "{client}: session accepted"),
            GatewayEvent::Refused { why } => write!(f, "session refused: {why}"),
            GatewayEvent::Connected { client, destination, address } => {
                write!(f, "{client}: {destination} at {address}")
            }
            GatewayEvent::Denied { client, destination, reply, why } => {
                let destination = destination.as_ref().map(ToString::to_string);
                let place = destination.as_deref().unwrap_or("a request");
                write!(f, "{client}: {place} was denied ({}): {why}", reply.code())
            }
            GatewayEvent::Ended { client, destination, carried, .. } => {
                let RelayedBytes { up, down } = carried;
                write!(f, "{client}: {destination} has ended: {up} bytes up, {down} down")
            }
            GatewayEvent::Left { client } => write!(f, "{client}: session ended"),
        }
    }
}

/// The state that a gateway's tasks share.
struct Shared {
    config: GatewayConfig,
    counts: Counts,
    own: RwLock<Arc<[IpAddr]>>,
    /// The prefixes of this network's translators.
    nat64: RwLock<Arc<[Prefix]>>,
    report: Box<dyn Fn(GatewayEvent) + Send + Sync>,
    stopped: watch::Receiver<()>,
}

/// Serves the sessions of `server`, which should be configured with [`GatewayLimits::acceptor`], until it is
/// closed or `stop` is ready. On `stop`, all sessions are closed, so that their clients learn of it at once.
/// `report` is called with each event and must not block. Dropping the future ends all sessions.
///
/// # Errors
/// Fails if the system does not report this machine's addresses, or if the server was closed.
pub async fn serve(
    server: Server,
    config: GatewayConfig,
    report: impl Fn(GatewayEvent) + Send + Sync + 'static,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let (stopping, stopped) = watch::channel(());
    tokio::pin!(stop);
    let mut network = Network::open().await?;
    let shared = Arc::new(Shared {
        counts: Counts::new(&config.limits),
        config,
        own: RwLock::new(network.addresses().into()),
        nat64: RwLock::default(),
        report: Box::new(report),
        stopped,
    });
    // Clients are served only once the prefixes of this network's translators are known.
    shared.find_translators().await;
    let mut sessions = JoinSet::new();
    let mut is_watched = true;
    let mut checks = tokio::time::interval(TRANSLATOR_CHECK_INTERVAL);
    checks.reset();
    loop {
        tokio::select! {
            session = server.accept() => {
                let session = session?;
                // A session that has already lost its only carrier has no address, and will end soon.
                let peer = session.paths().first().map(|(_, info)| info.description.peer.ip());
                let unproven = shared.counts.unauthenticated.enter(peer.unwrap_or(IpAddr::from([0; 4])));
                sessions.spawn(host(shared.clone(), session, unproven));
            }
            change = network.next(), if is_watched => {
                is_watched = change.is_some();
                *shared.own.write() = network.addresses().into();
                checks.reset_immediately();
            }
            _ = checks.tick() => {
                let shared = shared.clone();
                sessions.spawn(async move { shared.find_translators().await });
            }
            Some(_) = sessions.join_next() => {}
            () = &mut stop => break,
        }
    }
    drop(stopping);
    let all = async { while sessions.join_next().await.is_some() {} };
    let _ = timeout(3 * FAREWELL, all).await;
    Ok(())
}

impl Shared {
    /// Waits until the gateway is asked to stop.
    async fn stopped(&self) {
        // The sender never sends, and is dropped to stop.
        let _ = self.stopped.clone().changed().await;
    }

    /// Logs an event as text and reports it to the operator.
    fn report(&self, event: GatewayEvent) {
        match event {
            GatewayEvent::Accepted { .. } | GatewayEvent::Refused { .. } | GatewayEvent::Left { .. } => {
                tracing::info!("{event}");
            }
            GatewayEvent::Connected { .. } | GatewayEvent::Denied { .. } | GatewayEvent::Ended { .. } => {
                tracing::debug!("{event}");
            }
        }
        (self.report)(event);
    }

    /// Looks up the prefixes of this network's translators (RFC 7050). The known ones stay if no name server
    /// answers.
    async fn find_translators(&self) {
        let asked = timeout(self.config.limits.connect, self.config.resolver.nat64()).await;
        if let Ok(Ok(prefixes)) = asked {
            *self.nat64.write() = prefixes.into();
        }
    }
}

/// The interval between lookups of translators.
const TRANSLATOR_CHECK_INTERVAL: std::time::Duration = std::time::Duration::from_secs(600);

async fn close_at_once(session: &Session) {
    // Only the end matters. The error that the peer did not agree to it is expected.
    let _ = timeout(FAREWELL, session.close(UNAUTHENTICATED)).await;
}

/// The maximum time for the end of a session to reach the peer.
const FAREWELL: std::time::Duration = std::time::Duration::from_secs(1);

/// Serves a session from beginning to end.
async fn host(shared: Arc<Shared>, session: Session, mut unproven: UnprovenPlace) {
    let limits = &shared.config.limits;
    let (mut waiting, proved) = (Vec::new(), Notify::new());
    let authenticated = timeout(limits.request_timeout, async {
        let mut greeting = pin!(greet(&shared, &session, &mut waiting, &proved));
        match unproven.hold_until(proved.notified(), &mut greeting).await {
            EvictionReason::Done(result) => result,
            EvictionReason::Proved => greeting.await,
            EvictionReason::Evicted => {
                Err("the client had not authenticated when its place was needed".into())
            }
        }
    });
    let authenticated = authenticated
        .await
        .unwrap_or_else(|_| Err("the client did not authenticate in time".into()));
    let (client, place) = match authenticated {
        Ok(known) => known,
        Err(why) => {
            shared.report(GatewayEvent::Refused { why });
            // Streams are reset before the session is closed, because their data is not wanted.
            waiting
                .iter()
                .for_each(|stream: &SessionStream| drop(stream.reset(UNAUTHENTICATED)));
            drop(waiting);
            if !matches!(timeout(FAREWELL, session.close(0)).await, Ok(Ok(()))) {
                close_at_once(&session).await;
            }
            return;
        }
    };
    drop(unproven);
    shared.report(GatewayEvent::Accepted { client: client.clone() });
    let visit = AuthenticatedSession {
        shared: shared.clone(),
        client: client.clone(),
        place,
        stops: Mutex::default(),
    };
    let is_replaced = Arc::new(visit).host(&session, waiting).await;
    match is_replaced {
        // The client has gone, so it cannot agree to the end.
        true => close_at_once(&session).await,
        // Both sides know that the session is over, or will soon.
        false => drop(timeout(FAREWELL, session.close(0)).await),
    }
    shared.report(GatewayEvent::Left { client });
}

/// Reads the greeting, notifies `proved` when the client's token is known, and answers. Streams that open in
/// the meantime are stored in `waiting`.
async fn greet(
    shared: &Shared,
    session: &Session,
    waiting: &mut Vec<SessionStream>,
    proved: &Notify,
) -> Result<(Arc<str>, SessionPermit), String> {
    let mut first = session.accept().await.map_err(|error| error.to_string())?;
    let greeting = {
        let greeting = Greeting::read(&mut first);
        tokio::pin!(greeting);
        loop {
            tokio::select! {
                greeting = &mut greeting => break greeting,
                stream = session.accept() => {
                    let stream = stream.map_err(|error| error.to_string())?;
                    match waiting.len() < shared.config.limits.waiting {
                        true => waiting.push(stream),
                        false => drop(stream.reset(TOO_MANY)),
                    }
                }
            }
        }
    };
    let known = greeting.map_err(|error| error.to_string()).and_then(|greeting| {
        let client = shared
            .config
            .clients
            .find(&greeting.token)
            .ok_or("no client has this token")?;
        let observer = session.observer();
        let place = shared.counts.session(&client, move || observer.is_cut_off());
        let place = place.ok_or_else(|| format!("{client} has too many sessions"))?;
        proved.notify_one();
        Ok((client, place))
    });
    let answer = if known.is_ok() { ACCEPTED } else { REFUSED };
    let sent = async {
        first.write_all(&[answer]).await?;
        first.shutdown().await
    };
    sent.await.map_err(|error| error.to_string())?;
    known
}

/// A session of an authenticated client.
struct AuthenticatedSession {
    shared: Arc<Shared>,
    client: Arc<str>,
    place: SessionPermit,
    /// The served streams, each with a notification for when the client stops it.
    stops: Mutex<HashMap<u32, Arc<Notify>>>,
}

impl AuthenticatedSession {
    /// Serves the session's streams until it ends, no stream was open for too long, or another session of the
    /// client takes its place. In the last case it returns true. Streams that are still connected are reset,
    /// because the end of a session does not mean that the client had sent everything.
    async fn host(self: Arc<Self>, session: &Session, waiting: Vec<SessionStream>) -> bool {
        let mut streams = JoinSet::new();
        waiting
            .into_iter()
            .for_each(|stream| self.clone().admit(stream, &mut streams));
        let is_replaced = tokio::select! {
            () = self.clone().take(session, &mut streams) => false,
            () = self.shared.stopped() => false,
            () = self.place.taken() => true,
        };
        self.stops().values().for_each(|stop| stop.notify_one());
        let all = async { while streams.join_next().await.is_some() {} };
        let _ = timeout(FAREWELL, all).await;
        is_replaced
    }

    async fn take(self: Arc<Self>, session: &Session, streams: &mut JoinSet<()>) {
        let idle = self.shared.config.limits.session_idle;
        loop {
            tokio::select! {
                stream = session.accept() => match stream {
                    Ok(stream) => self.clone().admit(stream, streams),
                    Err(_) => return,
                },
                event = session.next_event() => match event {
                    Some(Notice::Stopped { stream, .. }) => {
                        self.stops().get(&stream).iter().for_each(|stop| stop.notify_one());
                    }
                    Some(_) => {}
                    None => return,
                },
                Some(_) = streams.join_next() => {}
                () = tokio::time::sleep(idle), if streams.is_empty() => return,
            }
        }
    }

    fn stops(&self) -> MutexGuard<'_, HashMap<u32, Arc<Notify>>> {
        self.stops.lock()
    }

    fn admit(self: Arc<Self>, mut stream: SessionStream, streams: &mut JoinSet<()>) {
        let Some(place) = self.shared.counts.stream(&self.place) else {
            streams.spawn(async move {
                self.deny(None, Reply::Failure, "too many streams at once".into());
                let limit = self.shared.config.limits.request_timeout;
                let _ = timeout(limit, stream.write_all(&[Reply::Failure.code()])).await;
            });
            return;
        };
        let (id, stop) = (stream.id(), Arc::new(Notify::new()));
        self.stops().insert(id, stop.clone());
        streams.spawn(async move {
            self.serve(stream, &stop, place).await;
            self.stops().remove(&id);
        });
    }

    /// Serves one stream: its request, its connection, and its data.
    async fn serve(&self, mut stream: SessionStream, stop: &Notify, _place: StreamPlace) {
        let Shared { config, own, nat64, .. } = &*self.shared;
        let limits = &config.limits;
        let request = match timeout(limits.request_timeout, Request::read(&mut stream)).await {
            Ok(Ok(request)) => request,
            Ok(Err(error)) => return self.refuse(stream, None, error.reply(), error.to_string()).await,
            Err(_) => {
                return self
                    .refuse(stream, None, Reply::Failure, "no request arrived in time".into())
                    .await;
            }
        };
        let destination = request.destination;
        let own = own.read().clone();
        let nat64 = nat64.read().clone();
        let rules = Rules {
            allow: &config.allow,
            own: &own,
            nat64: &nat64,
            resolver: &config.resolver,
            limit: limits.connect,
        };
        let reached = tokio::select! {
            reached = reach(&destination, &rules) => reached,
            // The client has stopped the stream.
            () = stop.notified() => return drop(stream.reset(RESET)),
        };
        let mut onwards = match reached {
            Ok(onwards) => onwards,
            Err(unreached) => {
                return self
                    .refuse(stream, Some(destination), unreached.reply, unreached.why)
                    .await;
            }
        };
        if let Ok(address) = onwards.peer_addr() {
            let (client, destination) = (self.client.clone(), destination.clone());
            self.shared
                .report(GatewayEvent::Connected { client, destination, address });
        }
        // Small writes are the client's choice, and are not delayed again here.
        let _ = onwards.set_nodelay(true);
        let answered = timeout(
            limits.request_timeout,
            stream.write_all(&[Reply::Succeeded.code()]),
        )
        .await;
        let (end, carried) = match answered {
            Ok(Ok(())) => relay(&mut stream, &mut onwards, limits.idle, stop.notified()).await,
            _ => (DisconnectReason::ByClient, RelayedBytes::default()),
        };
        if end != DisconnectReason::Finished {
            // With zero linger, closing the connection resets it (RFC 9293, 3.10.5). The stream is reset as
            // well.
            let _ = onwards.set_zero_linger();
            let _ = stream.reset(RESET);
        }
        self.shared
            .report(GatewayEvent::Ended { client: self.client.clone(), destination, carried, end });
    }

    async fn refuse(
        &self,
        mut stream: SessionStream,
        destination: Option<Destination>,
        reply: Reply,
        why: String,
    ) {
        self.deny(destination, reply, why);
        // The end of the stream follows the answer when it is dropped.
        let _ = timeout(
            self.shared.config.limits.request_timeout,
            stream.write_all(&[reply.code()]),
        )
        .await;
    }

    fn deny(&self, destination: Option<Destination>, reply: Reply, why: String) {
        self.shared
            .report(GatewayEvent::Denied { client: self.client.clone(), destination, reply, why });
    }
}
