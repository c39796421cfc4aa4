//! Computes the kernel's configuration from a lab file: interfaces, addresses, neighbours, routes.
//!
//! Every host has a route to every reachable address, over each of its interfaces that leads there. The
//! shortest route has the smallest metric. A socket that is bound to an interface, or to its address, uses
//! the route that begins there. A request over a link is answered over the same link.

mod addresses;
mod routes;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::spec::{Dependence, LinkForwarding, LinkSpec, Rules, Spec, SpecError};

pub(crate) use routes::{RoutePlan, routes_from};

/// An address and its prefix length.
pub(crate) type Subnet = (IpAddr, u8);

/// The default outside ports of a translator: Linux's ephemeral ports.
const PORTS: [u16; 2] = [32_768, 60_999];
/// The default time for which an unused mapping lives (RFC 4787, section 4.3: at least two minutes).
const MAPPING_TIME: Duration = Duration::from_secs(120);

#[derive(Clone, Debug)]
pub(crate) struct LabPlan {
    pub(crate) hosts: Vec<HostPlan>,
    pub(crate) links: Vec<LinkPlan>,
}

/// The plan of a host.
#[derive(Clone, Debug)]
pub(crate) struct HostPlan {
    pub(crate) name: String,
    pub(crate) router: bool,
    /// The addresses at which other hosts reach it.
    pub(crate) known_by: Vec<IpAddr>,
    pub(crate) routes: Vec<RoutePlan>,
}

/// The plan of a link.
#[derive(Clone, Debug)]
pub(crate) struct LinkPlan {
    pub(crate) name: String,
    pub(crate) ends: [LinkEnd; 2],
    pub(crate) mtu: u32,
    pub(crate) is_cell: bool,
    pub(crate) rules: [Rules; 2],
    pub(crate) nat: Option<NatPlan>,
}

/// One end of a link.
#[derive(Clone, Debug)]
pub(crate) struct LinkEnd {
    /// The index of the host.
    pub(crate) host: usize,
    pub(crate) interface: String,
    pub(crate) addresses: Vec<Subnet>,
    pub(crate) mac: [u8; 6],
}

/// A translator, at the end `inside` of its link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NatPlan {
    pub(crate) inside: usize,
    /// The router's address from the view of the inside host.
    pub(crate) gateway: Ipv4Addr,
    pub(crate) address: Ipv4Addr,
    pub(crate) mapping: Dependence,
    pub(crate) filtering: Dependence,
    pub(crate) timeout: Duration,
    pub(crate) ports: [u16; 2],
}

impl LabPlan {
    /// Makes the plan of a lab whose names are known to be valid.
    pub(crate) fn new(spec: &Spec) -> Result<LabPlan, SpecError> {
        let mut links = Vec::new();
        let mut counts = vec![0; spec.host.len()];
        for (i, link) in spec.link.iter().enumerate() {
            links.push(link_plan(spec, link, i, &mut counts)?);
        }
        addresses::check(spec, &links)?;
        let hosts = spec.host.iter().enumerate().map(|(i, host)| HostPlan {
            name: host.name.clone(),
            router: host.router,
            known_by: addresses::known_by(&links, i),
            routes: Vec::new(),
        });
        let mut plan = LabPlan { hosts: hosts.collect(), links };
        for host in 0..plan.hosts.len() {
            plan.hosts[host].routes = routes::routes(&plan, host);
        }
        Ok(plan)
    }

    /// Returns the addresses of a text: the address itself, or those of the host of that name.
    pub(crate) fn addresses(&self, text: &str) -> Vec<IpAddr> {
        match text.parse() {
            Ok(address) => vec![address],
            Err(_) => {
                let host = self.hosts.iter().find(|host| host.name == text);
                host.map_or_else(Vec::new, |host| host.known_by.clone())
            }
        }
    }
}

fn link_plan(
    spec: &Spec,
    link: &LinkSpec,
    number: usize,
    counts: &mut [usize],
) -> Result<LinkPlan, SpecError> {
    let inside = link
        .nat
        .as_ref()
        .map(|nat| usize::from(link.between[1] == nat.inside));
    let addresses = addresses::of_link(link, number, inside)?;
    let end = |end: usize, counts: &mut [usize]| {
        let host = spec
            .host
            .iter()
            .position(|host| host.name == link.between[end])
            .unwrap_or_default();
        let interface = match &link.interfaces {
            Some(names) => names[end].clone(),
            None => format!("eth{}", counts[host]),
        };
        counts[host] += 1;
        // A locally administered address (IEEE 802, 8.2.2) that contains link and end.
        let mac = [2, 0x48, 0x57, 0, number as u8, end as u8 + 1];
        LinkEnd { host, interface, addresses: addresses[end].clone(), mac }
    };
    let ends = [end(0, counts), end(1, counts)];
    let nat = match (&link.nat, inside) {
        (Some(nat), Some(inside)) => {
            let (gateway, address) = addresses::of_translator(nat, &ends, inside, number)?;
            Some(NatPlan {
                inside,
                gateway,
                address,
                mapping: nat.mapping,
                filtering: nat.filtering,
                timeout: nat.timeout.map_or(MAPPING_TIME, Duration::from),
                ports: nat.ports.unwrap_or(PORTS),
            })
        }
        _ => None,
    };
    let is_cell = match link.through {
        LinkForwarding::Cell => true,
        LinkForwarding::Kernel => false,
        LinkForwarding::Auto => !spec.suits_the_kernel(link),
    };
    let mtu = link.mtu.unwrap_or(1500);
    Ok(LinkPlan { name: link.label(), ends, mtu, is_cell, rules: link.directions(), nat })
}
