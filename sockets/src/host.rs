//! Devices of this machine, and starting a program on one of them.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use hawser_engine::StackConfig;
use hawser_engine::net::{InterfaceConfig, Steering};
use hawser_engine::program::Program;
use hawser_host::claim::Claim;
use hawser_host::netns::Netlink;
use hawser_ir::ParserInput;

#[cfg(feature = "dpdk")]
pub use hawser_dpdk::DpdkWire;
pub use hawser_host::{PacketOptions, PacketWire, TunOptions, TunWire, UdpWire, linux_tcp, netlink, netns};
#[cfg(feature = "xdp")]
pub use hawser_xdp::{XdpOptions, XdpWire};

use crate::claim;
use crate::device::Device;
use crate::endpoint::Endpoint;
use crate::error::OpenError;
pub use crate::faults::Faults;
use crate::shards::{Exchange, ShardDevice};

/// A device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSpec {
    /// A TUN device of this name; it is created if it does not exist.
    Tun(String),
    /// An Ethernet interface of this name, through a packet socket.
    Packet(String),
    /// An Ethernet interface of this name, through an AF_XDP socket (feature `xdp`).
    Xdp(String),
    /// An Ethernet interface of this name through an AF_XDP socket; chains of the program run in the kernel
    /// while the stack sleeps.
    XdpChains(String),
    /// A port of DPDK (feature `dpdk`): the name of a virtual device with its arguments, such as
    /// `net_af_packet0,iface=eth0`, or a PCI address.
    Dpdk(String),
    /// A UDP socket of the host at this address and port, for programs over UDP. 0.0.0.0 stands for all IPv4
    /// addresses of the host, and `::` for all of its addresses. Port 0 stands for any free port.
    Udp(SocketAddr),
}

/// A text does not name a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceSpecError {
    /// The text has no known kind of device, or no name.
    #[error(
        "`{0}` is not a device; write tun:NAME, packet:NAME, xdp:NAME, xdp-chains:NAME, dpdk:DEVICE or \
         udp:ADDRESS:PORT"
    )]
    Form(String),
    /// The text is not an address with a port.
    #[error("`{0}` is not an address with a port, such as 0.0.0.0:4433 or [::]:4433")]
    Socket(String),
    /// The name is not valid for a device in Linux.
    #[error("`{0}` cannot name a device: a name has 1 to 15 bytes, without blanks and `/`")]
    Name(String),
}

impl FromStr for DeviceSpec {
    type Err = DeviceSpecError;

    /// Parses `tun:NAME`, `packet:NAME`, `xdp:NAME`, `xdp-chains:NAME`, `dpdk:DEVICE` or `udp:ADDRESS:PORT`.
    fn from_str(text: &str) -> Result<DeviceSpec, DeviceSpecError> {
        match text.split_once(':') {
            Some((kind @ ("tun" | "packet" | "xdp" | "xdp-chains"), name)) if !name.is_empty() => {
                if name.len() > 15 || name.contains('/') || name.contains(char::is_whitespace) {
                    return Err(DeviceSpecError::Name(name.to_owned()));
                }
                match kind {
                    "tun" => Ok(DeviceSpec::Tun(name.to_owned())),
                    "xdp" => Ok(DeviceSpec::Xdp(name.to_owned())),
                    "xdp-chains" => Ok(DeviceSpec::XdpChains(name.to_owned())),
                    _ => Ok(DeviceSpec::Packet(name.to_owned())),
                }
            }
            Some(("dpdk", device)) if !device.is_empty() => Ok(DeviceSpec::Dpdk(device.to_owned())),
            Some(("udp", at)) => match at.parse() {
                Ok(at) => Ok(DeviceSpec::Udp(at)),
                Err(_) => Err(DeviceSpecError::Socket(at.to_owned())),
            },
            _ => Err(DeviceSpecError::Form(text.to_owned())),
        }
    }
}

