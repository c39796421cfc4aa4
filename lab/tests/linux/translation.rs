//! Linux's own TCP, UDP and ICMP across a translator.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use hawser_testing::{Need, has};

use crate::{TestResult, pair};

const TIMEOUT: Duration = Duration::from_secs(5);
const NAT: &str = "both = { delay = \"1ms\" }\nnat = { inside = \"a\", ports = [41000, 41999] }";

pub(crate) fn streams_cross_a_translator() -> TestResult {
    let lab = pair(NAT)?;
    let (client, server) = (lab.host("a")?, lab.host("b")?);
    let listener = server.run(|| TcpListener::bind("0.0.0.0:80"))??;
    let to = SocketAddr::new(server.ipv4().ok_or("no IPv4")?, 80);
    let stream = client.run(|| TcpStream::connect_timeout(&to, TIMEOUT))??;
    let (peer, from) = listener.accept()?;
    assert_eq!(
        Some(from.ip()),
        client.ipv4(),
        "the outside address is what others know"
    );
    assert!((41_000..=41_999).contains(&from.port()), "{from}");
    assert_eq!(stream.local_addr()?.ip(), IpAddr::from([192, 168, 0, 2]));
    // A single wrong checksum loses a segment. There are enough segments for every sum to carry.
    let data: Vec<u8> = (0..2_000_000u32)
        .map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8)
        .collect();
    let sent = data.clone();
    let sender = std::thread::spawn(move || {
        (&stream)
            .write_all(&sent)
            .and_then(|()| stream.shutdown(std::net::Shutdown::Write))
    });
    let mut got = Vec::new();
    peer.set_read_timeout(Some(TIMEOUT))?;
    (&peer).read_to_end(&mut got)?;
    sender.join().map_err(|_| "the sender panicked")??;
    assert!(got == data, "{} bytes", got.len());
    let retransmitted = lab.link("link")?.statistics(hawser_lab::Direction::Forward)?;
    assert_eq!(retransmitted.lost.get("nat"), None, "{retransmitted:?}");
    Ok(())
}

pub(crate) fn rebinding_takes_other_ports() -> TestResult {
    let lab = pair(NAT)?;
    let server = lab.host("b")?.run(|| UdpSocket::bind("0.0.0.0:7"))??;
    server.set_read_timeout(Some(TIMEOUT))?;
    let client = lab.host("a")?.run(|| UdpSocket::bind("0.0.0.0:0"))??;
    client.set_read_timeout(Some(Duration::from_millis(200)))?;
    client.connect(SocketAddr::new(lab.host("b")?.ipv4().ok_or("no IPv4")?, 7))?;
    let ask = || -> TestResult<SocketAddr> {
        client.send(b"?")?;
        Ok(server.recv_from(&mut [0; 9])?.1)
    };
    let before = ask()?;
    assert_eq!(before, ask()?, "the mapping lasts");
    server.send_to(b"!", before)?;
    assert!(client.recv(&mut [0; 9]).is_ok());
    lab.link("link")?.rebind()?;
    server.send_to(b"!", before)?;
    assert!(client.recv(&mut [0; 9]).is_err(), "nobody is behind the old port");
    let after = ask()?;
    assert_eq!(before.ip(), after.ip());
    assert_ne!(before.port(), after.port());
    server.send_to(b"!", after)?;
    assert!(client.recv(&mut [0; 9]).is_ok());
    Ok(())
}

/// Tests an unprivileged ICMP socket, if there is a program that opens one.
pub(crate) fn echoes_cross_a_translator() -> TestResult {
    if !has("translation::echoes_cross_a_translator", &[Need::Python]) {
        return Ok(());
    }
    let lab = pair(NAT)?;
    let script = "import socket\n\
                  s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)\n\
                  s.settimeout(5)\n\
                  s.sendto(bytes([8, 0, 0, 0, 0, 0, 0, 1]) + b'ahoy', ('10.77.0.2', 0))\n\
                  answer = s.recv(100)\n\
                  assert answer[0] == 0 and answer[-4:] == b'ahoy', answer\n";
    let range = || std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0");
    lab.host("a")?.run(range)??;
    let mut command = lab.host("a")?.command("python3")?;
    let status = command.args(["-c", script]).stdin(Stdio::null()).status()?;
    assert!(status.success(), "{status}");
    Ok(())
}
