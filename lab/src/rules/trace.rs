//! A link whose times come from a file in mahimahi's format: each line of the file is a millisecond at which
//! 1500 bytes may leave. After its last time, the file begins again.
//!
//! As in mahimahi, the rest of an opportunity goes to the next packet if that is already waiting. A packet
//! leaves with the opportunity that takes its last byte. Bytes are those of the IP packet.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use hawser_sim::frame::Frame;
use hawser_sim::link::{Profile, Rule, Verdict};
use hawser_sim::rng::Rng;
use hawser_time::Instant;
use parking_lot::Mutex;

/// The bytes of an opportunity.
const OPPORTUNITY: u64 = 1500;
const MILLISECOND: u64 = 1_000_000;
/// The largest number of lines of a file: 10 minutes at 200 Mbit/s.
const MAX_LINES: usize = 10_000_000;

/// The latest time of a file, in milliseconds: a year.
const MAX_TIME_MS: u64 = 31_536_000_000;

/// The times of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceTimes {
    /// The times in milliseconds, ascending. The list is not empty, and its last time is not 0.
    times: Vec<u64>,
}

/// A trace is invalid. Lines are counted from 1.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be read.
    #[error("{0}")]
    System(io::Error),
    /// A line is not a whole number of milliseconds.
    #[error("line {0}: `{1}` is not a whole number of milliseconds")]
    NoNumber(usize, String),
    /// A line's time is before that of the previous line.
    #[error("line {0}: the times of a trace never go back")]
    Backwards(usize),
    /// A line's time is more than a year.
    #[error("line {0}: a trace is at most a year long, {MAX_TIME_MS} ms")]
    Late(usize),
    /// There are more lines than a trace may have.
    #[error("line {0}: a trace has at most {MAX_LINES} lines")]
    Long(usize),
    /// The file has no line.
    #[error("a trace needs at least one line, a time in milliseconds")]
    Empty,
    /// The last time is 0.
    #[error("the last time of a trace is its length, and cannot be 0")]
    Zero,
}

impl TraceTimes {
    /// Parses the text of a file.
    pub(crate) fn parse(text: &str) -> Result<TraceTimes, TraceError> {
        let mut times = Vec::new();
        for (number, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let number = number + 1;
            let time: u64 = line
                .trim()
                .parse()
                .map_err(|_| TraceError::NoNumber(number, line.to_owned()))?;
            if times.last().is_some_and(|last| time < *last) {
                return Err(TraceError::Backwards(number));
            }
            if time > MAX_TIME_MS {
                return Err(TraceError::Late(number));
            }
            if times.len() == MAX_LINES {
                return Err(TraceError::Long(number));
            }
            times.push(time);
        }
        match times.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::Zero),
            Some(_) => Ok(TraceTimes { times }),
        }
    }

    /// Returns the time of an opportunity, in nanoseconds from the start of the first round.
    fn time(&self, opportunity: u64) -> u64 {
        let count = self.times.len() as u64;
        let length = self.times.last().copied().unwrap_or(1);
        let (round, index) = (opportunity / count, (opportunity % count) as usize);
        (round * length + self.times[index]).saturating_mul(MILLISECOND)
    }

    /// Returns the first opportunity at or after a time.
    fn first_at(&self, time: u64) -> u64 {
        let length = self.times.last().copied().unwrap_or(1) * MILLISECOND;
        let (round, within) = (time / length, time % length);
        let before = self.times.partition_point(|ms| ms * MILLISECOND < within);
        // At the very start of a round, an opportunity at the end of the previous round also counts.
        let first = round * self.times.len() as u64 + before as u64;
        if within == 0 && round > 0 {
            let same = self
                .times
                .iter()
                .rev()
                .take_while(|ms| **ms * MILLISECOND == length)
                .count();
            return first.min(round * self.times.len() as u64 - same as u64);
        }
        first
    }
}

