//! The state of a flow: `struct tcp_info` (include/uapi/linux/tcp.h) with our names and units.

use std::sync::LazyLock;

use rustix::time::{ClockId, clock_getres};

use crate::abi::{RawRecord, RawState, UNSEEN};

/// The ticks of the kernel's timers in a second (CONFIG_HZ), which is the resolution of its coarse clocks.
static HERTZ: LazyLock<u64> = LazyLock::new(|| {
    let tick = clock_getres(ClockId::MonotonicCoarse)
        .tv_nsec
        .cast_unsigned()
        .max(1);
    (1_000_000_000 + tick / 2) / tick
});

/// A flow's state variables. Amounts are bytes, times nanoseconds. The kernel counts many of them in
/// segments; such an amount is the number of segments times [`FlowState::smss`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowState {
    /// The connection's state, numbered as `state_t` in `transports/tcp/state.mtp`; 0 is no connection.
    pub state: u64,
    /// The congestion window, in bytes.
    pub cwnd: u64,
    /// The slow start threshold, in bytes; `u64::MAX` if it has not been set.
    pub ssthresh: u64,
    /// The smoothed round-trip time (RFC 6298), in nanoseconds.
    pub srtt: u64,
    /// The mean deviation of the round-trip time, in nanoseconds.
    pub rttvar: u64,
    /// The retransmission timeout, in nanoseconds.
    pub rto: u64,
    /// The smallest round-trip time of the last minutes, in nanoseconds; 0 if none was measured.
    pub min_rtt: u64,
    /// The payload of a full segment, in bytes (sender maximum segment size).
    pub smss: u64,
    /// Bytes sent and not acknowledged. It may be off by one, because the kernel counts the SYN at one of the
    /// ends.
    pub flight: u64,
    /// Bytes acknowledged since the beginning: the offset of `snd_una` in the stream.
    pub snd_una: u64,
    /// Bytes sent for the first time: the offset of `snd_nxt` in the stream.
    pub snd_nxt: u64,
    /// The peer's window, in bytes.
    pub snd_wnd: u64,
    /// Bytes that have been delivered to the peer, counted in whole segments.
    pub delivered: u64,
    /// The number of retransmitted segments.
    pub retransmissions: u64,
    /// Bytes considered lost and not yet acknowledged.
    pub lost_bytes: u64,
    /// The pacing rate, in bytes per second; `u64::MAX` if there is none.
    pub pacing_rate: u64,
    /// The latest delivery rate, in bytes per second.
    pub delivery_rate: u64,
    /// Bytes received in order.
    pub received: u64,
}

impl FlowState {
    /// The names of the variables, without the provider's (`kernel.tcp`) before them, in the order of
    /// [`FlowState::values`].
    pub const NAMES: [&str; 18] = [
        "conn.state",
        "conn.cc.cwnd",
        "conn.cc.ssthresh",
        "conn.srtt",
        "conn.rttvar",
        "conn.rto",
        "conn.rack.min_rtt",
        "conn.smss",
        "conn.flight",
        "conn.snd_una",
        "conn.snd_nxt",
        "conn.snd_wnd",
        "conn.delivered",
        "conn.retransmissions",
        "conn.lost_bytes",
        "conn.cc.pacing_rate",
        "conn.delivery_rate",
        "conn.received",
    ];

    /// Returns the values of the variables.
    #[must_use]
    pub fn values(&self) -> [u64; Self::NAMES.len()] {
        [
            self.state,
            self.cwnd,
            self.ssthresh,
            self.srtt,
            self.rttvar,
            self.rto,
            self.min_rtt,
            self.smss,
            self.flight,
            self.snd_una,
            self.snd_nxt,
            self.snd_wnd,
            self.delivered,
            self.retransmissions,
            self.lost_bytes,
            self.pacing_rate,
            self.delivery_rate,
            self.received,
        ]
    }

