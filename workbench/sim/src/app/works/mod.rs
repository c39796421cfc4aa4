//! Works: each end of a flow has a queue pair and requests operations on the other end's memory.
//!
//! Each work is checked when it completes. Works must complete in the order in which they were posted. A read
//! or an atomic operation must return the expected bytes. Each message must be the next one that was sent. At
//! the end, the memory of both ends must be as if each work had had its effect once, in order.

mod worker;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use hawser_engine::verbs::{Device, Remote};
use hawser_engine::{Handle, Notice, Stack};
use hawser_time::Instant;

use super::FlowSide;
use crate::scenario::WorksSpec;
use crate::trace::Trace;

pub use worker::Worker;

/// The plan of one end.
#[derive(Clone, Debug)]
pub struct WorkPlan {
    /// The flow's number, for the trace.
    pub flow: usize,
    /// Its side of the flow.
    pub side: FlowSide,
    /// The time at which it begins.
    pub at: Instant,
    /// The other end's address.
    pub remote: IpAddr,
    /// The works that it posts.
    pub works: WorksSpec,
    /// The run's seed, which determines the works.
    pub seed: u64,
    /// Distinguishes its works from those of other ends.
    pub label: String,
}

/// The knowledge that both ends of a flow share, as if over a separate connection.
#[derive(Debug, Default)]
pub struct WorkExchange {
    ends: [EndKnown; 2],
}

/// The knowledge about one end that its peer has.
#[derive(Debug, Default)]
struct EndKnown {
    offer: Option<QueuePairAddress>,
    /// The expected content of its shared memory once all that its peer has posted is done.
    model: Vec<u8>,
    /// The messages that it has sent and its peer has not received, oldest first.
    messages: VecDeque<Message>,
    /// True if this end has no work left.
    is_done: bool,
}

/// A message, or a write with immediate data. Of the latter, the receiver sees only that data and the length.
#[derive(Clone, Debug, PartialEq)]
struct Message {
    bytes: Option<Vec<u8>>,
    len: u64,
    immediate: Option<u32>,
}

/// The parameters that a peer needs to use a queue pair and its memory.
#[derive(Clone, Copy, Debug)]
struct QueuePairAddress {
    pair: u32,
    first_packet: u32,
    memory: Remote,
}

/// The shared knowledge of both ends of a flow.
pub type SharedExchange = Rc<RefCell<WorkExchange>>;

/// The results of one end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerReport {
    /// The number of works that it has posted.
    pub posted: u64,
    /// The number of posted works that are done.
    pub done: u64,
    /// The number of bytes that the completed works have moved.
    pub bytes: u64,
    /// The time at which the last of them was done.
    pub done_at: Option<Instant>,
    /// The time at which its queue pair was connected.
    pub connected_at: Option<Instant>,
    /// The duration of each completed work, from its posting.
    pub times: Vec<Duration>,
    /// The faults; empty if all went well.
    pub faults: Vec<String>,
    /// The time of the first fault.
    pub failed_at: Option<Instant>,
}

/// The ends of flows of works on one host.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    /// The verbs of the host's stack, created when a worker first needs them.
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

    /// Processes a notice of the stack; returns false if it does not concern a queue pair.
    pub(crate) fn notice(&mut self, handle: Handle, notice: &Notice) -> bool {
        let device = self.device.as_mut();
        device.is_some_and(|device| device.notice(handle, notice))
    }

    /// Drives all workers.
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

    /// Returns the time at which a worker has work to do even if no notice arrives.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        self.workers.iter().filter_map(Worker::wake_at).min()
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.workers.iter().all(Worker::is_finished)
    }

    /// Returns the handle of a worker's queue pair in the stack.
    pub(crate) fn handle(&self, number: usize) -> Option<Handle> {
        self.workers[number].handle(self.device.as_ref()?)
    }

    /// Returns the number of bytes that all their works have moved.
    pub(crate) fn moved(&self) -> u64 {
        self.workers.iter().map(|worker| worker.report().bytes).sum()
    }
}
