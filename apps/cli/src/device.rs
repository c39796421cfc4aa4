//! The options of the device on which a transport program runs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::ArgGroup;
use hawser::host::{self, DeviceSpec, Faults, StackSetup};
use hawser::lab::units::DataSize;
use hawser::programs::Engine;
use hawser::session::OpenError;
use hawser::session::document::{Stack, StackError, StartError};
use hawser::{Endpoint, Network};

use crate::engine::{EngineArgs, refused};
use crate::exit::Exit;
use crate::interact::InteractArgs;
use crate::trace_file::TraceArgs;

/// The device options of a command that needs a device.
#[derive(clap::Args, Clone)]
#[command(group = ArgGroup::new("device").arg("dev").required(true))]
pub(crate) struct DeviceArgs {
    #[command(flatten)]
    stack: StackArgs,
    #[command(flatten)]
    routers: RouterArgs,
    #[command(flatten)]
    interact: InteractArgs,
    #[command(flatten)]
    trace: TraceArgs,
}

/// The options of the device and the program, for commands that may run without them.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "Device")]
pub(crate) struct StackArgs {
    /// The network device: `tun:NAME` (created when it does not exist), `packet:NAME` (an existing Ethernet
    /// interface), `xdp:NAME` (the same by AF_XDP, as root), `xdp-chains:NAME` (its chains in the kernel while it sleeps), `dpdk:DEVICE` (a port of DPDK: `dpdk:net_tap0,iface=NAME`, `dpdk:0000:03:00.0`); for a program in UDP also `udp:ADDRESS:PORT` (a socket of this host, without privileges)
    #[arg(long, value_name = "DEVICE")]
    dev: Option<DeviceSpec>,
    /// An address of the stack with its prefix length, which the kernel must not have: 10.0.0.2/24
    /// (repeatable)
    #[arg(long = "addr", value_name = "ADDR/LEN", value_parser = host::parse_address, requires = "dev")]
    addresses: Vec<(IpAddr, u8)>,
    /// An address that a new TUN device, or DPDK's net_tap, gets on the kernel's side: 10.0.0.1/24 (repeatable)
    #[arg(long = "kernel-addr", requires = "dev", value_name = "ADDR/LEN", value_parser = host::parse_address)]
    kernel_addresses: Vec<(IpAddr, u8)>,
    /// The transport program: the name of a built-in one, a source file (.mtp), or a built library (.so)
    #[arg(
        long,
        default_value = "tcp",
        value_name = "NAME|FILE",
        help_heading = "Program"
    )]
    program: String,
    /// Set a param of the program: MIN_RTO=200ms (repeatable)
    #[arg(
        long = "param",
        value_name = "NAME=VALUE",
        requires = "dev",
        help_heading = "Program"
    )]
    params: Vec<String>,
    /// Inject faults into packets in both directions, with the keys of a link in docs/scenarios.md:
    /// loss=1%,reorder=1%,hold=1ms
    #[arg(long, value_name = "RULES", requires = "dev")]
    faults: Option<Faults>,
    /// Disable segmentation and checksum offload of a TUN device, so that captures show the packets of the
    /// link
    #[arg(long)]
    no_offload: bool,
    /// The seed of the injected faults
    #[arg(long, default_value_t = 1)]
    fault_seed: u64,
    /// The buffer size of a connection, for sending and for receiving, at least 128KiB: 64MiB (default: 4 MiB and 8 MiB)
    #[arg(long, value_name = "BYTES", requires = "dev", value_parser = parse_buffer)]
    buffer: Option<DataSize>,
    #[command(flatten)]
    engine: EngineArgs,
}

/// The minimum buffer of a connection that a stack accepts, in bytes: room for several packets of the maximum
/// size.
const BUFFER_MIN: u64 = 128 * 1024;

fn parse_buffer(text: &str) -> Result<DataSize, String> {
    let buffer: DataSize = text.parse().map_err(|error| format!("{error}"))?;
    match buffer.0 < BUFFER_MIN {
        true => Err(format!("a connection needs at least {} KiB", BUFFER_MIN / 1024)),
        false => Ok(buffer),
    }
}

/// The routers of a stack.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "Device")]
pub(crate) struct RouterArgs {
    /// The router for destinations outside the subnets of the stack (repeatable)
    #[arg(long = "router", value_name = "ADDR", requires = "dev")]
    pub(crate) routers: Vec<IpAddr>,
}

impl DeviceArgs {
    /// Returns the stack's first address of the same family as `like`, or its first address if `like` is
    /// `None`.
    pub(crate) fn address(&self, like: Option<IpAddr>) -> Option<IpAddr> {
        if let (Some(at), Some(IpAddr::V4(_))) = (self.socket(), like)
            && at.ip().is_unspecified()
        {
            return Some(Ipv4Addr::UNSPECIFIED.into());
        }
        let same = |own: &IpAddr| like.is_none_or(|like| like.is_ipv4() == own.is_ipv4());
        self.addresses().find(same)
    }

