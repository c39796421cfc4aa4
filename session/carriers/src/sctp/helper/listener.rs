//! Accepts associations.

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
use crate::sctp::error::Fault;
use crate::sctp::options::SctpOptions;

/// The maximum time until the library reports that an association which it returned is up. It normally does
/// so at once.
const NOTICE: Duration = Duration::from_secs(1);

/// The times after accepting a socket at which its bell is rung without an event. The library chooses the
/// receiver of an event when it begins to process a packet (`sctp_common_input_processing`, `so_head`). For a
/// socket that waits to be accepted, this is the listener. If the socket is accepted while a packet for it is
/// being processed, its own tasks miss that packet's events. If the packet was the last of a stream, they
/// would wait for ever. The processing thread may be preempted for a while.
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
    /// Accepts associations on this SCTP port at these addresses.
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

    /// Returns the addresses on which it listens.
    pub(crate) fn local(&self) -> Vec<SocketAddr> {
        self.socket
            .as_ref()
            .map(|(socket, _)| socket.local_addresses())
            .unwrap_or_default()
    }

    /// Waits for the next association, until its handshake is complete.
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