/// See the [module](self).
pub(crate) struct Trace {
    shared: Arc<Mutex<Option<Arc<TraceTimes>>>>,
    running: Option<TracePlayback>,
    limit_bytes: u64,
    limit_packets: u64,
    /// The departure time of each waiting frame, and its bytes.
    waiting: VecDeque<(Instant, u64)>,
    bytes: u64,
}

/// A trace in progress.
struct TracePlayback {
    line: Arc<TraceTimes>,
    start: Instant,
    /// The current opportunity, and its remaining bytes.
    opportunity: u64,
    left: u64,
}

impl Trace {
    /// Makes a rule that follows this choice of a trace.
    pub(crate) fn new(shared: &Arc<Mutex<Option<Arc<TraceTimes>>>>) -> Trace {
        Trace {
            shared: Arc::clone(shared),
            running: None,
            limit_bytes: u64::MAX,
            limit_packets: u64::MAX,
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Removes the frames that have left.
    fn drain(&mut self, now: Instant) {
        while let Some(&(gone, bytes)) = self.waiting.front()
            && gone <= now
        {
            self.bytes -= bytes;
            self.waiting.pop_front();
        }
    }

    /// Starts a trace that was chosen since the last frame.
    fn follow(&mut self, now: Instant) {
        let chosen = self.shared.lock();
        let same = match (&*chosen, &self.running) {
            (Some(line), Some(running)) => Arc::ptr_eq(line, &running.line),
            (None, None) => true,
            _ => false,
        };
        if !same {
            self.running =
                chosen
                    .clone()
                    .map(|line| TracePlayback { line, start: now, opportunity: 0, left: 0 });
        }
    }
}

impl TracePlayback {
    /// Returns the time at which a packet that comes at `now` will have left.
    fn send(&mut self, now: Instant, is_idle: bool, bytes: u64) -> Instant {
        let now = now.nanos_since(self.start);
        if is_idle {
            // The rest of an earlier opportunity is lost, as are unused opportunities.
            let is_begun = self.left > 0 && self.left < OPPORTUNITY;
            let next = self.opportunity + u64::from(is_begun);
            self.opportunity = next.max(self.line.first_at(now));
            self.left = OPPORTUNITY;
        }
        let mut need = bytes;
        while need > self.left {
            need -= self.left;
            self.opportunity += 1;
            self.left = OPPORTUNITY;
        }
        let at = self.line.time(self.opportunity);
        self.left -= need;
        if self.left == 0 {
            self.opportunity += 1;
            self.left = OPPORTUNITY;
        }
        self.start.plus_nanos(at)
    }
}

impl Rule for Trace {
    fn name(&self) -> &'static str {
        "trace"
    }

    fn apply(&mut self, now: Instant, frame: &mut Frame, _rng: &mut Rng) -> Verdict {
        self.follow(now);
        self.drain(now);
        let Some(running) = &mut self.running else {
            return Verdict::Pass;
        };
        let bytes = (frame.len() - usize::from(frame.link_header).min(frame.len())) as u64;
        let is_idle = self.waiting.is_empty();
        let is_full = self.waiting.len() as u64 >= self.limit_packets
            || self.bytes.saturating_add(bytes) > self.limit_bytes;
        if !is_idle && is_full {
            return Verdict::Drop;
        }
        let at = running.send(now, is_idle, bytes);
        self.waiting.push_back((at, bytes));
        self.bytes += bytes;
        Verdict::Later(at)
    }

    fn tune(&mut self, profile: &Profile) {
        self.limit_bytes = profile.queue_bytes;
        self.limit_packets = profile.queue_packets;
    }

    fn waiting(&mut self, now: Instant) -> (u64, u64) {
        self.drain(now);
        (self.waiting.len() as u64, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hawser_engine::wire::Csum;

    const MS: u64 = MILLISECOND;

    /// Returns the departure times of packets of these sizes that come at these milliseconds.
    fn leave(text: &str, profile: &Profile, packets: &[(u64, usize)]) -> Vec<Option<u64>> {
        let line = Arc::new(Mutex::new(Some(Arc::new(
            TraceTimes::parse(text).expect("a trace"),
        ))));
        let mut rule = Trace::new(&line);
        rule.tune(profile);
        let mut rng = Rng::new(1, "unused");
        let mut send = |(at, bytes): &(u64, usize)| {
            let mut frame = Frame {
                head: vec![0; bytes + 14],
                csum: Csum::Unverified,
                link_header: 14,
                ..Frame::default()
            };
            match rule.apply(Instant::from_nanos(at * MS), &mut frame, &mut rng) {
                Verdict::Later(at) => Some(at.as_nanos() / MS),
                _ => None,
            }
        };
        packets.iter().map(&mut send).collect()
    }

    #[test]
    fn a_packet_leaves_with_the_opportunity_of_its_last_byte() {
        let free = Profile::default();
        // The trace starts with the first packet, and begins again after its last time.
        assert_eq!(
            leave("5\n10\n", &free, &[(0, 1500), (0, 1500), (0, 1500)]),
            [Some(5), Some(10), Some(15)]
        );
        assert_eq!(leave("5\n5\n", &free, &[(0, 1500); 4]), [5, 5, 10, 10].map(Some));
        assert_eq!(
            leave("5\n", &free, &[(0, 1000), (0, 500), (0, 1)]),
            [5, 5, 10].map(Some)
        );
        assert_eq!(leave("5\n", &free, &[(0, 1501), (0, 1499)]), [10, 10].map(Some));
    }

    #[test]
    fn unused_opportunities_expire() {
        let free = Profile::default();
        assert_eq!(
            leave("5\n", &free, &[(0, 100), (7, 1500), (20, 1500), (22, 1500)]),
            [5, 10, 20, 25].map(Some)
        );
        assert_eq!(
            leave("1\n10\n", &free, &[(0, 1500), (2, 1500), (10, 1500)]),
            [1, 10, 11].map(Some)
        );
    }

    #[test]
    fn a_frame_beyond_the_queue_is_lost() {
        let two = Profile { queue_packets: 2, ..Profile::default() };
        assert_eq!(
            leave("5\n", &two, &[(0, 9), (0, 9), (0, 9)]),
            [Some(5), Some(5), None]
        );
        let bytes = Profile { queue_bytes: 2000, ..Profile::default() };
        assert_eq!(
            leave("5\n", &bytes, &[(0, 1500), (0, 600), (0, 500)]),
            [Some(5), None, Some(10)]
        );
    }

    #[test]
    fn a_trace_longer_than_a_year_is_refused_with_its_line() {
        // 2^58 ms are 5^6 * 2^64 ns: 0 in 64 bits.
        for time in ["288230376151711744", "18446744073709551615", "31536000001"] {
            let found = TraceTimes::parse(&format!("1\n{time}\n")).expect_err(time);
            assert_eq!(
                found.to_string(),
                "line 2: a trace is at most a year long, 31536000000 ms"
            );
        }
        let year_apart = leave("31536000000\n", &Profile::default(), &[(0, 1500), (1, 1500)]);
        assert_eq!(year_apart, [Some(31_536_000_000), Some(63_072_000_000)]);
    }

    #[test]
    fn a_constant_trace_yields_its_rate() {
        // 12,000 bits each millisecond are 12 Mbit/s: a thousand packets take a second.
        let left = leave("1\n", &Profile::default(), &[(0, 1500); 1000]);
        assert_eq!(left.last(), Some(&Some(1000)));
    }

    #[test]
    fn bad_traces_are_refused() {
        for (text, why) in [
            ("", "at least one line"),
            ("0\n", "cannot be 0"),
            ("5\n4\n", "line 2"),
            ("1\nx\n", "line 2: `x`"),
        ] {
            let error = TraceTimes::parse(text).expect_err(text);
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
