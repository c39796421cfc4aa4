//! Streams on tokio.

use std::future::Future;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::testbed::{TIMEOUT, TestResult, Testbed, hawser_v4, linux_listener, linux_v4, linux_v6, pattern};

/// Runs a test on a runtime of one thread, and fails after the usual timeout.
pub(crate) fn run(test: impl Future<Output = TestResult>) -> TestResult {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async { tokio::time::timeout(TIMEOUT, test).await? })
}

pub(crate) fn a_half_closed_stream_still_receives(stage: &Testbed) -> TestResult {
    let listener = linux_listener(linux_v6())?;
    let to = SocketAddr::new(linux_v6(), listener.local_addr()?.port());
    let data = pattern(500_000);
    let answer = data.clone();
    let linux = thread::spawn(move || -> std::io::Result<Vec<u8>> {
        let (mut stream, _) = listener.accept()?;
        let mut got = Vec::new();
        stream.read_to_end(&mut got)?; // It answers only after our end of stream.
        stream.write_all(&answer)?;
        Ok(got)
    });
    run(async {
        let network = stage.network(&[])?;
        let mut stream = network.connect(to).await?;
        // The window is read while the connection is open: a stray reset can end TIME-WAIT (RFC 1337), and a
        // connection that is gone has no window.
        let cwnd = stream.observe("cc.cwnd");
        assert!(cwnd.is_some_and(|cwnd| cwnd > 0), "the window is {cwnd:?}");
        stream.write_all(b"question").await?;
        stream.shutdown().await?;
        assert_eq!(
            stream.write(b"more").await.map_err(|e| e.kind()),
            Err(ErrorKind::BrokenPipe)
        );
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await?;
        assert!(got == data, "{} bytes came", got.len());
        Ok(())
    })?;
    assert_eq!(linux.join().map_err(|_| "the peer panicked")??, b"question");
    Ok(())
}

/// Packets refer to the written bytes until the peer has acknowledged them.
pub(crate) fn shared_memory_arrives_and_comes_back(stage: &Testbed) -> TestResult {
    let listener = linux_listener(linux_v4())?;
    let to = SocketAddr::new(linux_v4(), listener.local_addr()?.port());
    let linux = thread::spawn(move || -> std::io::Result<Vec<u8>> {
        let mut got = Vec::new();
        listener.accept()?.0.read_to_end(&mut got)?;
        Ok(got)
    });
    let data = Bytes::from(pattern(3_000_000));
    run(async {
        let network = stage.network(&[])?;
        let mut stream = network.connect(to).await?;
        stream.write_all(&data[..10]).await?;
        let mut rest = data.slice(10..);
        stream.write_shared(&mut rest).await?;
        assert!(rest.is_empty());
        drop(rest);
        assert!(!data.is_unique(), "a reference, not a copy");
        stream.shutdown().await?;
        while !data.is_unique() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut more = data.slice(..5000);
        let refused = stream.write_shared(&mut more).await;
        assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::BrokenPipe));
        Ok(())
    })?;
    assert!(linux.join().map_err(|_| "the peer panicked")?? == data);
    Ok(())
}

pub(crate) fn fifty_connections_transfer_at_once(stage: &Testbed) -> TestResult {
    let at = SocketAddr::new(hawser_v4(), 80);
    run(async {
        let network = stage.network(&[])?;
        let listener = network.listen(at, 64)?;
        let clients = thread::spawn(move || {
            let clients: Vec<_> = (0..50u8)
                .map(|n| {
                    thread::spawn(move || -> std::io::Result<bool> {
                        let mut stream = std::net::TcpStream::connect_timeout(&at, TIMEOUT)?;
                        let data = vec![n; 20_000];
                        stream.write_all(&data)?;
                        stream.shutdown(std::net::Shutdown::Write)?;
                        let mut got = Vec::new();
                        stream.read_to_end(&mut got)?;
                        Ok(got == data)
                    })
                })
                .collect();
            clients.into_iter().all(|c| matches!(c.join(), Ok(Ok(true))))
        });
        let mut echoes = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let stream = listener.accept().await?;
            echoes.spawn(async move {
                let (mut from, mut to) = tokio::io::split(stream);
                let copied = tokio::io::copy(&mut from, &mut to).await?;
                to.shutdown().await?;
                std::io::Result::Ok(copied)
            });
        }
        while let Some(echo) = echoes.join_next().await {
            assert_eq!(echo??, 20_000);
        }
        while !clients.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(
            clients.join().map_err(|_| "a client panicked")?,
            "an echo was not what was sent"
        );
        Ok(())
    })
}

pub(crate) fn a_slow_reader_stops_the_sender(stage: &Testbed) -> TestResult {
    const BUFFER: u64 = 64 * 1024;
    const SENT: usize = 8_000_000;
    let at = SocketAddr::new(hawser_v4(), 80);
    run(async {
        let network = stage.network(&[("RCV_BUF", BUFFER)])?;
        let listener = network.listen(at, 1)?;
        let data = pattern(SENT);
        let sent = data.clone();
        let linux = thread::spawn(move || -> std::io::Result<()> {
            std::net::TcpStream::connect_timeout(&at, TIMEOUT)?.write_all(&sent)
        });
        let mut stream = listener.accept().await?;
        // The peer does not read: the window closes, probes are sent, and no data piles up.
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert!(
            !linux.is_finished(),
            "Linux could send everything without a reader"
        );
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await?;
        assert!(got == data, "{} bytes came", got.len());
        linux.join().map_err(|_| "the peer panicked")??;
        Ok(())
    })
}

pub(crate) fn connecting_without_an_answer_times_out(stage: &Testbed) -> TestResult {
    run(async {
        let network = stage.network(&[("SYN_TIMEOUT", 300_000_000), ("INITIAL_RTO", 100_000_000)])?;
        // An address of the subnet that no host has.
        let nobody = SocketAddr::new([10, 9, 0, 77].into(), 80);
        let error = network.connect(nobody).await.err().ok_or("somebody answered")?;
        let unanswered = [ErrorKind::TimedOut, ErrorKind::HostUnreachable];
        assert!(unanswered.contains(&error.kind()), "{error}");
        assert_ne!(linux_v4(), nobody.ip());
        Ok(())
    })
}
