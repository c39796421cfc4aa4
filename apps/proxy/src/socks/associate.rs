//! Relays a client's datagrams (RFC 1928, UDP ASSOCIATE) for the lifetime of its TCP connection.
//!
//! Datagrams leave by the interface that the policy selects for streams to the same destination. If only an
//! intermediary such as a gateway may connect there, they are dropped.
//!
//! Invariants: only datagrams from the client's address are relayed, from the port that it named or used
//! first. Replies are relayed only from hosts to which the client has sent. Fragments are dropped, as RFC
//! 1928, 7 requires of relays that do not support them. All state is bounded: [`MAX_PEERS`] destinations,
//! [`MAX_RESOLVING`] datagrams that wait for a name, [`MAX_OUTLETS`] sockets.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hawser::connect::Family;
use hawser::connect::transports::LocalConstraint;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::task::JoinSet;

use super::wire::{self, DatagramDestination};
use crate::answer::socks;
use crate::connection::Client;
use crate::event::ServerEvent;
use crate::relay::dismiss;

/// The maximum number of known destinations. The oldest is forgotten to admit another, and can then no longer
/// send to the client.
const MAX_PEERS: usize = 256;
/// The maximum number of datagrams that wait for a name to be resolved. Further ones are dropped.
const MAX_RESOLVING: usize = 16;
/// The maximum number of outgoing sockets, one for each interface and family.
const MAX_OUTLETS: usize = 8;
/// The maximum number of datagrams in one direction before the other is polled.
const BATCH: usize = 32;
/// The maximum time of a name resolution.
const RESOLVING: Duration = Duration::from_secs(5);
/// The maximum length of a datagram, in bytes.
const MAX_DATAGRAM: usize = 65_535;

thread_local! {
    /// The buffer for the datagram that is being relayed.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_DATAGRAM]);
}

