//! One end of a flow of works.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use hawser_engine::verbs::{
    Access, CompletionQueue, ConnectionAttributes, Device, MemoryRegion, Opcode, QueuePair, QueuePairConfig,
    Remote, SendRequest, Slices, Status, VerbsError, WorkCompletion, WorkOperation,
};
use hawser_engine::{Handle, Stack};
use hawser_time::Instant;

use super::{FlowSide, Message, QueuePairAddress, SharedExchange, WorkPlan, WorkerReport};
use crate::app::Application;
use crate::rng::Rng;
use crate::scenario::WorkKind;
use crate::trace::Trace;

/// The time between the steps of the beginning: both ends create queue pairs, both connect them, both post.
const STEP: Duration = Duration::from_nanos(1);
/// The initial interval at which a finished end checks whether its peer has finished too. Each further
/// interval equals the time that it has waited so far.
const ASK: Duration = Duration::from_millis(1);
/// The code of the time that a peer without memory for a message asks the sender to wait: 0.64 ms (IBA,
/// 9.7.5.2.8).
const RNR_TIMER: u8 = 12;
/// The maximum number of faults that are kept.
const FAULTS_MAX: usize = 8;

/// One end of a flow of works.
#[derive(Debug)]
pub struct Worker {
    plan: WorkPlan,
    shared: SharedExchange,
    rng: Rng,
    ends: Option<DeviceObjects>,
    connected: bool,
    /// The time at which it finished, and the time at which it next checks its peer.
    done_at: Option<Instant>,
    asks_at: Option<Instant>,
    closed: bool,
    /// The posted works, oldest first.
    under_way: VecDeque<Posted>,
    /// The number of memory areas posted for messages, and of those that a message has used.
    receives: u64,
    received: u64,
    /// The times at which memory that messages have used is posted again.
    refills: VecDeque<Instant>,
    report: WorkerReport,
}

/// Its objects of the device.
#[derive(Debug)]
struct DeviceObjects {
    pair: QueuePair,
    queue: CompletionQueue,
    /// The memory for its own works, followed by the memory for messages.
    own: MemoryRegion,
    /// The memory that its peer uses.
    lent: MemoryRegion,
    first_packet: u32,
}

/// A posted work.
#[derive(Debug)]
struct Posted {
    at: Instant,
    len: u64,
    /// The range of the peer's memory that it reads.
    reads: Option<Range<usize>>,
    /// The expected content of its own memory when it is done.
    result: Option<Vec<u8>>,
}

impl Worker {
    /// Creates an end with a plan. Both ends of a flow share their knowledge.
    #[must_use]
    pub fn new(plan: WorkPlan, shared: SharedExchange) -> Worker {
        Worker {
            rng: Rng::new(plan.seed, &plan.label),
            plan,
            shared,
            ends: None,
            connected: false,
            done_at: None,
            asks_at: None,
            closed: false,
            under_way: VecDeque::new(),
            receives: 0,
            received: 0,
            refills: VecDeque::new(),
            report: WorkerReport::default(),
        }
    }

    fn place(&self) -> usize {
        self.plan.works.place() as usize
    }

    /// Returns the amount of lent memory that its peer may use. It is small, so that works overlap.
    fn lent(&self) -> usize {
        4 * self.place()
    }

    pub(super) fn drive(&mut self, now: Instant, stack: &mut Stack, device: &mut Device, trace: &mut Trace) {
        if self.closed || self.has_failed() || now < self.plan.at {
            return;
        }
        if let Err(error) = self.go_on(now, stack, device, trace) {
            self.blame(now, error.to_string());
        }
        if !self.is_done(now) {
            return;
        }
        let since = *self.done_at.get_or_insert(now);
        self.shared.borrow_mut().ends[self.plan.side as usize].is_done = true;
        if self.shared.borrow().ends.iter().all(|end| end.is_done) {
            self.close(now, stack, device);
        }
        self.asks_at = Some(now + ASK.max(now - since));
    }

    /// Returns true if this end has no work left.
    fn is_done(&self, now: Instant) -> bool {
        self.has_failed() || self.connected && self.is_all_posted(now) && self.under_way.is_empty()
    }

    fn go_on(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        device: &mut Device,
        trace: &mut Trace,
    ) -> Result<(), VerbsError> {
        if self.ends.is_none() {
            self.open(stack, device)?;
        }
        if now >= self.plan.at + STEP && !self.connected {
            self.connect(now, stack, device)?;
        }
        if now < self.plan.at + 2 * STEP || !self.connected {
            return Ok(());
        }
        loop {
            let polled = self.poll(now, device, trace);
            let posted = self.post_receives(now, stack, device)? | self.post(now, stack, device)?;
            if !polled || !posted {
                return Ok(());
            }
        }
    }