/// The device, the addresses and the options of a stack.
#[derive(Clone, Debug)]
pub struct StackSetup {
    /// The device to use.
    pub device: DeviceSpec,
    /// The stack's own addresses with their prefix lengths; the kernel must not have them. Empty on a UDP
    /// socket, because the stack uses the host's.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The routers for destinations outside the stack's subnets.
    pub gateways: Vec<IpAddr>,
    /// Addresses for the kernel's side of a TUN device, or of a port of DPDK that has one; that side is then
    /// brought up.
    pub kernel_addresses: Vec<(IpAddr, u8)>,
    /// True if super-segments and unfinished checksums may cross a TUN device. Otherwise, and with faults,
    /// each packet on it is as it would be on a cable.
    pub offload: bool,
    /// The faults in front of the device.
    pub faults: Option<Faults>,
    /// The maximum number of bytes that a connection holds for sending, and as many for receiving. The
    /// default of stacks (4 and 8 MiB) is too little for long paths with high bandwidth.
    pub buffer: Option<u64>,
}

impl StackSetup {
    /// Returns the setup of a stack on a UDP socket of the host, without faults.
    #[must_use]
    pub fn at_socket(at: SocketAddr) -> StackSetup {
        StackSetup {
            addresses: Vec::new(),
            ..StackSetup::new(DeviceSpec::Udp(at), (at.ip(), 0))
        }
    }

    /// Returns the setup of a stack with one address on a device, without faults.
    #[must_use]
    pub fn new(device: DeviceSpec, address: (IpAddr, u8)) -> StackSetup {
        StackSetup {
            device,
            addresses: vec![address],
            gateways: Vec::new(),
            kernel_addresses: Vec::new(),
            offload: true,
            faults: None,
            buffer: None,
        }
    }
}

/// A text is not an address with a prefix length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address with a prefix length, such as 10.9.0.2/24 or fd09::2/64")]
pub struct AddressError(pub String);

/// Parses an address with its prefix length, such as `10.9.0.2/24`.
///
/// # Errors
/// Returns the invalid text.
pub fn parse_address(text: &str) -> Result<(IpAddr, u8), AddressError> {
    let wrong = || AddressError(text.to_owned());
    let (ip, bits) = text.split_once('/').ok_or_else(wrong)?;
    let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
    let bits: u8 = bits.parse().map_err(|_| wrong())?;
    if bits > if ip.is_ipv4() { 32 } else { 128 } {
        return Err(wrong());
    }
    Ok((ip, bits))
}

/// Runs a program on a device of this machine.
///
/// # Errors
/// Returns the reason for which the device could not be opened, and a remedy.
pub fn open(program: Arc<dyn Program>, setup: &StackSetup) -> Result<Endpoint, OpenError> {
    let (mut queues, place) = open_device(&*program, setup, &[Steering::ALONE])?;
    let device = queues.remove(0);
    let config = place.config(setup, device.caps().mtu, random_seed()?);
    let mut endpoint = Endpoint::new(program, config, device)?;
    endpoint.claims = place.claims;
    Ok(endpoint)
}

