//! Streams within a connection.

use std::sync::Arc;

use hawser_ir::AppOp;
use hawser_time::Instant;
use serde::{Deserialize, Serialize};

use super::connection::{ConnectionScript, talk};
use super::{Checked, ProgramOffers, SmallerForms, Traffic, reject};
use crate::app::bulk::BulkEnd;
use crate::app::streams::{Agreed, Settings};
use crate::app::{Carries, SIDES};
use crate::scenario::units::{Share, Sizes};
use crate::scenario::{Closing, FlowSpec, Opening, Scenario, ScenarioError, defaults, is_default};

/// The maximum number of streams that an end of a flow opens: both ends know all of them.
const STREAMS_MAX: u64 = 100_000;
/// The maximum number of streams that an end has open at a time.
const CONCURRENT_MAX: u64 = 10_000;
/// The maximum length of a stream, in bytes.
const LONGEST: u64 = 1 << 32;

/// Streams within each connection of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamsSpec {
    /// The number of streams that each opening end opens.
    #[serde(default = "defaults::one")]
    pub count: u64,
    /// The number of bytes that the opener of a stream sends on it, in addition to the eight that identify
    /// the stream.
    pub size: Sizes,
    /// The number of bytes that the other end sends; by default the same as `size`.
    pub back: Option<Sizes>,
    /// The ends that open streams.
    #[serde(default, skip_serializing_if = "is_default")]
    pub opened_by: Openers,
    /// The maximum number of its own streams that an end has open at a time.
    #[serde(default = "defaults::concurrent")]
    pub concurrent: u64,
    /// The share of streams on which only the opener sends.
    #[serde(default, skip_serializing_if = "is_default")]
    pub one_way: Share,
    /// The share of directions that their sender resets midway.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reset: Share,
    /// The share of the remaining directions that their reader stops midway.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stop: Share,
}

/// The ends that open streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Openers {
    /// The end that connects.
    #[default]
    Client,
    /// The end that listens.
    Server,
    /// Both ends, with the same number of streams each.
    Both,
}

impl StreamsSpec {
    /// Creates `count` streams of these sizes, opened by the client.
    #[must_use]
    pub fn new(count: u64, size: Sizes) -> StreamsSpec {
        StreamsSpec {
            count,
            size,
            back: None,
            opened_by: Openers::Client,
            concurrent: defaults::concurrent(),
            one_way: Share(0.0),
            reset: Share(0.0),
            stop: Share(0.0),
        }
    }

    /// Returns the number of streams that the client opens, and that the server opens.
    #[must_use]
    pub fn counts(&self) -> [u64; 2] {
        match self.opened_by {
            Openers::Client => [self.count, 0],
            Openers::Server => [0, self.count],
            Openers::Both => [self.count, self.count],
        }
    }

    fn check_numbers(&self, at: impl Fn(&str) -> String) -> Checked {
        reject(self.count == 0, at("count"), "at least one stream")?;
        let message =
            format!("more than {STREAMS_MAX} streams of a connection, each of which both ends know");
        reject(self.count > STREAMS_MAX, at("count"), message)?;
        let message = "without an open stream, no data can be sent";
        reject(self.concurrent == 0, at("concurrent"), message)?;
        let message = format!("more than {CONCURRENT_MAX} streams at a time");
        reject(self.concurrent > CONCURRENT_MAX, at("concurrent"), message)?;
        let longest = self.back.map_or(0, |back| back.max);
        for (key, longest) in [("size", self.size.max), ("back", longest)] {
            let message = format!("a stream of {longest} bytes is longer than the limit of {LONGEST}");
            reject(longest > LONGEST, at(key), message)?;
        }
        Ok(())
    }
}

impl Traffic for StreamsSpec {
    fn check(&self, _: &Scenario, flow: &FlowSpec, path: &str) -> Checked {
        self.check_numbers(|key| format!("{path}.streams.{key}"))?;
        if flow.close == Closing::Both {
            let message = "an end that closes immediately ends the streams of the other end";
            let error = ScenarioError::new(format!("{path}.close"), message);
            return Err(error.with_hint("`client`, `server` or `never`"));
        }
        let message = "both ends of a flow of streams cannot connect at once";
        reject(flow.open == Opening::Both, format!("{path}.open"), message)?;
        if flow.one_way {
            let message = "this is a key of `streams`";
            let error = ScenarioError::new(format!("{path}.one_way"), message);
            return Err(error.with_hint("streams = { size = 1000, one_way = 1 }"));
        }
        Ok(())
    }

