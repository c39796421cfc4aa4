//! What came of a run: for people as text, for programs as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hawser_time::nanos;
use serde::Serialize;

use crate::app::streams::StreamsReport;
use crate::link::depths::Depths;
use crate::slowdown::Slowdown;
use crate::standing::EndStanding;

/// A run's result. Times are in seconds of virtual time since the start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The scenario's name.
    pub name: String,
    /// The seed that was used.
    pub seed: u64,
    /// The program.
    pub program: String,
    /// What ran the hosts' programs: `interp`, `native`; several with commas between.
    pub engine: String,
    /// True when every flow was safe and complete and nothing failed.
    pub ok: bool,
    /// What went wrong, a line each.
    pub failures: Vec<String>,
    /// Why it ended: `done`, `time`, `idle` or `stalled`.
    pub end: &'static str,
    /// Seconds from the start to the end.
    pub seconds: f64,
    /// Things that the event core worked off.
    pub events: u64,
    /// Hash over every frame sent, delivered or dropped, and every event of the applications:
    /// 16 hexadecimal digits. Alike for two runs that did the same.
    pub trace_hash: String,
    /// The flows, one per connection.
    pub flows: Vec<FlowReport>,
    /// How calls were slowed down, where the scenario asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Slowdown>,
    /// The directions of the links.
    pub links: Vec<LinkReport>,
    /// The switches.
    pub switches: Vec<SwitchReport>,
    /// The hosts.
    pub hosts: Vec<HostReport>,
}

/// One connection, or a host that calls others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowReport {
    /// The scenario's flow, counted from 0.
    pub flow: usize,
    /// `bulk`, `request`, `messages`, `streams`, `calls` or `works`.
    pub app: &'static str,
    /// The client's host.
    pub from: String,
    /// The server's host; of calls that go to several, how many these are.
    pub to: String,
    /// The server's port.
    pub port: u16,
    /// The client's port, where the scenario decides it: where it is opened again, or shares its server's port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_port: Option<u16>,
    /// When it started.
    pub start: f64,
    /// From the start to the client's connection.
    pub connect_seconds: Option<f64>,
    /// True when it was safe and complete.
    pub ok: bool,
    /// From client to server.
    pub forward: DirectionReport,
    /// From server to client.
    pub backward: DirectionReport,
    /// Packets sent again, by both ends, if the program has an observable `retransmissions`.
    pub retransmissions: Option<u64>,
    /// The client's last smoothed round-trip time, if the program has an observable `srtt` of
    /// type `duration_t`.
    pub srtt_seconds: Option<f64>,
    /// Times of exchanges or messages.
    pub times: Option<Times>,
    /// What is wrong with it.
    pub failures: Vec<String>,
    /// Of a connection that failed, or that is still there when a run fails: how its ends stood, the client's first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<Box<[EndStanding; 2]>>,
}

/// One direction of a connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectionReport {
    /// Bytes that the receiving application has read.
    pub bytes: u64,
    /// From the flow's start to the last byte.
    pub seconds: Option<f64>,
    /// Bytes over seconds.
    pub bits_per_second: Option<f64>,
    /// SHA-256 of what was read; empty of streams and of calls, whose bytes are compared.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sha256: String,
    /// Whether it is that of what was sent; of datagrams, whether each that was read is one that was sent.
    pub sha256_ok: bool,
    /// Messages, where they are delivered whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagesReport>,
    /// Streams, where the connection has them within it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamsReport>,
    /// Works of queue pairs; bytes and times are theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub works: Option<WorksReport>,
}

/// Works of one end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WorksReport {
    /// Those that it has posted.
    pub posted: u64,
    /// Those of them that are done.
    pub done: u64,
}

/// Messages of one direction that are delivered whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MessagesReport {
    /// Those that the sender handed over.
    pub sent: u64,
    /// Those that the receiving application has read.
    pub received: u64,
}

