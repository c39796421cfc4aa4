//! Shards: stacks beside each other that share their addresses, each on a queue of the device and driven by a thread of its
//! own.
//!
//! Whom a packet is for, [`Steering`] says. A queue that gets a packet for another shard hands it over, so that a device
//! need not share packets out as that does: it only is faster where it does. Events that chains raise for a context in
//! another shard go the same way.
//!
//! Invariants: what is handed over is copied, and waits in channels of a fixed size, without locks; what finds no room is
//! lost, as packets may be in a network, and events at a stack's limits. A shard that sleeps is woken by its bell, once for all that comes
//! until it has looked. The queue of a shard that is gone is read by whichever other shard looks first, until the last is gone:
//! what comes by it may be for any.

mod bell;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use hawser_engine::net::{Recipient, Steering};
use hawser_engine::wire::{Caps, Csum, RxFrame, TxFrame, Wire};
use hawser_engine::{ForwardTo, ForwardedEvent, Stack};
use hawser_time::Instant;
use parking_lot::Mutex;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};

use crate::device::Device;
use bell::Bell;

/// Packets that wait for a shard, at most, and events.
const MAX_WAITING: usize = 1024;

/// Batches in which there was nothing for a shard, after which its timers get their turn.
const MAX_ROUNDS: usize = 16;

/// What shards hand each other.
pub(crate) struct Exchange {
    inboxes: Vec<Inbox>,
    /// Queues of shards that are gone, which no other has taken yet, and how many.
    left: Mutex<Vec<Box<dyn Device>>>,
    left_count: AtomicUsize,
    lost: AtomicU64,
}

/// Where a shard gets what is for it.
#[derive(Debug)]
struct Inbox {
    packets: SyncSender<Packet>,
    events: SyncSender<ForwardedEvent>,
    bell: Bell<OwnedFd>,
}

/// What a shard has got.
pub(crate) struct Arrived {
    pub(crate) packets: Receiver<Packet>,
    pub(crate) events: Receiver<ForwardedEvent>,
}

/// A received packet.
#[derive(Debug)]
pub(crate) struct Packet {
    bytes: Vec<u8>,
    csum: Csum,
    seg_size: u16,
    at: Instant,
}

impl Exchange {
    /// For so many shards, with what each gets.
    pub(crate) fn new(shards: u16) -> io::Result<(Exchange, Vec<Arrived>)> {
        let ends = (0..shards).map(|_| {
            let (to_packets, packets) = sync_channel(MAX_WAITING);
            let (to_events, events) = sync_channel(MAX_WAITING);
            let inbox = Inbox {
                packets: to_packets,
                events: to_events,
                bell: Bell::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?),
            };
            Ok((inbox, Arrived { packets, events }))
        });
        let (inboxes, arrived) = ends.collect::<io::Result<_>>()?;
        let exchange = Exchange {
            inboxes,
            left: Mutex::default(),
            left_count: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        };
        Ok((exchange, arrived))
    }

    /// Hands a packet to a shard.
    fn packet(&self, to: u16, frame: &RxFrame<'_>) {
        let inbox = &self.inboxes[usize::from(to)];
        let packet = Packet {
            bytes: [frame.head, frame.tail].concat(),
            csum: frame.csum,
            seg_size: frame.seg_size,
            at: frame.at,
        };
        let is_taken = inbox.packets.try_send(packet).is_ok();
        self.lost.fetch_add(u64::from(!is_taken), Ordering::Relaxed);
        inbox.bell.ring();
    }

    /// Hands on what the chains of a shard's stack have raised for others, and gives it what others' have raised for it.
    /// True when it got anything.
    pub(crate) fn events(&self, stack: &mut Stack, arrived: &Receiver<ForwardedEvent>) -> bool {
        while let Some(event) = stack.next_forwarded() {
            let others = match event.to {
                ForwardTo::First => 0..1,
                ForwardTo::Others => 1..self.inboxes.len(),
            };
            for inbox in &self.inboxes[others] {
                let is_taken = inbox.events.try_send(event.clone()).is_ok();
                self.lost.fetch_add(u64::from(!is_taken), Ordering::Relaxed);
                inbox.bell.ring();
            }
        }
        let mut any = false;
        while let Ok(event) = arrived.try_recv() {
            any |= stack.take_forwarded(&event);
        }
        any
    }

    /// Leaves queues to the other shards.
    fn leave(&self, queues: impl Iterator<Item = Box<dyn Device>>) {
        let mut left = self.left.lock();
        left.extend(queues);
        self.left_count.store(left.len(), Ordering::Release);
        self.inboxes.iter().for_each(|inbox| inbox.bell.ring());
    }

    /// What other shards have left.
    fn take_left(&self) -> Vec<Box<dyn Device>> {
        if self.left_count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut left = self.left.lock();
        self.left_count.store(0, Ordering::Release);
        std::mem::take(&mut *left)
    }

    /// Packets and events that found no room in the queues between shards.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// A queue of the device, as its shard sees it.
