//! The rules of a direction of a link: the simulator's rules in its vocabulary, and the lab's own.

use std::path::PathBuf;

use hawser_sim::link::Profile;
use hawser_sim::scenario;
use hawser_sim::scenario::units::{DataSize, Rate, Share, TimeSpan};
use serde::{Deserialize, Serialize};

use super::Selector;

/// The rules of a direction of a link. An absent rule stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// The rate of the link, where 0 is no limit.
    pub rate: Option<Rate>,
    /// The path of a file in mahimahi's format whose times replace the rate.
    pub trace: Option<PathBuf>,
    /// The size of the queue before the link, in bytes, where 0 is no limit.
    pub queue: Option<DataSize>,
    /// The size of the queue, in frames.
    pub queue_packets: Option<u64>,
    /// The number of waiting bytes from which frames are marked (ECN), where 0 is never.
    pub ecn: Option<DataSize>,
    /// The numbers of frames that are lost, counted from 1.
    pub drop: Option<Vec<u64>>,
    /// The share of frames that are lost.
    pub loss: Option<Share>,
    /// The mean number of frames lost in a row.
    pub burst: Option<f64>,
    /// The share of frames in which a bit flips.
    pub corrupt: Option<Share>,
    /// The share of frames that come twice.
    pub duplicate: Option<Share>,
    /// The propagation delay.
    pub delay: Option<TimeSpan>,
    /// The largest random addition to the delay.
    pub jitter: Option<TimeSpan>,
    /// The share of frames that are held back.
    pub reorder: Option<Share>,
    /// The time for which frames are held back.
    pub hold: Option<TimeSpan>,
    /// True if all frames are lost silently, while the interfaces stay up.
    pub silent: Option<bool>,
    /// The length of the largest IP packet that passes, where 0 is no limit. Longer ones are lost silently.
    pub path_mtu: Option<DataSize>,
    /// The protocols that are lost silently.
    pub block: Option<Vec<Selector>>,
}

impl Rules {
    /// Returns these rules, replaced by those that `other` contains.
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

    /// Sets the rules in a simulator's profile, which has no place for trace, silence, path MTU and blocking.
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

    /// Returns whether the kernel supports all of these rules: rate, and queue in bytes.
    #[must_use]
    pub fn suit_the_kernel(&self) -> bool {
        let rest = Rules { rate: None, queue: None, queue_packets: None, ..self.clone() };
        rest == Rules::default()
    }
}
