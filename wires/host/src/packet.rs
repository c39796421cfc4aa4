//! Ethernet through a packet socket on an existing interface.

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use hawser_engine::net::Steering;
use hawser_engine::wire::{Caps, Medium, RxFrame, TxFrame, Wire};
use rustix::net::sockopt;
use socket2::{SockFilter, SockRef};

use crate::batch::{Batch, SlotCapacity};
use crate::queue_limit::QueueLimit;
use crate::slots::{self, Slots};
use crate::sys;
use crate::{Interface, OpenError, Presence, WireCounters, filter};

/// The size of an Ethernet header, in bytes.
const ETHERNET: usize = 14;
/// The length of the longest IP packet, in bytes.
const MAX_PACKET: u32 = 65_535;
/// The requested size of a socket's buffers in bytes. The kernel doubles it to cover its own overhead. It is
/// the size of the receive buffer and the maximum of the send buffer.
const BUFFER_BYTES: usize = 16 << 20;
/// The smallest receive buffer for super-segments, also doubled. With a smaller one, a ring is used.
const MIN_BUFFER_BYTES: usize = 2 * (4 << 20);

/// The place where received frames wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Receive {
    /// Super-segments wait in the socket's buffer if it can be made large enough, and other packets in a
    /// small ring. Otherwise, all packets wait in a large ring.
    #[default]
    Fitting,
    /// The socket's buffer, with 8 MB if the process may have that much.
    Buffer,
    /// A ring of 480 frames, 32 MB, shared with the kernel, without a system call for each frame.
    Ring,
}

/// Options for opening a packet socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketOptions {
    /// The stack's own Ethernet address; by default, it is derived from the interface's.
    pub mac: Option<[u8; 6]>,
    /// The place where received frames wait.
    pub receive: Receive,
    /// The number of frames for which a ring has room. It is rounded up to whole blocks, of 64 KB, or of 1 MB
    /// if the ring holds super-segments. The default is 4096, or 480 with super-segments, which is also the
    /// maximum. A smaller ring takes less memory and drops frames while it is full. A peer repeats the last
    /// packet of its flight only when its timer expires, which is after 200 ms for Linux.
    pub frames: Option<usize>,
}

/// A packet socket: another host on the link of an interface, with its own Ethernet address. The kernel
/// therefore neither answers nor forwards frames sent to it.
///
/// The kernel on *this* side of the interface does not see frames sent here, nor does this socket see the
/// kernel's. The peer is another host, or the other end of a veth pair.
#[derive(Debug)]
pub struct PacketWire {
    socket: File,
    caps: Caps,
    arrivals: Arrivals,
    counters: WireCounters,
    /// The limit of data ahead of the device, which is also the size of the send buffer.
    limit: QueueLimit,
    /// True if the device did not take all frames, or had no room for more, so that a wait must include
    /// writability.
    is_full: bool,
    interface: Presence,
}

#[derive(Debug)]
enum Arrivals {
    Buffer(Slots),
    Ring(Batch),
}

