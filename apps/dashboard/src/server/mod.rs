//! The page's server: HTTP/1.1 on loopback.
//!
//! * `guard`: who is served; `pages`: the files of the page; `stream`: what changes, as server-sent
//!   events (WHATWG HTML, 9.2)
//!
//! | request, behind the token | what it does |
//! |---|---|
//! | `GET /` and the page's files | the page |
//! | `GET /state` | all that is shown, as JSON |
//! | `GET /events` | the same, and then what changes |
//! | `POST /switch` `{"id": "sctp", "on": false}` | a switch is set |
//! | `POST /download` `{"setup": "sctp", "mib": 16}` | a download begins |

mod guard;
mod pages;
mod stream;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hawser::places::{Gate, Held, Place, Shares};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::feed::{Controls, Feed};
use guard::{Guard, Refusal};

/// Connections at once that have not shown the token. The oldest makes room for another.
const NEWCOMERS: usize = 64;
/// Connections at once that have, those that follow included. The oldest makes room for another.
const CLIENTS: usize = 64;
/// How long a client may take to send its request.
const HEAD_IN: Duration = Duration::from_secs(10);
/// Bytes of a request's body, at most.
const BODY_BYTES: usize = 1024;
/// How long nothing is accepted after accepting failed: descriptors come back as others end.
const PAUSE: Duration = Duration::from_millis(50);

/// Of every answer. Nothing of other origins is loaded or may load this; no address is passed on, since
/// the token is in it.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum DashboardError {
    /// Others than this host's users could reach it.
    #[error("the page is for this host alone; listen on 127.0.0.1 or [::1], not on {0}")]
    Open(SocketAddr),
    /// The system does not permit it.
    #[error("the page cannot be served: {0}")]
    System(#[from] io::Error),
}

/// A page that is served.
pub struct Dashboard {
    listener: std::net::TcpListener,
    shared: Arc<Shared>,
}

/// What all clients share.
struct Shared {
    guard: Guard,
    feed: Feed,
    controls: Arc<dyn Controls>,
}

impl Dashboard {
    /// A page of this feed. The listener may come from another network namespace than the caller is in.
    ///
    /// # Errors
    /// A listener that others can reach, or a system without random numbers for the token.
    pub fn new(
        listener: std::net::TcpListener,
        feed: Feed,
        controls: Arc<dyn Controls>,
    ) -> Result<Dashboard, DashboardError> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            return Err(DashboardError::Open(address));
        }
        listener.set_nonblocking(true)?;
        let guard = Guard::new(address)?;
        Ok(Dashboard { listener, shared: Arc::new(Shared { guard, feed, controls }) })
    }

    /// Where the page is. Who knows it may switch: it is a secret.
    #[must_use]
    pub fn url(&self) -> String {
        self.shared.guard.url()
    }

    /// Serves until `stop` is ready. Call it within a runtime of tokio with time and I/O.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        // A listener that was made by the system and is none any more cannot be served.
        let Ok(listener) = TcpListener::from_std(self.listener) else {
            return;
        };
        let (newcomers, known) = [NEWCOMERS, CLIENTS]
            .map(|count| Gate::new(Shares::unshared(count)))
            .into();
        let mut clients = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some(_) = clients.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        let (place, known) = (newcomers.enter(peer.ip()), known.clone());
                        clients.spawn(serve(Arc::clone(&self.shared), stream, peer.ip(), place, known));
                    }
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
            }
        }
        // Those that follow would never end by themselves.
        clients.shutdown().await;
    }
}

