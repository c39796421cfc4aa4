//! Names in a lab: every host has files and a resolver of its own.
//!
//! * `view`: a mount namespace with the host's own `resolv.conf`, `hosts` and `nsswitch.conf`, which hides
//!   the system's resolvers
//! * `zone`: the answers and their times; a machine
//! * `check`: checks of the names in a file
//! * `service`: records of services, as bytes
//! * `server`: the resolver of all hosts, one thread
//!
//! The hosts' own names are in `hosts`. The resolver knows the names that the file scripts, and answers that
//! all others do not exist. It never asks the machine's own resolver.

mod check;
mod server;
mod service;
mod view;
mod zone;

use std::fmt::Write;
use std::net::Ipv4Addr;

use crate::plan::LabPlan;

pub(crate) use check::check;
pub(crate) use server::{NameServer, listen};
pub(crate) use view::View;
pub(crate) use zone::Zone;

/// The address of a host's resolver.
pub(crate) const RESOLVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 53);

/// Returns the text of a host's `hosts` file: itself and the other hosts, without names for which the
/// resolver has a script.
pub(crate) fn hosts_file(plan: &LabPlan, zone: &Zone) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
    for host in plan.hosts.iter().filter(|host| !zone.knows(&host.name)) {
        for address in &host.known_by {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{address} {}", host.name);
        }
    }
    text
}
