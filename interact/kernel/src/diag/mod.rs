//! Flows and their state, from the kernel itself by INET_DIAG: no eBPF, no privilege, no change to a flow.
//!
//! A [`Diagnostics`] sees the network namespace in which it was opened. Looking one flow up costs one
//! exchange with the kernel, whatever the number of flows; the first look for a cookie that is not known
//! lists all.

mod state;
mod wire;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};
use rustix::net::{recv, sendto, socket_with};

pub use state::State;

use crate::KernelError;
use wire::Ask;
pub(crate) use wire::{Part, parts};

/// The most flows whose addresses are remembered.
const REMEMBERED: usize = 65_536;
/// The kernel sends at most this much at a time (NLMSG_GOODSIZE, and what a dump may take).
const ANSWER: usize = 32 * 1024;

/// A TCP connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its socket's cookie: what it is called in [`crate::Record`] and everywhere else here.
    pub cookie: u64,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The congestion control that runs it.
    pub congestion_control: String,
    /// How it stands.
    pub state: State,
}

/// A line to the kernel's INET_DIAG.
#[derive(Debug)]
pub struct Diagnostics {
    socket: OwnedFd,
    /// Which addresses a cookie belongs to.
    known: HashMap<u64, (SocketAddr, SocketAddr)>,
    answer: Vec<u8>,
}

impl Diagnostics {
    /// Opens one, in the calling thread's network namespace.
    ///
    /// # Errors
    /// When the kernel has no INET_DIAG, or the process may not open sockets.
    pub fn open() -> Result<Self, KernelError> {
        let protocol = Some(netlink::SOCK_DIAG);
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol);
        let socket = socket.map_err(|error| KernelError::system("open INET_DIAG", error))?;
        Ok(Self { socket, known: HashMap::new(), answer: vec![0; ANSWER] })
    }

    /// All connections, of both address families, but those that listen or wait in TIME-WAIT.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn flows(&mut self) -> Result<Vec<Flow>, KernelError> {
        let mut flows = Vec::new();
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            self.ask(&Ask::all(family), |flow| flows.push(flow))?;
        }
        self.known.clear();
        let known = flows.iter().map(|flow| (flow.cookie, (flow.local, flow.remote)));
        self.known.extend(known.take(REMEMBERED));
        Ok(flows)
    }

    /// How a flow stands.
    ///
    /// # Errors
    /// [`KernelError::NoFlow`] when there is none of this cookie here.
    pub fn probe(&mut self, cookie: u64) -> Result<Flow, KernelError> {
        if let Some(&(local, remote)) = self.known.get(&cookie) {
            let found = self.find(local, remote)?.filter(|flow| flow.cookie == cookie);
            if found.is_none() {
                self.known.remove(&cookie);
            }
            return found.ok_or(KernelError::NoFlow(cookie));
        }
        self.flows()?.into_iter().find(|flow| flow.cookie == cookie).ok_or(KernelError::NoFlow(cookie))
    }

    /// What the kernel says of all connections, as it came.
    #[cfg(test)]
    pub(crate) fn heard(&mut self) -> Result<Vec<Vec<u8>>, KernelError> {
        let mut heard = Vec::new();
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            self.hear(&Ask::all(family), |answer| heard.push(answer.to_vec()), |_| {})?;
        }
        Ok(heard)
    }

    /// The connection between two addresses.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn find(&mut self, local: SocketAddr, remote: SocketAddr) -> Result<Option<Flow>, KernelError> {
        let mut found = None;
        self.ask(&Ask::one(local, remote), |flow| found = Some(flow))?;
        Ok(found)
    }

    fn ask(&mut self, ask: &Ask, each: impl FnMut(Flow)) -> Result<(), KernelError> {
        self.hear(ask, |_| {}, each)
    }

    fn hear(
        &mut self,
        ask: &Ask,
        mut answer: impl FnMut(&[u8]),
        mut each: impl FnMut(Flow),
    ) -> Result<(), KernelError> {
        let failed = |error| KernelError::system("ask INET_DIAG", error);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, ask.bytes(), SendFlags::empty(), &kernel).map_err(failed)?;
        loop {
            let (length, _) = recv(&self.socket, &mut self.answer[..], RecvFlags::empty()).map_err(failed)?;
            let heard = self.answer.get(..length).unwrap_or_default();
            answer(heard);
            for part in parts(heard) {
                match part {
                    Part::Flow(flow) => each(*flow),
                    Part::End => return Ok(()),
                    Part::Error(error) if error == rustix::io::Errno::NOENT => return Ok(()),
                    Part::Error(error) => return Err(failed(error)),
                }
            }
            if !ask.is_dump() {
                return Ok(());
            }
        }
    }
}
