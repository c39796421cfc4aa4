//! A switch's settings for priority-based flow control (PFC).

use std::collections::BTreeMap;
use std::time::Duration;

use super::{
    DataSize, LinkSpec, Profile, Rate, Scenario, ScenarioError, ScheduledChange, SwitchSpec, TimeSpan,
};

type Checked = Result<(), ScenarioError>;

/// The length of a pause frame in bytes: the shortest frame of Ethernet.
pub const PAUSE_BYTES: u64 = 64;

/// The thresholds of each port and each priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The number of bytes at which their sender is asked to pause.
    pub xoff: u64,
    /// The number of bytes at which the sender is asked to resume.
    pub xon: u64,
    /// The room above `xoff`, in bytes.
    pub headroom: u64,
    /// The priorities of the switch that pause, one bit each.
    pub lossless: u8,
    /// The number of priorities of the switch.
    pub priorities: u8,
}

/// The formula for the required headroom.
const HEADROOM_HINT: &str = "2 × delay × rate / 8 + 64 bytes + 2 packets, and the byte less than a packet that one may \
                             exceed pfc_xoff by: pfc_headroom = \"20kB\"";

impl SwitchSpec {
    /// Returns its thresholds, if it pauses.
    #[must_use]
    pub fn thresholds(&self) -> Option<Thresholds> {
        let DataSize(xoff) = self.pfc_xoff?;
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

    /// Checks that its thresholds are consistent.
    pub(super) fn check_pfc(&self, path: &str) -> Checked {
        let error = |key: &str, message: String| ScenarioError::new(format!("{path}.{key}"), message);
        let Some(DataSize(xoff)) = self.pfc_xoff else {
            let others = [
                ("pfc_xon", self.pfc_xon.is_some()),
                ("pfc_headroom", self.pfc_headroom.is_some()),
                ("pfc_priorities", self.pfc_priorities.is_some()),
            ];
            return match others.into_iter().find(|(_, given)| *given) {
                None => Ok(()),
                Some((key, _)) => {
                    let message = "`pfc_xoff` is missing, without which no priority pauses".to_owned();
                    Err(error(key, message).with_hint("pfc_xoff = \"50kB\""))
                }
            };
        };
        if xoff == 0 {
            let message = "a sender that may send no byte would never send".to_owned();
            return Err(error("pfc_xoff", message).with_hint("pfc_xoff = \"50kB\""));
        }
        if let Some(DataSize(xon)) = self.pfc_xon.filter(|xon| xon.0 >= xoff) {
            let message = format!("{xon} bytes are not below the {xoff} of `pfc_xoff`");
            return Err(error("pfc_xon", message).with_hint("by default it is half of `pfc_xoff`"));
        }
        if self.pfc_headroom.is_none() {
            let message = "`pfc_headroom` is missing; it holds the data that arrives until a pause takes \
                           effect"
                .to_owned();
            return Err(error("pfc_xoff", message).with_hint(HEADROOM_HINT));
        }
        if let Some(some) = &self.pfc_priorities {
            if some.is_empty() {
                return Err(error("pfc_priorities", "no priority pauses".to_owned()));
            }
            if let Some(other) = some.iter().find(|priority| **priority >= self.priorities) {
                let (count, last) = (self.priorities, self.priorities - 1);
                let message = format!("the priority {other} does not exist: the switch has {count}");
                return Err(error("pfc_priorities", message).with_hint(format!("0 to {last}")));
            }
        }
        if self.trim_to.is_some() {
            let message = "a switch either pauses its senders or trims packets that find no room".to_owned();
            return Err(error("pfc_xoff", message).with_hint("remove `trim_to`"));
        }
        Ok(())
    }
}

/// The bytes that arrive over a line after a switch has requested a pause.
struct Headroom {
    /// The bytes in flight during both delays.
    under_way: u64,
    /// The bytes that arrive while the frame on the line back and the pause frame leave.
    answer: u64,
    /// The size of the largest packet on the line.
    packet: u64,
    /// The sum of both delays.
    delay: Duration,
    rate: Rate,
}

impl Headroom {
    /// Computes the need for a line towards a switch, with the line back, and the largest packets on both. It
    /// is `None` for a line without a rate.
    fn new(towards: &Profile, back: &Profile, [packet, packet_back]: [u64; 2]) -> Option<Headroom> {
        let rate = towards.rate?;
        let delay = towards
            .delay
            .saturating_add(towards.jitter)
            .saturating_add(back.delay);
        let share = |of: u128, whole: u128| {
            u64::try_from((of * u128::from(rate)).div_ceil(whole)).unwrap_or(u64::MAX)
        };
        let bits = u128::from(PAUSE_BYTES + packet_back);
        Some(Headroom {
            // A year is below 2^55 nanoseconds, and a rate has 64 bits.
            under_way: share(delay.as_nanos(), 8_000_000_000),
            answer: back.rate.map_or(0, |back| share(bits, u128::from(back))),
            packet,
            delay,
            rate: Rate(rate),
        })
    }

