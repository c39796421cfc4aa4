//! Scenarios: TOML files that state which hosts there are, what lies between them, what happens when, and who sends what to
//! whom. `docs/scenarios.md` is the reference.
//!
//! * [`units`]: quantities as text
//! * [`ScenarioError`]: the fault of a file, and its place
//! * `topology`: networks by name and numbers; `origin`: where in the file what they stand for is from
//! * `check`: what serde cannot see: names that refer to nothing, addresses used twice
//! * [`paths`]: which way frames go through switches; [`rng`]: what is left to chance, by labels
//!
//! It is a crate of its own because of what reading TOML costs to compile: the simulator is optimised, this is not.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod calls;
mod check;
mod connections;
mod defaults;
mod hosts;
mod nat;
mod origin;
pub mod paths;
mod pfc;
mod profile;
pub mod rng;
mod streams;
mod switch;
mod topology;
pub mod units;
pub mod workload;
mod works;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use calls::{Calls, Connecting};
pub use connections::{Calling, Connection, Ends};
pub use hawser_documents::Fault as ScenarioError;
pub use hosts::Hosts;
pub use nat::Nat;
pub use origin::Origin;
pub use pfc::{PAUSE_BYTES, Thresholds};
pub use profile::Profile;
pub use streams::{Openers, Streams};
pub use switch::{Spray, Switch};
pub use topology::{Kind, Topology};
use units::{Bytes, Rate, Share, Sizes, Span, Value};
pub use works::{WorkKind, Works};

/// Packets without a byte delivered that end a run, unless the scenario says otherwise: more than any transport sends
/// while a link is down, and a few seconds' work.
pub const IDLE_PACKETS: u64 = 200_000;

/// A scenario. Read it with [`Scenario::parse`]; what that returns is consistent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it shows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Decides everything that is left to chance.
    #[serde(default = "defaults::seed")]
    pub seed: u64,
    /// When it ends at the latest.
    #[serde(default = "defaults::duration")]
    pub duration: Span,
    /// How long connections have to close after all flows are done; 0: that is not waited for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub linger: Span,
    /// How long hosts then have until they hold nothing of any connection; 0: that is not waited for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forget: Span,
    /// What the run may cost.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bounds: Bounds,
    /// Whether calls are compared with what they take when nothing else is under way.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slowdown: bool,
    /// Whether the report has the depths of queues over time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub queue_depths: bool,
    /// How many packets may be sent without a byte delivered until a run without progress ends; 0: no limit.
    #[serde(default = "defaults::idle_packets", skip_serializing_if = "is_usual_idle")]
    pub idle_packets: u64,
    /// The transport program: the path of a `.mtp` file or of one that was built from it (`.so`), or
    /// a built-in one's name.
    pub program: String,
    /// What runs the programs; without it, whoever resolves their names decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// Values for the program's params.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, Value>,
    /// A program that watches all packets of each host, named as the transport program is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<String>,
    /// Hosts, switches and links by name and numbers; [`Scenario::parse`] puts them before those that are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// The hosts.
    #[serde(default)]
    pub host: Vec<Host>,
    /// The switches between them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switch: Vec<Switch>,
    /// The links between them.
    #[serde(default)]
    pub link: Vec<Link>,
    /// The applications.
    pub flow: Vec<Flow>,
    /// What changes when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<At>,
    /// Where it is from, for errors.
    #[serde(skip)]
    pub origin: Origin,
}

/// What a run may cost; what is not given has no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Bytes that all hosts may send, headers and repetitions included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Bytes>,
    /// How long each flow may take from its start until its last byte was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
    /// How long an end may take to fail once nobody listens, its peer has aborted, or its peer's host has come back
    /// with nothing while it has bytes to send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<Span>,
}

