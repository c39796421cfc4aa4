//! The kinds of traffic. Each kind is a file here, which declares all that depends on it: its table of keys in
//! a scenario and their checks, the applications that it adds to hosts, the reports of its flows, and its
//! smaller forms.
//!
//! | kind | traffic |
//! |---|---|
//! | [`bulk`] | a number of bytes each way, as fast as the transport accepts them |
//! | [`request`] | a request, its response, a pause, the next request |
//! | [`messages`] | messages at a pace, each way |
//! | [`streams`] | several streams within a connection |
//! | [`calls`] | messages from endpoint to endpoint, with or without a reply, without a connection |
//! | [`works`] | operations of queue pairs on the other host's memory |
//!
//! The code of the applications is in [`crate::app`]. A new kind is a file, a field of [`FlowSpec`], and its
//! name in the list below.

pub(crate) mod bulk;
pub(crate) mod calls;
pub(crate) mod connection;
pub(crate) mod messages;
pub(crate) mod request;
pub(crate) mod streams;
pub(crate) mod works;

use hawser_engine::program::Program;
use hawser_ir::{AppOp, ParserInput};
use hawser_time::Instant;

use crate::app::bulk::BulkEnd as Silent;
use crate::app::calls::Call;
use crate::build::{BuiltFlow, BuiltWorld, OwnScript, START};
use crate::end_status::EndStanding;
use crate::report::FlowReport;
use crate::scenario::units::{DataSize, TimeSpan};
use crate::scenario::{Closing, Connection, FlowHosts, FlowSpec, Opening, Scenario, ScenarioError};
use connection::{ConnectionScript, talk};

/// The result of a check.
type Checked = Result<(), ScenarioError>;

/// A kind of traffic: the table of its keys in a scenario.
pub(crate) trait Traffic {
    /// Checks the table, and the keys of its flow that have a restricted meaning for it.
    fn check(&self, scenario: &Scenario, flow: &FlowSpec, path: &str) -> Checked;

    /// Checks that a program of its hosts can carry it; `path` is that of the table. Unless a kind differs,
    /// it needs connections.
    fn check_offer(&self, offers: &ProgramOffers<'_>, path: &str) -> Checked {
        offers.check_connections(path)
    }

    /// Returns false if its hosts exchange data without connections.
    fn needs_connections(&self) -> bool {
        true
    }

    /// Returns the number of exchanges, messages or streams of a connection.
    fn exchanges(&self) -> u64 {
        0
    }

    /// Returns the amount of data that it moves.
    fn volume(&self) -> Volume {
        Volume::default()
    }

    /// Returns true if a bulk transfer of the same volume is a plainer form of it.
    fn takes_turns(&self) -> bool {
        false
    }

    /// Returns the scripts of both ends of a connection; without them, both are silent.
    fn talk(&self, _start: Instant, _seed: u64, _label: &str) -> ConnectionScript {
        talk(|side| Silent::new(side, 0, 0))
    }

    /// Adds the applications of a flow to its hosts: connections, unless a kind has others.
    fn add(&self, built: &mut BuiltWorld, flow: &NewFlow<'_>, ends: FlowHosts, own: &mut OwnScript<'_>) {
        let talks = |start, label: &str| self.talk(start, flow.seed, label);
        for connection in ends.connections() {
            connection::add(built, flow, connection, &talks, own);
        }
    }

    /// Adds its smaller and plainer forms, those that save the most first.
    fn smaller(&self, forms: &mut SmallerForms<'_, Self>)
    where
        Self: Sized;
}

/// The ends of a flow, on their hosts.
pub(crate) trait BuiltEnds {
    /// Returns the report of the flow.
    fn report(&self, scenario: &Scenario, built: &BuiltWorld, flow: &BuiltFlow) -> FlowReport;

    /// Returns the standing of both ends, the client's first, unless the flow went well and is over.
    fn standings(&self, built: &BuiltWorld, ok: bool) -> Option<Box<[EndStanding; 2]>>;

    /// Returns the bytes that have arrived at the server, and at the client.
    fn received(&self, built: &BuiltWorld) -> [u64; 2];

