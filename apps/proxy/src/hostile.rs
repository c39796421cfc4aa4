//! Entry points for a fuzzer of message parsers. They have no other use.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};

use crate::http::request::{RequestKind, is_last_hop, strip, understand};
use crate::socks::wire;

/// Parses any bytes as each message of a SOCKS5 client.
///
/// # Panics
/// Panics if a message is longer than the data, needs more data than a message may have, or changes its
/// meaning when more data follows.
pub fn socks(data: &[u8]) {
    hold(
        data,
        wire::greeting(data).map(|parsed| parsed.map(|(_, end)| end)),
        &|bytes| wire::greeting(bytes).ok().flatten().map(|(_, end)| end),
    );
    hold(
        data,
        wire::password(data).map(|parsed| parsed.map(|(_, end)| end)),
        &|bytes| wire::password(bytes).ok().flatten().map(|(_, end)| end),
    );
    hold(
        data,
        wire::request(data).map(|parsed| parsed.map(|(_, end)| end)),
        &|bytes| wire::request(bytes).ok().flatten().map(|(_, end)| end),
    );
    if let Ok((to, payload)) = wire::datagram(data) {
        assert!(to.destination().port() > 0 && data.ends_with(payload));
    }
    if let Ok(Some((wire::Request::Connect(destination), _))) = wire::request(data) {
        assert!(destination.port() > 0 && destination.host().is_ascii() || destination.host().len() <= 255);
    }
}

fn hold<E>(data: &[u8], parsed: Result<Option<usize>, E>, end_of: &dyn Fn(&[u8]) -> Option<usize>) {
    match parsed {
        Ok(Some(end)) => {
            assert!(end <= data.len() && end <= wire::MAX_LENGTH);
            assert_eq!(end_of(&data[..end]), Some(end), "what follows changes nothing");
            assert_eq!(end_of(&data[..end - 1]), None, "nothing of it is missing");
        }
        Ok(None) => assert!(
            data.len() < wire::MAX_LENGTH,
            "it wants more than a message can have"
        ),
        Err(_) => {}
    }
}

/// Parses any bytes as the head of an HTTP request.
///
/// # Panics
/// Panics if a destination is invalid, or a hop-by-hop field would be forwarded.
pub fn http(data: &[u8]) {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut fields);
    if !matches!(head.parse(data), Ok(httparse::Status::Complete(_))) {
        return;
    }
    let (Some(method), Some(target)) = (head.method, head.path) else {
        return;
    };
    let (Ok(method), Ok(target)) = (method.parse::<Method>(), target.parse::<Uri>()) else {
        return;
    };
    let mut headers = HeaderMap::new();
    for field in head.headers.iter() {
        let parsed = (
            field.name.parse::<HeaderName>(),
            HeaderValue::from_bytes(field.value),
        );
        if let (Ok(name), Ok(value)) = parsed {
            headers.append(name, value);
        }
    }
    match understand(&method, &target) {
        Ok(RequestKind::Tunnel(destination)) => {
            assert!(method == Method::CONNECT && destination.port() > 0);
            assert_eq!(destination.to_string().parse().as_ref(), Ok(&destination));
        }
        Ok(RequestKind::Forward(forward)) => {
            let path = forward.path.to_string();
            let is_star = method == Method::OPTIONS && path == "*";
            assert!(is_star || path.starts_with('/'), "{method} {target}: {path}");
            assert!(!forward.host.as_bytes().contains(&b'@') && forward.destination.port() > 0);
        }
        Ok(RequestKind::Nothing) => assert!(method == Method::OPTIONS && target == "*"),
        Err(refusal) => assert!(refusal.status.is_client_error() || refusal.status.is_server_error()),
    }
    is_last_hop(&method, &mut headers);
    strip(&mut headers);
    for hop in [
        "connection",
        "proxy-authorization",
        "transfer-encoding",
        "te",
        "upgrade",
        "keep-alive",
    ] {
        assert!(!headers.contains_key(hop), "{hop}");
    }
}
