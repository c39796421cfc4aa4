//! Destinations that must stay closed under any name.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hawser::race::resolve::{Config, Resolver};
use hawser::session::relay::{ClientError, Destination, Reply};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, UdpSocket};

use crate::TestResult;
use crate::testbed::{SERVER, Testbed, limits};

/// Names that resolve to special addresses.
const NAMES: &[(&str, &str)] = &[
    ("loop.evil.example", "127.0.0.1"),
    ("loop6.evil.example", "::1"),
    ("any.evil.example", "0.0.0.0"),
    ("private.evil.example", "10.77.0.2"),
    ("mapped.evil.example", "::ffff:10.0.0.1"),
    ("mapped-loop.evil.example", "::ffff:127.0.0.1"),
    ("link.evil.example", "169.254.1.1"),
    ("link6.evil.example", "fe80::1"),
    ("metadata.evil.example", "169.254.169.254"),
    ("metadata6.evil.example", "fd00:ec2::254"),
    ("shared.evil.example", "100.64.0.1"),
    ("unique.evil.example", "fd77::2"),
    ("nat64.evil.example", "64:ff9b::7f00:1"),
    ("ipv4only.arpa", "2606:64::c000:aa"),
    ("translated.evil.example", "2606:64::a9fe:a9fe"),
    ("own.evil.example", "93.184.216.1"),
    ("own6.evil.example", "2606:2800::1"),
    ("several.evil.example", "127.0.0.1 10.77.0.2 169.254.169.254 ::1"),
];

/// Addresses in the form of requests.
const ADDRESSES: &[&str] = &[
    "127.0.0.1",
    "[::1]",
    "0.0.0.0",
    "[::]",
    "10.77.0.2",
    "[::ffff:127.0.0.1]",
    "[::127.0.0.1]",
    "169.254.169.254",
    "[2606:64::7f00:1]",
    "[fd00:42::42]",
    "93.184.216.1",
    "255.255.255.255",
    "224.0.0.1",
    "localhost",
    "x.localhost",
];

pub(crate) fn inside_addresses_and_names_are_refused() -> TestResult {
    let mut stage = Testbed::up(NAMES)?;
    stage.serve(
        &["public", "*.evil.example:*", "0.0.0.0/0:*", "[::/0]:*"],
        limits(),
    )?;
    // The forbidden addresses do have a listener.
    let inside = stage
        .gateway
        .block_on(stage.gateway.spawn(TcpListener::bind(("::", 80))))??;
    let visitors = Arc::new(AtomicUsize::new(0));
    let count = visitors.clone();
    stage.gateway.spawn(async move {
        while inside.accept().await.is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let near = stage.near()?;
    stage.as_client(async move {
        for host in NAMES
            .iter()
            .map(|(name, _)| *name)
            .chain(ADDRESSES.iter().copied())
        {
            let denied = near.connect(&Destination::parse(&format!("{host}:80"))?).await;
            let is_forbidden = matches!(denied, Err(ClientError::Denied(Reply::NotAllowed)));
            assert!(is_forbidden, "{host}: {:?}", denied.map(|_| "connected"));
        }
        Ok(())
    })?;
    assert_eq!(visitors.load(Ordering::Relaxed), 0);
    Ok(())
}

pub(crate) fn all_destinations_are_denied_by_default() -> TestResult {
    let mut stage = Testbed::up(&[])?;
    stage.serve(&[], limits())?;
    let near = stage.near()?;
    stage.as_client(async move {
        for host in ["web.example", SERVER, "127.0.0.1", "nowhere.example"] {
            let denied = near.connect(&Destination::parse(&format!("{host}:80"))?).await;
            assert!(
                matches!(denied, Err(ClientError::Denied(Reply::NotAllowed))),
                "{host}"
            );
        }
        Ok(())
    })
}

/// Runs a name server that answers with one address first and with another afterwards. It counts the queries
/// for IPv4.
async fn fickle(socket: UdpSocket, first: Ipv4Addr, later: Ipv4Addr, asked: Arc<AtomicUsize>) {
    let mut query = [0; 512];
    while let Ok((length, from)) = socket.recv_from(&mut query).await {
        // A header, a name, its type and class (RFC 1035, 4.1).
        let name = query[12..length]
            .iter()
            .position(|byte| *byte == 0)
            .map_or(length, |at| 12 + at + 1);
        let Some(kind) = query.get(name..name + 2) else {
            continue;
        };
        let is_ipv4 = kind == [0, 1];
        let mut answer = query[..name + 4].to_vec();
        // A response, recursion available, no error; one question; no additional records.
        answer[2..4].copy_from_slice(&[0x81, 0x80]);
        answer[6..12].copy_from_slice(&[0, u8::from(is_ipv4), 0, 0, 0, 0]);
        if is_ipv4 {
            let is_first = asked.fetch_add(1, Ordering::Relaxed) == 0;
            let address = if is_first { first } else { later };
            // A pointer to the name above, type A, class IN, a TTL of 0, and four bytes of data.
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
            answer.extend(address.octets());
        }
        let _ = socket.send_to(&answer, from).await;
    }
}

pub(crate) fn a_rebound_name_does_not_reach_inside() -> TestResult {
    let mut stage = Testbed::up(&[])?;
    let asked = Arc::new(AtomicUsize::new(0));
    let socket = stage
        .server
        .block_on(stage.server.spawn(UdpSocket::bind((SERVER, 53))))??;
    let first: Ipv4Addr = SERVER.parse()?;
    stage
        .server
        .spawn(fickle(socket, first, Ipv4Addr::LOCALHOST, asked.clone()));
    let listener = stage
        .server
        .block_on(stage.server.spawn(TcpListener::bind((IpAddr::from(first), 80))))??;
    stage
        .server
        .spawn(async move { while listener.accept().await.is_ok() {} });
    let inside = stage
        .gateway
        .block_on(stage.gateway.spawn(TcpListener::bind(("127.0.0.1", 80))))??;

    let config = Config::parse(&format!("nameserver {SERVER}\n"), "")?;
    let resolver = stage.gateway.block_on(async { Resolver::new(&config) })?;
    stage.serve_by(&["rebound.example:80"], limits(), resolver)?;
    let (near, count) = (stage.near()?, asked.clone());
    stage.as_client(async move {
        let name = Destination::parse("rebound.example:80")?;
        let mut stream = near.connect(&name).await?;
        assert_eq!(count.load(Ordering::Relaxed), 1, "the name is asked for once");
        assert_eq!(
            stream.read(&mut [0]).await?,
            0,
            "the public server answered: it hangs up"
        );
        // From now on the name resolves to a special address.
        for _ in 0..3 {
            let denied = near.connect(&name).await;
            assert!(matches!(denied, Err(ClientError::Denied(Reply::NotAllowed))));
        }
        Ok(())
    })?;
    assert_eq!(asked.load(Ordering::Relaxed), 4);
    let nobody = stage.gateway.block_on(async {
        tokio::time::timeout(Duration::from_millis(100), inside.accept())
            .await
            .is_err()
    });
    assert!(nobody, "somebody came in");
    Ok(())
}
