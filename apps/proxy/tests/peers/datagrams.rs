//! UDP ASSOCIATE (RFC 1928, 4 and 7), also with a real client.

use std::net::SocketAddr;
use std::time::Duration;

use hawser::connect::transports::Transports;
use hawser_proxy::{Choice, Settings};
use hawser_testing::{Need, has};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use crate::served_proxy::{ServedProxy, TIMEOUT, exactly};

/// Starts a server that sends each datagram back.
async fn echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let address = socket.local_addr().expect("its address");
    tokio::spawn(async move {
        let mut buffer = [0; 65_535];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(&buffer[..length], from).await;
        }
    });
    address
}

/// Opens a relay for a client. Returns its TCP connection, and its UDP socket, which is connected to the
/// relay.
async fn associate(stage: &ServedProxy, from_port: u16) -> (TcpStream, UdpSocket) {
    let mut control = stage.connect().await;
    let request = [
        &b"\x05\x01\x00\x05\x03\x00\x01\x7f\0\0\x01"[..],
        &from_port.to_be_bytes(),
    ]
    .concat();
    control.write_all(&request).await.expect("it is sent");
    assert_eq!(exactly::<2>(&mut control).await, [5, 0]);
    let reply = exactly::<10>(&mut control).await;
    assert_eq!(reply[..8], *b"\x05\0\0\x01\x7f\0\0\x01");
    let relay = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes([reply[8], reply[9]])));
    let socket = UdpSocket::bind(("127.0.0.1", from_port)).await.expect("a port");
    socket.connect(relay).await.expect("it is there");
    (control, socket)
}

fn datagram(to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let SocketAddr::V4(to) = to else { panic!("{to}") };
    [
        &b"\0\0\0\x01"[..],
        &to.ip().octets(),
        &to.port().to_be_bytes(),
        payload,
    ]
    .concat()
}

/// Waits for a datagram for a moment.
async fn received(socket: &UdpSocket) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 65_535];
    let read = tokio::time::timeout(Duration::from_millis(300), socket.recv(&mut buffer)).await;
    read.ok()?.ok().map(|length| buffer[..length].to_vec())
}

#[tokio::test]
async fn datagrams_go_to_addresses_and_names_and_back() {
    let (stage, echo) = (ServedProxy::new().await, echo().await);
    let (mut control, socket) = associate(&stage, 0).await;
    for payload in [&b""[..], b"hello", &[7; 60_000]] {
        socket.send(&datagram(echo, payload)).await.expect("it is sent");
        let expected = datagram(echo, payload);
        assert!(
            received(&socket).await.as_ref() == Some(&expected),
            "{} bytes",
            payload.len()
        );
    }
    // The name's IPv6 address may come first, where no server answers.
    let name = [
        &b"\0\0\0\x03\x09localhost"[..],
        &echo.port().to_be_bytes(),
        b"by name",
    ]
    .concat();
    socket.send(&name).await.expect("it is sent");
    let by_name = received(&socket).await;
    assert!(by_name.is_none_or(|whole| whole == datagram(echo, b"by name")));
    control.shutdown().await.expect("it ends");
    let ended = tokio::time::timeout(TIMEOUT, control.read(&mut [0]))
        .await
        .expect("in time");
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    socket.send(&datagram(echo, b"late")).await.expect("it is sent");
    assert_eq!(
        received(&socket).await,
        None,
        "the relay has ended with the connection"
    );
    let events = stage.events();
    assert!(
        events.ends_with(&["associated".to_owned(), "dissociated".to_owned()]),
        "{events:?}"
    );
}

