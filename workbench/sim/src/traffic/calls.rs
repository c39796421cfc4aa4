//! Calls: messages from endpoint to endpoint, which need no connection.

mod ends;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use hawser_ir::AppOp;
use serde::{Deserialize, Serialize};

use super::{Checked, NewFlow, ProgramOffers, SmallerForms, Traffic, reject, reject_connection_keys};
use crate::build::{BuiltWorld, OwnScript};
use crate::scenario::units::{DataSize, Rate, Share, Sizes, TimeSpan};
use crate::scenario::workload::{self, Distribution, Traced};
use crate::scenario::{ArrivalProcess, FlowHosts, FlowSpec, Scenario, ScenarioError, defaults, is_default};

pub(crate) use ends::failures;
pub(crate) use plan::check_files;

/// The maximum length of a call's message, in bytes: the default size of a stack's send buffer for a message.
const LONGEST: u64 = 4 << 20;

/// Messages from endpoint to endpoint, each with or without a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallsSpec {
    /// The number of calls that each host of `from` makes.
    #[serde(default = "defaults::one")]
    pub count: u64,
    /// The size of each message, unless it is drawn from `size_file` or given by `trace`.
    pub size: Option<Sizes>,
    /// The file of a distribution of sizes.
    pub size_file: Option<String>,
    /// The maximum size: longer messages of the distribution are cut to it.
    pub at_most: Option<DataSize>,
    /// The file of a trace, with the time, the caller and the server of each call.
    pub trace: Option<String>,
    /// The size of each reply; without it, servers do not reply.
    pub reply: Option<Sizes>,
    /// The time from one call of a host to its next, or the mean of that time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub interval: TimeSpan,
    /// The share of the rate of a host's line that its messages use, in place of an `interval`.
    pub load: Option<Share>,
    /// The distribution of due times: at even intervals, or at random.
    #[serde(default, skip_serializing_if = "is_default")]
    pub arrivals: ArrivalProcess,
    /// The time at which connections are opened, for a program without calls and messages, where messages are
    /// framed on connections.
    #[serde(default, skip_serializing_if = "is_default")]
    pub connect: Connecting,
    /// The maximum number of a host's calls in progress; others wait until one of them is over.
    pub outstanding: Option<u64>,
    /// The time after which a failed call is retried. 0 means never: a failed call is then a failure of the
    /// run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: TimeSpan,
    /// The content of `size_file`, read by [`Scenario::read_files`].
    #[serde(skip)]
    pub distribution: Option<Arc<Distribution>>,
    /// The content of `trace`.
    #[serde(skip)]
    pub traced: Option<Arc<Vec<Traced>>>,
}

/// The time at which connections are opened, where messages of calls are framed on connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connecting {
    /// With the first call to a peer, which waits for the connection.
    #[default]
    FirstCall,
    /// At the start of the scenario, regardless of the flow's start.
    AtStart,
}

impl CallsSpec {
    /// Creates `count` calls of these sizes, all at once and without replies.
    #[must_use]
    pub fn new(count: u64, size: Sizes) -> CallsSpec {
        CallsSpec {
            count,
            size: Some(size),
            size_file: None,
            at_most: None,
            trace: None,
            reply: None,
            interval: TimeSpan(0),
            load: None,
            arrivals: ArrivalProcess::Even,
            connect: Connecting::FirstCall,
            outstanding: None,
            retry: TimeSpan(0),
            distribution: None,
            traced: None,
        }
    }

    /// Returns the mean size of the messages, in bytes.
    fn mean(&self) -> f64 {
        match (&self.distribution, self.size) {
            (Some(distribution), _) => distribution.mean(self.at_most.map_or(u64::MAX, |limit| limit.0)),
            (None, Some(size)) => (size.min + size.max) as f64 / 2.0,
            (None, None) => 0.0,
        }
    }
}

impl FlowSpec {
    /// Returns the names of the files that it needs.
    pub(crate) fn files_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let calls = self.calls.iter_mut();
        calls
            .flat_map(|calls| [&mut calls.size_file, &mut calls.trace])
            .flatten()
    }
}

