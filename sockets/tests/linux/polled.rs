//! The poll-mode API.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::thread;

use hawser_sockets::{Endpoint, Handle};

use crate::testbed::{
    TIMEOUT, TestResult, Testbed, echo_one, hawser_v4, hawser_v6, linux_listener, linux_v4, linux_v6,
    pattern, poll_until, ready,
};

/// Sends all data and reads it back; the peer echoes.
pub(crate) fn exchange(endpoint: &mut Endpoint, connection: Handle, data: &[u8]) -> TestResult<Vec<u8>> {
    let (mut sent, mut got, mut chunk) = (0, Vec::new(), vec![0; 1 << 16]);
    poll_until(endpoint, "the echo", |endpoint| {
        while sent < data.len() {
            match ready(endpoint.write(connection, &data[sent..]))? {
                Some(n) => sent += n,
                None => break,
            }
            if sent == data.len() {
                endpoint.shutdown(connection);
            }
        }
        while let Some(n) = ready(endpoint.read(connection, &mut chunk))? {
            if n == 0 {
                return Ok(Some(()));
            }
            got.extend_from_slice(&chunk[..n]);
        }
        Ok(None)
    })?;
    Ok(got)
}

pub(crate) fn linux_echoes_our_data(stage: &Testbed) -> TestResult {
    let mut endpoint = stage.endpoint(&[])?;
    for address in [linux_v4(), linux_v6()] {
        let listener = linux_listener(address)?;
        let to = SocketAddr::new(address, listener.local_addr()?.port());
        let linux = thread::spawn(move || -> std::io::Result<u64> {
            let (stream, _) = listener.accept()?;
            std::io::copy(&mut stream.try_clone()?, &mut &stream)
        });
        let connection = endpoint.connect(to)?;
        poll_until(&mut endpoint, "the connection", |e| {
            Ok(e.connected(connection)?.then_some(()))
        })?;
        assert_eq!(endpoint.peer(connection), Some(to));
        let data = pattern(3_000_000);
        let got = exchange(&mut endpoint, connection, &data)?;
        assert!(got == data, "{} bytes came back of {}", got.len(), data.len());
        assert_eq!(linux.join().map_err(|_| "the peer panicked")??, data.len() as u64);
    }
    Ok(())
}

