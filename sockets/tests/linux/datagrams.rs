//! A program over UDP, and sockets of Linux.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hawser_sockets::host::StackSetup;
use hawser_sockets::{Endpoint, Network, host};
use hawser_testing::internet_checksum;
use socket2::{Domain, Protocol, Socket, Type};

use crate::testbed::{
    TIMEOUT, TestResult, Testbed, hawser_v4, hawser_v6, linux_v4, linux_v6, poll_until, ready,
};

/// Returns an endpoint of the program over UDP.
pub(crate) fn endpoint(stage: &Testbed) -> TestResult<Endpoint> {
    open(stage.setup())
}

fn open(setup: &StackSetup) -> TestResult<Endpoint> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/linux/udp.mtp");
    let program = hawser_load::programs::resolve(&program.display().to_string(), &[])?;
    Ok(host::open(program, setup)?)
}

/// Linux verifies the checksum of each answer, and reports its content and its source.
pub(crate) fn a_program_in_udp_answers_sockets(stage: &Testbed) -> TestResult {
    let mut endpoint = endpoint(stage)?;
    for (ours, linux) in [(hawser_v4(), linux_v4()), (hawser_v6(), linux_v6())] {
        let at = SocketAddr::new(ours, 4791);
        let listener = endpoint.listen(at, 4)?;
        let socket = UdpSocket::bind(SocketAddr::new(linux, 0))?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.connect(at)?;
        let own = socket.local_addr()?;
        let asking = thread::spawn(move || -> std::io::Result<Vec<Vec<u8>>> {
            let mut answers = Vec::new();
            for len in [1, 2, 3, 1000, 1400] {
                socket.send(&vec![len as u8; len])?;
                let mut answer = vec![0; 2000];
                let len = socket.recv(&mut answer)?;
                answer.truncate(len);
                answers.push(answer);
            }
            Ok(answers)
        });
        let connection = poll_until(&mut endpoint, "the first datagram", |endpoint| {
            ready(endpoint.accept(listener))
        })?;
        assert_eq!(endpoint.peer(connection), Some(own));
        let mut chunk = vec![0; 2000];
        poll_until(&mut endpoint, "the last answer", |endpoint| {
            while let Some(len) = ready(endpoint.read(connection, &mut chunk))? {
                endpoint.write(connection, &chunk[..len])?;
            }
            Ok(asking.is_finished().then_some(()))
        })?;
        let answers = asking.join().map_err(|_| "the peer panicked")??;
        let expected: Vec<Vec<u8>> = [1, 2, 3, 1000, 1400].map(|len| vec![len as u8; len]).into();
        assert_eq!(answers, expected);

        // The socket is closed, so Linux answers with an error, which finds the context.
        assert_eq!(endpoint.observe(connection, "errors"), Some(0));
        endpoint.write(connection, b"gone")?;
        poll_until(&mut endpoint, "the error", |endpoint| {
            Ok((endpoint.observe(connection, "errors") == Some(1)).then_some(()))
        })?;
        endpoint.close(connection);
        endpoint.close(listener);
    }
    Ok(())
}

