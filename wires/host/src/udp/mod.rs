//! Datagrams through an ordinary UDP socket of the host. It needs no privilege and no separate address for
//! the stack.
//!
//! The engine's packets are IP packets here too. Their headers represent the kernel's metadata of received
//! datagrams and the options of sent ones.

mod addresses;
mod arrivals;
mod control;
mod headers;
mod interfaces;

use std::ffi::c_int;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use hawser_engine::net::{Steering, is_ipv4, to_bytes};
use hawser_engine::wire::{Caps, Medium, RxFrame, TxFrame, Wire};
use hawser_time::Instant;
use socket2::{Domain, Protocol, Socket, Type};

use crate::{OpenError, WireCounters, filter, sys};
use arrivals::DatagramQueue;
use control::{DatagramEnd, Failure, Outgoing};
use headers::{IcmpError, PacketAddresses, QUOTE};
use interfaces::Interfaces;

/// The requested size of the socket's buffers in bytes. The kernel clamps it to net.core.rmem_max and
/// wmem_max.
const BUFFER_BYTES: usize = 4 << 20;
/// The maximum number of datagrams in one system call (UDP_MAX_SEGMENTS of Linux before 6.9), and of their
/// bytes.
const MAX_TOGETHER: usize = 64;
const MAX_TOGETHER_BYTES: usize = 65_000;
/// The maximum number of pieces in one system call (IOV_MAX).
const MAX_PIECES: usize = 1024;
/// The number of pieces that need no allocation: a head and a payload of each datagram.
const USUAL_PIECES: usize = 2 * MAX_TOGETHER;
/// The maximum number of errors that are read in a row.
const ERRORS_IN_A_ROW: usize = 16;
/// The maximum number of attempts for a system call. An attempt may report errors of earlier datagrams
/// instead.
const TRIES: usize = 4;

/// The origins of errors, and constants that libc lacks.
const FROM_HERE: u8 = libc::SO_EE_ORIGIN_LOCAL;
const FROM_ICMP: [u8; 2] = [libc::SO_EE_ORIGIN_ICMP, libc::SO_EE_ORIGIN_ICMP6];
const UDP_GRO: c_int = 104;
const PROBE: c_int = 3;

/// A UDP socket. The stack is an ordinary program of the host, at one of its ports.
///
/// The kernel determines its addresses, the routes of packets and the MTU. Packets of other protocols cannot
/// be sent.
#[derive(Debug)]
pub struct UdpWire {
    socket: UdpSocket,
    own: DatagramEnd,
    is_v6: bool,
    addresses: Vec<(IpAddr, u8)>,
    caps: Caps,
    arrivals: DatagramQueue,
    interfaces: Interfaces,
    counters: WireCounters,
    /// The maximum number of datagrams in one system call; 1 if the kernel or the device cannot segment.
    together: usize,
    /// True if the socket has reported an error, so that its error queue is not empty.
    has_errors: bool,
    /// True if the last read returned no datagram and more may follow, because the socket does not become
    /// readable again for them.
    is_unfinished: bool,
    /// True if the socket did not take all frames, so that a wait must include writability.
    is_full: bool,
}

/// Returns the addresses that a socket at `at` has now.
///
/// # Errors
/// Fails if the kernel does not list them.
pub fn addresses_at(at: IpAddr) -> io::Result<Vec<IpAddr>> {
    let standing = addresses::standing(at)?;
    Ok(standing.addresses.into_iter().map(|(ip, _)| ip).collect())
}

/// The result of a receiving system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Datagrams,
    /// No datagram, but some may follow.
    Else,
    Nothing,
}

/// The result of sending.
enum SendOutcome {
    Taken,
    /// The socket is full.
    Full,
    /// The kernel does not accept several datagrams in one call.
    NotTogether,
    Refused,
}

