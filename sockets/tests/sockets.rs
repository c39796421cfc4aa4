//! Programs over UDP on sockets of the host, for ordinary users and at the host's own addresses. The peers
//! are sockets of the standard library, and other stacks.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use hawser_sockets::host::{self, StackSetup};
use hawser_sockets::{Endpoint, Handle};
use hawser_testing::TestResult;
use socket2::SockRef;

const TIMEOUT: Duration = Duration::from_secs(10);

/// The address of the program's socket, and of a peer of its family.
const LOOPBACKS: [(&str, &str); 5] = [
    ("127.0.0.1:0", "127.0.0.1"),
    ("0.0.0.0:0", "127.0.0.3"),
    ("[::1]:0", "::1"),
    ("[::]:0", "::1"),
    ("[::]:0", "127.0.0.1"),
];

/// Returns an endpoint of the datagram program at a socket of the host, and its port.
fn datagrams(at: &str) -> TestResult<(Endpoint, u16)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/linux/udp.mtp");
    open(&file.display().to_string(), at)
}

fn open(program: &str, at: &str) -> TestResult<(Endpoint, u16)> {
    let program = hawser_load::programs::resolve(program, &[])?;
    // A port that is free now is ours, unless another test takes it at this moment.
    let at: SocketAddr = at.parse()?;
    let port = match at.port() {
        0 => UdpSocket::bind(at)?.local_addr()?.port(),
        port => port,
    };
    let at = SocketAddr::new(at.ip(), port);
    Ok((host::open(program, &StackSetup::at_socket(at))?, port))
}

fn poll_until<T>(
    endpoint: &mut Endpoint,
    what: &str,
    mut done: impl FnMut(&mut Endpoint) -> TestResult<Option<T>>,
) -> TestResult<T> {
    let begin = Instant::now();
    loop {
        while endpoint.poll()? {}
        if let Some(value) = done(endpoint)? {
            endpoint.poll()?;
            return Ok(value);
        }
        if begin.elapsed() > TIMEOUT {
            return Err(format!("{what} did not happen within {TIMEOUT:?}").into());
        }
        if !endpoint.poll()? {
            endpoint.wait(Some(Duration::from_millis(20)))?;
        }
    }
}

fn ready<T>(result: std::io::Result<T>) -> TestResult<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn peer(ip: &str) -> TestResult<UdpSocket> {
    let socket = UdpSocket::bind((ip.parse::<IpAddr>()?, 0))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    Ok(socket)
}

fn accepted(endpoint: &mut Endpoint, listener: Handle) -> TestResult<Handle> {
    poll_until(endpoint, "a datagram", |endpoint| {
        ready(endpoint.accept(listener))
    })
}

/// Reads one datagram, which the program delivers unchanged.
fn read(endpoint: &mut Endpoint, connection: Handle) -> TestResult<Vec<u8>> {
    let mut bytes = vec![0; 1 << 16];
    let len = poll_until(endpoint, "bytes", |endpoint| {
        ready(endpoint.read(connection, &mut bytes))
    })?;
    bytes.truncate(len);
    Ok(bytes)
}

#[test]
fn a_socket_gets_exactly_the_programs_bytes_and_is_answered() -> TestResult {
    for (at, peer_ip) in LOOPBACKS {
        let (mut endpoint, port) = datagrams(at)?;
        let listener = endpoint.listen(SocketAddr::new(at.parse::<SocketAddr>()?.ip(), port), 4)?;
        let peer = peer(peer_ip)?;
        peer.connect((peer_ip.parse::<IpAddr>()?, port))?;
        peer.send(b"a question")?;
        let connection = accepted(&mut endpoint, listener)?;
        assert_eq!(endpoint.peer(connection), Some(peer.local_addr()?), "{at}");
        assert_eq!(read(&mut endpoint, connection)?, b"a question");
        for len in [1, 2, 1000, 1200] {
            let sent = vec![len as u8; len];
            endpoint.write(connection, &sent)?;
            endpoint.poll()?;
            let mut received = vec![0; 2000];
            let len = peer.recv(&mut received)?;
            assert_eq!(received[..len], sent, "{at}");
        }
    }
    Ok(())
}

#[test]
fn a_program_asks_a_socket_and_is_answered() -> TestResult {
    for (at, peer_ip) in LOOPBACKS {
        let (mut endpoint, port) = datagrams(at)?;
        let peer = peer(peer_ip)?;
        let connection = endpoint.connect(peer.local_addr()?)?;
        endpoint.write(connection, b"a question")?;
        endpoint.poll()?;
        let mut received = vec![0; 100];
        let (len, from) = peer.recv_from(&mut received)?;
        assert_eq!(
            (&received[..len], from.port()),
            (&b"a question"[..], port),
            "{at}"
        );
        peer.send_to(b"an answer", from)?;
        assert_eq!(read(&mut endpoint, connection)?, b"an answer");
        let second = endpoint.connect(peer.local_addr()?);
        assert_eq!(
            second.err().map(|error| error.kind()),
            Some(ErrorKind::AddrInUse),
            "a socket has one port, and this program knows connections by their ports"
        );
    }
    Ok(())
}

