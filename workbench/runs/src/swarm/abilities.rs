//! The abilities of a program beyond the minimum. A program declares each of them, and is not tested for the
//! others.

use std::fmt;
use std::str::FromStr;

/// An ability of a transport beyond the minimum. The minimum is data in both directions once the client has
/// sent some, and closing by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Opening makes a connection at the other end too, which may then send first.
    Handshake,
    /// Its packets respect an MTU below 1500 bytes.
    AnyMtu,
    /// Both ends may connect at once.
    OpenBoth,
    /// An end that has closed still receives.
    HalfClose,
    /// After both ends have closed, all connections end within five minutes, and all their state is gone
    /// within five more.
    Ends,
    /// It sends no data for which the receiver has no room, however long the application does not read.
    FlowControl,
    /// At least 16 packets are in flight if the path allows it.
    Pipelining,
    /// A port can be reused while packets of its earlier connection are still in the network.
    Reuse,
    /// A connection fails when its peer is gone, and can be opened again when the peer is back.
    Restart,
    /// Invalid requests of an application are refused: sending after closing, connecting again from a
    /// connected port, and setting an unknown option.
    Refusals,
    /// An abort ends the peer's connection at once, and leaves no state.
    Aborts,
    /// A connection fails without a timeout if no peer listens, or if the peer's host has lost the
    /// connection.
    Resets,
    /// The times of retransmissions follow the round trip, even if it changes.
    RoundTrip,
    /// It has less data in flight when packets are lost, and more when they are not.
    Congestion,
    /// A connection survives when an address translator gives its client another port or address.
    Migration,
}

impl Ability {
    /// All abilities.
    pub const ALL: [Ability; 15] = [
        Ability::Handshake,
        Ability::AnyMtu,
        Ability::OpenBoth,
        Ability::HalfClose,
        Ability::Ends,
        Ability::FlowControl,
        Ability::Pipelining,
        Ability::Reuse,
        Ability::Restart,
        Ability::Refusals,
        Ability::Aborts,
        Ability::Resets,
        Ability::RoundTrip,
        Ability::Congestion,
        Ability::Migration,
    ];

    /// Returns its name, as in `hawser sim swarm --without half_close`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Ability::Handshake => "handshake",
            Ability::AnyMtu => "any_mtu",
            Ability::OpenBoth => "open_both",
            Ability::HalfClose => "half_close",
            Ability::Ends => "ends",
            Ability::FlowControl => "flow_control",
            Ability::Pipelining => "pipelining",
            Ability::Reuse => "reuse",
            Ability::Restart => "restart",
            Ability::Refusals => "refusals",
            Ability::Aborts => "aborts",
            Ability::Resets => "resets",
            Ability::RoundTrip => "round_trip",
            Ability::Congestion => "congestion",
            Ability::Migration => "migration",
        }
    }
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No ability has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown ability `{0}`: the abilities are handshake, any_mtu, open_both, half_close, ends, \
     flow_control, pipelining, reuse, restart, refusals, aborts, resets, round_trip, congestion, migration"
)]
pub struct UnknownAbility(pub String);

impl FromStr for Ability {
    type Err = UnknownAbility;

    fn from_str(name: &str) -> Result<Ability, UnknownAbility> {
        let known = Ability::ALL.into_iter().find(|ability| ability.name() == name);
        known.ok_or_else(|| UnknownAbility(name.to_owned()))
    }
}

/// A set of abilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities(u16);

impl Abilities {
    /// All abilities.
    pub const ALL: Abilities = Abilities((1 << Ability::ALL.len()) - 1);
    /// No abilities: the minimum.
    pub const MINIMAL: Abilities = Abilities(0);

    /// Returns true if the set contains the ability.
    #[must_use]
    pub fn has(self, ability: Ability) -> bool {
        self.0 & 1 << ability as u16 != 0
    }

    /// Adds an ability to the set.
    #[must_use]
    pub fn with(self, ability: Ability) -> Abilities {
        Abilities(self.0 | 1 << ability as u16)
    }

    /// Removes an ability from the set.
    #[must_use]
    pub fn without(self, ability: Ability) -> Abilities {
        Abilities(self.0 & !(1 << ability as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abilities_are_found_by_their_names_and_taken_one_by_one() {
        for ability in Ability::ALL {
            assert_eq!(ability.name().parse(), Ok(ability));
            let rest = Abilities::ALL.without(ability);
            assert!(!rest.has(ability) && rest.with(ability) == Abilities::ALL);
            assert!(!Abilities::MINIMAL.has(ability) && Abilities::MINIMAL.with(ability).has(ability));
        }
        let error = "flying"
            .parse::<Ability>()
            .expect_err("there is none")
            .to_string();
        assert!(
            Ability::ALL.iter().all(|ability| error.contains(ability.name())),
            "{error}"
        );
    }
}
