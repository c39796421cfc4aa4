//! Datagrams from one host to another that contain their send times.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use hawser_lab::Lab;

use crate::TestResult;

/// The time without datagrams after which the receiver gives up.
const SILENCE: Duration = Duration::from_millis(400);
/// The bytes of the headers of a datagram: Ethernet, IPv4, UDP.
pub(crate) const HEADERS: usize = 14 + 20 + 8;

/// A datagram that arrived: its number, and the times of sending and receiving, from the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) number: u64,
    pub(crate) sent: Duration,
    pub(crate) received: Duration,
}

impl Arrival {
    pub(crate) fn delay(&self) -> Duration {
        self.received - self.sent
    }
}

/// The two ends, each a socket of its host.
pub(crate) struct Probe {
    from: UdpSocket,
    to: UdpSocket,
    target: SocketAddr,
    start: Instant,
}

impl Probe {
    /// Makes a probe from `a` to this address of `b`.
    pub(crate) fn new(lab: &Lab, address: IpAddr) -> TestResult<Probe> {
        let any: IpAddr = if address.is_ipv4() {
            [0; 4].into()
        } else {
            [0u16; 8].into()
        };
        let to = lab.host("b")?.run(|| UdpSocket::bind((any, 0)))??;
        to.set_read_timeout(Some(SILENCE))?;
        let from = lab.host("a")?.run(|| UdpSocket::bind((any, 0)))??;
        let target = SocketAddr::new(address, to.local_addr()?.port());
        Ok(Probe { from, to, target, start: Instant::now() })
    }

    /// Makes a probe from `a` to `b` over IPv4.
    pub(crate) fn v4(lab: &Lab) -> TestResult<Probe> {
        Probe::new(lab, lab.host("b")?.ipv4().ok_or("no IPv4")?)
    }

    /// Sends `count` datagrams of `bytes` bytes at this interval, and returns those that arrived.
    pub(crate) fn run(&self, count: u64, bytes: usize, interval: Duration) -> TestResult<Vec<Arrival>> {
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| self.receive(count));
            let begin = Instant::now();
            let mut datagram = vec![0; bytes.max(16)];
            for number in 0..count {
                let due = interval * number as u32;
                std::thread::sleep(due.saturating_sub(begin.elapsed()));
                datagram[..8].copy_from_slice(&number.to_be_bytes());
                let now = self.start.elapsed().as_nanos() as u64;
                datagram[8..16].copy_from_slice(&now.to_be_bytes());
                self.from.send_to(&datagram, self.target)?;
            }
            receiver.join().map_err(|_| "the receiver panicked")?
        })
    }

    fn receive(&self, count: u64) -> TestResult<Vec<Arrival>> {
        let mut arrivals = Vec::new();
        let mut datagram = [0; 9000];
        while (arrivals.len() as u64) < count {
            match self.to.recv(&mut datagram) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
            let number = |at: usize| datagram[at..at + 8].iter().fold(0, |n, b| n << 8 | u64::from(*b));
            arrivals.push(Arrival {
                number: number(0),
                sent: Duration::from_nanos(number(8)),
                received: self.start.elapsed(),
            });
        }
        Ok(arrivals)
    }

    /// Returns the number of IPv4 datagrams that arrived when the receiving socket's buffer was full.
    pub(crate) fn overrun(&self, lab: &Lab) -> TestResult<u64> {
        let sockets = lab
            .host("b")?
            .run(|| std::fs::read_to_string("/proc/thread-self/net/udp"))??;
        let port = format!(":{:04X}", self.to.local_addr()?.port());
        let columns = sockets
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut own = columns.filter(|columns| columns.get(1).is_some_and(|local| local.ends_with(&port)));
        let own = own.next().ok_or("the kernel does not list the socket")?;
        Ok(own.last().ok_or("a line without columns")?.parse()?)
    }

    /// Sends `count` datagrams of `bytes` bytes at once, without waiting for them.
    pub(crate) fn send(&self, count: u64, bytes: usize) -> TestResult {
        for _ in 0..count {
            self.from.send_to(&vec![0; bytes], self.target)?;
        }
        Ok(())
    }

    /// Returns whether a datagram gets through.
    pub(crate) fn gets_through(&self) -> TestResult<bool> {
        Ok(!self.run(1, 16, Duration::ZERO)?.is_empty())
    }
}

/// Returns the delay that this share of the arrivals does not exceed.
pub(crate) fn percentile(arrivals: &[Arrival], share: f64) -> Duration {
    let mut delays: Vec<Duration> = arrivals.iter().map(Arrival::delay).collect();
    delays.sort();
    delays[((delays.len() - 1) as f64 * share) as usize]
}

/// Returns the bits per second of frames from the first arrival to the last.
pub(crate) fn rate(arrivals: &[Arrival], bytes: usize) -> f64 {
    let (first, last) = (arrivals[0].received, arrivals[arrivals.len() - 1].received);
    ((arrivals.len() - 1) * (bytes + HEADERS) * 8) as f64 / (last - first).as_secs_f64()
}