impl UdpWire {
    /// Opens a socket at this address and port. 0.0.0.0 stands for all IPv4 addresses of the host, `::` for
    /// all its addresses, and port 0 for any free port.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(at: SocketAddr) -> Result<UdpWire, OpenError> {
        UdpWire::bound(at, false)
    }

    /// Opens a socket for each shard at the same port, which receives the packets that
    /// [`Steering::recipient`] assigns to it. A single shard receives all packets.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_shards(at: SocketAddr, steering: &[Steering]) -> Result<Vec<UdpWire>, OpenError> {
        // The first socket ensures that no other program has the port. Sockets that share a port would share
        // it with any other program that does.
        let first = UdpWire::open(at)?;
        if let [_] = steering {
            return Ok(vec![first]);
        }
        let at = SocketAddr::new(at.ip(), first.port());
        drop(first);
        let wires = steering.iter().map(|_| UdpWire::bound(at, true));
        let wires: Vec<UdpWire> = wires.collect::<Result<_, _>>()?;
        if let (Some(wire), Some(steering)) = (wires.first(), steering.first()) {
            sys::share_port(
                wire.socket.as_fd(),
                &filter::share(steering, filter::FilterStart::Payload),
            )
            .map_err(OpenError::io("share the port among sockets"))?;
        }
        Ok(wires)
    }

    fn bound(at: SocketAddr, is_shared: bool) -> Result<UdpWire, OpenError> {
        let is_v6 = at.is_ipv6();
        let domain = if is_v6 { Domain::IPV6 } else { Domain::IPV4 };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
            .map_err(OpenError::io("open a UDP socket"))?;
        prepare(&socket, at)
            .and_then(|()| socket.set_reuse_port(is_shared))
            .map_err(OpenError::io("set the UDP socket up"))?;
        socket
            .bind(&at.into())
            .map_err(OpenError::needs("CAP_NET_BIND_SERVICE", "bind the UDP socket"))?;
        let rx_queue_bytes = socket
            .recv_buffer_size()
            .map_err(OpenError::io("read the size of the receive buffer"))?
            as u64
            / 2;
        let socket = UdpSocket::from(socket);
        let bound = socket
            .local_addr()
            .map_err(OpenError::io("read the UDP socket's address"))?;
        let standing = addresses::standing(at.ip()).map_err(OpenError::io("list the host's addresses"))?;
        Ok(UdpWire {
            socket,
            own: DatagramEnd { ip: to_bytes(at.ip()), port: bound.port() },
            is_v6,
            addresses: standing.addresses,
            caps: Caps {
                medium: Medium::Socket,
                mtu: standing.mtu,
                tx_csum: true,
                gso_max: 0,
                rx_queue_bytes,
            },
            arrivals: DatagramQueue::default(),
            interfaces: Interfaces::default(),
            counters: WireCounters::default(),
            together: MAX_TOGETHER,
            has_errors: false,
            is_unfinished: false,
            is_full: false,
        })
    }

    /// Returns the socket's addresses with their prefix lengths, as of its opening. The address of the
    /// default route is the first of its family. Datagrams for later addresses are received nevertheless.
    #[must_use]
    pub fn addresses(&self) -> &[(IpAddr, u8)] {
        &self.addresses
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.own.port
    }

    /// Returns the counters since the wire was opened.
    #[must_use]
    pub fn counters(&self) -> WireCounters {
        self.counters
    }

    /// Sleeps until a datagram or an error waits, until a full socket accepts datagrams again, or until
    /// `limit` has passed. Without a limit it sleeps indefinitely. A signal may end the wait early.
    ///
    /// # Errors
    /// Fails if the socket cannot be polled.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        if self.next_deadline().is_some() {
            return Ok(());
        }
        sys::wait(self.socket.as_fd(), self.is_full, limit)
    }

    /// Receives the datagrams of one system call.
    fn receive_some(&mut self) -> io::Result<Came> {
        self.counters.system_calls += 1;
        let received = control::receive(self.socket.as_fd(), &mut [self.arrivals.buffer()], false);
        match received {
            Ok(incoming) if incoming.is_cut || incoming.remote.port == 0 => self.counters.malformed += 1,
            Ok(incoming) => {
                let local = incoming.local.unwrap_or(self.own.ip);
                if incoming.interface != 0 {
                    self.interfaces.note(incoming.remote, local, incoming.interface);
                }
                let own = DatagramEnd { ip: local, port: self.own.port };
                self.counters.received += self.arrivals.take(&incoming, own);
                return Ok(Came::Datagrams);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Came::Nothing),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_fatal(&error) => return Err(error),
            Err(_) => self.has_errors = true,
        }
        Ok(Came::Else)
    }

    /// Receives datagrams until the socket is empty or the batch is full.
    fn receive_batch(&mut self, max: usize) -> io::Result<()> {
        let mut last = Came::Datagrams;
        let (mut calls, mut others) = (0, 0);
        while calls < self.arrivals.appetite() && others < TRIES && !self.arrivals.is_full(max) {
            last = self.receive_some()?;
            match last {
                Came::Datagrams => calls += 1,
                Came::Else => others += 1,
                Came::Nothing => break,
            }
        }
        self.arrivals.sated(last == Came::Nothing);
        self.is_unfinished = last == Came::Else;
        Ok(())
    }

    /// Reads the network's errors from the error queue. Also returns the MTU that this host found too small
    /// for the last packet, if the queue has such an error.
    fn read_errors(&mut self) -> Option<u32> {
        let mut too_big = None;
        for _ in 0..ERRORS_IN_A_ROW {
            let mut quote = [0; QUOTE];
            self.counters.system_calls += 1;
            let read = control::receive(self.socket.as_fd(), &mut [IoSliceMut::new(&mut quote)], true);
            let Ok(incoming) = read else {
                self.has_errors = false;
                return too_big;
            };
            let Some(error) = incoming.error else { continue };
            if FROM_ICMP.contains(&error.origin) {
                let flow = self.flow(incoming.local, incoming.remote);
                if error.errno == libc::EHOSTUNREACH as u32 {
                    // Next time, the routing table decides.
                    self.interfaces.forget(incoming.remote, flow.from.ip);
                }
                self.report(&flow, &error, &quote[..incoming.len.min(QUOTE)], incoming.len);
            } else if error.origin == FROM_HERE && error.errno == libc::EMSGSIZE as u32 {
                too_big = Some(error.info);
            }
        }
        self.has_errors = true;
        too_big
    }

    /// Returns the header fields of a datagram from this host.
    fn flow(&self, local: Option<[u8; 16]>, remote: DatagramEnd) -> PacketAddresses {
        PacketAddresses {
            from: DatagramEnd { ip: local.unwrap_or(self.own.ip), port: self.own.port },
            to: remote,
            tos: 0,
            ttl: 0,
        }
    }

    /// Converts an error into an ICMP packet for the engine.
    fn report(&mut self, flow: &PacketAddresses, error: &Failure, quote: &[u8], len: usize) {
        let is_too_big = error.errno == libc::EMSGSIZE as u32;
        let report = IcmpError {
            by: error.offender.unwrap_or(flow.to.ip),
            flow: *flow,
            kind: error.kind,
            code: error.code,
            mtu: if is_too_big { error.info } else { 0 },
            quote,
            len,
        };
        if !self.arrivals.report(&report) {
            self.counters.refused += 1;
        }
    }

    /// Reports a datagram that exceeds the interface's MTU, as a router would (RFC 1191; RFC 8201).
    fn too_big(&mut self, frame: &TxFrame, to: &Outgoing, header: usize, mtu: u32) {
        let is_v4 = is_ipv4(&to.remote.ip);
        let error = Failure {
            errno: libc::EMSGSIZE as u32,
            origin: FROM_HERE,
            kind: if is_v4 { 3 } else { 2 },
            code: if is_v4 { 4 } else { 0 },
            info: mtu,
            offender: Some(to.local),
        };
        let flow = self.flow(Some(to.local), to.remote);
        self.report(&flow, &error, &frame.head[header..], frame.len() - header);
    }

    /// Sends one datagram, or several of the same length.
    fn send(&mut self, frames: &[TxFrame], to: &Outgoing, header: usize) -> io::Result<SendOutcome> {
        let mut to = *to;
        to.interface = self.interfaces.find(to.remote, to.local);
        if frames.len() > 1 {
            to.segment = (frames[0].len() - header) as u16;
        }
        let count = frames.iter().map(|frame| 1 + frame.payload.len()).sum();
        let (mut usual, mut many) = ([IoSlice::new(&[]); USUAL_PIECES], Vec::new());
        let pieces = if count <= USUAL_PIECES {
            &mut usual[..count]
        } else {
            many.resize(count, IoSlice::new(&[]));
            &mut many[..]
        };
        describe(pieces, frames, header);
        for _ in 0..TRIES {
            self.counters.system_calls += 1;
            let Err(error) = control::send(self.socket.as_fd(), self.is_v6, &to, pieces) else {
                return Ok(SendOutcome::Taken);
            };
            match error.kind() {
                ErrorKind::WouldBlock => return Ok(SendOutcome::Full),
                ErrorKind::Interrupted => continue,
                _ if is_fatal(&error) => return Err(error),
                // The error is its own, or that of an earlier datagram, which the kernel reports once.
                _ => self.has_errors = true,
            }
            match error.raw_os_error() {
                Some(libc::EIO) if frames.len() > 1 => {
                    // The device computes no checksums, so that the kernel does not segment for it.
                    self.together = 1;
                    return Ok(SendOutcome::NotTogether);
                }
                Some(libc::EINVAL | libc::EMSGSIZE) if frames.len() > 1 => {
                    return Ok(SendOutcome::NotTogether);
                }
                Some(libc::EMSGSIZE) => {
                    // If the queue has no such error of this host, the error was a router's about an earlier
                    // datagram.
                    if let Some(mtu) = self.read_errors() {
                        self.too_big(&frames[0], &to, header, mtu);
                        return Ok(SendOutcome::Refused);
                    }
                }
                Some(libc::ECONNREFUSED | libc::EPROTO | libc::ENOPROTOOPT) => {}
                _ if to.interface != 0 => {
                    // The interface is gone, or does not lead there.
                    self.interfaces.forget(to.remote, to.local);
                    to.interface = 0;
                }
                Some(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN) => {}
                _ => return Ok(SendOutcome::Refused),
            }
        }
        Ok(SendOutcome::Refused)
    }
}

