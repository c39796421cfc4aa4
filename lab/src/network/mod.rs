//! The plan in the kernel: namespaces, cables, addresses, routes, shapers.

mod links;
mod settings;

use std::net::IpAddr;

use hawser_host::netns::{Namespace, Netlink, Route};

use crate::LabError;
use crate::plan::{HostPlan, LabPlan, RoutePlan, routes_from};

pub(crate) use links::{is_shaped, near_end, set_near_ends, shape};

/// The number of the first routing table for packets from one interface's addresses. Each interface has one.
const FIRST_TABLE: u8 = 100;

/// A host's namespace, and its netlink socket.
pub(crate) struct HostNetns {
    pub(crate) namespace: Namespace,
    pub(crate) netlink: Netlink,
}

impl HostNetns {
    fn new(plan: &HostPlan) -> Result<HostNetns, LabError> {
        let namespace = Namespace::create()?;
        let netlink = namespace.run(|| -> Result<Netlink, LabError> {
            settings::prepare(plan.router)?;
            let mut netlink = Netlink::open()?;
            netlink.bring_up("lo")?;
            Ok(netlink)
        })??;
        Ok(HostNetns { namespace, netlink })
    }
}

/// The namespaces of a lab.
pub(crate) struct Network {
    /// The namespace that holds the near ends of cells.
    pub(crate) core: Namespace,
    pub(crate) core_netlink: Netlink,
    pub(crate) stations: Vec<HostNetns>,
}

impl Network {
    /// Builds the network. It disappears when this is dropped and no process is left inside.
    pub(crate) fn build(plan: &LabPlan) -> Result<Network, LabError> {
        let core = Namespace::create()?;
        let core_netlink = core.run(|| -> Result<Netlink, LabError> {
            settings::mute()?;
            Ok(Netlink::open()?)
        })??;
        let stations = plan
            .hosts
            .iter()
            .map(HostNetns::new)
            .collect::<Result<Vec<_>, _>>()?;
        let mut network = Network { core, core_netlink, stations };
        for number in 0..plan.links.len() {
            links::lay(&mut network, plan, number)?;
        }
        for number in 0..plan.links.len() {
            links::settle(&mut network, plan, number)?;
        }
        for (number, host) in plan.hosts.iter().enumerate() {
            network.route(plan, number, host)?;
        }
        Ok(network)
    }

    /// Gives a host its routes in the main table. If it has several interfaces, each also has a table of its
    /// own for packets from the interface's addresses.
    fn route(&mut self, plan: &LabPlan, number: usize, host: &HostPlan) -> Result<(), LabError> {
        let netlink = &mut self.stations[number].netlink;
        for route in &host.routes {
            set(netlink, plan, route, None)?;
        }
        let ends: Vec<_> = plan.links.iter().enumerate().collect();
        let mut own: Vec<(usize, usize)> = Vec::new();
        for (l, link) in ends {
            own.extend(
                (0..2)
                    .filter(|end| link.ends[*end].host == number)
                    .map(|end| (l, end)),
            );
        }
        if own.len() < 2 {
            return Ok(());
        }
        for (table, (link, end)) in (FIRST_TABLE..).zip(own) {
            let here = &plan.links[link].ends[end];
            for (address, prefix) in &here.addresses {
                let subnet = Route {
                    to: (network_of(*address, *prefix), *prefix),
                    interface: &here.interface,
                    gateway: None,
                    metric: 1,
                    table: Some(table),
                    congestion_control: None,
                };
                netlink.set_route(&subnet)?;
                netlink.route_by_source(*address, table)?;
            }
            for route in routes_from(&host.routes, link, end) {
                set(netlink, plan, route, Some(table))?;
            }
        }
        Ok(())
    }
}

fn set(netlink: &mut Netlink, plan: &LabPlan, route: &RoutePlan, table: Option<u8>) -> Result<(), LabError> {
    let prefix = if route.to.is_ipv4() { 32 } else { 128 };
    let interface = &plan.links[route.link].ends[route.end].interface;
    let route = Route {
        to: (route.to, prefix),
        interface,
        gateway: route.gateway,
        metric: route.metric(),
        table,
        congestion_control: None,
    };
    Ok(netlink.set_route(&route)?)
}

/// Returns the first address of a subnet.
fn network_of(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4((u32::from(ip) & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6((u128::from(ip) & mask).into())
        }
    }
}
