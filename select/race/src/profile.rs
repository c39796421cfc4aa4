//! The rules of a race, as data.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The rules of a race. All times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Profile {
    /// The name, in configurations and results.
    pub name: Cow<'static, str>,
    /// The order of candidates.
    pub order: CandidateOrder,
    /// The interleaving of that order, by which one broken family or transport costs one delay, not many.
    pub interleave: Interleave,
    /// The time between one start and the next.
    pub spacing: Spacing,
    /// The time, in milliseconds, for which the race waits for preferred answers after the first candidate
    /// (RFC 8305, 3: the Resolution Delay).
    pub resolution_delay_ms: u32,
    /// The answers that the race waits for.
    pub awaited: Awaited,
    /// True if a failure starts the next candidate at once, and if a candidate starts at once when no attempt
    /// is running. Otherwise each candidate keeps the start time that its position gives it.
    pub failure_starts_next: bool,
    /// True if losing attempts are cancelled, and waiting candidates are dropped.
    pub losers_are_cancelled: bool,
    /// The event that wins the race.
    pub success: Success,
    /// The time for which an earlier winner runs alone. Without it, earlier winners race like other
    /// candidates.
    pub head_start: Option<HeadStart>,
    /// The time, in milliseconds, from the last start to that of a last resort (RFC 8305, 7.2).
    pub last_resort_delay_ms: u32,
    /// The time, in milliseconds, after which an attempt fails with [`crate::Failure::Timeout`]. Transports
    /// may time out sooner.
    pub attempt_limit_ms: u32,
}

/// The order of candidates before interleaving. By every rule, candidates known to fail or to be blocked come
/// after the others, and last resorts after these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CandidateOrder {
    /// By priority, then in the given order, because the policy has decided (NEAT).
    Given,
    /// By priority, then RFC 6724's rank, expected round-trip time, earlier use, and the given order (RFC
    /// 8305, 4).
    Addresses,
    /// Candidates that a service record names come first, by SvcPriority, then as in
    /// [`CandidateOrder::Addresses`]. This is version 3's sorting without keys for an encrypted ClientHello,
    /// which no client here sends.
    Services,
}

/// The interleaving of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interleave {
    /// The order is not interleaved.
    Nothing,
    /// Address families alternate within a priority, after a number of candidates of the first family (RFC
    /// 8305, 4: the First Address Family Count). Then priorities alternate.
    Families {
        /// The number of candidates of the first family, at least 1.
        first: u8,
    },
    /// Transports and families alternate within a service priority: the other transport, the other family,
    /// the other of both (version 3: the Preferred Protocol Combination Count).
    TransportsAndFamilies {
        /// The number of candidates of the first combination, at least 1.
        first: u8,
    },
}

/// The time between one start and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    /// A candidate of priority p starts p steps after one of priority 0 (NEAT, Algorithm 1).
    Priority {
        /// The delay of one class, in milliseconds.
        step_ms: u32,
    },
    /// The delay is constant (RFC 8305, 5: the Connection Attempt Delay).
    Fixed {
        /// The delay, in milliseconds.
        delay_ms: u32,
    },
    /// The next attempt starts when the previous one is expected to retransmit its first packet: after three
    /// times the round-trip time (RFC 6298, 2.2: SRTT = R, RTTVAR = R/2, RTO = SRTT + 4·RTTVAR), within
    /// bounds.
    Predicted {
        /// The delay without a known round-trip time, in milliseconds.
        fallback_ms: u32,
        /// The Minimum Connection Attempt Delay, in milliseconds.
        min_ms: u32,
        /// The Maximum Connection Attempt Delay, in milliseconds.
        max_ms: u32,
    },
}

/// The answers that are worth a resolution delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Awaited {
    /// True if the race waits for IPv4 addresses.
    pub ipv4: bool,
    /// True if the race waits for IPv6 addresses.
    pub ipv6: bool,
    /// True if the race waits for service records.
    pub service: bool,
}

/// The event that wins the race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Success {
    /// The transport's connection, independent of further handshakes over it.
    Transport,
    /// The handshake that the request needs.
    Handshake,
}

/// The time for which an earlier winner runs alone: twice the time that its connection took, within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HeadStart {
    /// The minimum, in milliseconds.
    pub min_ms: u32,
    /// The maximum, in milliseconds.
    pub max_ms: u32,
}

/// A field of a profile is out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("profile `{profile}`: {field} is {found} and must be {expected}")]
pub struct ProfileError {
    /// The name of the profile.
    pub profile: String,
    /// The path of the field.
    pub field: &'static str,
    /// The value of the field.
    pub found: u32,
    /// A description of the permitted values.
    pub expected: &'static str,
}

/// The minimum time between two starts by the clock alone (RFC 8305, 5: "MUST NOT be ... within 10
/// milliseconds").
const MIN_DELAY_MS: u32 = 10;
/// `MIN_DELAY_MS` as a duration.
pub(crate) const MIN_DELAY: Duration = Duration::from_millis(MIN_DELAY_MS as u64);
/// The maximum of any time in a profile: an hour.
const MAX_MS: u32 = 3_600_000;

