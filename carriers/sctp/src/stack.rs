//! SCTP stacks of a program.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::error::{FILE, SctpError};
use crate::process::Process;
use crate::udp;

/// The stack of all connections that need no port of their own.
static SHARED: Mutex<Option<Stack>> = Mutex::new(None);

/// The loader's reason why the library is absent. A process that lacks it looks for it once.
static ABSENT: OnceLock<String> = OnceLock::new();

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

    /// The stack that the program has for its connections, as [`Stack::open`] without a port has it. Its start takes a
    /// thread of its own, in the network namespace of the caller: other tasks of the runtime go on meanwhile.
    ///
    /// # Errors
    /// Those of [`Stack::open`].
    pub async fn shared() -> Result<Self, SctpError> {
        if let Some(stack) = SHARED.try_lock().and_then(|shared| shared.clone()) {
            return Ok(stack);
        }
        let (opened, result) = tokio::sync::oneshot::channel();
        // A caller that is gone wants no stack any more.
        let open = move || drop(opened.send(Self::open(None)));
        std::thread::Builder::new()
            .name("sctp-start".into())
            .spawn(open)?;
        let died = || SctpError::Start("the thread that starts it has ended".into());
        result.await.map_err(|_| died())?
    }

    /// A stack with this UDP port, or with any if it is 0, at these addresses alone: packets to others are
    /// not received.
    ///
    /// # Errors
    /// Those of [`Stack::open`].
    pub fn bind(addresses: &[IpAddr], udp_port: u16) -> Result<Self, SctpError> {
        if let Some(reason) = ABSENT.get().cloned() {
            return Err(SctpError::NoLibrary { library: FILE, reason });
        }
        let (sockets, udp_port) = udp::open(addresses, udp_port)?;
        let process = Process::start(sockets, udp_port).inspect_err(|error| {
            if let SctpError::NoLibrary { reason, .. } = error {
                // Another thread may have found the same.
                let _ = ABSENT.set(reason.clone());
            }
        })?;
        Ok(Self { process })
    }

    /// The UDP port that carries SCTP.
    #[must_use]
    pub fn udp_port(&self) -> u16 {
        self.process.udp_port
    }
}
