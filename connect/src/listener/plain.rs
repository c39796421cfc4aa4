//! Connections without protection, over the kernel's TCP, or over Multipath TCP on request.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Incoming, ListenOptions};

/// The maximum number of connections that the kernel queues for `accept`.
const BACKLOG: i32 = 1_024;
/// The pause after an error of a listening socket, which usually means that no file descriptors are left.
const AFTER_ERROR: Duration = Duration::from_millis(50);

pub(super) fn open(
    options: &ListenOptions,
    incoming: mpsc::Sender<Incoming>,
) -> io::Result<(SocketAddr, JoinSet<()>)> {
    let listener = TcpListener::from_std(listen(options)?.into())?;
    let address = listener.local_addr()?;
    let mut tasks = JoinSet::new();
    tasks.spawn(accept(listener, incoming));
    Ok((address, tasks))
}

fn listen(options: &ListenOptions) -> io::Result<Socket> {
    let domain = Domain::for_address(options.address);
    // A listener of MPTCP accepts both kinds of peers (RFC 8684, 3.1); a kernel without it listens for TCP
    // only.
    let multipath = options
        .is_multipath
        .then(|| Socket::new(domain, Type::STREAM, Some(Protocol::MPTCP)).ok());
    let socket = match multipath.flatten() {
        Some(socket) => socket,
        None => Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?,
    };
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    if options.address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if let Some(interface) = &options.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    socket.bind(&options.address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

async fn accept(listener: TcpListener, incoming: mpsc::Sender<Incoming>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Without this option small messages wait; a socket that refuses it is still served.
                let _ = stream.set_nodelay(true);
                if incoming
                    .send(Incoming { stream: Box::new(stream) })
                    .await
                    .is_err()
                {
                    return;
                }
            }
            Err(_) => tokio::time::sleep(AFTER_ERROR).await,
        }
    }
}
