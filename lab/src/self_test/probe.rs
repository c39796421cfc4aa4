//! Measurements between the hosts `a` and `b` of a lab.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hawser_host::netns::{InterfaceCounters, Netlink};
use hawser_host::port::{Messages, SEND_BATCH};
use parking_lot::MutexGuard;

use crate::lab::Lab;
use crate::link::Direction;
use crate::{LabError, sys};

use super::report::Delays;

/// The time without datagrams after which a receiver gives up.
const SILENCE: Duration = Duration::from_millis(700);
/// The bytes of a probe and of a full datagram, without headers.
const PROBE: usize = 100;
const FULL: usize = 1472;
/// The bytes of a datagram's headers: Ethernet, IPv4, UDP.
const HEADERS: usize = 42;
/// The bits of a probe on the link.
pub(super) const PROBE_BITS: f64 = ((PROBE + HEADERS) * 8) as f64;
/// The time between two probes.
const PROBE_INTERVAL: Duration = Duration::from_micros(1500);
/// The interval at which a paced sender sends the due datagrams.
const PACE: Duration = Duration::from_micros(500);
/// The interval at which a counter is read that is about to change.
const POLL_INTERVAL: Duration = Duration::from_micros(100);
/// The number of intervals between the readings of a measurement of rate.
const INTERVALS: u32 = 12;
/// The size of a sender's queue if the kernel shapes: 20 ms at 1 Gbit/s, including the kernel's overhead.
const SEND_QUEUE: usize = 4 << 20;

/// A socket of `a` that sends to one of `b`.
struct Pair {
    from: UdpSocket,
    to: UdpSocket,
}

impl Pair {
    fn new(lab: &Lab) -> Result<Pair, LabError> {
        let (a, b) = (lab.host("a")?, lab.host("b")?);
        let open = || UdpSocket::bind("0.0.0.0:0");
        let connect = || -> io::Result<(UdpSocket, UdpSocket)> {
            let to = b.run(open).map_err(io::Error::other)??;
            to.set_read_timeout(Some(SILENCE))?;
            let from = a.run(open).map_err(io::Error::other)??;
            let address = b.ipv4().ok_or(io::ErrorKind::AddrNotAvailable)?;
            from.connect(SocketAddr::new(address, to.local_addr()?.port()))?;
            Ok((from, to))
        };
        let (from, to) = connect().map_err(LabError::io("open the probes' sockets"))?;
        Ok(Pair { from, to })
    }

    /// Sends datagrams as long as `more` returns true, at this rate of frames, and returns their number.
    fn send(&self, bytes: usize, bits_per_second: f64, more: &dyn Fn(u64) -> bool) -> u64 {
        let datagram = vec![0; bytes];
        let frame = ((bytes + HEADERS) * 8) as f64;
        let mut messages = Messages::default();
        let (start, mut count) = (Instant::now(), 0);
        while more(count) {
            let due = (start.elapsed().as_secs_f64() * bits_per_second / frame) as u64;
            let batch = due.saturating_sub(count).min(SEND_BATCH as u64) as usize;
            if batch == 0 {
                std::thread::sleep(PACE);
                continue;
            }
            // A datagram that does not fit into the sender's queue is lost, as it would be in the lab's.
            let frames = std::iter::repeat_n(&datagram[..], batch);
            let _ = messages.send(self.from.as_fd(), frames);
            count += batch as u64;
        }
        count
    }
}

/// The bytes that have come to `b` so far, by its interface's counter, which a slow reader does not affect.
struct Arrivals<'a>(MutexGuard<'a, Netlink>);

