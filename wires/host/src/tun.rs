//! Bare IP through a TUN device.

use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use hawser_engine::wire::{Caps, Medium, RxFrame, TxFrame, Wire};

use crate::netns::{NamespaceError, Netlink};
use crate::slots::{self, Slots};
use crate::sys::{self, InterfaceRequest};
use crate::{OpenError, WireCounters, vnet};

/// The queue length, in packets, of a device that is created here: 6 MB in packets of 1500 bytes.
const QUEUE_PACKETS: u32 = 4096;

/// The length of the longest IP packet, in bytes.
const MAX_PACKET: u32 = 65_535;

/// Options for opening a TUN device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunOptions {
    /// True if super-segments and unfinished checksums may cross the device in both directions. If false,
    /// every packet is as it would be on a cable, which suits captures and comparisons.
    pub offload: bool,
}

impl Default for TunOptions {
    fn default() -> TunOptions {
        TunOptions { offload: true }
    }
}

/// A TUN device, whose other end is the kernel. It carries IP packets.
///
/// The device is removed with the wire, unless it was made persistent by other means. The kernel's own
/// address is set on it in the usual way ([`crate::netns::Netlink`], `ip address`). The stack's address is
/// another one of the same subnet, or any address to which the kernel has a route.
#[derive(Debug)]
pub struct TunWire {
    file: File,
    name: String,
    caps: Caps,
    slots: Slots,
    counters: WireCounters,
    /// True if the device did not take all frames, so that a wait must include writability.
    is_full: bool,
}

impl TunWire {
    /// Opens the TUN device `name`. A new device is created, and needs an address and to be brought up. An
    /// existing device must be up.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(name: &str, options: TunOptions) -> Result<TunWire, OpenError> {
        let mut wires = TunWire::open_queues(name, options, 1)?;
        Ok(wires.remove(0))
    }

    /// Opens a device with several queues, each of which becomes a wire. Packets of a connection arrive on
    /// the queue that last sent packets of that connection, and before that on any queue. An existing device
    /// must have been created for several queues, or for one, respectively.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_queues(name: &str, options: TunOptions, count: u16) -> Result<Vec<TunWire>, OpenError> {
        let request = InterfaceRequest::new(name)?;
        let socket = UnixDatagram::unbound().map_err(OpenError::io("open a socket"))?;
        let exists = flags(&socket, request).is_ok();
        let of_queues = if count == 1 { 0 } else { libc::IFF_MULTI_QUEUE };
        // The kernel may choose the name.
        let (first, name) = attach(request, name, of_queues, options)?;
        let request = InterfaceRequest::new(&name)?;
        if exists {
            if flags(&socket, request).map_err(OpenError::io("read the device's flags"))? & libc::IFF_UP == 0
            {
                return Err(OpenError::Down(name));
            }
        } else {
            // An ioctl would need the capability outside user namespaces.
            Netlink::open()
                .and_then(|mut netlink| netlink.set_queue(&name, QUEUE_PACKETS))
                .map_err(NamespaceError::into_error)
                .map_err(OpenError::needs("CAP_NET_ADMIN", "set the device's queue length"))?;
        }
        let caps = caps(&socket, request, options.offload)?;
        let further = (1..count).map(|_| Ok(attach(request, &name, of_queues, options)?.0));
        let files = [Ok(first)].into_iter().chain(further);
        let wires = files.map(|file: Result<File, OpenError>| {
            Ok(TunWire {
                file: file?,
                name: name.clone(),
                caps: caps.clone(),
                slots: Slots::default(),
                counters: WireCounters::default(),
                is_full: false,
            })
        });
        wires.collect()
    }

    /// Returns the device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the MTU of the device and of the wire, in bytes.
    ///
    /// # Errors
    /// Fails if the device does not support it, or if it is not permitted.
    pub fn set_mtu(&mut self, mtu: u32) -> Result<(), OpenError> {
        Netlink::open()
            .and_then(|mut netlink| netlink.set_mtu(&self.name, mtu))
            .map_err(NamespaceError::into_error)
            .map_err(OpenError::needs("CAP_NET_ADMIN", "set the device's MTU"))?;
        self.caps.mtu = mtu;
        Ok(())
    }

    /// Returns the counters since the wire was opened.
    #[must_use]
    pub fn counters(&self) -> WireCounters {
        self.counters
    }

    /// Sleeps until a frame waits, until a full device accepts frames again, or until `limit` has passed.
    /// Without a limit it sleeps indefinitely. A signal may end the wait early.
    ///
    /// # Errors
    /// Fails if the device cannot be polled.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        sys::wait(self.file.as_fd(), self.is_full, limit)
    }
}

