//! Messages at a pace, as a stream, whole, or as datagrams.

use std::time::Duration;

use hawser_time::Instant;
use serde::{Deserialize, Serialize};

use super::connection::{ConnectionScript, sizes_rng, talk};
use super::{Checked, SmallerForms, Traffic, Volume, check_one_way, reject};
use crate::app::Carries;
use crate::app::messages::{self, MessageInterval, Schedule};
use crate::app::payload::MessageSizes;
use crate::scenario::units::{Share, Sizes, TimeSpan};
use crate::scenario::{Closing, FlowSpec, Scenario, ScenarioError, defaults, is_default};

/// The maximum length of a message that is delivered whole, in bytes: the default size of a connection's send
/// buffer.
const MESSAGE_MAX: u64 = 4 << 20;
/// The maximum number of messages in a flow that are delivered whole.
const MESSAGES_MAX: u64 = 1_000_000;
/// The time for which a reader waits for datagrams after the last one was due.
const DATAGRAM_WAIT: Duration = Duration::from_secs(5);

/// Messages at a pace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessagesSpec {
    /// The number of messages that each sender sends.
    #[serde(default = "defaults::one")]
    pub count: u64,
    /// The size of each message.
    pub size: Sizes,
    /// The time from one message to the next, or the mean of that time.
    #[serde(default)]
    pub interval: TimeSpan,
    /// The distribution of due times: at even intervals, or at random.
    #[serde(default, skip_serializing_if = "is_default")]
    pub arrivals: ArrivalProcess,
    /// True if the server sends as many too.
    #[serde(default)]
    pub both_ways: bool,
    /// The delivery that the transport promises for them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delivery: Delivery,
    /// The maximum share of datagrams that may be lost.
    #[serde(default = "defaults::any", skip_serializing_if = "is_any")]
    pub may_lose: Share,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_any(value: &Share) -> bool {
    *value == defaults::any()
}

/// The distribution of due times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArrivalProcess {
    /// At even intervals.
    #[default]
    Even,
    /// Independently of one another, with one interval on average: a Poisson process.
    Poisson,
}

/// The delivery that a transport promises for messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// As a stream: the transport sees only bytes, which arrive in order, once.
    #[default]
    Stream,
    /// Each message arrives whole, once, in any order.
    Messages,
    /// Each message arrives whole, at most once, in any order.
    Datagrams,
}

impl Traffic for MessagesSpec {
    /// Checks that the promised delivery agrees with the ends that send and close.
    fn check(&self, _: &Scenario, flow: &FlowSpec, path: &str) -> Checked {
        check_one_way(flow, path, self.both_ways)?;
        if self.delivery != Delivery::Datagrams && self.may_lose.0 < 1.0 {
            let error = ScenarioError::new(format!("{path}.messages.may_lose"), "only datagrams may be lost");
            return Err(error.with_hint("give `delivery = \"datagrams\"`"));
        }
        if self.delivery == Delivery::Datagrams && flow.close == Closing::Both {
            let message = "an end that closes immediately discards the datagrams that are still under way";
            let error = ScenarioError::new(format!("{path}.close"), message);
            return Err(error.with_hint("`client`, `server` or `never`"));
        }
        if self.delivery == Delivery::Stream {
            return Ok(());
        }
        let largest = self.size.max;
        let message = format!("a message of {largest} bytes is longer than the limit of {MESSAGE_MAX}");
        reject(largest > MESSAGE_MAX, format!("{path}.messages.size"), message)?;
        let message = format!("more than {MESSAGES_MAX} messages of a flow, each of which is remembered");
        reject(
            self.count > MESSAGES_MAX,
            format!("{path}.messages.count"),
            message,
        )
    }

    fn exchanges(&self) -> u64 {
        self.count
    }

    fn volume(&self) -> Volume {
        let bytes = self.size.max.saturating_mul(self.count);
        let back = if self.both_ways { bytes } else { 0 };
        Volume { bytes, back, pause: self.interval }
    }

    /// Only a stream can be replaced with a stream.
    fn takes_turns(&self) -> bool {
        self.delivery == Delivery::Stream
    }

    fn talk(&self, start: Instant, seed: u64, label: &str) -> ConnectionScript {
        let interval = self.interval.into();
        let pace = match self.arrivals {
            ArrivalProcess::Even => MessageInterval::Even(interval),
            ArrivalProcess::Poisson => MessageInterval::Poisson(interval),
        };
        let mut rng = sizes_rng(seed, label);
        let mut draw = |count| Schedule::draw(count, self.size.bounds(), pace, &mut rng);
        let forward = draw(self.count);
        let backward = draw(if self.both_ways { self.count } else { 0 });
        let talk = talk(|side| messages::MessagesEnd::new(side, forward.clone(), backward.clone(), start));
        let sizes = |outgoing: &Schedule, incoming: &Schedule| MessageSizes {
            outgoing: outgoing.sizes(),
            incoming: incoming.sizes(),
        };
        let both = [(&forward, &backward), (&backward, &forward)];
        let carries = both.map(|(outgoing, incoming)| match self.delivery {
            Delivery::Stream => Carries::Stream,
            Delivery::Messages => Carries::Messages(sizes(outgoing, incoming)),
            Delivery::Datagrams => Carries::Datagrams {
                may_lose: (incoming.sizes().len() as f64 * self.may_lose.0) as u64,
                sizes: sizes(outgoing, incoming),
                until: forward.last_due(start) + DATAGRAM_WAIT,
            },
        });
        ConnectionScript { carries, ..talk }
    }

    fn smaller(&self, forms: &mut SmallerForms<'_, MessagesSpec>) {
        forms.lower(self.count, 1, |messages, count| messages.count = count);
        forms.lower(self.interval.0, 0, |messages, interval| {
            messages.interval = TimeSpan(interval);
        });
        forms.lower(self.size.max, 1, |messages, size| {
            messages.size = Sizes::one(size);
        });
        if self.both_ways {
            forms.with(|messages| messages.both_ways = false);
        }
    }
}
