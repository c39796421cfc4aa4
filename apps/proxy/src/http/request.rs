//! Parses the heads of requests, and separates the parts that are for this proxy alone. All functions are
//! pure.

use hawser::connect::{BadDestination, Destination};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::{PathAndQuery, Scheme};
use hyper::{Method, StatusCode, Uri, Version};

/// The kind of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// A tunnel (RFC 9110, 9.3.6).
    Tunnel(Destination),
    /// An answer of the proxy's own: `OPTIONS *` is about the server that receives it (RFC 9110, 9.3.7).
    Nothing,
    /// A request to be forwarded to its origin (RFC 9112, 3.2.2).
    Forward(Forward),
}

/// A request for an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forward {
    pub(crate) destination: Destination,
    /// The value of `Host` for the origin.
    pub(crate) host: HeaderValue,
    /// The path and query in the form for the origin.
    pub(crate) path: Uri,
}

/// A request that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) why: String,
}

impl Refusal {
    fn new(status: StatusCode, why: impl Into<String>) -> Refusal {
        Refusal { status, why: why.into() }
    }

    fn bad(why: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, why)
    }
}

impl From<BadDestination> for Refusal {
    fn from(error: BadDestination) -> Refusal {
        Refusal::bad(error.to_string())
    }
}

/// Interprets the method and target of a request.
///
/// Only absolute targets are forwarded. A web page that makes a browser send a request here, as to any other
/// server, gets no answer from an origin.
pub(crate) fn understand(method: &Method, target: &Uri) -> Result<RequestKind, Refusal> {
    if method == Method::CONNECT {
        return tunnel(target).map(RequestKind::Tunnel);
    }
    // TRACE would reveal to the client the fields that the proxy adds (RFC 9110, 9.3.8).
    if method == Method::TRACE {
        return Err(Refusal::new(
            StatusCode::NOT_IMPLEMENTED,
            "TRACE is not forwarded",
        ));
    }
    if method == Method::OPTIONS && target == "*" {
        return Ok(RequestKind::Nothing);
    }
    match target.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => forward(method, target).map(RequestKind::Forward),
        Some(scheme) if *scheme == Scheme::HTTPS => Err(Refusal::bad(
            "use CONNECT for https, so that it stays confidential up to the origin",
        )),
        Some(_) => Err(Refusal::bad(
            "only http:// is forwarded; use CONNECT for other protocols",
        )),
        None => Err(Refusal::bad(
            "this is a proxy: request http://HOST/PATH, or CONNECT HOST:PORT",
        )),
    }
}

/// Checks the number of `Host` fields (RFC 9112, 3.2): HTTP/1.1 requires one, and no request may have two.
/// Servers behind this proxy could choose different ones of two.
pub(crate) fn check_host(version: Version, headers: &HeaderMap) -> Result<(), Refusal> {
    match headers.get_all(header::HOST).iter().count() {
        0 if version >= Version::HTTP_11 => {
            Err(Refusal::bad("the request is HTTP/1.1 but has no Host field"))
        }
        0 | 1 => Ok(()),
        count => Err(Refusal::bad(format!("the request has {count} Host fields"))),
    }
}

/// Returns whether the client waits for 100 (Continue) before it sends the body (RFC 9110, 10.1.1).
pub(crate) fn expects_continue(version: Version, headers: &HeaderMap) -> bool {
    let expected = headers
        .get(header::EXPECT)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    expected && version >= Version::HTTP_11
}

fn tunnel(target: &Uri) -> Result<Destination, Refusal> {
    let form = || Refusal::bad("CONNECT needs HOST:PORT");
    let authority = target.authority().ok_or_else(form)?.as_str();
    if target.scheme().is_some() || target.path_and_query().is_some() || authority.contains('@') {
        return Err(form());
    }
    Ok(authority.parse()?)
}

fn forward(method: &Method, target: &Uri) -> Result<Forward, Refusal> {
    let authority = target
        .authority()
        .ok_or_else(|| Refusal::bad("the URL has no host"))?;
    // User information obscures the actual host (RFC 9110, 4.2.4).
    if authority.as_str().contains('@') {
        return Err(Refusal::bad("the target contains a user name"));
    }
    let rest = &authority.as_str()[authority.host().len()..];
    let port = match rest.strip_prefix(':') {
        None | Some("") => 80,
        Some(_) => authority
            .port_u16()
            .ok_or_else(|| Refusal::bad("the port is above 65535"))?,
    };
    let destination = Destination::new(authority.host(), port)?;
    let host =
        HeaderValue::from_str(authority.as_str()).map_err(|_| Refusal::bad("the host is not ASCII"))?;
    Ok(Forward { destination, host, path: Uri::from(origin_form(method, target)?) })
}