    /// Registers memory, creates a queue pair and offers both to the peer.
    fn open(&mut self, stack: &mut Stack, device: &mut Device) -> Result<(), VerbsError> {
        let domain = device.protection_domain();
        let queue = device.completion_queue();
        let pair = device.queue_pair(QueuePairConfig {
            domain,
            send_queue: queue,
            receive_queue: queue,
            signal_all: true,
        });
        let places = (self.plan.works.depth + self.plan.works.receives) as usize;
        let own = device.register(stack, domain, places * self.place(), Access::LOCAL_WRITE)?;
        let lent = device.register(stack, domain, self.lent(), Access::ALL)?;
        device.to_init(pair)?;
        // In half of the runs, packet numbers wrap.
        let first = self.rng.below(1 << 24) as u32;
        let first_packet = if self.rng.chance(0.5) {
            first | 0xff_ff00
        } else {
            first
        };
        let known = &mut self.shared.borrow_mut().ends[self.plan.side as usize];
        known.model = vec![0; self.lent()];
        known.offer = Some(QueuePairAddress { pair: pair.number(), first_packet, memory: lent.remote(0) });
        self.ends = Some(DeviceObjects { pair, queue, own, lent, first_packet });
        Ok(())
    }

    /// Connects its queue pair with that of its peer, which exists unless the peer failed.
    fn connect(&mut self, now: Instant, stack: &mut Stack, device: &mut Device) -> Result<(), VerbsError> {
        let offer = self.shared.borrow().ends[self.plan.side.other() as usize].offer;
        let (Some(offer), Some(ends)) = (offer, &self.ends) else {
            return Err(VerbsError::Gone("queue pair"));
        };
        let works = &self.plan.works;
        let connection = ConnectionAttributes {
            expected_packet: offer.first_packet,
            first_packet: ends.first_packet,
            mtu: works.mtu.0 as u32,
            access: Access::ALL,
            timeout: works.timeout.into(),
            reads: works.reads as u8,
            rnr_timer: RNR_TIMER,
            ..ConnectionAttributes::new(self.plan.remote, offer.pair)
        };
        device.connect(stack, now, ends.pair, &connection)?;
        self.connected = true;
        self.report.connected_at = Some(now);
        self.refills.extend((0..works.receives).map(|_| now + STEP));
        Ok(())
    }

    /// Posts the memory for messages that is due; returns true if it posted any.
    fn post_receives(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        device: &mut Device,
    ) -> Result<bool, VerbsError> {
        let mut any = false;
        while self.refills.front().is_some_and(|at| *at <= now) {
            self.refills.pop_front();
            let at = self.receive_place(self.receives);
            if let Some(ends) = &self.ends {
                let local = pieces(&ends.own, self.receives, at, self.place());
                device.post_receive(stack, now, ends.pair, self.receives, local)?;
            }
            self.receives += 1;
            any = true;
        }
        Ok(any)
    }

    /// Returns the offset of the n-th message's memory.
    fn receive_place(&self, n: u64) -> usize {
        let place = self.plan.works.depth + n % self.plan.works.receives;
        place as usize * self.place()
    }

    /// Posts works as long as there is room; returns true if it posted any.
    fn post(&mut self, now: Instant, stack: &mut Stack, device: &mut Device) -> Result<bool, VerbsError> {
        let mut any = false;
        while self.wants_to_post(now) {
            let Some((pair, request, posted)) = self.next(now) else {
                break;
            };
            device.post_send(stack, now, pair, &request)?;
            self.under_way.push_back(posted);
            self.report.posted += 1;
            any = true;
        }
        Ok(any)
    }

    fn posts_any(&self) -> bool {
        self.plan.side == FlowSide::Client || self.plan.works.both_ways
    }

    fn is_all_posted(&self, now: Instant) -> bool {
        let works = &self.plan.works;
        let is_late = works.time.is_some_and(|time| now >= self.plan.at + time.into());
        !self.posts_any() || is_late || self.report.posted >= works.limit()
    }

    fn wants_to_post(&self, now: Instant) -> bool {
        !self.is_all_posted(now) && (self.under_way.len() as u64) < self.plan.works.depth
    }

