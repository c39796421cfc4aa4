//! Taking associations.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

use super::association::Association;
use super::bell::{self, Rope};
use super::connect::bind;
use super::library::Socket;
use super::reaper::Ending;
use super::stack::{Stack, prepare};
use crate::error::Fault;
use crate::options::SctpOptions;

/// How long it may take until the library reports that an association is up that it gave out as such: it
/// does at once.
const NOTICE: Duration = Duration::from_secs(1);

/// When an accepted socket's bell is rung though nothing called. Whom to call the library decides when it begins with
/// a packet (`sctp_common_input_processing`, `so_head`): for a socket that waits to be accepted it calls the listener. A
/// socket that is accepted while a packet for it is being worked on hears nothing of what that brought; if it was the
/// last of a stream, for ever. The thread that works on it may be kept from the processor for a while.
const MISSED: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_secs(1),
    Duration::from_secs(10),
];

/// A listening socket, at several addresses at once.
pub(crate) struct Listener {
    socket: Option<(Socket, Rope)>,
    stack: Stack,
    options: SctpOptions,
}

impl Listener {
    /// Takes associations on this SCTP port at these addresses.
    pub(crate) fn open(
        stack: Stack,
        addresses: &[IpAddr],
        port: u16,
        options: SctpOptions,
    ) -> Result<Self, Fault> {
        let rope = Rope::hang();
        let socket = stack.socket(addresses.iter().any(IpAddr::is_ipv6), &rope, &options)?;
        bind(&socket, addresses, port)?;
        socket.listen(options.backlog)?;
        Ok(Self { socket: Some((socket, rope)), stack, options })
    }

    /// The addresses at which it listens.
    pub(crate) fn local(&self) -> Vec<SocketAddr> {
        self.socket
            .as_ref()
            .map(|(socket, _)| socket.local_addresses())
            .unwrap_or_default()
    }

    /// The next association, after its handshake.
    pub(crate) async fn accept(&self) -> io::Result<Association> {
        let (mut carrier, number) = poll_fn(|cx| self.poll_accept(cx)).await?;
        tokio::spawn(async move {
            for wait in MISSED {
                tokio::time::sleep(wait).await;
                bell::ring(number);
            }
        });
        let up = tokio::time::timeout(NOTICE, poll_fn(|cx| carrier.poll_up(cx))).await;
        up.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        Ok(carrier)
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Association, usize)>> {
        let Some((socket, listening)) = &self.socket else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        listening.wake_reader(cx);
        let rope = Rope::hang();
        match socket.accept(&rope) {
            Ok(socket) => {
                let prepared = prepare(&socket, &self.options);
                let number = rope.number();
                let carrier = Association::new(socket, rope, self.stack);
                Poll::Ready(prepared.map(|()| (carrier, number)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((socket, rope)) = self.socket.take() {
            self.stack.end(Ending { socket, _rope: rope, at_once: true });
        }
    }
}
