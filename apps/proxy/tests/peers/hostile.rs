//! Hostile clients: slow ones, endless requests, malformed requests, and clients from other hosts.

use std::time::{Duration, Instant};

use fastrand::Rng;
use hawser::connect::Racer;
use hawser_proxy::hostile::{http, socks as any_socks};
use hawser_proxy::{BindError, Credential, Proxy, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use crate::served_proxy::{ServedProxy, echo, exactly, head, impatient, mirror, rest, socks, tunnel};

#[tokio::test]
async fn a_slow_client_is_disconnected() {
    let stage = ServedProxy::with(impatient()).await;
    for beginning in [
        &b""[..],
        b"\x05",
        b"\x05\x01\x00\x05\x01",
        b"GET http://a.example/ HT",
        b"CONNECT ",
    ] {
        let (begin, mut stream) = (Instant::now(), stage.connect().await);
        stream.write_all(beginning).await.expect("it is sent");
        let (mut reader, mut writer) = stream.into_split();
        // An occasional byte does not extend the time.
        let drip = tokio::spawn(async move {
            while beginning.len() > 1 && writer.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            std::future::pending::<()>().await;
        });
        let mut all = Vec::new();
        let read = tokio::io::AsyncReadExt::read_to_end(&mut reader, &mut all);
        let _ = tokio::time::timeout(Duration::from_secs(5), read)
            .await
            .expect("it is ended");
        drip.abort();
        assert!(
            begin.elapsed() < Duration::from_secs(4),
            "{:?}: {beginning:?}",
            begin.elapsed()
        );
    }
}

#[tokio::test]
async fn an_oversized_head_is_refused() {
    let stage = ServedProxy::new().await;
    let long = format!(
        "GET http://a.example/ HTTP/1.1\r\nX: {}\r\n\r\n",
        "x".repeat(40_000)
    );
    let many = format!("GET http://a.example/ HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(300));
    let endless = vec![b'A'; 100_000];
    for (head, statuses) in [
        (long.as_bytes(), &["431", "414"][..]),
        (many.as_bytes(), &["431"]),
        (&endless, &["400", "414", "431"]),
    ] {
        let answer = stage.exchange(head).await;
        let answer = String::from_utf8_lossy(&answer);
        // Unread data causes a reset, which can overtake the answer.
        let status = answer.split(' ').nth(1).unwrap_or("431");
        assert!(statuses.contains(&status), "{answer}");
    }
}

#[tokio::test]
async fn malformed_requests_are_refused() {
    let stage = ServedProxy::new().await;
    let socks = [
        (
            &b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00"[..],
            &b"\0\x5b\0\0\0\0\0\0"[..],
        ),
        (b"\x05\x00", b""),
        (b"\x05\x01\x02", b"\x05\xff"),
        (
            b"\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50",
            b"\x05\x00\x05\x07\x00\x01\0\0\0\0\0\0",
        ),
        (
            b"\x05\x01\x00\x05\x01\x00\x09\x7f\x00\x00\x01\x00\x50",
            b"\x05\x00\x05\x08\x00\x01\0\0\0\0\0\0",
        ),
        (
            b"\x05\x01\x00\x05\x01\x00\x03\x01\xff\x00\x50",
            b"\x05\x00\x05\x04\x00\x01\0\0\0\0\0\0",
        ),
        (b"\x16\x03\x01", b""),
        (b"\x00", b""),
    ];
    for (bytes, expected) in socks {
        assert_eq!(stage.exchange(bytes).await, expected, "{bytes:?}");
    }
    for request in [
        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        "GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "GET http://1.2.3/ HTTP/1.1\r\nHost: 1.2.3\r\n\r\n",
        "CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "GET  http://a.example/ HTTP/1.1\r\n\r\n",
        "GET http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET http://a.example/ HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        "GET http://a\0.example/ HTTP/1.1\r\n\r\n",
        // RFC 9112, 3.2.
        "GET http://a.invalid/ HTTP/1.1\r\n\r\n",
        "GET http://a.invalid/ HTTP/1.1\r\nHost: a.invalid\r\nHost: b.invalid\r\n\r\n",
        "CONNECT a.invalid:443 HTTP/1.1\r\n\r\n",
    ] {
        let mut stream = stage.connect().await;
        stream.write_all(request.as_bytes()).await.expect("it is sent");
        let answer = head(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{request}: {answer}");
        // RFC 9209, 2.3.20, for every refusal, including those by hyper's parser.
        let status = "\r\nproxy-status: hawser; error=http_request_error\r\n";
        assert_eq!(answer.matches(status).count(), 1, "{request}: {answer}");
    }
    let events = stage.events();
    assert!(!events.iter().any(|name| name == "asked"), "{events:?}");
}

#[tokio::test]
async fn a_client_needs_the_credential() {
    let credential = Some(Credential::parse("user:secret").expect("a credential"));
    let stage = ServedProxy::with(Settings { credential, ..Settings::default() }).await;
    let origin = mirror().await;
    let url = format!("http://{origin}/");
    for scheme in ["http", "socks5h"] {
        let right = stage.curl(scheme, &["--proxy-user", "user:secret", &url]).await;
        let head = String::from_utf8_lossy(&right.stdout).to_lowercase();
        assert!(
            head.starts_with("get / http/1.1") && !head.contains("authorization"),
            "{right:?}"
        );
    }
    let wrong = stage.curl("socks5h", &["--proxy-user", "user:other", &url]).await;
    assert_eq!(wrong.status.code(), Some(97), "{wrong:?}");
    for more in [&[][..], &["--proxy-user", "user:other"]] {
        let code = ["-o", "/dev/null", "-w", "%{http_code}", &url];
        let none = stage.curl("http", &[&code[..], more].concat()).await;
        assert_eq!(none.stdout, b"407", "{none:?}");
    }
    assert_eq!(stage.exchange(&socks(origin)).await, b"\x05\xff");
    let events = stage.events();
    assert_eq!(
        events.iter().filter(|name| *name == "asked").count(),
        2,
        "{events:?}"
    );
}

#[tokio::test]
async fn a_non_loopback_listener_needs_a_credential() {
    for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let settings = Settings { listen: vec![open.parse().expect("an address")], ..Settings::default() };
        let racer = Racer::open().await.expect("a racer");
        let refused = Proxy::bind(racer, settings).await.err().expect("it is refused");
        assert!(matches!(refused, BindError::Open(_)), "{refused}");
        assert!(refused.to_string().contains("--credential"), "{refused}");
    }
}

#[tokio::test]
async fn clients_beyond_the_limit_wait_and_are_reported_once() {
    let stage = ServedProxy::with(Settings {
        limits: hawser_proxy::ProxyLimits { connections: 2, ..hawser_proxy::ProxyLimits::default() },
        ..Settings::default()
    });
    let (stage, origin) = (stage.await, mirror().await);
    let mut tunnels = Vec::new();
    for _ in 0..2 {
        tunnels.push(tunnel(&stage, origin).await);
    }
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let mut client = stage.connect().await;
        client.write_all(b"\x05\x01\x02").await.expect("it is sent");
        waiting.push(client);
    }
    let early = tokio::time::timeout(Duration::from_millis(200), waiting[0].read_u8()).await;
    assert!(early.is_err(), "it waits: {early:?}");
    assert_eq!(
        stage.events().iter().filter(|name| *name == "full").count(),
        1,
        "{:?}",
        stage.events()
    );
    drop(tunnels);
    for mut client in waiting {
        let answer = tokio::time::timeout(Duration::from_secs(5), rest(&mut client)).await;
        assert_eq!(answer.expect("a place is free again"), b"\x05\xff");
    }
}

#[tokio::test]
async fn idle_connections_do_not_lock_out_authenticated_clients() {
    let credential = Some(Credential::parse("user:secret").expect("a credential"));
    let stage = ServedProxy::with(Settings { credential, ..Settings::default() }).await;
    let origin = mirror().await;
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(stage.connect().await);
    }
    let url = format!("http://{origin}/");
    let answer = stage
        .curl(
            "socks5h",
            &["--max-time", "5", "--proxy-user", "user:secret", &url],
        )
        .await;
    assert!(answer.status.success(), "{answer:?}");
    assert_eq!(rest(&mut idle[0]).await, b"", "the oldest has made room");
}