/// Relays until the client's connection ends, or the proxy stops.
pub(super) async fn serve(client: &Client, mut control: TcpStream, from: SocketAddr) {
    let relay = match listen(&control) {
        Ok(relay) => relay,
        Err(error) => {
            client.rejected(format!("cannot open a socket for its datagrams: {error}"));
            let _ = control.write_all(&wire::reply(socks::GENERAL)).await;
            return dismiss(control).await;
        }
    };
    let Ok(at) = relay.local_addr() else { return };
    if control.write_all(&wire::associated(at)).await.is_err() {
        return;
    }
    client.admitted.notify_one();
    client.front.publish(
        None,
        ServerEvent::Associated { client: client.address, address: at },
    );
    let began = Instant::now();
    // The client's port, if it was stated.
    let named = (from.ip().to_canonical() == client.address.ip().to_canonical()).then_some(from.port());
    let port = named.filter(|port| *port != 0);
    let mut association = Association::new(client, relay, port);
    let mut stopping = client.stopping.clone();
    tokio::select! {
        () = association.run() => {}
        () = ended(&mut control) => {}
        // An error means that the proxy has gone, which counts as stopping.
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
    let (sent, received, dropped) = (association.sent, association.received, association.dropped);
    let seconds = began.elapsed().as_secs_f64();
    let what = ServerEvent::Dissociated { client: client.address, sent, received, dropped, seconds };
    client.front.publish(None, what);
}

/// Opens a socket at the address at which the client already reaches the proxy.
fn listen(control: &TcpStream) -> io::Result<UdpSocket> {
    let address = SocketAddr::new(control.local_addr()?.ip(), 0);
    let socket = std::net::UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

/// Waits until the client has closed its connection. Data sent on it is ignored.
async fn ended(control: &mut TcpStream) {
    let mut nothing = [0; 64];
    while control.read(&mut nothing).await.is_ok_and(|length| length > 0) {}
}

/// The relay of one client's datagrams.
struct Association<'a> {
    client: &'a Client,
    relay: UdpSocket,
    /// The client's port, once it is known.
    port: Option<u16>,
    outlets: Vec<Outlet>,
    /// The peers, in the order of first contact.
    peers: VecDeque<Peer>,
    resolving: JoinSet<(DatagramDestination, Option<SocketAddr>, Vec<u8>)>,
    sent: u64,
    received: u64,
    dropped: u64,
}

/// An outgoing socket.
struct Outlet {
    interface: Option<String>,
    is_ipv6: bool,
    socket: UdpSocket,
}

/// A peer to which the client has sent.
struct Peer {
    to: DatagramDestination,
    address: SocketAddr,
    /// The index of the outgoing socket; `None` if sending to this peer is forbidden.
    outlet: Option<usize>,
}

/// The socket that is readable.
enum Readable {
    Client,
    Outlet(usize),
}

impl<'a> Association<'a> {
    fn new(client: &'a Client, relay: UdpSocket, port: Option<u16>) -> Association<'a> {
        let (outlets, peers, resolving) = (Vec::new(), VecDeque::new(), JoinSet::new());
        Association {
            client,
            relay,
            port,
            outlets,
            peers,
            resolving,
            sent: 0,
            received: 0,
            dropped: 0,
        }
    }

    async fn run(&mut self) {
        loop {
            tokio::select! {
                Some(resolved) = self.resolving.join_next() => {
                    if let Ok((to, address, payload)) = resolved {
                        match address {
                            Some(address) => self.send(to, address, &payload),
                            None => self.dropped += 1,
                        }
                    }
                }
                readable = poll_fn(|context| poll_readable(&self.relay, &self.outlets, context)) => {
                    BUFFER.with_borrow_mut(|buffer| {
                        for _ in 0..BATCH {
                            let is_read = match readable {
                                Readable::Client => self.relay_to_peer(buffer),
                                Readable::Outlet(index) => self.relay_to_client(index, buffer),
                            };
                            if !is_read {
                                break;
                            }
                        }
                    });
                }
            }
        }
    }

    /// Relays a datagram from the client. Returns false if no datagram is available.
    fn relay_to_peer(&mut self, buffer: &mut [u8]) -> bool {
        let (length, from) = match self.relay.try_recv_from(buffer) {
            Ok(read) => read,
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        };
        let is_client = from.ip().to_canonical() == self.client.address.ip().to_canonical()
            && self.port.is_none_or(|port| port == from.port());
        let parsed = wire::datagram(&buffer[..length]).ok().filter(|_| is_client);
        let Some((to, payload)) = parsed else {
            self.dropped += 1;
            return true;
        };
        self.port = Some(from.port());
        if let Some(peer) = self.peers.iter().find(|peer| peer.to == to) {
            let (address, outlet) = (peer.address, peer.outlet);
            self.send_by(outlet, address, payload);
            return true;
        }
        match to {
            DatagramDestination::Address(address) => self.send(to, address, payload),
            DatagramDestination::Name(ref destination) if self.resolving.len() < MAX_RESOLVING => {
                let (racer, destination) = (self.client.front.racer.clone(), destination.clone());
                let payload = payload.to_vec();
                self.resolving.spawn(async move {
                    let addresses = racer.addresses(&destination, RESOLVING).await;
                    (to, addresses.first().copied(), payload)
                });
            }
            DatagramDestination::Name(_) => self.dropped += 1,
        }
        true
    }

    /// Relays a datagram to the client. Returns false if no datagram is available.
    fn relay_to_client(&mut self, index: usize, buffer: &mut [u8]) -> bool {
        let (length, from) = match self.outlets[index].socket.try_recv_from(buffer) {
            Ok(read) => read,
            // Errors that the system reports about earlier datagrams are ignored.
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        };
        let is_known = self.peers.iter().any(|peer| peer.address.ip() == from.ip());
        let Some(port) = self.port.filter(|_| is_known) else {
            self.dropped += 1;
            return true;
        };
        let whole = [&wire::datagram_header(from), &buffer[..length]].concat();
        let client = SocketAddr::new(self.client.address.ip(), port);
        match SockRef::from(&self.relay).send_to(&whole, &client.into()) {
            Ok(_) => self.received += 1,
            Err(_) => self.dropped += 1,
        }
        true
    }

    /// Sends to a peer for the first time.
    fn send(&mut self, to: DatagramDestination, address: SocketAddr, payload: &[u8]) {
        let outlet = self.outlet(&to, address);
        if self.peers.len() >= MAX_PEERS {
            self.peers.pop_front();
        }
        self.peers.push_back(Peer { to, address, outlet });
        self.send_by(outlet, address, payload);
    }

    fn send_by(&mut self, outlet: Option<usize>, address: SocketAddr, payload: &[u8]) {
        // The socket is used directly, because tokio does not know yet that a new socket is writable.
        let send =
            |index: usize| SockRef::from(&self.outlets[index].socket).send_to(payload, &address.into());
        let sent = outlet.map(send);
        match sent {
            Some(Ok(_)) => self.sent += 1,
            Some(Err(_)) | None => self.dropped += 1,
        }
    }

    /// Returns the socket for this address, as the policy decides.
    fn outlet(&mut self, to: &DatagramDestination, address: SocketAddr) -> Option<usize> {
        let transports = self.client.front.transports(&to.destination()).ok()?.0;
        let family = if address.is_ipv6() {
            Family::Ipv6
        } else {
            Family::Ipv4
        };
        let is_of_use = |place: &LocalConstraint| {
            let interface = place.interface.as_deref();
            // Loopback addresses are reachable only over loopback.
            let is_near = !address.ip().is_loopback() || interface.is_none_or(|name| name == "lo");
            is_near && place.family.is_none_or(|only| only == family)
        };
        let place = transports
            .iter()
            .filter_map(|transport| transport.datagrams())
            .find(is_of_use)?;
        let is_same =
            |outlet: &Outlet| outlet.interface == place.interface && outlet.is_ipv6 == address.is_ipv6();
        if let Some(index) = self.outlets.iter().position(is_same) {
            return Some(index);
        }
        if self.outlets.len() >= MAX_OUTLETS {
            return None;
        }
        let socket = open(place.interface.as_deref(), address.is_ipv6()).ok()?;
        self.outlets
            .push(Outlet { interface: place.interface, is_ipv6: address.is_ipv6(), socket });
        Some(self.outlets.len() - 1)
    }
}

fn open(interface: Option<&str>, is_ipv6: bool) -> io::Result<UdpSocket> {
    let (domain, any): (Domain, IpAddr) = match is_ipv6 {
        true => (Domain::IPV6, Ipv6Addr::UNSPECIFIED.into()),
        false => (Domain::IPV4, Ipv4Addr::UNSPECIFIED.into()),
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if is_ipv6 {
        socket.set_only_v6(true)?;
    }
    if let Some(interface) = interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    socket.bind(&SocketAddr::new(any, 0).into())?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket.into())
}

fn poll_readable(relay: &UdpSocket, outlets: &[Outlet], context: &mut Context<'_>) -> Poll<Readable> {
    // An error is read like a datagram.
    if relay.poll_recv_ready(context).is_ready() {
        return Poll::Ready(Readable::Client);
    }
    let ready = |outlet: &Outlet| outlet.socket.poll_recv_ready(context).is_ready();
    match outlets.iter().position(ready) {
        Some(index) => Poll::Ready(Readable::Outlet(index)),
        None => Poll::Pending,
    }
}
