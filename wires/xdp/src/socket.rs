//! The AF_XDP socket of an interface's receive queue, and its rings.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use hawser_host::Interface;
use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
    XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpOptionsFlags, XdpStatistics, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, bind, send, socket_with, sockopt};

use crate::OpenError;
use crate::error::About;
use crate::shared::{Buffers, Consumer, Producer, RingLayout};

/// The number of buffers for received frames, enough for 3 MB of full-sized frames.
pub(crate) const RECEIVE: u32 = 2048;
/// The number of entries of the ring by which they go to the kernel. The kernel may deliver frames before it
/// reports that it has taken their buffers, so each buffer may be in the ring twice.
const FILL_RING: u32 = 2 * RECEIVE;
/// The number of buffers for frames to send: those in the ring, and those that the kernel has taken and not
/// given back.
pub(crate) const SEND: u32 = 1024;
/// The maximum number of frames that wait for the device: a quarter of a millisecond at 10 Gbit/s.
const SEND_RING: u32 = 256;
/// The limit on memory of frames on their way through the kernel, in bytes; the kernel's accounting doubles
/// it. It allows fewer frames than there are buffers, so that the ring is full before buffers run out.
/// Readiness for writing then means room in the ring.
const IN_KERNEL: usize = 104 << 10;
/// The maximum time for which a closed socket still occupies its queue.
const RELEASE: Duration = Duration::from_secs(1);

/// A socket that is bound to a queue of the interface.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    /// The ring of buffers for the kernel to receive into.
    pub(crate) fill: Producer<u64>,
    /// The ring of received frames.
    pub(crate) arrivals: Consumer<XdpDesc>,
    /// The ring of frames to send.
    pub(crate) departures: Producer<XdpDesc>,
    /// The ring of buffers whose frames were sent.
    pub(crate) sent: Consumer<u64>,
}

/// The options with which a socket is bound.
#[derive(Clone, Copy)]
pub(crate) struct Binding {
    /// True if a frame may occupy more than one buffer.
    pub(crate) in_pieces: bool,
    /// True if the kernel has to copy, even if the device supports zero copy.
    pub(crate) copies: bool,
}

impl Socket {
    /// Opens a socket whose frames are in `buffers`, and binds it.
    pub(crate) fn open(
        interface: &Interface,
        queue: u16,
        buffers: &Buffers,
        binding: Binding,
    ) -> Result<Socket, OpenError> {
        let about = About(&interface.name);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd =
            socket_with(AddressFamily::XDP, SocketType::RAW, flags, None).map_err(|errno| match errno {
                Errno::AFNOSUPPORT => about.kernel("AF_XDP sockets (CONFIG_XDP_SOCKETS)"),
                _ => about.call("open an AF_XDP socket", errno.into()),
            })?;
        register(fd.as_fd(), buffers).map_err(|errno| match errno {
            Errno::NOBUFS => OpenError::Memory { name: interface.name.clone(), bytes: buffers.len() },
            _ => about.call("register the buffers of frames", errno.into()),
        })?;
        let socket = Socket::map(fd, buffers.size())
            .map_err(|error| about.call("set the AF_XDP socket's rings up", error))?;
        let mut flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        flags.set(SocketAddrXdpFlags::XDP_USE_SG, binding.in_pieces);
        flags.set(SocketAddrXdpFlags::XDP_COPY, binding.copies);
        let address = SocketAddrXdp::new(flags, interface.index as u32, u32::from(queue));
        bind_once_released(&socket.fd, &address).map_err(|errno| match errno {
            Errno::INVAL | Errno::OPNOTSUPP if binding.in_pieces => {
                about.kernel("AF_XDP frames of more than one buffer (Linux 6.6), which this MTU takes")
            }
            Errno::BUSY => OpenError::Busy { name: interface.name.clone() },
            _ => about.call("bind the AF_XDP socket", errno.into()),
        })?;
        Ok(socket)
    }

    fn map(fd: OwnedFd, buffer: u32) -> io::Result<Socket> {
        let socket = fd.as_fd();
        sockopt::set_xdp_umem_fill_ring_size(socket, FILL_RING)?;
        sockopt::set_xdp_umem_completion_ring_size(socket, SEND)?;
        sockopt::set_xdp_rx_ring_size(socket, RECEIVE)?;
        sockopt::set_xdp_tx_ring_size(socket, SEND_RING)?;
        sockopt::set_socket_send_buffer_size(socket, IN_KERNEL)?;
        let offsets = sockopt::xdp_mmap_offsets(socket)?;
        let shape = |page, offsets, size| RingLayout { page, offsets, size, buffer };
        Ok(Socket {
            fill: Producer::map(socket, shape(XDP_UMEM_PGOFF_FILL_RING, offsets.fr, FILL_RING))?,
            arrivals: Consumer::map(socket, shape(XDP_PGOFF_RX_RING, offsets.rx, RECEIVE))?,
            departures: Producer::map(socket, shape(XDP_PGOFF_TX_RING, offsets.tx, SEND_RING))?,
            sent: Consumer::map(socket, shape(XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr, SEND))?,
            fd,
        })
    }

    /// Returns true if the device reads and writes our buffers itself.
    pub(crate) fn is_zero_copy(&self) -> io::Result<bool> {
        let options = sockopt::xdp_options(&self.fd)?;
        Ok(options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    /// Returns the kernel's counters.
    pub(crate) fn statistics(&self) -> io::Result<XdpStatistics> {
        Ok(sockopt::xdp_statistics(&self.fd)?)
    }

    /// Makes the kernel process the rings.
    pub(crate) fn wake(&self) -> rustix::io::Result<usize> {
        send(&self.fd, &[], SendFlags::DONTWAIT)
    }

    /// Returns an error that the kernel has recorded: the interface was removed.
    pub(crate) fn error(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(&self.fd)??)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Binds a socket. A recently closed socket may still occupy the queue, because the kernel releases it in the
/// background.
fn bind_once_released(socket: &OwnedFd, address: &SocketAddrXdp) -> rustix::io::Result<()> {
    let begin = Instant::now();
    loop {
        match bind(socket, address) {
            Err(Errno::BUSY) if begin.elapsed() < RELEASE => thread::sleep(RELEASE / 100),
            bound => return bound,
        }
    }
}

fn register(socket: BorrowedFd<'_>, buffers: &Buffers) -> rustix::io::Result<()> {
    let memory = XdpUmemReg {
        addr: buffers.address(),
        len: buffers.len(),
        chunk_size: buffers.size(),
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    sockopt::set_xdp_umem_reg(socket, memory)
}
