//! The stack's end as a port of DPDK.

use std::io;
use std::time::Duration;

use hawser_dpdk::DpdkWire;

use super::WireEnd;
use crate::script::run::real::{DeviceError, NAME};

pub(super) fn open() -> Result<Box<dyn WireEnd>, DeviceError> {
    let wire = DpdkWire::open(&format!("net_af_packet0,iface={NAME}"))?;
    Ok(Box::new(wire))
}

impl WireEnd for DpdkWire {
    fn mac(&self) -> [u8; 6] {
        DpdkWire::mac(self)
    }

    fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        DpdkWire::wait(self, limit)
    }
}