    /// Refuses a server at an address of the stack: the device does not return the stack's own packets to it.
    pub(crate) fn refuse_own(&self, server: IpAddr) -> Result<(), Exit> {
        match self.stack.addresses.iter().any(|own| own.0 == server) {
            true => Err(Exit::usage(format!(
                "{server} is the address of this stack itself (--addr), which it cannot reach through its device: \
                 call a server at another address, or give this stack another --addr"
            ))),
            false => Ok(()),
        }
    }

    /// Returns the engine that runs the program.
    pub(crate) fn engine(&self) -> Engine {
        self.stack.engine.for_program(&self.stack.program)
    }

    /// Returns all addresses of the stack. A stack on a UDP socket has the address to which the socket is
    /// bound.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let socket = self.socket().map(|at| at.ip());
        socket
            .into_iter()
            .chain(self.stack.addresses.iter().map(|address| address.0))
    }

    /// Returns the addresses by which clients may name the stack.
    pub(crate) fn reached_at(&self) -> Result<Vec<IpAddr>, Exit> {
        match self.socket() {
            Some(at) => host::socket_addresses(at.ip()).map_err(Exit::environment),
            None => Ok(self.addresses().collect()),
        }
    }

    /// Returns the port of a server: the given one, the UDP socket's, which admits no other, or `usual`.
    pub(crate) fn port(&self, given: Option<u16>, usual: u16) -> Result<u16, Exit> {
        match (self.socket(), given) {
            (None, given) => Ok(given.unwrap_or(usual)),
            (Some(at), _) if at.port() == 0 => Err(without_port(at, usual)),
            (Some(at), Some(given)) if given != at.port() => Err(Exit::usage(format!(
                "--dev udp:{at} uses its own port alone, so --port {given} cannot be used"
            ))),
            (Some(at), _) => Ok(at.port()),
        }
    }

    /// The UDP socket on which the stack runs, if any.
    fn socket(&self) -> Option<SocketAddr> {
        match self.stack.dev {
            Some(DeviceSpec::Udp(at)) => Some(at),
            _ => None,
        }
    }

    pub(crate) fn program(&self) -> &str {
        &self.stack.program
    }

    /// Opens the device and puts the program on it. The command itself polls the endpoint.
    pub(crate) fn endpoint(&self) -> Result<Endpoint, Exit> {
        let mut endpoint = self.described()?.open().map_err(unusable)?;
        if let Some(show) = self.trace.open()? {
            let own = self.addresses().next();
            let host = own.map_or_else(String::new, |own| own.to_string());
            hawser::trace::observe_endpoint(&mut endpoint, &host, show).map_err(Exit::input)?;
        }
        if let Some(bus) = self.interact.bus() {
            endpoint.interact(&bus, None).map_err(Exit::input)?;
            self.interact.listen(&bus)?;
        }
        Ok(endpoint)
    }

    /// Opens the device and puts the program on it. The current runtime drives the network.
    pub(crate) fn start(&self) -> Result<Network, Exit> {
        let endpoint = self.described()?.open().map_err(unusable)?;
        let network = self.drive(endpoint)?;
        self.listen()?;
        Ok(network)
    }

    /// Opens the stacks of `count` shards. [`DeviceArgs::drive`] drives each in a thread of its own. When all
    /// are driven, [`DeviceArgs::listen`] makes them visible to other processes.
    pub(crate) fn shards(&self, count: u16) -> Result<Vec<Endpoint>, Exit> {
        if count > 1 && self.trace.is_wanted() {
            return Err(Exit::usage("--trace records a single shard: leave out --shards"));
        }
        self.described()?.open_shards(count).map_err(unusable)
    }

    /// Opens the socket for other processes, if one was requested. By now the running stacks are on the bus.
    pub(crate) fn listen(&self) -> Result<(), Exit> {
        self.interact.start()
    }

    /// Lets the current runtime drive a stack.
    pub(crate) fn drive(&self, endpoint: Endpoint) -> Result<Network, Exit> {
        let network = Network::start(endpoint).map_err(Exit::environment)?;
        if let Some(show) = self.trace.open()? {
            let host = self
                .addresses()
                .next()
                .map_or_else(String::new, |own| own.to_string());
            hawser::trace::observe(&network, &host, show).map_err(Exit::input)?;
        }
        if let Some(bus) = self.interact.bus() {
            network.interact(&bus).map_err(Exit::input)?;
        }
        Ok(network)
    }

    fn described(&self) -> Result<Stack, Exit> {
        let stack = self.stack.described(&self.routers.routers)?;
        stack.ok_or_else(|| Exit::usage("the command needs --dev"))
    }
}

