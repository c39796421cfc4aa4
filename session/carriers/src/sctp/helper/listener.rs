//! Accepts associations.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

use super::association::Association;
use super::closer::Ending;
use super::connect::bind;
use super::library::Socket;
use super::stack::{HelperStack, prepare};
use super::wakers::{self, WakerRegistration};
use crate::sctp::error::Fault;
use crate::sctp::options::SctpOptions;

/// The maximum time until the library reports that an association which it returned is up. It normally does
/// so at once.
const NOTICE: Duration = Duration::from_secs(1);

/// The times after accepting a socket at which its tasks are woken without an event. The library chooses the
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
    socket: Option<(Socket, WakerRegistration)>,
    stack: HelperStack,
    options: SctpOptions,
}

impl Listener {
    /// Accepts associations on this SCTP port at these addresses.
    pub(crate) fn open(
        stack: HelperStack,
        addresses: &[IpAddr],
        port: u16,
        options: SctpOptions,
    ) -> Result<Self, Fault> {
        let registration = WakerRegistration::new();
        let socket = stack.socket(addresses.iter().any(IpAddr::is_ipv6), &registration, &options)?;
        bind(&socket, addresses, port)?;
        socket.listen(options.backlog)?;
        Ok(Self { socket: Some((socket, registration)), stack, options })
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
                wakers::wake(number);
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
        let registration = WakerRegistration::new();
        match socket.accept(&registration) {
            Ok(socket) => {
                let prepared = prepare(&socket, &self.options);
                let number = registration.number();
                let carrier = Association::new(socket, registration, self.stack);
                Poll::Ready(prepared.map(|()| (carrier, number)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((socket, registration)) = self.socket.take() {
            self.stack
                .end(Ending { socket, _registration: registration, at_once: true });
        }
    }
}
