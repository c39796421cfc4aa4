//! The routes of hosts to every address of a lab.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::addresses::in_subnet;
use super::{LabPlan, LinkEnd, LinkPlan};

/// The increase of a route's metric for each step of its cost. It is larger than the number of links, which
/// decides between routes of one cost.
const METRIC_PER_STEP: u32 = 64;

/// A route to one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoutePlan {
    pub(crate) to: IpAddr,
    /// The first link of the route, and the host's end of it.
    pub(crate) link: usize,
    pub(crate) end: usize,
    /// The next router, or `None` if the address is on the link itself.
    pub(crate) gateway: Option<IpAddr>,
    /// The cost: two for each link of the route. One is added if the last link is not the address's own link.
    /// The cost is 0 if the address is on the first link.
    pub(crate) cost: u32,
}

impl RoutePlan {
    /// Returns the metric. The kernel prefers the smallest.
    pub(crate) fn metric(&self) -> u32 {
        1 + METRIC_PER_STEP * self.cost + self.link as u32
    }
}

/// An address with its link, and the host that receives packets to it.
#[derive(Clone, Copy)]
struct Destination {
    to: IpAddr,
    home: usize,
    owner: usize,
}

/// Returns all routes from a host to the addresses of others. They include those on its own subnets, because
/// routes over other interfaces also lead there, and must have a larger metric.
pub(super) fn routes(plan: &LabPlan, host: usize) -> Vec<RoutePlan> {
    let mut routes = Vec::new();
    for (link, end) in ends_of(plan, host) {
        for destination in destinations(plan) {
            let to = destination.to;
            let here = &plan.links[link].ends[end];
            if destination.owner == host || !may_leave(&plan.links[link], end, to) {
                continue;
            }
            if here.addresses.iter().any(|subnet| in_subnet(to, *subnet)) {
                routes.push(RoutePlan { to, link, end, gateway: None, cost: 0 });
                continue;
            }
            let Some(gateway) = gateway(&plan.links[link], end, to) else {
                continue;
            };
            if let Some(cost) = cost(plan, host, (link, end), destination) {
                routes.push(RoutePlan { to, link, end, gateway: Some(gateway), cost });
            }
        }
    }
    routes
}

/// Returns the routes for packets from a host's addresses on one link: those that begin at that link. The
/// link's second host answers over the link of the request. If another of its interfaces leads to an address
/// with lower cost, that route is used instead.
pub(crate) fn routes_from(routes: &[RoutePlan], link: usize, end: usize) -> impl Iterator<Item = &RoutePlan> {
    let own = routes
        .iter()
        .filter(move |route| (route.link, route.end) == (link, end));
    own.map(move |own| {
        let others = routes
            .iter()
            .filter(|route| route.to == own.to && route.cost < own.cost && end == 1);
        others.min_by_key(|route| route.metric()).unwrap_or(own)
    })
}

/// Returns the links of a host, each with the host's end.
fn ends_of(plan: &LabPlan, host: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
    let ends = plan
        .links
        .iter()
        .enumerate()
        .flat_map(|(l, link)| link.ends.iter().zip(0..).map(move |e| (l, e)));
    ends.filter(move |(_, (end, _))| end.host == host)
        .map(|(link, (_, end))| (link, end))
}

/// Returns every address of the lab. A translator's outside address is reached through the host at its
/// outside.
fn destinations(plan: &LabPlan) -> impl Iterator<Item = Destination> + '_ {
    plan.links.iter().enumerate().flat_map(move |(home, link)| {
        let of_end = move |end: &LinkEnd| {
            let owner = end.host;
            let addresses = end
                .addresses
                .iter()
                .map(move |(to, _)| Destination { to: *to, home, owner });
            addresses.collect::<Vec<_>>()
        };
        let outside = link.nat.map(|nat| Destination {
            to: nat.address.into(),
            home,
            owner: link.ends[1 - nat.inside].host,
        });
        link.ends.iter().flat_map(of_end).chain(outside)
    })
}

/// Returns whether packets to `to` may enter a link at an end. Translators admit no packet from outside
/// unless it belongs to a mapping from inside.
fn may_leave(link: &LinkPlan, end: usize, to: IpAddr) -> bool {
    to.is_ipv6() || link.nat.is_none_or(|nat| nat.inside == end)
}

/// Returns the next hop's address on a link.
fn gateway(link: &LinkPlan, end: usize, to: IpAddr) -> Option<IpAddr> {
    if let (Some(nat), true) = (link.nat, to.is_ipv4()) {
        return Some(nat.gateway.into());
    }
    let (here, there) = (&link.ends[end].addresses, &link.ends[1 - end].addresses);
    let shared = |ip: &IpAddr| here.iter().any(|subnet| in_subnet(*ip, *subnet));
    there
        .iter()
        .map(|(ip, _)| *ip)
        .find(|ip| ip.is_ipv4() == to.is_ipv4() && shared(ip))
}

