//! Where a client wants to go, and whether it may: [`check`], a pure function of the *resolved* address.
//!
//! Invariants: nothing is allowed that no rule allows. An address that the registries of special
//! purposes name (`special`), or that is this machine's own, is allowed only by a rule that names it by
//! address, no wider than what makes it special: `0.0.0.0/0` does not admit `127.0.0.1`, and
//! `169.254.0.0/16` does not admit the metadata service within it.

mod rules;
mod special;

use std::net::IpAddr;

use hawser::gateway::Destination;
use hawser::resolve::nat64::Prefix;

pub use rules::{AllowError, AllowList};
pub use special::Class;

use special::Special;

/// Why a destination is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No rule allows it.
    #[error("no rule allows it")]
    NoRule,
    /// It is special, and no rule names it by address.
    #[error("{address} is {class}, and no rule names it by address")]
    Special {
        /// The address.
        address: IpAddr,
        /// What it is.
        class: Class,
    },
}

/// Whether `destination`, which resolved to `address`, may be connected to there. `own`: the addresses
/// of this machine; `nat64`: the prefixes of this network's translators.
///
/// # Errors
/// It may not; why.
pub fn check(
    destination: &Destination,
    address: IpAddr,
    allow: &AllowList,
    own: &[IpAddr],
    nat64: &[Prefix],
) -> Result<(), Refusal> {
    let port = destination.port();
    let special = match Special::of(address, nat64) {
        // Loopback is every machine's own: the registry's block is enough.
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
