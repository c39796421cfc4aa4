//! Interfaces and addresses of this machine, and their changes: rtnetlink(7).
//!
//! The kernel reports that a link went down long before any transport notices a timeout.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use hawser_sockets::host::netlink::interfaces::{self, AddressReport, InterfaceReport, LinkReport};
use hawser_sockets::host::netlink::{DATAGRAM, Request, messages};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::io::unix::AsyncFd;

use super::document::{Interface, LinkKind};

/// A change of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceChange {
    /// The interface appeared, or its carrier came back.
    Up(String),
    /// The interface lost its carrier, or was removed.
    Down(String),
    /// The interface has a new address.
    AddressAdded(String, IpAddr),
    /// The interface lost an address.
    AddressRemoved(String, IpAddr),
}

/// An interface with its properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The interface's name, index, kind and whether it is up.
    pub interface: Interface,
    /// The largest packet that it takes, in bytes. `None` if the kernel did not report it.
    pub mtu: Option<u32>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// Interfaces and addresses, kept up to date.
pub struct Network {
    links: Links,
    socket: AsyncFd<OwnedFd>,
    datagram: Vec<u8>,
}

/// Links by index, and their changes that were not reported yet.
#[derive(Default)]
struct Links {
    known: BTreeMap<u32, Link>,
    changes: VecDeque<InterfaceChange>,
}

#[derive(Clone, Debug)]
struct Link {
    name: String,
    is_up: bool,
    mtu: Option<u32>,
    addresses: BTreeSet<IpAddr>,
}

impl Network {
    /// Lists the interfaces, and listens for changes. Needs no privilege.
    ///
    /// # Errors
    /// The netlink socket could not be opened, or the kernel did not answer.
    pub async fn open() -> io::Result<Self> {
        // A change that happens while the kernel lists the interfaces is reported afterwards, so that no
        // change is missed.
        let mut network = Self {
            links: Links::default(),
            socket: hawser_sockets::watch(interfaces::watch()?)?,
            datagram: vec![0; DATAGRAM],
        };
        network.list(interfaces::links(), 1).await?;
        network.list(interfaces::addresses(), 2).await?;
        network.links.changes.clear();
        Ok(network)
    }

    /// Requests a list under a sequence number, and takes it with any other messages that arrive meanwhile.
    async fn list(&mut self, request: Request, sequence: u32) -> io::Result<()> {
        send(
            self.socket.get_ref(),
            &request.finish(sequence),
            SendFlags::empty(),
        )?;
        loop {
            let length = self.receive().await?;
            let mut messages = messages(&self.datagram[..length]);
            let outcome = messages.find_map(|message| {
                self.links.take(InterfaceReport::read(message));
                message.outcome().filter(|_| message.sequence == sequence)
            });
            if let Some(outcome) = outcome {
                return outcome;
            }
        }
    }

    /// Waits for a datagram of the kernel, and returns its length.
    async fn receive(&mut self) -> io::Result<usize> {
        loop {
            let mut ready = self.socket.readable().await?;
            let datagram = &mut self.datagram;
            let received = ready.try_io(|socket| {
                let (length, _) = recv(socket.get_ref(), &mut **datagram, RecvFlags::empty())?;
                Ok(length)
            });
            if let Ok(received) = received {
                return received;
            }
        }
    }

    /// Returns the existing interfaces.
    pub fn interfaces(&self) -> Vec<Interface> {
        let of_link = |(&index, link): (&u32, &Link)| Interface {
            name: link.name.clone(),
            index,
            is_up: link.is_up,
            kind: LinkKind::of_name(&link.name),
        };
        self.links.known.iter().map(of_link).collect()
    }

    /// Returns the existing interfaces, each with its addresses.
    pub fn attachments(&self) -> Vec<Attachment> {
        let links = self.links.known.values();
        let attachments = self
            .interfaces()
            .into_iter()
            .zip(links)
            .map(|(interface, link)| Attachment {
                interface,
                mtu: link.mtu,
                addresses: link.addresses.iter().copied().collect(),
            });
        attachments.collect()
    }

    /// Returns the name of the interface that has this address.
    pub fn holder(&self, address: IpAddr) -> Option<&str> {
        let link = self
            .links
            .known
            .values()
            .find(|link| link.addresses.contains(&address))?;
        Some(&link.name)
    }