/// Returns the cost of a route that begins with a link at an end, passes only routers, and avoids `except`.
fn cost(plan: &LabPlan, except: usize, first: (usize, usize), destination: Destination) -> Option<u32> {
    let mut seen = vec![false; plan.hosts.len()];
    seen[except] = true;
    let mut best: Option<u32> = None;
    // Each link with the end at which the route enters it, and the number of links before it.
    let mut queue = VecDeque::from([(first, 0)]);
    while let Some(((link, end), before)) = queue.pop_front() {
        let host = plan.links[link].ends[1 - end].host;
        if host == destination.owner {
            let cost = 2 * (before + 1) + u32::from(link != destination.home);
            best = Some(best.map_or(cost, |best| best.min(cost)));
        } else if plan.hosts[host].router && !seen[host] {
            seen[host] = true;
            let next = ends_of(plan, host).filter(|(l, e)| may_leave(&plan.links[*l], *e, destination.to));
            let next = next.filter(|(l, e)| !seen[plan.links[*l].ends[1 - *e].host]);
            queue.extend(next.map(|next| (next, before + 1)));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;

    fn routes_of(text: &str, host: usize) -> Vec<String> {
        let plan = LabPlan::new(&Spec::parse(text).expect("a lab")).expect("a plan");
        let v4 = plan.hosts[host].routes.iter().filter(|route| route.to.is_ipv4());
        v4.map(|route| {
            let end = &plan.links[route.link].ends[route.end];
            let gateway = route
                .gateway
                .map_or("itself".to_owned(), |gateway| gateway.to_string());
            format!("{} by {} {gateway}", route.to, end.interface)
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
    fn each_interface_has_routes_to_the_hosts_behind_it() {
        assert_eq!(
            routes_of(TWO_PATHS, 0),
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
        let routes = routes_of(TWO_PATHS, 2);
        assert_eq!(routes[..4], by_the_router);
        assert_eq!(routes[4..], ["10.77.2.1 by eth0 itself"]);
    }

    /// Returns the interfaces by which answers to 10.77.0.1 and 10.77.1.1 leave, from each address of a host.
    fn answers(text: &str, host: usize) -> Vec<String> {
        let plan = LabPlan::new(&Spec::parse(text).expect("a lab")).expect("a plan");
        let mut found = Vec::new();
        for (link, end) in ends_of(&plan, host) {
            for to in ["10.77.0.1", "10.77.1.1"] {
                let to: IpAddr = to.parse().expect("an address");
                let route = routes_from(&plan.hosts[host].routes, link, end).find(|route| route.to == to);
                let route = route.expect("a route");
                let from = &plan.links[link].ends[end].interface;
                found.push(format!(
                    "{from} to {to} by {}",
                    plan.links[route.link].ends[route.end].interface
                ));
            }
        }
        found
    }

    #[test]
    fn answers_leave_by_the_link_of_the_question() {
        let by_the_link_asked_from = [
            "eth0 to 10.77.0.1 by eth0",
            "eth0 to 10.77.1.1 by eth1",
            "eth1 to 10.77.0.1 by eth0",
            "eth1 to 10.77.1.1 by eth1",
        ];
        let direct = r#"
            host = [{ name = "client" }, { name = "server" }]
            link = [
                { name = "a", between = ["client", "server"] },
                { name = "b", between = ["client", "server"] },
            ]
        "#;
        assert_eq!(answers(direct, 1), by_the_link_asked_from);
        // Each of the client's links has its own router to the server.
        let routers = r#"
            host = [
                { name = "client" }, { name = "x", router = true }, { name = "y", router = true },
                { name = "server" },
            ]
            link = [
                { between = ["client", "x"] }, { between = ["client", "y"] },
                { between = ["x", "server"] }, { between = ["y", "server"] },
            ]
        "#;
        assert_eq!(answers(routers, 3), by_the_link_asked_from);
        // The server's links lead to one router. Answers from each address leave over its own link.
        let one = r#"
            host = [{ name = "client" }, { name = "x", router = true }, { name = "server" }]
            link = [
                { name = "a", between = ["client", "x"] }, { name = "b", between = ["client", "x"] },
                { name = "c", between = ["x", "server"] }, { name = "d", between = ["x", "server"] },
            ]
        "#;
        let by_its_own = [
            "eth0 to 10.77.0.1 by eth0",
            "eth0 to 10.77.1.1 by eth0",
            "eth1 to 10.77.0.1 by eth1",
            "eth1 to 10.77.1.1 by eth1",
        ];
        assert_eq!(answers(one, 2), by_its_own);
    }

    #[test]
    fn only_routers_forward_packets() {
        let text = TWO_PATHS.replace(", router = true", "");
        assert!(
            routes_of(&text, 2)
                .iter()
                .all(|route| !route.contains("10.77.0.1 ") && !route.contains("10.77.1.1 "))
        );
    }

    #[test]
    fn outside_hosts_have_no_route_behind_a_translator() {
        let text = r#"
            host = [{ name = "client" }, { name = "server" }]
            link = [{ between = ["client", "server"], nat = { inside = "client" } }]
        "#;
        assert_eq!(
            routes_of(text, 0),
            ["10.77.0.2 by eth0 192.168.0.1", "10.77.0.1 by eth0 192.168.0.1"]
        );
        assert!(routes_of(text, 1).is_empty());
    }
}