/// What runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// The interpreter.
    Interp,
    /// Machine code made from it.
    Native,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its addresses with prefix lengths; by default, for the n-th host, `10.0.0.n/16` and `fd00::n/64`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The largest IP packet that it sends, in bytes.
    #[serde(default = "defaults::mtu")]
    pub mtu: u32,
    /// What a connection holds for sending, and what for receiving, in bytes; by default what stacks have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Bytes>,
    /// A program of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Values for params, beside and before the scenario's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, Value>,
    /// Strict priorities of its ports, 1 to 8.
    #[serde(default = "defaults::one_priority", skip_serializing_if = "is_one_priority")]
    pub priorities: u8,
    /// Bytes that its device takes ahead of the lines; what is beyond them waits in the program's queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_queue: Option<Bytes>,
}

impl Default for Host {
    fn default() -> Host {
        Host {
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

/// Exactly two: an array of fixed size would take the first two of more without a word.
fn two_nodes<'de, D: serde::Deserializer<'de>>(from: D) -> Result<[String; 2], D::Error> {
    let nodes = Vec::<String>::deserialize(from)?;
    let count = nodes.len();
    let error = || {
        let message = format!("a link lies between two hosts or switches, and here are {count}");
        serde::de::Error::custom(message)
    };
    nodes.try_into().map_err(|_| error())
}

/// A link between two hosts or switches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Its name; by default both nodes' names with a hyphen.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The two hosts or switches.
    #[serde(deserialize_with = "two_nodes")]
    pub between: [String; 2],
    /// Rules for both directions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub both: Rules,
    /// Rules from the first of them to the second, before those for both.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forward: Rules,
    /// Rules from the second of them to the first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backward: Rules,
    /// A translator of addresses at one of its ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat: Option<Nat>,
}

/// What a direction of a link does; what is not given stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// The line's rate; 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Bytes that the queue in front of it holds; 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Bytes>,
    /// Frames that it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<u64>,
    /// Bytes waiting from which on frames are marked (ECN); 0: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn: Option<Bytes>,
    /// Numbers of frames that are lost, the first being 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop: Option<Vec<u64>>,
    /// Share of frames lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Share>,
    /// Mean number of frames lost in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<f64>,
    /// Share of frames in which a bit flips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<Share>,
    /// Share of frames that come twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<Share>,
    /// Propagation delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// The most that varies on top of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span>,
    /// Share of frames held back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Share>,
    /// For how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Span>,
}

/// A change of a link, of a host, or of a switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct At {
    /// The time since the run began.
    pub time: Span,
    /// Which link.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub link: String,
    /// Which host instead. One that goes down sends nothing any more, and has forgotten everything when it is up again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Which switch instead. One that goes down drops what waits in it and what comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
    /// Whether it is cut or mended, both directions; of a host or a switch, whether it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
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

/// Whether a link works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It does.
    Up,
    /// It is cut.
    Down,
}

/// One or several connections between hosts, and what is sent over them. Exactly one of `bulk`, `request`, `messages`,
/// `streams`, `calls` and `works` is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The host that connects, or several: from each of them.
    pub from: Hosts,
    /// The host that listens, or several: to each of them.
    pub to: Hosts,
    /// Which of them belong together.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pairs: Pairs,
    /// When it starts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub at: Span,
    /// How many such flows there are, between each two hosts.
    #[serde(default = "defaults::one", skip_serializing_if = "is_one")]
    pub count: u64,
    /// Whether all of them go to one port.
    #[serde(default, skip_serializing_if = "is_default")]
    pub one_port: bool,
    /// How much later each starts than the one before.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spacing: Span,
    /// The server's port; the following ones for more flows. By default all flows of a scenario
    /// count from 7001. Flows that name the same one share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The client's port; the following ones for more flows. By default its stack chooses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_port: Option<u16>,
    /// 4 or 6; by default 4 where both hosts have such an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<u8>,
    /// How many times it is opened again after its end, from the same port to the same port.
    #[serde(default, skip_serializing_if = "is_default")]
    pub again: u64,
    /// Who opens.
    #[serde(default, skip_serializing_if = "is_default")]
    pub open: Opening,
    /// Who closes first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub close: Closing,
    /// The program carries data from client to server only: the client sees no end of what the server sends.
    #[serde(default, skip_serializing_if = "is_default")]
    pub one_way: bool,
    /// Who aborts it instead, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort: Option<Abort>,
    /// Both ends also ask for what must be refused: to send after closing, to connect where they are connected, to
    /// set an option that nobody knows.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refusals: bool,
    /// How fast both readers read, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_rate: Option<Rate>,
    /// For how long both readers read nothing at first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_stop: Span,
    /// The send buffer that both ends ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Bytes>,
    /// The receive buffer that both ends ask for, where the program can choose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Bytes>,
    /// Bulk transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk: Option<Bulk>,
    /// Request and response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// Messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Messages>,
    /// Streams within the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<Streams>,
    /// Calls, which need no connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<Calls>,
    /// Work of queue pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub works: Option<Works>,
}

