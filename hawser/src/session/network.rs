//! Interfaces and addresses of this machine, and what becomes of them: rtnetlink(7).
//!
//! A link that goes down is known here long before any transport falls silent.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use futures_util::StreamExt;
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
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

/// Interfaces and addresses, kept up to date.
pub struct Network {
    links: BTreeMap<u32, Link>,
    messages: Box<dyn futures_util::Stream<Item = NetlinkMessage<RouteNetlinkMessage>> + Send + Unpin>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone, Debug)]
struct Link {
    name: String,
    is_up: bool,
    addresses: BTreeSet<IpAddr>,
}

impl Network {
    /// Asks for what there is, and listens for what changes. Needs no privilege.
    ///
    /// # Errors
    /// No netlink socket could be had, or the kernel did not answer.
    pub async fn open() -> io::Result<Self> {
        // What changes while the kernel tells what there is comes afterwards, and nothing is missed.
        let groups = [MulticastGroup::Link, MulticastGroup::Ipv4Ifaddr, MulticastGroup::Ipv6Ifaddr];
        let (connection, handle, messages) = new_multicast_connection(&groups)?;
        let task = tokio::spawn(connection);
        let messages = Box::new(messages.map(|(message, _)| message));
        let mut network = Self { links: BTreeMap::new(), messages, task };
        let mut links = handle.link().get().execute();
        while let Some(link) = links.next().await {
            network.take_link(&link.map_err(io::Error::other)?, true);
        }
        let mut addresses = handle.address().get().execute();
        while let Some(address) = addresses.next().await {
            network.take_address(&address.map_err(io::Error::other)?, true);
        }
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
        self.links.iter().map(of_link).collect()
    }

    /// The interface that has this address.
    pub fn holder(&self, address: IpAddr) -> Option<&str> {
        let link = self.links.values().find(|link| link.addresses.contains(&address))?;
        Some(&link.name)
    }

    /// The addresses of all interfaces.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.links.values().flat_map(|link| link.addresses.iter().copied()).collect()
    }

    /// What happens next. Pending for as long as nothing does; none when the kernel tells no more.
    pub async fn next(&mut self) -> Option<Change> {
        loop {
            let message = self.messages.next().await?;
            let NetlinkPayload::InnerMessage(message) = message.payload else { continue };
            let change = match message {
                RouteNetlinkMessage::NewLink(link) => self.take_link(&link, true),
                RouteNetlinkMessage::DelLink(link) => self.take_link(&link, false),
                RouteNetlinkMessage::NewAddress(address) => self.take_address(&address, true),
                RouteNetlinkMessage::DelAddress(address) => self.take_address(&address, false),
                _ => None,
            };
            if change.is_some() {
                return change;
            }
        }
    }

    fn take_link(&mut self, message: &LinkMessage, exists: bool) -> Option<Change> {
        let index = message.header.index;
        if !exists {
            return Some(Change::Down(self.links.remove(&index)?.name));
        }
        let name = message.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name.clone()),
            _ => None,
        })?;
        let is_up = message.header.flags.contains(LinkFlags::Up | LinkFlags::LowerUp);
        let link = self.links.entry(index).or_insert_with(|| Link {
            name: name.clone(),
            is_up: false,
            addresses: BTreeSet::new(),
        });
        link.name.clone_from(&name);
        let was_up = std::mem::replace(&mut link.is_up, is_up);
        (was_up != is_up).then_some(if is_up { Change::Up(name) } else { Change::Down(name) })
    }

    fn take_address(&mut self, message: &AddressMessage, exists: bool) -> Option<Change> {
        let link = self.links.get_mut(&message.header.index)?;
        // Of a point-to-point link the local address is the one that is its own.
        let local = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(address) => Some(*address),
            _ => None,
        });
        let any = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        });
        let address = local.or(any)?;
        let name = link.name.clone();
        if exists {
            link.addresses.insert(address).then_some(Change::AddressAdded(name, address))
        } else {
            link.addresses.remove(&address).then_some(Change::AddressRemoved(name, address))
        }
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
