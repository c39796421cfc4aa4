//! An HTTP/1.1 file server and client on hyper, over any byte stream.

mod files;
mod hosts;
mod listing;
mod version;
mod write_timeout;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{
    ACCEPT_RANGES, ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HOST, HeaderValue,
    RANGE,
};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::task::JoinSet;

pub(crate) use files::{Exposure, Root, SentBytes};
use files::{FileReader, ResolvedPath};
pub(crate) use hosts::Hosts;
use hosts::Judged;
use listing::Listing;
use version::Version;
use write_timeout::WriteTimeout;

/// The maximum number of requests on one connection, the default of nginx's `keepalive_requests`.
const MAX_REQUESTS: u32 = 1_000;
/// The maximum length, in characters, of a path in the log.
const MAX_PATH: usize = 256;

/// The maximum number of bytes of requests and responses that a connection buffers, besides one piece of a
/// file or listing.
const MAX_BUFFER: usize = 128 << 10;

/// The time in which a client must send a request, and after an answer the next one.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// The time for which a response may make no progress before it is aborted. It sets the minimum rate at which
/// a client must read. The connection accepts more data when a quarter of its buffer has drained (32 KiB at
/// first), so the rate is about 500 bytes per second.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// The time in which a server should close a connection after its answer.
const GOODBYE: Duration = Duration::from_millis(500);

type FileBody = BoxBody<Bytes, io::Error>;

/// One answered request.
#[derive(Debug, Clone)]
pub(crate) struct AnsweredRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) sent: SentBytes,
}

/// Serves the files below `root`, as one of `hosts`, on one connection until the client closes it. `log`
/// receives each request when its answer begins. After an error other than [`is_of_request`], the caller must
/// abort the stream: a client that does not read would otherwise keep the pending data alive.
pub(crate) async fn serve_connection<S>(
    stream: S,
    root: Arc<Root>,
    hosts: Arc<Hosts>,
    log: impl Fn(AnsweredRequest) + Clone,
) -> Result<(), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let requests = AtomicU32::new(0);
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (root, hosts, log) = (root.clone(), hosts.clone(), log.clone());
        let is_last = requests.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_REQUESTS;
        async move {
            let (mut response, sent) = answer(&root, &hosts, &request).await;
            if is_last {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            log(AnsweredRequest {
                method: request.method().to_string(),
                path: request.uri().path().chars().take(MAX_PATH).collect(),
                status: response.status().as_u16(),
                sent,
            });
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_BUFFER)
        // A client that has finished sending may still wait for the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(WriteTimeout::new(stream, RESPONSE_TIMEOUT)), service)
        .await
}

/// Returns whether an unreadable request ended the connection. An answer to it may still be in flight.
pub(crate) fn is_of_request(error: &hyper::Error) -> bool {
    error.is_parse() || error.is_incomplete_message()
}

/// Returns the response to one request, and the counter of body bytes sent.
async fn answer(
    root: &Arc<Root>,
    hosts: &Hosts,
    request: &Request<Incoming>,
) -> (Response<FileBody>, SentBytes) {
    match hosts.judge(request) {
        Judged::Ours => {}
        Judged::Another => {
            return text(
                StatusCode::MISDIRECTED_REQUEST,
                "the server does not serve this host\n",
            );
        }
        Judged::Bad => return text(StatusCode::BAD_REQUEST, "the request needs exactly one Host\n"),
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let (mut response, sent) = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed); // RFC 9110, 15.5.6
        return (response, sent);
    }
    let Some(path) = resolve(request.uri().path()) else {
        return text(StatusCode::FORBIDDEN, "the file does not exist\n");
    };
    match root.find(&path).await {
        Ok(ResolvedPath::File(opened, size)) => file(request, opened, size)
            .unwrap_or_else(|_| text(StatusCode::FORBIDDEN, "the server cannot read the file\n")),
        Ok(ResolvedPath::Folder(folder)) => list(folder, root, &path)
            .unwrap_or_else(|_| text(StatusCode::FORBIDDEN, "the server cannot read the file\n")),
        Ok(ResolvedPath::Other) => text(StatusCode::FORBIDDEN, "the path is not a readable file\n"),
        Err(error) if is_passing(&error) => text(StatusCode::SERVICE_UNAVAILABLE, "try again later\n"),
        Err(_) => text(StatusCode::NOT_FOUND, "not found\n"),
    }
}

