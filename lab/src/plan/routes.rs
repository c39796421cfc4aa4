//! Which way leads where.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::addresses::in_subnet;
use super::{End, LinkPlan, Plan};

/// How much more a way costs for each link on it.
const METRIC_PER_LINK: u32 = 64;

/// A route to one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) to: IpAddr,
    /// The link that it begins with, and the end that the host is at.
    pub(crate) link: usize,
    pub(crate) end: usize,
    /// The next router; nothing where the address is on the link itself.
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) metric: u32,
}

/// All ways from a host to the addresses of others. Those on its own subnets are among them, since
/// ways by other interfaces lead there, too, and must come after.
pub(super) fn ways(plan: &Plan, host: usize) -> Vec<Way> {
    let mut ways = Vec::new();
    for (link, end) in ends_of(plan, host) {
        for (to, owner) in destinations(plan) {
            let here = &plan.links[link].ends[end];
            if owner == host || !may_leave(&plan.links[link], end, to) {
                continue;
            }
            if here.addresses.iter().any(|subnet| in_subnet(to, *subnet)) {
                ways.push(Way { to, link, end, gateway: None, metric: 1 });
                continue;
            }
            let next = plan.links[link].ends[1 - end].host;
            let Some(gateway) = gateway(&plan.links[link], end, to) else { continue };
            if let Some(links) = distance(plan, next, owner, host, to) {
                let metric = METRIC_PER_LINK * (links + 1) + link as u32;
                ways.push(Way { to, link, end, gateway: Some(gateway), metric });
            }
        }
    }
    ways
}

/// Links and ends that a host is at.
fn ends_of(plan: &Plan, host: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
    let ends =
        plan.links.iter().enumerate().flat_map(|(l, link)| link.ends.iter().zip(0..).map(move |e| (l, e)));
    ends.filter(move |(_, (end, _))| end.host == host).map(|(link, (_, end))| (link, end))
}

/// Every address with the host that packets to it have to come to. A translator's outside address
/// is reached by way of the host at its outside.
fn destinations(plan: &Plan) -> impl Iterator<Item = (IpAddr, usize)> + '_ {
    let of_end = |end: &End| end.addresses.iter().map(|(ip, _)| (*ip, end.host)).collect::<Vec<_>>();
    plan.links.iter().flat_map(move |link| {
        let outside = link.nat.map(|nat| (IpAddr::V4(nat.address), link.ends[1 - nat.inside].host));
        link.ends.iter().flat_map(of_end).chain(outside)
    })
}

/// Whether packets to `to` may enter a link at an end: translators let none in from outside that
/// they have not seen from inside.
fn may_leave(link: &LinkPlan, end: usize, to: IpAddr) -> bool {
    to.is_ipv6() || link.nat.is_none_or(|nat| nat.inside == end)
}

/// The next hop's address on a link.
fn gateway(link: &LinkPlan, end: usize, to: IpAddr) -> Option<IpAddr> {
    if let (Some(nat), true) = (link.nat, to.is_ipv4()) {
        return Some(nat.gateway.into());
    }
    let (here, there) = (&link.ends[end].addresses, &link.ends[1 - end].addresses);
    let shared = |ip: &IpAddr| here.iter().any(|subnet| in_subnet(*ip, *subnet));
    there.iter().map(|(ip, _)| *ip).find(|ip| ip.is_ipv4() == to.is_ipv4() && shared(ip))
}

/// How many links lie between two hosts, by routers alone and not by way of `except`.
fn distance(plan: &Plan, from: usize, owner: usize, except: usize, to: IpAddr) -> Option<u32> {
    let mut seen = vec![false; plan.hosts.len()];
    seen[except] = true;
    seen[from] = true;
    let mut queue = VecDeque::from([(from, 0)]);
    while let Some((host, links)) = queue.pop_front() {
        if host == owner {
            return Some(links);
        }
        if !plan.hosts[host].router {
            continue;
        }
        for (link, end) in ends_of(plan, host) {
            let next = plan.links[link].ends[1 - end].host;
            if !seen[next] && may_leave(&plan.links[link], end, to) {
                seen[next] = true;
                queue.push_back((next, links + 1));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;

    fn ways_of(text: &str, host: usize) -> Vec<String> {
        let plan = Plan::new(&Spec::parse(text).expect("a lab")).expect("a plan");
        let v4 = plan.hosts[host].ways.iter().filter(|way| way.to.is_ipv4());
        v4.map(|way| {
            let end = &plan.links[way.link].ends[way.end];
            let gateway = way.gateway.map_or("itself".to_owned(), |gateway| gateway.to_string());
            format!("{} by {} {gateway}", way.to, end.interface)
        })
        .collect()
    }

    const TWO_PATHS: &str = r#"
        host = [{ name = "client" }, { name = "router", router = true }, { name = "server" }]
        link = [
            { name = "a", between = ["client", "router"] },
            { name = "b", between = ["client", "router"] },
            { name = "c", between = ["router", "server"] },
        ]
    "#;

    #[test]
    fn each_interface_has_a_way_to_what_lies_behind() {
        assert_eq!(
            ways_of(TWO_PATHS, 0),
            [
                "10.77.0.2 by eth0 itself",
                "10.77.1.2 by eth0 10.77.0.2",
                "10.77.2.1 by eth0 10.77.0.2",
                "10.77.2.2 by eth0 10.77.0.2",
                "10.77.0.2 by eth1 10.77.1.2",
                "10.77.1.2 by eth1 itself",
                "10.77.2.1 by eth1 10.77.1.2",
                "10.77.2.2 by eth1 10.77.1.2",
            ]
        );
        let by_the_router = ["10.77.0.1", "10.77.0.2", "10.77.1.1", "10.77.1.2"];
        let by_the_router = by_the_router.map(|to| format!("{to} by eth0 10.77.2.1"));
        let ways = ways_of(TWO_PATHS, 2);
        assert_eq!(ways[..4], by_the_router);
        assert_eq!(ways[4..], ["10.77.2.1 by eth0 itself"]);
    }

    #[test]
    fn nobody_forwards_who_is_no_router() {
        let text = TWO_PATHS.replace(", router = true", "");
        assert!(
            ways_of(&text, 2).iter().all(|way| !way.contains("10.77.0.1 ") && !way.contains("10.77.1.1 "))
        );
    }

    #[test]
    fn nobody_reaches_through_a_translator() {
        let text = r#"
            host = [{ name = "client" }, { name = "server" }]
            link = [{ between = ["client", "server"], nat = { inside = "client" } }]
        "#;
        assert_eq!(ways_of(text, 0), ["10.77.0.2 by eth0 192.168.0.1", "10.77.0.1 by eth0 192.168.0.1"]);
        assert!(ways_of(text, 1).is_empty());
    }
}
