//! Linux at one end of a device, and one of our stacks at the other.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hawser_engine::StackConfig;
use hawser_engine::front::{Front, FrontResults};
use hawser_engine::net::InterfaceConfig;
use hawser_engine::wire::{Caps, RxFrame, TxFrame, Wire};
use hawser_sockets::host::netns::{Namespace, Netlink};
use hawser_sockets::host::{
    self, DeviceSpec, Faults, PacketOptions, PacketWire, StackSetup, TunOptions, TunWire,
};
use hawser_sockets::{Device, Endpoint, Handle, Network};
use tokio::net::TcpSocket;

pub(crate) use hawser_testing::TestResult;

/// The maximum duration of any wait.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) const DEVICE: &str = "hawser0";
pub(crate) const KERNEL_END: &str = "linux0";

/// The device between Linux and the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Medium {
    Tun,
    Packet,
    /// An AF_XDP socket. It needs eBPF, which cannot be loaded in a user namespace.
    #[allow(dead_code, reason = "for the tests of tests/xdp")]
    Xdp,
    /// An AF_XDP socket, with the program's chains in the kernel.
    #[allow(dead_code, reason = "for the tests of tests/xdp")]
    XdpChains,
    /// An AF_XDP interface with three receive queues.
    #[allow(dead_code, reason = "for the tests of tests/xdp")]
    XdpQueues,
    /// A port of DPDK on a packet socket.
    #[allow(dead_code, reason = "for the tests of tests/dpdk")]
    DpdkPacket,
    /// A port of DPDK with three queue pairs on packet sockets.
    #[allow(dead_code, reason = "for the tests of tests/dpdk")]
    DpdkPacketQueues,
    /// A port of DPDK on an AF_XDP socket, which needs eBPF.
    #[allow(dead_code, reason = "for the tests of tests/xdp")]
    DpdkXdp,
    /// A port of DPDK that has a TAP device.
    #[allow(dead_code, reason = "for the tests of tests/dpdk")]
    DpdkTap,
}

/// The parts that are common to all tests.
pub(crate) struct Testbed {
    setup: StackSetup,
}

impl Testbed {
    /// Sets the stage up in the present network namespace; returns `None` if a TUN device cannot be opened.
    pub(crate) fn set_up(medium: Medium) -> TestResult<Option<Testbed>> {
        let device = match medium {
            Medium::Tun => DeviceSpec::Tun(DEVICE.to_owned()),
            Medium::Packet => DeviceSpec::Packet(DEVICE.to_owned()),
            Medium::Xdp | Medium::XdpQueues => DeviceSpec::Xdp(DEVICE.to_owned()),
            Medium::XdpChains => DeviceSpec::XdpChains(DEVICE.to_owned()),
            Medium::DpdkPacket => DeviceSpec::Dpdk(port("net_af_packet")),
            Medium::DpdkPacketQueues => DeviceSpec::Dpdk(port("net_af_packet") + ",qpairs=3"),
            Medium::DpdkXdp => DeviceSpec::Dpdk(port("net_af_xdp")),
            Medium::DpdkTap => DeviceSpec::Dpdk(port("net_tap")),
        };
        let mut setup = StackSetup::new(device, (hawser_v4(), 24));
        setup.addresses.push((hawser_v6(), 64));
        match medium {
            Medium::Tun | Medium::DpdkTap if TunWire::open(DEVICE, TunOptions::default()).is_err() => {
                return Ok(None);
            }
            Medium::Tun | Medium::DpdkTap => {
                setup.kernel_addresses = vec![(linux_v4(), 24), (linux_v6(), 64)]
            }
            Medium::Packet
            | Medium::Xdp
            | Medium::XdpChains
            | Medium::XdpQueues
            | Medium::DpdkPacket
            | Medium::DpdkPacketQueues
            | Medium::DpdkXdp => {
                let mut netlink = Netlink::open()?;
                match medium {
                    Medium::XdpQueues => add_veth_with_queues()?,
                    _ => netlink.add_veth(KERNEL_END, DEVICE, &Namespace::current()?)?,
                }
                // Checksums that the kernel leaves incomplete for packet sockets would be wrong for readers
                // of raw frames.
                netlink.set_checksum_offload(KERNEL_END, matches!(medium, Medium::Packet))?;
                netlink.bring_up(KERNEL_END)?;
                netlink.bring_up(DEVICE)?;
                netlink.add_address(KERNEL_END, linux_v4(), 24)?;
                netlink.add_address(KERNEL_END, linux_v6(), 64)?;
            }
        }
        Ok(Some(Testbed { setup }))
    }

    /// Returns the same stage with whole packets on a TUN device.
    pub(crate) fn without_offload(&self) -> Testbed {
        Testbed { setup: StackSetup { offload: false, ..self.setup.clone() } }
    }

