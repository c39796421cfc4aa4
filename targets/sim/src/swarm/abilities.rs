//! What a program can do beyond the minimum, claimed one by one: nobody is blamed for what they do not promise.

use std::fmt;
use std::str::FromStr;

/// Something that a transport may be able to do beyond the minimum, which is: data in both directions once the
/// client has sent some, and the client closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Opening makes a connection at the other end too, which may send first.
    Handshake,
    /// Its packets keep to an MTU below 1500 bytes.
    AnyMtu,
    /// Both ends may connect at once.
    OpenBoth,
    /// An end that has closed still receives.
    HalfClose,
    /// After both ends have closed, all connections end within five minutes, and nothing of them is left within
    /// five more.
    Ends,
    /// Nothing is sent that the receiver has no room for, however long its application does not read.
    FlowControl,
    /// At least 16 packets are in flight where the path takes them.
    Pipelining,
    /// A port can be used again while packets of its earlier connection are still about.
    Reuse,
    /// A connection fails when its peer is gone, and can be opened again when the peer is back.
    Restart,
    /// What an application may not ask is refused: to send after closing, to connect where it is connected, to set an
    /// option that nobody knows.
    Refusals,
    /// An abort ends the peer's connection at once, and leaves nothing.
    Aborts,
    /// A connection fails without a timeout where nobody listens, or where the peer's host has forgotten it.
    Resets,
    /// What is sent again, and when, follows the round trip, also where that changes.
    RoundTrip,
    /// Less is in flight where packets are lost, and more where they are not.
    Congestion,
    /// A connection goes on though a translator of addresses gives its client another port, or another address.
    Migration,
}

impl Ability {
    /// All of them.
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

    /// Its name, as in `hawser swarm --without half_close`.
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

/// There is no ability of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no ability `{0}`; there are: handshake, any_mtu, open_both, half_close, ends, flow_control, pipelining, reuse, \
     restart, refusals, aborts, resets, round_trip, congestion, migration"
)]
pub struct UnknownAbility(pub String);

impl FromStr for Ability {
    type Err = UnknownAbility;

    fn from_str(name: &str) -> Result<Ability, UnknownAbility> {
        let known = Ability::ALL.into_iter().find(|ability| ability.name() == name);
        known.ok_or_else(|| UnknownAbility(name.to_owned()))
    }
}

/// A set of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities(u16);

impl Abilities {
    /// All of them.
    pub const ALL: Abilities = Abilities((1 << Ability::ALL.len()) - 1);
    /// None of them.
    pub const MINIMAL: Abilities = Abilities(0);

    /// Whether one is among them.
    #[must_use]
    pub fn has(self, ability: Ability) -> bool {
        self.0 & 1 << ability as u16 != 0
    }

    /// These, and one more.
    #[must_use]
    pub fn with(self, ability: Ability) -> Abilities {
        Abilities(self.0 | 1 << ability as u16)
    }

    /// These, and one less.
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
