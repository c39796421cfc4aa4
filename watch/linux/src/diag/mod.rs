//! Flows and their state, from the kernel itself by INET_DIAG: no eBPF, no privilege, no change to a flow.
//!
//! A flow is identified by its socket's cookie and the interface that the socket is bound to, if any. Two
//! flows may have the same addresses and ports on two interfaces, and the kernel finds a bound socket by its
//! interface only.
//!
//! A [`Diagnostics`] sees the network namespace in which it was opened, or all namespaces. A look-up of one
//! flow costs one exchange with the kernel, whatever the number of flows. The first query for an unknown
//! cookie lists all flows.
//!
//! * `namespaces`: the network namespaces, and a netlink socket in each
//! * `owners`: the processes that own sockets
//! * `wire`, `state`: requests and replies

mod namespaces;
mod owners;
mod state;
mod wire;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use hawser_host::netlink::{Message, NetlinkSocket, Request};
use rustix::net::AddressFamily;

pub use namespaces::own_namespace;
pub use owners::{Owners, Process};
pub use state::FlowState;

use crate::KernelError;
use namespaces::Lines;
#[cfg(test)]
pub(crate) use wire::SOCK_DIAG_BY_FAMILY;
pub(crate) use wire::flow;

/// The maximum number of flows whose addresses are remembered.
const REMEMBERED: usize = 65_536;

/// A TCP connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpFlow {
    /// Its socket's cookie, which also identifies it in [`crate::EventRecord`] and everywhere else in this
    /// crate.
    pub cookie: u64,
    /// The interface that its socket is bound to (SO_BINDTODEVICE, a VRF, the link of link-local addresses);
    /// 0 if none.
    pub interface: u32,
    /// The local address.
    pub local: SocketAddr,
    /// The remote address.
    pub remote: SocketAddr,
    /// The name of its congestion control.
    pub congestion_control: String,
    /// The inode number of its network namespace, as `readlink /proc/PID/ns/net` prints it.
    pub namespace: u64,
    /// The inode number of its socket, 0 until the connection is accepted. [`Owners::find`] finds the process
    /// that owns it.
    pub inode: u32,
    /// The number of the control group (cgroup2) in which its socket was created; 0 if the kernel has none.
    pub cgroup: u64,
    /// The state variables.
    pub state: FlowState,
}

/// Netlink sockets to the kernel's INET_DIAG.
#[derive(Debug)]
pub struct Diagnostics {
    lines: Lines,
    /// Flows by their cookies, from the latest listing.
    known: HashMap<u64, Identity>,
}

/// The key by which the kernel finds a flow.
#[derive(Clone, Copy, Debug)]
struct Identity {
    namespace: u64,
    local: SocketAddr,
    remote: SocketAddr,
    interface: u32,
    cookie: u64,
}

impl From<&TcpFlow> for Identity {
    fn from(flow: &TcpFlow) -> Identity {
        Identity {
            namespace: flow.namespace,
            local: flow.local,
            remote: flow.remote,
            interface: flow.interface,
            cookie: flow.cookie,
        }
    }
}

/// INET_DIAG in one network namespace.
#[derive(Debug)]
struct DiagSocket {
    namespace: u64,
    socket: NetlinkSocket,
}

impl DiagSocket {
    /// Opens a socket in the calling thread's namespace.
    fn open(namespace: u64) -> Result<DiagSocket, KernelError> {
        let socket = NetlinkSocket::open(wire::PROTOCOL)
            .map_err(|error| KernelError::system("open INET_DIAG", error))?;
        Ok(DiagSocket { namespace, socket })
    }

    /// Passes the flows that answer a request to `each`. An empty answer is not an error.
    fn ask(&mut self, request: Request, mut each: impl FnMut(TcpFlow)) -> Result<(), KernelError> {
        let namespace = self.namespace;
        self.exchange(request, |message| {
            if let Some(flow) = flow(message) {
                each(TcpFlow { namespace, ..flow });
            }
        })
    }