/// A distribution of times, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// How many were measured.
    pub count: usize,
    /// The smallest.
    pub min: f64,
    /// Half are not above it.
    pub p50: f64,
    /// 99 of 100 are not above it.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkReport {
    /// The link's name.
    pub link: String,
    /// The host or switch that frames come from.
    pub from: String,
    /// The host or switch that they go to.
    pub to: String,
    /// Frames offered.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames that came out, copies included.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Frames dropped, by cause.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Frames marked by ECN.
    pub marked: u64,
    /// Packets that its queue has cut.
    #[serde(skip_serializing_if = "is_zero")]
    pub trimmed: u64,
    /// Packets that went back to their senders.
    #[serde(skip_serializing_if = "is_zero")]
    pub returned: u64,
    /// How deep the queue in front of it has been, where it has a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueReport>,
    /// The same over time, where the scenario asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_depths: Option<Depths>,
    /// How the switch at its end has paused it, by priority; empty where that does not pause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<PauseReport>,
    /// Frames in which a bit was flipped.
    pub corrupted: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Frames held back.
    pub reordered: u64,
    /// Whether it is up when the run is over.
    pub up: bool,
    /// Frames under way then.
    pub under_way: usize,
}

/// How deep a queue has been, the frame on the line included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QueueReport {
    /// The most bytes at a time.
    pub max_bytes: u64,
    /// The most frames at a time.
    pub max_packets: u64,
    /// Bytes on average over the run.
    pub mean_bytes: f64,
}

/// How a switch has paused a priority of the port in front of it (PFC).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PauseReport {
    /// The switch's priority.
    pub priority: u8,
    /// How many times it asked for a pause.
    pub pauses: u64,
    /// For how long the port has paused.
    pub seconds: f64,
    /// Whether it still does when the run is over.
    pub is_paused: bool,
    /// The most bytes that waited in the switch of what came this way.
    pub max_bytes: u64,
    /// Packets that it lost for want of head room.
    pub lost: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchReport {
    /// Its name.
    pub switch: String,
    /// Frames that it passed on.
    pub forwarded: u64,
    /// Frames that it dropped, by reason: `no_route` to where they want to go, or it was `down`.
    pub dropped: BTreeMap<&'static str, u64>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostReport {
    /// Its name.
    pub host: String,
    /// What its stack has counted, apart from zeros.
    pub counters: BTreeMap<String, u64>,
}

