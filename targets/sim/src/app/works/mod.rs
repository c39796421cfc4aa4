//! Works: both ends of a flow have a queue pair, and ask for memory of one another.
//!
//! Each work is checked when it is done: that works come to their ends in the order in which they were posted, what a
//! read or an atomic operation found, and each message, that it is the next one that was sent. At the end the memory of
//! both has to be what it is when each work has had its effect once, in order.

mod worker;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use hawser_engine::{Handle, Notice, Stack};
use hawser_time::Instant;
use hawser_verbs::{Device, Remote};

use super::Side;
use crate::scenario::Works;
use crate::trace::Trace;

pub use worker::Worker;

/// What an end of a flow has to know.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The flow's number, for the trace.
    pub flow: usize,
    /// Which end it is.
    pub side: Side,
    /// When it begins.
    pub at: Instant,
    /// The other end's address.
    pub remote: IpAddr,
    /// What it posts.
    pub works: Works,
    /// The run's seed, which decides the works.
    pub seed: u64,
    /// What sets its works apart from those of others.
    pub label: String,
}

/// What both ends of a flow know, as by a connection of another kind over which they speak.
#[derive(Debug, Default)]
pub struct Known {
    ends: [EndKnown; 2],
}

/// What the other end knows of one.
#[derive(Debug, Default)]
struct EndKnown {
    offer: Option<Offer>,
    /// What its shared memory holds when all that its peer has posted is done.
    model: Vec<u8>,
    /// The messages that it has sent and its peer has not got, oldest first.
    messages: VecDeque<Message>,
    /// Nothing is left to do for it.
    is_done: bool,
}

/// A message, or a write with immediate data, of which only that and the length are seen.
#[derive(Clone, Debug, PartialEq)]
struct Message {
    bytes: Option<Vec<u8>>,
    len: u64,
    immediate: Option<u32>,
}

/// What a peer needs for using a queue pair and its memory.
#[derive(Clone, Copy, Debug)]
struct Offer {
    pair: u32,
    first_packet: u32,
    memory: Remote,
}

/// A place where both ends of a flow keep what they know.
pub type Shared = Rc<RefCell<Known>>;

/// What became of an end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerReport {
    /// Works that it has posted.
    pub posted: u64,
    /// Works of them that are done.
    pub done: u64,
    /// Bytes that these have moved.
    pub bytes: u64,
    /// When the last of them was done.
    pub done_at: Option<Instant>,
    /// When its queue pair was connected.
    pub connected_at: Option<Instant>,
    /// How long each of them took, from when it was posted.
    pub times: Vec<Duration>,
    /// What is wrong; empty when all went well.
    pub faults: Vec<String>,
    /// When something first was.
    pub failed_at: Option<Instant>,
}

/// The ends of flows of works on one host.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    /// The verbs of the host's stack, once somebody needs them.
    device: Option<Device>,
    workers: Vec<Worker>,
}

impl Workers {
    pub(crate) fn add(&mut self, worker: Worker) -> usize {
        self.workers.push(worker);
        self.workers.len() - 1
    }

    pub(crate) fn get(&self, number: usize) -> &Worker {
        &self.workers[number]
    }

    /// Takes a notice of the stack; false when it is not about a queue pair.
    pub(crate) fn notice(&mut self, handle: Handle, notice: &Notice) -> bool {
        let device = self.device.as_mut();
        device.is_some_and(|device| device.notice(handle, notice))
    }

    /// Lets all of them go on.
    pub(crate) fn drive(&mut self, now: Instant, stack: &mut Stack, trace: &mut Trace) {
        if self.workers.is_empty() {
            return;
        }
        let device = match &mut self.device {
            Some(device) => device,
            None => match Device::new(stack, 0) {
                Ok(device) => self.device.insert(device),
                Err(error) => {
                    let workers = self.workers.iter_mut();
                    return workers.for_each(|worker| worker.blame(now, error.to_string()));
                }
            },
        };
        for worker in &mut self.workers {
            worker.drive(now, stack, device, trace);
        }
    }

    /// When one of them has something to do though no notice comes.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        self.workers.iter().filter_map(Worker::wake_at).min()
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.workers.iter().all(Worker::is_finished)
    }

    /// The handle of one's queue pair in the stack.
    pub(crate) fn handle(&self, number: usize) -> Option<Handle> {
        self.workers[number].handle(self.device.as_ref()?)
    }

    /// Bytes that their works have moved.
    pub(crate) fn moved(&self) -> u64 {
        self.workers.iter().map(|worker| worker.report().bytes).sum()
    }
}
