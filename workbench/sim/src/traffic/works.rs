//! Works of queue pairs: they write, read and change memory of another host, and send messages into memory.

mod ends;

use hawser_ir::AppOp;
use serde::{Deserialize, Serialize};

use super::{Checked, NewFlow, ProgramOffers, SmallerForms, Traffic, reject, reject_connection_keys};
use crate::build::{BuiltWorld, OwnScript};
use crate::scenario::units::{DataSize, Share, Sizes, TimeSpan};
use crate::scenario::{FlowHosts, FlowSpec, Scenario, ScenarioError, defaults, is_default};

/// The maximum size of a work, in bytes.
const LARGEST: u64 = 1 << 24;
/// The maximum number of works that an end has posted at a time: the capacity of a send queue.
const DEPTH_MAX: u64 = 128;
/// The maximum number of memory areas that an end has posted for messages at a time: the capacity of a
/// receive queue.
const RECEIVES_MAX: u64 = 256;
/// The maximum amount of memory that an end of a flow registers, in bytes.
const MEMORY_MAX: u64 = 1 << 28;

/// The operations that an end of a flow requests on the other end's memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorksSpec {
    /// The number of works that each posting end posts. The default is one; with `time`, it is as many as are
    /// done by then.
    pub count: Option<u64>,
    /// The time during which new works are posted.
    pub time: Option<TimeSpan>,
    /// The size of each work in bytes; an atomic operation always has eight.
    pub size: Sizes,
    /// The kinds of works, each equally frequent.
    #[serde(default = "all_kinds", skip_serializing_if = "is_all_kinds")]
    pub kinds: Vec<WorkKind>,
    /// True if both ends post works, false if only the client does.
    #[serde(default, skip_serializing_if = "is_default")]
    pub both_ways: bool,
    /// The number of works that are posted at a time.
    #[serde(default = "defaults::posted")]
    pub depth: u64,
    /// The share of messages and writes that carry four bytes of immediate data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub immediate: Share,
    /// The share of works that wait for the reads and atomic operations before them, in addition to those
    /// that have to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fence: Share,
    /// The number of its peer's messages for which an end has memory posted.
    #[serde(default = "defaults::posted")]
    pub receives: u64,
    /// The time after which an end posts again the memory that a message has used.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refill: TimeSpan,
    /// The payload of a packet: 256, 512, 1024, 2048 or 4096 bytes.
    #[serde(default = "defaults::path_mtu")]
    pub mtu: DataSize,
    /// The number of reads and atomic operations in progress at a time, 1 to 16.
    #[serde(default = "defaults::posted")]
    pub reads: u64,
    /// The time without an acknowledgement after which packets are retransmitted.
    #[serde(default = "defaults::pair_timeout")]
    pub timeout: TimeSpan,
}

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkKind {
    /// A message into memory that the peer has posted for it.
    Send,
    /// A write of bytes to the peer's memory.
    Write,
    /// A read of bytes from the peer's memory.
    Read,
    /// A compare-and-swap of eight bytes in the peer's memory.
    Swap,
    /// A fetch-and-add on eight bytes in the peer's memory.
    Add,
}

fn all_kinds() -> Vec<WorkKind> {
    use WorkKind::{Add, Read, Send, Swap, Write};
    vec![Send, Write, Read, Swap, Add]
}

fn is_all_kinds(kinds: &[WorkKind]) -> bool {
    kinds == all_kinds()
}

impl WorksSpec {
    /// Creates `count` works of these sizes and of all kinds, posted by the client.
    #[must_use]
    pub fn new(count: u64, size: Sizes) -> WorksSpec {
        WorksSpec {
            count: Some(count),
            time: None,
            size,
            kinds: all_kinds(),
            both_ways: false,
            depth: defaults::posted(),
            immediate: Share(0.0),
            fence: Share(0.0),
            receives: defaults::posted(),
            refill: TimeSpan(0),
            mtu: defaults::path_mtu(),
            reads: defaults::posted(),
            timeout: defaults::pair_timeout(),
        }
    }

    /// Returns the maximum number of works that an end posts.
    #[must_use]
    pub fn limit(&self) -> u64 {
        let otherwise = if self.time.is_some() { u64::MAX } else { 1 };
        self.count.unwrap_or(otherwise)
    }

    /// Returns the memory that the largest work needs, in bytes.
    #[must_use]
    pub fn place(&self) -> u64 {
        self.size.max.max(8).next_multiple_of(8)
    }
}

