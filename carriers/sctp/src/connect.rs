//! Opening an association.

use std::future::{Future, pending, poll_fn};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;

use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use crate::abi::{UdpEncapsulation, option};
use crate::address;
use crate::bell::Rope;
use crate::carrier::SctpCarrier;
use crate::error::SctpError;
use crate::library::Socket;
use crate::options::SctpOptions;
use crate::stack::Stack;

/// Handshakes that are tried when they are aborted after the peer has answered.
///
/// When INIT was lost and its repetition answered on another path, the library sends HEARTBEAT on the
/// first path beside its COOKIE ECHO. If that comes first, the peer knows no association for it and
/// answers with ABORT (RFC 9260 8.4), which ends the one that is being set up.
const ATTEMPTS: usize = 4;
/// Addresses of one association at each end, at most.
const ADDRESSES: usize = 8;

impl Stack {
    /// Connects to the peer that has all these addresses, from all of `locals`, or from whatever this
    /// machine has if there are none. Each address is one path at its end.
    ///
    /// The kernel chooses the interface of each packet by the peer's address, so each of the peer's
    /// addresses needs a route over the interface that is meant for it.
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
        let limit = options.handshake_timeout;
        let attempts = async {
            for _ in 1..ATTEMPTS {
                match self.attempt(peers, locals, options).await {
                    Err(Failure::Aborted(_)) => {}
                    result => return result,
                }
            }
            self.attempt(peers, locals, options).await
        };
        match tokio::time::timeout(limit, attempts).await {
            Err(_) => Err(SctpError::TimedOut {
                peers: peers.into(),
                limit,
            }),
            Ok(Ok(carrier)) => Ok(carrier),
            Ok(Err(Failure::Aborted(error) | Failure::Other(error))) => Err(error),
        }
    }

    /// One handshake.
    async fn attempt(
        &self,
        peers: &[SocketAddr],
        locals: &[IpAddr],
        options: &SctpOptions,
    ) -> Result<SctpCarrier, Failure> {
        let is_v6 = peers
            .iter()
            .map(SocketAddr::ip)
            .chain(locals.iter().copied())
            .any(|ip| ip.is_ipv6());
        let rope = Rope::hang();
        let socket = self.socket(is_v6, &rope, options).map_err(SctpError::Other)?;
        bind(&socket, locals, 0)?;
        encapsulate(&socket, options.peer_udp_port).map_err(SctpError::Other)?;
        socket.connect(peers).map_err(|error| classify(error, peers))?;
        let mut carrier = SctpCarrier::new(socket, rope, *self);

        let handshake = poll_fn(|cx| carrier.poll_up(cx));
        match first(handshake, unanswered(peers, options.peer_udp_port)).await {
            Ok(()) => Ok(carrier),
            Err(error) if is_abort(&error) => Err(Failure::Aborted(classify(error, peers))),
            Err(error) => Err(Failure::Other(classify(error, peers))),
        }
    }
}

/// Why a handshake failed.
enum Failure {
    /// It was aborted after the peer had answered.
    Aborted(SctpError),
    Other(SctpError),
}

impl From<SctpError> for Failure {
    fn from(error: SctpError) -> Self {
        Self::Other(error)
    }
}

/// A peer that does not want an association aborts at INIT (ECONNREFUSED); this is later.
fn is_abort(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted
    )
}

/// Binds to the addresses, if there are any.
pub(crate) fn bind(socket: &Socket, locals: &[IpAddr], port: u16) -> Result<(), SctpError> {
    if locals.is_empty() {
        return Ok(());
    }
    let addresses: Vec<SocketAddr> = locals.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
    socket.bind(&addresses).map_err(|error| SctpError::Local {
        addresses: locals.into(),
        error,
    })
}

fn check(peers: &[SocketAddr], locals: &[IpAddr]) -> Result<(), SctpError> {
    let Some(first) = peers.first() else {
        return Err(SctpError::Addresses("no address of the peer is given"));
    };
    if peers.len() > ADDRESSES || locals.len() > ADDRESSES {
        return Err(SctpError::Addresses(
            "an association has at most 8 addresses at each end",
        ));
    }
    if peers.iter().any(|peer| peer.port() != first.port()) {
        return Err(SctpError::Addresses(
            "a peer has one SCTP port at all its addresses",
        ));
    }
    Ok(())
}

/// Sends this association's packets in UDP to this port.
fn encapsulate(socket: &Socket, port: u16) -> io::Result<()> {
    let encapsulation = UdpEncapsulation {
        // All addresses: the library takes no structure without a family.
        address: address::store((Ipv4Addr::UNSPECIFIED, 0).into()),
        port: port.to_be(),
        ..UdpEncapsulation::default()
    };
    socket.set(option::REMOTE_UDP_PORT, &encapsulation)
}

/// The handshake, unless the network reports before that there is no one.
async fn first(
    handshake: impl Future<Output = io::Result<()>>,
    unanswered: impl Future<Output = io::Error>,
) -> io::Result<()> {
    let mut unanswered = pin!(unanswered);
    let mut handshake = pin!(handshake);
    poll_fn(|cx| {
        if let std::task::Poll::Ready(result) = handshake.as_mut().poll(cx) {
            return std::task::Poll::Ready(result);
        }
        unanswered.as_mut().poll(cx).map(Err)
    })
    .await
}

/// Resolves when the network has reported of every address of the peer that nothing is there.
///
/// The library does not receive ICMP's answers to its packets. A socket of our own does: it sends each
/// address a datagram that is too short to be SCTP, which a peer that is there throws away.
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

/// Resolves when the network reports that nothing is there.
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

/// Whose fault it is.
fn classify(error: io::Error, peers: &[SocketAddr]) -> SctpError {
    let peers = peers.into();
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            let what = "it answered no, or no process has its port";
            SctpError::Refused { peers, what }
        }
        _ if is_abort(&error) => SctpError::Refused {
            peers,
            what: "it aborted the handshake",
        },
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            SctpError::Unreachable { peers, error }
        }
        _ => SctpError::Other(error),
    }
}
