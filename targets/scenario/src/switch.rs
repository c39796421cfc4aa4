//! Switches: what their ports have.

use serde::{Deserialize, Serialize};

use super::{Bytes, Profile, ScenarioError, Share, defaults, is_default, is_one_priority};

/// A switch: it stores frames and forwards them to where they want to go, along shortest paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Its name, which no host has.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Strict priorities of each port, 1 to 8, by the precedence of the packets' IP headers.
    #[serde(default = "defaults::one_priority", skip_serializing_if = "is_one_priority")]
    pub priorities: u8,
    /// Bytes that wait at each port; if they are shared, at all of them together. What does not fit is lost, or cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Bytes>,
    /// Whether all ports share the buffer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared: bool,
    /// Bytes before a packet, at its port, from which on it is marked (ECN).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_above: Option<Bytes>,
    /// Bytes from which on all are marked where there is such a threshold: from `mark_above` on the share of those that are
    /// rises evenly to `mark_share` there (as DCQCN wants it: Zhu and others, SIGCOMM 2015, Figure 5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_all_above: Option<Bytes>,
    /// The share of packets that are marked just below `mark_all_above`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_share: Option<Share>,
    /// To how many bytes packets are cut that find their queue full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trim_to: Option<Bytes>,
    /// Whether packets for which even what is left of them finds no room go back to their senders.
    #[serde(default, skip_serializing_if = "is_default")]
    pub return_to_sender: bool,
    /// Whether each packet takes a path of its own where several are equally short, and which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spray: Option<Spray>,
    /// Bytes that wait of what came on a port with a priority, at which its sender is asked to pause (PFC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc_xoff: Option<Bytes>,
    /// Bytes at which it is asked to go on; by default half of those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc_xon: Option<Bytes>,
    /// Bytes beyond `pfc_xoff` for which there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc_headroom: Option<Bytes>,
    /// Which priorities pause; by default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc_priorities: Option<Vec<u8>>,
}

impl Default for Switch {
    fn default() -> Switch {
        Switch {
            name: String::new(),
            priorities: defaults::one_priority(),
            buffer: None,
            shared: false,
            mark_above: None,
            mark_all_above: None,
            mark_share: None,
            trim_to: None,
            return_to_sender: false,
            spray: None,
            pfc_xoff: None,
            pfc_xon: None,
            pfc_headroom: None,
            pfc_priorities: None,
        }
    }
}

impl Switch {
    /// Puts what it gives each of its ports into a profile.
    pub fn apply(&self, profile: &mut Profile) {
        if let Some(buffer) = self.buffer {
            // Its memory is counted in bytes alone.
            profile.queue_packets = u64::MAX;
            if !self.shared {
                profile.queue_bytes = buffer.0;
            }
        }
        profile.ecn_bytes = self.mark_above.map(|above| above.0);
        let share = self.mark_share.map_or(1.0, |share| share.0);
        profile.ecn_all = self.mark_all_above.map(|above| (above.0, share));
    }

    /// Its thresholds for marking agree with one another.
    pub(super) fn check_marking(&self, path: &str) -> Result<(), ScenarioError> {
        let error = |key: &str, message: String| {
            let error = ScenarioError::new(format!("{path}.{key}"), message);
            error.with_hint("mark_above = \"5kB\", mark_all_above = \"200kB\", mark_share = \"1%\"")
        };
        let Some(Bytes(all)) = self.mark_all_above else {
            return match self.mark_share {
                Some(_) => Err(error(
                    "mark_share",
                    "no `mark_all_above` is given, below which it holds".to_owned(),
                )),
                None => Ok(()),
            };
        };
        match self.mark_above {
            Some(Bytes(above)) if above < all => Ok(()),
            _ => Err(error(
                "mark_all_above",
                format!("{all} bytes are not more than `mark_above`"),
            )),
        }
    }
}

/// Which of several equal paths each packet takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spray {
    /// A random one.
    Random,
    /// The next one.
    RoundRobin,
}