    fn exchange(&mut self, request: Request, each: impl FnMut(Message<'_>)) -> Result<(), KernelError> {
        match self.socket.exchange(request, each) {
            // The socket is gone, or another has its addresses now.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::StaleNetworkFileHandle
                ) =>
            {
                Ok(())
            }
            other => other.map_err(|error| KernelError::system("ask INET_DIAG", error)),
        }
    }
}

impl Diagnostics {
    /// Opens INET_DIAG in the calling thread's network namespace.
    ///
    /// # Errors
    /// When the kernel has no INET_DIAG, or the process may not open sockets.
    pub fn open() -> Result<Self, KernelError> {
        let line = DiagSocket::open(own_namespace().unwrap_or_default())?;
        Ok(Self { lines: Lines::own(line), known: HashMap::new() })
    }

    /// Opens INET_DIAG in every network namespace that a process is in or that has a name in `/run/netns`,
    /// 256 at most. [`Diagnostics::flows`] finds namespaces that are added later. Entering another namespace
    /// takes CAP_SYS_ADMIN; namespaces that may not be entered are left out.
    ///
    /// # Errors
    /// As [`Diagnostics::open`].
    pub fn open_all() -> Result<Self, KernelError> {
        let mut all = Self::open()?;
        all.lines.follow();
        Ok(all)
    }

    /// Returns all connections of both address families, except listening sockets and those in TIME-WAIT.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn flows(&mut self) -> Result<Vec<TcpFlow>, KernelError> {
        let mut flows = Vec::new();
        self.lines.refresh();
        for line in self.lines.all_mut() {
            for family in [AddressFamily::INET, AddressFamily::INET6] {
                line.ask(wire::all(family), |flow| flows.push(flow))?;
            }
        }
        self.known.clear();
        let known = flows.iter().map(|flow| (flow.cookie, Identity::from(flow)));
        self.known.extend(known.take(REMEMBERED));
        Ok(flows)
    }

    /// Returns a flow with its present state.
    ///
    /// # Errors
    /// [`KernelError::NoFlow`] when there is no flow with this cookie here.
    pub fn probe(&mut self, cookie: u64) -> Result<TcpFlow, KernelError> {
        if let Some(identity) = self.known.get(&cookie).copied() {
            if let Some(flow) = self.find_by(&identity)? {
                return Ok(flow);
            }
            // The flow has ended, or its socket was bound to an interface in the meantime.
            self.known.remove(&cookie);
        }
        self.flows()?
            .into_iter()
            .find(|flow| flow.cookie == cookie)
            .ok_or(KernelError::NoFlow(cookie))
    }

    /// Returns the messages that describe all connections, as received.
    #[cfg(test)]
    pub(crate) fn messages(&mut self) -> Result<Vec<Vec<u8>>, KernelError> {
        let mut all = Vec::new();
        for line in self.lines.all_mut() {
            for family in [AddressFamily::INET, AddressFamily::INET6] {
                line.exchange(wire::all(family), |message| all.push(message.body.to_vec()))?;
            }
        }
        Ok(all)
    }

    /// Finds the connection between two addresses, in the namespace in which this was opened. It may be bound
    /// to an interface.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn find(&mut self, local: SocketAddr, remote: SocketAddr) -> Result<Option<TcpFlow>, KernelError> {
        let namespace = self.lines.first().namespace;
        let is_it = |flow: &TcpFlow| (flow.namespace, flow.local, flow.remote) == (namespace, local, remote);
        Ok(self.flows()?.into_iter().find(is_it))
    }

    fn find_by(&mut self, identity: &Identity) -> Result<Option<TcpFlow>, KernelError> {
        let mut lines = self.lines.all_mut();
        let Some(line) = lines.find(|line| line.namespace == identity.namespace) else {
            return Ok(None);
        };
        let mut found = None;
        line.ask(wire::one(identity), |flow| found = Some(flow))?;
        Ok(found)
    }
}
