//! The admission of requests. A request must be for exactly this host and port, come from the page itself or
//! from no page, and contain the token.
//!
//! Any page in a browser can send requests to a port of loopback, through a name of its own that resolves
//! there (DNS rebinding). The guard therefore checks the requested host name and the stated origin. Without
//! the token, no content is served.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;

use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Method, Request, StatusCode};
use subtle::ConstantTimeEq;

/// The number of random bytes in a token.
const TOKEN_BYTES: usize = 16;
/// The field in which a browser states the origin of a request (Fetch Metadata, 2.3).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The admission check of requests. See the [module](self).
pub(super) struct Guard {
    token: String,
    address: SocketAddr,
}

/// A request is not served.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) why: &'static str,
}

impl Guard {
    /// Guards a server at this address with a new token.
    pub(super) fn new(address: SocketAddr) -> io::Result<Guard> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let mut token = String::with_capacity(2 * TOKEN_BYTES);
        for byte in bytes {
            // Writing to a string cannot fail.
            let _ = write!(token, "{byte:02x}");
        }
        Ok(Guard { token, address })
    }

    /// Returns the page's URL, which contains the token.
    pub(super) fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }

    /// Returns the part of the request's path after the token.
    ///
    /// # Errors
    /// Fails if the request must not be served.
    pub(super) fn admit<'r, B>(&self, request: &'r Request<B>) -> Result<&'r str, Refusal> {
        self.is_meant(request.headers())?;
        let refusal = Refusal { status: StatusCode::FORBIDDEN, why: "the address is not complete" };
        let path = request.uri().path().strip_prefix('/').ok_or(refusal)?;
        let (token, rest) = path.split_once('/').unwrap_or((path, ""));
        if !bool::from(token.as_bytes().ct_eq(self.token.as_bytes())) {
            let why = "this page requires its complete address, including the token";
            return Err(Refusal { status: StatusCode::FORBIDDEN, why });
        }
        // A page of another origin cannot send this content type without a preflight request.
        let kind = request.headers().get(header::CONTENT_TYPE);
        if request.method() == Method::POST && kind.is_none_or(|kind| kind != "application/json") {
            let why = "orders must be application/json";
            return Err(Refusal { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, why });
        }
        Ok(rest)
    }

    /// Checks that the request is for this host, and comes from the page or from no page.
    fn is_meant(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let here = [
            self.address.to_string(),
            format!("localhost:{}", self.address.port()),
        ];
        let host = single(headers, &header::HOST).ok().flatten();
        let Some(host) = host.filter(|host| here.iter().any(|one| one == host)) else {
            let why = "this server must be addressed by its IP address";
            return Err(Refusal { status: StatusCode::MISDIRECTED_REQUEST, why });
        };
        let foreign = Refusal {
            status: StatusCode::FORBIDDEN,
            why: "this page accepts no orders from other pages",
        };
        match single(headers, &header::ORIGIN) {
            Ok(None) => {}
            Ok(Some(origin)) if origin.strip_prefix("http://") == Some(host) => {}
            _ => return Err(foreign),
        }
        match single(headers, &SEC_FETCH_SITE) {
            Ok(None | Some("same-origin" | "none")) => Ok(()),
            _ => Err(foreign),
        }
    }
}

/// Returns the value of a field that may occur at most once.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, ()> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        Err(())
    } else {
        first.to_str().map(Some).map_err(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard::new("127.0.0.1:8000".parse().expect("an address")).expect("random numbers")
    }

    fn ask(guard: &Guard, path: &str, headers: &[(&str, &str)]) -> Result<String, u16> {
        let mut request = Request::get(path.replace("TOKEN", &guard.token));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).expect("a request");
        guard
            .admit(&request)
            .map(str::to_owned)
            .map_err(|refusal| refusal.status.as_u16())
    }

    const HERE: (&str, &str) = ("host", "127.0.0.1:8000");

    #[test]
    fn tokens_are_random_and_long() {
        let (one, other) = (guard(), guard());
        assert_ne!(one.token, other.token);
        assert_eq!(one.token.len(), 32);
        assert_eq!(one.url(), format!("http://127.0.0.1:8000/{}/", one.token));
    }

    #[test]
    fn a_request_needs_the_token() {
        let guard = guard();
        assert_eq!(ask(&guard, "/TOKEN/", &[HERE]), Ok(String::new()));
        assert_eq!(ask(&guard, "/TOKEN/events", &[HERE]), Ok("events".to_owned()));
        assert_eq!(
            ask(&guard, "/TOKEN/a?b", &[("host", "localhost:8000")]),
            Ok("a".to_owned())
        );
        let other = "0".repeat(32);
        for wrong in [
            "/",
            "/events",
            "//events",
            "/TOKENx/",
            "/x/TOKEN/",
            &format!("/{other}/"),
        ] {
            assert_eq!(ask(&guard, wrong, &[HERE]), Err(403), "{wrong}");
        }
        assert_eq!(
            ask(&guard, &format!("/{}/", &guard.token[1..]), &[HERE]),
            Err(403)
        );
    }

    #[test]
    fn requests_for_other_host_names_are_rejected() {
        let guard = guard();
        for host in [
            "evil.example",
            "evil.example:8000",
            "127.0.0.1",
            "127.0.0.1:80",
            "[::1]:8000",
            "localhost",
        ] {
            assert_eq!(ask(&guard, "/TOKEN/", &[("host", host)]), Err(421), "{host}");
        }
        assert_eq!(ask(&guard, "/TOKEN/", &[]), Err(421));
        assert_eq!(
            ask(&guard, "/TOKEN/", &[HERE, ("host", "evil.example")]),
            Err(421)
        );
    }

    #[test]
    fn other_origins_are_refused() {
        let guard = guard();
        assert!(ask(&guard, "/TOKEN/", &[HERE, ("origin", "http://127.0.0.1:8000")]).is_ok());
        assert!(ask(&guard, "/TOKEN/", &[HERE, ("sec-fetch-site", "none")]).is_ok());
        for origin in [
            "null",
            "http://evil.example",
            "https://127.0.0.1:8000",
            "http://127.0.0.1:8001",
            "http://localhost:8000",
        ] {
            assert_eq!(
                ask(&guard, "/TOKEN/", &[HERE, ("origin", origin)]),
                Err(403),
                "{origin}"
            );
        }
        for site in ["cross-site", "same-site"] {
            assert_eq!(
                ask(&guard, "/TOKEN/", &[HERE, ("sec-fetch-site", site)]),
                Err(403),
                "{site}"
            );
        }
    }

    #[test]
    fn a_command_needs_the_content_type_json() {
        let guard = guard();
        let order = |kind: Option<&str>| {
            let mut request = Request::post(format!("/{}/switch", guard.token)).header("host", HERE.1);
            if let Some(kind) = kind {
                request = request.header("content-type", kind);
            }
            guard
                .admit(&request.body(()).expect("a request"))
                .map_err(|refusal| refusal.status.as_u16())
                .map(drop)
        };
        assert_eq!(order(Some("application/json")), Ok(()));
        for kind in [
            None,
            Some("text/plain"),
            Some("application/x-www-form-urlencoded"),
        ] {
            assert_eq!(order(kind), Err(415), "{kind:?}");
        }
    }
}