impl Profile {
    /// NEAT's rules without their faults: 10 ms for each class of priority, 100 ms for names.
    ///
    /// Deliberate departures from the original:
    ///
    /// * A failure starts the next candidate at once.
    /// * Losers are cancelled.
    /// * Success is the handshake that the request needs.
    /// * An earlier winner starts alone.
    pub const NEAT: Profile = Profile {
        name: Cow::Borrowed("neat"),
        order: CandidateOrder::Given,
        interleave: Interleave::Nothing,
        spacing: Spacing::Priority { step_ms: 10 },
        resolution_delay_ms: 100,
        awaited: Awaited { ipv4: true, ipv6: true, service: true },
        failure_starts_next: true,
        losers_are_cancelled: true,
        success: Success::Handshake,
        head_start: Some(HeadStart { min_ms: 100, max_ms: 2000 }),
        last_resort_delay_ms: 2000,
        attempt_limit_ms: 30_000,
    };

    /// Algorithm 1 of the NEAT paper as written, for comparison. Every candidate is tried at the time that
    /// its priority gives it, independent of the others, and the transport's connection wins. Even so, no
    /// candidate with less security than requested is started, and losers are cached as lost, not as failed.
    pub const NEAT_ORIGINAL: Profile = Profile {
        name: Cow::Borrowed("neat-original"),
        failure_starts_next: false,
        losers_are_cancelled: false,
        success: Success::Transport,
        head_start: None,
        ..Profile::NEAT
    };

    /// RFC 8305 (happy eyeballs version 2).
    ///
    /// Deliberate departures:
    ///
    /// * A failure starts the next candidate at once, even within the 10 ms between two starts by the clock,
    ///   because a failed attempt does not load the network.
    /// * Success is the handshake that the request needs, not TCP's.
    /// * An earlier winner starts alone.
    /// * Candidates of different policy priority also alternate, so that the best class costs one delay if no
    ///   peer answers.
    /// * If service records are requested, the race waits for them as for IPv6 addresses (RFC 9460, 5.1).
    pub const RFC8305: Profile = Profile {
        name: Cow::Borrowed("rfc8305"),
        order: CandidateOrder::Addresses,
        interleave: Interleave::Families { first: 1 },
        spacing: Spacing::Fixed { delay_ms: 250 },
        resolution_delay_ms: 50,
        awaited: Awaited { ipv4: false, ipv6: true, service: true },
        head_start: Some(HeadStart { min_ms: 250, max_ms: 2000 }),
        ..Profile::NEAT
    };

    /// The draft of happy eyeballs version 3 (draft-ietf-happy-happyeyeballs-v3).
    ///
    /// Deliberate departures: those of [`Profile::RFC8305`], and groups of different service priority are not
    /// interleaved with each other.
    pub const VERSION3: Profile = Profile {
        name: Cow::Borrowed("v3"),
        order: CandidateOrder::Services,
        interleave: Interleave::TransportsAndFamilies { first: 1 },
        spacing: Spacing::Predicted { fallback_ms: 250, min_ms: 100, max_ms: 2000 },
        ..Profile::RFC8305
    };

    /// All built-in profiles.
    pub const ALL: [Profile; 4] = [
        Profile::NEAT,
        Profile::NEAT_ORIGINAL,
        Profile::RFC8305,
        Profile::VERSION3,
    ];

    /// Returns the profile of this name: `neat`, `neat-original`, `rfc8305`, `v3`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|profile| profile.name == name)
    }

    /// Checks the numbers of the profile.
    ///
    /// # Errors
    /// A delay by the clock is under 10 ms, bounds are in the wrong order, a time is longer than an hour, or
    /// a count is zero.
    pub fn check(&self) -> Result<(), ProfileError> {
        let time = "at most 3600000 (an hour)";
        let floor = "at least 10 (RFC 8305, section 5)";
        let mut fields = vec![
            (
                "resolution-delay-ms",
                self.resolution_delay_ms,
                self.resolution_delay_ms <= MAX_MS,
                time,
            ),
            (
                "last-resort-delay-ms",
                self.last_resort_delay_ms,
                self.last_resort_delay_ms <= MAX_MS,
                time,
            ),
            (
                "attempt-limit-ms",
                self.attempt_limit_ms,
                (1..=MAX_MS).contains(&self.attempt_limit_ms),
                "between 1 and 3600000 (an hour)",
            ),
        ];
        match self.spacing {
            Spacing::Priority { step_ms } => {
                fields.push(("spacing.priority.step-ms", step_ms, step_ms <= MAX_MS, time));
            }
            Spacing::Fixed { delay_ms } => {
                fields.push((
                    "spacing.fixed.delay-ms",
                    delay_ms,
                    delay_ms >= MIN_DELAY_MS,
                    floor,
                ));
                fields.push(("spacing.fixed.delay-ms", delay_ms, delay_ms <= MAX_MS, time));
            }
            Spacing::Predicted { fallback_ms, min_ms, max_ms } => {
                let between = "between min-ms and max-ms";
                let is_between = (min_ms..=max_ms).contains(&fallback_ms);
                fields.push(("spacing.predicted.min-ms", min_ms, min_ms >= MIN_DELAY_MS, floor));
                fields.push(("spacing.predicted.max-ms", max_ms, max_ms <= MAX_MS, time));
                fields.push(("spacing.predicted.fallback-ms", fallback_ms, is_between, between));
            }
        }
        if let Some(HeadStart { min_ms, max_ms }) = self.head_start {
            fields.push(("head-start.min-ms", min_ms, min_ms <= max_ms, "at most max-ms"));
            fields.push(("head-start.max-ms", max_ms, max_ms <= MAX_MS, time));
        }
        if let Interleave::Families { first } | Interleave::TransportsAndFamilies { first } = self.interleave
        {
            fields.push(("interleave.first", first.into(), first > 0, "at least 1"));
        }
        match fields.into_iter().find(|(_, _, is_good, _)| !is_good) {
            None => Ok(()),
            Some((field, found, _, expected)) => {
                Err(ProfileError { profile: self.name.to_string(), field, found, expected })
            }
        }
    }

    pub(crate) fn resolution_delay(&self) -> Duration {
        milliseconds(self.resolution_delay_ms)
    }

    pub(crate) fn attempt_limit(&self) -> Duration {
        milliseconds(self.attempt_limit_ms)
    }
}