    /// Returns the number of bytes by which a packet may exceed `pfc_xoff`.
    fn excess(&self) -> u64 {
        self.packet.saturating_sub(1)
    }

    /// Returns the required headroom, in bytes.
    fn bytes(&self) -> u64 {
        [self.under_way, self.answer, self.packet, self.excess()]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

impl Scenario {
    /// Checks that every switch that pauses has headroom for the bytes that may arrive over each of its
    /// lines, after any change.
    pub(super) fn check_headroom(&self) -> Checked {
        let pausing: BTreeMap<&str, usize> = self
            .switch
            .iter()
            .enumerate()
            .filter(|(_, switch)| switch.pfc_xoff.is_some())
            .map(|(number, switch)| (switch.name.as_str(), number))
            .collect();
        if pausing.is_empty() {
            return Ok(());
        }
        let mut changes: BTreeMap<&str, Vec<&ScheduledChange>> = BTreeMap::new();
        for at in self.at.iter().filter(|at| at.node().is_none()) {
            changes.entry(&at.link).or_default().push(at);
        }
        changes.values_mut().for_each(|all| all.sort_by_key(|at| at.time));
        let mut worst: Option<(u64, usize, String, Headroom)> = None;
        for link in &self.link {
            let changes = changes.get(link.label().as_str());
            let changes = changes.map_or(&[][..], Vec::as_slice);
            for (end, name) in link.between.iter().enumerate() {
                let Some(&switch) = pausing.get(name.as_str()) else {
                    continue;
                };
                let headroom = self.switch[switch].pfc_headroom.map_or(0, |headroom| headroom.0);
                for (time, need) in self.needs(link, end, changes) {
                    let over = need.bytes().saturating_sub(headroom);
                    if over > 0 && worst.as_ref().is_none_or(|(max, ..)| over > *max) {
                        let from = time.map_or_else(String::new, |time| format!(" from {time} on"));
                        worst = Some((over, switch, format!("`{}`{from}", link.label()), need));
                    }
                }
            }
        }
        match worst {
            None => Ok(()),
            Some((_, switch, place, need)) => Err(self.too_small(switch, &place, &need)),
        }
    }

    /// Returns the need of a link towards one of its ends: initially, and after each of its changes.
    fn needs(
        &self,
        link: &LinkSpec,
        end: usize,
        changes: &[&ScheduledChange],
    ) -> Vec<(Option<TimeSpan>, Headroom)> {
        let mut directions = [Profile::default(), Profile::default()];
        let largest = |name: &String| {
            let host = self.host_number(name).map(|number| &self.host[number]);
            let all = self.host.iter().map(|host| host.mtu).max().unwrap_or(0);
            u64::from(host.map_or(all, |host| host.mtu))
        };
        let packets = [&link.between[1 - end], &link.between[end]].map(largest);
        let first = [(None, [&link.both, &link.forward, &link.backward])];
        let later = changes
            .iter()
            .map(|at| (Some(at.time), [&at.both, &at.forward, &at.backward]));
        let mut needs = Vec::new();
        for (time, [both, forward, backward]) in first.into_iter().chain(later) {
            for (direction, own) in directions.iter_mut().zip([forward, backward]) {
                both.apply(direction);
                own.apply(direction);
            }
            // Forward is towards the second end.
            let [towards, back] = [&directions[1 - end], &directions[end]];
            needs.extend(Headroom::new(towards, back, packets).map(|need| (time, need)));
        }
        needs
    }

    fn too_small(&self, switch: usize, place: &str, need: &Headroom) -> ScenarioError {
        let bytes = need.bytes();
        let given = self.switch[switch].pfc_headroom.map_or(0, |headroom| headroom.0);
        let message = format!(
            "{given} bytes are less than the {bytes} that may arrive over {place} until a pause takes effect"
        );
        let hint = format!(
            "pfc_headroom = {bytes}: {} bytes under way in {} there and back at {}, {} while a pause and the packet \
             before it leave, a packet of {} on the line, and {} by which one may exceed `pfc_xoff`",
            need.under_way,
            TimeSpan(u64::try_from(need.delay.as_nanos()).unwrap_or(u64::MAX)),
            need.rate,
            need.answer,
            need.packet,
            need.excess()
        );
        ScenarioError::new(format!("switch[{switch}].pfc_headroom"), message).with_hint(hint)
    }

    /// Checks that the senders to a switch that pauses have queues in which frames can wait.
    pub(super) fn check_paused(&self, link: &LinkSpec, path: &str) -> Checked {
        for (rules, end) in [(&link.forward, 1), (&link.backward, 0)] {
            let name = &link.between[end];
            let pauses = self
                .switch
                .iter()
                .any(|switch| switch.name == *name && switch.pfc_xoff.is_some());
            let rate = rules.rate.or(link.both.rate);
            if pauses && rate.is_none_or(|rate| rate == Rate(0)) {
                let message = format!(
                    "`{name}` pauses its senders, but a line without a rate has no queue in which packets \
                     could wait"
                );
                let error = ScenarioError::new(path, message);
                return Err(error.with_hint("both = { rate = \"10Gbit/s\" }"));
            }
        }
        Ok(())
    }
}
