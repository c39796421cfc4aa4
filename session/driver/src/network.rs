//! Interfaces and addresses of this machine, and what becomes of them: rtnetlink(7).
//!
//! A link that goes down is known here long before any transport falls silent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::IpAddr;

use futures_util::StreamExt;
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::{MulticastGroup, new_multicast_connection};

use super::document::{Interface, Kind};

/// What became of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is there, or its carrier came back.
    Up(String),
    /// Its carrier went, or it was taken away.
    Down(String),
    /// It has a new address.
    AddressAdded(String, IpAddr),
    /// It lost an address.
    AddressRemoved(String, IpAddr),
}

/// An interface with what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Which.
    pub interface: Interface,
    /// The largest packet that it takes, in bytes; none: it was not told.
    pub mtu: Option<u32>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// Interfaces and addresses, kept up to date.
pub struct Network {
    links: Links,
    messages: Box<dyn futures_util::Stream<Item = NetlinkMessage<RouteNetlinkMessage>> + Send + Unpin>,
    task: tokio::task::JoinHandle<()>,
}

/// Links by index, and what became of them that was not told yet.
#[derive(Default)]
struct Links {
    known: BTreeMap<u32, Link>,
    changes: VecDeque<Change>,
}

#[derive(Clone, Debug)]
struct Link {
    name: String,
    is_up: bool,
    mtu: Option<u32>,
    addresses: BTreeSet<IpAddr>,
}

impl Network {
    /// Asks for what there is, and listens for what changes. Needs no privilege.
    ///
    /// # Errors
    /// No netlink socket could be had, or the kernel did not answer.
    pub async fn open() -> io::Result<Self> {
        // What changes while the kernel tells what there is comes afterwards, and nothing is missed.
        let groups = [
            MulticastGroup::Link,
            MulticastGroup::Ipv4Ifaddr,
            MulticastGroup::Ipv6Ifaddr,
        ];
        let (connection, handle, messages) = new_multicast_connection(&groups)?;
        let task = tokio::spawn(connection);
        let messages = Box::new(messages.map(|(message, _)| message));
        let mut network = Self {
            links: Links::default(),
            messages,
            task,
        };
        let mut links = handle.link().get().execute();
        while let Some(link) = links.next().await {
            network.links.take_link(&link.map_err(io::Error::other)?, true);
        }
        let mut addresses = handle.address().get().execute();
        while let Some(address) = addresses.next().await {
            network
                .links
                .take_address(&address.map_err(io::Error::other)?, true);
        }
        network.links.changes.clear();
        Ok(network)
    }

    /// The interfaces that there are.
    pub fn interfaces(&self) -> Vec<Interface> {
        let of_link = |(&index, link): (&u32, &Link)| Interface {
            name: link.name.clone(),
            index,
            is_up: link.is_up,
            kind: Kind::of_name(&link.name),
        };
        self.links.known.iter().map(of_link).collect()
    }

    /// The interfaces that there are, each with its addresses.
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

    /// The interface that has this address.
    pub fn holder(&self, address: IpAddr) -> Option<&str> {
        let link = self
            .links
            .known
            .values()
            .find(|link| link.addresses.contains(&address))?;
        Some(&link.name)
    }

    /// The addresses of all interfaces.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.links
            .known
            .values()
            .flat_map(|link| link.addresses.iter().copied())
            .collect()
    }

    /// What happens next. Pending for as long as nothing does; none when the kernel tells no more.
    pub async fn next(&mut self) -> Option<Change> {
        loop {
            if let Some(change) = self.links.changes.pop_front() {
                return Some(change);
            }
            let message = self.messages.next().await?;
            let NetlinkPayload::InnerMessage(message) = message.payload else {
                continue;
            };
            match message {
                RouteNetlinkMessage::NewLink(link) => self.links.take_link(&link, true),
                RouteNetlinkMessage::DelLink(link) => self.links.take_link(&link, false),
                RouteNetlinkMessage::NewAddress(address) => self.links.take_address(&address, true),
                RouteNetlinkMessage::DelAddress(address) => self.links.take_address(&address, false),
                _ => {}
            }
        }
    }
}

