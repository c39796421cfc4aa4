//! SCTP stacks of a program.

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::SctpError;
use crate::process::Process;
use crate::udp;

/// The stack of all connections that need no port of their own.
static SHARED: Mutex<Option<Stack>> = Mutex::new(None);

/// An SCTP stack: usrsctp in UDP (RFC 6951), with its port, in a process of its own. It ends with the last
/// value that uses it.
#[derive(Clone)]
pub struct Stack {
    pub(crate) process: Arc<Process>,
}

impl Stack {
    /// A stack with this UDP port at all addresses; without a port the one that the program has for its
    /// connections, which is begun now if it was not. A stack belongs to the network namespace of the
    /// thread that begins it, and knows the addresses that the machine has then.
    ///
    /// # Errors
    /// The library is absent, the port is taken, or the process does not begin.
    pub fn open(udp_port: Option<u16>) -> Result<Self, SctpError> {
        if let Some(port) = udp_port.filter(|port| *port != 0) {
            return Self::bind(&[], port);
        }
        let mut shared = SHARED.lock();
        match &*shared {
            Some(stack) => Ok(stack.clone()),
            None => Ok(shared.insert(Self::bind(&[], 0)?).clone()),
        }
    }

    /// A stack with this UDP port, or with any if it is 0, at these addresses alone: packets to others are
    /// not received.
    ///
    /// # Errors
    /// Those of [`Stack::open`].
    pub fn bind(addresses: &[IpAddr], udp_port: u16) -> Result<Self, SctpError> {
        let (sockets, udp_port) = udp::open(addresses, udp_port)?;
        let process = Process::start(sockets, udp_port)?;
        Ok(Self { process })
    }

    /// The UDP port that carries SCTP.
    #[must_use]
    pub fn udp_port(&self) -> u16 {
        self.process.udp_port
    }
}
