//! Tunnels: both directions, their ends, resets, and many at once.

use std::io::{BufRead, BufReader};

use hawser_testing::swallow_at_localhost;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::served_proxy::{ServedProxy, TIMEOUT, echo, exactly, head, origin, rest, socks, tunnel};

/// The end of one direction is passed on, and the other continues.
#[tokio::test]
async fn each_direction_ends_by_itself() {
    let stage = ServedProxy::new().await;
    let far = origin(|mut stream| async move {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.expect("the client ends");
        all.reverse();
        stream.write_all(&all).await.expect("it is sent");
    });
    let far = far.await;
    let mut stream = tunnel(&stage, far).await;
    stream.write_all(b"abc").await.expect("it is sent");
    stream.shutdown().await.expect("it ends");
    assert_eq!(rest(&mut stream).await, b"cba");

    let mut stream = stage.connect().await;
    stream
        .write_all(format!("CONNECT {far} HTTP/1.1\r\nHost: {far}\r\n\r\nahead").as_bytes())
        .await
        .expect("sent");
    let answer = head(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    stream.shutdown().await.expect("it ends");
    assert_eq!(
        rest(&mut stream).await,
        b"daeha",
        "what came ahead of the answer counts"
    );

    let first = origin(|mut stream| async move {
        stream.write_all(b"mine").await.expect("it is sent");
        stream.shutdown().await.expect("it ends");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.expect("the client ends");
        assert_eq!(all, b"yours");
    });
    let mut stream = tunnel(&stage, first.await).await;
    assert_eq!(rest(&mut stream).await, b"mine");
    stream.write_all(b"yours").await.expect("this direction is open");
}

/// A reset must not appear as a regular end.
#[tokio::test]
async fn a_reset_is_relayed_as_a_reset() {
    let stage = ServedProxy::new().await;
    let far = origin(|mut stream| async move {
        let _ = stream.read_u8().await;
        socket2::SockRef::from(&stream)
            .set_linger(Some(std::time::Duration::ZERO))
            .expect("it lingers");
    });
    let mut stream = tunnel(&stage, far.await).await;
    stream.write_all(b"x").await.expect("it is sent");
    let error = tokio::time::timeout(TIMEOUT, stream.read_u8())
        .await
        .expect("it ends")
        .expect_err("a reset");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);

    let (report, mut reported) = tokio::sync::mpsc::channel(1);
    let far = origin(move |mut stream| {
        let report = report.clone();
        async move {
            let mut all = Vec::new();
            let _ = report
                .send(stream.read_to_end(&mut all).await.map_err(|error| error.kind()))
                .await;
        }
    });
    let stream = tunnel(&stage, far.await).await;
    socket2::SockRef::from(&stream)
        .set_linger(Some(std::time::Duration::ZERO))
        .expect("it lingers");
    drop(stream);
    let ended = tokio::time::timeout(TIMEOUT, reported.recv())
        .await
        .expect("it ends");
    assert_eq!(ended, Some(Err(std::io::ErrorKind::ConnectionReset)));
}

/// A client that has closed cannot be told from one that ended its direction. A server that keeps its own
/// direction open would otherwise hold the tunnel and its place for ever.
#[tokio::test]
async fn a_half_open_idle_tunnel_is_ended() {
    let limits = hawser_proxy::ProxyLimits {
        half_open: std::time::Duration::from_millis(100),
        ..hawser_proxy::ProxyLimits::default()
    };
    let stage =
        ServedProxy::with(hawser_proxy::Settings { limits, ..hawser_proxy::Settings::default() }).await;
    let (report, mut reported) = tokio::sync::mpsc::channel(1);
    let far = origin(move |mut stream| {
        let report = report.clone();
        async move {
            let mut all = Vec::new();
            let was_read = stream.read_to_end(&mut all).await.is_ok();
            // The server stays silent and open until the proxy closes.
            let broken = loop {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                if let Ok(Some(error)) = stream.take_error() {
                    break error.kind();
                }
            };
            let _ = report.send((was_read, broken)).await;
        }
    });
    let stream = tunnel(&stage, far.await).await;
    drop(stream);
    let ended = tokio::time::timeout(TIMEOUT, reported.recv())
        .await
        .expect("it ends");
    // Linux reports a reset after the other side's end in this way.
    assert_eq!(ended, Some((true, std::io::ErrorKind::BrokenPipe)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_tunnels_carry_data_at_once() {
    let (stage, far) = (ServedProxy::new().await, echo().await);
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..100u32 {
        let mut stream = stage.connect().await;
        let expected: Vec<u8> = (0..50_000u32).map(|byte| (byte ^ number) as u8).collect();
        clients.spawn(async move {
            stream.write_all(&socks(far)).await.expect("it is sent");
            assert_eq!(exactly::<12>(&mut stream).await[3], 0);
            let (mut from, mut to) = stream.split();
            let sent = async {
                to.write_all(&expected).await.expect("it is sent");
                to.shutdown().await.expect("it ends");
            };
            let mut got = Vec::new();
            tokio::join!(sent, async {
                from.read_to_end(&mut got).await.expect("it comes")
            });
            assert!(got == expected, "{number}");
        });
    }
    let all = async {
        while let Some(ended) = clients.join_next().await {
            ended.expect("it is right")
        }
    };
    tokio::time::timeout(TIMEOUT, all).await.expect("they all end");
    let events = stage.events();
    assert_eq!(
        events.iter().filter(|name| *name == "won").count(),
        100,
        "{events:?}"
    );
}

/// Both addresses of a name complete handshakes. The preferred one accepts requests and never answers. The
/// first attempt ends without an answer, and the second uses the other address.
#[tokio::test]
async fn a_winner_that_swallows_data_is_not_preferred_again() {
    for scheme in ["socks5h", "http"] {
        let stage = ServedProxy::new().await;
        let port = swallow_at_localhost(|stream| {
            let lines = BufReader::new(&*stream).lines();
            let _head: Vec<String> = lines
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
            let _ = std::io::Write::write_all(stream, answer);
        });
        let port = port.expect("both addresses");
        let url = format!("http://localhost:{port}/");
        let first = stage.curl(scheme, &["--max-time", "3", &url]).await;
        assert!(!first.status.success(), "{scheme}: {first:?}");
        let second = stage.curl(scheme, &["--max-time", "3", &url]).await;
        assert_eq!(second.stdout, b"hello", "{scheme}: {second:?}");
        let failures = stage.events().into_iter().filter(|name| name == "failed").count();
        assert_eq!(failures, 1, "{scheme}: {:?}", stage.events());
    }
}