/// Runs a program in several shards: stacks with the same addresses, each on a queue of the device, which
/// share its connections. Listeners are opened in all of them, and connections to peers in any. Each shard is
/// to be driven by its own thread ([`Network::start`](crate::Network::start)) or dropped. Packets in the
/// queue of a shard that exists but is not driven are lost, whichever shard they are for.
///
/// # Errors
/// Also returns an error if the program can run only in a single shard (`hawser check --target` states the
/// reason), or if the device has too few queues.
pub fn open_shards(
    program: &Arc<dyn Program>,
    setup: &StackSetup,
    count: u16,
) -> Result<Vec<Endpoint>, OpenError> {
    if count <= 1 {
        return Ok(vec![open(program.clone(), setup)?]);
    }
    let [a, b, c, d, e, f, g, h, ..] = random_seed()?;
    let keys = [[a, b, c, d], [e, f, g, h]].map(|key| u32::from_ne_bytes(key) | 1);
    let steering = (0..count).map(|index| Steering { shards: count, index, keys });
    let steering: Vec<Steering> = steering.collect();
    let (queues, place) = open_device(&**program, setup, &steering)?;
    let seed = random_seed()?;
    let no_exchange = |error: std::io::Error| OpenError::Device(format!("cannot connect shards: {error}"));
    let (exchange, arrived) = Exchange::new(count).map_err(no_exchange)?;
    let exchange = Arc::new(exchange);
    let shards = steering.into_iter().zip(queues).zip(arrived);
    let endpoints = shards.map(|((steering, queue), arrived)| {
        let mut config = place.config(setup, queue.caps().mtu, seed);
        config.steering = steering;
        // All shards together hold as much as a single stack would.
        config.limits.tx_total /= u64::from(count);
        config.limits.rx_total /= u64::from(count);
        let device =
            ShardDevice::new(queue, steering, exchange.clone(), arrived.packets).map_err(no_exchange)?;
        let mut endpoint = Endpoint::new(program.clone(), config, Box::new(device))?;
        endpoint.exchange = Some((exchange.clone(), arrived.events));
        endpoint.claims = place.claims.clone();
        Ok(endpoint)
    });
    endpoints.collect()
}

/// Returns an unpredictable seed, from which sequence numbers and hash keys are derived.
fn random_seed() -> Result<[u8; 32], OpenError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(|error| OpenError::Device(format!("the system provides no random numbers: {error}")))?;
    Ok(seed)
}

/// The location of stacks on a device.
struct StackLocation {
    addresses: Vec<(IpAddr, u8)>,
    /// The only port of the stacks, if they have just one.
    port: Option<u16>,
    /// The claims to the addresses.
    claims: Arc<Vec<Claim>>,
}

impl StackLocation {
    /// Returns the configuration of a stack on a device with this MTU.
    fn config(&self, setup: &StackSetup, mtu: u32, seed: [u8; 32]) -> StackConfig {
        let interface = InterfaceConfig {
            addresses: self.addresses.clone(),
            gateways: setup.gateways.clone(),
            mtu,
        };
        let mut config = StackConfig::new(interface, seed);
        // Devices do not merge all packets that they receive.
        config.merge = true;
        if let Some(buffer) = setup.buffer {
            (config.limits.tx_bytes, config.limits.rx_bytes) = (buffer, buffer);
        }
        if let Some(port) = self.port {
            config.ephemeral = port..=port;
        }
        config
    }
}

/// The queues of a device, one for each shard.
type Queues = Vec<Box<dyn Device>>;

fn open_device(
    program: &dyn Program,
    setup: &StackSetup,
    steering: &[Steering],
) -> Result<(Queues, StackLocation), OpenError> {
    let count = steering.len() as u16;
    let mut place = StackLocation {
        addresses: setup.addresses.clone(),
        port: None,
        claims: Arc::new(claims(setup)?),
    };
    let mut queues = match &setup.device {
        DeviceSpec::Tun(name) => {
            let options = TunOptions { offload: setup.offload && setup.faults.is_none() };
            let wires = TunWire::open_queues(name, options, count).map_err(device_error)?;
            configure(wires.first().map(TunWire::name), setup)?;
            boxed(wires, setup)
        }
        DeviceSpec::Packet(name) => {
            let wires = PacketWire::open_shards(name, PacketOptions::default(), steering);
            boxed(wires.map_err(device_error)?, setup)
        }
        DeviceSpec::Xdp(name) => open_xdp(name, setup, None, count)?,
        DeviceSpec::XdpChains(name) => open_xdp(name, setup, Some(program), count)?,
        DeviceSpec::Dpdk(device) => open_dpdk(device, setup, count)?,
        DeviceSpec::Udp(at) => {
            if !is_in_udp(program) {
                return Err(OpenError::NotInUdp);
            }
            let wires = UdpWire::open_shards(*at, steering).map_err(device_error)?;
            if let Some(wire) = wires.first() {
                place.addresses = wire.addresses().to_vec();
                place.port = Some(wire.port());
            }
            boxed(wires, setup)
        }
    };
    claim::probe(&mut queues, &setup.addresses)?;
    Ok((queues, place))
}

