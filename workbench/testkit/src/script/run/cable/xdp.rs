//! The stack's end by AF_XDP, with the program's chains in the kernel.

use std::io;
use std::time::Duration;

use hawser_engine::program::Program;
use hawser_xdp::{XdpOptions, XdpWire};

use super::WireEnd;
use crate::script::run::config::Config;
use crate::script::run::real::{DeviceError, NAME};

pub(super) fn open(config: &Config, program: &dyn Program) -> Result<Box<dyn WireEnd>, DeviceError> {
    let options = XdpOptions { addresses: vec![config.local], answers: true, ..XdpOptions::default() };
    let mut wire = XdpWire::open(NAME, &options)?;
    // Chains do not run on frames that span several buffers.
    if !wire.mode().is_in_pieces {
        let module = program.module();
        let c = hawser_load::emit_chains(module, hawser_xdp::chains_in_kernel(module))
            .map_err(|error| DeviceError::Emit(error.to_string()))?;
        wire.run_chains(module, &c)?;
    }
    Ok(Box::new(wire))
}

impl WireEnd for XdpWire {
    fn mac(&self) -> [u8; 6] {
        XdpWire::mac(self)
    }

    fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        XdpWire::wait(self, limit)
    }

    fn handled(&self) -> u64 {
        XdpWire::handled(self).0
    }
}
