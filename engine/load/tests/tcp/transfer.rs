//! Two stacks on a bad link: sent data arrives in order and exactly once, and the connection ends.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hawser_time::Instant;
use fastrand::Rng;
use hawser_engine::wire::{Caps, Csum, Medium, RxFrame, TxFrame, Wire};
use hawser_engine::{Handle, Notice, Stack};

use crate::bench::{MS, SECOND, merging_stack, stack};

/// One end of the link.
pub(crate) struct LinkEnd {
    caps: Caps,
    arrived: Vec<Vec<u8>>,
    batch: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

impl Wire for LinkEnd {
    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn receive(&mut self, max: usize) -> io::Result<usize> {
        let count = self.arrived.len().min(max);
        self.batch = self.arrived.drain(..count).collect();
        Ok(count)
    }
    fn frame(&self, i: usize) -> RxFrame<'_> {
        RxFrame { head: &self.batch[i], tail: &[], csum: Csum::Unverified, seg_size: 0, at: Instant::ORIGIN }
    }
    fn release(&mut self) {}
    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        for frame in frames {
            let mut bytes = frame.head.clone();
            frame.payload.iter().for_each(|piece| bytes.extend_from_slice(piece.bytes()));
            self.sent.push(bytes);
        }
        Ok(frames.len())
    }
}

/// The faults of the link: out of 1000 packets, the numbers that are lost, delayed (by up to 5 ms),
/// duplicated, and changed in one bit.
#[derive(Clone, Copy)]
pub(crate) struct Conditions {
    pub(crate) lost: u64,
    pub(crate) late: u64,
    pub(crate) doubled: u64,
    pub(crate) changed: u64,
}

/// Decides whether a packet to this end is lost, regardless of the conditions.
pub(crate) type Fate = Box<dyn FnMut(usize, &[u8]) -> bool>;

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) stacks: [Stack; 2],
    ends: [LinkEnd; 2],
    rng: Rng,
    pub(crate) conditions: Conditions,
    pub(crate) fate: Fate,
    /// Packets on their way, by arrival time and number, with the end that receives them.
    flying: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    count: u64,
}

impl World {
    pub(crate) fn new(v6: bool, conditions: Conditions, seed: u64) -> World {
        let caps =
            Caps { medium: Medium::Ip, mtu: 1500, tx_csum: false, gso_max: 0, rx_queue_bytes: 1 << 22 };
        let end = || LinkEnd { caps: caps.clone(), arrived: vec![], batch: vec![], sent: vec![] };
        // TIME-WAIT outlasts retransmission timeouts, as it must. An end that left earlier would reset the
        // other end's last data, which it had received. One of the two stacks merges received segments.
        let stacks = [(1, stack as fn(_, &[_], _, &_) -> _), (2, merging_stack)];
        let mut stacks =
            stacks.map(|(i, stack)| stack(address(v6, i), &["MIN_RTO=200ms"], seed + u64::from(i), &caps));
        // The other stack compares each header that it has cut with the program's own.
        stacks[0].check_super_segments(true);
        World {
            now: 0,
            stacks,
            ends: [end(), end()],
            rng: Rng::with_seed(seed * 2 + 1),
            conditions,
            fate: Box::new(|_, _| false),
            flying: BTreeMap::new(),
            count: 0,
        }
    }

    /// Does one step: all work that is due now, then on to the next point in time. Returns false if no
    /// further event is due.
    pub(crate) fn step(&mut self) -> bool {
        let mut busy = false;
        for i in 0..2 {
            while self.stacks[i].poll(Instant::from_nanos(self.now), &mut self.ends[i]).expect("memory") {
                busy = true;
                let counters = self.stacks[i].counters();
                assert_eq!(counters.asserts, 0, "{:?}", self.stacks[i].last_assert());
                assert_eq!(counters.wrong_super_segments, 0);
            }
            for packet in std::mem::take(&mut self.ends[i].sent) {
                self.fly(1 - i, packet);
            }
        }
        if busy {
            return true;
        }
        let timers = self.stacks.iter().filter_map(Stack::next_deadline).min().map(Instant::as_nanos);
        let arrival = self.flying.keys().next().map(|key| key.0);
        let Some(next) = [timers, arrival].into_iter().flatten().min() else { return false };
        self.now = self.now.max(next);
        while let Some(entry) = self.flying.first_entry().filter(|e| e.key().0 <= self.now) {
            let (to, packet) = entry.remove();
            self.ends[to].arrived.push(packet);
        }
        true
    }