pub(crate) fn our_stack_echoes_data_of_linux(stage: &Testbed) -> TestResult {
    let mut endpoint = stage.endpoint(&[])?;
    for address in [hawser_v4(), hawser_v6()] {
        let at = SocketAddr::new(address, 7);
        let listener = endpoint.listen(at, 4)?;
        let data = pattern(2_000_000);
        let sent = data.clone();
        let linux = thread::spawn(move || -> std::io::Result<Vec<u8>> {
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
        echo_one(&mut endpoint, listener)?;
        poll_until(&mut endpoint, "the peer's end", |_| {
            Ok(linux.is_finished().then_some(()))
        })?;
        let got = linux.join().map_err(|_| "the peer panicked")??;
        assert!(got == data, "{} bytes came back of {}", got.len(), data.len());
    }
    Ok(())
}

pub(crate) fn a_closed_port_refuses(stage: &Testbed) -> TestResult {
    let mut endpoint = stage.endpoint(&[])?;
    for address in [linux_v4(), linux_v6()] {
        let connection = endpoint.connect(SocketAddr::new(address, 9))?;
        let error = poll_until(&mut endpoint, "the refusal", |e| {
            Ok(e.connected(connection).err())
        })?;
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
        endpoint.close(connection);
    }
    // The reverse direction: a port of ours without a listener.
    let at = SocketAddr::new(hawser_v4(), 9);
    let linux = thread::spawn(move || TcpStream::connect_timeout(&at, TIMEOUT).err());
    poll_until(&mut endpoint, "our refusal", |_| {
        Ok(linux.is_finished().then_some(()))
    })?;
    let error = linux
        .join()
        .map_err(|_| "the peer panicked")?
        .ok_or("it was accepted")?;
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    Ok(())
}

pub(crate) fn an_address_in_use_is_refused(stage: &Testbed) -> TestResult {
    let mut endpoint = stage.endpoint(&[])?;
    let at = SocketAddr::new(hawser_v4(), 80);
    let first = endpoint.listen(at, 1)?;
    assert_eq!(
        endpoint.listen(at, 1).map_err(|e| e.kind()),
        Err(ErrorKind::AddrInUse)
    );
    endpoint.close(first);
    while endpoint.poll()? {}
    endpoint.listen(at, 1)?;
    Ok(())
}

pub(crate) fn a_reset_is_an_error(stage: &Testbed) -> TestResult {
    let listener = linux_listener(linux_v4())?;
    let to = SocketAddr::new(linux_v4(), listener.local_addr()?.port());
    let mut endpoint = stage.endpoint(&[])?;
    let connection = endpoint.connect(to)?;
    poll_until(&mut endpoint, "the connection", |e| {
        Ok(e.connected(connection)?.then_some(()))
    })?;
    endpoint.write(connection, b"unread")?;
    // Linux resets a connection that is closed with unread data (RFC 1122, 4.2.2.13).
    let (stream, _) = listener.accept()?;
    poll_until(&mut endpoint, "the data at the peer", |_| {
        Ok((stream.peek(&mut [0])? == 1).then_some(()))
    })?;
    drop(stream);
    let error = poll_until(&mut endpoint, "the reset", |e| {
        match ready(e.read(connection, &mut [0; 16])) {
            Ok(Some(n)) => Err(format!("{n} bytes were read").into()),
            Ok(None) => Ok(None),
            Err(error) => Ok(Some(error)),
        }
    })?;
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    assert_eq!(kind, Some(ErrorKind::ConnectionReset), "{error}");
    Ok(())
}

pub(crate) fn our_reset_is_an_error_for_linux(stage: &Testbed) -> TestResult {
    let listener = linux_listener(linux_v4())?;
    let to = SocketAddr::new(linux_v4(), listener.local_addr()?.port());
    let mut endpoint = stage.endpoint(&[])?;
    let connection = endpoint.connect(to)?;
    poll_until(&mut endpoint, "the connection", |e| {
        Ok(e.connected(connection)?.then_some(()))
    })?;
    let (mut stream, _) = listener.accept()?;
    let linux = thread::spawn(move || stream.read(&mut [0; 16]).map_err(|error| error.kind()));
    endpoint.abort(connection);
    poll_until(&mut endpoint, "the reset", |_| {
        Ok(linux.is_finished().then_some(()))
    })?;
    let result = linux.join().map_err(|_| "the peer panicked")?;
    assert_eq!(result, Err(ErrorKind::ConnectionReset));
    assert_eq!(endpoint.contexts(), 0, "the connection is gone at once");
    Ok(())
}

pub(crate) fn a_slow_linux_reader_stops_our_sender(stage: &Testbed) -> TestResult {
    let listener = linux_listener(linux_v6())?;
    let to = SocketAddr::new(linux_v6(), listener.local_addr()?.port());
    let mut endpoint = stage.endpoint(&[("MIN_RTO", 20_000_000)])?;
    let connection = endpoint.connect(to)?;
    poll_until(&mut endpoint, "the connection", |e| {
        Ok(e.connected(connection)?.then_some(()))
    })?;
    let (mut stream, _) = listener.accept()?;
    let data = pattern(16_000_000);
    let mut sent = 0;
    let mut give = |e: &mut Endpoint| -> TestResult {
        while sent < data.len() {
            let Some(n) = ready(e.write(connection, &data[sent..]))? else {
                break;
            };
            sent += n;
            if sent == data.len() {
                e.shutdown(connection);
            }
        }
        Ok(())
    };
    // The peer does not read: its window closes. Our probes keep the connection alive while the window stays
    // closed.
    poll_until(&mut endpoint, "the closed window", |e| {
        give(e)?;
        let stalled =
            e.observe(connection, "snd_wnd") == Some(0) && e.observe(connection, "flight") == Some(0);
        Ok(stalled.then_some(()))
    })?;
    let begin = std::time::Instant::now();
    poll_until(&mut endpoint, "half a second", |e| {
        give(e)?;
        Ok((begin.elapsed().as_millis() > 500).then_some(()))
    })?;
    let expected = data.clone();
    let linux = thread::spawn(move || -> std::io::Result<bool> {
        let mut got = Vec::new();
        stream.read_to_end(&mut got)?;
        Ok(got == expected)
    });
    poll_until(&mut endpoint, "the end of the stall", |e| {
        give(e)?;
        Ok(linux.is_finished().then_some(()))
    })?;
    assert!(
        linux.join().map_err(|_| "the peer panicked")??,
        "other bytes came"
    );
    Ok(())
}

pub(crate) fn linux_half_closes_and_still_receives(stage: &Testbed) -> TestResult {
    let at = SocketAddr::new(hawser_v4(), 7);
    let mut endpoint = stage.endpoint(&[])?;
    let listener = endpoint.listen(at, 1)?;
    let data = pattern(1_000_000);
    let expected = data.clone();
    let linux = thread::spawn(move || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&at, TIMEOUT)?;
        stream.shutdown(Shutdown::Write)?;
        let mut got = Vec::new();
        stream.read_to_end(&mut got)?;
        Ok(got == expected)
    });
    let connection = poll_until(&mut endpoint, "a connection", |e| ready(e.accept(listener)))?;
    let end = poll_until(&mut endpoint, "the peer's end", |e| {
        ready(e.read(connection, &mut [0; 16]))
    })?;
    assert_eq!(end, 0);
    let mut sent = 0;
    poll_until(&mut endpoint, "our data to be taken", |e| {
        while let Some(n) = ready(e.write(connection, &data[sent..]))? {
            sent += n;
            if sent == data.len() {
                e.shutdown(connection);
                return Ok(Some(()));
            }
        }
        Ok(None)
    })?;
    poll_until(&mut endpoint, "the peer's end", |_| {
        Ok(linux.is_finished().then_some(()))
    })?;
    assert!(
        linux.join().map_err(|_| "the peer panicked")??,
        "other bytes came"
    );
    Ok(())
}

