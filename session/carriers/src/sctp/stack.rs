//! The SCTP stacks of a program.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::sctp::error::{FILE, SctpError};
use crate::sctp::process::StackProcess;
use crate::sctp::udp;

/// The stack of all connections that need no port of their own.
static SHARED: Mutex<Option<SctpStack>> = Mutex::new(None);

/// The loader's reason why the library is absent. It is looked for only once in a process.
static ABSENT: OnceLock<String> = OnceLock::new();

/// An SCTP stack: usrsctp in UDP (RFC 6951), with its port, in a process of its own. It ends when the last
/// value that uses it is dropped.
#[derive(Clone)]
pub struct SctpStack {
    pub(crate) process: Arc<StackProcess>,
}

impl SctpStack {
    /// Opens a stack with this UDP port at all addresses. Without a port, returns the program's shared stack,
    /// which is started if necessary. A stack belongs to the network namespace of the thread that starts it,
    /// and knows the addresses that the machine has at that time.
    ///
    /// # Errors
    /// The library is absent, the port is in use, or the process does not start.
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

    /// Returns the program's shared stack, like [`SctpStack::open`] without a port. The stack is started in a
    /// thread of its own, in the network namespace of the caller, so that other tasks of the runtime
    /// continue.
    ///
    /// # Errors
    /// Those of [`SctpStack::open`].
    pub async fn shared() -> Result<Self, SctpError> {
        if let Some(stack) = SHARED.try_lock().and_then(|shared| shared.clone()) {
            return Ok(stack);
        }
        let (opened, result) = tokio::sync::oneshot::channel();
        // If the caller is gone, the stack is not needed any more.
        let open = move || drop(opened.send(Self::open(None)));
        std::thread::Builder::new()
            .name("sctp-start".into())
            .spawn(open)?;
        let died = || SctpError::Start("the thread that starts SCTP has ended".into());
        result.await.map_err(|_| died())?
    }

    /// Opens a stack with this UDP port, or with any if it is 0, only at these addresses. Packets to others
    /// are not received.
    ///
    /// # Errors
    /// Those of [`SctpStack::open`].
    pub fn bind(addresses: &[IpAddr], udp_port: u16) -> Result<Self, SctpError> {
        if let Some(reason) = ABSENT.get().cloned() {
            return Err(SctpError::NoLibrary { library: FILE, reason });
        }
        let (sockets, udp_port) = udp::open(addresses, udp_port)?;
        let process = StackProcess::start(sockets, udp_port).inspect_err(|error| {
            if let SctpError::NoLibrary { reason, .. } = error {
                // Another thread may have set it already.
                let _ = ABSENT.set(reason.clone());
            }
        })?;
        Ok(Self { process })
    }

    /// Returns the UDP port that carries SCTP.
    #[must_use]
    pub fn udp_port(&self) -> u16 {
        self.process.udp_port
    }
}