impl Wire for UdpWire {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        if !self.arrivals.is_waiting() {
            self.receive_batch(max)?;
            if self.has_errors {
                self.read_errors();
            }
        }
        Ok(self.arrivals.hand_out(max))
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        self.arrivals.frame(i)
    }

    fn release(&mut self) {
        self.arrivals.release();
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        let (mut taken, mut together) = (0, self.together);
        self.is_full = false;
        while let Some(frame) = frames.get(taken) {
            let read = headers::read(&frame.head);
            let Some((to, header)) = read.filter(|(to, _)| self.is_v6 || is_ipv4(&to.remote.ip)) else {
                self.counters.refused += 1;
                taken += 1;
                continue;
            };
            let count = alike(&frames[taken..], &to, together);
            match self.send(&frames[taken..taken + count], &to, header)? {
                SendOutcome::Taken => self.counters.sent += count as u64,
                SendOutcome::Refused => self.counters.refused += count as u64,
                SendOutcome::NotTogether => {
                    together = 1;
                    continue;
                }
                SendOutcome::Full => {
                    self.is_full = true;
                    break;
                }
            }
            taken += count;
        }
        Ok(taken)
    }

    /// Due at once if datagrams and errors wait that were found while others were read or sent.
    fn next_deadline(&self) -> Option<Instant> {
        let is_due = self.arrivals.is_waiting() || self.has_errors || self.is_unfinished;
        is_due.then_some(Instant::ORIGIN)
    }
}

