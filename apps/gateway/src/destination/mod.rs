//! The destinations of clients, and the check of whether they are allowed: [`check`], a pure function of the
//! *resolved* address.
//!
//! Invariants: a destination is allowed only by a rule. An address in the registries of special purposes
//! (`special`), or one of this machine's own, needs a rule that names it by address. The rule may be no wider
//! than the block that makes it special: `0.0.0.0/0` does not admit `127.0.0.1`, and `169.254.0.0/16` does
//! not admit the metadata service within it.

mod rules;
mod special;

use std::net::IpAddr;

use hawser::race::resolve::nat64::Prefix;
use hawser::session::relay::Destination;

pub use rules::{AllowError, AllowList};
pub use special::Class;

use special::Special;

/// A destination is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No rule allows it.
    #[error("no rule allows it")]
    NoRule,
    /// The address is special, and no rule names it by address.
    #[error("{address} is {class}, and no rule allows it by its address")]
    Special {
        address: IpAddr,
        /// The class of the address.
        class: Class,
    },
}

/// Checks whether a connection to `destination`, which resolved to `address`, is allowed. `own` has the
/// addresses of this machine, and `nat64` the prefixes of this network's translators.
///
/// # Errors
/// Fails with the reason if the connection is not allowed.
pub fn check(
    destination: &Destination,
    address: IpAddr,
    allow: &AllowList,
    own: &[IpAddr],
    nat64: &[Prefix],
) -> Result<(), Refusal> {
    let port = destination.port();
    let special = match Special::from_address(address, nat64) {
        // Loopback belongs to every machine, so the registry's block is sufficient.
        Some(special) if special.class == Class::Loopback => Some(special),
        special => Special::own(address, own, nat64).or(special),
    };
    match special {
        Some(special) if allow.names_address(address, port, special.within) => Ok(()),
        Some(special) => Err(Refusal::Special { address, class: special.class }),
        None if allow.allows(destination.host(), address, port) => Ok(()),
        None => Err(Refusal::NoRule),
    }
}

#[cfg(test)]
mod tests;
