//! A client of HTTP: tunnels, and requests that are forwarded, each to its own origin.
//!
//! hyper reads and writes heads, and bounds them in bytes and time. `line` adds output that hyper's services
//! cannot send.

mod line;
pub(crate) mod request;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hawser::connect::{ConnectError, Connected};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use crate::answer;
use crate::connection::{Client, ParsedRequest};
use crate::event::{Protocol, ServerEvent};
use crate::relay::relay;

use line::{ClientConnection, SharedConnection, Until};
use request::{Forward, Refusal, RequestKind};

type Body = BoxBody<Bytes, hyper::Error>;
type Answer = Response<Body>;

/// The time in which an origin should ask for a body that the client holds back.
const CONTINUE_IN: Duration = Duration::from_secs(1);

/// The maximum number of interim answers of an origin that wait to be passed on. Further ones are dropped.
const MAX_INTERIMS: usize = 8;

/// The maximum number of fields of a head, from a client or an origin.
const MAX_FIELDS: usize = 128;
/// The maximum length of the head of an origin's answer, in bytes.
const ANSWER_BYTES: usize = 64 * 1024;

/// A tunnel that was promised to the client, and that begins when the answer has been sent.
struct Tunnel {
    upgrade: OnUpgrade,
    asked: ParsedRequest,
    connected: Connected,
    began: Instant,
}

