//! Echoes through networks that lose, reorder, duplicate and delay packets, in both roles.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::thread;

use hawser_sockets::Endpoint;

use crate::polled::exchange;
use crate::testbed::{
    TIMEOUT, TestResult, Testbed, echo_one, hawser_v4, hawser_v6, linux_listener, linux_v4, linux_v6,
    pattern, poll_until,
};

/// The number of bytes in each direction: some hundred packets.
const BYTES: usize = 400_000;

/// The minimum retransmission timeout; the delay of the links here is negligible.
const PARAMS: &[(&str, u64)] = &[("MIN_RTO", 50_000_000)];

pub(crate) fn transfers_survive_loss(stage: &Testbed) -> TestResult {
    both_roles(stage, "loss=2%")
}

/// Bursts count frames. A single packet in flight takes one frame per timeout, and timeouts double. With
/// bursts of three, the next frame is lost in two of three cases. The duration of a burst then has no mean,
/// and one in fifteen takes more than 20 s. With these it is one in 1,500.
pub(crate) fn transfers_survive_bursts_of_loss(stage: &Testbed) -> TestResult {
    both_roles(stage, "loss=4%,burst=1.5")
}

pub(crate) fn transfers_survive_reordering(stage: &Testbed) -> TestResult {
    both_roles(stage, "reorder=5%,hold=2ms")
}

pub(crate) fn transfers_survive_duplication(stage: &Testbed) -> TestResult {
    both_roles(stage, "duplicate=10%")
}

pub(crate) fn transfers_survive_all_faults_at_once(stage: &Testbed) -> TestResult {
    both_roles(
        stage,
        "delay=1ms,jitter=1ms,loss=1%,duplicate=1%,reorder=2%,hold=3ms,corrupt=1%",
    )
}

fn both_roles(stage: &Testbed, faults: &str) -> TestResult {
    for (seed, linux, ours) in [(1, linux_v4(), hawser_v4()), (2, linux_v6(), hawser_v6())] {
        let mut endpoint = stage.with_faults(faults, seed)?.endpoint(PARAMS)?;
        opened_here(&mut endpoint, linux)?;
        opened_by_linux(&mut endpoint, ours)?;
    }
    Ok(())
}

fn opened_here(endpoint: &mut Endpoint, linux: IpAddr) -> TestResult {
    let listener = linux_listener(linux)?;
    let to = SocketAddr::new(linux, listener.local_addr()?.port());
    let peer = thread::spawn(move || -> std::io::Result<u64> {
        let (stream, _) = listener.accept()?;
        std::io::copy(&mut stream.try_clone()?, &mut &stream)
    });
    let connection = endpoint.connect(to)?;
    poll_until(endpoint, "the connection", |e| {
        Ok(e.connected(connection)?.then_some(()))
    })?;
    let data = pattern(BYTES);
    let got = exchange(endpoint, connection, &data)?;
    assert!(got == data, "{} bytes came back of {}", got.len(), data.len());
    endpoint.close(connection);
    poll_until(endpoint, "the peer's end", |_| {
        Ok(peer.is_finished().then_some(()))
    })?;
    assert_eq!(peer.join().map_err(|_| "the peer panicked")??, data.len() as u64);
    Ok(())
}

fn opened_by_linux(endpoint: &mut Endpoint, ours: IpAddr) -> TestResult {
    let at = SocketAddr::new(ours, 7);
    let listener = endpoint.listen(at, 1)?;
    let data = pattern(BYTES);
    let sent = data.clone();
    let peer = thread::spawn(move || -> std::io::Result<Vec<u8>> {
        let stream = TcpStream::connect_timeout(&at, TIMEOUT)?;
        let mut reader = stream.try_clone()?;
        let reading = thread::spawn(move || {
            let mut got = Vec::new();
            reader.read_to_end(&mut got).map(|_| got)
        });
        (&stream).write_all(&sent)?;
        stream.shutdown(Shutdown::Write)?;
        reading
            .join()
            .map_err(|_| std::io::Error::other("the reader panicked"))?
    });
    let connection = echo_one(endpoint, listener)?;
    poll_until(endpoint, "the peer's end", |_| {
        Ok(peer.is_finished().then_some(()))
    })?;
    endpoint.close(connection);
    endpoint.close(listener);
    let got = peer.join().map_err(|_| "the peer panicked")??;
    assert!(got == data, "{} bytes came back of {}", got.len(), data.len());
    Ok(())
}
