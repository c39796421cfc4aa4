//! The far end: accepts sessions, authenticates their clients, and connects their streams onwards.
//!
//! Invariants: before a session is accepted nothing is read of it but its greeting. Every wait has an end
//! ([`Limits::request_timeout`], [`Limits::connect`], [`Limits::idle`],
//! [`Limits::session_idle`]), and every stream that is served has a
//! place of its client and of all. When a session ends, so do its connections.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use hawser::places::{Held, Place as UnprovenPlace};
use hawser::resolve::Resolver;
use hawser::resolve::nat64::Prefix;
use hawser::session::{Network, Notice, Server, Session, SessionStream};
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use hawser::gateway::Destination;
use hawser::gateway::wire::{ACCEPTED, Greeting, REFUSED, RESET, Reply, Request, TOO_MANY, UNAUTHENTICATED};

use crate::clients::Clients;
use crate::destination::AllowList;
use crate::limits::{Counts, Limits, Place, StreamPlace};
use crate::reach::{Rules, reach};
use crate::relay::{Carried, End, relay};

/// What a gateway is.
pub struct GatewayConfig {
    /// Who may use it.
    pub clients: Clients,
    /// Where they may go.
    pub allow: AllowList,
    /// How names are asked for.
    pub resolver: Resolver,
    /// What it gives at most.
    pub limits: Limits,
}

/// What happens at a gateway, for whoever runs it.
#[derive(Clone, Debug)]
pub enum Event {
    /// A client's session was accepted.
    Accepted {
        /// Its name.
        client: Arc<str>,
    },
    /// A session was not accepted, and closed.
    Refused {
        /// The reason for people, from its own text only.
        why: String,
    },
    /// A client's stream was connected.
    Connected {
        /// Whose.
        client: Arc<str>,
        /// Where it wanted to go.
        destination: Destination,
        /// Where it went.
        address: std::net::SocketAddr,
    },
    /// A client's stream was not connected.
    Denied {
        /// Whose.
        client: Arc<str>,
        /// Where it wanted to go, if it stated it.
        destination: Option<Destination>,
        /// The answer that it was sent.
        reply: Reply,
        /// The reason in words, for people.
        why: String,
    },
    /// A connection has ended.
    Ended {
        /// Whose.
        client: Arc<str>,
        /// Where it went.
        destination: Destination,
        /// What went over it.
        carried: Carried,
        /// How.
        end: End,
    },
    /// A client's session has ended.
    Left {
        /// Whose.
        client: Arc<str>,
    },
}

/// The event in words, which may hold text of peers.
impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Event::Accepted { client } => write!(f, "{client}: a session was accepted"),
            Event::Refused { why } => write!(f, "a session was refused: {why}"),
            Event::Connected { client, destination, address } => {
                write!(f, "{client}: {destination} at {address}")
            }
            Event::Denied { client, destination, reply, why } => {
                let destination = destination.as_ref().map(ToString::to_string);
                let place = destination.as_deref().unwrap_or("a request");
                write!(f, "{client}: {place} was denied ({}): {why}", reply.code())
            }
            Event::Ended { client, destination, carried, .. } => {
                let Carried { up, down } = carried;
                write!(f, "{client}: {destination} has ended: {up} bytes up, {down} down")
            }
            Event::Left { client } => write!(f, "{client} has gone"),
        }
    }
}

/// What the tasks of a gateway share.
struct Shared {
    config: GatewayConfig,
    counts: Counts,
    own: RwLock<Arc<[IpAddr]>>,
    /// The prefixes of this network's translators.
    nat64: RwLock<Arc<[Prefix]>>,
    report: Box<dyn Fn(Event) + Send + Sync>,
    stopped: watch::Receiver<()>,
}