    fn check_offer(&self, offers: &ProgramOffers<'_>, path: &str) -> Checked {
        if !offers.has(AppOp::Open) {
            let message = format!("the connections of `{}` have no streams within them", offers.name);
            let error = ScenarioError::new(path, message);
            return Err(error.with_hint("the program carries one stream: `bulk = { bytes = \"1MiB\" }`"));
        }
        offers.check_connections(path)
    }

    fn exchanges(&self) -> u64 {
        self.count
    }

    fn talk(&self, _: Instant, seed: u64, label: &str) -> ConnectionScript {
        let settings = Settings {
            counts: self.counts(),
            size: self.size.bounds(),
            back: self.back.unwrap_or(self.size).bounds(),
            concurrent: self.concurrent as usize,
            one_way: self.one_way.0,
            reset: self.reset.0,
            stop: self.stop.0,
        };
        let agreed = Arc::new(Agreed::draw(&settings, seed, label));
        let carries = SIDES.map(|_| Carries::Streams(Arc::clone(&agreed)));
        ConnectionScript { carries, ..talk(|side| BulkEnd::new(side, 0, 0)) }
    }

    fn smaller(&self, forms: &mut SmallerForms<'_, StreamsSpec>) {
        forms.lower(self.count, 1, |streams, count| streams.count = count);
        forms.with(|streams| streams.opened_by = Openers::Client);
        forms.with(|streams| streams.reset = Share(0.0));
        forms.with(|streams| streams.stop = Share(0.0));
        forms.with(|streams| streams.one_way = Share(0.0));
        forms.lower(self.size.max, 0, |streams, size| streams.size = Sizes::one(size));
        forms.lower(self.back.unwrap_or(self.size).max, 0, |streams, back| {
            streams.back = Some(Sizes::one(back));
        });
        forms.lower(self.concurrent, 1, |streams, concurrent| {
            streams.concurrent = concurrent;
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    fn error(streams: &str, more: &str) -> String {
        let text = format!(
            "program = 'x'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\nlink = [{{ between = ['a', 'b'] }}]\n\
             flow = [{{ from = 'a', to = 'b', {more} streams = {{ {streams} }} }}]\n"
        );
        match Scenario::parse(&text) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn streams_are_parsed_and_errors_reported() {
        let all = "count = 20, size = [1, '100kB'], back = 10, opened_by = 'both', concurrent = 8, one_way = '30%', \
                   reset = '10%', stop = '5%'";
        assert_eq!(error(all, ""), "");
        assert_eq!(error("size = 0", "close = 'server',"), "");
        for (streams, more, wanted) in [
            ("", "", "size"),
            (
                "size = 1, count = 0",
                "",
                "`flow[0].streams.count`: at least one stream",
            ),
            ("size = 1, count = 100001", "", "more than 100000 streams"),
            ("size = 1, concurrent = 0", "", "`flow[0].streams.concurrent`"),
            (
                "size = 1, concurrent = 10001",
                "",
                "more than 10000 streams at a time",
            ),
            (
                "size = 1, back = '5GiB'",
                "",
                "`flow[0].streams.back`: a stream of 5368709120 bytes",
            ),
            ("size = 1, reset = 1.5", "", "reset"),
            ("size = 1, opened_by = 'nobody'", "", "opened_by"),
            ("size = 1, colour = 1", "", "colour"),
            (
                "size = 1",
                "close = 'both',",
                "`flow[0].close`: an end that closes immediately",
            ),
            ("size = 1", "open = 'both',", "`flow[0].open`: both ends"),
            (
                "size = 1",
                "one_way = true,",
                "`flow[0].one_way`: this is a key of `streams`",
            ),
            ("size = 1", "bulk = { bytes = 1 },", "exactly one of"),
        ] {
            let error = error(streams, more);
            assert!(error.contains(wanted), "{streams} {more}: {error}");
        }
    }
}
