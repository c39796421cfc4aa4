//! Plain HTTP that is forwarded: what clients and origins may do, and what they must not.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::stage::{Stage, head, mirror, origin, rest};

fn is_in(answer: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(answer).contains(text)
}

/// RFC 9112, 9.6: the end of what a client sends is not the end of what it waits for.
#[tokio::test]
async fn a_client_that_half_closes_after_its_request_gets_its_answer() {
    let (stage, origin) = (Stage::new().await, mirror().await);
    let mut stream = stage.connect().await;
    let request = format!("GET http://{origin}/half HTTP/1.1\r\nHost: {origin}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    stream.shutdown().await.expect("it ends");
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with(b"HTTP/1.1 200 ") && is_in(&answer, "GET /half HTTP/1.1"), "{answer:?}");
}

/// RFC 9110, 10.1.1: the origin decides whether the body is wanted.
#[tokio::test]
async fn the_origins_417_comes_before_any_100() {
    let stage = Stage::new().await;
    let origin = origin(|mut stream| async move {
        let head = head(&mut stream).await.to_lowercase();
        assert!(head.contains("expect: 100-continue"), "{head}");
        let answer = b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(answer).await;
    });
    let origin = origin.await;
    let request = format!(
        "PUT http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    );
    let mut stream = stage.connect().await;
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    let answer = head(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 417 "), "{answer}");
}

#[tokio::test]
async fn a_body_that_is_held_back_follows_the_origins_100() {
    let stage = Stage::new().await;
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
        assert!(head(&mut stream).await.starts_with("HTTP/1.1 100 "), "asked for: {is_asked_for}");
        stream.write_all(b"hello").await.expect("it is sent");
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"hello"), "{answer:?}");
    }
}

/// RFC 9110, 15.2.2.
#[tokio::test]
async fn a_101_that_was_not_asked_for_is_a_bad_gateway() {
    let stage = Stage::new().await;
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
    assert!(answer.contains("proxy-status: hawser; error=http_protocol_error"), "{answer}");
}