impl Times {
    /// The distribution of times; nothing when there are none.
    #[must_use]
    pub fn of(mut times: Vec<Duration>) -> Option<Times> {
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        // The nearest rank: the smallest value that so large a part does not exceed.
        let rank = |percent: usize| (times.len() * percent).div_ceil(100).max(1) - 1;
        let seconds = |i: usize| nanos(times[i]) as f64 / 1e9;
        Some(Times {
            count: times.len(),
            min: seconds(0),
            p50: seconds(rank(50)),
            p99: seconds(rank(99)),
            max: seconds(last),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = if self.name.is_empty() {
            "unnamed"
        } else {
            &self.name
        };
        writeln!(
            f,
            "{}: {} (seed {})",
            title.escape_debug(),
            self.program.escape_debug(),
            self.seed
        )?;
        self.flows.iter().try_for_each(|flow| write!(f, "{flow}"))?;
        self.slowdown
            .iter()
            .try_for_each(|slowdown| writeln!(f, "{slowdown}"))?;
        self.links.iter().try_for_each(|link| writeln!(f, "{link}"))?;
        self.switches
            .iter()
            .try_for_each(|switch| writeln!(f, "{switch}"))?;
        self.failures
            .iter()
            .try_for_each(|failure| writeln!(f, "FAILED: {failure}"))?;
        let verdict = if self.ok { "ok" } else { "failed" };
        let (end, seconds, hash) = (self.end, self.seconds, &self.trace_hash);
        write!(
            f,
            "{verdict}: {end} after {seconds:.6} s, {} events, trace {hash}, engine {}",
            self.events, self.engine
        )
    }
}

impl fmt::Display for FlowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FlowReport { flow, app, from, to, port, .. } = self;
        writeln!(
            f,
            "flow {flow} {app} {} -> {}:{port}{}",
            from.escape_debug(),
            to.escape_debug(),
            if self.ok { "" } else { " FAILED" }
        )?;
        for (arrow, direction) in [("->", &self.forward), ("<-", &self.backward)] {
            let sent = direction.messages.map_or(0, |messages| messages.sent);
            let streams = direction.streams.map_or(0, |streams| streams.sent);
            let works = direction.works.map_or(0, |works| works.posted);
            if direction.bytes > 0 || sent > 0 || streams > 0 || works > 0 || !direction.sha256_ok {
                writeln!(f, "  {arrow} {direction}")?;
            }
        }
        if let Some(times) = &self.times {
            writeln!(f, "  {times}")?;
        }
        match self.retransmissions {
            Some(count) => writeln!(f, "  {count} retransmissions"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for DirectionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(MessagesReport { sent, received }) = self.messages {
            write!(f, "{received} of {sent} messages, ")?;
        }
        if let Some(streams) = self.streams {
            write!(f, "{} of {} streams", streams.received, streams.sent)?;
            for (count, what) in [(streams.reset, "reset"), (streams.stopped, "stopped")] {
                if count > 0 {
                    write!(f, ", {count} {what}")?;
                }
            }
            f.write_str(", ")?;
        }
        if let Some(WorksReport { posted, done }) = self.works {
            write!(f, "{done} of {posted} works, ")?;
        }
        write!(f, "{} bytes", self.bytes)?;
        if let (Some(seconds), Some(rate)) = (self.seconds, self.bits_per_second) {
            write!(f, " in {seconds:.6} s, {:.3} Mbit/s", rate / 1e6)?;
        }
        f.write_str(match (self.sha256.is_empty(), self.sha256_ok) {
            (true, _) => "",
            (false, true) => ", sha256 ok",
            (false, false) => ", sha256 DIFFERS",
        })
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |seconds: f64| seconds * 1e3;
        let Times { count, min, p50, p99, max } = *self;
        let (min, p50, p99, max) = (ms(min), ms(p50), ms(p99), ms(max));
        write!(
            f,
            "{count} times: min {min:.3} p50 {p50:.3} p99 {p99:.3} max {max:.3} ms"
        )
    }
}

impl fmt::Display for SwitchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "switch {}: {} frames forwarded",
            self.switch.escape_debug(),
            self.forwarded
        )?;
        let mut dropped = self.dropped.iter();
        dropped.try_for_each(|(reason, count)| write!(f, ", {count} dropped ({reason})"))
    }
}

impl fmt::Display for LinkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LinkReport { link, from, to, sent, delivered, .. } = self;
        write!(
            f,
            "link {} {} -> {}: {sent} frames sent, {delivered} delivered",
            link.escape_debug(),
            from.escape_debug(),
            to.escape_debug()
        )?;
        self.dropped
            .iter()
            .try_for_each(|(cause, count)| write!(f, ", {count} lost ({cause})"))?;
        let others = [
            ("marked", self.marked),
            ("trimmed", self.trimmed),
            ("returned", self.returned),
            ("corrupted", self.corrupted),
            ("duplicated", self.duplicated),
            ("held back", self.reordered),
        ];
        let mut seen = others.iter().filter(|(_, count)| *count > 0);
        seen.try_for_each(|(what, count)| write!(f, ", {count} {what}"))?;
        self.pauses.iter().try_for_each(|pauses| write!(f, "{pauses}"))
    }
}

impl fmt::Display for PauseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PauseReport { priority, pauses, seconds, .. } = self;
        write!(
            f,
            ", priority {priority} paused {pauses} times for {seconds:.6} s"
        )?;
        if self.is_paused {
            f.write_str(" and still")?;
        }
        match self.lost {
            0 => Ok(()),
            lost => write!(f, ", {lost} lost beyond its head room"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let times = Times::of((1..=200).rev().map(Duration::from_millis).collect()).expect("some");
        assert_eq!((times.count, times.min, times.max), (200, 0.001, 0.2));
        assert_eq!((times.p50, times.p99), (0.1, 0.198));
        assert_eq!(Times::of(vec![]), None);
        assert_eq!(
            Times::of(vec![Duration::from_nanos(5)]).map(|times| times.p99),
            Some(5e-9)
        );
    }
}