/// Returns whether the error is transient: too many open files, no memory, or a disk error.
fn is_passing(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::IO]
        .iter()
        .any(|passing| error.raw_os_error() == Some(passing.raw_os_error()))
}

/// Resolves a request path to a path below the root. Returns `None` if the path leaves the root.
fn resolve(path: &str) -> Option<PathBuf> {
    let decoded: Vec<u8> = percent_encoding::percent_decode_str(path.trim_start_matches('/')).collect();
    let relative = Path::new(OsStr::from_bytes(&decoded));
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    relative
        .components()
        .all(is_plain)
        .then(|| relative.components().collect())
}

fn file(request: &Request<Incoming>, file: File, size: u64) -> io::Result<(Response<FileBody>, SentBytes)> {
    let version = Version::from_metadata(&file.metadata()?);
    let tag = HeaderValue::from_str(&version.0).map_err(io::Error::other)?;
    if let Some(status) = version.precondition(request.headers()) {
        let (mut response, sent) = text(status, "");
        response.headers_mut().insert(ETAG, tag);
        return Ok((response, sent));
    }
    let asked = request
        .headers()
        .get(RANGE)
        .filter(|_| request.method() == Method::GET && version.has_range(request.headers()));
    let asked = asked.and_then(|v| v.to_str().ok());
    let range = match asked.map_or(RequestedRange::Everything, |v| byte_range(v, size)) {
        RequestedRange::Everything => None,
        RequestedRange::Part(first, len) => Some((first, len)),
        RequestedRange::Nothing => {
            let (mut response, sent) = text(
                StatusCode::RANGE_NOT_SATISFIABLE,
                "the file does not contain this range\n",
            );
            let all = HeaderValue::from_str(&format!("bytes */{size}")).map_err(io::Error::other)?;
            response.headers_mut().insert(CONTENT_RANGE, all);
            return Ok((response, sent));
        }
    };
    let (first, len) = range.unwrap_or((0, size));
    let mut response = Response::builder()
        .header(CONTENT_LENGTH, len)
        .header(CONTENT_TYPE, "application/octet-stream")
        .header(ACCEPT_RANGES, "bytes")
        .header(ETAG, tag);
    if range.is_some() {
        let last = (first + len).saturating_sub(1);
        response = response
            .status(StatusCode::PARTIAL_CONTENT)
            .header(CONTENT_RANGE, format!("bytes {first}-{last}/{size}"));
    }
    let sent = SentBytes::default();
    let body = if request.method() == Method::HEAD {
        Empty::new().map_err(|never| match never {}).boxed()
    } else {
        FileReader::new(file, first, len, sent.clone()).boxed()
    };
    Ok((response.body(body).map_err(io::Error::other)?, sent))
}

/// The part of a file that a `Range` header requests.
#[derive(Debug, PartialEq, Eq)]
enum RequestedRange {
    /// The whole file: the request has no range, or the range is ignored.
    Everything,
    /// The offset of the first byte, and the number of bytes.
    Part(u64, u64),
    /// A range that the file cannot satisfy.
    Nothing,
}

/// Parses `bytes=a-b`, `bytes=a-` or `bytes=-n` (RFC 9110, section 14.1.2). Multiple ranges and malformed
/// ranges are ignored.
fn byte_range(value: &str, size: u64) -> RequestedRange {
    let Some((from, to)) = value.strip_prefix("bytes=").and_then(|v| v.split_once('-')) else {
        return RequestedRange::Everything;
    };
    let (first, end) = match (from.parse::<u64>(), to.parse::<u64>()) {
        (Ok(a), Ok(b)) if a <= b => (a, b.saturating_add(1).min(size)),
        (Ok(a), Err(_)) if to.is_empty() => (a, size),
        (Err(_), Ok(n)) if from.is_empty() => (size.saturating_sub(n), size),
        _ => return RequestedRange::Everything,
    };
    if first < end {
        RequestedRange::Part(first, end - first)
    } else {
        RequestedRange::Nothing
    }
}