/// Returns the target for the origin: an empty path becomes `/` (RFC 9112, 3.2.1), or `*` for `OPTIONS`
/// (3.2.4).
fn origin_form(method: &Method, target: &Uri) -> Result<PathAndQuery, Refusal> {
    if method == Method::OPTIONS && !has_path(target) {
        return Ok(PathAndQuery::from_static("*"));
    }
    match target.path_and_query().map_or("", PathAndQuery::as_str) {
        "" => Ok(PathAndQuery::from_static("/")),
        text => {
            let slash = if text.starts_with('/') { "" } else { "/" };
            format!("{slash}{text}")
                .parse()
                .map_err(|_| Refusal::bad("the path cannot be requested"))
        }
    }
}

/// Returns whether a path follows the authority of an absolute target. A [`Uri`] has the path `/` both for
/// `http://a` and for `http://a/`. Only a path that was in the target is stored directly after the authority.
fn has_path(target: &Uri) -> bool {
    let end = target
        .authority()
        .map(|authority| authority.as_str().as_bytes().as_ptr_range().end);
    let path = target.path_and_query().map(|path| path.as_str().as_ptr());
    end.is_some() && end == path
}

/// Builds the head of an interim answer to be passed on (RFC 9110, 15.2).
pub(crate) fn interim(status: StatusCode, version: Version, headers: &HeaderMap) -> Vec<u8> {
    let mut headers = headers.clone();
    strip(&mut headers);
    via(&mut headers, version);
    let reason = status.canonical_reason().unwrap_or_default();
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).into_bytes();
    for (name, value) in &headers {
        head.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    head.extend(b"\r\n");
    head
}