    fn fly(&mut self, to: usize, mut packet: Vec<u8>) {
        let Conditions { lost, late, doubled, changed } = self.conditions;
        if (self.fate)(to, &packet) || self.rng.u64(..1000) < lost {
            return;
        }
        if self.rng.u64(..1000) < changed {
            let at = self.rng.usize(..packet.len());
            packet[at] ^= 1 << self.rng.u64(..8);
        }
        let copies = 1 + u64::from(self.rng.u64(..1000) < doubled);
        for _ in 0..copies {
            let extra = if self.rng.u64(..1000) < late { self.rng.u64(..5 * MS) } else { 0 };
            self.count += 1;
            self.flying.insert((self.now + 10 * MS + extra, self.count), (to, packet.clone()));
        }
    }
}

pub(crate) fn address(v6: bool, host: u8) -> IpAddr {
    match v6 {
        false => Ipv4Addr::new(10, 0, 0, host).into(),
        true => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(host)).into(),
    }
}

fn byte_at(at: usize, direction: u8) -> u8 {
    ((at * 2_654_435_761) >> 11) as u8 ^ direction
}

/// An application that sends `len` bytes, reads all incoming data, and closes.
pub(crate) struct Application {
    pub(crate) handle: Option<Handle>,
    direction: u8,
    len: usize,
    sent: usize,
    connected: bool,
    closed: bool,
    pub(crate) received: usize,
    pub(crate) eof: bool,
    pub(crate) over: Option<Notice>,
}

impl Application {
    pub(crate) fn new(direction: u8, len: usize) -> Application {
        Application {
            handle: None,
            direction,
            len,
            sent: 0,
            connected: false,
            closed: false,
            received: 0,
            eof: false,
            over: None,
        }
    }

    pub(crate) fn act(&mut self, now: u64, stack: &mut Stack) {
        while let Some((_, notice)) = stack.next_notice() {
            match notice {
                Notice::Accepted(child) => (self.handle, self.connected) = (Some(child), true),
                Notice::Connected => self.connected = true,
                Notice::Eof => self.eof = true,
                Notice::Closed | Notice::Failed(_) => self.over = Some(notice),
                Notice::Readable | Notice::Writable | Notice::Reset(_) | Notice::Stopped(_) | Notice::Message(_) => {}
            }
        }
        let Some(handle) = self.handle else { return };
        let mut data = [0; 20_000];
        loop {
            let len = stack.recv(Instant::from_nanos(now), handle, &mut data).unwrap_or(0);
            for byte in &data[..len] {
                assert_eq!(*byte, byte_at(self.received, 1 - self.direction), "byte {}", self.received);
                self.received += 1;
            }
            // Reads slowly until only the rest is left to read.
            if len == 0 || self.over.is_none() {
                break;
            }
        }
        while self.sent < self.len {
            let end = self.len.min(self.sent + 30_000);
            let bytes: Vec<u8> = (self.sent..end).map(|at| byte_at(at, self.direction)).collect();
            match stack.send(Instant::from_nanos(now), handle, &bytes) {
                Ok(0) | Err(_) => break,
                Ok(taken) => self.sent += taken,
            }
        }
        // An application may send data and close before the handshake is over, but not close without data.
        let may_close = self.connected || self.len > 0;
        if self.sent == self.len && may_close && !self.closed {
            self.closed = true;
            stack.close(Instant::from_nanos(now), handle);
        }
    }
}

/// Moves bytes in both directions and closes. Returns the time that it took and the retransmissions.
fn transfer(v6: bool, conditions: Conditions, seed: u64, len: [usize; 2]) -> u64 {
    transfer_while(v6, conditions, seed, len, |_, _| {})
}

