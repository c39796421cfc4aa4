//! Transport programs on devices of this machine, for connections over transports written in MTP.

use std::net::SocketAddr;
use std::path::Path;

use hawser_carrier_mtp::{MtpStack, SOCKETS};
use hawser_net::host::{self, DeviceSpec, Setup};
use hawser_net::{Endpoint, Network, OpenError};

use hawser_load::programs::{self, Engine};
use hawser_socket::process_bus;

/// A transport program on a device, which connections of `mtp-` and its name use.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The program: a built-in name, or a file (`.mtp`, `.so`).
    pub program: String,
    /// Its params, as in `MIN_RTO=200ms`.
    pub params: Vec<String>,
    /// What runs it; none: machine code where there is some, else the interpreter.
    pub engine: Option<Engine>,
    /// The device, and the addresses that the stack has there.
    pub setup: Setup,
}

/// Why a stack cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The program cannot be run.
    #[error(transparent)]
    Program(#[from] programs::Error),
    /// The device cannot be opened.
    #[error(transparent)]
    Device(#[from] OpenError),
}

/// Which stack cannot be started, and why.
#[derive(Debug, thiserror::Error)]
#[error("{transport} on {interface}: {why}")]
pub struct StartError {
    /// Its transport.
    pub transport: String,
    /// Its interface.
    pub interface: String,
    /// The reason for which there is no stack.
    pub why: StackError,
}

impl Stack {
    /// The name of its transport: `mtp-tcp` for the program `tcp`, `mtp-x` for the file `y/x.mtp`.
    #[must_use]
    pub fn transport(&self) -> String {
        format!("mtp-{}", self.name())
    }

    /// The name of the program, without folder and ending.
    #[must_use]
    pub fn name(&self) -> &str {
        Path::new(&self.program)
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or(&self.program)
    }

    /// The interface that it is on, or what a port of DPDK is on.
    #[must_use]
    pub fn interface(&self) -> &str {
        match &self.setup.device {
            DeviceSpec::Tun(name)
            | DeviceSpec::Packet(name)
            | DeviceSpec::Xdp(name)
            | DeviceSpec::XdpChains(name)
            | DeviceSpec::Dpdk(name) => name,
            // The kernel chooses one for each peer.
            DeviceSpec::Udp(_) => SOCKETS,
        }
    }

    /// Where carriers are accepted: at each of its addresses on this port; at a UDP socket, which has one port, there.
    #[must_use]
    pub fn listens_at(&self, port: u16) -> Vec<SocketAddr> {
        if let DeviceSpec::Udp(at) = self.setup.device {
            return vec![at];
        }
        let addresses = self.setup.addresses.iter();
        addresses
            .map(|(address, _)| SocketAddr::new(*address, port))
            .collect()
    }

    /// Opens the device and puts the program on it.
    ///
    /// # Errors
    /// There is no such program, or the device cannot be opened.
    pub fn open(&self) -> Result<Endpoint, StackError> {
        let rate = host::line_rate(&self.setup.device);
        let program = programs::resolve_on_line(self.engine, &self.program, &self.params, rate)?;
        Ok(host::open(program, &self.setup)?)
    }

    /// The same in several shards: see [`host::open_shards`].
    ///
    /// # Errors
    /// As [`Stack::open`], and where the program or the device has one shard alone.
    pub fn open_shards(&self, count: u16) -> Result<Vec<Endpoint>, StackError> {
        let rate = host::line_rate(&self.setup.device);
        let program = programs::resolve_on_line(self.engine, &self.program, &self.params, rate)?;
        Ok(host::open_shards(&program, &self.setup, count)?)
    }

    /// The same, driven by a task of the current runtime, for carriers.
    ///
    /// # Errors
    /// As [`Stack::open`].
    pub fn start(&self) -> Result<MtpStack, StartError> {
        let named = |why: StackError| {
            let (transport, interface) = (self.transport(), self.interface().to_owned());
            StartError { transport, interface, why }
        };
        let device = |why: String| named(StackError::Device(OpenError::Device(why)));
        let endpoint = self.open().map_err(named)?;
        let network = Network::start(endpoint).map_err(|error| device(error.to_string()))?;
        if let Some(bus) = process_bus() {
            network
                .interact(&bus)
                .map_err(|error| device(error.to_string()))?;
        }
        Ok(MtpStack::new(network, self.name(), self.interface()))
    }
}