impl Scenario {
    /// Reads the files that its flows name. `read` returns the text of a file, or the reason why it cannot be
    /// read.
    ///
    /// # Errors
    /// Returns the fault of a file, and its place.
    pub fn read_files(
        &mut self,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<(), ScenarioError> {
        for (number, flow) in self.flow.iter_mut().enumerate() {
            let Some(mut calls) = flow.calls.take() else {
                continue;
            };
            let read = calls.read_files(flow, number, read);
            flow.calls = Some(calls);
            read?;
        }
        Ok(())
    }

    /// Returns the time from one call of a host to its next.
    #[must_use]
    pub fn interval(&self, calls: &CallsSpec, host: &str) -> Duration {
        match (calls.load, self.line_rate(host)) {
            (Some(load), Some(rate)) => workload::interval(calls.mean(), load, rate.0),
            (_, _) => calls.interval.into(),
        }
    }

    /// Returns the rate of a host's first link.
    fn line_rate(&self, host: &str) -> Option<Rate> {
        let link = self
            .link
            .iter()
            .find(|link| link.between.iter().any(|end| end == host))?;
        let own = if link.between[0] == host {
            &link.forward
        } else {
            &link.backward
        };
        own.rate.or(link.both.rate).filter(|rate| rate.0 > 0)
    }
}

impl CallsSpec {
    fn read_files(
        &mut self,
        flow: &FlowSpec,
        number: usize,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<(), ScenarioError> {
        let path = |key: &str| format!("flow[{number}].calls.{key}");
        let mut text = |key: &str, file: &str| {
            read(file).map_err(|why| ScenarioError::new(path(key), format!("cannot read {file}: {why}")))
        };
        if let Some(file) = &self.size_file {
            let key = path("size_file");
            let distribution = Distribution::parse(&text("size_file", file)?, &key, file)?;
            let longest = distribution
                .largest()
                .min(self.at_most.map_or(u64::MAX, |limit| limit.0));
            if longest > LONGEST {
                let message =
                    format!("{file}: a message of {longest} bytes is longer than the limit of {LONGEST}");
                return Err(ScenarioError::new(key, message).with_hint("at_most = \"1MB\" cuts longer ones"));
            }
            self.distribution = Some(Arc::new(distribution));
        }
        if let Some(file) = &self.trace {
            let key = path("trace");
            let traced = workload::parse_trace(&text("trace", file)?, &key, file)?;
            let has_pair = flow.has_pair();
            for message in &traced {
                let Traced { from, to, bytes, .. } = message;
                if !has_pair(from, to) {
                    let message =
                        format!("{file}: `{from}` calls `{to}`, but this flow does not have this pair");
                    return Err(ScenarioError::new(key, message));
                }
                if *bytes > LONGEST {
                    let message =
                        format!("{file}: a message of {bytes} bytes is longer than the limit of {LONGEST}");
                    return Err(ScenarioError::new(key, message));
                }
            }
            self.traced = Some(Arc::new(traced));
        }
        Ok(())
    }
}

impl Traffic for CallsSpec {
    fn check(&self, scenario: &Scenario, flow: &FlowSpec, path: &str) -> Checked {
        let message = "calls are made from endpoints; this key concerns connections";
        if flow.count != 1 {
            let error = ScenarioError::new(format!("{path}.count"), message);
            return Err(error.with_hint("the number of calls is `count` of `calls`"));
        }
        let spacing = ("spacing", flow.spacing != TimeSpan::default());
        reject_connection_keys(flow, &[spacing], path, message)?;
        let at = |key: &str| format!("{path}.calls.{key}");
        let sources = [
            self.size.is_some(),
            self.size_file.is_some(),
            self.trace.is_some(),
        ];
        let is_given = sources.iter().filter(|given| **given).count() == 1;
        if !is_given && self.traced.is_none() {
            let message = "calls have exactly one of `size`, `size_file`, `trace`";
            return Err(ScenarioError::new(format!("{path}.calls"), message).with_hint("size = 100"));
        }
        let is_uncut = self.at_most.is_some() && self.size_file.is_none();
        reject(is_uncut, at("at_most"), "only sizes of a `size_file` are cut")?;
        let is_empty = self.at_most == Some(DataSize(0));
        reject(is_empty, at("at_most"), "a message has at least one byte")?;
        let timed = self.interval.0 > 0 || self.load.is_some() || self.count != 1;
        if self.trace.is_some() && timed {
            let message = "a trace states the number of calls and their times";
            return Err(
                ScenarioError::new(at("trace"), message).with_hint("remove `count`, `interval` and `load`")
            );
        }
        self.check_load(scenario, flow, &at("load"))?;
        let differ = self.reply.is_some_and(|reply| reply.min < reply.max);
        let message =
            "only replies of one size have a slowdown, because the time of a single call depends on the size";
        reject(scenario.slowdown && differ, at("reply"), message)?;
        let sizes = [("size", self.size), ("reply", self.reply)];
        for (key, Sizes { min, max }) in sizes.into_iter().filter_map(|(key, size)| Some((key, size?))) {
            reject(min == 0, at(key), "a message has at least one byte")?;
            let message = format!("a message of {max} bytes is longer than the limit of {LONGEST}");
            reject(max > LONGEST, at(key), message)?;
        }
        reject(self.count == 0, at("count"), "at least one call")?;
        let is_many = self.count > u64::from(u32::MAX);
        reject(is_many, at("count"), "that many calls cannot be numbered")?;
        let message = "without a concurrent call, no call can start";
        reject(self.outstanding == Some(0), at("outstanding"), message)
    }

