//! A host and its clients on one link with a limited rate, in virtual time. Attackers also send on it.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use hawser_time::Instant;
use fastrand::Rng;
use hawser_engine::wire::{Caps, Csum, Medium, RxFrame, TxFrame, Wire};
use hawser_engine::{Handle, Notice, Stack};

use crate::bench::{MS, SECOND, stack, stack_that_holds};
use crate::segment::{HOST, PEER};

/// A symmetric link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// The nanoseconds that a byte takes.
    pub(crate) byte_time: u64,
    /// The delay from one end to the other, in nanoseconds.
    pub(crate) delay: u64,
    /// The maximum queue before the link, in nanoseconds; excess packets are lost.
    pub(crate) queue: u64,
    /// The number of lost packets in 1000.
    pub(crate) lost: u64,
}

/// 20 Mbit/s.
pub(crate) const SHORT: Link = Link { byte_time: 400, delay: 2 * MS, queue: 20 * MS, lost: 0 };

#[derive(Default)]
struct Queue {
    arrived: Vec<Vec<u8>>,
    batch: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

struct StackEnd {
    caps: Caps,
    queue: Queue,
}

impl Wire for StackEnd {
    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn receive(&mut self, max: usize) -> io::Result<usize> {
        let count = self.queue.arrived.len().min(max);
        self.queue.batch = self.queue.arrived.drain(..count).collect();
        Ok(count)
    }
    fn frame(&self, i: usize) -> RxFrame<'_> {
        RxFrame { head: &self.queue.batch[i], tail: &[], csum: Csum::Unverified, seg_size: 0, at: Instant::ORIGIN }
    }
    fn release(&mut self) {}
    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        for frame in frames {
            let mut bytes = frame.head.clone();
            frame.payload.iter().for_each(|piece| bytes.extend_from_slice(piece.bytes()));
            self.queue.sent.push(bytes);
        }
        Ok(frames.len())
    }
}

/// Stack 0 is the host, stack 1 its clients.
pub(crate) struct Testbed {
    pub(crate) now: u64,
    pub(crate) stacks: [Stack; 2],
    ends: [StackEnd; 2],
    link: Link,
    rng: Rng,
    /// The times when the link is free: towards stack 0, towards stack 1.
    free: [u64; 2],
    flying: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    count: u64,
    pub(crate) notices: [Vec<(Handle, Notice)>; 2],
}

impl Testbed {
    pub(crate) fn new(params: &[&str]) -> Testbed {
        Testbed::over(SHORT, params)
    }

    pub(crate) fn over(link: Link, params: &[&str]) -> Testbed {
        Testbed::with_link(link, |ip, seed, caps| stack(ip, params, seed, caps))
    }

    /// Creates stacks that hold this many bytes of a connection in each direction.
    pub(crate) fn that_holds(bytes: u64) -> Testbed {
        Testbed::with_link(SHORT, |ip, seed, caps| stack_that_holds(ip, bytes, seed, caps))
    }

    fn with_link(link: Link, make: impl Fn(IpAddr, u64, &Caps) -> Stack) -> Testbed {
        let caps =
            Caps { medium: Medium::Ip, mtu: 1500, tx_csum: false, gso_max: 0, rx_queue_bytes: 1 << 22 };
        let end = || StackEnd { caps: caps.clone(), queue: Queue::default() };
        let stacks = [HOST, PEER].map(|ip| make(IpAddr::V4(ip), u64::from(ip.octets()[3]), &caps));
        Testbed {
            now: SECOND,
            stacks,
            ends: [end(), end()],
            link,
            rng: Rng::with_seed(1),
            free: [0; 2],
            flying: BTreeMap::new(),
            count: 0,
            notices: [Vec::new(), Vec::new()],
        }
    }

    /// Puts a packet on the link to a stack. Packets that the other stack did not send are an attacker's.
    pub(crate) fn send(&mut self, to: usize, packet: Vec<u8>) {
        let begins = self.free[to].max(self.now);
        if begins > self.now + self.link.queue {
            return;
        }
        self.free[to] = begins + packet.len() as u64 * self.link.byte_time;
        if self.rng.u64(..1000) < self.link.lost {
            return;
        }
        self.count += 1;
        self.flying.insert((self.free[to] + self.link.delay, self.count), (to, packet));
    }

    /// Lets time pass and calls `act` after every event.
    pub(crate) fn run(&mut self, time: u64, mut act: impl FnMut(&mut Testbed)) {
        let until = self.now + time;
        loop {
            self.settle();
            act(self);
            self.settle();
            let timers = self.stacks.iter().filter_map(Stack::next_deadline).min().map(Instant::as_nanos);
            let arrival = self.flying.keys().next().map(|key| key.0);
            let next = [timers, arrival].into_iter().flatten().min().filter(|next| *next <= until);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.flying.first_entry().filter(|e| e.key().0 <= self.now) {
                let (to, packet) = entry.remove();
                self.ends[to].queue.arrived.push(packet);
            }
        }
        self.now = until;
    }

    fn settle(&mut self) {
        for i in 0..2 {
            while self.stacks[i].poll(Instant::from_nanos(self.now), &mut self.ends[i]).expect("memory") {
                let counters = self.stacks[i].counters();
                assert_eq!(counters.asserts, 0, "{:?}", self.stacks[i].last_assert());
            }
            while let Some((handle, notice)) = self.stacks[i].next_notice() {
                if matches!(notice, Notice::Accepted(_)) {
                    self.stacks[i].accept(handle);
                }
                self.notices[i].push((handle, notice));
            }
            for packet in std::mem::take(&mut self.ends[i].queue.sent) {
                // Packets to spoofed addresses also take their time on the link.
                self.send(1 - i, packet);
            }
        }
    }

    pub(crate) fn listen(&mut self, port: u16) -> Handle {
        let local = SocketAddr::new(IpAddr::V4(HOST), port);
        self.stacks[0].listen(Instant::from_nanos(self.now), local, 1000).expect("a listener")
    }

    pub(crate) fn connect(&mut self, port: u16) -> Handle {
        let remote = SocketAddr::new(IpAddr::V4(HOST), port);
        self.stacks[1].connect(Instant::from_nanos(self.now), remote, None).expect("a connection")
    }

    /// Returns the connections that the host has accepted.
    pub(crate) fn accepted(&self) -> Vec<Handle> {
        let child = |(_, notice): &(Handle, Notice)| match notice {
            Notice::Accepted(child) => Some(*child),
            _ => None,
        };
        self.notices[0].iter().filter_map(child).collect()
    }
}

/// Returns a spoofed address on the link.
pub(crate) fn spoofed(i: u64) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 3 + (i % 250) as u8)
}