impl AsFd for UdpWire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for UdpWire {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Returns how many frames from the front are datagrams of one flow that fit into one system call. All are as
/// long as the first, except for the last, which may be shorter.
fn alike(frames: &[TxFrame], to: &Outgoing, max: usize) -> usize {
    let size = frames[0].len();
    let (mut bytes, mut parts, mut count) = (size, 1 + frames[0].payload.len(), 1);
    for frame in frames[1..].iter().take(max.saturating_sub(1)) {
        let Some((other, header)) = headers::read(&frame.head) else {
            break;
        };
        let len = frame.len();
        (bytes, parts) = (bytes + len, parts + 1 + frame.payload.len());
        if other != *to || len > size || len == header || bytes > MAX_TOGETHER_BYTES || parts > MAX_PIECES {
            break;
        }
        count += 1;
        if len < size {
            break;
        }
    }
    count
}

/// Fills in the pieces of the datagrams in these frames.
fn describe<'a>(pieces: &mut [IoSlice<'a>], frames: &'a [TxFrame], header: usize) {
    let bytes = frames.iter().flat_map(|frame| {
        let payload = frame.payload.iter().map(|piece| piece.bytes());
        std::iter::once(&frame.head[header..]).chain(payload)
    });
    for (piece, bytes) in pieces.iter_mut().zip(bytes) {
        *piece = IoSlice::new(bytes);
    }
}

/// Returns whether the socket itself is gone. Other errors concern a datagram, or a network that may come
/// back.
fn is_fatal(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT)
    )
}

/// Enables the socket's reports about received datagrams, and about those that did not arrive.
fn prepare(socket: &Socket, at: SocketAddr) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_recv_buffer_size(BUFFER_BYTES)?;
    socket.set_send_buffer_size(BUFFER_BYTES)?;
    let fd = socket.as_fd();
    let yes: c_int = 1;
    let ip = [
        (libc::IP_PKTINFO, yes),
        (libc::IP_RECVTOS, yes),
        (libc::IP_RECVTTL, yes),
        (libc::IP_RECVERR, yes),
        // Packets are not fragmented, and the engine tracks path MTUs.
        (libc::IP_MTU_DISCOVER, PROBE),
    ];
    for (option, value) in ip {
        sys::set_option(fd, libc::SOL_IP, option, &value)?;
    }
    if at.is_ipv6() {
        socket.set_only_v6(!at.ip().is_unspecified())?;
        let ip = [
            (libc::IPV6_RECVPKTINFO, yes),
            (libc::IPV6_RECVTCLASS, yes),
            (libc::IPV6_RECVHOPLIMIT, yes),
            (libc::IPV6_RECVERR, yes),
            (libc::IPV6_MTU_DISCOVER, PROBE),
        ];
        for (option, value) in ip {
            sys::set_option(fd, libc::SOL_IPV6, option, &value)?;
        }
    }
    match sys::set_option(fd, libc::SOL_UDP, UDP_GRO, &yes) {
        // Linux before 5.0: datagrams arrive one by one.
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(()),
        result => result,
    }
}
