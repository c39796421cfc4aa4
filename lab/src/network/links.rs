//! Links: a cable between two hosts that the kernel shapes, or two cables with a cell between them.

use std::net::IpAddr;

use hawser_host::netns::{Namespace, NamespaceError, Netlink, ShaperRate};
use hawser_sim::link::Profile;

use crate::LabError;
use crate::plan::{LabPlan, LinkPlan};
use crate::spec::Rules;

use super::Network;

const ETHERNET: u64 = 14;
/// The burst of a shaper after a pause is the capacity of the rate in this time …
const BURST_SECONDS: f64 = 0.001;
/// … but at most this many bytes: two super-segments.
const MAX_BURST: u64 = 128 << 10;

/// The first number of one end of each cable. It is above the numbers that the kernel gives to the other end:
/// see [`Netlink::add_numbered_veth`].
const FIRST_NUMBER: u32 = 1000;

/// Returns the interface name of a cell's near end.
pub(crate) fn near_end(link: usize, end: usize) -> String {
    format!("link{link}.{end}")
}

/// Makes a link's cables, gives each end its addresses and its neighbour, and brings them up.
pub(super) fn lay(network: &mut Network, plan: &LabPlan, number: usize) -> Result<(), LabError> {
    let link = &plan.links[number];
    let [a, b] = &link.ends;
    if link.is_cell {
        for (i, end) in link.ends.iter().enumerate() {
            let near = near_end(number, i);
            let far = &network.stations[end.host].namespace;
            let index = FIRST_NUMBER + 2 * number as u32 + i as u32;
            network
                .core_netlink
                .add_numbered_veth(&near, index, &end.interface, far)?;
            network.core_netlink.set_mtu(&near, link.mtu)?;
            network.core_netlink.bring_up(&near)?;
        }
    } else {
        let there = another_handle(&network.stations[b.host].namespace)?;
        let index = FIRST_NUMBER + number as u32;
        let netlink = &mut network.stations[a.host].netlink;
        netlink.add_numbered_veth(&a.interface, index, &b.interface, &there)?;
    }
    for i in 0..2 {
        let netlink = &mut network.stations[link.ends[i].host].netlink;
        set_up_end(netlink, link, i)?;
        if !link.is_cell {
            shape(netlink, link, i, &link.rules[i])?;
        }
    }
    Ok(())
}

fn another_handle(namespace: &Namespace) -> Result<Namespace, NamespaceError> {
    namespace.run(Namespace::current)?
}

fn set_up_end(netlink: &mut Netlink, link: &LinkPlan, i: usize) -> Result<(), LabError> {
    let (end, other) = (&link.ends[i], &link.ends[1 - i]);
    let name = &end.interface;
    netlink.set_hardware_address(name, end.mac)?;
    netlink.set_mtu(name, link.mtu)?;
    if link.is_cell {
        netlink.set_checksum_offload(name, false)?;
    }
    netlink.bring_up(name)?;
    for (address, prefix) in &end.addresses {
        netlink.add_address(name, *address, *prefix)?;
    }
    let mut neighbours: Vec<IpAddr> = other.addresses.iter().map(|(ip, _)| *ip).collect();
    if let Some(nat) = link.nat {
        neighbours.push(if nat.inside == i { nat.gateway } else { nat.address }.into());
    }
    for address in neighbours {
        netlink.set_neighbour(name, address, other.mac)?;
    }
    Ok(())
}

/// Waits until a link's ends are connected.
pub(super) fn settle(network: &mut Network, plan: &LabPlan, number: usize) -> Result<(), LabError> {
    for end in &plan.links[number].ends {
        network.stations[end.host].netlink.settle(&end.interface)?;
    }
    Ok(())
}

/// Takes a cell's cables down or brings them up, so that both hosts see their carrier change. The second end
/// of a link comes up first. The kernel may take long for either end while other namespaces are made or
/// removed. The first host, usually the client, may send as soon as it sees its carrier, and must then find
/// the other end up.
pub(crate) fn set_near_ends(netlink: &mut Netlink, number: usize, up: bool) -> Result<(), LabError> {
    for end in (0..2).rev() {
        let near = near_end(number, end);
        if up {
            netlink.bring_up(&near)?
        } else {
            netlink.take_down(&near)?
        }
    }
    Ok(())
}

/// Returns whether rules have a rate that the kernel must enforce.
pub(crate) fn is_shaped(rules: &Rules) -> bool {
    rules.rate.is_some_and(|rate| rate.0 > 0)
}

/// Makes the kernel shape the egress of one end of a link.
pub(crate) fn shape(
    netlink: &mut Netlink,
    link: &LinkPlan,
    end: usize,
    rules: &Rules,
) -> Result<(), LabError> {
    let mut profile = Profile::default();
    rules.apply(&mut profile);
    let Some(rate) = profile.rate else { return Ok(()) };
    let bytes_per_second = (rate / 8).max(1);
    let frame = u64::from(link.mtu) + ETHERNET;
    let burst = ((bytes_per_second as f64 * BURST_SECONDS) as u64).clamp(2 * frame, MAX_BURST);
    let queue = profile
        .queue_bytes
        .min(profile.queue_packets.saturating_mul(frame))
        .max(frame);
    let small = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    // The kernel's limit counts the bytes that wait in addition to the burst.
    let shape = ShaperRate { bytes_per_second, burst: small(burst), queue: small(queue) };
    Ok(netlink.shape(&link.ends[end].interface, shape)?)
}
