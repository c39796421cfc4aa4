//! Scenarios: TOML files that describe hosts, the network between them, scheduled changes, and traffic.
//! `docs/scenarios.md` is the reference.
//!
//! * [`units`]: quantities as text
//! * [`ScenarioError`]: the fault of a file, and its place
//! * `topology`: networks by name and numbers; `origin`: the places in the file from which their parts come
//! * `check`: checks that serde cannot make: names without a definition, addresses used twice
//! * [`paths`]: the paths of frames through switches; [`rng`]: random numbers, by labels
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod check;
mod connections;
pub(crate) mod defaults;
mod hosts;
mod nat;
mod origin;
pub mod paths;
mod pfc;
mod profile;
pub mod rng;
mod switch;
mod topology;
pub mod units;
pub mod workload;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use connections::{CallHosts, Connection, FlowHosts};
pub use hawser_documents::Fault as ScenarioError;
pub use hosts::HostSelector;
pub use nat::NatSpec;
pub use origin::ScenarioOrigin;
pub use pfc::{PAUSE_BYTES, Thresholds};
pub use profile::Profile;
pub use switch::{Spray, SwitchSpec};
pub use topology::{Topology, TopologyKind};

pub use crate::traffic::bulk::BulkSpec;
pub use crate::traffic::calls::{CallsSpec, Connecting};
pub use crate::traffic::messages::{ArrivalProcess, Delivery, MessagesSpec};
pub use crate::traffic::request::RequestSpec;
pub use crate::traffic::streams::{Openers, StreamsSpec};
pub use crate::traffic::works::{WorkKind, WorksSpec};
use units::{DataSize, ParamValue, Rate, Share, TimeSpan};

/// The default number of packets without a delivered byte that end a run. It exceeds the number that any
/// transport sends while a link is down, and takes a few seconds to simulate.
pub const IDLE_PACKETS: u64 = 200_000;

/// A scenario. [`Scenario::parse`] reads it and ensures that it is consistent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The name of the scenario.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The seed of all random numbers.
    #[serde(default = "defaults::seed")]
    pub seed: u64,
    /// The maximum duration of the run.
    #[serde(default = "defaults::duration")]
    pub duration: TimeSpan,
    /// The time in which connections have to close after all flows are done; 0 means that the run does not
    /// wait for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub linger: TimeSpan,
    /// The time in which hosts then have to release all state of connections; 0 means that the run does not
    /// wait for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forget: TimeSpan,
    /// The bounds on the costs of the run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bounds: Bounds,
    /// True if the durations of calls are compared with those of calls alone on an idle network.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slowdown: bool,
    /// True if the report has the depths of queues over time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub queue_depths: bool,
    /// The number of packets without a delivered byte that end a run for lack of progress; 0 means no limit.
    #[serde(default = "defaults::idle_packets", skip_serializing_if = "is_usual_idle")]
    pub idle_packets: u64,
    /// The transport program: the path of a `.mtp` file or of one that was built from it (`.so`), or the name
    /// of a built-in program.
    pub program: String,
    /// The engine that runs the programs. Without it, the resolver of program names decides.
    pub engine: Option<Engine>,
    /// Values for the program's params.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, ParamValue>,
    /// A program that watches all packets of each host, named in the same manner as the transport program.
    pub watch: Option<String>,
    /// Hosts, switches and links by name and numbers; [`Scenario::parse`] places them before those that are
    /// listed.
    pub topology: Option<Topology>,
    /// The hosts.
    #[serde(default)]
    pub host: Vec<HostSpec>,
    /// The switches between them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switch: Vec<SwitchSpec>,
    /// The links between them.
    #[serde(default)]
    pub link: Vec<LinkSpec>,
    /// The flows of application traffic.
    pub flow: Vec<FlowSpec>,
    /// The scheduled changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<ScheduledChange>,
    /// The file that it comes from, for errors.
    #[serde(skip)]
    pub origin: ScenarioOrigin,
}

/// The bounds on the costs of a run; a missing value means no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// The maximum number of bytes that all hosts send, including headers and retransmissions.
    pub sent: Option<DataSize>,
    /// The maximum duration of each flow, from its start until its last byte is read.
    pub time: Option<TimeSpan>,
    /// The maximum time in which an end must fail in each of three cases. No peer listens; its peer has
    /// aborted; or its peer's host has come back with its state lost, while the end has bytes to send.
    pub notice: Option<TimeSpan>,
}

/// The engine that runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// The interpreter.
    Interp,
    /// Machine code that was compiled from the program.
    Native,
}