impl PacketWire {
    /// Opens a packet socket on the interface `name`, which must be Ethernet and up.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(name: &str, options: PacketOptions) -> Result<PacketWire, OpenError> {
        let device = Interface::read(name)?;
        let socket = sys::packet_socket().map_err(OpenError::needs("CAP_NET_RAW", "open a packet socket"))?;
        let own = options.mac.unwrap_or_else(|| device.neighbour());
        prepare(&socket, device.index, own)
            .map_err(OpenError::needs("CAP_NET_RAW", "set the packet socket up"))?;
        let limit = send_limit(socket.as_fd(), device.mtu)?;
        let (arrivals, rx_queue_bytes) = arrivals(&socket, options, device.mtu)?;
        sys::bind_packet(socket.as_fd(), device.index).map_err(OpenError::io("bind the packet socket"))?;
        let caps = Caps {
            medium: Medium::Ethernet(own),
            mtu: device.mtu,
            tx_csum: true,
            gso_max: MAX_PACKET,
            rx_queue_bytes,
        };
        let counters = WireCounters::default();
        Ok(PacketWire {
            socket: File::from(socket),
            caps,
            arrivals,
            counters,
            limit,
            is_full: false,
            interface: Presence::new(&device),
        })
    }

    /// Opens a packet socket for each shard, which receives the packets that [`Steering::recipient`] assigns
    /// to it. A single shard receives all packets.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_shards(
        name: &str,
        options: PacketOptions,
        steering: &[Steering],
    ) -> Result<Vec<PacketWire>, OpenError> {
        if let [_] = steering {
            return Ok(vec![PacketWire::open(name, options)?]);
        }
        let mut group = None;
        let wires = steering.iter().map(|steering| {
            let wire = PacketWire::open(name, options)?;
            let joined = sys::join_fanout(
                wire.socket.as_fd(),
                group,
                &filter::share(steering, filter::FilterStart::Network),
            );
            group = Some(joined.map_err(OpenError::io("join a group of packet sockets"))?);
            Ok(wire)
        });
        wires.collect()
    }

    /// Returns the stack's own Ethernet address.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        match self.caps.medium {
            Medium::Ethernet(mac) => mac,
            Medium::Ip | Medium::Socket => [0; 6],
        }
    }

    /// Returns whether received frames, except super-segments, wait in a ring.
    #[must_use]
    pub fn has_ring(&self) -> bool {
        matches!(self.arrivals, Arrivals::Ring(_))
    }

    /// Returns the counters since the wire was opened.
    #[must_use]
    pub fn counters(&self) -> WireCounters {
        self.counters
    }

    /// Returns the number of received frames dropped since the last call because the ring or the socket's
    /// buffer was full.
    ///
    /// # Errors
    /// Fails if the kernel does not answer.
    pub fn missed(&self) -> io::Result<u64> {
        sys::packet_drops(self.socket.as_fd())
    }

    /// Returns the current limit of data ahead of the device. It is in the kernel's accounting, which
    /// includes the kernel's own overhead. The limit adapts, so that little data waits in the kernel and the
    /// device still stays busy.
    #[must_use]
    pub fn queue_limit(&self) -> u64 {
        self.limit.limit()
    }

    /// Asks the kernel for the amount of unsent data and adapts the limit, for a caller that has more to
    /// send. Returns the room in bytes.
    fn measure(&mut self) -> usize {
        let socket = self.socket.as_fd();
        self.counters.system_calls += 1;
        let before = self.limit.limit();
        // Even if the kernel does not answer, it still refuses data for which its buffer has no room.
        let room = self
            .limit
            .measured(sys::monotonic(), sys::unsent(socket).unwrap_or(0));
        if self.limit.limit() != before {
            self.counters.system_calls += 1;
            set_send_buffer(socket, self.limit.limit() / 2);
        }
        room
    }

    /// Sleeps until a frame waits, until a full device accepts frames again, or until `limit` has passed.
    /// Without a limit it sleeps indefinitely. A signal may end the wait early.
    ///
    /// # Errors
    /// Fails if the socket cannot be polled.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        sys::wait(self.socket.as_fd(), self.is_full, limit)
    }
}

impl Wire for PacketWire {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        self.limit.interrupted();
        // A caller that still has data to send asks for room again, or transmits.
        self.is_full = false;
        let count = match &mut self.arrivals {
            Arrivals::Buffer(slots) => slots.fill(&self.socket, max, &mut self.counters),
            Arrivals::Ring(ring) => ring.fill(&self.socket, max, &mut self.counters),
        }?;
        if count == 0 {
            self.interface.check(&self.socket)?;
        }
        Ok(count)
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        match &self.arrivals {
            Arrivals::Buffer(slots) => slots.frame(i),
            Arrivals::Ring(ring) => ring.frame(i),
        }
    }

    fn release(&mut self) {
        match &mut self.arrivals {
            Arrivals::Buffer(slots) => slots.release(),
            Arrivals::Ring(ring) => ring.release(),
        }
    }

    fn room(&mut self) -> usize {
        let room = self.limit.room().unwrap_or_else(|| self.measure());
        self.is_full = room == 0;
        room
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        if self.limit.is_blocked() {
            self.measure();
        }
        let mut socket = Socket { fd: self.socket.as_fd(), limit: &mut self.limit };
        let taken = slots::send(&mut socket, frames, ETHERNET, &mut self.counters)?;
        self.is_full = taken < frames.len();
        if self.is_full {
            self.limit.refused();
        }
        Ok(taken)
    }
}

