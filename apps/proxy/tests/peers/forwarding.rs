//! Forwarded plain HTTP: permitted and forbidden behaviour of clients and origins.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::served_proxy::{ServedProxy, head, mirror, origin, rest};

fn is_in(answer: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(answer).contains(text)
}

/// RFC 9112, 9.6: a client that has finished sending may still wait for an answer.
#[tokio::test]
async fn a_client_that_half_closes_after_its_request_gets_its_answer() {
    let (stage, origin) = (ServedProxy::new().await, mirror().await);
    let mut stream = stage.connect().await;
    let request = format!("GET http://{origin}/half HTTP/1.1\r\nHost: {origin}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    stream.shutdown().await.expect("it ends");
    let answer = rest(&mut stream).await;
    assert!(
        answer.starts_with(b"HTTP/1.1 200 ") && is_in(&answer, "GET /half HTTP/1.1"),
        "{answer:?}"
    );
}

/// RFC 9110, 10.1.1: the origin decides whether the body is wanted. It may or may not keep the connection. In
/// both cases no part of the body is requested, and the incomplete connection is closed.
#[tokio::test]
async fn the_origins_417_comes_before_any_100() {
    let stage = ServedProxy::new().await;
    // The answer and the end of the body can arrive in either order.
    for round in 0..50 {
        let connection = if round % 2 == 0 { "close" } else { "keep-alive" };
        let (ended, mut end) = mpsc::unbounded_channel();
        let origin = origin(move |mut stream| {
            let ended = ended.clone();
            async move {
                let head = head(&mut stream).await.to_lowercase();
                assert!(head.contains("expect: 100-continue"), "{head}");
                let answer = format!(
                    "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\nConnection: {connection}\r\n\r\nno"
                );
                let _ = stream.write_all(answer.as_bytes()).await;
                let left = stream.read(&mut [0; 5]).await.unwrap_or(0);
                let _ = ended.send(left);
            }
        });
        let origin = origin.await;
        let request = format!(
            "PUT http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        );
        let mut stream = stage.connect().await;
        stream.write_all(request.as_bytes()).await.expect("it is sent");
        let answer = rest(&mut stream).await;
        assert!(
            answer.starts_with(b"HTTP/1.1 417 ") && answer.ends_with(b"\r\n\r\nno"),
            "{answer:?}"
        );
        assert_eq!(
            end.recv().await,
            Some(0),
            "what the origin reads after its answer"
        );
    }
}

#[tokio::test]
async fn a_body_that_is_held_back_follows_the_origins_100() {
    let stage = ServedProxy::new().await;
    for is_asked_for in [true, false] {
        let origin = origin(move |mut stream| async move {
            head(&mut stream).await;
            let mut body = [0; 5];
            if is_asked_for {
                let early = tokio::time::timeout(Duration::from_millis(300), stream.read(&mut body)).await;
                assert!(early.is_err(), "nothing of it comes unasked");
                let _ = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
            }
            stream.read_exact(&mut body).await.expect("the body");
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(&[&answer[..], &body].concat()).await;
        });
        let origin = origin.await;
        let request = format!(
            "PUT http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 5\r\n\r\n"
        );
        let mut stream = stage.connect().await;
        stream.write_all(request.as_bytes()).await.expect("it is sent");
        assert!(
            head(&mut stream).await.starts_with("HTTP/1.1 100 "),
            "asked for: {is_asked_for}"
        );
        stream.write_all(b"hello").await.expect("it is sent");
        let answer = rest(&mut stream).await;
        assert!(
            answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"hello"),
            "{answer:?}"
        );
    }
}

/// RFC 9110, 15.2.2.
#[tokio::test]
async fn a_101_that_was_not_asked_for_is_a_bad_gateway() {
    let stage = ServedProxy::new().await;
    let origin = origin(|mut stream| async move {
        head(&mut stream).await;
        let answer =
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nraw";
        let _ = stream.write_all(answer).await;
    });
    let origin = origin.await;
    let request = format!(
        "GET http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    );
    let mut stream = stage.connect().await;
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    let answer = head(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(
        answer.contains("proxy-status: hawser; error=http_protocol_error"),
        "{answer}"
    );
}

/// RFC 9110, 15.2, and RFC 8297: early hints are useful only until the answer arrives.
#[tokio::test]
async fn early_hints_are_passed_on_before_the_answer() {
    let stage = ServedProxy::new().await;
    let (go, mut went) = tokio::sync::broadcast::channel::<()>(1);
    let reported = go.clone();
    let origin = origin(move |mut stream| {
        let mut went = reported.subscribe();
        async move {
            head(&mut stream).await;
            let hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\n";
            let _ = stream.write_all(hints).await;
            let _ = stream.write_all(b"HTTP/1.1 104 Other\r\n\r\n").await;
            let _ = went.recv().await;
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
                .await;
        }
    });
    let origin = origin.await;
    let mut stream = stage.connect().await;
    // Two exchanges over one connection.
    for _ in 0..2 {
        let request = format!("GET http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it is sent");
        let hints = tokio::time::timeout(Duration::from_secs(10), head(&mut stream))
            .await
            .expect("at once");
        assert!(hints.starts_with("HTTP/1.1 103 Early Hints\r\n"), "{hints}");
        assert!(
            hints.contains("link: </a.css>; rel=preload\r\n") && hints.contains("via: 1.1 hawser"),
            "{hints}"
        );
        assert!(!hints.contains("x-hop"), "{hints}");
        assert!(head(&mut stream).await.starts_with("HTTP/1.1 104 "));
        go.send(()).expect("the origin waits");
        let answer = head(&mut stream).await;
        let mut body = [0; 2];
        stream.read_exact(&mut body).await.expect("the body");
        assert!(answer.starts_with("HTTP/1.1 200 ") && &body == b"hi", "{answer}");
    }
    // RFC 9110, 15.2: HTTP/1.0 has no interim answers.
    let request = format!("GET http://{origin}/ HTTP/1.0\r\n\r\n");
    let mut old = stage.connect().await;
    old.write_all(request.as_bytes()).await.expect("it is sent");
    tokio::time::sleep(Duration::from_millis(300)).await;
    go.send(()).expect("the origin waits");
    let answer = rest(&mut old).await;
    assert!(
        answer.starts_with(b"HTTP/1.0 200 ") && !is_in(&answer, "103"),
        "{answer:?}"
    );
    while went.try_recv().is_ok() {}
}

/// A body whose pieces resemble an answer of the proxy's own is passed on unchanged.
#[tokio::test]
async fn a_body_that_resembles_an_answer_is_not_amended() {
    const PIECE: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    let stage = ServedProxy::new().await;
    let origin = origin(|mut stream| async move {
        head(&mut stream).await;
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 5 * PIECE.len());
        let _ = stream.write_all(answer.as_bytes()).await;
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(30)).await;
            let _ = stream.write_all(PIECE).await;
        }
    });
    let origin = origin.await;
    let mut stream = stage.connect().await;
    let request = format!("GET http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    assert!(head(&mut stream).await.starts_with("HTTP/1.1 200 "));
    let mut body = vec![0; 5 * PIECE.len()];
    stream.read_exact(&mut body).await.expect("the body");
    assert!(body == PIECE.repeat(5), "{}", String::from_utf8_lossy(&body));
    // The next answer on the same connection is the proxy's own.
    stream
        .write_all(b"GET  http://a.example/ HTTP/1.1\r\n\r\n")
        .await
        .expect("it is sent");
    let answer = head(&mut stream).await;
    assert!(
        answer.contains("proxy-status: hawser; error=http_request_error"),
        "{answer}"
    );
}

/// RFC 9110, 7.6.2 and 9.3.7; RFC 9112, 3.2.4.
#[tokio::test]
async fn options_requests_reach_their_target() {
    let (stage, origin) = (ServedProxy::new().await, mirror().await);
    let ask = async |target: &str, more: &str| {
        let request =
            format!("OPTIONS {target} HTTP/1.1\r\nHost: {origin}\r\nConnection: close\r\n{more}\r\n");
        String::from_utf8(stage.exchange(request.as_bytes()).await).expect("text")
    };
    let own = ask("*", "").await;
    assert!(
        own.starts_with("HTTP/1.1 200 ") && own.contains("content-length: 0\r\n"),
        "{own}"
    );
    let last = ask(&format!("http://{origin}"), "Max-Forwards: 0\r\n").await;
    assert!(
        last.starts_with("HTTP/1.1 200 ") && last.contains("content-length: 0\r\n"),
        "{last}"
    );
    assert!(
        !stage.events().iter().any(|name| name == "asked"),
        "{:?}",
        stage.events()
    );
    let forwarded = ask(&format!("http://{origin}"), "Max-Forwards: 7\r\n").await;
    assert!(
        forwarded.contains("\r\n\r\nOPTIONS * HTTP/1.1\r\n"),
        "{forwarded}"
    );
    assert!(
        forwarded.to_lowercase().contains("max-forwards: 6\r\n"),
        "{forwarded}"
    );
    let root = ask(&format!("http://{origin}/"), "").await;
    assert!(root.contains("\r\n\r\nOPTIONS / HTTP/1.1\r\n"), "{root}");
}