/// Serves the sessions that come to `server`, which should be one by [`Limits::acceptor`], until it is
/// closed, or until `stop` is ready: then all sessions are closed, so that their clients learn of it at once.
/// `report` is called with each event and must not block. Dropping the future ends all sessions.
///
/// # Errors
/// The system does not report this machine's addresses; the server was closed.
pub async fn serve(
    server: Server,
    config: GatewayConfig,
    report: impl Fn(Event) + Send + Sync + 'static,
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
    // Nobody is served before it is known what this network's translators lead to.
    shared.find_translators().await;
    let mut sessions = JoinSet::new();
    let mut is_watched = true;
    let mut checks = tokio::time::interval(TRANSLATOR_CHECK_INTERVAL);
    checks.reset();
    loop {
        tokio::select! {
            session = server.accept() => {
                let session = session?;
                // A session whose only carrier is gone already has no address, and will soon be gone.
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
    /// Waits until the gateway is to end.
    async fn stopped(&self) {
        // Its sender is dropped then, and sends nothing before.
        let _ = self.stopped.clone().changed().await;
    }

    /// Logs an event in words, and reports it to the operator.
    fn report(&self, event: Event) {
        match event {
            Event::Accepted { .. } | Event::Refused { .. } | Event::Left { .. } => {
                tracing::info!("{event}");
            }
            Event::Connected { .. } | Event::Denied { .. } | Event::Ended { .. } => {
                tracing::debug!("{event}");
            }
        }
        (self.report)(event);
    }

    /// Asks by which prefixes this network's translators are reached (RFC 7050). What was known stays when
    /// no name server answers.
    async fn find_translators(&self) {
        let asked = timeout(self.config.limits.connect, self.config.resolver.nat64()).await;
        if let Ok(Ok(prefixes)) = asked {
            *self.nat64.write() = prefixes.into();
        }
    }
}

/// How often it is asked for translators.
const TRANSLATOR_CHECK_INTERVAL: std::time::Duration = std::time::Duration::from_secs(600);

async fn close_at_once(session: &Session) {
    // Its end is what matters; that it is not an end by agreement is no news.
    let _ = timeout(FAREWELL, session.close(UNAUTHENTICATED)).await;
}

/// How long the end of a session may take to arrive.
const FAREWELL: std::time::Duration = std::time::Duration::from_secs(1);

/// A session from its beginning to its end.
async fn host(shared: Arc<Shared>, session: Session, mut unproven: UnprovenPlace) {
    let limits = &shared.config.limits;
    let (mut waiting, proved) = (Vec::new(), Notify::new());
    let authenticated = timeout(limits.request_timeout, async {
        let mut greeting = pin!(greet(&shared, &session, &mut waiting, &proved));
        match unproven.hold_until(proved.notified(), &mut greeting).await {
            Held::Done(result) => result,
            Held::Proved => greeting.await,
            Held::Evicted => Err("it had not authenticated when others needed its place".into()),
        }
    });
    let authenticated = authenticated
        .await
        .unwrap_or_else(|_| Err("it did not authenticate in time".into()));
    let (client, place) = match authenticated {
        Ok(known) => known,
        Err(why) => {
            shared.report(Event::Refused { why });
            // Streams are given up before the session: nobody waits for them.
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
    shared.report(Event::Accepted { client: client.clone() });
    let visit = Visit {
        shared: shared.clone(),
        client: client.clone(),
        place,
        stops: Mutex::default(),
    };
    let is_replaced = Arc::new(visit).host(&session, waiting).await;
    match is_replaced {
        // Nobody is there to agree.
        true => close_at_once(&session).await,
        // Both sides know that it is over, or will.
        false => drop(timeout(FAREWELL, session.close(0)).await),
    }
    shared.report(Event::Left { client });
}

/// Reads the greeting, reports by `proved` that the client's token is known, and answers. Streams that come
/// in the meantime wait in `waiting`.
async fn greet(
    shared: &Shared,
    session: &Session,
    waiting: &mut Vec<SessionStream>,
    proved: &Notify,
) -> Result<(Arc<str>, Place), String> {
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
            .ok_or("its token is nobody's")?;
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

/// A client's session.
struct Visit {
    shared: Arc<Shared>,
    client: Arc<str>,
    place: Place,
    /// Streams that are served, and what is called when the client wants no more of one.
    stops: Mutex<HashMap<u32, Arc<Notify>>>,
}

impl Visit {
    /// Serves the session's streams until it ends, nobody has opened one for too long, or another of the
    /// client's sessions has its place: then it returns true. What is still connected then is reset: the end
    /// of a session is not the end of what a client had to send.
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

    /// One stream: its request, its connection, its bytes.
    async fn serve(&self, mut stream: SessionStream, stop: &Notify, _place: StreamPlace) {
        let Shared { config, own, nat64, .. } = &*self.shared;
        let limits = &config.limits;
        let request = match timeout(limits.request_timeout, Request::read(&mut stream)).await {
            Ok(Ok(request)) => request,
            Ok(Err(error)) => return self.refuse(stream, None, error.reply(), error.to_string()).await,
            Err(_) => {
                return self
                    .refuse(stream, None, Reply::Failure, "no request came in time".into())
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
            // The client does not want it any more.
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
                .report(Event::Connected { client, destination, address });
        }
        // Small writes are the client's matter; they are not held back once more here.
        let _ = onwards.set_nodelay(true);
        let answered = timeout(
            limits.request_timeout,
            stream.write_all(&[Reply::Succeeded.code()]),
        )
        .await;
        let (end, carried) = match answered {
            Ok(Ok(())) => relay(&mut stream, &mut onwards, limits.idle, stop.notified()).await,
            _ => (End::ByClient, Carried::default()),
        };
        if end != End::Finished {
            // What is dropped without a FIN is reset (RFC 9293, 3.10.5); so is the stream.
            let _ = onwards.set_zero_linger();
            let _ = stream.reset(RESET);
        }
        self.shared
            .report(Event::Ended { client: self.client.clone(), destination, carried, end });
    }

    async fn refuse(
        &self,
        mut stream: SessionStream,
        destination: Option<Destination>,
        reply: Reply,
        why: String,
    ) {
        self.deny(destination, reply, why);
        // The stream's end follows the answer when it is dropped.
        let _ = timeout(
            self.shared.config.limits.request_timeout,
            stream.write_all(&[reply.code()]),
        )
        .await;
    }

    fn deny(&self, destination: Option<Destination>, reply: Reply, why: String) {
        self.shared
            .report(Event::Denied { client: self.client.clone(), destination, reply, why });
    }
}
