//! Flows and their state, from the kernel itself by INET_DIAG: no eBPF, no privilege, no change to a flow.
//!
//! A [`Diagnostics`] sees the network namespace in which it was opened, or every one. Looking one flow up costs one
//! exchange with the kernel, whatever the number of flows; the first look for a cookie that is not known
//! lists all.
//!
//! * `namespaces`: the network namespaces that there are, and a line to the kernel in each
//! * `owners`: whose a socket is
//! * `wire`, `state`: what is asked and answered

mod namespaces;
mod owners;
mod state;
mod wire;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};
use rustix::net::{recv, sendto, socket_with};

pub use namespaces::own_namespace;
pub use owners::{Owners, Process};
pub use state::State;

use crate::KernelError;
use namespaces::Lines;
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
    /// The number of its network namespace, as `readlink /proc/PID/ns/net` has it.
    pub namespace: u64,
    /// The number of its socket's file, 0 before somebody has accepted it: [`Owners::of`] knows whose it is.
    pub inode: u32,
    /// The number of the control group (cgroup2) in which its socket was made; 0 where the kernel has none.
    pub cgroup: u64,
    /// How it stands.
    pub state: State,
}

/// Lines to the kernel's INET_DIAG.
#[derive(Debug)]
pub struct Diagnostics {
    lines: Lines,
    /// Which addresses in which namespace a cookie belongs to.
    known: HashMap<u64, (u64, SocketAddr, SocketAddr)>,
    answer: Vec<u8>,
}

/// INET_DIAG in one network namespace.
#[derive(Debug)]
struct Line {
    namespace: u64,
    socket: OwnedFd,
}

impl Line {
    /// In the calling thread's.
    fn open(namespace: u64) -> Result<Line, KernelError> {
        let protocol = Some(netlink::SOCK_DIAG);
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            protocol,
        );
        let socket = socket.map_err(|error| KernelError::system("open INET_DIAG", error))?;
        Ok(Line { namespace, socket })
    }
}

impl Diagnostics {
    /// Opens one, in the calling thread's network namespace.
    ///
    /// # Errors
    /// When the kernel has no INET_DIAG, or the process may not open sockets.
    pub fn open() -> Result<Self, KernelError> {
        let line = Line::open(own_namespace().unwrap_or_default())?;
        Ok(Self {
            lines: Lines::own(line),
            known: HashMap::new(),
            answer: vec![0; ANSWER],
        })
    }

    /// Opens one for every network namespace that a process is in or that has a name in `/run/netns`, 256 at most:
    /// those that come later are found by [`Diagnostics::flows`]. To enter another takes CAP_SYS_ADMIN; one that may
    /// not be entered is left out.
    ///
    /// # Errors
    /// As [`Diagnostics::open`].
    pub fn open_all() -> Result<Self, KernelError> {
        let mut all = Self::open()?;
        all.lines.follow();
        Ok(all)
    }

    /// All connections, of both address families, but those that listen or wait in TIME-WAIT.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn flows(&mut self) -> Result<Vec<Flow>, KernelError> {
        let mut flows = Vec::new();
        self.lines.look();
        for line in self.lines.all() {
            for family in [AddressFamily::INET, AddressFamily::INET6] {
                ask(
                    line,
                    &mut self.answer,
                    &Ask::all(family),
                    |_| {},
                    |flow| flows.push(flow),
                )?;
            }
        }
        self.known.clear();
        let known = flows
            .iter()
            .map(|flow| (flow.cookie, (flow.namespace, flow.local, flow.remote)));
        self.known.extend(known.take(REMEMBERED));
        Ok(flows)
    }

    /// How a flow stands.
    ///
    /// # Errors
    /// [`KernelError::NoFlow`] when there is none of this cookie here.
    pub fn probe(&mut self, cookie: u64) -> Result<Flow, KernelError> {
        if let Some(&(namespace, local, remote)) = self.known.get(&cookie) {
            let found = self
                .find_in(namespace, local, remote)?
                .filter(|flow| flow.cookie == cookie);
            if found.is_none() {
                self.known.remove(&cookie);
            }
            return found.ok_or(KernelError::NoFlow(cookie));
        }
        self.flows()?
            .into_iter()
            .find(|flow| flow.cookie == cookie)
            .ok_or(KernelError::NoFlow(cookie))
    }

    /// What the kernel says of all connections, as it came.
    #[cfg(test)]
    pub(crate) fn heard(&mut self) -> Result<Vec<Vec<u8>>, KernelError> {
        let mut heard = Vec::new();
        for line in self.lines.all() {
            for family in [AddressFamily::INET, AddressFamily::INET6] {
                let keep = |answer: &[u8]| heard.push(answer.to_vec());
                ask(line, &mut self.answer, &Ask::all(family), keep, |_| {})?;
            }
        }
        Ok(heard)
    }

    /// The connection between two addresses, in the namespace in which this was opened.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn find(&mut self, local: SocketAddr, remote: SocketAddr) -> Result<Option<Flow>, KernelError> {
        self.find_in(self.lines.first().namespace, local, remote)
    }

    fn find_in(
        &mut self,
        namespace: u64,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<Option<Flow>, KernelError> {
        let Some(line) = self.lines.all().find(|line| line.namespace == namespace) else {
            return Ok(None);
        };
        let mut found = None;
        ask(
            line,
            &mut self.answer,
            &Ask::one(local, remote),
            |_| {},
            |flow| found = Some(flow),
        )?;
        Ok(found)
    }
}

/// Asks in a namespace: `answer` is given what came, `each` the flows in it.
fn ask(
    line: &Line,
    room: &mut [u8],
    ask: &Ask,
    mut answer: impl FnMut(&[u8]),
    mut each: impl FnMut(Flow),
) -> Result<(), KernelError> {
    let failed = |error| KernelError::system("ask INET_DIAG", error);
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&line.socket, ask.bytes(), SendFlags::empty(), &kernel).map_err(failed)?;
    loop {
        let (length, _) = recv(&line.socket, &mut *room, RecvFlags::empty()).map_err(failed)?;
        let heard = room.get(..length).unwrap_or_default();
        answer(heard);
        for part in parts(heard) {
            match part {
                Part::Flow(flow) => each(Flow {
                    namespace: line.namespace,
                    ..*flow
                }),
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
