//! smoltcp, a well-kept TCP/IP stack in Rust, on its own TAP device.
//!
//! Its best configuration, as far as one is known: no congestion control (its default), no Nagle, no
//! check of received transport checksums (the kernel made them on this very machine; smoltcp has to
//! make those that it sends), buffers of 1 MiB (more is not faster), the kernel's queue towards the
//! device as long as for Hawser's TUN, MTU 1500.

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

/// Bytes of each buffer.
pub(crate) const BUFFER: usize = 1 << 20;
/// Packets that wait in the kernel for the device.
const QUEUE_PACKETS: u32 = 4096;
const MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);
/// The port that connections leave from.
const LOCAL_PORT: u16 = 49_152;

/// The device, which needs no check of received checksums.
struct Tap(TunTapInterface);

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

/// An interface and its sockets.
pub(crate) struct Smoltcp {
    device: Tap,
    interface: Interface,
    sockets: SocketSet<'static>,
    sleeps: bool,
    listening: Option<(SocketHandle, u16)>,
    open: Vec<SocketHandle>,
}

impl Smoltcp {
    /// Opens the device and sets both ends up.
    ///
    /// # Errors
    /// What is wrong with the orders, or the device.
    pub(crate) fn new(spec: &Spec) -> io::Result<Smoltcp> {
        let StackKind::Smoltcp { device: name, kernel } = &spec.stack else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut device = Tap(TunTapInterface::new(name, Medium::Ethernet)?);
        let mut netlink = Netlink::open().map_err(io::Error::other)?;
        netlink.set_queue(name, QUEUE_PACKETS).map_err(io::Error::other)?;
        netlink
            .add_address(name, kernel.0, kernel.1)
            .map_err(io::Error::other)?;
        netlink.bring_up(name).map_err(io::Error::other)?;
        let config = Config::new(HardwareAddress::Ethernet(MAC));
        let mut interface = Interface::new(config, &mut device, Instant::now());
        let IpAddr::V4(address) = spec.address.0 else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        interface.update_ip_addrs(|list| {
            // The list is empty, and has room for one at least.
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

/// A socket with buffers of so many bytes, set up as said above.
#[must_use]
pub(crate) fn socket(buffer: usize) -> tcp::Socket<'static> {
    let memory = || tcp::SocketBuffer::new(vec![0; buffer]);
    let mut socket = tcp::Socket::new(memory(), memory());
    socket.set_nagle_enabled(false);
    socket
}

impl Transport for Smoltcp {
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
        // A listening socket becomes the connection.
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
        if self.sleeps && result == smoltcp::iface::PollResult::None {
            let due = self.interface.poll_delay(now, &self.sockets);
            let limit = limit.map(Into::into);
            let limit = due.into_iter().chain(limit).min();
            smoltcp::phy::wait(self.device.0.as_raw_fd(), limit)?;
        }
        changed.extend_from_slice(&self.open);
        Ok(())
    }
}