    /// Draws the next work, and applies it to the model of the peer's memory.
    fn next(&mut self, now: Instant) -> Option<(QueuePair, SendRequest, Posted)> {
        let (depth, size) = (self.plan.works.depth, self.plan.works.size);
        let kinds = &self.plan.works.kinds;
        let kind = kinds[self.rng.below(kinds.len() as u64) as usize];
        let is_atomic = matches!(kind, WorkKind::Swap | WorkKind::Add);
        let len = if is_atomic {
            8
        } else {
            self.rng.between(size.min, size.max) as usize
        };
        let room = self.lent() - len;
        let at = self.rng.between(0, room as u64) as usize;
        let at = if is_atomic { at / 8 * 8 } else { at };
        let immediate = self.rng.chance(self.plan.works.immediate.0);
        let immediate = immediate.then(|| self.rng.bits() as u32);
        let fenced = self.rng.chance(self.plan.works.fence.0);
        let ends = self.ends.as_ref()?;
        let id = self.report.posted;
        let place = (id % depth) as usize * self.plan.works.place() as usize;
        let mut shared = self.shared.borrow_mut();
        let remote = shared.ends[self.plan.side.other() as usize].offer?.memory;
        let remote = Remote { at: remote.at + at as u64, ..remote };
        let (mut bytes, touched) = (Vec::new(), at..at + len);
        if matches!(kind, WorkKind::Send | WorkKind::Write) {
            bytes.resize(len, 0);
            self.rng.fill(&mut bytes);
            ends.own.write(place, &bytes);
        }
        let model = &mut shared.ends[self.plan.side.other() as usize].model[touched.clone()];
        let (operation, result) = match kind {
            WorkKind::Send => (WorkOperation::Send, None),
            WorkKind::Write => {
                model.copy_from_slice(&bytes);
                (WorkOperation::Write(remote), None)
            }
            WorkKind::Read => (WorkOperation::Read(remote), Some(model.to_vec())),
            WorkKind::Swap | WorkKind::Add => {
                let (operation, before) = atomic(kind, remote, model, &mut self.rng);
                (operation, Some(before))
            }
        };
        let mut request = SendRequest::new(id, operation, pieces(&ends.own, id, place, len));
        if matches!(kind, WorkKind::Send | WorkKind::Write) {
            if let Some(value) = immediate {
                request = request.immediate(value);
            }
            if kind == WorkKind::Send || immediate.is_some() {
                let own = &mut shared.ends[self.plan.side as usize];
                own.messages.push_back(Message {
                    bytes: (kind == WorkKind::Send).then_some(bytes),
                    len: len as u64,
                    immediate,
                });
            }
        }
        // A read whose response is lost reads again, perhaps after works that were posted behind it. A work
        // that changes the same bytes must therefore wait for it (IBA, 10.8.3.3).
        let meets = |read: &Range<usize>| read.start < touched.end && touched.start < read.end;
        let changes = !matches!(kind, WorkKind::Read | WorkKind::Send);
        let mut reads = self.under_way.iter().filter_map(|posted| posted.reads.as_ref());
        if fenced || changes && reads.any(meets) {
            request = request.fenced();
        }
        let posted = Posted {
            at: now,
            len: len as u64,
            reads: (kind == WorkKind::Read).then_some(touched),
            result,
        };
        Some((ends.pair, request, posted))
    }

    /// Takes completed works, in order; returns true if there were any.
    fn poll(&mut self, now: Instant, device: &mut Device, trace: &mut Trace) -> bool {
        let mut any = false;
        while let Some(completion) = self.ends.as_ref().and_then(|ends| device.poll(ends.queue)) {
            any = true;
            trace.event(now, self.plan.flow, "completion", completion.id);
            if completion.status != Status::Success {
                self.blame(
                    now,
                    format!("work {} failed: {}", completion.id, completion.status),
                );
                continue;
            }
            let fault = match completion.opcode {
                Opcode::Receive | Opcode::ReceiveWrite => self.take_message(now, &completion),
                _ => self.take_work(now, &completion),
            };
            if let Some(fault) = fault {
                self.blame(now, fault);
            }
        }
        any
    }

    /// Checks a completed work of its own; returns the fault, if any.
    fn take_work(&mut self, now: Instant, completion: &WorkCompletion) -> Option<String> {
        let id = self.report.done;
        let Some(posted) = self.under_way.pop_front() else {
            return Some(format!("work {} was done but had not been posted", completion.id));
        };
        if completion.id != id {
            return Some(format!("work {} was done before work {id}", completion.id));
        }
        self.report.done += 1;
        self.report.bytes += posted.len;
        self.report.done_at = Some(now);
        self.report.times.push(now - posted.at);
        let result = posted.result?;
        let place = (id % self.plan.works.depth) as usize * self.place();
        let mut found = vec![0; result.len()];
        self.ends.as_ref()?.own.read(place, &mut found);
        (found != result).then(|| {
            format!(
                "work {id} ({:?}) found other bytes than there were",
                completion.opcode
            )
        })
    }