#[test]
fn an_answer_comes_from_the_address_that_was_asked() -> TestResult {
    let (mut endpoint, port) = datagrams("0.0.0.0:0")?;
    let listener = endpoint.listen(SocketAddr::new([0, 0, 0, 0].into(), port), 4)?;
    for own in [[127, 0, 0, 1], [127, 0, 0, 2], [127, 9, 9, 9]] {
        let peer = peer("127.0.0.1")?;
        let asked = SocketAddr::new(own.into(), port);
        peer.send_to(b"who are you?", asked)?;
        let connection = accepted(&mut endpoint, listener)?;
        endpoint.write(connection, b"it is me")?;
        endpoint.poll()?;
        let (_, from) = peer.recv_from(&mut [0; 100])?;
        assert_eq!(from, asked);
    }
    Ok(())
}

#[test]
fn ecn_marks_come_through_both_ways() -> TestResult {
    for (at, peer_ip) in LOOPBACKS {
        let (mut endpoint, port) = datagrams(at)?;
        let listener = endpoint.listen(SocketAddr::new(at.parse::<SocketAddr>()?.ip(), port), 4)?;
        let peer = peer(peer_ip)?;
        peer.connect((peer_ip.parse::<IpAddr>()?, port))?;
        let mut connection = None;
        for mark in [0_u32, 1, 2, 3] {
            match peer.local_addr()?.is_ipv4() {
                true => SockRef::from(&peer).set_tos_v4(mark)?,
                false => SockRef::from(&peer).set_tclass_v6(mark)?,
            }
            peer.send(&[7])?;
            let connection = match connection {
                Some(connection) => connection,
                None => *connection.insert(accepted(&mut endpoint, listener)?),
            };
            read(&mut endpoint, connection)?;
            assert_eq!(endpoint.observe(connection, "ecn"), Some(u64::from(mark)), "{at}");
        }
    }
    Ok(())
}

#[test]
fn a_closed_port_is_reported_to_the_program() -> TestResult {
    for (at, peer_ip) in LOOPBACKS {
        let (mut endpoint, _) = datagrams(at)?;
        let gone = peer(peer_ip)?.local_addr()?;
        let connection = endpoint.connect(gone)?;
        assert_eq!(endpoint.observe(connection, "errors"), Some(0));
        endpoint.write(connection, b"is anybody there?")?;
        poll_until(&mut endpoint, "the error", |endpoint| {
            Ok((endpoint.observe(connection, "errors") == Some(1)).then_some(()))
        })?;
        // ICMP_REFUSED of the engine's ABI.
        let refused = u64::from(hawser_ir::abi::ICMP_REFUSED);
        assert_eq!(endpoint.observe(connection, "kind"), Some(refused), "{at}");
        // The socket still works: another peer is reached.
        let other = peer(peer_ip)?;
        let connection = endpoint.connect(other.local_addr()?)?;
        endpoint.write(connection, b"and you?")?;
        endpoint.poll()?;
        let mut received = [0; 100];
        let len = other.recv(&mut received)?;
        assert_eq!(&received[..len], b"and you?");
    }
    Ok(())
}

#[test]
fn two_stacks_exchange_datagrams() -> TestResult {
    for at in ["127.0.0.1:0", "[::1]:0"] {
        let (mut server, port) = datagrams(at)?;
        let (mut client, client_port) = datagrams(at)?;
        let there = SocketAddr::new(at.parse::<SocketAddr>()?.ip(), port);
        let listener = server.listen(there, 4)?;
        let asking = client.connect(there)?;
        let mut answering = None;
        for round in 0..100_u32 {
            client.write(asking, &round.to_be_bytes())?;
            client.poll()?;
            let answering = match answering {
                Some(answering) => answering,
                None => *answering.insert(accepted(&mut server, listener)?),
            };
            let question = read(&mut server, answering)?;
            assert_eq!(question, round.to_be_bytes());
            server.write(answering, &question)?;
            server.poll()?;
            assert_eq!(read(&mut client, asking)?, question);
        }
        let peer = answering.and_then(|answering| server.peer(answering));
        assert_eq!(peer, Some(SocketAddr::new(there.ip(), client_port)));
    }
    Ok(())
}

/// One socket is both ends: it receives a request of one peer while it sends one to another.
#[test]
fn a_listener_and_connections_share_the_port() -> TestResult {
    let (mut endpoint, port) = datagrams("127.0.0.1:0")?;
    let listener = endpoint.listen(SocketAddr::new([127, 0, 0, 1].into(), port), 4)?;
    let (asked, asking) = (peer("127.0.0.1")?, peer("127.0.0.1")?);
    let connection = endpoint.connect(asked.local_addr()?)?;
    endpoint.write(connection, b"to the one")?;
    endpoint.poll()?;
    let (_, from) = asked.recv_from(&mut [0; 100])?;
    assert_eq!(from.port(), port);
    asking.send_to(b"from the other", from)?;
    let accepted = accepted(&mut endpoint, listener)?;
    assert_eq!(endpoint.peer(accepted), Some(asking.local_addr()?));
    assert_eq!(read(&mut endpoint, accepted)?, b"from the other");
    asked.send_to(b"from the one", from)?;
    assert_eq!(read(&mut endpoint, connection)?, b"from the one");
    Ok(())
}

