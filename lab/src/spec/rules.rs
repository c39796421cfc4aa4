//! What a direction of a link does: the simulator's rules in its words, and the lab's own.

use std::path::PathBuf;

use hawser_sim::link::Profile;
use hawser_sim::scenario;
use hawser_sim::scenario::units::{Bytes, Rate, Share, Span};
use serde::{Deserialize, Serialize};

use super::Selector;

/// What a direction of a link does; what is not given stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// The line's rate; 0: no limit.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// A file in mahimahi's format whose times stand in for the rate.
    #[serde(default)]
    pub trace: Option<PathBuf>,
    /// Bytes that the queue in front of it holds; 0: no limit.
    #[serde(default)]
    pub queue: Option<Bytes>,
    /// Frames that it holds.
    #[serde(default)]
    pub queue_packets: Option<u64>,
    /// Bytes waiting from which on frames are marked (ECN); 0: never.
    #[serde(default)]
    pub ecn: Option<Bytes>,
    /// Numbers of frames that are lost, the first being 1.
    #[serde(default)]
    pub drop: Option<Vec<u64>>,
    /// Share of frames lost.
    #[serde(default)]
    pub loss: Option<Share>,
    /// Mean number of frames lost in a row.
    #[serde(default)]
    pub burst: Option<f64>,
    /// Share of frames in which a bit flips.
    #[serde(default)]
    pub corrupt: Option<Share>,
    /// Share of frames that come twice.
    #[serde(default)]
    pub duplicate: Option<Share>,
    /// Propagation delay.
    #[serde(default)]
    pub delay: Option<Span>,
    /// How much it varies on top of that, at most.
    #[serde(default)]
    pub jitter: Option<Span>,
    /// Share of frames held back.
    #[serde(default)]
    pub reorder: Option<Share>,
    /// For how long.
    #[serde(default)]
    pub hold: Option<Span>,
    /// Whether everything is lost without a sign: the interfaces stay up.
    #[serde(default)]
    pub silent: Option<bool>,
    /// The length of an IP packet that passes, at most: longer ones are lost without a sign; 0: no limit.
    #[serde(default)]
    pub path_mtu: Option<Bytes>,
    /// Protocols that are lost without a sign.
    #[serde(default)]
    pub block: Option<Vec<Selector>>,
}

impl Rules {
    /// These rules with what `other` gives in their place.
    #[must_use]
    pub fn overridden_by(&self, other: &Rules) -> Rules {
        macro_rules! merge {
            ($($field:ident),*) => { Rules { $($field: other.$field.clone().or_else(|| self.$field.clone()),)* } };
        }
        merge!(
            rate,
            trace,
            queue,
            queue_packets,
            ecn,
            drop,
            loss,
            burst,
            corrupt,
            duplicate,
            delay,
            jitter,
            reorder,
            hold,
            silent,
            path_mtu,
            block
        )
    }

    /// Puts what is given into a profile; trace, silence, path MTU and blocking have no place there.
    pub fn apply(&self, profile: &mut Profile) {
        let rules = scenario::Rules {
            rate: self.rate,
            queue: self.queue,
            queue_packets: self.queue_packets,
            ecn: self.ecn,
            drop: self.drop.clone(),
            loss: self.loss,
            burst: self.burst,
            corrupt: self.corrupt,
            duplicate: self.duplicate,
            delay: self.delay,
            jitter: self.jitter,
            reorder: self.reorder,
            hold: self.hold,
        };
        rules.apply(profile);
    }

    /// Whether the kernel can do all of it: rate and queue in bytes.
    #[must_use]
    pub fn suit_the_kernel(&self) -> bool {
        let rest = Rules { rate: None, queue: None, queue_packets: None, ..self.clone() };
        rest == Rules::default()
    }
}