/// Serves a client from its first byte to its last.
pub(crate) async fn serve(client: &Client, stream: TcpStream) {
    let limits = client.front.settings.limits;
    let promised: Arc<Mutex<Option<Tunnel>>> = Arc::default();
    let line = SharedConnection::default();
    let service = service_fn(|request| {
        let (promised, line) = (Arc::clone(&promised), line.clone());
        async move {
            let answering = line.answering();
            let answer = answer(client, request, &promised, &line).await;
            Ok::<_, Infallible>(answer.map(|body| Until { body, _ends: answering }))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_bytes.max(8192))
        .max_headers(MAX_FIELDS)
        // A client that has finished sending may still wait for the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(ClientConnection::new(stream, line.clone())), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let mut stopping = client.stopping.clone();
    // An error means that the proxy has gone, which counts as stopping.
    let stop = async { stopping.wait_for(|stopping| *stopping).await.is_ok() };
    let ended = tokio::select! {
        ended = &mut connection => ended,
        _ = stop => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        client.rejected(with_causes(&error));
    }
    let tunnel = promised.lock().take();
    if let Some(tunnel) = tunnel {
        tunnel.run().await;
    }
}

impl Tunnel {
    async fn run(self) {
        // The upgrade fails if the client left before it was answered.
        let Ok(upgraded) = self.upgrade.await else { return };
        let Ok(parts) = upgraded.downcast::<TokioIo<ClientConnection>>() else {
            return;
        };
        let candidate = self.connected.candidate.clone();
        let half_open = self.asked.front.settings.limits.half_open;
        let client = parts.io.into_inner().into_stream();
        let relayed = relay(client, &parts.read_buf, self.connected, half_open).await;
        self.asked.closed(candidate, relayed, self.began);
    }
}

async fn answer(
    client: &Client,
    request: Request<Incoming>,
    promised: &Mutex<Option<Tunnel>>,
    line: &SharedConnection,
) -> Answer {
    if let Some(credential) = &client.front.settings.credential {
        let given = request.headers().get(header::PROXY_AUTHORIZATION);
        if !given.is_some_and(|given| credential.admits_header(given.as_bytes())) {
            client.rejected("the request has no accepted credential");
            return unauthenticated();
        }
    }
    let understood = request::check_host(request.version(), request.headers())
        .and_then(|()| request::understand(request.method(), request.uri()));
    match understood {
        Err(Refusal { status, why }) => {
            client.rejected(why.as_str());
            problem(status, "http_request_error", &why)
        }
        Ok(RequestKind::Tunnel(destination)) => {
            let began = Instant::now();
            let asked = client.asked(Protocol::Connect, &destination);
            match asked.race(destination).await {
                Err(error) => failed(&error),
                Ok(connected) => {
                    let tunnel = Tunnel { upgrade: hyper::upgrade::on(request), asked, connected, began };
                    *promised.lock() = Some(tunnel);
                    Response::new(nothing())
                }
            }
        }
        Ok(RequestKind::Forward(forward)) => forwarded(client, request, forward, line).await,
        Ok(RequestKind::Nothing) => Response::new(nothing()),
    }
}

/// Forwards a request to its origin, over a connection of its own.
async fn forwarded(
    client: &Client,
    mut request: Request<Incoming>,
    forward: Forward,
    line: &SharedConnection,
) -> Answer {
    let method = request.method().clone();
    if request::is_last_hop(&method, request.headers_mut()) {
        return Response::new(nothing());
    }
    let asked = client.asked(Protocol::Http, &forward.destination);
    let connected = match asked.race(forward.destination).await {
        Ok(connected) => connected,
        Err(error) => return failed(&error),
    };
    let candidate = connected.candidate.clone();
    let version = request.version();
    *request.uri_mut() = forward.path;
    *request.version_mut() = Version::HTTP_11;
    request::strip(request.headers_mut());
    request::via(request.headers_mut(), version);
    request.headers_mut().insert(header::HOST, forward.host);
    let limit = asked.front.settings.limits.answer;
    let (request, interims, answered) = listen(request, version);
    let exchanged = tokio::time::timeout(limit, exchange(connected, request));
    match with_interims(exchanged, interims, line).await {
        Err(_) => {
            let why = format!("the origin did not answer in {} s", limit.as_secs());
            problem(StatusCode::GATEWAY_TIMEOUT, "http_response_timeout", &why)
        }
        // The switch was not requested (RFC 9110, 15.2.2), because `Upgrade` is not passed on.
        Ok(Ok(response)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
            let why = "the origin switched protocols without a request";
            problem(StatusCode::BAD_GATEWAY, "http_protocol_error", why)
        }
        Ok(Ok(mut response)) => {
            let version = response.version();
            request::strip(response.headers_mut());
            request::via(response.headers_mut(), version);
            asked.publish(ServerEvent::Served { candidate, status: response.status().as_u16() });
            response.map(|body| Until { body, _ends: answered }.boxed())
        }
        Ok(Err(error)) => {
            let why = format!("the origin closed the connection: {}", with_causes(&error));
            problem(StatusCode::BAD_GATEWAY, "http_response_incomplete", &why)
        }
    }
}

/// Prepares a request for forwarding. Returns it with the interim answers to pass on, and a value to be
/// dropped at the end of its answer. Interim answers are those that the client can understand (RFC 9110,
/// 15.2), except for 100.
///
/// If the client holds its body back until it is asked for, the body is requested only when the origin asks
/// for it (RFC 9110, 10.1.1). The origin may refuse the body unseen. hyper sends 100 on the origin's behalf.
fn listen(
    request: Request<Incoming>,
    version: Version,
) -> (Request<Body>, mpsc::Receiver<Vec<u8>>, oneshot::Sender<()>) {
    let (resume, resumed) = oneshot::channel::<()>();
    let (answer, answered) = oneshot::channel::<()>();
    let is_held = request::expects_continue(request.version(), request.headers());
    let resumed = async {
        match tokio::time::timeout(CONTINUE_IN, resumed).await {
            // The answer came first, so the body is not wanted, and its place in the connection stays empty.
            Ok(Err(_)) => {
                let _ = answered.await;
                false
            }
            // After the timeout the body is sent, because some origins do not know the mechanism.
            Ok(Ok(())) | Err(_) => true,
        }
    };
    let mut request = match is_held {
        true => request.map(|body| DeferredBody { body, resumed: Some(Box::pin(resumed)) }.boxed()),
        false => request.map(BodyExt::boxed),
    };
    let resume = Mutex::new(Some(resume));
    let (pass, passed) = mpsc::channel(MAX_INTERIMS);
    hyper::ext::on_informational(&mut request, move |response| {
        if response.status() == StatusCode::CONTINUE {
            resume.lock().take().map(|resume| resume.send(()));
        } else if version >= Version::HTTP_11 {
            // If there are too many at once, the client does not get them.
            let _ = pass.try_send(request::interim(
                response.status(),
                response.version(),
                response.headers(),
            ));
        }
    });
    (request, passed, answer)
}

/// Waits for the exchange's result, and for the departure of the interim answers that preceded it.
async fn with_interims<T>(
    exchange: impl Future<Output = T>,
    mut interims: mpsc::Receiver<Vec<u8>>,
    line: &SharedConnection,
) -> T {
    let mut exchange = std::pin::pin!(exchange);
    let result = loop {
        tokio::select! {
            biased;
            Some(head) = interims.recv() => line.interim(&head).await,
            result = &mut exchange => break result,
        }
    };
    while let Ok(head) = interims.try_recv() {
        line.interim(&head).await;
    }
    result
}

/// A body that is read only when it is known to be wanted.
struct DeferredBody {
    body: Incoming,
    resumed: Option<Pin<Box<dyn Future<Output = bool> + Send + Sync>>>,
}

impl hyper::body::Body for DeferredBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(resumed) = &mut self.resumed {
            let is_wanted = ready!(resumed.as_mut().poll(context));
            if !is_wanted {
                // The body is too short, so hyper closes the connection.
                return Poll::Ready(None);
            }
            self.resumed = None;
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn exchange(connected: Connected, request: Request<Body>) -> Result<Response<Incoming>, hyper::Error> {
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.max_buf_size(ANSWER_BYTES).max_headers(MAX_FIELDS);
    let (mut sender, connection) = builder.handshake(TokioIo::new(connected.stream)).await?;
    // The connection's task ends when the answer's body ends or is dropped.
    tokio::spawn(connection);
    sender.send_request(request).await
}

/// Answers a request whose race failed.
fn failed(error: &ConnectError) -> Answer {
    let (status, kind) = answer::status(error.failure);
    problem(status, kind, &error.to_string())
}

/// Builds an answer of the proxy's own, which names the proxy (RFC 9209).
fn problem(status: StatusCode, kind: &'static str, why: &str) -> Answer {
    let body = Full::from(format!("{why}\n"))
        .map_err(|never| match never {})
        .boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    if let Ok(value) = HeaderValue::try_from(format!("hawser; error={kind}")) {
        headers.insert("proxy-status", value);
    }
    response
}

fn unauthenticated() -> Answer {
    let why = "this proxy requires a credential";
    let mut response = problem(
        StatusCode::PROXY_AUTHENTICATION_REQUIRED,
        "http_request_denied",
        why,
    );
    let value = HeaderValue::from_static("Basic realm=\"hawser\", charset=\"UTF-8\"");
    response.headers_mut().insert(header::PROXY_AUTHENTICATE, value);
    // A client that guesses must reconnect for each guess, and holds no place in between.
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn nothing() -> BoxBody<Bytes, hyper::Error> {
    Empty::new().map_err(|never| match never {}).boxed()
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