pub(crate) fn closing_leaves_no_contexts(stage: &Testbed) -> TestResult {
    let listener = linux_listener(linux_v4())?;
    let to = SocketAddr::new(linux_v4(), listener.local_addr()?.port());
    let linux = thread::spawn(move || -> std::io::Result<()> {
        for _ in 0..50 {
            let (mut stream, _) = listener.accept()?;
            stream.read_to_end(&mut Vec::new())?;
        }
        Ok(())
    });
    // TIME-WAIT lasts 2 x 5 ms.
    let mut endpoint = stage.endpoint(&[("MSL", 5_000_000)])?;
    for _ in 0..50 {
        let connection = endpoint.connect(to)?;
        poll_until(&mut endpoint, "the connection", |e| {
            Ok(e.connected(connection)?.then_some(()))
        })?;
        endpoint.write(connection, b"hello")?;
        endpoint.shutdown(connection);
        poll_until(&mut endpoint, "the peer's end", |e| {
            ready(e.read(connection, &mut [0; 16]))
        })?;
        endpoint.close(connection);
    }
    poll_until(&mut endpoint, "the last context's end", |e| {
        Ok((e.contexts() == 0).then_some(()))
    })?;
    linux.join().map_err(|_| "the peer panicked")??;
    Ok(())
}

pub(crate) fn a_full_backlog_accepts_no_connections(stage: &Testbed) -> TestResult {
    const BACKLOG: u32 = 4;
    // `BACKLOG` connections may wait to be accepted, and as many may be in the middle of their handshake.
    // With a cookie, a client would consider itself connected, and one that waits for the server never sends
    // again.
    let mut endpoint = stage.endpoint(&[("SYN_BACKLOG", u64::from(BACKLOG)), ("SYN_COOKIES", 0)])?;
    let at = SocketAddr::new(hawser_v4(), 80);
    let listener = endpoint.listen(at, BACKLOG)?;
    let clients: Vec<_> = (0..12)
        .map(|_| thread::spawn(move || TcpStream::connect_timeout(&at, std::time::Duration::from_secs(6))))
        .collect();
    let begin = std::time::Instant::now();
    poll_until(&mut endpoint, "half a second", |_| {
        Ok((begin.elapsed() > std::time::Duration::from_millis(500)).then_some(()))
    })?;
    assert!(
        endpoint.contexts() <= 1 + 2 * BACKLOG as usize,
        "{} contexts",
        endpoint.contexts()
    );
    // As the application accepts, all the others come in.
    let mut accepted = Vec::new();
    poll_until(&mut endpoint, "twelve connections", |e| {
        while let Some(connection) = ready(e.accept(listener))? {
            accepted.push(connection);
        }
        Ok((accepted.len() == 12).then_some(()))
    })?;
    for client in clients {
        client.join().map_err(|_| "a client panicked")??;
    }
    Ok(())
}

