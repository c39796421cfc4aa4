//! The kernel's parameters in a lab's namespaces.
//!
//! The kernel sends no unsolicited packets: no router solicitations, and no link-local addresses with their
//! group reports. Runs with the same seed therefore lose the same packets.

use hawser_host::netns::{NamespaceError, set_parameter};

/// The parameters of a host before its interfaces exist. A kernel without IPv6 lacks some of them.
const IPV6: &[(&str, &str)] = &[
    // Generates no address (IN6_ADDR_GEN_MODE_NONE).
    ("addr_gen_mode", "1"),
    ("accept_ra", "0"),
    ("router_solicitations", "0"),
    ("autoconf", "0"),
    // Keeps an interface's addresses when it goes down and comes back.
    ("keep_addr_on_down", "1"),
    // Ignores routes over an interface that has lost its carrier.
    ("ignore_routes_with_linkdown", "1"),
];
const IPV4: &[(&str, &str)] = &[
    // Accepts packets on any of several interfaces that lead to the same destination.
    ("rp_filter", "0"),
    ("ignore_routes_with_linkdown", "1"),
    // Answers for an address only on the interface that has it.
    ("arp_ignore", "1"),
    ("arp_announce", "2"),
];

/// Configures the calling thread's network namespace for a host.
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

/// Stops unsolicited IPv6 packets in the calling thread's network namespace.
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
