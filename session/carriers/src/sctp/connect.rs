//! Opens associations.

use std::future::{Future, pending, poll_fn};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;

use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use crate::sctp::carrier::SctpCarrier;
use crate::sctp::error::{Fault, SctpError};
use crate::sctp::options::SctpOptions;
use crate::sctp::process::StackProcess;
use crate::sctp::protocol::ProcessOrder;
use crate::sctp::stack::SctpStack;

/// The maximum number of addresses of an association at each end.
const ADDRESSES: usize = 8;

impl SctpStack {
    /// Connects to the peer that has all these addresses, from all of `locals`, or from any address of this
    /// machine if there are none. Each address is one path at its end.
    ///
    /// The kernel chooses the interface of each packet by the peer's address. Each of the peer's addresses
    /// therefore needs a route over the intended interface.
    ///
    /// # Errors
    /// Those that [`SctpError`] lists: refused, unreachable, no answer in time, wrong addresses.
    pub async fn connect(
        &self,
        peers: &[SocketAddr],
        locals: &[IpAddr],
        options: &SctpOptions,
    ) -> Result<SctpCarrier, SctpError> {
        check(peers, locals)?;
        let (id, stream, theirs, remote) = self.process.expect()?;
        let mut attempt = Attempt { process: &self.process, id: Some(id) };
        let order = ProcessOrder::Connect {
            id,
            peers: peers.into(),
            locals: locals.into(),
            options: options.clone(),
        };
        self.process
            .order(order, Some(theirs))
            .map_err(|_| Fault::Gone.about(peers))?;
        let handshake = poll_fn(|cx| remote.poll_up(cx));
        let limit = options.handshake_timeout;
        let unanswered = async {
            poll_fn(|cx| remote.poll_trying(cx)).await;
            unanswered(peers, options.peer_udp_port).await
        };
        let answer = first(handshake, unanswered);
        match tokio::time::timeout(limit, answer).await {
            Err(_) => Err(SctpError::TimedOut { peers: peers.into(), limit }),
            Ok(Err(fault)) => Err(fault.about(peers)),
            Ok(Ok(())) => {
                attempt.id = None;
                Ok(SctpCarrier::new(
                    id,
                    stream,
                    remote.clone(),
                    self.process.clone(),
                )?)
            }
        }
    }
}

/// An association that is being set up. If it is dropped, the association ends at once.
struct Attempt<'a> {
    process: &'a Arc<StackProcess>,
    id: Option<u64>,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.process.end(id, true);
        }
    }
}

fn check(peers: &[SocketAddr], locals: &[IpAddr]) -> Result<(), SctpError> {
    let Some(first) = peers.first() else {
        return Err(SctpError::Addresses("SCTP needs an address of the peer"));
    };
    if peers.len() > ADDRESSES || locals.len() > ADDRESSES {
        return Err(SctpError::Addresses(
            "an association has at most 8 addresses at each end",
        ));
    }
    if peers.iter().any(|peer| peer.port() != first.port()) {
        return Err(SctpError::Addresses(
            "all SCTP addresses of a peer must have the same port",
        ));
    }
    Ok(())
}

/// Waits for the handshake, unless the network reports first that no peer answers.
async fn first(
    handshake: impl Future<Output = Result<(), Fault>>,
    unanswered: impl Future<Output = io::Error>,
) -> Result<(), Fault> {
    let mut unanswered = pin!(unanswered);
    let mut handshake = pin!(handshake);
    poll_fn(|cx| {
        if let std::task::Poll::Ready(result) = handshake.as_mut().poll(cx) {
            return std::task::Poll::Ready(result);
        }
        unanswered.as_mut().poll(cx).map(|error| Err(error.into()))
    })
    .await
}

/// Resolves when the network has reported for every address of the peer that it is unreachable.
///
/// The library does not receive ICMP errors for its packets, but a socket of our own does. It sends each
/// address a datagram that is too short for SCTP, which an existing peer discards.
async fn unanswered(peers: &[SocketAddr], port: u16) -> io::Error {
    let mut probes = JoinSet::new();
    for peer in peers {
        probes.spawn(probe(SocketAddr::new(peer.ip(), port)));
    }
    let mut last = None;
    while let Some(result) = probes.join_next().await {
        last = result.ok();
    }
    match last {
        Some(error) => error,
        None => pending().await,
    }
}

/// Resolves when the network reports that the peer is unreachable.
async fn probe(peer: SocketAddr) -> io::Error {
    let ask = async {
        let any: IpAddr = if peer.is_ipv6() {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
        socket.connect(peer).await?;
        socket.send(&[0; 4]).await?;
        loop {
            socket.recv(&mut [0; 16]).await?;
        }
    };
    let result: io::Result<std::convert::Infallible> = ask.await;
    match result {
        Ok(never) => match never {},
        Err(error) => error,
    }
}