/// A host with its addresses, its program and its ports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// The name of the host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its addresses with prefix lengths; by default, for the n-th host, `10.0.0.n/16` and `fd00::n/64`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The maximum size of an IP packet that it sends, in bytes.
    #[serde(default = "defaults::mtu")]
    pub mtu: u32,
    /// The size of a connection's send buffer, and of its receive buffer, in bytes. The default is that of
    /// stacks.
    pub buffer: Option<DataSize>,
    /// The host's own program, if it differs from the scenario's.
    pub program: Option<String>,
    /// Values for params, which take precedence over the scenario's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, ParamValue>,
    /// The number of strict priorities of its ports, 1 to 8.
    #[serde(default = "defaults::one_priority", skip_serializing_if = "is_one")]
    pub priorities: u8,
    /// The number of bytes that its device accepts ahead of the lines; further bytes wait in the program's
    /// queues.
    pub device_queue: Option<DataSize>,
}

impl Default for HostSpec {
    fn default() -> HostSpec {
        HostSpec {
            name: String::new(),
            addresses: Vec::new(),
            mtu: defaults::mtu(),
            buffer: None,
            program: None,
            params: BTreeMap::new(),
            priorities: defaults::one_priority(),
            device_queue: None,
        }
    }
}

/// Reads exactly two names: an array of fixed size would silently ignore further ones.
fn two_nodes<'de, D: serde::Deserializer<'de>>(from: D) -> Result<[String; 2], D::Error> {
    let nodes = Vec::<String>::deserialize(from)?;
    let count = nodes.len();
    let error = || {
        let message = format!("a link connects two hosts or switches, not {count}");
        serde::de::Error::custom(message)
    };
    nodes.try_into().map_err(|_| error())
}

/// A link between two hosts or switches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Its name; by default both nodes' names with a hyphen.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The two hosts or switches.
    #[serde(deserialize_with = "two_nodes")]
    pub between: [String; 2],
    /// Rules for both directions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub both: Rules,
    /// Rules from the first node to the second; they override those for both.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forward: Rules,
    /// Rules from the second node to the first; they override those for both.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backward: Rules,
    /// An address translator at one of its ends.
    pub nat: Option<NatSpec>,
}

/// The rules of one direction of a link; a missing value leaves the setting unchanged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// The line's rate; 0 means no limit.
    pub rate: Option<Rate>,
    /// The maximum number of bytes in the queue in front of the line; 0 means no limit.
    pub queue: Option<DataSize>,
    /// The maximum number of frames in the queue.
    pub queue_packets: Option<u64>,
    /// The number of waiting bytes from which frames are marked (ECN); 0 means never.
    pub ecn: Option<DataSize>,
    /// The numbers of frames that are lost, counted from 1.
    pub drop: Option<Vec<u64>>,
    /// The share of frames that are lost.
    pub loss: Option<Share>,
    /// The mean number of frames lost in a row.
    pub burst: Option<f64>,
    /// The share of frames in which a bit flips.
    pub corrupt: Option<Share>,
    /// The share of frames that are duplicated.
    pub duplicate: Option<Share>,
    /// The propagation delay.
    pub delay: Option<TimeSpan>,
    /// The maximum random delay in addition to it.
    pub jitter: Option<TimeSpan>,
    /// The share of frames that are held back.
    pub reorder: Option<Share>,
    /// The time for which frames are held back.
    pub hold: Option<TimeSpan>,
}

/// A scheduled change of a link, of a host, or of a switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduledChange {
    /// The time since the run began.
    pub time: TimeSpan,
    /// The name of the link.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub link: String,
    /// The name of a host, instead of a link. A host that goes down sends no more packets, and has lost all
    /// state when it comes up again.
    pub host: Option<String>,
    /// The name of a switch, instead of a link. A switch that goes down drops its waiting frames and those
    /// that arrive.
    pub switch: Option<String>,
    /// The new state: a link is cut or restored in both directions; a host or a switch goes down or comes up.
    pub state: Option<OperationalState>,
    /// New rules for both directions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub both: Rules,
    /// New rules from the first node to the second.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forward: Rules,
    /// New rules from the second node to the first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backward: Rules,
}

/// The state of a link, a host or a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OperationalState {
    /// It works.
    Up,
    /// It is cut, or down.
    Down,
}

