//! The library's figures of an association and of its paths.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::Statistics;

use super::abi::{self, PeerAddressInformation, Status, option};
use super::address;
use super::library::Socket;
use crate::sctp::path::PathStatistics;

/// The interval at which the delivery rate is measured.
const SAMPLE: Duration = Duration::from_millis(100);

/// The number of packets whose data fits into one message.
const PACKETS: usize = 8;

/// Converts the library's description of a path.
fn path(information: &PeerAddressInformation) -> Option<PathStatistics> {
    let window = u64::from(information.window);
    Some(PathStatistics {
        peer: address::from_storage(&information.address)?,
        active: information.state == abi::PATH_ACTIVE,
        confirmed: information.state != abi::PATH_UNCONFIRMED,
        srtt: Duration::from_millis(information.srtt.into()),
        rto: Duration::from_millis(information.rto.into()),
        window,
        mtu: information.mtu as usize,
        rate: (window * 1_000).checked_div(information.srtt.into()).unwrap_or(0),
    })
}

/// Returns the paths of an association.
pub(crate) fn paths(socket: &Socket) -> Vec<PathStatistics> {
    let ask = |peer: SocketAddr| {
        let question =
            PeerAddressInformation { address: address::store(peer), ..PeerAddressInformation::default() };
        socket.get(option::PEER_ADDRESS_INFORMATION, question).ok()
    };
    socket
        .peer_addresses()
        .into_iter()
        .filter_map(ask)
        .filter_map(|path| self::path(&path))
        .collect()
}

/// Returns the maximum length of a message of the stream, in bytes.
pub(crate) fn message_length(status: &Status) -> usize {
    (status.fragmentation_point as usize).clamp(512, 9_000) * PACKETS
}

/// Counts the bytes of an association that were written and acknowledged.
pub(crate) struct AcknowledgementMeter {
    /// Bytes that the library has accepted.
    pub(crate) written: u64,
    acked: u64,
    rate: u64,
    since: Option<(Instant, u64)>,
}

impl AcknowledgementMeter {
    pub(crate) fn new() -> Self {
        Self { written: 0, acked: 0, rate: 0, since: None }
    }

    /// Converts the library's figures, which count chunks and messages, to bytes. The result is exact when
    /// full chunks and messages are sent, and too high otherwise.
    ///
    /// The round-trip time is the longest of the active paths, because any byte may take any of them. Slow
    /// start and retransmitted bytes are not reported.
    pub(crate) fn read(&mut self, now: Instant, status: &Status, paths: &[PathStatistics]) -> Statistics {
        let mss = status.fragmentation_point as usize;
        let message = message_length(status);
        let queued = (u64::from(status.pending) * message as u64).min(self.written - self.acked);
        let in_flight =
            (u64::from(status.unacknowledged) * mss as u64).min(self.written - self.acked - queued);
        self.acked = self.acked.max(self.written - queued - in_flight);
        self.measure(now);
        let active = || paths.iter().filter(|path| path.active);
        let slowest = active().max_by_key(|path| path.srtt);
        let srtt = slowest.map_or(Duration::ZERO, |path| path.srtt);
        Statistics {
            srtt,
            // RTO = SRTT + 4·RTTVAR (RFC 9260, 6.3.1), with a configured minimum.
            rttvar: slowest.map_or(Duration::ZERO, |path| path.rto.saturating_sub(srtt) / 4),
            mss,
            window: active().map(|path| path.window).sum(),
            slow_start: false,
            in_flight,
            queued,
            acked: self.acked,
            retransmitted: 0,
            rate: self.rate,
            blocked: status.pending > 0
                && status.unacknowledged == 0
                && status.peer_window < status.fragmentation_point,
            // usrsctp discovers the path's MTU itself.
            oversized: false,
        }
    }

    fn measure(&mut self, now: Instant) {
        let (since, before) = *self.since.get_or_insert((now, self.acked));
        let elapsed = now.saturating_duration_since(since);
        if elapsed < SAMPLE {
            return;
        }
        let bytes = self.acked - before;
        if bytes > 0 {
            self.rate = (u128::from(bytes) * 1_000_000 / elapsed.as_micros()) as u64;
        }
        self.since = Some((now, self.acked));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledged_bytes_are_derived_from_chunks_and_messages() {
        let status = Status {
            unacknowledged: 3,
            pending: 1,
            fragmentation_point: 1_400,
            peer_window: 100_000,
            ..Status::default()
        };
        let mut meter = AcknowledgementMeter::new();
        meter.written = 100_000;
        let now = Instant::now();
        let first = meter.read(now, &status, &[]);
        assert_eq!(first.queued, 8 * 1_400);
        assert_eq!(first.in_flight, 3 * 1_400);
        assert_eq!(first.acked, 100_000 - 11 * 1_400);
        meter.written = 300_000;
        let idle = Status { unacknowledged: 0, pending: 0, ..status };
        let second = meter.read(now + Duration::from_secs(1), &idle, &[]);
        assert_eq!((second.acked, second.rate), (300_000, 200_000 + 11 * 1_400));
    }

    #[test]
    fn unwritten_bytes_do_not_count_as_outstanding() {
        let status = Status {
            unacknowledged: 9,
            pending: 9,
            fragmentation_point: 1_400,
            ..Status::default()
        };
        let mut meter = AcknowledgementMeter::new();
        meter.written = 10;
        let statistics = meter.read(Instant::now(), &status, &[]);
        assert_eq!(
            (statistics.queued, statistics.in_flight, statistics.acked),
            (10, 0, 0)
        );
    }

    #[test]
    fn a_path_carries_a_window_per_round_trip() {
        let information = PeerAddressInformation {
            address: address::store("192.0.2.1:1".parse().unwrap()),
            state: abi::PATH_ACTIVE,
            window: 50_000,
            srtt: 40,
            rto: 200,
            mtu: 1_500,
            ..PeerAddressInformation::default()
        };
        let path = path(&information).unwrap();
        assert_eq!((path.rate, path.active, path.confirmed), (1_250_000, true, true));
    }
}
