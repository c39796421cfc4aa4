//! The page's server: HTTP/1.1 on loopback.
//!
//! * `guard`: the admission of requests; `pages`: the files of the page; `stream`: changes, as server-sent
//!   events (WHATWG HTML, 9.2)
//!
//! | request, after the token | effect |
//! |---|---|
//! | `GET /` and the page's files | the page |
//! | `GET /state` | the complete state, as JSON |
//! | `GET /events` | the complete state, and then changes |
//! | `POST /switch` `{"id": "sctp", "on": false}` | sets a switch |
//! | `POST /download` `{"setup": "sctp", "mib": 16}` | starts a download |

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

use hawser::session::admission::{AdmissionGate, AdmissionPermit, EvictionReason, Shares};
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

/// The maximum number of connections that have not shown the token. The oldest is dropped to admit another.
const NEWCOMERS: usize = 64;
/// The maximum number of connections that have shown it, including those that follow changes. The oldest is
/// dropped to admit another.
const CLIENTS: usize = 64;
/// The time in which a client must send its request.
const HEAD_IN: Duration = Duration::from_secs(10);
/// The maximum length of a request's body, in bytes.
const BODY_BYTES: usize = 1024;
/// The pause after a failed accept. Descriptors become available again when other connections end.
const PAUSE: Duration = Duration::from_millis(50);

/// The headers of every answer. The page loads no content from other origins and cannot be loaded by them.
/// Its address is never sent as a referrer, because it contains the token.
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

/// A page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DashboardError {
    /// Users of other hosts could reach it.
    #[error("the page is for this host only; listen on 127.0.0.1 or [::1], not on {0}")]
    Open(SocketAddr),
    /// The system refused it.
    #[error("cannot serve the page: {0}")]
    System(#[from] io::Error),
}

/// The server of a page.
pub struct Dashboard {
    listener: std::net::TcpListener,
    shared: Arc<Shared>,
}

/// The state that all clients share.
struct Shared {
    guard: Guard,
    feed: Feed,
    controls: Arc<dyn Controls>,
}

impl Dashboard {
    /// Creates a page of this feed. The listener may come from another network namespace than the caller's.
    ///
    /// # Errors
    /// Fails if other hosts can reach the listener, or if the system has no random numbers for the token.
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

    /// Returns the page's URL. It is a secret, because everyone who knows it can use the switches.
    #[must_use]
    pub fn url(&self) -> String {
        self.shared.guard.url()
    }

    /// Serves until `stop` is ready. It must be called within a tokio runtime with time and I/O.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        // This fails only if the listener is no longer valid, and then it cannot be served.
        let Ok(listener) = TcpListener::from_std(self.listener) else {
            return;
        };
        let (newcomers, known) = [NEWCOMERS, CLIENTS]
            .map(|count| AdmissionGate::new(Shares::unshared(count)))
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
        // Clients that follow changes would never end by themselves.
        clients.shutdown().await;
    }
}

/// Serves a connection. It has a place among the newcomers until it has shown the token, and then one among
/// the known clients.
async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: IpAddr,
    mut place: AdmissionPermit,
    known: AdmissionGate,
) {
    // Changes are small and must not be delayed.
    let _ = stream.set_nodelay(true);
    let admitted = Notify::new();
    let service = service_fn(|request| {
        let (shared, admitted) = (Arc::clone(&shared), &admitted);
        async move { Ok::<_, Infallible>(answer(&shared, request, admitted).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_IN)
        // A client that has finished sending may still wait for the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let held = place.hold_until(admitted.notified(), &mut connection).await;
    // A client that disconnects early needs no report.
    if matches!(held, EvictionReason::Proved) {
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
        // hyper sends no content in answer to HEAD.
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
                None => text(StatusCode::NOT_FOUND, "this page does not exist"),
            },
            _ => not_allowed("GET, HEAD"),
        },
    };
    answer
        .headers_mut()
        .extend(HEADERS.map(|(name, value)| (Some(name), value)));
    answer
}

/// Answers with the allowed methods of a path (RFC 9110, 15.5.6).
fn not_allowed(methods: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, methods);
    let methods = HeaderValue::from_static(methods);
    answer.headers_mut().insert(header::ALLOW, methods);
    answer
}

/// The body of a request that sets a switch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchOrder {
    id: String,
    on: bool,
}

/// The body of a request for a download.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DownloadOrder {
    setup: String,
    mib: u32,
}

/// The status and message for an order that fails.
type ErrorResponse = (StatusCode, String);

impl Shared {
    async fn switch(&self, request: Request<Incoming>) -> Result<(), ErrorResponse> {
        let order: SwitchOrder = read(request).await?;
        if !self.feed.has_switch(&order.id) {
            return Err((StatusCode::NOT_FOUND, "this switch does not exist".to_owned()));
        }
        let controls = Arc::clone(&self.controls);
        carry_out(move || controls.switch(&order.id, order.on)).await
    }

    async fn download(&self, request: Request<Incoming>) -> Result<(), ErrorResponse> {
        let order: DownloadOrder = read(request).await?;
        if !self.feed.offers(&order.setup, order.mib) {
            return Err((StatusCode::NOT_FOUND, "this download is not offered".to_owned()));
        }
        let controls = Arc::clone(&self.controls);
        carry_out(move || controls.download(&order.setup, order.mib)).await
    }
}

async fn read<T: serde::de::DeserializeOwned>(request: Request<Incoming>) -> Result<T, ErrorResponse> {
    let wrong = |why: String| (StatusCode::BAD_REQUEST, why);
    let body = Limited::new(request.into_body(), BODY_BYTES).collect();
    let body = tokio::time::timeout(HEAD_IN, body).await;
    let body = body.map_err(|_| wrong("the order did not arrive in time".to_owned()))?;
    let body = body.map_err(|error| wrong(error.to_string()))?;
    hawser_documents::json_bytes(&body.to_bytes()).map_err(|fault| wrong(fault.to_string()))
}

async fn carry_out(order: impl FnOnce() -> Result<(), String> + Send + 'static) -> Result<(), ErrorResponse> {
    match tokio::task::spawn_blocking(order).await {
        Ok(done) => done.map_err(|why| (StatusCode::CONFLICT, why)),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

fn ordered(result: Result<(), ErrorResponse>) -> Answer {
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
