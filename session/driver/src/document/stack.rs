//! Transport programs on devices of this machine, for connections over transports written in MTP.

use std::net::SocketAddr;
use std::path::Path;

use hawser_carriers::mtp::{MtpStack, SOCKETS};
use hawser_sockets::host::{self, DeviceSpec, StackSetup};
use hawser_sockets::{Endpoint, Network, OpenError};

use hawser_load::programs::{self, Engine};
use hawser_socket::process_bus;

/// A transport program on a device. Connections named `mtp-` and the program's name use it.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The program: a built-in name, or a file (`.mtp`, `.so`).
    pub program: String,
    /// The program's parameters, as in `MIN_RTO=200ms`.
    pub params: Vec<String>,
    /// The engine that runs it. If `None`, machine code if available, otherwise the interpreter.
    pub engine: Option<Engine>,
    /// The device, and the stack's addresses there.
    pub setup: StackSetup,
}

/// A stack could not be created.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The program cannot be run.
    #[error(transparent)]
    Program(#[from] programs::Error),
    /// The device cannot be opened.
    #[error(transparent)]
    Device(#[from] OpenError),
}

/// A stack could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{transport} on {interface}: {why}")]
pub struct StartError {
    /// The name of its transport.
    pub transport: String,
    /// The name of its interface.
    pub interface: String,
    /// The reason.
    pub why: StackError,
}

impl Stack {
    /// Returns the name of its transport: `mtp-tcp` for the program `tcp`, `mtp-x` for the file `y/x.mtp`.
    #[must_use]
    pub fn transport(&self) -> String {
        format!("mtp-{}", self.name())
    }

    /// Returns the program's name, without folder and extension.
    #[must_use]
    pub fn name(&self) -> &str {
        Path::new(&self.program)
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or(&self.program)
    }

    /// Returns its interface, or the device of a DPDK port.
    #[must_use]
    pub fn interface(&self) -> &str {
        match &self.setup.device {
            DeviceSpec::Tun(name)
            | DeviceSpec::Packet(name)
            | DeviceSpec::Xdp(name)
            | DeviceSpec::XdpChains(name)
            | DeviceSpec::Dpdk(name) => name,
            // The kernel chooses an interface for each peer.
            DeviceSpec::Udp(_) => SOCKETS,
        }
    }

    /// Returns the addresses at which carriers are accepted: each of its own addresses with this port. A UDP
    /// socket has one port, and accepts carriers only there.
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

    /// Opens the device and runs the program on it.
    ///
    /// # Errors
    /// The program does not exist, or the device cannot be opened.
    pub fn open(&self) -> Result<Endpoint, StackError> {
        let rate = host::line_rate(&self.setup.device);
        let program = programs::resolve_on_line(self.engine, &self.program, &self.params, rate)?;
        Ok(host::open(program, &self.setup)?)
    }

    /// Opens it in several shards, as [`host::open_shards`] describes.
    ///
    /// # Errors
    /// As [`Stack::open`], or if the program or the device supports only one shard.
    pub fn open_shards(&self, count: u16) -> Result<Vec<Endpoint>, StackError> {
        let rate = host::line_rate(&self.setup.device);
        let program = programs::resolve_on_line(self.engine, &self.program, &self.params, rate)?;
        Ok(host::open_shards(&program, &self.setup, count)?)
    }

    /// Opens it for carriers, driven by a task of the current runtime.
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