    /// Checks a received message; returns the fault, if any.
    fn take_message(&mut self, now: Instant, completion: &WorkCompletion) -> Option<String> {
        let n = self.received;
        self.received += 1;
        self.refills.push_back(now + self.plan.works.refill.into());
        let expected = self.shared.borrow_mut().ends[self.plan.side.other() as usize]
            .messages
            .pop_front();
        let Some(expected) = expected else {
            return Some(format!("message {n} arrived but had not been sent"));
        };
        let at = self.receive_place(n);
        let mut bytes = vec![0; completion.len as usize];
        let is_message = completion.opcode == Opcode::Receive;
        if is_message {
            self.ends.as_ref()?.own.read(at, &mut bytes);
        }
        let found = Message {
            bytes: is_message.then_some(bytes),
            len: completion.len,
            immediate: completion.immediate,
        };
        (completion.id != n || found != expected).then(|| format!("message {n} is not the one that was sent"))
    }

    /// Ends the flow once both ends have finished: releases its objects and checks the memory.
    fn close(&mut self, now: Instant, stack: &mut Stack, device: &mut Device) {
        self.closed = true;
        let Some(ends) = &self.ends else {
            return;
        };
        device.destroy(stack, now, ends.pair);
        for region in [&ends.own, &ends.lent] {
            device.deregister(stack, region);
        }
        let shared = Rc::clone(&self.shared);
        let known = shared.borrow();
        let is_right = ends.lent.region().bytes()[..] == known.ends[self.plan.side as usize].model[..];
        let missing = known.ends[self.plan.side.other() as usize].messages.len();
        let fault = match (is_right, missing) {
            (true, 0) => return,
            (false, _) => "its memory is not what its peer's works make of it".to_owned(),
            (true, missing) => format!("{missing} messages have not arrived"),
        };
        self.blame(now, fault);
    }

    pub(super) fn blame(&mut self, now: Instant, fault: String) {
        self.report.failed_at.get_or_insert(now);
        if self.report.faults.len() < FAULTS_MAX {
            self.report.faults.push(fault);
        }
    }

    fn has_failed(&self) -> bool {
        self.report.failed_at.is_some()
    }

    /// Returns the time at which it has work to do even if no notice arrives.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        if self.is_finished() {
            return None;
        }
        if self.ends.is_none() {
            return Some(self.plan.at);
        }
        if !self.connected {
            return Some(self.plan.at + STEP);
        }
        self.refills
            .front()
            .copied()
            .into_iter()
            .chain(self.asks_at)
            .min()
    }

    /// Returns true if both ends have done everything and have closed, or if an error occurred.
    pub(crate) fn is_finished(&self) -> bool {
        self.closed || self.has_failed()
    }

    /// Returns the results.
    #[must_use]
    pub fn report(&self) -> &WorkerReport {
        &self.report
    }

    /// Returns the handle of its queue pair in the stack.
    pub(crate) fn handle(&self, device: &Device) -> Option<Handle> {
        device.handle(self.ends.as_ref()?.pair)
    }

    /// Returns its progress.
    pub(crate) fn application(&self) -> Application {
        let (done, waiting) = (
            self.report.bytes,
            self.under_way.iter().map(|posted| posted.len).sum::<u64>(),
        );
        let under_way = (!self.under_way.is_empty()).then(|| format!("{} works", self.under_way.len()));
        Application {
            sent: done,
            to_send: done + waiting,
            closed: self.closed,
            waits_for: under_way.into_iter().collect(),
            ..Application::default()
        }
    }
}

/// Returns the memory of the n-th work: one to four pieces in turn, adjacent to each other.
fn pieces(own: &MemoryRegion, n: u64, place: usize, len: usize) -> Slices {
    let (place, len, count) = (place as u64, len as u64, 1 + n % 4);
    let piece = |i| {
        let (from, to) = (len * i / count, len * (i + 1) / count);
        own.slice(place + from, to - from)
    };
    (0..count).map(piece).collect::<Vec<_>>().into()
}

/// Creates an atomic operation on these bytes, and returns their previous value. A compare-and-swap succeeds
/// in half of the cases.
fn atomic(kind: WorkKind, remote: Remote, model: &mut [u8], rng: &mut Rng) -> (WorkOperation, Vec<u8>) {
    let before = model.to_vec();
    let number = before
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte));
    let value = rng.bits();
    let (operation, after) = if kind == WorkKind::Add {
        (
            WorkOperation::FetchAdd { remote, add: value },
            number.wrapping_add(value),
        )
    } else {
        let hits = rng.chance(0.5);
        let compare = if hits { number } else { !number };
        let operation = WorkOperation::CompareSwap { remote, compare, swap: value };
        (operation, if hits { value } else { number })
    };
    model.copy_from_slice(&after.to_le_bytes());
    (operation, before)
}
