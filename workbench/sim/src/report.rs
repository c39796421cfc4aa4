//! The result of a run: as text for people, as JSON for programs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hawser_time::{Instant, nanos};
use serde::Serialize;

use crate::app::streams::StreamsReport;
use crate::end_status::EndStanding;
use crate::link::depths::Depths;
use crate::slowdown::Slowdown;

/// A run's result. Times are in seconds of virtual time since the start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The scenario's name.
    pub name: String,
    /// The seed of the run.
    pub seed: u64,
    /// The program's name.
    pub program: String,
    /// The engines that ran the hosts' programs: `interp`, `native`; several are separated by commas.
    pub engine: String,
    /// True if every flow was safe and complete and no check failed.
    pub ok: bool,
    /// The failures, one line each.
    pub failures: Vec<String>,
    /// The reason why the run ended: `done`, `time`, `idle`, `stalled`, `no-progress` or `paused`.
    pub end: &'static str,
    /// Seconds from the start to the end.
    pub seconds: f64,
    /// The number of entries that the event core processed.
    pub events: u64,
    /// A hash over every frame that was sent, delivered or dropped, and over every event of the applications:
    /// 16 hexadecimal digits. It is equal for two runs that did the same.
    pub trace_hash: String,
    /// The flows, one for each connection and each calling host.
    pub flows: Vec<FlowReport>,
    /// The slowdown of calls, if the scenario asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Slowdown>,
    /// The counters of each direction of each link.
    pub links: Vec<LinkReport>,
    /// The counters of each switch.
    pub switches: Vec<SwitchReport>,
    /// The counters of each host.
    pub hosts: Vec<HostReport>,
}

/// A connection, or a host that calls others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowReport {
    /// The index of the scenario's flow, counted from 0.
    pub flow: usize,
    /// `bulk`, `request`, `messages`, `streams`, `calls` or `works`.
    pub app: &'static str,
    /// The client's host.
    pub from: String,
    /// The server's host. For calls to several servers, the number of servers.
    pub to: String,
    /// The server's port.
    pub port: u16,
    /// The client's port, if the scenario determines it: if the flow is reopened, or shares its server's
    /// port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_port: Option<u16>,
    /// The start time, in seconds.
    pub start: f64,
    /// The time from the start until the client was connected, in seconds.
    pub connect_seconds: Option<f64>,
    /// True if the flow was safe and complete.
    pub ok: bool,
    /// The direction from client to server.
    pub forward: DirectionReport,
    /// The direction from server to client.
    pub backward: DirectionReport,
    /// The number of packets that both ends retransmitted, if the program has an observable
    /// `retransmissions`.
    pub retransmissions: Option<u64>,
    /// The client's last smoothed round-trip time, if the program has an observable `srtt` of type
    /// `duration_t`.
    pub srtt_seconds: Option<f64>,
    /// The times of exchanges or messages.
    pub times: Option<Times>,
    /// The failures of this flow.
    pub failures: Vec<String>,
    /// The standing of both ends, the client's first. It is present if the connection failed, or if it still
    /// existed when the run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<Box<[EndStanding; 2]>>,
}

/// One direction of a connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectionReport {
    /// The number of bytes that the receiving application read.
    pub bytes: u64,
    /// The time from the flow's start to the last byte, in seconds.
    pub seconds: Option<f64>,
    /// The average rate: the bytes, in bits, divided by the seconds.
    pub bits_per_second: Option<f64>,
    /// The SHA-256 of the bytes that were read. It is empty for streams and calls, whose bytes are compared
    /// instead.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sha256: String,
    /// True if the hash equals that of the bytes sent. For datagrams, true if each datagram that was read is
    /// one that was sent.
    pub sha256_ok: bool,
    /// Counts of messages, if messages are delivered whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagesReport>,
    /// The streams within the connection, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamsReport>,
    /// The works of queue pairs, if the flow has them. Bytes and times are those of the works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub works: Option<WorksReport>,
}

/// The works of one end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WorksReport {
    /// The number of works that it posted.
    pub posted: u64,
    /// The number of posted works that are done.
    pub done: u64,
}

/// The messages of one direction that are delivered whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MessagesReport {
    /// The number of messages that the sender handed over.
    pub sent: u64,
    /// The number of messages that the receiving application read.
    pub received: u64,
}