/// One or several connections between hosts, and the traffic over them: the table of exactly one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// The host that connects, or several: the flow is opened from each of them.
    pub from: HostSelector,
    /// The host that listens, or several: the flow is opened to each of them.
    pub to: HostSelector,
    /// The pairs of hosts that connect.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pairs: Pairs,
    /// The start time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub at: TimeSpan,
    /// The number of such flows between each pair of hosts.
    #[serde(default = "defaults::one", skip_serializing_if = "is_one")]
    pub count: u64,
    /// True if all of them connect to the same port.
    #[serde(default, skip_serializing_if = "is_default")]
    pub one_port: bool,
    /// The time between the starts of successive flows.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spacing: TimeSpan,
    /// The server's port; further flows use the following ports. By default all flows of a scenario count
    /// from 7001. Flows that name the same port share it.
    pub port: Option<u16>,
    /// The client's port; further flows use the following ports. By default the client's stack chooses one.
    pub client_port: Option<u16>,
    /// The address family, 4 or 6; by default 4 if both hosts have such an address.
    pub family: Option<u8>,
    /// The number of times that it is reopened after its end, from the same port to the same port.
    #[serde(default, skip_serializing_if = "is_default")]
    pub again: u64,
    /// The end that opens.
    #[serde(default, skip_serializing_if = "is_default")]
    pub open: Opening,
    /// The end that closes first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub close: Closing,
    /// True if the program carries data only from client to server: the client sees no end of the server's
    /// data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub one_way: bool,
    /// The end that aborts the flow instead of closing it, and the time at which it does.
    pub abort: Option<Abort>,
    /// True if both ends also make requests that must be refused. They send after closing, connect again from
    /// a connected port, and set an unknown option.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refusals: bool,
    /// The maximum rate of both readers.
    pub read_rate: Option<Rate>,
    /// The initial time during which both readers do not read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_stop: TimeSpan,
    /// The send buffer that both ends ask for.
    pub send_buffer: Option<DataSize>,
    /// The receive buffer that both ends ask for, if the program can choose it.
    pub receive_buffer: Option<DataSize>,
    /// The parameters of a bulk transfer.
    pub bulk: Option<BulkSpec>,
    /// The parameters of requests and responses.
    pub request: Option<RequestSpec>,
    /// The parameters of messages.
    pub messages: Option<MessagesSpec>,
    /// The parameters of streams within the connection.
    pub streams: Option<StreamsSpec>,
    /// The parameters of calls, which need no connection.
    pub calls: Option<CallsSpec>,
    /// The parameters of works of queue pairs.
    pub works: Option<WorksSpec>,
}

impl FlowSpec {
    /// Creates a flow between hosts, with no application yet, and all other values by default.
    #[must_use]
    pub fn between(from: HostSelector, to: HostSelector) -> FlowSpec {
        FlowSpec {
            from,
            to,
            pairs: Pairs::All,
            at: TimeSpan(0),
            count: 1,
            one_port: false,
            spacing: TimeSpan(0),
            port: None,
            client_port: None,
            family: None,
            again: 0,
            open: Opening::Client,
            close: Closing::Client,
            one_way: false,
            abort: None,
            refusals: false,
            read_rate: None,
            read_stop: TimeSpan(0),
            send_buffer: None,
            receive_buffer: None,
            bulk: None,
            request: None,
            messages: None,
            streams: None,
            calls: None,
            works: None,
        }
    }
}

/// The pairs of a flow's hosts that connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pairs {
    /// Each client to each server.
    #[default]
    All,
    /// Each client to each server other than itself.
    Others,
    /// The first client to the first server, the second to the second, and so on.
    InOrder,
}

/// The end that opens a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Opening {
    /// The client connects, and the server listens.
    #[default]
    Client,
    /// Both connect at once, without a listener.
    Both,
    /// The client connects, but no server listens: the connection has to fail.
    Nobody,
}

/// An abort of a flow by one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abort {
    /// The end whose application aborts.
    pub by: FlowEnd,
    /// The number of bytes that this end has handed over and received by then.
    #[serde(default)]
    pub after: DataSize,
}

/// One of the two ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowEnd {
    /// The end that connects.
    Client,
    /// The end that listens.
    Server,
}

/// The end that closes a flow first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Closing {
    /// The client, after it has sent and received everything; then the server.
    #[default]
    Client,
    /// The server, after it has sent and received everything; then the client.
    Server,
    /// Each end after it has sent everything, even if data is still to arrive.
    Both,
    /// No end closes.
    Never,
}

