//! What a switch says of priority-based flow control (PFC).

use super::{Bytes, Link, Rate, Scenario, ScenarioError, Switch};
use crate::link::pause::Thresholds;

type Checked = Result<(), ScenarioError>;

/// How much head room it takes.
const HEADROOM_HINT: &str = "2 × delay × rate / 8 + 64 bytes + 2 packets, and what a last packet may exceed pfc_xoff \
                             by: pfc_headroom = \"20kB\"";

impl Switch {
    /// Its thresholds, where it pauses.
    pub(crate) fn thresholds(&self) -> Option<Thresholds> {
        let Bytes(xoff) = self.pfc_xoff?;
        let lossless = match &self.pfc_priorities {
            None => u8::MAX,
            Some(some) => some.iter().fold(0, |bits, priority| bits | 1 << (priority & 7)),
        };
        Some(Thresholds {
            xoff,
            xon: self.pfc_xon.map_or(xoff / 2, |xon| xon.0),
            headroom: self.pfc_headroom.map_or(0, |headroom| headroom.0),
            lossless,
            priorities: self.priorities,
        })
    }

    /// Its thresholds agree with one another.
    pub(super) fn check_pfc(&self, path: &str) -> Checked {
        let error = |key: &str, message: String| ScenarioError::new(format!("{path}.{key}"), message);
        let Some(Bytes(xoff)) = self.pfc_xoff else {
            let others = [
                ("pfc_xon", self.pfc_xon.is_some()),
                ("pfc_headroom", self.pfc_headroom.is_some()),
                ("pfc_priorities", self.pfc_priorities.is_some()),
            ];
            return match others.into_iter().find(|(_, given)| *given) {
                None => Ok(()),
                Some((key, _)) => {
                    let message = "no `pfc_xoff` is given, and nothing pauses without".to_owned();
                    Err(error(key, message).with_hint("pfc_xoff = \"50kB\""))
                }
            };
        };
        if xoff == 0 {
            let message = "who may send no byte never sends".to_owned();
            return Err(error("pfc_xoff", message).with_hint("pfc_xoff = \"50kB\""));
        }
        if let Some(Bytes(xon)) = self.pfc_xon.filter(|xon| xon.0 >= xoff) {
            let message = format!("{xon} bytes are not below the {xoff} of `pfc_xoff`");
            return Err(error("pfc_xon", message).with_hint("by default it is half of `pfc_xoff`"));
        }
        if self.pfc_headroom.is_none() {
            let message = "no `pfc_headroom` is given for what comes until a pause has its effect".to_owned();
            return Err(error("pfc_xoff", message).with_hint(HEADROOM_HINT));
        }
        if let Some(some) = &self.pfc_priorities {
            if some.is_empty() {
                return Err(error("pfc_priorities", "no priority pauses".to_owned()));
            }
            if let Some(other) = some.iter().find(|priority| **priority >= self.priorities) {
                let (count, last) = (self.priorities, self.priorities - 1);
                let message = format!("there is no priority {other}: the switch has {count}");
                return Err(error("pfc_priorities", message).with_hint(format!("0 to {last}")));
            }
        }
        if self.trim_to.is_some() {
            let message = "a switch pauses who sends to it, or cuts packets that find no room".to_owned();
            return Err(error("pfc_xoff", message).with_hint("leave out `trim_to`"));
        }
        Ok(())
    }
}

impl Scenario {
    /// Whoever sends to a switch that pauses has a queue in which frames can wait.
    pub(super) fn check_paused(&self, link: &Link, path: &str) -> Checked {
        for (rules, end) in [(&link.forward, 1), (&link.backward, 0)] {
            let name = &link.between[end];
            let pauses = self
                .switch
                .iter()
                .any(|switch| switch.name == *name && switch.pfc_xoff.is_some());
            let rate = rules.rate.or(link.both.rate);
            if pauses && rate.is_none_or(|rate| rate == Rate(0)) {
                let message = format!(
                    "`{name}` pauses who sends to it, and a line without a rate has no queue to wait in"
                );
                let error = ScenarioError::new(path, message);
                return Err(error.with_hint("both = { rate = \"10Gbit/s\" }"));
            }
        }
        Ok(())
    }
}