    /// Returns an observable field of the client's end.
    fn value_of(&self, built: &BuiltWorld, field: &str) -> Option<u64>;

    /// Returns the calls that are done.
    fn calls(&self, _flow: usize) -> Vec<Call> {
        Vec::new()
    }

    /// Returns the host and the number of the endpoint of the client's end of a connection, and of the
    /// server's.
    fn endpoints(&self) -> Option<[(usize, usize); 2]> {
        None
    }
}

/// Lists the kinds: their keys are fields of [`FlowSpec`].
macro_rules! kinds {
    ($($kind:ident),*) => {
        /// The keys of all kinds.
        pub(crate) const KINDS: &[&str] = &[$(stringify!($kind)),*];

        impl FlowSpec {
            /// Returns the tables that are given, by their keys; a checked flow has exactly one.
            pub(crate) fn kinds(&self) -> impl Iterator<Item = (&'static str, &dyn Traffic)> {
                let given = [$(self.$kind.as_ref().map(|table| table as &dyn Traffic)),*];
                let given = KINDS.iter().zip(given);
                given.filter_map(|(key, table)| Some((*key, table?)))
            }

            /// Returns the flow with each smaller form of its traffic.
            #[must_use]
            pub fn smaller(&self) -> Vec<FlowSpec> {
                let mut flows = Vec::new();
                $(if let Some(table) = &self.$kind {
                    let mut forms = SmallerForms { table, all: Vec::new() };
                    table.smaller(&mut forms);
                    let flow = |form| FlowSpec { $kind: Some(form), ..self.clone() };
                    flows.extend(forms.all.into_iter().map(flow));
                })*
                flows
            }
        }
    };
}

kinds!(bulk, request, messages, streams, calls, works);

impl FlowSpec {
    /// Returns its traffic, or `None` if no table is given.
    pub(crate) fn traffic(&self) -> Option<&dyn Traffic> {
        self.kinds().next().map(|(_, table)| table)
    }

    /// Returns false if its hosts exchange data without connections.
    pub(crate) fn needs_connections(&self) -> bool {
        self.traffic().is_none_or(Traffic::needs_connections)
    }

    /// Returns the amount of data of its traffic; 0 for streams, calls and works.
    #[must_use]
    pub fn volume(&self) -> Volume {
        self.traffic().map(Traffic::volume).unwrap_or_default()
    }

    /// Returns true if a bulk transfer of the same volume is a plainer form of its traffic.
    #[must_use]
    pub fn takes_turns(&self) -> bool {
        self.traffic().is_some_and(Traffic::takes_turns)
    }
}

/// An amount of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// The maximum number of bytes from client to server.
    pub bytes: u64,
    /// The maximum number of bytes from server to client.
    pub back: u64,
    /// The pause after each exchange or message.
    pub pause: TimeSpan,
}

impl Volume {
    /// Returns the bulk transfer of this volume.
    #[must_use]
    pub fn bulk(self) -> crate::scenario::BulkSpec {
        crate::scenario::BulkSpec { bytes: DataSize(self.bytes), back: DataSize(self.back) }
    }
}

/// A flow of a scenario that is being built.
pub(crate) struct NewFlow<'a> {
    pub(crate) scenario: &'a Scenario,
    /// Its index in the scenario.
    pub(crate) number: usize,
    pub(crate) flow: &'a FlowSpec,
    /// The key of its traffic.
    pub(crate) app: &'static str,
    /// The seed of the run.
    pub(crate) seed: u64,
}

impl NewFlow<'_> {
    /// Returns the start of one of its connections.
    pub(crate) fn start(&self, connection: &Connection) -> Instant {
        let later = std::time::Duration::from(self.flow.spacing).saturating_mul(connection.place as u32);
        START + self.flow.at.into() + later
    }
}

/// The requests that a program accepts.
pub(crate) struct ProgramOffers<'a> {
    /// The name of the program.
    pub(crate) name: &'a str,
    /// The program itself.
    pub(crate) program: &'a dyn Program,
}

