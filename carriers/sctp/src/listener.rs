//! Taking associations.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::bell::Rope;
use crate::carrier::SctpCarrier;
use crate::connect::bind;
use crate::error::SctpError;
use crate::library::Socket;
use crate::options::SctpOptions;
use crate::reaper::Ending;
use crate::stack::{Stack, prepare};

/// How long it may take until the library reports that an association is up that it gave out as such: it
/// does at once.
const NOTICE: Duration = Duration::from_secs(1);

/// A listening socket, at several addresses at once.
pub struct SctpListener {
    socket: Option<(Socket, Rope)>,
    stack: Stack,
    options: SctpOptions,
}

impl Stack {
    /// Takes associations on this SCTP port at these addresses. To use several paths, a server has to
    /// have an address on each.
    ///
    /// # Errors
    /// An address is none of this machine's, or has the port in use.
    pub fn listen(
        &self,
        addresses: &[IpAddr],
        port: u16,
        options: SctpOptions,
    ) -> Result<SctpListener, SctpError> {
        if addresses.is_empty() {
            return Err(SctpError::Addresses("no address to listen at is given"));
        }
        let rope = Rope::hang();
        let socket = self.socket(addresses.iter().any(IpAddr::is_ipv6), &rope, &options)?;
        bind(&socket, addresses, port)?;
        socket.listen(options.backlog)?;
        Ok(SctpListener {
            socket: Some((socket, rope)),
            stack: *self,
            options,
        })
    }
}

impl SctpListener {
    /// Where it listens.
    #[must_use]
    pub fn local(&self) -> Vec<SocketAddr> {
        self.socket
            .as_ref()
            .map(|(socket, _)| socket.local_addresses())
            .unwrap_or_default()
    }

    /// The next association, after its handshake.
    ///
    /// # Errors
    /// The association was lost again, or the library has no memory; the listener stays open.
    pub async fn accept(&self) -> io::Result<SctpCarrier> {
        let mut carrier = poll_fn(|cx| self.poll_accept(cx)).await?;
        let up = tokio::time::timeout(NOTICE, poll_fn(|cx| carrier.poll_up(cx))).await;
        up.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        Ok(carrier)
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<SctpCarrier>> {
        let Some((socket, bell)) = &self.socket else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        bell.wake_reader(cx);
        let rope = Rope::hang();
        match socket.accept(&rope) {
            Ok(socket) => {
                let prepared = prepare(&socket, &self.options);
                let carrier = SctpCarrier::new(socket, rope, self.stack);
                Poll::Ready(prepared.map(|()| carrier))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for SctpListener {
    fn drop(&mut self) {
        if let Some((socket, rope)) = self.socket.take() {
            self.stack.end(Ending {
                socket,
                _rope: rope,
                at_once: true,
            });
        }
    }
}
