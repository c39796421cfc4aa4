//! Shards: stacks that share their addresses, each on a queue of the device and driven by its own thread.
//!
//! [`Steering`] determines the shard of a packet. A queue that receives a packet for another shard forwards
//! it. The device need not distribute packets by the same rule; it is only faster if it does. Events that
//! chains raise for a context in another shard are forwarded in the same way.
//!
//! Invariants:
//!
//! * Forwarded packets are copied, and wait in channels of a fixed size, without locks. Packets that find no
//!   room are lost, as they may be in a network. So are events, as at a stack's limits.
//! * A sleeping shard is woken once for all items until it has checked.
//! * The queue of a shard that is gone is read by the first other shard that checks, until the last shard is
//!   gone. Its packets may be for any of them.

mod wakeup;

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
use wakeup::Wakeup;

/// The maximum number of packets that wait for a shard, and of events.
const MAX_WAITING: usize = 1024;

/// The number of batches without a packet for a shard after which its timers get their turn.
const MAX_ROUNDS: usize = 16;

/// The channels between shards.
pub(crate) struct Exchange {
    inboxes: Vec<Inbox>,
    /// The queues of shards that are gone and that no other has taken yet; `left_count` is their number.
    left: Mutex<Vec<Box<dyn Device>>>,
    left_count: AtomicUsize,
    lost: AtomicU64,
}

/// The sending ends of a shard's channels.
#[derive(Debug)]
struct Inbox {
    packets: SyncSender<Packet>,
    events: SyncSender<ForwardedEvent>,
    wakeup: Wakeup<OwnedFd>,
}

/// The receiving ends of a shard's channels.
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
    /// Creates the channels between `shards` shards, with the receiving ends of each.
    pub(crate) fn new(shards: u16) -> io::Result<(Exchange, Vec<Arrived>)> {
        let ends = (0..shards).map(|_| {
            let (to_packets, packets) = sync_channel(MAX_WAITING);
            let (to_events, events) = sync_channel(MAX_WAITING);
            let inbox = Inbox {
                packets: to_packets,
                events: to_events,
                wakeup: Wakeup::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?),
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

    /// Forwards a packet to a shard.
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
        inbox.wakeup.signal();
    }

    /// Forwards events that the chains of a shard's stack have raised for others, and passes it those that
    /// others have raised for it. Returns true if it received any.
    pub(crate) fn events(&self, stack: &mut Stack, arrived: &Receiver<ForwardedEvent>) -> bool {
        while let Some(event) = stack.next_forwarded() {
            let others = match event.to {
                ForwardTo::First => 0..1,
                ForwardTo::Others => 1..self.inboxes.len(),
            };
            for inbox in &self.inboxes[others] {
                let is_taken = inbox.events.try_send(event.clone()).is_ok();
                self.lost.fetch_add(u64::from(!is_taken), Ordering::Relaxed);
                inbox.wakeup.signal();
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
        self.inboxes.iter().for_each(|inbox| inbox.wakeup.signal());
    }

    /// Takes the queues that other shards have left.
    fn take_left(&self) -> Vec<Box<dyn Device>> {
        if self.left_count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut left = self.left.lock();
        self.left_count.store(0, Ordering::Release);
        std::mem::take(&mut *left)
    }

    /// Returns the number of packets and events that found no room in the channels between shards.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// A queue of the device, as its shard sees it.
pub(crate) struct ShardDevice {
    /// The shard's own queue, through which it sends, and those of shards that are gone.
    queues: Vec<Box<dyn Device>>,
    steering: Steering,
    exchange: Arc<Exchange>,
    arrived: Receiver<Packet>,
    /// A descriptor that is readable when the inbox's wakeup is signalled, or when a queue other than the own
    /// is readable.
    wakeup: OwnedFd,
    /// The frames in the queues' batches that are for this shard: the queue and the index in its batch.
    own: Vec<(usize, usize)>,
    /// The packets that other shards forwarded.
    handed: Vec<Packet>,
    /// True if the queue did not take all frames or had no more room, so that the shard waits until it takes
    /// frames again.
    is_full: bool,
}

impl ShardDevice {
    pub(crate) fn new(
        queue: Box<dyn Device>,
        steering: Steering,
        exchange: Arc<Exchange>,
        arrived: Receiver<Packet>,
    ) -> io::Result<ShardDevice> {
        let wakeup = epoll::create(CreateFlags::CLOEXEC)?;
        let inbox = &exchange.inboxes[usize::from(steering.index)];
        epoll::add(
            &wakeup,
            inbox.wakeup.counter(),
            EventData::new_u64(0),
            EventFlags::IN,
        )?;
        Ok(ShardDevice {
            queues: vec![queue],
            steering,
            exchange,
            arrived,
            wakeup,
            own: Vec::new(),
            handed: Vec::new(),
            is_full: false,
        })
    }

    fn inbox(&self) -> &Inbox {
        &self.exchange.inboxes[usize::from(self.steering.index)]
    }

    /// Adds the queues that other shards have left to those read here.
    fn take_left(&mut self) -> io::Result<()> {
        for queue in self.exchange.take_left() {
            epoll::add(
                &self.wakeup,
                queue.readiness(),
                EventData::new_u64(0),
                EventFlags::IN,
            )?;
            self.queues.push(queue);
        }
        Ok(())
    }

    /// Selects the frames for this shard from a queue's batch, and forwards the others.
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
        self.inbox().wakeup.clear();
        self.take_left()?;
        while let Ok(packet) = self.arrived.try_recv() {
            self.handed.push(packet);
            if self.handed.len() >= max / 2 {
                // More packets may wait, whose ring has already been consumed.
                self.inbox().wakeup.signal();
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
            // A batch with packets only for other shards does not show whether more wait.
            if count == 0 || self.own.len() + self.handed.len() > 0 {
                return Ok(self.own.len() + self.handed.len());
            }
            self.queues.iter_mut().for_each(|queue| queue.release());
        }
        self.inbox().wakeup.signal();
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

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wakeup.as_fd())
    }

    fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        hawser_host::wait_for_either(
            self.queues[0].readiness(),
            self.is_full,
            self.wakeup.as_fd(),
            limit,
        )
    }
}

impl Drop for ShardDevice {
    fn drop(&mut self) {
        self.release();
        self.exchange.leave(self.queues.drain(..));
    }
}
