//! Two of our stacks, ring to ring: a client and a server, each with its application.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hawser::time::{Instant, nanos};
use hawser_engine::net::InterfaceConfig;
use hawser_engine::program::Program;
use hawser_engine::wire::Wire;
use hawser_engine::{Handle, Notice, RequestError, Stack, StackConfig};
use hawser_testing::memory_wire::{SharedDirection, WireEnd};

use super::{CHUNK, MTU, RingOptions, STEP, Traffic};

/// The port that the server listens on, or the first of several if there are many connections.
const PORT: u16 = 5201;
/// The number of connections to one port, limited by the client's ports.
const PER_PORT: usize = 60_000;
/// The number of connections that are being opened at a time.
const OPENING: usize = 100;
/// The time from a connection's turn to its next.
const ROUND: Duration = Duration::from_secs(1);

/// An error of the stack, or of the transfer.
type Failure = Box<dyn std::error::Error>;

/// One stack and its end of the wire.
struct PairHost {
    stack: Stack,
    end: WireEnd,
    notices: Vec<(Handle, Notice)>,
}

impl PairHost {
    fn new(program: Arc<dyn Program>, number: u8, end: WireEnd, merge: bool) -> Result<PairHost, Failure> {
        let interface = InterfaceConfig {
            addresses: vec![(address(number, 0).ip(), 24)],
            gateways: Vec::new(),
            mtu: MTU as u32,
        };
        let mut config = StackConfig::new(interface, u64::from(number));
        config.ephemeral = 1024..=65_535;
        config.merge = merge;
        let stack = Stack::new(program, config, end.caps())?;
        Ok(PairHost { stack, end, notices: Vec::new() })
    }

    /// Executes all work that is due at this time, and returns whether there was any.
    fn work(&mut self, now: Instant) -> Result<bool, Failure> {
        let mut any = false;
        while self.stack.poll(now, &mut self.end)? {
            any = true;
        }
        while let Some((handle, notice)) = self.stack.next_notice() {
            if let Notice::Failed(errno) = notice {
                return Err(format!("a connection failed: {errno}").into());
            }
            self.notices.push((handle, notice));
            any = true;
        }
        Ok(any)
    }

    /// Sends bytes at once, then executes the other due work, as an endpoint does for an application that
    /// spins.
    fn say(&mut self, now: Instant, handle: Handle, bytes: &[u8]) -> Result<(), Failure> {
        let taken = self.stack.send(now, handle, bytes)?;
        if taken < bytes.len() {
            return Err(format!("{taken} of {} bytes were taken", bytes.len()).into());
        }
        self.stack.transmit(now, &mut self.end)?;
        self.stack.poll(now, &mut self.end)?;
        Ok(())
    }

    /// Reads the bytes that have just arrived. They must fill `out`.
    fn hear(&mut self, now: Instant, handle: Handle, out: &mut [u8]) -> Result<(), Failure> {
        self.stack.poll(now, &mut self.end)?;
        while self.stack.next_notice().is_some() {}
        match self.stack.take(handle, out)? {
            len if len == out.len() => Ok(()),
            len => Err(format!("{len} of {} bytes arrived", out.len()).into()),
        }
    }
}

fn address(number: u8, port: u16) -> SocketAddr {
    SocketAddr::new([10, 0, 0, number].into(), port)
}

/// The two hosts. The client sends.
pub(crate) struct Pair {
    client: PairHost,
    server: PairHost,
    lanes: [SharedDirection; 2],
    now: Instant,
    bytes: u64,
    chunk: Bytes,
    /// True if the application passes `chunk` by reference, in place of bytes to be copied.
    by_reference: bool,
    /// The open connections, each with the client's and the server's handle.
    flows: Vec<(Handle, Handle)>,
}

impl Pair {
    /// Makes two stacks that run this program in the default manner, as on a device.
    ///
    /// # Errors
    /// The program cannot be run.
    pub(crate) fn new(program: &Arc<dyn Program>) -> Result<Pair, Failure> {
        Pair::with_options(program, RingOptions::default())
    }