/// RFC 1928, 7: datagrams of other senders are dropped, and fragments are not reassembled.
#[tokio::test]
async fn fragments_and_datagrams_of_others_are_dropped() {
    let (stage, echo) = (ServedProxy::new().await, echo().await);
    let free = std::net::UdpSocket::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("one")
        .port();
    for named in [0, free] {
        let (_control, socket) = associate(&stage, named).await;
        let relay = socket.peer_addr().expect("it is connected");
        let other = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        if named == 0 {
            socket.send(&datagram(echo, b"first")).await.expect("it is sent");
            assert!(
                received(&socket).await.is_some(),
                "the first port is the client's"
            );
        }
        other
            .send_to(&datagram(echo, b"mine"), relay)
            .await
            .expect("it is sent");
        assert_eq!((received(&other).await, received(&socket).await), (None, None));
        for (at, value) in [(2, 1), (2, 0x80), (3, 9)] {
            let mut wrong = datagram(echo, b"wrong");
            wrong[at] = value;
            socket.send(&wrong).await.expect("it is sent");
        }
        socket.send(b"\0\0\0\x01\x7f").await.expect("it is sent");
        assert_eq!(received(&socket).await, None, "nothing of it is relayed");
        socket.send(&datagram(echo, b"still")).await.expect("it is sent");
        assert_eq!(received(&socket).await, Some(datagram(echo, b"still")));
    }
}

/// Only hosts to which the client has sent may answer, whatever the address of the relay's socket.
#[tokio::test]
async fn datagrams_of_unsolicited_hosts_are_dropped() {
    let stage = ServedProxy::new().await;
    let known = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let unknown = UdpSocket::bind("127.0.0.2:0").await.expect("a port");
    let (_control, socket) = associate(&stage, 0).await;
    let to = known.local_addr().expect("its address");
    socket.send(&datagram(to, b"question")).await.expect("it is sent");
    let (_, relay) = known.recv_from(&mut [0; 64]).await.expect("a datagram");
    let relay = SocketAddr::from(([127, 0, 0, 1], relay.port()));
    unknown.send_to(b"unasked", relay).await.expect("it is sent");
    assert_eq!(received(&socket).await, None);
    known.send_to(b"answer", relay).await.expect("it is sent");
    assert_eq!(received(&socket).await, Some(datagram(to, b"answer")));
}

/// Streams to the destination may use only SCTP, so no datagram may go there directly.
#[tokio::test]
async fn datagrams_leave_only_where_streams_may() {
    let transport = Transports::new().parse("sctp", 0).expect("a transport");
    let settings = Settings { choice: Choice::Always([transport].into()), ..Settings::default() };
    let (stage, echo) = (ServedProxy::with(settings).await, echo().await);
    let (_control, socket) = associate(&stage, 0).await;
    socket.send(&datagram(echo, b"hello")).await.expect("it is sent");
    assert_eq!(received(&socket).await, None);
}

/// An independent client: PySocks, through which Python's sockets send.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pysocks_is_served() {
    const CLIENT: &str = r#"
import socks, sys
proxy, echo = int(sys.argv[1]), int(sys.argv[2])
client = socks.socksocket(socks.socket.AF_INET, socks.socket.SOCK_DGRAM)
client.set_proxy(socks.SOCKS5, "127.0.0.1", proxy)
client.settimeout(10)
for size in (1, 500, 9000):
    client.sendto(b"x" * size, ("127.0.0.1", echo))
    answer, address = client.recvfrom(65535)
    assert answer == b"x" * size and address == ("127.0.0.1", echo), (len(answer), address)
"#;
    // Debian installs Python modules in this folder, but the first Python in the path may be another one.
    let mut python = tokio::process::Command::new("python3");
    python.env("PYTHONPATH", "/usr/lib/python3/dist-packages");
    if !has("pysocks_is_served", &[Need::Pysocks]) {
        return;
    }
    let (stage, echo) = (ServedProxy::new().await, echo().await);
    let (proxy, echo) = (stage.proxy.port().to_string(), echo.port().to_string());
    let output = python.args(["-c", CLIENT, &proxy, &echo]).output().await;
    let output = output.expect("python3 is there");
    assert!(output.status.success(), "{output:?}");
}