/// Opens an AF_XDP device; `chains` is the program whose chains run in the kernel.
#[cfg(feature = "xdp")]
fn open_xdp(
    name: &str,
    setup: &StackSetup,
    chains: Option<&dyn Program>,
    count: u16,
) -> Result<Queues, OpenError> {
    if chains.is_some() && count > 1 {
        return Err(OpenError::Device(format!(
            "chains in the kernel serve one stack only: use xdp:{name} instead, or one shard"
        )));
    }
    let options = XdpOptions {
        addresses: setup.addresses.iter().map(|(ip, _)| *ip).collect(),
        answers: chains.is_some(),
        ..XdpOptions::default()
    };
    let mut wires = XdpWire::open_queues(name, &options, count).map_err(device_error)?;
    if let (Some(program), Some(wire)) = (chains, wires.first_mut()) {
        let module = program.module();
        let c = hawser_load::emit_chains(module, hawser_xdp::chains_in_kernel(module))
            .map_err(|error| OpenError::Device(error.to_string()))?;
        let why =
            |error: hawser_xdp::ChainsError| OpenError::Device(format!("{error}; use xdp:{name} instead"));
        wire.run_chains(module, &c).map_err(why)?;
    }
    for wire in &wires {
        crate::log::device_opened(name, &wire.mode());
    }
    Ok(boxed(wires, setup))
}

#[cfg(not(feature = "xdp"))]
fn open_xdp(name: &str, _: &StackSetup, _: Option<&dyn Program>, _: u16) -> Result<Queues, OpenError> {
    Err(OpenError::Device(format!(
        "this build has no AF_XDP: use packet:{name} instead, or build with the feature `xdp` (of the \
         command: `ebpf`), which needs: apt-get install clang libelf-dev zlib1g-dev pkg-config"
    )))
}

#[cfg(feature = "dpdk")]
fn open_dpdk(device: &str, setup: &StackSetup, count: u16) -> Result<Queues, OpenError> {
    let addresses: Vec<IpAddr> = setup.addresses.iter().map(|(ip, _)| *ip).collect();
    let wires = DpdkWire::open_queues(device, &addresses, count).map_err(device_error)?;
    configure(wires.first().and_then(DpdkWire::interface), setup)?;
    Ok(boxed(wires, setup))
}

#[cfg(not(feature = "dpdk"))]
fn open_dpdk(_: &str, _: &StackSetup, _: u16) -> Result<Queues, OpenError> {
    Err(OpenError::Device(
        "this build has no DPDK: build with the feature `dpdk`, which needs: apt-get install libdpdk-dev \
         pkg-config"
            .to_owned(),
    ))
}

/// Returns true if a program accepts UDP datagrams.
fn is_in_udp(program: &dyn Program) -> bool {
    let parsers = &program.module().parsers;
    parsers
        .iter()
        .any(|parser| matches!(parser.source, ParserInput::Udp(_)))
}

/// Returns the host's addresses that a UDP socket at `at` has: `at` itself, or for 0.0.0.0 and `::` all of
/// its family.
///
/// # Errors
/// Returns an error if the kernel does not list them.
pub fn socket_addresses(at: IpAddr) -> Result<Vec<IpAddr>, OpenError> {
    hawser_host::udp::addresses_at(at)
        .map_err(|error| OpenError::Device(format!("cannot list the host's addresses: {error}")))
}

/// Claims the addresses of a stack. The addresses of a UDP socket belong to the kernel.
fn claims(setup: &StackSetup) -> Result<Vec<Claim>, OpenError> {
    match &setup.device {
        DeviceSpec::Udp(_) => Ok(Vec::new()),
        DeviceSpec::Tun(name)
        | DeviceSpec::Packet(name)
        | DeviceSpec::Xdp(name)
        | DeviceSpec::XdpChains(name) => claim::claim(name, &setup.addresses),
        DeviceSpec::Dpdk(device) => claim::claim(interface_of(device).unwrap_or(device), &setup.addresses),
    }
}