impl Links {
    fn take_link(&mut self, message: &LinkMessage, exists: bool) {
        // Bridges tell of their ports in the same words: one that leaves its bridge is not gone.
        if message.header.interface_family == AddressFamily::Bridge {
            return;
        }
        let index = message.header.index;
        if !exists {
            let gone = self.known.remove(&index).map(|link| Change::Down(link.name));
            return self.changes.extend(gone);
        }
        let name = message.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name.clone()),
            _ => None,
        });
        let Some(name) = name else { return };
        let is_up = message.header.flags.contains(LinkFlags::Up | LinkFlags::LowerUp);
        let link = self.known.entry(index).or_insert_with(|| Link {
            name: name.clone(),
            is_up: false,
            mtu: None,
            addresses: BTreeSet::new(),
        });
        let mtu = message.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Mtu(mtu) => Some(*mtu),
            _ => None,
        });
        link.mtu = mtu.or(link.mtu);
        if link.name != name {
            // To whoever knows it by its name it is gone, and another one there.
            let before = std::mem::replace(&mut link.name, name.clone());
            if std::mem::take(&mut link.is_up) {
                self.changes.push_back(Change::Down(before));
            }
        }
        if std::mem::replace(&mut link.is_up, is_up) != is_up {
            self.changes.push_back(if is_up {
                Change::Up(name)
            } else {
                Change::Down(name)
            });
        }
    }

    fn take_address(&mut self, message: &AddressMessage, exists: bool) {
        let Some(link) = self.known.get_mut(&message.header.index) else {
            return;
        };
        // Of a point-to-point link the local address is the one that is its own.
        let local = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(address) => Some(*address),
            _ => None,
        });
        let any = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        });
        let Some(address) = local.or(any) else { return };
        let name = link.name.clone();
        let change = if exists {
            link.addresses
                .insert(address)
                .then_some(Change::AddressAdded(name, address))
        } else {
            link.addresses
                .remove(&address)
                .then_some(Change::AddressRemoved(name, address))
        };
        self.changes.extend(change);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whether the kernel speaks MPTCP.
pub fn speaks_mptcp() -> bool {
    std::fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|enabled| enabled.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RTM_NEWLINK or RTM_DELLINK of link 7.
    fn link(family: AddressFamily, name: &str, is_up: bool) -> LinkMessage {
        let mut message = LinkMessage::default();
        message.header.interface_family = family;
        message.header.index = 7;
        if is_up {
            message.header.flags = LinkFlags::Up | LinkFlags::LowerUp;
        }
        message.attributes.push(LinkAttribute::IfName(name.into()));
        message
    }

    fn told(links: &mut Links) -> Vec<Change> {
        links.changes.drain(..).collect()
    }

    #[test]
    fn a_link_that_leaves_its_bridge_is_not_gone() {
        let mut links = Links::default();
        links.take_link(&link(AddressFamily::Unspec, "eth0", true), true);
        assert_eq!(told(&mut links), [Change::Up("eth0".into())]);
        links.take_link(&link(AddressFamily::Bridge, "eth0", true), true);
        links.take_link(&link(AddressFamily::Bridge, "eth0", true), false);
        assert_eq!(told(&mut links), []);
        links.take_link(&link(AddressFamily::Unspec, "eth0", false), false);
        assert_eq!(told(&mut links), [Change::Down("eth0".into())]);
    }

    #[test]
    fn a_link_that_is_renamed_is_gone_under_its_old_name() {
        let mut links = Links::default();
        links.take_link(&link(AddressFamily::Unspec, "wlan0", true), true);
        told(&mut links);
        links.take_link(&link(AddressFamily::Unspec, "wlp2s0", true), true);
        assert_eq!(
            told(&mut links),
            [Change::Down("wlan0".into()), Change::Up("wlp2s0".into())]
        );
        links.take_link(&link(AddressFamily::Unspec, "wlp2s0", false), true);
        assert_eq!(told(&mut links), [Change::Down("wlp2s0".into())]);
    }
}
