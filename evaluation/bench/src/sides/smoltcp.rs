//! smoltcp, a well-maintained TCP/IP stack in Rust, on its own TAP device or on a port of DPDK (`port`).
//!
//! It runs in its best known configuration: no congestion control (its default), no Nagle, buffers of 1 MiB
//! (larger ones are not faster), MTU 1500. On TAP, it does not verify received transport checksums, because
//! the kernel made them on this very machine. It has to compute those that it sends. The kernel's queue
//! towards the device is as long as for Hawser's TUN.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use hawser::host::netns::Netlink;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, TunTapInterface};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};

use super::spec::{Spec, StackKind};
use super::transport::Transport;

/// The size of each buffer, in bytes.
pub(crate) const BUFFER: usize = 1 << 20;
/// The number of packets that may wait in the kernel for the device.
const QUEUE_PACKETS: u32 = 4096;
/// The local port of connections.
const LOCAL_PORT: u16 = 49_152;

/// A device that receives and sends frames.
pub(crate) trait Link: Device {
    /// Sends the queued frames.
    ///
    /// # Errors
    /// The device failed.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Sleeps until frames have come, or `limit` has passed.
    ///
    /// # Errors
    /// Waiting failed.
    fn wait(&self, limit: Option<Duration>) -> io::Result<()>;
}

/// A TAP device, which needs no verification of received checksums.
pub(crate) struct Tap(TunTapInterface);

impl Link for Tap {
    fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        smoltcp::phy::wait(self.0.as_raw_fd(), limit.map(Into::into))
    }
}

impl Device for Tap {
    type RxToken<'a> = <TunTapInterface as Device>::RxToken<'a>;
    type TxToken<'a> = <TunTapInterface as Device>::TxToken<'a>;

    fn receive(&mut self, timestamp: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        self.0.receive(timestamp)
    }

    fn transmit(&mut self, timestamp: Instant) -> Option<Self::TxToken<'_>> {
        self.0.transmit(timestamp)
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = self.0.capabilities();
        capabilities.checksum.ipv4 = Checksum::Tx;
        capabilities.checksum.tcp = Checksum::Tx;
        capabilities
    }
}

/// Opens a TAP device and configures both ends.
///
/// # Errors
/// The orders are invalid, or the device failed.
pub(crate) fn on_tap(spec: &Spec) -> io::Result<Smoltcp<Tap>> {
    let StackKind::Smoltcp { device, kernel: Some(kernel) } = &spec.stack else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let name = device.trim_start_matches("tap:");
    let device = Tap(TunTapInterface::new(name, Medium::Ethernet)?);
    let mut netlink = Netlink::open().map_err(io::Error::other)?;
    netlink.set_queue(name, QUEUE_PACKETS).map_err(io::Error::other)?;
    netlink
        .add_address(name, kernel.0, kernel.1)
        .map_err(io::Error::other)?;
    netlink.bring_up(name).map_err(io::Error::other)?;
    Smoltcp::new(device, spec)
}

/// An interface and its sockets.
pub(crate) struct Smoltcp<L> {
    device: L,
    interface: Interface,
    sockets: SocketSet<'static>,
    sleeps: bool,
    listening: Option<(SocketHandle, u16)>,
    open: Vec<SocketHandle>,
}

impl<L: Link> Smoltcp<L> {
    /// Runs the stack on a device.
    ///
    /// # Errors
    /// The orders are invalid.
    pub(crate) fn new(mut device: L, spec: &Spec) -> io::Result<Smoltcp<L>> {
        let IpAddr::V4(address) = spec.address.0 else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let mac = EthernetAddress([2, 0, 0, 0, 0, address.octets()[3]]);
        let config = Config::new(HardwareAddress::Ethernet(mac));
        let mut interface = Interface::new(config, &mut device, Instant::now());
        interface.update_ip_addrs(|list| {
            // The list is empty, and has room for at least one address.
            let _ = list.push(IpCidr::new(address.into(), spec.address.1));
        });
        let sockets = SocketSet::new(Vec::new());
        Ok(Smoltcp {
            device,
            interface,
            sockets,
            sleeps: spec.sleeps,
            listening: None,
            open: Vec::new(),
        })
    }

