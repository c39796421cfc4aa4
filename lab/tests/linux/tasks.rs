//! Two hosts in one program, with threads and tasks.

use std::net::SocketAddr;

use hawser_lab::HostHandle;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::{Builder, Runtime};

use crate::{TestResult, pair};

/// Makes a runtime whose threads are all in a host.
fn runtime(host: HostHandle) -> TestResult<Runtime> {
    let enter = move || host.enter().unwrap_or_else(|error| panic!("{error}"));
    Ok(Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(enter)
        .enable_all()
        .build()?)
}

pub(crate) fn runtimes_live_in_hosts() -> TestResult {
    let lab = pair("both = { delay = \"5ms\" }")?;
    let (a, b) = (
        runtime(lab.host("a")?.handle())?,
        runtime(lab.host("b")?.handle())?,
    );
    let address = lab.host("b")?.ipv4().ok_or("no IPv4")?;
    let (send, received) = std::sync::mpsc::channel();
    let server = b.spawn(async move {
        // Only `b` has this address.
        let listener = TcpListener::bind((address, 0)).await?;
        let _ = send.send(listener.local_addr()?);
        let (mut stream, from) = listener.accept().await?;
        stream.write_all(b"ahoy").await?;
        std::io::Result::Ok(from)
    });
    let to = received.recv()?;
    let client = a.spawn(async move {
        let mut text = String::new();
        TcpStream::connect(to).await?.read_to_string(&mut text).await?;
        // Threads for blocking tasks are also in the host.
        let names = tokio::task::spawn_blocking(|| std::fs::read_to_string("/etc/hosts")).await;
        std::io::Result::Ok((text, names.map_err(std::io::Error::other)??))
    });
    let ((text, names), from) = a.block_on(async { (client.await, server.await) }).pipe()?;
    assert_eq!(text, "ahoy");
    assert!(names.contains("10.77.0.2 b"), "{names}");
    assert_eq!(Some(from.ip()), lab.host("a")?.ipv4());
    Ok(())
}

/// One runtime uses sockets of two hosts.
pub(crate) fn sockets_of_two_hosts_share_a_runtime() -> TestResult {
    let lab = pair("through = \"cell\"")?;
    let open = |host: &str| -> TestResult<std::net::UdpSocket> {
        let socket = lab.host(host)?.run(|| std::net::UdpSocket::bind("0.0.0.0:0"))??;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    let (from, to) = (open("a")?, open("b")?);
    let address = SocketAddr::new(lab.host("b")?.ipv4().ok_or("no IPv4")?, to.local_addr()?.port());
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (from, to) = (UdpSocket::from_std(from)?, UdpSocket::from_std(to)?);
        from.send_to(b"ahoy", address).await?;
        let mut bytes = [0; 9];
        let (len, source) = to.recv_from(&mut bytes).await?;
        assert_eq!(
            (&bytes[..len], Some(source.ip())),
            (&b"ahoy"[..], lab.host("a")?.ipv4())
        );
        Ok(())
    })
}

pub(crate) fn threads_outlive_the_lab() -> TestResult {
    let lab = pair("")?;
    let handle = lab.host("a")?.handle();
    assert_eq!(handle.name(), "a");
    drop(lab);
    let bind = handle.spawn(|| std::net::UdpSocket::bind("10.77.0.1:0"))?;
    bind.join().map_err(|_| "the thread panicked")???;
    Ok(())
}

/// Combines the results of two tasks into one.
trait Pipe<A, B> {
    fn pipe(self) -> TestResult<(A, B)>;
}

type Joined<T> = Result<std::io::Result<T>, tokio::task::JoinError>;

impl<A, B> Pipe<A, B> for (Joined<A>, Joined<B>) {
    fn pipe(self) -> TestResult<(A, B)> {
        Ok((self.0??, self.1??))
    }
}