/// Maps an error that prevented a stack from starting to an exit.
pub(crate) fn unusable(error: StackError) -> Exit {
    match error {
        StackError::Program(error) => refused(&error),
        StackError::Device(error) => Exit::environment(error),
    }
}

/// The usage error of a server on a UDP socket whose port is 0.
pub(crate) fn without_port(at: SocketAddr, usual: u16) -> Exit {
    Exit::usage(format!(
        "a server needs a port that its clients know: --dev udp:{}, with a port other than 0",
        SocketAddr::new(at.ip(), usual)
    ))
}

/// Maps an error that prevented a session from opening, in its stack or in the network, to an exit.
pub(crate) fn unopened(error: OpenError) -> Exit {
    match error {
        OpenError::Stack(StartError { why, .. }) => unusable(why),
        error => Exit::network(error),
    }
}

impl StackArgs {
    /// Returns the stack that the options describe, or `None` without `--dev`.
    pub(crate) fn described(&self, routers: &[IpAddr]) -> Result<Option<Stack>, Exit> {
        let Some(device) = self.dev.clone() else {
            return Ok(None);
        };
        self.consistent(&device, routers)?;
        let setup = StackSetup {
            device,
            addresses: self.addresses.clone(),
            gateways: routers.to_vec(),
            kernel_addresses: self.kernel_addresses.clone(),
            offload: !self.no_offload,
            faults: self
                .faults
                .clone()
                .map(|faults| faults.with_seed(self.fault_seed)),
            buffer: self.buffer.map(|bytes| bytes.0),
        };
        let (program, params, engine) = (self.program.clone(), self.params.clone(), self.engine.engine);
        Ok(Some(Stack { program, params, engine, setup }))
    }

    /// Refuses combinations of options that are valid only separately.
    fn consistent(&self, device: &DeviceSpec, routers: &[IpAddr]) -> Result<(), Exit> {
        match device {
            DeviceSpec::Udp(at) => {
                let given = [
                    ("--addr", !self.addresses.is_empty()),
                    ("--kernel-addr", !self.kernel_addresses.is_empty()),
                    ("--router", !routers.is_empty()),
                ];
                if let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given) {
                    return Err(Exit::usage(format!(
                        "{option} needs a stack with addresses of its own; a stack on udp:{at} has the addresses and routes \
                         of this host"
                    )));
                }
            }
            DeviceSpec::Tun(name)
            | DeviceSpec::Packet(name)
            | DeviceSpec::Xdp(name)
            | DeviceSpec::XdpChains(name)
            | DeviceSpec::Dpdk(name)
                if self.addresses.is_empty() =>
            {
                return Err(Exit::usage(format!(
                    "a stack on {name} needs an address that the kernel does not use: --addr ADDR/LEN"
                )));
            }
            DeviceSpec::Tun(_)
            | DeviceSpec::Packet(_)
            | DeviceSpec::Xdp(_)
            | DeviceSpec::XdpChains(_)
            | DeviceSpec::Dpdk(_) => {}
        }
        let there_before = match device {
            DeviceSpec::Packet(name) | DeviceSpec::Xdp(name) | DeviceSpec::XdpChains(name) => Some(name),
            DeviceSpec::Dpdk(port) if !port.starts_with("net_tap") => Some(port),
            DeviceSpec::Dpdk(_) | DeviceSpec::Tun(_) | DeviceSpec::Udp(_) => None,
        };
        if let Some(name) = there_before.filter(|_| !self.kernel_addresses.is_empty()) {
            return Err(Exit::usage(format!(
                "--kernel-addr is for a device that is made, by TUN or by DPDK's net_tap; the kernel's addresses on another \
                 one are set with `ip address add`, and `{name}` is such a one"
            )));
        }
        let taken = |own: &&(IpAddr, u8)| self.kernel_addresses.iter().any(|kernel| kernel.0 == own.0);
        if let Some((address, _)) = self.addresses.iter().find(taken) {
            return Err(Exit::usage(format!(
                "{address} is both --addr and --kernel-addr: the stack and the kernel are two hosts"
            )));
        }
        let twice = |at: usize| {
            self.addresses[..at]
                .iter()
                .any(|other| other.0 == self.addresses[at].0)
        };
        match (0..self.addresses.len()).find(|at| twice(*at)) {
            Some(at) => Err(Exit::usage(format!(
                "--addr {} is given twice",
                self.addresses[at].0
            ))),
            None => Ok(()),
        }
    }
}

/// Builds a runtime with one thread, which the stack, the streams and HTTP share.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Exit> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Exit::environment)
}

/// Returns the absolute path of a directory, which must exist.
pub(crate) fn directory(path: &Path) -> Result<PathBuf, Exit> {
    match path.canonicalize() {
        Ok(full) if full.is_dir() => Ok(full),
        Ok(_) => Err(Exit::input(format!("{} is not a directory", path.display()))),
        Err(error) => Err(Exit::input(format!("cannot open {}: {error}", path.display()))),
    }
}
