//! A proxy on this host, origins, and clients that speak the protocols byte by byte.

use std::net::SocketAddr;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use hawser::connect::Racer;
use hawser_proxy::{Proxy, ProxyEvent, ProxyLimits, Settings};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// A time limit that is ample even on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// A proxy that serves until it is dropped, and its events.
pub(crate) struct ServedProxy {
    pub(crate) proxy: SocketAddr,
    pub(crate) reported: Arc<Mutex<Vec<ProxyEvent>>>,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) serving: tokio::task::JoinHandle<()>,
}

impl ServedProxy {
    pub(crate) async fn new() -> ServedProxy {
        ServedProxy::with(Settings::default()).await
    }

    pub(crate) async fn with(settings: Settings) -> ServedProxy {
        ServedProxy::at([127, 0, 0, 1], settings).await
    }

    /// Starts a proxy on this address.
    pub(crate) async fn at(address: [u8; 4], settings: Settings) -> ServedProxy {
        let reported: Arc<Mutex<Vec<ProxyEvent>>> = Arc::default();
        let log = Arc::clone(&reported);
        let settings = Settings {
            listen: vec![SocketAddr::from((address, 0))],
            observer: Some(Arc::new(move |event| log.lock().push(event))),
            ..settings
        };
        let racer = Racer::open().await.expect("a racer");
        let proxy = Proxy::bind(racer, settings).await.expect("a proxy");
        let address = proxy.addresses()[0];
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(proxy.serve(async {
            let _ = stopped.await;
        }));
        ServedProxy { proxy: address, reported, stop: Some(stop), serving }
    }

    /// The names of the events so far, in order.
    pub(crate) fn events(&self) -> Vec<String> {
        let reported = self.reported.lock();
        let name = |event| {
            serde_json::to_value(event).expect("JSON")["event"]
                .as_str()
                .map(str::to_owned)
        };
        reported.iter().filter_map(name).collect()
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.proxy).await.expect("the proxy")
    }

    /// Sends bytes and returns everything received until the end.
    pub(crate) async fn exchange(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect().await;
        // The proxy may have rejected the client before all was sent.
        let _ = stream.write_all(bytes).await;
        rest(&mut stream).await
    }

    /// Runs curl through the proxy.
    pub(crate) async fn curl(&self, scheme: &str, arguments: &[&str]) -> Output {
        let mut curl = tokio::process::Command::new("curl");
        curl.args(["-sS", "--max-time", "15", "--noproxy", "", "--proxy"]);
        curl.arg(format!("{scheme}://{}", self.proxy)).args(arguments);
        curl.output().await.expect("curl is installed")
    }
}

/// Settings with short limits.
pub(crate) fn impatient() -> Settings {
    Settings {
        limits: ProxyLimits {
            head: Duration::from_millis(400),
            connections: 8,
            ..ProxyLimits::default()
        },
        ..Settings::default()
    }
}

/// Reads until the end or a reset.
pub(crate) async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let read = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut all)).await;
    let _ = read.expect("it ends");
    all
}

pub(crate) async fn exactly<const N: usize>(stream: &mut TcpStream) -> [u8; N] {
    let mut bytes = [0; N];
    let read = tokio::time::timeout(TIMEOUT, stream.read_exact(&mut bytes)).await;
    read.expect("it comes in time").expect("it comes");
    bytes
}

/// Starts an origin that passes each connection to `serve`.
pub(crate) async fn origin<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("an address");
    let address = listener.local_addr().expect("it has one");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// Starts an HTTP origin that answers with the received head and closes.
pub(crate) async fn mirror() -> SocketAddr {
    origin(|mut stream| async move {
        let head = head(&mut stream).await;
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\n\r\n{head}",
            head.len()
        );
        let _ = stream.write_all(answer.as_bytes()).await;
    })
    .await
}

/// Reads a head up to its empty line.
pub(crate) async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).expect("text")
}

/// Starts an origin that sends its input back until the end.
pub(crate) async fn echo() -> SocketAddr {
    origin(|mut stream| async move {
        let (mut from, mut to) = stream.split();
        let _ = tokio::io::copy(&mut from, &mut to).await;
    })
    .await
}

/// Returns a port of this host without a listener.
pub(crate) async fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("an address");
    listener.local_addr().expect("it has one")
}

/// The SOCKS5 greeting and request for an address.
pub(crate) fn socks(to: SocketAddr) -> Vec<u8> {
    let SocketAddr::V4(to) = to else { panic!("{to}") };
    [
        &b"\x05\x01\x00\x05\x01\x00\x01"[..],
        &to.ip().octets(),
        &to.port().to_be_bytes(),
    ]
    .concat()
}

/// Opens a tunnel through SOCKS5.
pub(crate) async fn tunnel(stage: &ServedProxy, to: SocketAddr) -> TcpStream {
    let mut stream = stage.connect().await;
    stream.write_all(&socks(to)).await.expect("it is sent");
    assert_eq!(exactly::<2>(&mut stream).await, [5, 0]);
    assert_eq!(exactly::<10>(&mut stream).await, [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    stream
}