    /// Returns the same stage in bad conditions: `loss=1%,reorder=1%,hold=1ms`.
    pub(crate) fn with_faults(&self, faults: &str, seed: u64) -> TestResult<Testbed> {
        let faults: Faults = faults.parse()?;
        Ok(Testbed {
            setup: StackSetup { faults: Some(faults.with_seed(seed)), ..self.setup.clone() },
        })
    }

    /// Returns true if the device carries bare IP and unfinished checksums can be switched off.
    pub(crate) fn is_tun(&self) -> bool {
        matches!(self.setup.device, DeviceSpec::Tun(_))
    }

    /// Returns the setup of the device and its two ends.
    pub(crate) fn setup(&self) -> &StackSetup {
        &self.setup
    }

    /// Returns a polled endpoint that runs the built-in TCP, with params.
    pub(crate) fn endpoint(&self, params: &[(&str, u64)]) -> TestResult<Endpoint> {
        Ok(host::open(
            hawser_load::programs::resolve("tcp", &named(params))?,
            &self.setup,
        )?)
    }

    /// Returns a polled endpoint that runs another program.
    pub(crate) fn endpoint_of(&self, program: &str, params: &[(&str, u64)]) -> TestResult<Endpoint> {
        Ok(host::open(
            hawser_load::programs::resolve(program, &named(params))?,
            &self.setup,
        )?)
    }

    /// Starts a program at the other end of the pair of devices, beside Linux; returns `None` on a TUN
    /// device.
    pub(crate) fn at_the_far_end(
        &self,
        program: &str,
        params: &[(&str, u64)],
        address: IpAddr,
    ) -> TestResult<Option<Endpoint>> {
        if self.is_tun() {
            return Ok(None);
        }
        let setup = StackSetup::new(DeviceSpec::Packet(KERNEL_END.to_owned()), (address, 24));
        let program = hawser_load::programs::resolve(program, &named(params))?;
        Ok(Some(host::open(program, &setup)?))
    }

    /// Returns an endpoint on a packet socket with a receive ring of about this many frames, and the final
    /// count of missed frames. Returns `None` on a TUN device, which has no ring.
    pub(crate) fn endpoint_with_ring(
        &self,
        frames: usize,
        params: &[(&str, u64)],
    ) -> TestResult<Option<(Endpoint, Missed)>> {
        let DeviceSpec::Packet(name) = &self.setup.device else {
            return Ok(None);
        };
        let wire = PacketWire::open(
            name,
            PacketOptions { frames: Some(frames), ..PacketOptions::default() },
        )?;
        let missed = Missed::default();
        let kept = missed.clone();
        let device = Watched::new(wire, move |wire: &PacketWire| {
            kept.store(wire.missed().unwrap_or(0), Ordering::Release);
        });
        let interface =
            InterfaceConfig { addresses: self.setup.addresses.clone(), gateways: vec![], mtu: 1500 };
        let program = hawser_load::programs::resolve("tcp", &named(params))?;
        Ok(Some((
            Endpoint::new(program, StackConfig::new(interface, 7), Box::new(device))?,
            missed,
        )))
    }

    /// Returns a network on the running tokio runtime.
    pub(crate) fn network(&self, params: &[(&str, u64)]) -> TestResult<Network> {
        Ok(Network::start(self.endpoint(params)?)?)
    }
}

/// Adds a veth pair whose ends have three queues.
fn add_veth_with_queues() -> TestResult {
    let queues = "numrxqueues 3 numtxqueues 3";
    let request = format!("link add {KERNEL_END} {queues} type veth peer name {DEVICE} {queues}");
    let status = Command::new("ip").args(request.split(' ')).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`ip {request}` failed").into())
    }
}

/// Returns a port of DPDK on the device. Its name is unique in the process.
fn port(driver: &str) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{driver}{number},iface={DEVICE}")
}

pub(crate) fn named(params: &[(&str, u64)]) -> Vec<(String, u64)> {
    params
        .iter()
        .map(|(name, value)| ((*name).to_owned(), *value))
        .collect()
}

/// The number of frames that found no room in a ring, set once its device is gone.
pub(crate) type Missed = Arc<AtomicU64>;

/// A device that reports its counters when it is dropped.
pub(crate) struct Watched<W: Device, L: Fn(&W)> {
    wire: W,
    report: L,
}

impl<W: Device, L: Fn(&W)> Watched<W, L> {
    pub(crate) fn new(wire: W, report: L) -> Self {
        Watched { wire, report }
    }
}

impl<W: Device, L: Fn(&W)> Drop for Watched<W, L> {
    fn drop(&mut self) {
        (self.report)(&self.wire);
    }
}

impl<W: Device, L: Fn(&W)> Wire for Watched<W, L> {
    fn caps(&self) -> &Caps {
        self.wire.caps()
    }

