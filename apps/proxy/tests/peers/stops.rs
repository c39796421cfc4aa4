//! Stopping: cleanly if possible, but always within the limit.

use std::time::{Duration, Instant};

use hawser_proxy::{ProxyLimits, Settings};
use tokio::io::AsyncWriteExt;

use crate::served_proxy::{ServedProxy, echo, exactly, rest, tunnel};

#[tokio::test]
async fn requests_in_progress_end_before_the_stop() {
    let (mut stage, far) = (ServedProxy::new().await, echo().await);
    let mut stream = tunnel(&stage, far).await;
    let mut idle = stage.connect().await;
    idle.write_all(b"OPTIONS http://a/ HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n")
        .await
        .expect("it is sent");
    assert_eq!(exactly::<15>(&mut idle).await, *b"HTTP/1.1 200 OK");
    stage.stop.take().map(|stop| stop.send(()));
    rest(&mut idle).await;
    let refused = tokio::net::TcpStream::connect(stage.proxy).await;
    assert!(refused.is_err(), "nobody is accepted any more");
    stream.write_all(b"last").await.expect("it is sent");
    assert_eq!(exactly::<4>(&mut stream).await, *b"last");
    drop(stream);
    let begin = Instant::now();
    stage.serving.await.expect("it ends");
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "nobody was left: {:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn stopping_ends_open_connections_after_a_time() {
    let limits = ProxyLimits { drain: Duration::from_millis(200), ..ProxyLimits::default() };
    let mut stage = ServedProxy::with(Settings { limits, ..Settings::default() }).await;
    let mut stream = tunnel(&stage, echo().await).await;
    let begin = Instant::now();
    stage.stop.take().map(|stop| stop.send(()));
    stage.serving.await.expect("it ends");
    assert!(
        (200..2000).contains(&begin.elapsed().as_millis()),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(rest(&mut stream).await, b"");
}
