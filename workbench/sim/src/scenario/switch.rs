//! Switches and the settings of their ports.

use serde::{Deserialize, Serialize};

use super::{DataSize, Profile, ScenarioError, Share, defaults, is_default, is_one};

/// A switch: it stores frames and forwards them to their destinations, along shortest paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchSpec {
    /// Its name, which must differ from those of hosts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The number of strict priorities of each port, 1 to 8, by the precedence of the packets' IP headers.
    #[serde(default = "defaults::one_priority", skip_serializing_if = "is_one")]
    pub priorities: u8,
    /// The maximum number of bytes that wait at each port, or at all ports together if the buffer is shared.
    /// Packets that do not fit are lost, or trimmed.
    pub buffer: Option<DataSize>,
    /// True if all ports share the buffer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared: bool,
    /// The number of bytes ahead of a packet, at its port, from which on it is marked (ECN).
    pub mark_above: Option<DataSize>,
    /// The number of bytes from which on all packets are marked, if there is such a threshold. The marked
    /// share rises linearly from `mark_above`, to `mark_share` at this threshold (as in DCQCN: Zhu and
    /// others, SIGCOMM 2015, Figure 5).
    pub mark_all_above: Option<DataSize>,
    /// The share of packets that are marked just below `mark_all_above`.
    pub mark_share: Option<Share>,
    /// The number of bytes to which packets that find their queue full are trimmed.
    pub trim_to: Option<DataSize>,
    /// True if packets that do not fit even when trimmed return to their senders.
    #[serde(default, skip_serializing_if = "is_default")]
    pub return_to_sender: bool,
    /// The choice of a path for each packet, if several are equally short; by default it is made for each
    /// flow.
    pub spray: Option<Spray>,
    /// The number of waiting bytes, by port of arrival and priority, at which the sender is asked to pause
    /// (PFC).
    pub pfc_xoff: Option<DataSize>,
    /// The number of bytes at which the sender is asked to resume; by default half of `pfc_xoff`.
    pub pfc_xon: Option<DataSize>,
    /// The room beyond `pfc_xoff`, in bytes.
    pub pfc_headroom: Option<DataSize>,
    /// The priorities that pause; by default all.
    pub pfc_priorities: Option<Vec<u8>>,
}

impl Default for SwitchSpec {
    fn default() -> SwitchSpec {
        SwitchSpec {
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

impl SwitchSpec {
    /// Applies its settings for each port to a profile.
    pub fn apply(&self, profile: &mut Profile) {
        if let Some(buffer) = self.buffer {
            // Its memory is counted only in bytes.
            profile.queue_packets = u64::MAX;
            if !self.shared {
                profile.queue_bytes = buffer.0;
            }
        }
        profile.ecn_bytes = self.mark_above.map(|above| above.0);
        let share = self.mark_share.map_or(1.0, |share| share.0);
        profile.ecn_all = self.mark_all_above.map(|above| (above.0, share));
    }

    /// Checks that its thresholds for marking are consistent.
    pub(super) fn check_marking(&self, path: &str) -> Result<(), ScenarioError> {
        let error = |key: &str, message: String| {
            let error = ScenarioError::new(format!("{path}.{key}"), message);
            error.with_hint("mark_above = \"5kB\", mark_all_above = \"200kB\", mark_share = \"1%\"")
        };
        let Some(DataSize(all)) = self.mark_all_above else {
            return match self.mark_share {
                Some(_) => Err(error(
                    "mark_share",
                    "`mark_all_above` is missing, below which this share applies".to_owned(),
                )),
                None => Ok(()),
            };
        };
        match self.mark_above {
            Some(DataSize(above)) if above < all => Ok(()),
            _ => Err(error(
                "mark_all_above",
                format!("{all} bytes are not more than `mark_above`"),
            )),
        }
    }
}

/// The choice among several equal paths for each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spray {
    /// A random path.
    Random,
    /// The next path in turn.
    RoundRobin,
}