    /// Returns the name and the value of each variable.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Self::NAMES.into_iter().zip(self.values())
    }

    /// Reads the state of a record; `None` if the record has no state.
    pub(crate) fn from_record(record: &RawRecord) -> Option<Self> {
        (record.state != UNSEEN).then(|| Self::from_raw(u64::from(record.state), &record.stood))
    }

    fn from_raw(state: u64, raw: &RawState) -> Self {
        let smss = u64::from(raw.mss);
        let bytes = |segments: u32| u64::from(segments) * smss;
        let micros = |micros: u32| u64::from(micros) * 1000;
        let (delivered, interval) = (bytes(raw.rate_delivered), u64::from(raw.rate_interval));
        Self {
            state,
            cwnd: bytes(raw.cwnd),
            ssthresh: threshold(raw.ssthresh, smss),
            srtt: micros(raw.srtt),
            rttvar: micros(raw.rttvar),
            // The kernel has this timeout in whole microseconds, so it is rounded down to them.
            rto: u64::from(raw.rto) * 1_000_000 / *HERTZ * 1000,
            min_rtt: min_rtt_nanos(raw.min_rtt),
            smss,
            flight: u64::from(raw.flight),
            snd_una: raw.acked,
            snd_nxt: raw.acked.saturating_add(raw.flight.into()),
            snd_wnd: u64::from(raw.wnd),
            delivered: bytes(raw.delivered),
            retransmissions: u64::from(raw.retransmissions),
            lost_bytes: bytes(raw.lost),
            pacing_rate: raw.pacing_rate,
            delivery_rate: delivered
                .saturating_mul(1_000_000)
                .checked_div(interval)
                .unwrap_or(0),
            received: raw.received,
        }
    }

    /// Reads a `struct tcp_info`. An older kernel's is shorter; the missing variables are 0.
    pub(super) fn from_tcp_info(info: &[u8]) -> Self {
        let word = |at: usize| {
            let bytes = info.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            u64::from(bytes.map_or(0, u32::from_ne_bytes))
        };
        let long = |at: usize| {
            let bytes = info.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        let micros = |at| word(at) * 1000;
        let smss = word(16);
        let (sent, sent_again, acked) = (long(200), long(208), long(120));
        let snd_nxt = sent.saturating_sub(sent_again).max(acked);
        Self {
            state: common_state(info.first().copied().unwrap_or(0)),
            cwnd: word(80) * smss,
            ssthresh: threshold(word(76) as u32, smss),
            srtt: micros(68),
            rttvar: micros(72),
            rto: micros(8),
            min_rtt: min_rtt_nanos(word(148) as u32),
            smss,
            flight: if word(24) == 0 { 0 } else { snd_nxt - acked },
            snd_una: acked,
            snd_nxt,
            snd_wnd: word(228),
            delivered: word(192) * smss,
            retransmissions: word(100),
            lost_bytes: word(32) * smss,
            pacing_rate: long(104),
            delivery_rate: long(160),
            received: long(128),
        }
    }

    /// Sets the state from the kernel's number of it.
    pub(super) fn set_linux_state(&mut self, state: u8) {
        self.state = common_state(state);
    }
}

/// Converts a threshold from segments to bytes.
fn threshold(segments: u32, smss: u64) -> u64 {
    // TCP_INFINITE_SSTHRESH
    if segments >= 0x7fff_ffff {
        u64::MAX
    } else {
        u64::from(segments) * smss
    }
}

/// Converts the smallest round-trip time from microseconds to nanoseconds; all ones mean that none was
/// measured.
fn min_rtt_nanos(micros: u32) -> u64 {
    if micros == u32::MAX {
        0
    } else {
        u64::from(micros) * 1000
    }
}

/// Converts a state of include/net/tcp_states.h to `state_t`.
fn common_state(linux: u8) -> u64 {
    match linux {
        2 => 1,      // SYN-SENT
        3 | 12 => 2, // SYN-RECEIVED
        1 => 3,      // ESTABLISHED
        4 => 4,      // FIN-WAIT-1
        5 => 5,      // FIN-WAIT-2
        8 => 6,      // CLOSE-WAIT
        11 => 7,     // CLOSING
        9 => 8,      // LAST-ACK
        6 => 9,      // TIME-WAIT
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_kernels_answer_is_shorter() {
        let mut info = [0; 104];
        info[0] = 1;
        info[16..20].copy_from_slice(&1448_u32.to_ne_bytes());
        info[76..80].copy_from_slice(&0x7fff_ffff_u32.to_ne_bytes());
        info[80..84].copy_from_slice(&10_u32.to_ne_bytes());
        let state = FlowState::from_tcp_info(&info);
        assert_eq!((state.state, state.smss, state.cwnd), (3, 1448, 14480));
        assert_eq!((state.ssthresh, state.snd_wnd), (u64::MAX, 0));
        assert_eq!(
            FlowState::from_tcp_info(&[]),
            FlowState { ssthresh: 0, ..FlowState::default() }
        );
    }

    #[test]
    fn a_record_is_converted_as_an_answer_is() {
        let raw = RawState {
            acked: 5_000,
            flight: 2_896,
            cwnd: 10,
            ssthresh: 0x7fff_ffff,
            srtt: 20_001,
            rto: u32::try_from(*HERTZ / 5).expect("200 ms"),
            min_rtt: u32::MAX,
            mss: 1448,
            delivered: 4,
            rate_delivered: 3,
            rate_interval: 2_000,
            ..RawState::default()
        };
        let state = FlowState::from_raw(3, &raw);
        assert_eq!((state.state, state.cwnd, state.ssthresh), (3, 14_480, u64::MAX));
        assert_eq!(
            (state.snd_una, state.snd_nxt, state.flight),
            (5_000, 7_896, 2_896)
        );
        assert_eq!(
            (state.srtt, state.rto, state.min_rtt),
            (20_001_000, 200_000_000, 0)
        );
        assert_eq!((state.delivered, state.delivery_rate), (5_792, 3 * 1448 * 500));
        assert_eq!(FlowState::from_raw(3, &RawState::default()).delivery_rate, 0);
    }
}