/// Serves a connection: with a place among newcomers until it has shown the token, and then with one among
/// those that are known.
async fn serve(shared: Arc<Shared>, stream: TcpStream, peer: IpAddr, mut place: Place, known: Gate) {
    // What changes is small, and is not to wait for more.
    let _ = stream.set_nodelay(true);
    let admitted = Notify::new();
    let service = service_fn(|request| {
        let (shared, admitted) = (Arc::clone(&shared), &admitted);
        async move { Ok::<_, Infallible>(answer(&shared, request, admitted).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_IN)
        // A client that has sent all may still wait for the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let held = place.hold_until(admitted.notified(), &mut connection).await;
    // A client that breaks off is gone, and needs no report.
    if matches!(held, Held::Proved) {
        place = known.enter(peer);
        let _ = place.hold(connection).await;
    }
}

async fn answer(shared: &Shared, request: Request<Incoming>, admitted: &Notify) -> Answer {
    let judged = shared.guard.admit(&request);
    if judged.is_ok() {
        admitted.notify_one();
    }
    let mut answer = match judged {
        Err(Refusal { status, why }) => text(status, why),
        // The library sends no content in answer to HEAD.
        Ok(path) => match (request.method(), path) {
            (&Method::POST, "switch") => ordered(shared.switch(request).await),
            (&Method::POST, "download") => ordered(shared.download(request).await),
            (_, "switch" | "download") => not_allowed("POST"),
            (&Method::GET | &Method::HEAD, "state") => content(
                "application/json",
                shared.feed.snapshot().data.as_bytes().to_vec(),
            ),
            (&Method::GET | &Method::HEAD, "events") => stream::answer(shared.feed.clone()),
            (&Method::GET | &Method::HEAD, path) => match pages::find(path) {
                Some(page) => content(page.kind, page.content),
                None => text(StatusCode::NOT_FOUND, "there is no such page"),
            },
            _ => not_allowed("GET, HEAD"),
        },
    };
    answer
        .headers_mut()
        .extend(HEADERS.map(|(name, value)| (Some(name), value)));
    answer
}

/// Says which methods a path has (RFC 9110, 15.5.6).
fn not_allowed(methods: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, methods);
    let methods = HeaderValue::from_static(methods);
    answer.headers_mut().insert(header::ALLOW, methods);
    answer
}

/// An order for a switch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchOrder {
    id: String,
    on: bool,
}

/// An order for a download.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DownloadOrder {
    setup: String,
    mib: u32,
}

/// Why an order is not carried out.
type Wrong = (StatusCode, String);

impl Shared {
    async fn switch(&self, request: Request<Incoming>) -> Result<(), Wrong> {
        let order: SwitchOrder = read(request).await?;
        if !self.feed.has_switch(&order.id) {
            return Err((StatusCode::NOT_FOUND, "there is no such switch".to_owned()));
        }
        let controls = Arc::clone(&self.controls);
        carry_out(move || controls.switch(&order.id, order.on)).await
    }

    async fn download(&self, request: Request<Incoming>) -> Result<(), Wrong> {
        let order: DownloadOrder = read(request).await?;
        if !self.feed.offers(&order.setup, order.mib) {
            return Err((StatusCode::NOT_FOUND, "no such download is offered".to_owned()));
        }
        let controls = Arc::clone(&self.controls);
        carry_out(move || controls.download(&order.setup, order.mib)).await
    }
}

async fn read<T: serde::de::DeserializeOwned>(request: Request<Incoming>) -> Result<T, Wrong> {
    let wrong = |why: String| (StatusCode::BAD_REQUEST, why);
    let body = Limited::new(request.into_body(), BODY_BYTES).collect();
    let body = tokio::time::timeout(HEAD_IN, body).await;
    let body = body.map_err(|_| wrong("the order did not come in time".to_owned()))?;
    let body = body.map_err(|error| wrong(error.to_string()))?;
    hawser_documents::json_bytes(&body.to_bytes()).map_err(|fault| wrong(fault.to_string()))
}

async fn carry_out(order: impl FnOnce() -> Result<(), String> + Send + 'static) -> Result<(), Wrong> {
    match tokio::task::spawn_blocking(order).await {
        Ok(done) => done.map_err(|why| (StatusCode::CONFLICT, why)),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

fn ordered(result: Result<(), Wrong>) -> Answer {
    match result {
        Ok(()) => content("application/json", "{}"),
        Err((status, why)) => text(status, &why),
    }
}

fn text(status: StatusCode, why: &str) -> Answer {
    let mut answer = content("text/plain; charset=utf-8", format!("{why}\n"));
    *answer.status_mut() = status;
    answer
}

fn content(kind: &'static str, content: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(content.into()).boxed());
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