impl HeadStart {
    /// Returns the head start of a candidate that took this long when it won.
    pub(crate) fn duration_after(self, took: Duration) -> Duration {
        let max = milliseconds(self.max_ms);
        took.saturating_mul(2)
            .clamp(milliseconds(self.min_ms).min(max), max)
    }
}

impl Spacing {
    /// Returns the time from the start of a candidate of class `last` with this round-trip time to the start
    /// of one of class `next`.
    pub(crate) fn after(self, last: u16, round_trip: Option<Duration>, next: u16) -> Duration {
        match self {
            Spacing::Priority { step_ms } => {
                milliseconds(step_ms).saturating_mul(next.saturating_sub(last).into())
            }
            Spacing::Fixed { delay_ms } => milliseconds(delay_ms),
            Spacing::Predicted { fallback_ms, min_ms, max_ms } => match round_trip {
                None => milliseconds(fallback_ms),
                Some(round_trip) => {
                    let max = milliseconds(max_ms);
                    round_trip
                        .saturating_mul(3)
                        .clamp(milliseconds(min_ms).min(max), max)
                }
            },
        }
    }
}

pub(crate) fn milliseconds(count: u32) -> Duration {
    Duration::from_millis(count.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profiles_that_come_with_hawser_are_good() {
        for profile in Profile::ALL {
            assert_eq!(profile.check(), Ok(()));
            assert_eq!(Profile::by_name(&profile.name), Some(profile));
        }
        assert_eq!(Profile::by_name("v4"), None);
    }

    #[test]
    fn profiles_survive_serialization() {
        let text = serde_json::to_string(&Profile::VERSION3).expect("a profile");
        assert_eq!(
            serde_json::from_str::<Profile>(&text).expect("the same"),
            Profile::VERSION3
        );
        assert!(serde_json::from_str::<Profile>(&text.replace("attempt-limit-ms", "attempt-limit")).is_err());
    }

    #[test]
    fn profiles_with_invalid_numbers_are_refused() {
        let wrong = [
            Profile { spacing: Spacing::Fixed { delay_ms: 9 }, ..Profile::RFC8305 },
            Profile { spacing: Spacing::Fixed { delay_ms: u32::MAX }, ..Profile::RFC8305 },
            Profile {
                spacing: Spacing::Predicted { fallback_ms: 250, min_ms: 300, max_ms: 200 },
                ..Profile::VERSION3
            },
            Profile { interleave: Interleave::Families { first: 0 }, ..Profile::RFC8305 },
            Profile { attempt_limit_ms: 0, ..Profile::NEAT },
            Profile { head_start: Some(HeadStart { min_ms: 2, max_ms: 1 }), ..Profile::NEAT },
        ];
        for profile in wrong {
            let error = profile.check().expect_err("a senseless number");
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("profile `{}`", profile.name)),
                "{error}"
            );
        }
    }

    /// RFC 6298, 2.2 by hand: R = 100 ms gives SRTT 100, RTTVAR 50, RTO 300 (without its floor of a second);
    /// bounds of RFC 8305, 5.
    #[test]
    fn delays_follow_the_round_trip() {
        let Spacing::Predicted { .. } = Profile::VERSION3.spacing else {
            panic!("it predicts")
        };
        let after = |ms| {
            Profile::VERSION3
                .spacing
                .after(0, Some(Duration::from_millis(ms)), 0)
                .as_millis()
        };
        assert_eq!(
            [after(100), after(1), after(40), after(5000)],
            [300, 100, 120, 2000]
        );
        assert_eq!(Profile::VERSION3.spacing.after(0, None, 0).as_millis(), 250);
        assert_eq!(Profile::NEAT.spacing.after(1, None, 4).as_millis(), 30);
    }
}
