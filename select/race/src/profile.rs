//! The rules of a race, as data.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The rules of a race. All times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Profile {
    /// Its name, in configurations and results.
    pub name: Cow<'static, str>,
    /// How candidates are put in order.
    pub order: Order,
    /// How that order is mixed, so that one broken family or transport costs one delay, not many.
    pub interleave: Interleave,
    /// The time between one start and the next.
    pub spacing: Spacing,
    /// How long after the first candidate the race waits for the answers that it prefers
    /// (RFC 8305, 3: the Resolution Delay).
    pub resolution_delay_ms: u32,
    /// Which answers these are.
    pub awaited: Awaited,
    /// Whether a failure starts the next candidate at once, and whether one starts at once when
    /// nothing is under way. Without it each keeps the time that its place gives it.
    pub failure_starts_next: bool,
    /// Whether attempts that have lost are cancelled, and those that wait are dropped.
    pub losers_are_cancelled: bool,
    /// What wins.
    pub success: Success,
    /// How long a candidate that won before is left alone; without it winners of before are raced
    /// like others.
    pub head_start: Option<HeadStart>,
    /// How long after the last start a last resort follows (RFC 8305, 7.2).
    pub last_resort_delay_ms: u32,
    /// How long an attempt has before it is given up as [`crate::Failure::Timeout`]. Transports may
    /// give up sooner.
    pub attempt_limit_ms: u32,
}

/// How candidates are put in order, before they are mixed. Those known to fail or to be blocked come
/// after the others, and last resorts after these, by every rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// By priority, then as given: the policy has spoken (NEAT).
    Given,
    /// By priority, then RFC 6724's rank, expected round-trip time, used before, as given
    /// (RFC 8305, 4).
    Addresses,
    /// First what a service record names, by SvcPriority; then as [`Order::Addresses`] (version 3, sorting, without keys
    /// for an encrypted ClientHello, which no client here sends).
    Services,
}

/// How an order is mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interleave {
    /// Not at all.
    Nothing,
    /// Address families take turns within a priority, after so many of the first
    /// (RFC 8305, 4: the First Address Family Count); then priorities take turns.
    Families {
        /// How many of the first family, at least 1.
        first: u8,
    },
    /// Transports and families take turns within a service priority: the other transport, the other
    /// family, the other of both (version 3: the Preferred Protocol Combination Count).
    TransportsAndFamilies {
        /// How many of the first combination, at least 1.
        first: u8,
    },
}

/// The time between one start and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    /// A candidate of priority p starts p steps after one of priority 0 (NEAT, Algorithm 1).
    Priority {
        /// One class's delay.
        step_ms: u32,
    },
    /// Always the same (RFC 8305, 5: the Connection Attempt Delay).
    Fixed {
        /// The delay.
        delay_ms: u32,
    },
    /// When the attempt before is expected to send its first packet again: three times the round-trip
    /// time (RFC 6298, 2.2: SRTT = R, RTTVAR = R/2, RTO = SRTT + 4·RTTVAR), within bounds.
    Predicted {
        /// Where no round-trip time is known.
        fallback_ms: u32,
        /// The Minimum Connection Attempt Delay.
        min_ms: u32,
        /// The Maximum Connection Attempt Delay.
        max_ms: u32,
    },
}

/// The answers that are worth a resolution delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Awaited {
    /// IPv4 addresses.
    pub ipv4: bool,
    /// IPv6 addresses.
    pub ipv6: bool,
    /// Service records.
    pub service: bool,
}

/// What wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Success {
    /// The transport's connection, whatever is still to be done over it.
    Transport,
    /// The handshake that the request needs.
    Handshake,
}

/// How long a candidate that won before is left alone: twice what connecting took then, within
/// bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HeadStart {
    /// At least so long.
    pub min_ms: u32,
    /// At most so long.
    pub max_ms: u32,
}

/// What is wrong with a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("profile `{profile}`: {field} is {found} and must be {expected}")]
pub struct ProfileError {
    /// The profile's name.
    pub profile: String,
    /// The field's path.
    pub field: &'static str,
    /// What it is.
    pub found: u32,
    /// What it must be.
    pub expected: &'static str,
}