/// Lists the folder at `path`.
fn list(folder: OwnedFd, root: &Arc<Root>, path: &Path) -> io::Result<(Response<FileBody>, SentBytes)> {
    let parts = path.components().map(|part| part.as_os_str().as_bytes());
    let base: String = parts.map(|part| format!("/{}", listing::encoded(part))).collect();
    let sent = SentBytes::default();
    let names = Listing::new(folder, root.clone(), base, sent.clone())?;
    let mut response = Response::new(names.boxed());
    let kind = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok((response, sent))
}

fn text(status: StatusCode, body: &str) -> (Response<FileBody>, SentBytes) {
    let bytes = Bytes::from(body.to_owned());
    let len = bytes.len() as u64;
    let mut response = Response::new(Full::new(bytes).map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        hyper::header::HeaderValue::from_static("text/plain"),
    );
    (response, SentBytes::new(len))
}

/// Formats an error with its chain of causes.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_causes(cause)),
        None => error.to_string(),
    }
}

/// A download failed.
#[derive(Debug)]
pub(crate) enum GetError {
    /// The stream, or HTTP on it, failed.
    Http(hyper::Error),
    /// The server answered with a status other than success.
    Status(StatusCode),
    /// The request could not be built.
    Request(String),
    /// The sink of the body failed.
    Sink(io::Error),
}

impl std::fmt::Display for GetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GetError::Http(error) => f.write_str(&with_causes(error)),
            GetError::Status(status) => write!(f, "the server answered {status}"),
            GetError::Request(what) => f.write_str(what),
            GetError::Sink(error) => write!(f, "cannot store the download: {error}"),
        }
    }
}

/// Requests `uri` over `stream` and passes the body to `sink` piece by piece. Before the body, `begin`
/// receives its length if the server states it.
pub(crate) async fn get<S>(
    stream: S,
    uri: &Uri,
    begin: impl FnOnce(Option<u64>) -> io::Result<()>,
    mut sink: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<u64, GetError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(GetError::Http)?;
    // The connection's task ends with this future.
    let mut running = JoinSet::new();
    running.spawn(connection.without_shutdown());
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    let authority = uri.authority().map_or("", |a| a.as_str());
    let request = Request::get(path)
        .header(HOST, authority)
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|e| GetError::Request(e.to_string()))?;
    let response = sender.send_request(request).await.map_err(GetError::Http)?;
    // A partial response answers only a range request (RFC 9110, 15.3.7), and this is not one.
    if !response.status().is_success() || response.status() == StatusCode::PARTIAL_CONTENT {
        return Err(GetError::Status(response.status()));
    }
    let mut body = response.into_body();
    begin(body.size_hint().exact()).map_err(GetError::Sink)?;
    let mut total = 0;
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame.map_err(GetError::Http)?.data_ref() {
            total += data.len() as u64;
            sink(data).map_err(GetError::Sink)?;
        }
    }
    drop(sender);
    if let Some(Ok(Ok(parts))) = running.join_next().await {
        await_end(parts.io.into_inner()).await;
    }
    Ok(total)
}

