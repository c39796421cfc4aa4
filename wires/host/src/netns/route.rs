//! Neighbours, routes through chosen interfaces, and rules that choose a table by the source address.

use std::ffi::c_int;
use std::net::IpAddr;

use crate::netlink::Request;

use super::NamespaceError;
use super::netlink::{Netlink, family, octets, put_route};

/// NDA_DST and NDA_LLADDR of <linux/neighbour.h>.
const NEIGHBOUR_ADDRESS: u16 = 1;
const NEIGHBOUR_LINK_ADDRESS: u16 = 2;
/// FRA_SRC of <linux/fib_rules.h>.
const RULE_SOURCE: u16 = 2;
/// FR_ACT_TO_TBL of <linux/fib_rules.h>.
const RULE_TO_TABLE: u8 = 1;

/// RTAX_CC_ALGO of <linux/rtnetlink.h>.
const CONGESTION_CONTROL: u16 = 16;

/// A route to a subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// The subnet and its prefix length.
    pub to: (IpAddr, u8),
    /// The outgoing interface.
    pub interface: &'a str,
    /// The router, on a subnet of that interface; absent if the destination itself is there.
    pub gateway: Option<IpAddr>,
    /// The metric. Among several routes to one subnet, the smallest metric counts.
    pub metric: u32,
    /// The table; `None` means the main one.
    pub table: Option<u8>,
    /// The congestion control of the kernel's connections on this route by default; `None` means the
    /// namespace's own.
    pub congestion_control: Option<&'a str>,
}

impl Netlink {
    /// Sets the hardware address of an interface.
    ///
    /// # Errors
    /// Fails if there is no such interface, or if it is not permitted.
    pub fn set_hardware_address(&mut self, name: &str, mac: [u8; 6]) -> Result<(), NamespaceError> {
        let mut set = || {
            let mut request = Request::new(libc::RTM_NEWLINK, 0);
            request.put_link(self.index(name)?, 0, 0);
            request.attribute(libc::IFLA_ADDRESS, &mac);
            self.socket.request(request)
        };
        set().map_err(NamespaceError::new(format!("give {name} a hardware address")))
    }

    /// Sets the hardware address of a neighbour permanently, so that the kernel never asks for it.
    ///
    /// # Errors
    /// Fails if there is no such interface, or if it is not permitted.
    pub fn set_neighbour(&mut self, name: &str, ip: IpAddr, mac: [u8; 6]) -> Result<(), NamespaceError> {
        let mut set = || {
            let mut request = Request::new(libc::RTM_NEWNEIGH, replace());
            request.put(&[family(ip), 0, 0, 0]);
            request.put(&self.index(name)?.to_ne_bytes());
            request.put(&libc::NUD_PERMANENT.to_ne_bytes());
            request.put(&[0, 0]);
            request.attribute(NEIGHBOUR_ADDRESS, &octets(ip));
            request.attribute(NEIGHBOUR_LINK_ADDRESS, &mac);
            self.socket.request(request)
        };
        set().map_err(NamespaceError::new(format!("name the neighbour {ip} on {name}")))
    }

    /// Adds a route, or replaces the existing one with this subnet and metric.
    ///
    /// # Errors
    /// Fails if the router is on no subnet of the interface, if there is no such congestion control, or if it
    /// is not permitted.
    pub fn set_route(&mut self, route: &Route<'_>) -> Result<(), NamespaceError> {
        let (to, prefix) = route.to;
        let mut set = || {
            let scope = match (route.gateway, to) {
                (None, IpAddr::V4(_)) => libc::RT_SCOPE_LINK,
                _ => libc::RT_SCOPE_UNIVERSE,
            };
            let mut request = Request::new(libc::RTM_NEWROUTE, replace());
            let table = route.table.unwrap_or(libc::RT_TABLE_MAIN);
            put_route(&mut request, family(to), prefix, table, scope);
            request.attribute(libc::RTA_DST, &octets(to));
            request.attribute(libc::RTA_OIF, &self.index(route.interface)?.to_ne_bytes());
            request.attribute(libc::RTA_PRIORITY, &route.metric.to_ne_bytes());
            if let Some(gateway) = route.gateway {
                request.attribute(libc::RTA_GATEWAY, &octets(gateway));
            }
            if let Some(name) = route.congestion_control {
                let metrics = request.open(libc::RTA_METRICS);
                request.string(CONGESTION_CONTROL, name);
                request.close(metrics);
            }
            self.socket.request(request)
        };
        set().map_err(NamespaceError::new(format!(
            "add a route to {to}/{prefix} by {}",
            route.interface
        )))
    }

    /// Routes packets from the address `source` by this table first.
    ///
    /// # Errors
    /// Fails if it is not permitted.
    pub fn route_by_source(&mut self, source: IpAddr, table: u8) -> Result<(), NamespaceError> {
        let bits = if source.is_ipv4() { 32 } else { 128 };
        let mut request = Request::new(libc::RTM_NEWRULE, replace());
        request.put(&[family(source), 0, bits, 0, table, 0, 0, RULE_TO_TABLE]);
        request.put(&[0; 4]);
        request.attribute(RULE_SOURCE, &octets(source));
        self.socket.request(request).map_err(NamespaceError::new(format!(
            "route packets from {source} by their source"
        )))
    }
}

fn replace() -> c_int {
    libc::NLM_F_CREATE | libc::NLM_F_REPLACE
}
