//! The kernel's congestion controllers below a session: they see the same traffic as below any program that
//! writes at full speed.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};

use hawser::lab::Direction::Backward;
use hawser_experiments::{Testbed, Transfer};
use socket2::SockRef;

use crate::TestResult;
use crate::network::{Link, stage};

const LINK: Link = Link {
    name: "line",
    interface: "wlan0",
    rate: 40,
    delay: 20.0,
    // The bytes of one round trip at the link's rate.
    queue: 200_000,
};
/// The largest ratio of the bytes that a session sends to those of a plain program. Headers of segments and
/// TLS take less than a hundredth.
const MAX_RATIO: f64 = 1.05;
const BYTES: usize = 20 << 20;
/// The port of the plain server, which no transfer uses.
const PLAIN: u16 = 4_000;

/// In a session over TCP, the server sends at most a twentieth more than a plain program's.
pub(crate) fn a_session_sends_no_more_than_plain_tcp() -> TestResult {
    let mut faults = Vec::new();
    for controller in ["cubic", "reno", "bbr"] {
        let stage = stage(&[LINK], "")?;
        let plain = on_the_wire(&stage, || plain(&stage, controller))?;
        // The best of three runs: if the process is scheduled too late, its kernel has no data to send.
        let mut session_sends = f64::INFINITY;
        for _ in 0..3 {
            if session_sends > plain * MAX_RATIO {
                session_sends = session_sends.min(on_the_wire(&stage, || session(&stage, controller))?);
            }
        }
        println!(
            "  {controller}: {plain:.3} bytes sent for each by plain TCP, {session_sends:.3} by a session"
        );
        if session_sends > plain * MAX_RATIO {
            faults.push(format!("{controller}: {session_sends:.3} instead of {plain:.3}"));
        }
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults.join("; ").into()),
    }
}

/// Returns the bytes that the server sends for each byte of a transfer.
fn on_the_wire(stage: &Testbed, transfer: impl FnOnce() -> TestResult) -> TestResult<f64> {
    let link = stage.lab.link("line")?;
    let before = link.statistics(Backward)?.sent_bytes;
    transfer()?;
    Ok((link.statistics(Backward)?.sent_bytes - before) as f64 / BYTES as f64)
}

fn session(stage: &Testbed, controller: &str) -> TestResult {
    let mut document = stage.document(&["tcp:wlan0"])?;
    document.tcp.congestion = Some(controller.to_owned());
    Transfer::new(document, BYTES as u64).run(stage)?;
    Ok(())
}

/// Makes the same transfer as `nc` would.
fn plain(stage: &Testbed, controller: &str) -> TestResult {
    let (client, server) = (stage.lab.host("client")?, stage.lab.host("server")?);
    let address = server.ipv4().ok_or("the server has no IPv4 address")?;
    let listener = server.run(|| std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, PLAIN)))??;
    let give = || -> std::io::Result<()> {
        let (mut socket, _) = listener.accept()?;
        SockRef::from(&socket).set_tcp_congestion(controller.as_bytes())?;
        socket.write_all(&vec![7; BYTES])
    };
    let take = || -> std::io::Result<usize> {
        let mut socket = std::net::TcpStream::connect(SocketAddr::from((address, PLAIN)))?;
        let (mut buffer, mut all) = (vec![0; 1 << 16], 0);
        loop {
            match socket.read(&mut buffer)? {
                0 => return Ok(all),
                length => all += length,
            }
        }
    };
    let came = std::thread::scope(|scope| {
        let giving = scope.spawn(give);
        let came = client.run(take);
        giving.join().map_err(|_| "the server panicked")??;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(came??)
    })?;
    match came == BYTES {
        true => Ok(()),
        false => Err(format!("{came} bytes came").into()),
    }
}