impl Arrivals<'_> {
    fn in_lab(lab: &Lab) -> Result<Arrivals<'_>, LabError> {
        let number = lab.plan.hosts.iter().position(|host| host.name == "b");
        let station = number.and_then(|number| lab.stations.get(number));
        station
            .map(|station| Arrivals(station.netlink.lock()))
            .ok_or(LabError::Stopped)
    }

    fn count(&mut self) -> Result<InterfaceCounters, LabError> {
        Ok(self.0.interface_counters("eth0")?)
    }

    /// Waits for a frame, and returns the bytes and the time just after it has come.
    fn edge(&mut self) -> Result<(u64, hawser_time::Instant), LabError> {
        let (first, end) = (self.count()?.received_bytes, Instant::now() + SILENCE);
        loop {
            let bytes = self.count()?.received_bytes;
            if bytes != first || Instant::now() > end {
                return Ok((bytes, sys::monotonic()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Measures one-way delays of small datagrams, beside other traffic of `load` bits per second.
pub(super) fn delays(lab: &Lab, count: u64, load: Option<u64>) -> Result<Delays, LabError> {
    let probe = Pair::new(lab)?;
    let beside = Pair::new(lab)?;
    let over = AtomicBool::new(false);
    let mut wakes = Vec::new();
    let found = std::thread::scope(|scope| {
        if let Some(load) = load {
            let (beside, over) = (&beside, &over);
            scope.spawn(move || beside.send(FULL, load as f64, &|_| !over.load(Ordering::Relaxed)));
            std::thread::sleep(Duration::from_millis(100));
        }
        let receiver = scope.spawn(|| {
            let mut delays = Vec::new();
            let mut datagram = [0; PROBE];
            while (delays.len() as u64) < count && probe.to.recv(&mut datagram).is_ok() {
                let sent = datagram[..8].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
                delays.push(sys::monotonic().as_nanos().saturating_sub(sent) as f64 / 1e3);
            }
            delays
        });
        let mut datagram = [0; PROBE];
        for _ in 0..count {
            datagram[..8].copy_from_slice(&sys::monotonic().as_nanos().to_be_bytes());
            // A probe that could not be sent is not received, and others follow.
            let _ = probe.from.send(&datagram);
            let asleep = Instant::now();
            std::thread::sleep(PROBE_INTERVAL);
            wakes.push(asleep.elapsed().saturating_sub(PROBE_INTERVAL).as_nanos() as f64 / 1e3);
        }
        let found = receiver.join().unwrap_or_default();
        over.store(true, Ordering::Relaxed);
        found
    });
    Ok(Delays {
        min: at(&found, 0.0),
        p50: at(&found, 0.5),
        p90: at(&found, 0.9),
        p99: at(&found, 0.99),
        wake_p99: at(&wakes, 0.99),
    })
}

/// Returns the value that this share of the values does not exceed.
fn at(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len().max(1) - 1) as f64 * share;
    sorted.get(place as usize).copied().unwrap_or(f64::INFINITY)
}

/// Measures the rate of a link, in bits per second of frames. The sender offers a fifth more than the rate,
/// so that a queue bridges its pauses.
pub(super) fn rate(lab: &Lab, rate: f64, delay: Duration, seconds: f64) -> Result<f64, LabError> {
    let pair = Pair::new(lab)?;
    // If the system limits the sender's queue, it is smaller than requested.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&pair.from, SEND_QUEUE);
    let mut arrivals = Arrivals::in_lab(lab)?;
    // A slow link gets the time of fifty frames.
    let frame = ((FULL + HEADERS) * 8) as f64;
    let length = Duration::from_secs_f64(seconds.max(50.0 * frame / rate));
    let over = AtomicBool::new(false);
    let edges = std::thread::scope(|scope| {
        scope.spawn(|| pair.send(FULL, rate * 1.2, &|_| !over.load(Ordering::Relaxed)));
        // The first frames may be a burst.
        std::thread::sleep(delay + length / 4);
        let slice = length * 3 / 4 / INTERVALS;
        let mut edge = || arrivals.edge().inspect(|_| std::thread::sleep(slice));
        let edges = (0..=INTERVALS).map(|_| edge()).collect::<Result<Vec<_>, _>>();
        over.store(true, Ordering::Relaxed);
        edges
    })?;
    let start = edges.first().map_or(hawser_time::Instant::ORIGIN, |edge| edge.1);
    let readings: Vec<Reading> = edges
        .iter()
        .map(|(bytes, at)| Reading { bits: *bytes as f64 * 8.0, seconds: at.nanos_since(start) as f64 / 1e9 })
        .collect();
    Ok(slope(&readings, rate))
}

/// The bits that had come at a time.
#[derive(Clone, Copy)]
struct Reading {
    bits: f64,
    seconds: f64,
}

/// Returns the bits per second between the least late reading of each half. A machine with other work delivers
/// frames late and then catches up, so that readings lie below the line's own progress and never above it.
/// `expected` is the rate against which lateness is compared; another rate gives its own slope all the same.
fn slope(readings: &[Reading], expected: f64) -> f64 {
    let early = |half: &[Reading]| {
        let ahead = |reading: &Reading| reading.bits - expected * reading.seconds;
        half.iter().copied().max_by(|a, b| ahead(a).total_cmp(&ahead(b)))
    };
    let (first, second) = readings.split_at(readings.len() / 2);
    match (early(first), early(second)) {
        (Some(from), Some(to)) => (to.bits - from.bits) / (to.seconds - from.seconds),
        _ => 0.0,
    }
}

/// Measures the share of datagrams that a link loses by its rule.
pub(super) fn loss(lab: &Lab, count: u64) -> Result<f64, LabError> {
    let pair = Pair::new(lab)?;
    let mut arrivals = Arrivals::in_lab(lab)?;
    let before = arrivals.count()?.received;
    // Twenty frames in each millisecond.
    let frame = ((PROBE + HEADERS) * 8) as f64;
    let sent = pair.send(PROBE, frame * 20_000.0, &|done| done < count);
    std::thread::sleep(SILENCE);
    let came = arrivals.count()?.received - before;
    Ok(1.0 - came as f64 / sent.max(1) as f64)
}

/// Measures one TCP stream. Returns its bits per second of frames, and the share of frames that the machine
/// was too slow to take.
pub(super) fn stream(lab: &Lab, seconds: f64) -> Result<(f64, f64), LabError> {
    let (a, b) = (lab.host("a")?, lab.host("b")?);
    let connect = || -> io::Result<(TcpStream, TcpStream)> {
        let listener = b
            .run(|| TcpListener::bind("0.0.0.0:0"))
            .map_err(io::Error::other)??;
        let address = b.ipv4().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let to = SocketAddr::new(address, listener.local_addr()?.port());
        let from = a.run(|| TcpStream::connect(to)).map_err(io::Error::other)??;
        Ok((from, listener.accept()?.0))
    };
    let (mut from, mut to) = connect().map_err(LabError::io("open a stream"))?;
    let before = lab.link("link")?.statistics(Direction::Forward)?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let chunk = vec![0; 1 << 17];
            while start.elapsed().as_secs_f64() < seconds && from.write_all(&chunk).is_ok() {}
        });
        let mut chunk = vec![0; 1 << 18];
        while to.read(&mut chunk).is_ok_and(|n| n > 0) {}
    });
    let elapsed = start.elapsed().as_secs_f64();
    let after = lab.link("link")?.statistics(Direction::Forward)?;
    let overrun = after.lost.get("overrun").copied().unwrap_or(0);
    let frames = after.sent - before.sent + overrun;
    let bits = (after.delivered_bytes - before.delivered_bytes) as f64 * 8.0;
    Ok((bits / elapsed, overrun as f64 / frames.max(1) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings every 20 ms of a line with `rate`, each late by what `late` gives for its number, in seconds.
    fn readings(rate: f64, late: impl Fn(usize) -> f64) -> Vec<Reading> {
        let reading = |n: usize| {
            let seconds = n as f64 * 0.02;
            Reading { bits: rate * (seconds - late(n)).max(0.0), seconds }
        };
        (0..=INTERVALS as usize).map(reading).collect()
    }

    #[test]
    fn a_rate_is_found_while_the_machine_is_late_and_catches_up() {
        // The first readings are 15 ms late: from the first to the last, the rate would be 1.067 Gbit/s.
        let found = slope(&readings(1e9, |n| if n < 3 { 0.015 } else { 0.0 }), 1e9);
        assert!((found / 1e9 - 1.0).abs() < 1e-6, "{found}");
        // Every second reading is late by another time.
        let found = slope(&readings(1e9, |n| (n % 2) as f64 * n as f64 * 1e-3), 1e9);
        assert!((found / 1e9 - 1.0).abs() < 1e-6, "{found}");
    }

    #[test]
    fn a_rate_that_differs_is_detected() {
        for share in [0.9, 0.95, 1.05, 1.1] {
            let found = slope(&readings(share * 1e9, |_| 0.0), 1e9);
            assert!((found / 1e9 - share).abs() < 1e-6, "{found}");
        }
    }
}