    /// Calls with a reply need a program that offers calls, and calls without one need messages. If it offers
    /// neither, connections suffice, because messages are framed on them.
    fn check_offer(&self, offers: &ProgramOffers<'_>, path: &str) -> Checked {
        offers.check_not_works(path)?;
        let name = offers.name;
        let (call, message) = (offers.has(AppOp::Call), offers.has(AppOp::Message));
        match (self.reply.is_some(), call, message) {
            (true, true, _) | (false, _, true) => Ok(()),
            (true, false, true) => {
                let message = format!("`{name}` carries messages without a reply");
                let error = ScenarioError::new(format!("{path}.reply"), message);
                Err(error.with_hint("remove `reply`"))
            }
            (false, true, false) => {
                let message = format!("`{name}` offers calls, but no messages without a reply");
                Err(ScenarioError::new(path, message).with_hint("give `reply`: the size of each reply"))
            }
            (_, false, false) if offers.has(AppOp::Connect) => Ok(()),
            (_, false, false) => {
                let message = format!("`{name}` offers neither calls, messages nor connections");
                Err(ScenarioError::new(path, message))
            }
        }
    }

    fn needs_connections(&self) -> bool {
        false
    }

    fn exchanges(&self) -> u64 {
        self.count
    }

    fn add(&self, built: &mut BuiltWorld, flow: &NewFlow<'_>, ends: FlowHosts, _: &mut OwnScript<'_>) {
        if let FlowHosts::Calls(calling) = ends {
            plan::add(built, flow, self, calling);
        }
    }

    fn smaller(&self, forms: &mut SmallerForms<'_, CallsSpec>) {
        forms.lower(self.count, 1, |calls, count| calls.count = count);
        forms.lower(self.size.map_or(0, |size| size.max), 1, |calls, size| {
            calls.size = Some(Sizes::one(size));
        });
        forms.lower(self.reply.map_or(0, |reply| reply.max), 1, |calls, reply| {
            calls.reply = Some(Sizes::one(reply));
        });
        forms.with(|calls| calls.arrivals = ArrivalProcess::Even);
        forms.lower(self.interval.0, 0, |calls, interval| {
            calls.interval = TimeSpan(interval);
        });
        forms.with(|calls| calls.outstanding = None);
        forms.with(|calls| calls.retry = TimeSpan(0));
    }
}

impl CallsSpec {
    /// Checks that a load is a valid share of an existing line.
    fn check_load(&self, scenario: &Scenario, flow: &FlowSpec, path: &str) -> Result<(), ScenarioError> {
        let Some(load) = self.load else {
            return Ok(());
        };
        reject(load.0 <= 0.0, path.to_owned(), "without load there are no calls")?;
        let message = "both `load` and `interval` state the time between calls";
        reject(self.interval.0 > 0, path.to_owned(), message)?;
        let without = flow
            .from
            .names()
            .iter()
            .find(|host| scenario.line_rate(host).is_none());
        if let Some(host) = without {
            let message = format!("the line of `{host}` has no rate of which this could be a share");
            return Err(ScenarioError::new(path, message).with_hint("give its link a `rate`"));
        }
        Ok(())
    }
}