/// The minimum time between two starts by the clock alone (RFC 8305, 5: "MUST NOT be ... within 10
/// milliseconds").
const MIN_DELAY_MS: u32 = 10;
/// The same, as a duration.
pub(crate) const MIN_DELAY: Duration = Duration::from_millis(MIN_DELAY_MS as u64);
/// Maximum of any time in a profile: an hour.
const MAX_MS: u32 = 3_600_000;

impl Profile {
    /// NEAT's rules with its faults mended: 10 ms for each class of priority, 100 ms for names.
    ///
    /// Departures from the original, on purpose: a failure starts the next at once, losers are
    /// cancelled, success is the handshake that the request needs, a winner of before starts alone.
    pub const NEAT: Profile = Profile {
        name: Cow::Borrowed("neat"),
        order: Order::Given,
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

    /// Algorithm 1 of the NEAT paper to the letter, for comparison: every candidate is tried at the
    /// time that its priority gives it, whatever becomes of the others, and the transport's
    /// connection wins. It still starts nothing with less security than asked for, and what lost is
    /// cached as lost, not as failed.
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
    /// Departures, on purpose: a failure starts the next at once, even within the 10 ms that two
    /// starts by the clock keep (what failed loads no network); success is the handshake that the
    /// request needs, not TCP's; a winner of before starts alone; candidates of different policy
    /// priority take turns, too, so that the best class costs one delay where nothing answers.
    /// Service records, where they are asked for, are waited for like IPv6 addresses (RFC 9460, 5.1).
    pub const RFC8305: Profile = Profile {
        name: Cow::Borrowed("rfc8305"),
        order: Order::Addresses,
        interleave: Interleave::Families { first: 1 },
        spacing: Spacing::Fixed { delay_ms: 250 },
        resolution_delay_ms: 50,
        awaited: Awaited { ipv4: false, ipv6: true, service: true },
        head_start: Some(HeadStart { min_ms: 250, max_ms: 2000 }),
        ..Profile::NEAT
    };

    /// The draft of happy eyeballs version 3 (draft-ietf-happy-happyeyeballs-v3).
    ///
    /// Departures, on purpose: as those of [`Profile::RFC8305`]; groups of different service priority
    /// are not mixed with each other.
    pub const VERSION3: Profile = Profile {
        name: Cow::Borrowed("v3"),
        order: Order::Services,
        interleave: Interleave::TransportsAndFamilies { first: 1 },
        spacing: Spacing::Predicted { fallback_ms: 250, min_ms: 100, max_ms: 2000 },
        ..Profile::RFC8305
    };

    /// All that come with Hawser.
    pub const ALL: [Profile; 4] = [
        Profile::NEAT,
        Profile::NEAT_ORIGINAL,
        Profile::RFC8305,
        Profile::VERSION3,
    ];

    /// The profile of this name: `neat`, `neat-original`, `rfc8305`, `v3`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|profile| profile.name == name)
    }

    /// Whether its numbers make sense.
    ///
    /// # Errors
    /// What does not: a delay by the clock under 10 ms, bounds in the wrong order, a time longer than
    /// an hour, a count of nothing.
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
    /// How long one is left alone that took so long when it won.
    pub(crate) fn of(self, took: Duration) -> Duration {
        let max = milliseconds(self.max_ms);
        took.saturating_mul(2)
            .clamp(milliseconds(self.min_ms).min(max), max)
    }
}

impl Spacing {
    /// The time after a start of class `last`, whose round trip takes so long, until one of class
    /// `next`.
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
    fn profiles_are_data() {
        let text = serde_json::to_string(&Profile::VERSION3).expect("a profile");
        assert_eq!(
            serde_json::from_str::<Profile>(&text).expect("the same"),
            Profile::VERSION3
        );
        assert!(serde_json::from_str::<Profile>(&text.replace("attempt-limit-ms", "attempt-limit")).is_err());
    }

    #[test]
    fn senseless_numbers_are_refused() {
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

    /// RFC 6298, 2.2 by hand: R = 100 ms gives SRTT 100, RTTVAR 50, RTO 300 (without its floor of a
    /// second); bounds of RFC 8305, 5.
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