    /// Returns the addresses of all interfaces.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.links
            .known
            .values()
            .flat_map(|link| link.addresses.iter().copied())
            .collect()
    }

    /// Waits for the next change. Returns `None` when the kernel reports no more.
    pub async fn next(&mut self) -> Option<InterfaceChange> {
        loop {
            if let Some(change) = self.links.changes.pop_front() {
                return Some(change);
            }
            match self.receive().await {
                Ok(length) => messages(&self.datagram[..length])
                    .for_each(|message| self.links.take(InterfaceReport::read(message))),
                // The socket's buffer overflowed, and reports were lost.
                Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => {}
                Err(_) => return None,
            }
        }
    }
}

impl Links {
    fn take(&mut self, report: Option<InterfaceReport>) {
        match report {
            Some(InterfaceReport::Link(link)) => self.take_link(link),
            Some(InterfaceReport::Address(address)) => self.take_address(&address),
            None => {}
        }
    }

    fn take_link(&mut self, report: LinkReport) {
        // Bridges report their ports in the same form. A port that leaves its bridge still exists.
        if report.of_bridge {
            return;
        }
        let LinkReport { index, is_up, .. } = report;
        if !report.exists {
            let gone = self
                .known
                .remove(&index)
                .map(|link| InterfaceChange::Down(link.name));
            return self.changes.extend(gone);
        }
        let Some(name) = report.name else { return };
        let link = self.known.entry(index).or_insert_with(|| Link {
            name: name.clone(),
            is_up: false,
            mtu: None,
            addresses: BTreeSet::new(),
        });
        link.mtu = report.mtu.or(link.mtu);
        if link.name != name {
            // For users of the old name, the interface is gone and another one has appeared.
            let before = std::mem::replace(&mut link.name, name.clone());
            if std::mem::take(&mut link.is_up) {
                self.changes.push_back(InterfaceChange::Down(before));
            }
        }
        if std::mem::replace(&mut link.is_up, is_up) != is_up {
            self.changes.push_back(if is_up {
                InterfaceChange::Up(name)
            } else {
                InterfaceChange::Down(name)
            });
        }
    }

    fn take_address(&mut self, report: &AddressReport) {
        let Some(link) = self.known.get_mut(&report.index) else {
            return;
        };
        let address = report.address;
        let name = link.name.clone();
        let change = if report.exists {
            link.addresses
                .insert(address)
                .then_some(InterfaceChange::AddressAdded(name, address))
        } else {
            link.addresses
                .remove(&address)
                .then_some(InterfaceChange::AddressRemoved(name, address))
        };
        self.changes.extend(change);
    }
}

/// Returns true if the kernel supports MPTCP.
pub fn speaks_mptcp() -> bool {
    std::fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|enabled| enabled.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a report of the interface 7 under a name.
    fn link(name: &str, is_up: bool) -> LinkReport {
        LinkReport {
            index: 7,
            exists: true,
            of_bridge: false,
            is_up,
            name: Some(name.into()),
            mtu: None,
        }
    }

    fn changes(links: &mut Links) -> Vec<InterfaceChange> {
        links.changes.drain(..).collect()
    }

    #[test]
    fn a_link_that_leaves_its_bridge_still_exists() {
        let of_bridge = |exists, is_up| LinkReport { exists, of_bridge: true, ..link("eth0", is_up) };
        let mut links = Links::default();
        links.take_link(link("eth0", true));
        assert_eq!(changes(&mut links), [InterfaceChange::Up("eth0".into())]);
        links.take_link(of_bridge(true, true));
        links.take_link(of_bridge(false, true));
        assert_eq!(changes(&mut links), []);
        links.take_link(LinkReport { exists: false, ..link("eth0", false) });
        assert_eq!(changes(&mut links), [InterfaceChange::Down("eth0".into())]);
    }

    #[test]
    fn a_link_that_is_renamed_is_gone_under_its_old_name() {
        let mut links = Links::default();
        links.take_link(link("wlan0", true));
        changes(&mut links);
        links.take_link(link("wlp2s0", true));
        assert_eq!(
            changes(&mut links),
            [
                InterfaceChange::Down("wlan0".into()),
                InterfaceChange::Up("wlp2s0".into())
            ]
        );
        links.take_link(link("wlp2s0", false));
        assert_eq!(changes(&mut links), [InterfaceChange::Down("wlp2s0".into())]);
    }
}