/// Waits until the server has closed the connection, as it was asked to. The side that closes first holds the
/// connection in TIME-WAIT for minutes (RFC 9293, 3.6.1).
async fn await_end(mut stream: impl AsyncRead + Unpin) {
    let mut beyond = [0; 1024];
    let end = async { while stream.read(&mut beyond).await.is_ok_and(|len| len > 0) {} };
    let _ = tokio::time::timeout(GOODBYE, end).await;
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tokio::io::AsyncWriteExt;

    use super::*;

    fn root(path: impl AsRef<Path>) -> Arc<Root> {
        Arc::new(Root::open(path.as_ref(), Exposure::default()).expect("a folder"))
    }

    fn localhost() -> Arc<Hosts> {
        Arc::new(Hosts::new([], ["localhost".to_owned()]))
    }

    #[test]
    fn byte_ranges_match_the_examples_of_rfc_9110() {
        // The examples of section 14.1.2 for a representation of 10,000 bytes.
        assert_eq!(byte_range("bytes=0-499", 10_000), RequestedRange::Part(0, 500));
        assert_eq!(
            byte_range("bytes=500-999", 10_000),
            RequestedRange::Part(500, 500)
        );
        assert_eq!(byte_range("bytes=-500", 10_000), RequestedRange::Part(9_500, 500));
        assert_eq!(
            byte_range("bytes=9500-", 10_000),
            RequestedRange::Part(9_500, 500)
        );
        assert_eq!(
            byte_range("bytes=9500-20000", 10_000),
            RequestedRange::Part(9_500, 500)
        );
        assert_eq!(
            byte_range("bytes=-20000", 10_000),
            RequestedRange::Part(0, 10_000)
        );
        // Section 14.1.1: an unsatisfiable range, or an invalid one.
        for none in ["bytes=10000-", "bytes=10000-10001", "bytes=-0"] {
            assert_eq!(byte_range(none, 10_000), RequestedRange::Nothing, "{none}");
        }
        assert_eq!(byte_range("bytes=5-", 0), RequestedRange::Nothing);
        for ignored in ["bytes=0-0,-1", "bytes=7-3", "bytes=x-", "bytes=", "lines=1-2"] {
            assert_eq!(
                byte_range(ignored, 10_000),
                RequestedRange::Everything,
                "{ignored}"
            );
        }
    }

    #[test]
    fn a_path_resolves_only_below_the_root() {
        let resolved = |path| resolve(path).and_then(|path| Some(path.to_str()?.to_owned()));
        assert_eq!(resolved("/a/b").as_deref(), Some("a/b"));
        assert_eq!(resolved("/a%20b/").as_deref(), Some("a b"));
        assert_eq!(resolved("/").as_deref(), Some(""));
        assert_eq!(resolved("/../etc/passwd"), None);
        assert_eq!(resolved("/%2e%2e/etc/passwd"), None);
        assert_eq!(resolved("//etc/passwd").as_deref(), Some("etc/passwd"));
        assert_eq!(resolved("/%2fetc/passwd"), None);
        let latin1 = resolve("/caf%e9").map(PathBuf::into_os_string);
        assert_eq!(latin1.as_deref(), Some(OsStr::from_bytes(b"caf\xe9")));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_client_is_disconnected() {
        let (_idle, theirs) = tokio::io::duplex(1 << 16);
        let served = serve_connection(theirs, root(env!("CARGO_MANIFEST_DIR")), localhost(), |_| {});
        let limit = HEADER_TIMEOUT + Duration::from_secs(1);
        tokio::time::timeout(limit, served)
            .await
            .expect("an end")
            .expect_err("no request");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_given_up() {
        let folder = hawser_documents::temporary::Folder::new().expect("a folder");
        std::fs::File::create(folder.join("large"))
            .and_then(|f| f.set_len(8 << 20))
            .expect("a file");
        let (mut client, theirs) = tokio::io::duplex(1 << 16);
        let request = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut client, request)
            .await
            .expect("room");
        let served = serve_connection(theirs, root(&*folder), localhost(), |_| {});
        let limit = RESPONSE_TIMEOUT + Duration::from_secs(1);
        let result = tokio::time::timeout(limit, served).await;
        let error = result.expect("an end").expect_err("nobody read");
        assert!(
            with_causes(&error).contains("read nothing for 60 s"),
            "{}",
            with_causes(&error)
        );
    }

    /// The number of requests on a connection is limited, and a client that keeps asking still receives its
    /// last answer.
    #[tokio::test]
    async fn a_connection_ends_after_so_many_requests() {
        let (mut client, theirs) = tokio::io::duplex(1 << 16);
        let served = Rc::new(RefCell::new(Vec::new()));
        let log = |one: AnsweredRequest| served.borrow_mut().push(one);
        let root = root(env!("CARGO_MANIFEST_DIR"));
        let path = "x".repeat(3000);
        let request = format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let asking = async {
            let mut answers = Vec::new();
            for _ in 0..MAX_REQUESTS {
                tokio::io::AsyncWriteExt::write_all(&mut client, request.as_bytes())
                    .await
                    .expect("room");
                let mut chunk = vec![0; 4096];
                let len = tokio::io::AsyncReadExt::read(&mut client, &mut chunk).await;
                answers.extend_from_slice(&chunk[..len.expect("an answer")]);
            }
            tokio::io::AsyncReadExt::read_to_end(&mut client, &mut answers)
                .await
                .expect("the end");
            answers
        };
        let (result, answers) = tokio::join!(serve_connection(theirs, root, localhost(), log), asking);
        result.expect("an orderly end");
        let answers = String::from_utf8_lossy(&answers);
        assert_eq!(answers.matches("HTTP/1.1 404").count(), MAX_REQUESTS as usize);
        assert_eq!(answers.matches("connection: close").count(), 1);
        assert!(served.borrow().iter().all(|one| one.path.len() == MAX_PATH));
    }

    /// RFC 9110, 15.5.6.
    #[tokio::test]
    async fn a_405_answer_lists_the_allowed_methods() {
        let (mut client, theirs) = tokio::io::duplex(1 << 16);
        let request = b"PUT /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut client, request)
            .await
            .expect("room");
        let root = root(env!("CARGO_MANIFEST_DIR"));
        serve_connection(theirs, root, localhost(), |_| {})
            .await
            .expect("an orderly end");
        let mut answer = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut client, &mut answer)
            .await
            .expect("text");
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        assert!(answer.contains("\r\nallow: GET, HEAD\r\n"), "{answer}");
    }

    #[tokio::test]
    async fn a_request_for_another_host_is_misdirected() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve_connection(
            theirs,
            root(env!("CARGO_MANIFEST_DIR")),
            localhost(),
            |_| {},
        ));
        let result = get(
            ours,
            &Uri::from_static("http://rebound.example/"),
            |_| Ok(()),
            |_| Ok(()),
        )
        .await;
        assert!(
            matches!(result, Err(GetError::Status(StatusCode::MISDIRECTED_REQUEST))),
            "{result:?}"
        );
    }

    #[tokio::test]
    async fn an_aborted_download_counts_the_sent_bytes() {
        const SIZE: u64 = 64 << 20;
        const TAKEN: usize = 1 << 20;
        let folder = hawser_documents::temporary::Folder::new().expect("a folder");
        std::fs::File::create(folder.join("large"))
            .and_then(|f| f.set_len(SIZE))
            .expect("a file");
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let served = Rc::new(RefCell::new(Vec::new()));
        let log = |one: AnsweredRequest| served.borrow_mut().push(one);
        let serving = serve_connection(theirs, root(&*folder), localhost(), log);
        let mut left = TAKEN;
        let sink = |data: &[u8]| {
            left = left.saturating_sub(data.len());
            if left == 0 {
                Err(io::Error::other("enough"))
            } else {
                Ok(())
            }
        };
        let getting = async {
            let result = get(
                ours,
                &Uri::from_static("http://localhost/large"),
                |_| Ok(()),
                sink,
            )
            .await;
            assert!(matches!(result, Err(GetError::Sink(_))), "{result:?}");
        };
        let (result, ()) = tokio::join!(serving, getting);
        result.expect_err("the client went away");
        let sent = served.borrow()[0].sent.bytes();
        assert!((TAKEN as u64..SIZE / 8).contains(&sent), "{sent}");
    }

    /// Serves one connection to a client that sends `request` and then closes its half, as `nc -N` does.
    async fn answered(folder: &Path, request: &str) -> (Result<(), hyper::Error>, String) {
        let (mut client, theirs) = tokio::io::duplex(1 << 16);
        let asking = async {
            client.write_all(request.as_bytes()).await.expect("room");
            client.shutdown().await.expect("an end");
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.expect("the end");
            String::from_utf8_lossy(&answer).into_owned()
        };
        tokio::join!(
            serve_connection(theirs, root(folder), localhost(), |_| {}),
            asking
        )
    }

    /// RFC 9112, 9.6: a client may half-close the connection and expect the answer.
    #[tokio::test]
    async fn a_client_that_ends_its_half_is_answered() {
        let folder = hawser_documents::temporary::Folder::new().expect("a folder");
        std::fs::write(folder.join("large"), vec![b'x'; 1 << 20]).expect("a file");
        let (served, answer) = answered(&folder, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        served.expect("an orderly end");
        assert!(
            answer.ends_with('x') && answer.len() > 1 << 20,
            "{} bytes",
            answer.len()
        );
    }

    /// RFC 3986, 2.1: every character that is not unreserved is encoded. Each line leads to its file.
    #[tokio::test]
    async fn names_are_listed_as_paths_that_lead_to_them() {
        let folder = hawser_documents::temporary::Folder::new().expect("a folder");
        let sub = folder.join("a b");
        std::fs::create_dir(&sub).expect("a folder");
        let names: [&[u8]; 4] = [b"100%", b"a\nb", b"caf\xe9", b"\xe2\x80\xaex.txt"];
        for name in names.into_iter().chain([&b".hidden"[..]]) {
            std::fs::write(sub.join(OsStr::from_bytes(name)), "here").expect("a file");
        }
        let (_, answer) = answered(&folder, "GET /a%20b/ HTTP/1.0\r\nHost: localhost\r\n\r\n").await;
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert_eq!(
            body.lines().collect::<Vec<_>>(),
            [
                "/a%20b/100%25",
                "/a%20b/a%0Ab",
                "/a%20b/caf%E9",
                "/a%20b/%E2%80%AEx.txt"
            ]
        );
        for path in body.lines() {
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let (_, answer) = answered(&folder, &request).await;
            assert!(answer.ends_with("here"), "{path}: {answer}");
        }
    }

    /// A listing holds only a few hundred names in memory while its client does not read.
    #[tokio::test]
    async fn a_listing_is_read_as_it_is_sent() {
        let folder = hawser_documents::temporary::Folder::new().expect("a folder");
        for name in 0..5_000 {
            std::fs::File::create(folder.join(format!("{name:0200}"))).expect("a file");
        }
        let (mut client, theirs) = tokio::io::duplex(1 << 12);
        let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        client.write_all(request).await.expect("room");
        let sent = RefCell::new(None);
        let log = |one: AnsweredRequest| *sent.borrow_mut() = Some(one.sent);
        let serving = serve_connection(theirs, root(&*folder), localhost(), log);
        let early = tokio::time::timeout(Duration::from_millis(300), serving).await;
        assert!(early.is_err(), "the client has not read");
        let bytes = sent.borrow().as_ref().map(SentBytes::bytes);
        assert!(bytes.is_some_and(|bytes| bytes < 300_000), "{bytes:?}");
    }

    #[tokio::test]
    async fn only_regular_files_are_opened() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve_connection(theirs, root("/dev"), localhost(), |_| {}));
        let result = get(
            ours,
            &Uri::from_static("http://localhost/zero"),
            |_| Ok(()),
            |_| Ok(()),
        )
        .await;
        assert!(
            matches!(result, Err(GetError::Status(StatusCode::FORBIDDEN))),
            "{result:?}"
        );
    }

    /// The server closes first, so the client has no TIME-WAIT (RFC 9293, 3.6).
    #[tokio::test]
    async fn the_server_closes_first() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        let serving = async {
            let mut request = String::new();
            while !request.ends_with("\r\n\r\n") {
                request.push(char::from(theirs.read_u8().await.expect("a request")));
            }
            assert!(request.contains("connection: close\r\n"), "{request}");
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfile";
            theirs.write_all(answer).await.expect("room");
            let early = tokio::time::timeout(Duration::from_millis(100), theirs.read_u8()).await;
            assert!(early.is_err(), "the client has closed first");
            drop(theirs);
        };
        let uri = Uri::from_static("http://localhost/file");
        let got = get(ours, &uri, |_| Ok(()), |_| Ok(()));
        let (got, ()) = tokio::join!(got, serving);
        assert_eq!(got.ok(), Some(4));
    }

    #[tokio::test]
    async fn a_failed_request_does_not_open_the_output() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let root = root(env!("CARGO_MANIFEST_DIR"));
        tokio::spawn(serve_connection(theirs, root, localhost(), |_| {}));
        let uri = Uri::from_static("http://localhost/there-is-no-such-file");
        let begin = |_| unreachable!("it would empty a file that is there");
        let result = get(ours, &uri, begin, |_| Ok(())).await;
        assert!(
            matches!(result, Err(GetError::Status(StatusCode::NOT_FOUND))),
            "{result:?}"
        );
    }
}