/// Lets both ends work until `done` returns a value.
fn both_until<T>(
    ends: &mut [Endpoint; 2],
    mut done: impl FnMut(&mut [Endpoint; 2]) -> TestResult<Option<T>>,
) -> TestResult<T> {
    let begin = Instant::now();
    while begin.elapsed() < TIMEOUT {
        for end in &mut *ends {
            while end.poll()? {}
        }
        if let Some(value) = done(ends)? {
            return Ok(value);
        }
        ends[0].wait(Some(Duration::from_millis(1)))?;
    }
    Err(format!("it did not happen within {TIMEOUT:?}").into())
}

/// A program that distinguishes connections by its own ids has several from one port to one peer.
#[test]
fn two_connections_to_one_server_share_a_socket() -> TestResult {
    let (client, _) = open("quic-lite", "127.0.0.1:0")?;
    let (mut server, port) = open("quic-lite", "127.0.0.1:0")?;
    let there = SocketAddr::new([127, 0, 0, 1].into(), port);
    let listener = server.listen(there, 4)?;
    let mut ends = [client, server];
    let connections = [ends[0].connect(there)?, ends[0].connect(there)?];
    let mut streams = Vec::new();
    for (connection, question) in connections.into_iter().zip([b"one", b"two"]) {
        let asking = both_until(&mut ends, |[client, _]| ready(client.byte_stream(connection)))?;
        ends[0].write(asking, question)?;
        let answering = both_until(&mut ends, |[_, server]| ready(server.accept_stream(listener)))?;
        streams.push((asking, answering, question));
    }
    for (asking, answering, question) in streams {
        let mut bytes = [0; 10];
        let len = both_until(&mut ends, |[_, server]| ready(server.read(answering, &mut bytes)))?;
        assert_eq!(&bytes[..len], question);
        ends[1].write(answering, &bytes[..len])?;
        let len = both_until(&mut ends, |[client, _]| ready(client.read(asking, &mut bytes)))?;
        assert_eq!(&bytes[..len], question);
    }
    Ok(())
}

/// A flood of datagrams that are no packets of the program leaves no context, and later packets are served.
#[test]
fn foreign_datagrams_are_dropped() -> TestResult {
    let folder = hawser_documents::temporary::Folder::new()?;
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/stop-and-wait.mtp"))?;
    let text = text.replace("ip(253)", "udp(4791)").replace(
        "ip.dst_ip = c.rip;",
        "ip.dst_ip = c.rip;  ip.src_port = c.lport;  ip.dst_port = c.rport;",
    );
    let file = folder.join("in-udp.mtp");
    std::fs::write(&file, text)?;
    let program = file.display().to_string();
    let (mut server, port) = open(&program, "127.0.0.1:0")?;
    let there = SocketAddr::new([127, 0, 0, 1].into(), port);
    let listener = server.listen(there, 4)?;
    let before = server.contexts();
    let peer = peer("127.0.0.1")?;
    for len in (0..64).chain([1400, 65_507]).cycle().take(5_000) {
        peer.send_to(&vec![len as u8; len], there)?;
        if len == 63 {
            while server.poll()? {}
        }
    }
    while server.poll()? {}
    assert_eq!(server.contexts(), before);
    let (mut client, _) = open(&program, "127.0.0.1:0")?;
    let asking = client.connect(there)?;
    client.write(asking, b"a packet of the program")?;
    let answering = loop {
        while client.poll()? {}
        while server.poll()? {}
        if let Some(answering) = ready(server.accept(listener))? {
            break answering;
        }
        client.wait(Some(Duration::from_millis(5)))?;
    };
    let mut bytes = vec![0; 100];
    let len = loop {
        while client.poll()? {}
        while server.poll()? {}
        if let Some(len) = ready(server.read(answering, &mut bytes))? {
            break len;
        }
        client.wait(Some(Duration::from_millis(5)))?;
    };
    assert_eq!(&bytes[..len], b"a packet of the program");
    Ok(())
}

#[test]
fn a_program_that_is_not_in_udp_is_refused() -> TestResult {
    let program = hawser_load::programs::resolve("tcp", &[])?;
    let at = StackSetup::at_socket("127.0.0.1:0".parse()?);
    let refused = host::open(program, &at).err().ok_or("it must not open")?;
    assert!(
        matches!(refused, hawser_sockets::OpenError::NotInUdp),
        "{refused}"
    );
    Ok(())
}