/// The wire has unlimited room ([`Wire::room`]). The kernel receives a packet within the call that writes it,
/// so that no packets queue up.
impl Wire for TunWire {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        self.slots.fill(&self.file, max, &mut self.counters)
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        self.slots.frame(i)
    }

    fn release(&mut self) {
        self.slots.release();
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        let taken = slots::send(&mut Descriptor(&self.file), frames, 0, &mut self.counters)?;
        self.is_full = taken < frames.len();
        Ok(taken)
    }
}

/// The device's descriptor as the destination of frames.
struct Descriptor<'a>(&'a File);

impl slots::Transmit for Descriptor<'_> {
    fn send(&mut self, frame: &[u8]) -> io::Result<usize> {
        (&mut &*self.0).write(frame)
    }

    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        (&mut &*self.0).write_vectored(pieces)
    }
}

impl AsFd for TunWire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for TunWire {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

fn open_control() -> Result<File, OpenError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    options.open("/dev/net/tun").map_err(|error| match error.kind() {
        ErrorKind::NotFound => OpenError::NoTun,
        ErrorKind::PermissionDenied => OpenError::TunUnreadable,
        _ => match error.raw_os_error() {
            // The device node exists, but the driver does not.
            Some(libc::ENODEV | libc::ENXIO) => OpenError::NoTun,
            _ => OpenError::Io { action: "open /dev/net/tun", error },
        },
    })
}

/// Attaches to a queue of the device, creates the device if needed, and returns its name.
fn attach(
    request: InterfaceRequest,
    name: &str,
    queues: c_int,
    options: TunOptions,
) -> Result<(File, String), OpenError> {
    let file = open_control()?;
    let wanted = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | queues;
    let mut request = request.with_flags(wanted as u16);
    sys::interface_ioctl(file.as_fd(), libc::TUNSETIFF as libc::c_ulong, &mut request).map_err(|error| {
        match error.raw_os_error() {
            Some(libc::EBUSY) => OpenError::Busy(name.to_owned()),
            Some(libc::EINVAL) => OpenError::Kind {
                name: name.to_owned(),
                wanted: match queues {
                    0 => "a TUN device of one queue (a TAP device is another kind)",
                    _ => "a TUN device of several queues (one made with multi_queue)",
                },
            },
            _ => OpenError::needs("CAP_NET_ADMIN", "create or attach to a TUN device")(error),
        }
    })?;
    sys::pointer_ioctl(
        file.as_fd(),
        libc::TUNSETVNETHDRSZ as libc::c_ulong,
        vnet::HEADER as c_int,
    )
    .map_err(OpenError::io("set the length of virtio-net headers"))?;
    set_offload(&file, options.offload)?;
    Ok((file, request.name()))
}

fn set_offload(file: &File, offload: bool) -> Result<(), OpenError> {
    let features = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let features = if offload { features } else { 0 };
    sys::number_ioctl(
        file.as_fd(),
        libc::TUNSETOFFLOAD as libc::c_ulong,
        features.into(),
    )
    .map_err(OpenError::io("set the device's offloads"))
}

/// Returns the capabilities of the device. Its queue holds a number of packets of any length. The size
/// computed from the MTU is therefore a lower bound.
fn caps(socket: &UnixDatagram, request: InterfaceRequest, offload: bool) -> Result<Caps, OpenError> {
    let mtu = number(socket, libc::SIOCGIFMTU, request).map_err(OpenError::io("read the device's MTU"))?;
    let queue = number(socket, libc::SIOCGIFTXQLEN, request)
        .map_err(OpenError::io("read the device's queue length"))?;
    Ok(Caps {
        medium: Medium::Ip,
        mtu: mtu as u32,
        tx_csum: offload,
        gso_max: if offload { MAX_PACKET } else { 0 },
        rx_queue_bytes: queue as u64 * mtu as u64,
    })
}

fn flags(socket: &UnixDatagram, request: InterfaceRequest) -> io::Result<c_int> {
    let mut request = request;
    sys::interface_ioctl(socket.as_fd(), libc::SIOCGIFFLAGS as libc::c_ulong, &mut request)?;
    Ok(request.flags())
}

fn number(socket: &UnixDatagram, which: libc::c_ulong, request: InterfaceRequest) -> io::Result<c_int> {
    let mut request = request;
    sys::interface_ioctl(socket.as_fd(), which, &mut request)?;
    Ok(request.number())
}