    fn receive(&mut self, max: usize) -> std::io::Result<usize> {
        self.wire.receive(max)
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        self.wire.frame(i)
    }

    fn release(&mut self) {
        self.wire.release();
    }

    fn room(&mut self) -> usize {
        self.wire.room()
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> std::io::Result<usize> {
        self.wire.transmit(frames)
    }

    fn ran(&self, i: usize) -> Option<FrontResults<'_>> {
        self.wire.ran(i)
    }

    fn front(&mut self) -> Option<&mut dyn Front> {
        self.wire.front()
    }
}

impl<W: Device, L: Fn(&W) + Send> Device for Watched<W, L> {
    fn readiness(&self) -> BorrowedFd<'_> {
        self.wire.readiness()
    }

    fn wait(&self, limit: Option<Duration>) -> std::io::Result<()> {
        self.wire.wait(limit)
    }
}

pub(crate) fn linux_v4() -> IpAddr {
    IpAddr::from([10, 9, 0, 1])
}

pub(crate) fn linux_v6() -> IpAddr {
    IpAddr::from([0xfd09, 0, 0, 0, 0, 0, 0, 1])
}

pub(crate) fn hawser_v4() -> IpAddr {
    IpAddr::from([10, 9, 0, 2])
}

pub(crate) fn hawser_v6() -> IpAddr {
    IpAddr::from([0xfd09, 0, 0, 0, 0, 0, 0, 2])
}

/// Returns a listener of Linux on a free port of an address that may be added later.
pub(crate) fn linux_listener(like: IpAddr) -> TestResult<std::net::TcpListener> {
    let any: IpAddr = if like.is_ipv4() {
        [0; 4].into()
    } else {
        [0u16; 8].into()
    };
    Ok(std::net::TcpListener::bind(SocketAddr::new(any, 0))?)
}

/// Returns a listener for many clients at once. Linux resets some of those that find its queue full. Its SYN
/// cookie (RFC 4987) contains no information on the second segment of a connection whose first one it has
/// dropped.
pub(crate) fn patient_linux_listener(like: IpAddr, backlog: u32) -> TestResult<std::net::TcpListener> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let _inside = runtime.enter();
    let socket = if like.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    let any: IpAddr = if like.is_ipv4() {
        [0; 4].into()
    } else {
        [0u16; 8].into()
    };
    socket.bind(SocketAddr::new(any, 0))?;
    let listener = socket.listen(backlog)?.into_std()?;
    listener.set_nonblocking(false)?;
    Ok(listener)
}

/// Polls until `done` returns a value.
pub(crate) fn poll_until<T>(
    endpoint: &mut Endpoint,
    what: &str,
    done: impl FnMut(&mut Endpoint) -> TestResult<Option<T>>,
) -> TestResult<T> {
    poll_for(endpoint, TIMEOUT, what, done)
}

/// Polls like `poll_until`, with its own timeout.
pub(crate) fn poll_for<T>(
    endpoint: &mut Endpoint,
    timeout: Duration,
    what: &str,
    mut done: impl FnMut(&mut Endpoint) -> TestResult<Option<T>>,
) -> TestResult<T> {
    let begin = Instant::now();
    loop {
        while endpoint.poll()? {}
        if let Some(value) = done(endpoint)? {
            endpoint.poll()?;
            return Ok(value);
        }
        if begin.elapsed() > timeout {
            return Err(format!("{what} did not happen within {timeout:?}").into());
        }
        // `done` may have been waiting for any effect of this poll.
        if !endpoint.poll()? {
            endpoint.wait(Some(Duration::from_millis(20)))?;
        }
    }
}

/// Maps an operation that would block to `None`.
pub(crate) fn ready<T>(result: std::io::Result<T>) -> TestResult<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Accepts one connection and sends its bytes back until its end.
pub(crate) fn echo_one(endpoint: &mut Endpoint, listener: Handle) -> TestResult<Handle> {
    let connection = poll_until(endpoint, "a connection", |e| ready(e.accept(listener)))?;
    let (mut pending, mut eof, mut chunk) = (Vec::new(), false, vec![0; 1 << 16]);
    poll_until(endpoint, "the echo", |e| {
        loop {
            let before = pending.len();
            if !eof && pending.len() < 1 << 18 {
                match ready(e.read(connection, &mut chunk))? {
                    Some(0) => eof = true,
                    Some(n) => pending.extend_from_slice(&chunk[..n]),
                    None => {}
                }
            }
            if !pending.is_empty()
                && let Some(n) = ready(e.write(connection, &pending))?
            {
                pending.drain(..n);
            }
            if eof && pending.is_empty() {
                e.shutdown(connection);
                return Ok(Some(()));
            }
            if pending.len() == before {
                return Ok(None);
            }
        }
    })?;
    Ok(connection)
}

/// Returns bytes that differ from their neighbours.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}