    /// Makes two stacks that run this program in another manner.
    ///
    /// # Errors
    /// The program cannot be run.
    pub(crate) fn with_options(program: &Arc<dyn Program>, manner: RingOptions) -> Result<Pair, Failure> {
        let lanes = [SharedDirection::default(), SharedDirection::default()];
        let host = |number, outward, inward| {
            let end = WireEnd::new(outward, inward, MTU as u32, manner.checksums);
            PairHost::new(Arc::clone(program), number, end, !manner.no_merge)
        };
        let client = host(1, &lanes[0], &lanes[1])?;
        let server = host(2, &lanes[1], &lanes[0])?;
        let chunk = (0..CHUNK)
            .map(|i| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0])
            .collect();
        Ok(Pair {
            client,
            server,
            lanes,
            now: Instant::from_nanos(1_000_000),
            bytes: 0,
            chunk,
            by_reference: manner.by_reference,
            flows: Vec::new(),
        })
    }

    /// Opens connections until there are `count`.
    ///
    /// # Errors
    /// A connection could not be opened.
    pub(crate) fn open(&mut self, count: usize) -> Result<(), Failure> {
        while self.flows.len() < count {
            let port = PORT + (self.flows.len() / PER_PORT) as u16;
            if self.flows.len().is_multiple_of(PER_PORT) {
                self.server
                    .stack
                    .listen(self.now, address(2, port), OPENING as u32)?;
            }
            let room = PER_PORT - self.flows.len() % PER_PORT;
            self.open_some(port, OPENING.min(count - self.flows.len()).min(room))?;
        }
        Ok(())
    }

    fn open_some(&mut self, port: u16, count: usize) -> Result<(), Failure> {
        let mut opening = Vec::with_capacity(count);
        for _ in 0..count {
            opening.push(self.client.stack.connect(self.now, address(2, port), None)?);
        }
        let mut accepted = Vec::with_capacity(count);
        self.settle()?;
        self.client.notices.clear();
        for (handle, notice) in std::mem::take(&mut self.server.notices) {
            if let Notice::Accepted(child) = notice {
                self.server.stack.accept(handle);
                accepted.push(child);
            }
        }
        if accepted.len() != count {
            return Err(format!("{} of {count} connections were opened", accepted.len()).into());
        }
        // The client's port identifies both ends of a connection.
        let port_of = |end: Option<SocketAddr>| end.map_or(0, |end| end.port());
        opening.sort_by_key(|handle| port_of(self.client.stack.local(*handle)));
        accepted.sort_by_key(|handle| port_of(self.server.stack.peer(*handle)));
        self.flows.extend(opening.into_iter().zip(accepted));
        Ok(())
    }

    /// Lets both hosts execute all due work.
    pub(crate) fn settle(&mut self) -> Result<(), Failure> {
        loop {
            let any = self.client.work(self.now)? | self.server.work(self.now)?;
            if !any {
                return Ok(());
            }
            self.now = self.now.plus_nanos(STEP);
        }
    }

    /// Advances the time by `time`, timer by timer.
    ///
    /// # Errors
    /// A connection failed.
    pub(crate) fn pass(&mut self, time: Duration) -> Result<(), Failure> {
        let until = self.now + time;
        loop {
            self.settle()?;
            let next = [&self.client, &self.server]
                .into_iter()
                .filter_map(|h| h.stack.next_deadline())
                .min();
            match next.filter(|next| *next <= until) {
                Some(next) => self.now = self.now.max(next),
                None => break,
            }
        }
        self.now = self.now.max(until);
        Ok(())
    }

    /// Sends on the first connection until the receiver's application has `bytes` more.
    ///
    /// # Errors
    /// The connection failed, or made no progress.
    pub(crate) fn bulk(&mut self, bytes: u64) -> Result<(), Failure> {
        let &(from, to) = self.flows.first().ok_or("no connection is open")?;
        let goal = self.bytes + bytes;
        let mut out = vec![0; CHUNK];
        let mut idle = 0;
        while self.bytes < goal {
            let before = self.bytes;
            while self.offer(from)? > 0 {}
            self.client.work(self.now)?;
            self.server.work(self.now)?;
            loop {
                match self.server.stack.recv(self.now, to, &mut out)? {
                    0 => break,
                    n => self.bytes += n as u64,
                }
            }
            self.server.work(self.now)?;
            self.client.notices.clear();
            self.server.notices.clear();
            self.now = self.now.plus_nanos(STEP);
            idle = if self.bytes == before { idle + 1 } else { 0 };
            if idle > 1_000_000 {
                return Err("the transfer does not go on".into());
            }
        }
        Ok(())
    }

    /// Offers bytes to a connection of the client's, and returns the number of bytes that it took.
    fn offer(&mut self, from: Handle) -> Result<usize, RequestError> {
        let stack = &mut self.client.stack;
        match self.by_reference {
            true => stack.send_shared(self.now, from, &self.chunk),
            false => stack.send(self.now, from, &self.chunk),
        }
    }

    /// Sends `len` bytes on the first connection and as many back, `rounds` times, one after the other.
    ///
    /// # Errors
    /// The connection failed, or did not carry the bytes at once.
    pub(crate) fn round_trips(&mut self, rounds: u64, len: usize) -> Result<(), Failure> {
        let &(here, there) = self.flows.first().ok_or("no connection is open")?;
        let mut out = vec![0; len];
        for _ in 0..rounds {
            self.client.say(self.now, here, &self.chunk[..len])?;
            self.now = self.now.plus_nanos(STEP);
            self.server.hear(self.now, there, &mut out)?;
            self.server.say(self.now, there, &out)?;
            self.now = self.now.plus_nanos(STEP);
            self.client.hear(self.now, here, &mut out)?;
            self.bytes += len as u64;
        }
        if out != self.chunk[..len] {
            return Err("other bytes came back than were sent".into());
        }
        Ok(())
    }

    /// Sends `len` bytes on every connection, `batch` connections at a time. The order is such that
    /// consecutive connections are not neighbours in memory. The server reads all bytes.
    ///
    /// The round takes [`ROUND`] of virtual time, evenly spread, so that the time between a connection's
    /// turns does not depend on the number of connections.
    ///
    /// # Errors
    /// A connection failed.
    pub(crate) fn round(&mut self, len: usize, batch: usize) -> Result<(), Failure> {
        let count = self.flows.len();
        let stride = (count * 2 / 3..)
            .find(|s| *s > 0 && gcd(*s, count) == 1)
            .unwrap_or(1);
        let (mut out, begin) = (vec![0; len.max(1)], self.now);
        let mut at = 0;
        for first in (0..count).step_by(batch) {
            self.now = self
                .now
                .max(begin.plus_nanos(nanos(ROUND) * first as u64 / count as u64));
            let batch = batch.min(count - first);
            for _ in 0..batch {
                at = (at + stride) % count;
                self.client
                    .stack
                    .send(self.now, self.flows[at].0, &self.chunk[..len])?;
            }
            self.settle()?;
            for (handle, notice) in std::mem::take(&mut self.server.notices) {
                if notice == Notice::Readable {
                    self.bytes += self.server.stack.recv(self.now, handle, &mut out)? as u64;
                }
            }
            self.settle()?;
            self.client.notices.clear();
        }
        self.now = self.now.max(begin + ROUND);
        Ok(())
    }

    /// Returns the traffic on the wire so far.
    pub(crate) fn traffic(&self) -> Traffic {
        let packets = |lane: &SharedDirection| lane.borrow().packets;
        Traffic {
            data: packets(&self.lanes[0]),
            answers: packets(&self.lanes[1]),
            bytes: self.bytes,
        }
    }

    /// Returns the bytes that both stacks hold for applications, both to send and received.
    pub(crate) fn held_bytes(&self) -> u64 {
        let held = |host: &PairHost| host.stack.held_bytes();
        let [(out, back), (there, here)] = [held(&self.client), held(&self.server)];
        out + back + there + here
    }

    /// Returns the number of contexts of both stacks.
    pub(crate) fn contexts(&self) -> usize {
        self.client.stack.contexts() + self.server.stack.contexts()
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINES: [&str; 3] = ["interp", "native", "handwritten"];

    fn pair(engine: &str) -> Pair {
        pair_with(engine, RingOptions::default())
    }

    fn pair_with(engine: &str, manner: RingOptions) -> Pair {
        Pair::with_options(&crate::engine::program(engine, &[]).unwrap(), manner).unwrap()
    }

    fn traffic_of_bulk(engine: &str, bytes: u64) -> Traffic {
        traffic_of(pair(engine), bytes)
    }

    fn traffic_of(mut pair: Pair, bytes: u64) -> Traffic {
        pair.open(1).unwrap();
        let before = pair.traffic();
        pair.bulk(bytes).unwrap();
        pair.traffic() - before
    }

    #[test]
    fn bulk_moves_the_bytes_that_it_reports() {
        for engine in ENGINES {
            let traffic = traffic_of_bulk(engine, 1 << 20);
            assert!(traffic.bytes >= 1 << 20);
            // 1500 bytes minus two headers of 20 and a timestamp option of 12.
            assert!(traffic.data >= (1 << 20) / 1448, "{engine}: {traffic:?}");
            assert!(
                traffic.answers > 0 && traffic.answers <= traffic.data,
                "{engine}: {traffic:?}"
            );
        }
    }

    /// Their costs can be compared only if they send the same packets.
    #[test]
    fn the_handwritten_stack_sends_as_many_packets() {
        let [interp, native, by_hand] = ENGINES.map(|engine| traffic_of_bulk(engine, 8 << 20));
        assert_eq!(interp, native);
        assert_eq!((by_hand.data, by_hand.answers), (native.data, native.answers));
    }

    #[test]
    fn options_change_no_packet_of_a_clean_transfer() {
        for engine in ENGINES {
            let expected = traffic_of_bulk(engine, 4 << 20);
            for manner in [
                RingOptions { no_merge: true, ..RingOptions::default() },
                RingOptions { checksums: true, ..RingOptions::default() },
                RingOptions { no_merge: true, checksums: true, ..RingOptions::default() },
                RingOptions { by_reference: true, ..RingOptions::default() },
            ] {
                let traffic = traffic_of(pair_with(engine, manner), 4 << 20);
                assert_eq!(traffic, expected, "{engine}, {manner:?}");
            }
        }
    }

    #[test]
    fn a_round_trip_is_a_packet_each_way() {
        for engine in ENGINES {
            let mut pair = pair(engine);
            pair.open(1).unwrap();
            pair.round_trips(1, 32).unwrap();
            let before = pair.traffic();
            pair.round_trips(100, 32).unwrap();
            let traffic = pair.traffic() - before;
            assert_eq!(
                (traffic.data, traffic.answers, traffic.bytes),
                (100, 100, 3200),
                "{engine}"
            );
        }
    }

    #[test]
    fn every_flow_gets_its_round() {
        for engine in ENGINES {
            let mut pair = pair(engine);
            pair.open(250).unwrap();
            assert_eq!(pair.flows.len(), 250);
            // One listener, and both ends of each connection.
            assert_eq!(pair.contexts(), 501);
            let before = pair.traffic();
            pair.round(100, 64).unwrap();
            let traffic = pair.traffic() - before;
            assert_eq!((traffic.bytes, traffic.data), (25_000, 250), "{engine}");
        }
    }
}