impl Flow {
    /// A flow between hosts, with no application yet, and everything else by default.
    #[must_use]
    pub fn between(from: Hosts, to: Hosts) -> Flow {
        Flow {
            from,
            to,
            pairs: Pairs::All,
            at: Span(0),
            count: 1,
            one_port: false,
            spacing: Span(0),
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
            read_stop: Span(0),
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

/// Which of a flow's hosts connect to which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pairs {
    /// Each of the ones to each of the others.
    #[default]
    All,
    /// Each of the ones to each of the others but itself.
    Others,
    /// The first to the first, the second to the second, and so on.
    InOrder,
}

/// Who opens a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Opening {
    /// The client connects, the server listens.
    #[default]
    Client,
    /// Both connect at once, without a listener.
    Both,
    /// The client connects, and nobody listens: it has to fail.
    Nobody,
}

/// An abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abort {
    /// Whose application aborts.
    pub by: End,
    /// How many bytes it has handed over and received by then.
    #[serde(default)]
    pub after: Bytes,
}

/// An end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The one that connects.
    Client,
    /// The other one.
    Server,
}

/// Who closes a flow first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Closing {
    /// The client, when it has sent and received everything; then the server.
    #[default]
    Client,
    /// The server; then the client.
    Server,
    /// Each when it has sent everything, whatever is still to come.
    Both,
    /// Nobody.
    Never,
}

/// Bulk transfer, as fast as the transport takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    /// From client to server.
    #[serde(default)]
    pub bytes: Bytes,
    /// From server to client.
    #[serde(default)]
    pub back: Bytes,
}

/// Request and response, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// How often a request is sent, each after the response to the one before.
    #[serde(default = "defaults::one")]
    pub count: u64,
    /// Size of each request.
    pub size: Sizes,
    /// Size of each response.
    pub response: Sizes,
    /// The client's pause after each response.
    #[serde(default)]
    pub think: Span,
}

/// Messages at a pace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// How many each sender sends.
    #[serde(default = "defaults::one")]
    pub count: u64,
    /// Size of each.
    pub size: Sizes,
    /// From one to the next, or the mean of that.
    #[serde(default)]
    pub interval: Span,
    /// Whether they are due evenly, or at random times.
    #[serde(default, skip_serializing_if = "is_default")]
    pub arrivals: Arrivals,
    /// Whether the server sends as many too.
    #[serde(default)]
    pub both_ways: bool,
    /// What the transport promises about them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delivery: Delivery,
    /// The largest share of datagrams that may be lost.
    #[serde(default = "defaults::any", skip_serializing_if = "is_any")]
    pub may_lose: Share,
}

/// When messages are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// One every interval.
    #[default]
    Even,
    /// Independently of one another, one in an interval on average: a Poisson process.
    Poisson,
}

/// What a transport promises about messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// It knows none: they are bytes of a stream, which arrive in order, once.
    #[default]
    Stream,
    /// Each arrives whole, once, in any order.
    Messages,
    /// Each arrives whole, at most once, in any order.
    Datagrams,
}