impl Traffic for WorksSpec {
    fn check(&self, scenario: &Scenario, flow: &FlowSpec, path: &str) -> Checked {
        let message = "works are between queue pairs; this key concerns streams";
        reject_connection_keys(flow, &[("port", flow.port.is_some())], path, message)?;
        let mut hosts = flow.from.names().iter().chain(flow.to.names());
        let falls = |host: &String| scenario.at.iter().any(|at| at.host.as_ref() == Some(host));
        if let Some(host) = hosts.find(|host| falls(host)) {
            let message = format!("`{host}` goes down, so a queue pair would lose its peer");
            return Err(ScenarioError::new(format!("{path}.works"), message));
        }
        let at = |key: &str| format!("{path}.works.{key}");
        let between = |key: &str, value: u64, min: u64, max: u64| {
            let message = format!("{value} is not between {min} and {max}");
            reject(!(min..=max).contains(&value), at(key), message)
        };
        reject(self.count == Some(0), at("count"), "at least one work")?;
        if self.kinds.is_empty() {
            let error = ScenarioError::new(at("kinds"), "the list of kinds is empty");
            return Err(error.with_hint("kinds = [\"write\", \"read\"]"));
        }
        between("depth", self.depth, 1, DEPTH_MAX)?;
        between("receives", self.receives, 1, RECEIVES_MAX)?;
        between("reads", self.reads, 1, 16)?;
        let (mtu, largest) = (self.mtu.0, self.size.max);
        let is_odd = !(256..=4096).contains(&mtu) || !mtu.is_power_of_two();
        let message = format!("{mtu} bytes are not one of 256, 512, 1024, 2048 and 4096");
        reject(is_odd, at("mtu"), message)?;
        let message = format!("a work of {largest} bytes is larger than the limit of {LARGEST}");
        reject(largest > LARGEST, at("size"), message)?;
        let memory = self.place() * (self.depth + self.receives);
        if memory > MEMORY_MAX {
            let message = format!("{memory} bytes exceed the {MEMORY_MAX} that an end registers");
            let error = ScenarioError::new(at("size"), message);
            return Err(error.with_hint("a lower `depth`, or fewer `receives`"));
        }
        Ok(())
    }

    fn check_offer(&self, offers: &ProgramOffers<'_>, path: &str) -> Checked {
        if offers.has(AppOp::Post) {
            return Ok(());
        }
        let message = format!("`{}` has no queue pairs", offers.name);
        Err(ScenarioError::new(path, message))
    }

    fn exchanges(&self) -> u64 {
        self.count.unwrap_or(0)
    }

    fn add(&self, built: &mut BuiltWorld, flow: &NewFlow<'_>, ends: FlowHosts, _: &mut OwnScript<'_>) {
        for connection in ends.connections() {
            ends::add(built, flow, self, connection);
        }
    }

    fn smaller(&self, forms: &mut SmallerForms<'_, WorksSpec>) {
        forms.lower(self.count.unwrap_or(0), 1, |works, count| {
            works.count = Some(count)
        });
        forms.with(|works| works.both_ways = false);
        for kind in self.kinds.iter().filter(|_| self.kinds.len() > 1) {
            forms.with(|works| works.kinds = vec![*kind]);
        }
        forms.lower(self.size.max, 0, |works, size| works.size = Sizes::one(size));
        forms.lower(self.depth, 1, |works, depth| works.depth = depth);
        forms.with(|works| works.immediate = Share(0.0));
        forms.with(|works| works.fence = Share(0.0));
        forms.with(|works| works.refill = TimeSpan(0));
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    fn error(works: &str, more: &str) -> String {
        let text = format!(
            "program = 'x'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\nlink = [{{ between = ['a', 'b'] }}]\n\
             flow = [{{ from = 'a', to = 'b', {more} works = {{ {works} }} }}]\n"
        );
        match Scenario::parse(&text) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn works_are_parsed_and_errors_reported() {
        let all = "count = 20, time = '1s', size = [0, '100kB'], kinds = ['write', 'swap'], both_ways = true, \
                   depth = 8, immediate = '30%', fence = '10%', receives = 1, refill = '1ms', mtu = 4096, \
                   reads = 2, timeout = '20ms'";
        assert_eq!(error(all, ""), "");
        assert_eq!(error("size = 0", "count = 3,"), "");
        for (works, more, wanted) in [
            ("", "", "size"),
            (
                "size = 1, count = 0",
                "",
                "`flow[0].works.count`: at least one work",
            ),
            ("size = 1, kinds = []", "", "`flow[0].works.kinds`"),
            ("size = 1, kinds = ['move']", "", "move"),
            (
                "size = 1, depth = 129",
                "",
                "`flow[0].works.depth`: 129 is not between 1 and 128",
            ),
            ("size = 1, receives = 0", "", "`flow[0].works.receives`"),
            ("size = 1, reads = 17", "", "`flow[0].works.reads`"),
            (
                "size = 1, mtu = 1000",
                "",
                "`flow[0].works.mtu`: 1000 bytes are not one of",
            ),
            ("size = '17MiB'", "", "larger than the limit"),
            ("size = '16MiB'", "", "exceed the 268435456 that an end registers"),
            ("size = 1, colour = 1", "", "colour"),
            (
                "size = 1",
                "close = 'never',",
                "`flow[0].close`: works are between",
            ),
            ("size = 1", "port = 1,", "`flow[0].port`"),
            ("size = 1", "bulk = { bytes = 1 },", "exactly one of"),
        ] {
            let error = error(works, more);
            assert!(error.contains(wanted), "{works} {more}: {error}");
        }
    }
}