impl Scenario {
    /// Reads a scenario and checks it.
    ///
    /// # Errors
    /// Returns the fault of the scenario, and its place.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let mut scenario: Scenario = hawser_documents::toml(text)?;
        scenario.expand().map_err(|error| error.located(text))?;
        scenario.check().map_err(|error| error.located(text))?;
        Ok(scenario)
    }

    /// Checks properties that types cannot express; [`Scenario::parse`] has done so already.
    ///
    /// # Errors
    /// Returns the first fault.
    pub fn check(&self) -> Result<(), ScenarioError> {
        check::check(self).map_err(|error| self.origin.place(error))
    }

    /// Returns the scenario as TOML; [`Scenario::parse`] reads it back.
    ///
    /// # Errors
    /// Returns an error if a number exceeds the range of TOML.
    pub fn to_toml(&self) -> Result<String, ScenarioError> {
        toml::to_string(self).map_err(|_| {
            ScenarioError::new(
                "",
                "a number is greater than the 9223372036854775807 that TOML can hold",
            )
        })
    }

    /// Makes the paths of programs and other files relative to a directory: that of the scenario's file.
    pub fn relative_to(&mut self, directory: &Path) {
        for program in self.programs_mut() {
            if program.ends_with(".mtp") || program.ends_with(".so") {
                *program = directory.join(&*program).to_string_lossy().into_owned();
            }
        }
        for file in self.flow.iter_mut().flat_map(FlowSpec::files_mut) {
            *file = directory.join(&*file).to_string_lossy().into_owned();
        }
    }

    /// Returns the names of the programs, the scenario's first, then those of hosts, then the watcher.
    pub fn programs(&self) -> impl Iterator<Item = &String> {
        let of_hosts = self.host.iter().filter_map(|host| host.program.as_ref());
        [&self.program].into_iter().chain(of_hosts).chain(&self.watch)
    }

    /// Returns the names of the programs mutably.
    pub fn programs_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let of_hosts = self.host.iter_mut().filter_map(|host| host.program.as_mut());
        [&mut self.program]
            .into_iter()
            .chain(of_hosts)
            .chain(&mut self.watch)
    }

    /// Returns a host's number.
    #[must_use]
    pub fn host_number(&self, name: &str) -> Option<usize> {
        self.host.iter().position(|host| host.name == name)
    }

    /// Returns the numbers of all hosts, for callers that need many.
    #[must_use]
    pub fn host_numbers(&self) -> BTreeMap<&str, usize> {
        let names = self.host.iter().map(|host| host.name.as_str());
        names.zip(0..).collect()
    }

    /// Returns the number of a host or a switch in its world, where hosts come first.
    #[must_use]
    pub fn node_number(&self, name: &str) -> Option<usize> {
        let switch = || self.switch.iter().position(|switch| switch.name == name);
        self.host_number(name)
            .or_else(|| Some(self.host.len() + switch()?))
    }

    /// Returns the numbers of all hosts and switches, for callers that need many.
    #[must_use]
    pub fn node_numbers(&self) -> BTreeMap<&str, usize> {
        let hosts = self.host.iter().map(|host| host.name.as_str());
        let switches = self.switch.iter().map(|switch| switch.name.as_str());
        hosts.chain(switches).zip(0..).collect()
    }
}

impl ScheduledChange {
    /// Returns the host or the switch that changes, or `None` for a link.
    #[must_use]
    pub fn node(&self) -> Option<&String> {
        self.host.as_ref().or(self.switch.as_ref())
    }
}

impl LinkSpec {
    /// Returns its name, or the default name.
    #[must_use]
    pub fn label(&self) -> String {
        if self.name.is_empty() {
            self.between.join("-")
        } else {
            self.name.clone()
        }
    }
}

impl Rules {
    /// Applies the given values to a profile.
    pub fn apply(&self, profile: &mut Profile) {
        /// 0 means that there is no limit.
        fn some(value: u64) -> Option<u64> {
            (value > 0).then_some(value)
        }
        profile.rate = self.rate.map_or(profile.rate, |rate| some(rate.0));
        profile.queue_bytes = self
            .queue
            .map_or(profile.queue_bytes, |q| some(q.0).unwrap_or(u64::MAX));
        profile.queue_packets = self.queue_packets.unwrap_or(profile.queue_packets);
        if let Some(ecn) = self.ecn {
            (profile.ecn_bytes, profile.ecn_all) = (some(ecn.0), None);
        }
        if let Some(drop) = &self.drop {
            profile.drop.clone_from(drop);
            profile.drop.sort_unstable();
        }
        profile.loss = self.loss.map_or(profile.loss, |share| share.0);
        profile.burst = self.burst.unwrap_or(profile.burst);
        profile.corrupt = self.corrupt.map_or(profile.corrupt, |share| share.0);
        profile.duplicate = self.duplicate.map_or(profile.duplicate, |share| share.0);
        profile.delay = self.delay.map_or(profile.delay, Duration::from);
        profile.jitter = self.jitter.map_or(profile.jitter, Duration::from);
        profile.reorder = self.reorder.map_or(profile.reorder, |share| share.0);
        profile.hold = self.hold.map_or(profile.hold, Duration::from);
    }

    /// Returns rules without any fault that leave rate, queue and delay unchanged.
    #[must_use]
    pub fn healed() -> Rules {
        Rules {
            drop: Some(Vec::new()),
            loss: Some(Share(0.0)),
            corrupt: Some(Share(0.0)),
            duplicate: Some(Share(0.0)),
            reorder: Some(Share(0.0)),
            ..Rules::default()
        }
    }
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_one<T: PartialEq + From<u8>>(value: &T) -> bool {
    *value == T::from(1)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_usual_idle(value: &u64) -> bool {
    *value == defaults::idle_packets()
}

#[cfg(test)]
mod tests;