/// A distribution of times, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// The number of measurements.
    pub count: usize,
    /// The smallest time.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest time.
    pub max: f64,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkReport {
    /// The link's name.
    pub link: String,
    /// The host or switch at the sending end.
    pub from: String,
    /// The host or switch at the receiving end.
    pub to: String,
    /// The number of frames offered to the link.
    pub sent: u64,
    /// The number of bytes offered to the link.
    pub sent_bytes: u64,
    /// The number of frames delivered, including copies.
    pub delivered: u64,
    /// The number of bytes delivered, including copies.
    pub delivered_bytes: u64,
    /// The number of frames dropped, by cause.
    pub dropped: BTreeMap<&'static str, u64>,
    /// The number of frames marked by ECN.
    pub marked: u64,
    /// The number of packets that its queue trimmed.
    #[serde(skip_serializing_if = "is_zero")]
    pub trimmed: u64,
    /// The number of packets that were returned to their senders.
    #[serde(skip_serializing_if = "is_zero")]
    pub returned: u64,
    /// The depth of the queue in front of it, if the link has a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueReport>,
    /// The depth of the queue over time, if the scenario asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_depths: Option<Depths>,
    /// The pauses that the switch at its end requested, by priority; empty if that node does not pause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<PauseReport>,
    /// The number of frames in which a bit was flipped.
    pub corrupted: u64,
    /// The number of copies made.
    pub duplicated: u64,
    /// The number of frames held back.
    pub reordered: u64,
    /// True if the link is up when the run is over.
    pub up: bool,
    /// The number of frames in flight when the run is over.
    pub under_way: usize,
}

/// The depth of a queue, including the frame that is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QueueReport {
    /// The maximum number of bytes at any time.
    pub max_bytes: u64,
    /// The maximum number of frames at any time.
    pub max_packets: u64,
    /// The average number of bytes over the run.
    pub mean_bytes: f64,
}

/// The pauses that a switch requested for one priority of the port in front of it (PFC).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PauseReport {
    /// The switch's priority.
    pub priority: u8,
    /// The number of pauses that it requested.
    pub pauses: u64,
    /// The total time for which the port paused, in seconds.
    pub seconds: f64,
    /// True if the port is still paused when the run is over.
    pub is_paused: bool,
    /// The maximum number of bytes from this link that waited in the switch.
    pub max_bytes: u64,
    /// The number of packets that it lost for lack of headroom.
    pub lost: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The counters of one switch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchReport {
    /// The switch's name.
    pub switch: String,
    /// The number of frames that it forwarded.
    pub forwarded: u64,
    /// The number of frames that it dropped, by reason: `no_route` if it has no route to the destination,
    /// `down` if it was down.
    pub dropped: BTreeMap<&'static str, u64>,
}

/// The counters of one host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostReport {
    /// The host's name.
    pub host: String,
    /// The counters of its stack that are not zero.
    pub counters: BTreeMap<String, u64>,
}

impl DirectionReport {
    /// Reports the bytes of a flow that began at `start`; the last of them arrived at `last`.
    pub(crate) fn new(bytes: u64, start: Instant, last: Option<Instant>) -> DirectionReport {
        let taken = last.map(|at| seconds(at - start));
        DirectionReport {
            bytes,
            seconds: taken,
            bits_per_second: taken
                .filter(|taken| *taken > 0.0)
                .map(|taken| bytes as f64 * 8.0 / taken),
            sha256: String::new(),
            sha256_ok: true,
            messages: None,
            streams: None,
            works: None,
        }
    }
}

/// Returns a time span in seconds.
pub(crate) fn seconds(span: Duration) -> f64 {
    nanos(span) as f64 / 1e9
}

impl Times {
    /// Returns the distribution of the times, or `None` if there are none.
    #[must_use]
    pub fn from_durations(mut times: Vec<Duration>) -> Option<Times> {
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        // The nearest rank: the smallest value that at least this percentage of the values does not exceed.
        let rank = |percent: usize| (times.len() * percent).div_ceil(100).max(1) - 1;
        let seconds = |i: usize| seconds(times[i]);
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
        let times =
            Times::from_durations((1..=200).rev().map(Duration::from_millis).collect()).expect("some");
        assert_eq!((times.count, times.min, times.max), (200, 0.001, 0.2));
        assert_eq!((times.p50, times.p99), (0.1, 0.198));
        assert_eq!(Times::from_durations(vec![]), None);
        assert_eq!(
            Times::from_durations(vec![Duration::from_nanos(5)]).map(|times| times.p99),
            Some(5e-9)
        );
    }
}