impl ProgramOffers<'_> {
    pub(crate) fn has(&self, op: AppOp) -> bool {
        let mut parsers = self.program.module().parsers.iter();
        parsers.any(|parser| parser.source == ParserInput::App(op))
    }

    /// Rejects a program that carries only works.
    pub(crate) fn check_not_works(&self, path: &str) -> Checked {
        if !self.has(AppOp::Post) {
            return Ok(());
        }
        let path = path.rsplit_once('.').map_or(path, |(flow, _)| flow);
        let message = format!("`{}` carries only works of queue pairs", self.name);
        Err(ScenarioError::new(path, message).with_hint("works = { size = \"4kB\" }"))
    }

    /// Checks that the program offers connections; `path` is that of the table.
    fn check_connections(&self, path: &str) -> Checked {
        self.check_not_works(path)?;
        if self.has(AppOp::Connect) || !(self.has(AppOp::Call) || self.has(AppOp::Message)) {
            return Ok(());
        }
        let error = ScenarioError::new(path, format!("`{}` offers no connections", self.name));
        Err(error.with_hint("the program carries calls: `calls = { size = 100, reply = 100 }`"))
    }
}

/// Collects smaller and plainer forms of a table.
pub(crate) struct SmallerForms<'a, T> {
    table: &'a T,
    all: Vec<T>,
}

impl<T: Clone> SmallerForms<'_, T> {
    /// Adds the table with a change.
    pub(crate) fn with(&mut self, change: impl FnOnce(&mut T)) {
        let mut form = self.table.clone();
        change(&mut form);
        self.all.push(form);
    }

    /// Adds the table with each lower value of a number, which a function sets.
    pub(crate) fn lower(&mut self, value: u64, min: u64, set: impl Fn(&mut T, u64)) {
        for value in lower(value, min) {
            self.with(|table| set(table, value));
        }
    }
}

/// Returns smaller numbers, down to `min`: `min` itself, a half, and fewer digits.
#[must_use]
pub fn lower(value: u64, min: u64) -> Vec<u64> {
    let digits = |kept: u32| {
        let unit = 10u64.pow(value.max(1).ilog10().saturating_sub(kept - 1));
        value / unit * unit
    };
    let mut lower = vec![
        min,
        value / 10,
        value / 2,
        value - value / 4,
        digits(1),
        digits(2),
    ];
    lower.retain(|one| (min..value).contains(one));
    lower.sort_unstable();
    lower.dedup();
    lower
}

/// Rejects a value if it is wrong.
fn reject(is_wrong: bool, path: String, message: impl Into<String>) -> Checked {
    match is_wrong {
        true => Err(ScenarioError::new(path, message)),
        false => Ok(()),
    }
}

/// Rejects the keys of a flow that are about connections, and further ones, for a kind without connections.
fn reject_connection_keys(flow: &FlowSpec, more: &[(&str, bool)], path: &str, message: &str) -> Checked {
    let keys = [
        ("one_port", flow.one_port),
        ("again", flow.again > 0),
        ("open", flow.open != Opening::default()),
        ("close", flow.close != Closing::default()),
        ("client_port", flow.client_port.is_some()),
        ("one_way", flow.one_way),
        ("abort", flow.abort.is_some()),
        ("refusals", flow.refusals),
        ("read_rate", flow.read_rate.is_some()),
        ("read_stop", flow.read_stop != TimeSpan::default()),
        ("send_buffer", flow.send_buffer.is_some()),
        ("receive_buffer", flow.receive_buffer.is_some()),
    ];
    let mut keys = more.iter().chain(&keys);
    keys.try_for_each(|(key, given)| reject(*given, format!("{path}.{key}"), message))
}

/// Rejects `one_way` for a flow whose server sends data.
fn check_one_way(flow: &FlowSpec, path: &str, sends_back: bool) -> Checked {
    let is_wrong = flow.one_way && sends_back;
    let checked = reject(is_wrong, format!("{path}.one_way"), "the server sends data here");
    checked.map_err(|error| error.with_hint("remove `one_way`, or the data of the server"))
}