/// A packet socket as the destination of frames.
struct Socket<'a> {
    fd: BorrowedFd<'a>,
    limit: &'a mut QueueLimit,
}

impl slots::Transmit for Socket<'_> {
    fn send(&mut self, frame: &[u8]) -> io::Result<usize> {
        sys::send(self.fd, frame).inspect(|len| self.limit.sent(*len))
    }

    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        sys::send_pieces(self.fd, pieces).inspect(|len| self.limit.sent(*len))
    }
}

impl AsFd for PacketWire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for PacketWire {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Sets up the reception of a socket before it is bound, because it receives no frames until then.
///
/// The socket is promiscuous, because the address is not the interface's own. It sends through the queueing
/// discipline, which cuts super-segments for devices that cannot.
fn prepare(socket: &OwnedFd, index: c_int, own: [u8; 6]) -> io::Result<()> {
    let socket = socket.as_fd();
    let yes: c_int = 1;
    let filter = filter::own_and_groups(own).map(|step| SockFilter::new(step.code, step.jt, step.jf, step.k));
    SockRef::from(&socket).attach_filter(&filter)?;
    sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &yes)?;
    sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &yes)?;
    sys::set_promiscuous(socket, index)
}

/// Returns the limit of data ahead of the device and sets the send buffer to it. The limit does not exceed
/// the maximum size of the socket's buffer.
fn send_limit(socket: BorrowedFd<'_>, mtu: u32) -> Result<QueueLimit, OpenError> {
    set_send_buffer(socket, BUFFER_BYTES as u64);
    let max = sockopt::socket_send_buffer_size(socket)
        .map_err(|errno| OpenError::io("read the size of the send buffer")(errno.into()))?;
    let limit = QueueLimit::new(mtu, max as u64);
    set_send_buffer(socket, limit.limit() / 2);
    Ok(limit)
}

/// Sets the send buffer's size, which the kernel doubles.
fn set_send_buffer(socket: BorrowedFd<'_>, half: u64) {
    let half = usize::try_from(half).unwrap_or(usize::MAX);
    if sockopt::set_socket_send_buffer_size_force(socket, half).is_err() {
        clamped(sockopt::set_socket_send_buffer_size(socket, half));
    }
}

/// Ignores an error. A buffer's size is clamped to the administrator's limit (net.core.[rw]mem_max), and in
/// the worst case does not change.
fn clamped(_: rustix::io::Result<()>) {}

/// Returns the place where frames wait, and its capacity in bytes.
fn arrivals(socket: &OwnedFd, options: PacketOptions, mtu: u32) -> Result<(Arrivals, u64), OpenError> {
    let socket = socket.as_fd();
    if sockopt::set_socket_recv_buffer_size_force(socket, BUFFER_BYTES).is_err() {
        clamped(sockopt::set_socket_recv_buffer_size(socket, BUFFER_BYTES));
    }
    let buffer = sockopt::socket_recv_buffer_size(socket)
        .map_err(|errno| OpenError::io("read the size of the receive buffer")(errno.into()))?;
    let held = buffer as u64 / 2;
    let holds = match options.receive {
        Receive::Buffer => return Ok((Arrivals::Buffer(Slots::default()), held)),
        Receive::Fitting if buffer >= MIN_BUFFER_BYTES => SlotCapacity::Usual,
        Receive::Fitting | Receive::Ring => SlotCapacity::All,
    };
    let shape = holds.shape(options.frames.unwrap_or(usize::MAX));
    let ring =
        Batch::new(socket, holds, shape).map_err(OpenError::needs("CAP_NET_RAW", "set up a receive ring"))?;
    let queue = shape.places() as u64 * u64::from(mtu);
    let queue = if holds == SlotCapacity::Usual {
        queue.min(held)
    } else {
        queue
    };
    Ok((Arrivals::Ring(ring), queue))
}