impl Scenario {
    /// Reads a scenario and checks it.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let mut scenario: Scenario = hawser_documents::toml(text)?;
        scenario.expand().map_err(|error| error.located(text))?;
        scenario.check().map_err(|error| error.located(text))?;
        Ok(scenario)
    }

    /// Checks what a type cannot express; [`Scenario::parse`] has done so already.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ScenarioError> {
        check::check(self).map_err(|error| self.origin.place(error))
    }

    /// The scenario as TOML; [`Scenario::parse`] reads it back.
    ///
    /// # Errors
    /// When a number is beyond what TOML can hold.
    pub fn to_toml(&self) -> Result<String, ScenarioError> {
        toml::to_string(self).map_err(|_| {
            ScenarioError::new(
                "",
                "a number is greater than the 9223372036854775807 that TOML can hold",
            )
        })
    }

    /// Takes the paths of programs and other files as relative to a directory: that of the scenario's file.
    pub fn relative_to(&mut self, directory: &Path) {
        for program in self.programs_mut() {
            if program.ends_with(".mtp") || program.ends_with(".so") {
                *program = directory.join(&*program).to_string_lossy().into_owned();
            }
        }
        let calls = self.flow.iter_mut().filter_map(|flow| flow.calls.as_mut());
        for file in calls
            .flat_map(|calls| [&mut calls.size_file, &mut calls.trace])
            .flatten()
        {
            *file = directory.join(&*file).to_string_lossy().into_owned();
        }
    }

    /// The programs by their names, the scenario's first: those of hosts, and the one that watches.
    pub fn programs(&self) -> impl Iterator<Item = &String> {
        let of_hosts = self.host.iter().filter_map(|host| host.program.as_ref());
        [&self.program].into_iter().chain(of_hosts).chain(&self.watch)
    }

    /// The same, to be named otherwise.
    pub fn programs_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let of_hosts = self.host.iter_mut().filter_map(|host| host.program.as_mut());
        [&mut self.program]
            .into_iter()
            .chain(of_hosts)
            .chain(&mut self.watch)
    }

    /// A host's number.
    #[must_use]
    pub fn host_number(&self, name: &str) -> Option<usize> {
        self.host.iter().position(|host| host.name == name)
    }

    /// The numbers of all hosts, for a caller that asks for many.
    #[must_use]
    pub fn host_numbers(&self) -> BTreeMap<&str, usize> {
        let names = self.host.iter().map(|host| host.name.as_str());
        names.zip(0..).collect()
    }

    /// The number of a host or a switch in its world: the hosts come first.
    #[must_use]
    pub fn node_number(&self, name: &str) -> Option<usize> {
        let switch = || self.switch.iter().position(|switch| switch.name == name);
        self.host_number(name)
            .or_else(|| Some(self.host.len() + switch()?))
    }

    /// The numbers of all hosts and switches, for a caller that asks for many.
    #[must_use]
    pub fn node_numbers(&self) -> BTreeMap<&str, usize> {
        let hosts = self.host.iter().map(|host| host.name.as_str());
        let switches = self.switch.iter().map(|switch| switch.name.as_str());
        hosts.chain(switches).zip(0..).collect()
    }
}

impl At {
    /// The host or the switch that changes, if it is no link.
    #[must_use]
    pub fn node(&self) -> Option<&String> {
        self.host.as_ref().or(self.switch.as_ref())
    }
}

impl Link {
    /// Its name, the default included.
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
    /// Puts what is given into a profile.
    pub fn apply(&self, profile: &mut Profile) {
        /// 0 means that there is none.
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

    /// No fault at all; rate, queue and delay as they are.
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

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_one(value: &u64) -> bool {
    *value == 1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_one_priority(value: &u8) -> bool {
    *value == 1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_any(value: &Share) -> bool {
    *value == defaults::any()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_usual_idle(value: &u64) -> bool {
    *value == defaults::idle_packets()
}

#[cfg(test)]
mod tests;