/// The fields for the next hop alone (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Removes the hop-by-hop fields: the usual ones, and those that `Connection` names.
pub(crate) fn strip(headers: &mut HeaderMap) {
    // Chunked coding applies to this hop only, and a length beside it is an attack (RFC 9112, 6.3).
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // A sender must not be able to remove the fields that define a message's destination and length.
        .filter(|name| *name != header::CONTENT_LENGTH && *name != header::HOST)
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Adds this proxy to the `Via` field (RFC 9110, 7.6.3).
pub(crate) fn via(headers: &mut HeaderMap, version: Version) {
    let version = if version == Version::HTTP_10 {
        "1.0 hawser"
    } else {
        "1.1 hawser"
    };
    headers.append(header::VIA, HeaderValue::from_static(version));
}

/// Decrements `Max-Forwards` for a method that uses it. Returns whether the request ends here (RFC 9110,
/// 7.6.2).
pub(crate) fn is_last_hop(method: &Method, headers: &mut HeaderMap) -> bool {
    if method != Method::OPTIONS {
        return false;
    }
    let left = headers
        .get(header::MAX_FORWARDS)
        .and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
    if let Some(left) = left.and_then(|left| left.checked_sub(1)) {
        headers.insert(header::MAX_FORWARDS, left.into());
    }
    left == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<RequestKind, Refusal> {
        let (method, target) = text.split_once(' ').expect("METHOD TARGET");
        understand(
            &method.parse().expect("a method"),
            &target.parse().expect("a target"),
        )
    }

    #[test]
    fn connect_requests_are_parsed() {
        for (text, expected) in [
            ("CONNECT www.example:443", "www.example:443"),
            ("CONNECT [2001:db8::1]:22", "[2001:db8::1]:22"),
            ("CONNECT 192.0.2.1:1", "192.0.2.1:1"),
        ] {
            match line(text) {
                Ok(RequestKind::Tunnel(destination)) => assert_eq!(destination.to_string(), expected),
                other => panic!("{text}: {other:?}"),
            }
        }
        for text in [
            "CONNECT www.example",
            "CONNECT user@www.example:443",
            "CONNECT http://www.example:443/",
            "CONNECT /path",
            "CONNECT www.example:0",
        ] {
            assert_eq!(
                line(text).expect_err(text).status,
                StatusCode::BAD_REQUEST,
                "{text}"
            );
        }
    }

    /// RFC 9112, 3.2.1 and 3.2.2.
    #[test]
    fn origin_requests_are_parsed() {
        for (text, destination, host, path) in [
            (
                "GET http://www.example/pub/a?b=c",
                "www.example:80",
                "www.example",
                "/pub/a?b=c",
            ),
            (
                "GET http://WWW.Example:8080",
                "www.example:8080",
                "WWW.Example:8080",
                "/",
            ),
            (
                "POST http://[2001:db8::1]:81/",
                "[2001:db8::1]:81",
                "[2001:db8::1]:81",
                "/",
            ),
            ("GET http://www.example?q", "www.example:80", "www.example", "/?q"),
            (
                "GET http://www.example#part",
                "www.example:80",
                "www.example",
                "/",
            ),
            (
                "GET http://www.example/#part",
                "www.example:80",
                "www.example",
                "/",
            ),
            (
                "OPTIONS http://www.example/a",
                "www.example:80",
                "www.example",
                "/a",
            ),
            // RFC 9112, 3.2.4: its example, and targets to which it does not apply.
            (
                "OPTIONS http://www.example.org:8001",
                "www.example.org:8001",
                "www.example.org:8001",
                "*",
            ),
            (
                "OPTIONS http://www.example/",
                "www.example:80",
                "www.example",
                "/",
            ),
            (
                "OPTIONS http://www.example?q",
                "www.example:80",
                "www.example",
                "/?q",
            ),
            (
                "OPTIONS http://www.example#part",
                "www.example:80",
                "www.example",
                "*",
            ),
        ] {
            match line(text) {
                Ok(RequestKind::Forward(forward)) => {
                    assert_eq!(forward.destination.to_string(), destination);
                    assert_eq!(forward.host, host);
                    assert_eq!(forward.path.to_string(), path);
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        for text in [
            "GET /",
            "GET *",
            "GET https://www.example/",
            "GET ftp://www.example/",
            "GET http://user:pw@www.example/",
            "GET http://1.2.3/",
            "GET http://www.example:0/",
            "GET www.example:80",
        ] {
            assert_eq!(
                line(text).expect_err(text).status,
                StatusCode::BAD_REQUEST,
                "{text}"
            );
        }
        assert_eq!(line("OPTIONS *"), Ok(RequestKind::Nothing));
        assert_eq!(
            line("TRACE http://a/").expect_err("TRACE").status,
            StatusCode::NOT_IMPLEMENTED
        );
    }

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&str, &str)| {
            (
                name.parse::<HeaderName>().expect("a name"),
                value.parse::<HeaderValue>().expect("a value"),
            )
        };
        fields.iter().map(field).collect()
    }

    /// RFC 9112, 3.2.
    #[test]
    fn a_request_has_one_host() {
        let one = headers(&[("host", "a")]);
        let two = headers(&[("host", "a"), ("host", "a")]);
        for (version, headers, is_good) in [
            (Version::HTTP_11, &HeaderMap::new(), false),
            (Version::HTTP_10, &HeaderMap::new(), true),
            (Version::HTTP_11, &one, true),
            (Version::HTTP_11, &two, false),
            (Version::HTTP_10, &two, false),
        ] {
            assert_eq!(
                check_host(version, headers).is_ok(),
                is_good,
                "{version:?} {headers:?}"
            );
        }
    }

    /// RFC 9110, 7.6.1.
    #[test]
    fn hop_by_hop_fields_are_removed() {
        let mut all = headers(&[
            ("connection", "close, X-Mine, content-length"),
            ("x-mine", "1"),
            ("keep-alive", "300"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic eA=="),
            ("te", "trailers"),
            ("upgrade", "websocket"),
            ("content-length", "3"),
            ("accept", "*/*"),
        ]);
        strip(&mut all);
        assert_eq!(all, headers(&[("content-length", "3"), ("accept", "*/*")]));
        let mut both = headers(&[("transfer-encoding", "chunked"), ("content-length", "3")]);
        strip(&mut both);
        assert!(both.is_empty());
    }

    #[test]
    fn max_forwards_is_decremented() {
        let mut some = headers(&[("max-forwards", "2")]);
        assert!(!is_last_hop(&Method::OPTIONS, &mut some));
        assert_eq!(some, headers(&[("max-forwards", "1")]));
        assert!(is_last_hop(
            &Method::OPTIONS,
            &mut headers(&[("max-forwards", "0")])
        ));
        assert!(!is_last_hop(&Method::GET, &mut headers(&[("max-forwards", "0")])));
    }
}