/// Bytes that were read before a close count as read, although no poll is in between: the peer sees an
/// orderly end and no reset.
pub(crate) fn a_close_right_after_reading_is_orderly(stage: &Testbed) -> TestResult {
    let at = SocketAddr::new(hawser_v4(), 7);
    let mut endpoint = stage.endpoint(&[])?;
    let listener = endpoint.listen(at, 1)?;
    let linux = thread::spawn(move || -> std::io::Result<usize> {
        let mut stream = TcpStream::connect_timeout(&at, TIMEOUT)?;
        stream.write_all(b"that is all")?;
        stream.read_to_end(&mut Vec::new())
    });
    let connection = poll_until(&mut endpoint, "a connection", |e| ready(e.accept(listener)))?;
    poll_until(&mut endpoint, "the data", |e| {
        let len = ready(e.read(connection, &mut [0; 64]))?;
        len.into_iter().for_each(|_| e.close(connection));
        Ok(len)
    })?;
    poll_until(&mut endpoint, "the peer's end", |_| {
        Ok(linux.is_finished().then_some(()))
    })?;
    assert_eq!(linux.join().map_err(|_| "the peer panicked")??, 0);
    Ok(())
}

/// A ring of a few frames overflows when many peers send at once and the endpoint is not polled. Dropped
/// packets, including ends of streams, come again.
pub(crate) fn a_small_ring_causes_only_repaired_losses(stage: &Testbed) -> TestResult {
    const VOICES: usize = 30;
    let Some((mut endpoint, missed)) = stage.endpoint_with_ring(1, &[])? else {
        return Ok(());
    };
    let at = SocketAddr::new(hawser_v4(), 7);
    let listener = endpoint.listen(at, VOICES as u32)?;
    let linux = thread::spawn(move || -> std::io::Result<Vec<TcpStream>> {
        (0..VOICES)
            .map(|_| TcpStream::connect_timeout(&at, TIMEOUT))
            .collect()
    });
    let mut connections = Vec::new();
    poll_until(&mut endpoint, "all connections", |e| {
        connections.extend(ready(e.accept(listener))?);
        Ok((connections.len() == VOICES).then_some(()))
    })?;
    let mut streams = linux.join().map_err(|_| "the peer panicked")??;
    for stream in &mut streams {
        stream.write_all(b"half of it")?;
        stream.shutdown(Shutdown::Write)?;
    }
    for connection in connections {
        let data = poll_until(&mut endpoint, "the data", |e| {
            ready(e.read(connection, &mut [0; 64]))
        })?;
        let end = poll_until(&mut endpoint, "the end", |e| {
            ready(e.read(connection, &mut [0; 64]))
        })?;
        assert_eq!((data, end), (10, 0));
        endpoint.write(connection, b"and half")?;
        endpoint.close(connection);
    }
    let linux = thread::spawn(move || -> std::io::Result<bool> {
        let mut got = Vec::new();
        let ends = streams.iter_mut().map(|stream| stream.read_to_end(&mut got));
        Ok(ends.sum::<std::io::Result<usize>>()? == VOICES * 8)
    });
    poll_until(&mut endpoint, "the peers' ends", |_| {
        Ok(linux.is_finished().then_some(()))
    })?;
    assert!(linux.join().map_err(|_| "the peer panicked")??);
    drop(endpoint);
    assert!(missed.load(Ordering::Acquire) > 0, "the ring was never full");
    Ok(())
}