pub(crate) struct ShardDevice {
    /// The shard's own, by which it sends, and those of shards that are gone.
    queues: Vec<Box<dyn Device>>,
    steering: Steering,
    exchange: Arc<Exchange>,
    arrived: Receiver<Packet>,
    /// Readable when the inbox's bell rings, and when one of the queues but the own is.
    bell: OwnedFd,
    /// The frames of the queues' batches that are for this shard: which queue's, and which.
    own: Vec<(usize, usize)>,
    /// The packets that others handed over.
    handed: Vec<Packet>,
    /// The queue did not take all frames, or had no room for more: that it takes some again is news.
    is_full: bool,
}

impl ShardDevice {
    pub(crate) fn new(
        queue: Box<dyn Device>,
        steering: Steering,
        exchange: Arc<Exchange>,
        arrived: Receiver<Packet>,
    ) -> io::Result<ShardDevice> {
        let bell = epoll::create(CreateFlags::CLOEXEC)?;
        let inbox = &exchange.inboxes[usize::from(steering.index)];
        epoll::add(&bell, inbox.bell.counter(), EventData::new_u64(0), EventFlags::IN)?;
        Ok(ShardDevice {
            queues: vec![queue],
            steering,
            exchange,
            arrived,
            bell,
            own: Vec::new(),
            handed: Vec::new(),
            is_full: false,
        })
    }

    fn inbox(&self) -> &Inbox {
        &self.exchange.inboxes[usize::from(self.steering.index)]
    }

    /// Has queues that others have left read here.
    fn take_left(&mut self) -> io::Result<()> {
        for queue in self.exchange.take_left() {
            epoll::add(
                &self.bell,
                queue.readiness(),
                EventData::new_u64(0),
                EventFlags::IN,
            )?;
            self.queues.push(queue);
        }
        Ok(())
    }

    /// Takes what is for this shard out of a queue's batch, and hands the rest on.
    fn sort(&mut self, queue: usize, count: usize) {
        let medium = self.queues[queue].caps().medium;
        for i in 0..count {
            let frame = self.queues[queue].frame(i);
            match self.steering.recipient(medium, &frame) {
                Recipient::Shard(to) if to != self.steering.index => self.exchange.packet(to, &frame),
                Recipient::Shard(_) | Recipient::Any => self.own.push((queue, i)),
                Recipient::All => {
                    self.own.push((queue, i));
                    let others = (0..self.steering.shards).filter(|to| *to != self.steering.index);
                    others.for_each(|to| self.exchange.packet(to, &frame));
                }
            }
        }
    }
}

impl Wire for ShardDevice {
    fn caps(&self) -> &Caps {
        self.queues[0].caps()
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        self.is_full = false;
        self.inbox().bell.quiet();
        self.take_left()?;
        while let Ok(packet) = self.arrived.try_recv() {
            self.handed.push(packet);
            if self.handed.len() >= max / 2 {
                // More may wait, which has rung already.
                self.inbox().bell.ring();
                break;
            }
        }
        for _ in 0..MAX_ROUNDS {
            let each = ((max - self.handed.len()) / self.queues.len()).max(1);
            let mut count = 0;
            for queue in 0..self.queues.len() {
                let received = self.queues[queue].receive(each)?;
                self.sort(queue, received);
                count += received;
            }
            // A batch that was all for others says nothing of whether more waits.
            if count == 0 || self.own.len() + self.handed.len() > 0 {
                return Ok(self.own.len() + self.handed.len());
            }
            self.queues.iter_mut().for_each(|queue| queue.release());
        }
        self.inbox().bell.ring();
        Ok(0)
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        match self.own.get(i) {
            Some((queue, own)) => self.queues[*queue].frame(*own),
            None => {
                let packet = &self.handed[i - self.own.len()];
                RxFrame {
                    head: &packet.bytes,
                    tail: &[],
                    csum: packet.csum,
                    seg_size: packet.seg_size,
                    at: packet.at,
                }
            }
        }
    }

    fn release(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.release());
        self.own.clear();
        self.handed.clear();
    }

    fn room(&mut self) -> usize {
        let room = self.queues[0].room();
        self.is_full |= room == 0;
        room
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        let taken = self.queues[0].transmit(frames)?;
        self.is_full |= taken < frames.len();
        Ok(taken)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.queues.iter().filter_map(|queue| queue.next_deadline()).min()
    }
}

impl Device for ShardDevice {
    fn now(&self) -> Instant {
        self.queues[0].now()
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.queues[0].readiness()
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }

    fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        hawser_host::wait_for_either(self.queues[0].readiness(), self.is_full, self.bell.as_fd(), limit)
    }
}

impl Drop for ShardDevice {
    fn drop(&mut self) {
        self.release();
        self.exchange.leave(self.queues.drain(..));
    }
}