/// Shards at one port of the host: each has peers, whichever address they call, and each peer gets its own
/// answers.
pub(crate) fn shards_at_a_socket_share_peers_out(_: &Testbed) -> TestResult {
    const PEERS: u8 = 60;
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/linux/udp.mtp");
    let program = hawser_load::programs::resolve(&program.display().to_string(), &[])?;
    let free = UdpSocket::bind("[::]:0")?.local_addr()?;
    let mut endpoints = host::open_shards(&program, &StackSetup::at_socket(free), 3)?;
    let taken = UdpSocket::bind(free).err().map(|error| error.kind());
    assert_eq!(taken, Some(ErrorKind::AddrInUse));
    let listeners = endpoints.iter_mut().map(|endpoint| endpoint.listen(free, 100));
    let listeners: Vec<_> = listeners.collect::<Result<_, _>>()?;
    let mut peers = Vec::new();
    for number in 0..PEERS {
        let ip = ["127.0.0.1", "::1"][usize::from(number % 2)].parse::<IpAddr>()?;
        let peer = UdpSocket::bind(SocketAddr::new(ip, 0))?;
        peer.connect(SocketAddr::new(ip, free.port()))?;
        peer.set_nonblocking(true)?;
        peer.send(&[number])?;
        peers.push(peer);
    }
    let (mut served, mut answered) = (vec![0; endpoints.len()], 0);
    let begin = Instant::now();
    while answered < PEERS {
        assert!(begin.elapsed() < TIMEOUT, "{served:?}, {answered} answers");
        for ((endpoint, listener), served) in endpoints.iter_mut().zip(&listeners).zip(&mut served) {
            endpoint.poll()?;
            while let Some(connection) = ready(endpoint.accept(*listener))? {
                let mut chunk = [0; 10];
                let len = ready(endpoint.read(connection, &mut chunk))?.ok_or("it came with a datagram")?;
                endpoint.write(connection, &chunk[..len])?;
                *served += 1;
            }
        }
        for (number, peer) in peers.iter().enumerate() {
            let mut answer = [0; 10];
            if let Some(len) = ready(peer.recv(&mut answer))? {
                assert_eq!(answer[..len], [number as u8]);
                answered += 1;
            }
        }
    }
    assert!(served.iter().all(|served| *served > 0), "{served:?}");
    Ok(())
}

/// A port without a registered parser is unreachable; other ports keep working.
pub(crate) fn other_ports_are_unreachable(stage: &Testbed) -> TestResult {
    let mut endpoint = endpoint(stage)?;
    for (ours, linux) in [(hawser_v4(), linux_v4()), (hawser_v6(), linux_v6())] {
        let socket = UdpSocket::bind(SocketAddr::new(linux, 0))?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.connect(SocketAddr::new(ours, 4790))?;
        let asking = thread::spawn(move || -> std::io::Result<ErrorKind> {
            socket.send(b"is anybody there?")?;
            Ok(socket.recv(&mut [0; 100]).expect_err("nobody answers").kind())
        });
        poll_until(&mut endpoint, "the error", |_| {
            Ok(asking.is_finished().then_some(()))
        })?;
        let kind = asking.join().map_err(|_| "the peer panicked")??;
        assert_eq!(kind, ErrorKind::ConnectionRefused);
    }
    Ok(())
}

/// An ICMP error arrives while the task that drives a stack on a UDP socket sleeps. Although the socket has
/// no datagram, the task wakes up at once, and not when it checks for its holders a second later.
pub(crate) fn an_error_wakes_up_the_task_of_a_socket(_: &Testbed) -> TestResult {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let own = UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
        let network = Network::start(open(&StackSetup::at_socket(own))?)?;
        let peer = UdpSocket::bind("127.0.0.1:0")?;
        peer.set_read_timeout(Some(TIMEOUT))?;
        let mut stream = network.connect(peer.local_addr()?).await?;
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"question").await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(peer.recv(&mut [0; 100])?, 8);
        // "Port unreachable" (RFC 792) about that datagram, as a router would send it.
        let (source, destination) = (own.port().to_be_bytes(), peer.local_addr()?.port().to_be_bytes());
        let mut icmp = vec![3, 3, 0, 0, 0, 0, 0, 0];
        icmp.extend([
            0x45, 0, 0, 36, 0, 0, 0x40, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1,
        ]);
        icmp.extend([source, destination, [0, 16], [0, 0]].concat());
        icmp.extend(b"question");
        let sum = internet_checksum(&[&icmp]);
        icmp[2..4].copy_from_slice(&sum);
        let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
        raw.send_to(&icmp, &SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
        let (probe, begin) = (stream.probe(), Instant::now());
        while probe.observe("errors") != Some(1) {
            if begin.elapsed() > Duration::from_millis(600) {
                return Err("the task has not woken up".into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    })
}