/// Like `transfer`, and calls `each` after each step, with the applications at both ends.
pub(crate) fn transfer_while(
    v6: bool,
    conditions: Conditions,
    seed: u64,
    len: [usize; 2],
    mut each: impl FnMut(&mut World, [&Application; 2]),
) -> u64 {
    let mut world = World::new(v6, conditions, seed);
    let server = SocketAddr::new(address(v6, 2), 80);
    world.stacks[1].listen(Instant::ORIGIN, server, 5).expect("a listener");
    let mut apps = [Application::new(0, len[0]), Application::new(1, len[1])];
    apps[0].handle = Some(world.stacks[0].connect(Instant::ORIGIN, server, None).expect("a connection"));
    let done = |apps: &[Application; 2]| apps.iter().all(|app| app.over.is_some());
    let mut steps = 0;
    while !done(&apps) {
        steps += 1;
        assert!(steps < 1_000_000, "seed {seed}: no end in sight");
        assert!(world.step(), "seed {seed}: nothing will ever happen again");
        assert!(world.now < 3600 * SECOND, "seed {seed}: not over after an hour");
        for (app, stack) in apps.iter_mut().zip(&mut world.stacks) {
            app.act(world.now, stack);
        }
        each(&mut world, [&apps[0], &apps[1]]);
    }
    let over = world.now;
    for (app, expected) in apps.iter().zip(len.iter().rev()) {
        assert_eq!(app.received, *expected, "seed {seed}");
        assert!(app.eof, "seed {seed}");
        assert_eq!(app.over, Some(Notice::Closed), "seed {seed}");
    }
    while world.now < over + 300 * SECOND && world.step() {}
    assert_eq!(
        [world.stacks[0].contexts(), world.stacks[1].contexts()],
        [0, 1],
        "the listener alone is left"
    );
    over
}

pub(crate) const CALM: Conditions = Conditions { lost: 0, late: 0, doubled: 0, changed: 0 };

#[test]
fn transfers_complete_over_a_clean_link() {
    for v6 in [false, true] {
        let took = transfer(v6, CALM, 1, [500_000, 300_000]);
        assert!(took < 2 * SECOND, "{took} ns");
    }
}

/// The stack first verifies their checksums, which this wire does not.
#[test]
fn packets_that_arrive_together_are_merged() {
    for v6 in [false, true] {
        let mut merged = [0, 0];
        transfer_while(v6, CALM, 1, [500_000, 300_000], |world, _| {
            merged = [0, 1].map(|i| world.stacks[i].counters().packets_merged);
        });
        assert!(merged[0] == 0 && merged[1] > 150, "{merged:?}");
    }
}

#[test]
fn transfers_survive_loss_reordering_doubling_and_corruption() {
    let conditions = Conditions { lost: 30, late: 50, doubled: 20, changed: 10 };
    for seed in 1..=12 {
        transfer(seed % 2 == 0, conditions, seed, [200_000, 50_000]);
    }
}

#[test]
fn transfers_survive_heavy_loss_and_reordering() {
    let conditions = Conditions { lost: 200, late: 200, doubled: 100, changed: 50 };
    for seed in 100..=106 {
        transfer(false, conditions, seed, [30_000, 10_000]);
    }
}

#[test]
fn transfers_survive_all_network_conditions() {
    for seed in 1000..1100 {
        let mut rng = Rng::with_seed(seed * 7 + 3);
        let conditions = Conditions {
            lost: rng.u64(..150),
            late: rng.u64(..300),
            doubled: rng.u64(..200),
            changed: rng.u64(..60),
        };
        let len = [rng.usize(..150_000), rng.usize(..80_000)];
        transfer(seed % 2 == 0, conditions, seed, len);
    }
}

#[test]
fn one_way_and_empty_transfers_complete() {
    let conditions = Conditions { lost: 50, late: 0, doubled: 0, changed: 0 };
    transfer(false, conditions, 5, [100_000, 0]);
    transfer(false, conditions, 6, [0, 100_000]);
    transfer(false, conditions, 7, [0, 0]);
}
