//! Names in a lab: every host sees files and a resolver of its own.
//!
//! * `view`: a mount namespace with the host's own `resolv.conf`, `hosts` and `nsswitch.conf`, in
//!   which the system's resolvers cannot be found
//! * `zone`: what is answered, and when; a machine
//! * `check`: what a file states of names
//! * `service`: records of services, as bytes
//! * `server`: the resolver that all hosts ask, one thread
//!
//! The hosts' own names are in `hosts`; the resolver knows what the file scripts, and that nothing
//! else exists. Nothing asks the machine's own resolver.

mod check;
mod server;
mod service;
mod view;
mod zone;

use std::fmt::Write;
use std::net::Ipv4Addr;

use crate::plan::Plan;

pub(crate) use check::check;
pub(crate) use server::{NameServer, listen};
pub(crate) use view::View;
pub(crate) use zone::Zone;

/// Where a host's resolver listens.
pub(crate) const RESOLVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 53);

/// The text of a host's `hosts` file: itself, and the others; without names that the resolver has
/// a script for.
pub(crate) fn hosts_file(plan: &Plan, zone: &Zone) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
    for host in plan.hosts.iter().filter(|host| !zone.knows(&host.name)) {
        for address in &host.known_by {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{address} {}", host.name);
        }
    }
    text
}
