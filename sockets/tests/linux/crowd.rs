//! A thousand connections at once, ten thousand one after another: all are served, and no state is left
//! behind.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::Duration;

use hawser_sockets::{Endpoint, Handle, Network};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::asynchronous::run;
use crate::testbed::{
    TestResult, Testbed, hawser_v4, linux_listener, linux_v4, linux_v6, patient_linux_listener, poll_for,
    poll_until, ready,
};

const AT_ONCE: usize = 1000;
const IN_TURN: usize = 10_000;

/// TIME-WAIT lasts 2 x 5 ms, so that its end can be observed.
const SHORT_MSL: (&str, u64) = ("MSL", 5_000_000);

/// Returns the bytes that connection `n` carries in each direction.
fn message(n: usize) -> Vec<u8> {
    (0..2000).map(|i| (n * 31 + i) as u8).collect()
}

pub(crate) fn a_thousand_connections_are_opened_here(stage: &Testbed) -> TestResult {
    let listener = patient_linux_listener(linux_v6(), 2 * AT_ONCE as u32)?;
    let to = SocketAddr::new(linux_v6(), listener.local_addr()?.port());
    // The server answers no client before all have connected.
    let linux = thread::spawn(move || -> std::io::Result<()> {
        let streams = (0..AT_ONCE).map(|_| listener.accept().map(|(stream, _)| stream));
        for mut stream in streams.collect::<std::io::Result<Vec<_>>>()? {
            let mut got = Vec::new();
            stream.read_to_end(&mut got)?;
            stream.write_all(&got)?;
        }
        Ok(())
    });
    run(async {
        let network = stage.network(&[SHORT_MSL])?;
        let mut clients = JoinSet::new();
        for n in 0..AT_ONCE {
            let network = network.clone();
            clients.spawn(async move {
                let mut stream = network.connect(to).await?;
                stream.write_all(&message(n)).await?;
                stream.shutdown().await?;
                let mut got = Vec::new();
                stream.read_to_end(&mut got).await?;
                std::io::Result::Ok(got == message(n))
            });
        }
        while let Some(client) = clients.join_next().await {
            assert!(client??, "a connection brought what another had sent");
        }
        all_gone(&network, 0).await
    })?;
    linux.join().map_err(|_| "the peer panicked")??;
    Ok(())
}

pub(crate) fn a_thousand_connections_are_opened_by_linux(stage: &Testbed) -> TestResult {
    let at = SocketAddr::new(hawser_v4(), 80);
    run(async {
        let network = stage.network(&[SHORT_MSL, ("SYN_BACKLOG", AT_ONCE as u64)])?;
        let listener = network.listen(at, AT_ONCE as u32)?;
        let linux = thread::spawn(move || -> std::io::Result<bool> {
            let open = |_| std::net::TcpStream::connect(at);
            let mut streams = (0..AT_ONCE).map(open).collect::<std::io::Result<Vec<_>>>()?;
            for (n, stream) in streams.iter_mut().enumerate() {
                stream.write_all(&message(n))?;
                stream.shutdown(Shutdown::Write)?;
            }
            let mut same = true;
            for (n, stream) in streams.iter_mut().enumerate() {
                let mut got = Vec::new();
                stream.read_to_end(&mut got)?;
                same &= got == message(n);
            }
            Ok(same)
        });
        let mut echoes = JoinSet::new();
        for _ in 0..AT_ONCE {
            let stream = listener.accept().await?;
            echoes.spawn(async move {
                let (mut from, mut to) = tokio::io::split(stream);
                tokio::io::copy(&mut from, &mut to).await?;
                to.shutdown().await
            });
        }
        while let Some(echo) = echoes.join_next().await {
            echo??;
        }
        while !linux.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(
            linux.join().map_err(|_| "a client panicked")??,
            "an echo was not what was sent"
        );
        all_gone(&network, 1).await
    })
}

/// Checks that only `contexts` contexts are left, and no byte of any connection.
async fn all_gone(network: &Network, contexts: usize) -> TestResult {
    network.drained(contexts, Duration::from_secs(5)).await;
    network.inspect(|endpoint| {
        assert_eq!(endpoint.contexts(), contexts, "contexts are left");
        assert_eq!(endpoint.held_bytes(), (0, 0), "bytes are left");
    });
    Ok(())
}

pub(crate) fn ten_thousand_connections_are_opened_here(stage: &Testbed) -> TestResult {
    let listener = linux_listener(linux_v4())?;
    let to = SocketAddr::new(linux_v4(), listener.local_addr()?.port());
    let linux = thread::spawn(move || -> std::io::Result<()> {
        for _ in 0..IN_TURN {
            let (mut stream, _) = listener.accept()?;
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            stream.write_all(&byte)?;
        }
        Ok(())
    });
    let mut endpoint = stage.endpoint(&[SHORT_MSL])?;
    for n in 0..IN_TURN {
        let connection = endpoint.connect(to)?;
        let mut sent = false;
        let byte = poll_until(&mut endpoint, "the echo", |e| {
            if !sent && e.connected(connection)? {
                sent = e.write(connection, &[n as u8])? == 1;
            }
            let mut byte = [0];
            Ok(ready(e.read(connection, &mut byte))?.map(|_| byte[0]))
        })?;
        assert_eq!(byte, n as u8);
        endpoint.close(connection);
    }
    linux.join().map_err(|_| "the peer panicked")??;
    nothing_left(&mut endpoint, 0)
}

pub(crate) fn ten_thousand_connections_are_opened_by_linux(stage: &Testbed) -> TestResult {
    let at = SocketAddr::new(hawser_v4(), 80);
    let mut endpoint = stage.endpoint(&[SHORT_MSL])?;
    let listener = endpoint.listen(at, 16)?;
    let linux = thread::spawn(move || -> std::io::Result<()> {
        for n in 0..IN_TURN {
            let mut stream = std::net::TcpStream::connect(at)?;
            stream.write_all(&[n as u8])?;
            let mut got = Vec::new();
            stream.read_to_end(&mut got)?; // We close first: TIME-WAIT is ours.
            if got != [n as u8] {
                return Err(std::io::Error::other(format!("connection {n} brought {got:?}")));
            }
        }
        Ok(())
    });
    let mut open: Vec<Handle> = Vec::new();
    poll_for(
        &mut endpoint,
        Duration::from_secs(60),
        "the last connection",
        |e| {
            while let Some(connection) = ready(e.accept(listener))? {
                open.push(connection);
            }
            let mut waiting = Vec::new();
            for connection in open.drain(..) {
                let mut byte = [0];
                match ready(e.read(connection, &mut byte))? {
                    Some(_) => {
                        e.write(connection, &byte)?;
                        e.close(connection);
                    }
                    None => waiting.push(connection),
                }
            }
            open = waiting;
            Ok(linux.is_finished().then_some(()))
        },
    )?;
    linux.join().map_err(|_| "the peer panicked")??;
    nothing_left(&mut endpoint, 1)
}

/// Waits for 2·MSL, after which only `contexts` contexts are left.
fn nothing_left(endpoint: &mut Endpoint, contexts: usize) -> TestResult {
    poll_until(endpoint, "the last context's end", |e| {
        Ok((e.contexts() == contexts).then_some(()))
    })?;
    assert_eq!(endpoint.held_bytes(), (0, 0), "bytes are left");
    Ok(())
}
