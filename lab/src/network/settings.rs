//! The kernel's parameters in a lab's namespaces.
//!
//! Nothing is sent that nobody asked for: no router solicitations, no link-local addresses and the
//! group reports that come with them. So the same seed loses the same packets.

use hawser_host::netns::{NamespaceError, set_parameter};

/// Parameters of a host, before its interfaces exist. A kernel without IPv6 lacks some.
const IPV6: &[(&str, &str)] = &[
    // No address of its own making (IN6_ADDR_GEN_MODE_NONE).
    ("addr_gen_mode", "1"),
    ("accept_ra", "0"),
    ("router_solicitations", "0"),
    ("autoconf", "0"),
    // An interface that goes down and comes back has its addresses still.
    ("keep_addr_on_down", "1"),
    // An interface that has lost its carrier is no route.
    ("ignore_routes_with_linkdown", "1"),
];
const IPV4: &[(&str, &str)] = &[
    // Several interfaces that lead to the same place are meant.
    ("rp_filter", "0"),
    ("ignore_routes_with_linkdown", "1"),
    // An address is answered for on the interface that has it.
    ("arp_ignore", "1"),
    ("arp_announce", "2"),
];

/// Sets up the calling thread's network namespace as a host's.
pub(super) fn prepare(router: bool) -> Result<(), NamespaceError> {
    for scope in ["all", "default"] {
        for (key, value) in IPV4 {
            set_parameter(&format!("net/ipv4/conf/{scope}/{key}"), value)?;
        }
    }
    mute()?;
    if router {
        set_parameter("net/ipv4/ip_forward", "1")?;
        if has_ipv6() {
            set_parameter("net/ipv6/conf/all/forwarding", "1")?;
        }
    }
    Ok(())
}

/// Keeps IPv6 from speaking by itself in the calling thread's network namespace.
pub(super) fn mute() -> Result<(), NamespaceError> {
    if !has_ipv6() {
        return Ok(());
    }
    for scope in ["all", "default"] {
        for (key, value) in IPV6 {
            set_parameter(&format!("net/ipv6/conf/{scope}/{key}"), value)?;
        }
    }
    Ok(())
}

fn has_ipv6() -> bool {
    std::path::Path::new("/proc/sys/net/ipv6/conf/default").exists()
}