/// Returns the interface of this machine that a virtual device of DPDK uses.
fn interface_of(device: &str) -> Option<&str> {
    device
        .split(',')
        .find_map(|argument| argument.strip_prefix("iface="))
}

/// Returns the line rate of a device in bits per second, if it is an interface whose driver reports it.
#[must_use]
pub fn line_rate(device: &DeviceSpec) -> Option<u64> {
    match device {
        DeviceSpec::Packet(name) | DeviceSpec::Xdp(name) | DeviceSpec::XdpChains(name) => {
            hawser_host::Interface::line_rate(name)
        }
        DeviceSpec::Dpdk(device) => interface_of(device).and_then(hawser_host::Interface::line_rate),
        DeviceSpec::Tun(_) | DeviceSpec::Udp(_) => None,
    }
}

fn boxed(wires: Vec<impl Device + 'static>, setup: &StackSetup) -> Queues {
    let wires = wires.into_iter().map(|wire| match &setup.faults {
        None => Box::new(wire) as Box<dyn Device>,
        Some(faults) => faults.before(wire),
    });
    wires.collect()
}

/// Sets the kernel's addresses on a device, if the kernel has a side of it, and brings that side up.
fn configure(name: Option<&str>, setup: &StackSetup) -> Result<(), OpenError> {
    let Some(name) = name.filter(|_| !setup.kernel_addresses.is_empty()) else {
        return Ok(());
    };
    let mut netlink = Netlink::open().map_err(device_error)?;
    for (ip, bits) in &setup.kernel_addresses {
        netlink.add_address(name, *ip, *bits).map_err(device_error)?;
    }
    netlink.bring_up(name).map_err(device_error)
}

fn device_error(error: impl std::fmt::Display) -> OpenError {
    OpenError::Device(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_prefix_length() {
        assert_eq!(
            parse_address("10.9.0.2/24"),
            Ok((IpAddr::from([10, 9, 0, 2]), 24))
        );
        assert!(parse_address("fd09::2/128").is_ok());
        for wrong in [
            "10.9.0.2",
            "10.9.0.2/33",
            "10.9.0/8",
            "x/8",
            "fd09::2/129",
            "10.9.0.2/",
        ] {
            assert_eq!(parse_address(wrong), Err(AddressError(wrong.to_owned())));
        }
    }

    #[test]
    fn a_device_is_of_the_kind_that_its_prefix_names() {
        assert_eq!("tun:a".parse(), Ok(DeviceSpec::Tun("a".into())));
        assert_eq!("packet:eth0".parse(), Ok(DeviceSpec::Packet("eth0".into())));
        assert_eq!("xdp:eth0".parse(), Ok(DeviceSpec::Xdp("eth0".into())));
        let port = "net_tap0,iface=dpdk0";
        assert_eq!(format!("dpdk:{port}").parse(), Ok(DeviceSpec::Dpdk(port.into())));
        for wrong in ["eth0", "tun:", "xdp:", "dpdk:", "tap:x"] {
            let error = DeviceSpecError::Form(wrong.to_owned());
            assert_eq!(wrong.parse::<DeviceSpec>(), Err(error));
        }
        let at = |text: &str| text.parse().expect("an address with a port");
        assert_eq!(
            "udp:0.0.0.0:4433".parse(),
            Ok(DeviceSpec::Udp(at("0.0.0.0:4433")))
        );
        assert_eq!("udp:[::1]:0".parse(), Ok(DeviceSpec::Udp(at("[::1]:0"))));
        for wrong in ["", "4433", "0.0.0.0", "localhost:4433"] {
            let error = DeviceSpecError::Socket(wrong.to_owned());
            assert_eq!(format!("udp:{wrong}").parse::<DeviceSpec>(), Err(error));
        }
        for name in ["a/b", "a b", "sixteen-bytes-16"] {
            let error = DeviceSpecError::Name(name.to_owned());
            assert_eq!(format!("tun:{name}").parse::<DeviceSpec>(), Err(error));
        }
    }
}