/// Idle clients of one network displace only each other: of eight places for clients without a request, a
/// network has two.
#[tokio::test]
async fn a_crowd_of_one_network_takes_no_place_of_another() {
    const CROWD: usize = 12;
    const SHARE: usize = 2;
    let settings = Settings {
        credential: Some(Credential::parse("user:secret").expect("a credential")),
        limits: hawser_proxy::ProxyLimits { connections: 16, ..hawser_proxy::ProxyLimits::default() },
        ..Settings::default()
    };
    let (stage, origin) = (ServedProxy::at([0, 0, 0, 0], settings).await, echo().await);
    let from = async |address: [u8; 4]| {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((address, 0).into()).expect("an address of this host");
        let there = ([127, 0, 0, 1], stage.proxy.port()).into();
        socket.connect(there).await.expect("the proxy")
    };
    // The oldest client, which has a place and no request yet.
    let mut honest = from([127, 0, 0, 1]).await;
    honest.write_all(b"\x05\x01\x02").await.expect("it is sent");
    assert_eq!(exactly(&mut honest).await, [5, 2]);
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        crowd.push(from([127, 0, 0, 9]).await);
    }
    for client in &mut crowd[..CROWD - SHARE] {
        assert_eq!(rest(client).await, b"", "it has made room for its like");
    }
    let is_rejected = |name: &&String| *name == "rejected";
    let rejected = stage.events().iter().filter(is_rejected).count();
    assert_eq!(rejected, CROWD - SHARE);

    honest
        .write_all(b"\x01\x04user\x06secret")
        .await
        .expect("it is sent");
    assert_eq!(exactly(&mut honest).await, [1, 0]);
    // The request without the greeting, which was sent before.
    honest.write_all(&socks(origin)[3..]).await.expect("it is sent");
    assert_eq!(exactly(&mut honest).await, [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    honest.write_all(b"served").await.expect("it is sent");
    assert_eq!(&exactly(&mut honest).await, b"served");
}

/// The proxy survives mutations of valid heads. The fuzz target `proxy` covers more.
#[test]
fn arbitrary_heads_are_survived() {
    const HEADS: &[&[u8]] = &[
        b"\x05\x02\x00\x02",
        b"\x01\x04user\x06secret",
        b"\x05\x01\x00\x03\x0bwww.example\x01\xbb",
        b"\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x50",
        b"CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: a\r\nConnection: x, te\r\n\r\n",
        b"GET http://www.example:80/a?b HTTP/1.1\r\nTransfer-Encoding: chunked\r\nMax-Forwards: 3\r\n\r\n",
        b"OPTIONS http://a HTTP/1.0\r\nProxy-Authorization: Basic eA==\r\n\r\n",
    ];
    let mut rng = Rng::with_seed(1);
    let mut below = |limit: usize| rng.usize(..limit);
    for _ in 0..100_000 {
        let mut bytes = HEADS[below(HEADS.len())].to_vec();
        for _ in 0..below(4) {
            let at = below(bytes.len());
            bytes[at] = below(256) as u8;
        }
        bytes.truncate(1 + below(bytes.len() * 2));
        any_socks(&bytes);
        http(&bytes);
    }
}