    fn socket(&mut self) -> tcp::Socket<'static> {
        socket(BUFFER)
    }

    fn failure(&self, connection: SocketHandle) -> io::Result<()> {
        let socket = self.sockets.get::<tcp::Socket<'_>>(connection);
        match socket.state() {
            tcp::State::Closed => Err(io::ErrorKind::ConnectionReset.into()),
            _ => Ok(()),
        }
    }
}

/// Makes a socket with buffers of this many bytes, in the configuration described above.
#[must_use]
pub(crate) fn socket(buffer: usize) -> tcp::Socket<'static> {
    let memory = || tcp::SocketBuffer::new(vec![0; buffer]);
    let mut socket = tcp::Socket::new(memory(), memory());
    socket.set_nagle_enabled(false);
    socket
}

impl<L: Link> Transport for Smoltcp<L> {
    type Connection = SocketHandle;

    fn listen(&mut self, port: u16) -> io::Result<()> {
        let mut socket = self.socket();
        socket.listen(port).map_err(io::Error::other)?;
        self.listening = Some((self.sockets.add(socket), port));
        Ok(())
    }

    fn accept(&mut self) -> io::Result<Option<SocketHandle>> {
        let Some((handle, port)) = self.listening else {
            return Ok(None);
        };
        if !self.sockets.get::<tcp::Socket<'_>>(handle).may_recv() {
            return Ok(None);
        }
        // The listening socket becomes the connection.
        self.listening = None;
        self.open.push(handle);
        self.listen(port)?;
        Ok(Some(handle))
    }

    fn connect(&mut self, to: SocketAddr) -> io::Result<SocketHandle> {
        let mut socket = self.socket();
        let SocketAddr::V4(to) = to else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let to = (IpAddress::Ipv4(*to.ip()), to.port());
        socket
            .connect(self.interface.context(), to, LOCAL_PORT)
            .map_err(io::Error::other)?;
        let handle = self.sockets.add(socket);
        self.open.push(handle);
        Ok(handle)
    }

    fn opened(&mut self, connection: SocketHandle) -> io::Result<Option<SocketHandle>> {
        self.failure(connection)?;
        let is_open = self.sockets.get::<tcp::Socket<'_>>(connection).may_send();
        Ok(is_open.then_some(connection))
    }

    fn read(&mut self, connection: SocketHandle, out: &mut [u8]) -> io::Result<Option<usize>> {
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(connection);
        match socket.recv_slice(out) {
            Ok(0) => Ok(None),
            Ok(n) => Ok(Some(n)),
            Err(tcp::RecvError::Finished) => Ok(Some(0)),
            Err(tcp::RecvError::InvalidState) => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    fn write(&mut self, connection: SocketHandle, bytes: &[u8]) -> io::Result<Option<usize>> {
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(connection);
        match socket.send_slice(bytes) {
            Ok(0) => Ok(None),
            Ok(n) => Ok(Some(n)),
            Err(tcp::SendError::InvalidState) => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    fn shutdown(&mut self, connection: SocketHandle) -> io::Result<()> {
        self.sockets.get_mut::<tcp::Socket<'_>>(connection).close();
        Ok(())
    }

    fn close(&mut self, connection: SocketHandle) {
        self.sockets.get_mut::<tcp::Socket<'_>>(connection).close();
        self.open.retain(|handle| *handle != connection);
    }

    fn turn(&mut self, limit: Option<Duration>, changed: &mut Vec<SocketHandle>) -> io::Result<()> {
        let now = Instant::now();
        let result = self.interface.poll(now, &mut self.device, &mut self.sockets);
        self.device.flush()?;
        if self.sleeps && result == smoltcp::iface::PollResult::None {
            let due = self.interface.poll_delay(now, &self.sockets).map(Into::into);
            self.device.wait(due.into_iter().chain(limit).min())?;
        }
        changed.extend_from_slice(&self.open);
        Ok(())
    }
}
