//! The event core: nodes, the pipes between them, and one clock.
//!
//! The next event is the earliest entry of a [timing wheel](crate::wheel); entries of the same time come in
//! the order in which they were added. A run therefore depends only on its initial state. A node or a pipe
//! has at most one valid entry, for the earliest time that it asked for; entries that were superseded are
//! skipped.

use std::io::Write;
use std::sync::Arc;

use hawser_time::Instant;

use crate::frame::Frame;
use crate::link::pause::{Ingress, PauseFrame, Pauses};
use crate::link::{Pipe, Profile};
use crate::pcap;
use crate::scenario::PAUSE_BYTES;
use crate::trace::Trace;
use crate::wheel::Wheel;

/// The maximum number of entries that are processed at one instant; beyond it, the run has stalled.
const INSTANT_MAX: u64 = 1 << 20;

/// The destination of a frame that a node has finished with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameExit {
    /// The frame leaves by the port of this number; ports count from 0 in the order of [`World::connect`].
    Port(usize),
    /// The node drops the frame, for this reason.
    Drop(&'static str),
}

/// A host or a switch: frames reach and leave it through ports.
pub trait Node {
    /// Accepts a frame that has arrived; [`Node::run`] follows at the same time.
    fn arrive(&mut self, now: Instant, frame: Frame);

    /// Does all work that is due at `now`. Frames that leave or are dropped go to `out`.
    fn run(&mut self, now: Instant, out: &mut Vec<(FrameExit, Frame)>, trace: &mut Trace);

    /// Returns the next time at which the node has work to do even if no frame arrives.
    fn next_deadline(&self) -> Option<Instant>;

    /// Returns true if the node holds frames back until its lines have sent others.
    fn waits_for_line(&self) -> bool {
        false
    }

    /// Takes the node down without notice, or brings it up again with all its state lost.
    fn set_up(&mut self, _now: Instant, _up: bool) {}

    /// Returns true for a node that forwards the frames of others and sends none itself. Its frames keep
    /// their numbers. The frames that wait for a line behind it are lost when it goes down.
    fn forwards(&self) -> bool {
        false
    }

    /// Returns the progress of its applications, which grows with each byte delivered to one of them.
    fn progress(&self) -> u64;
}

/// A scheduled change of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkChange {
    /// The link is cut (`false`) or restored (`true`).
    Up(bool),
    /// The link gets these parameters.
    Tune(Profile),
}

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The condition was met.
    Met,
    /// The time was up.
    Time,
    /// No further event was scheduled.
    Idle,
    /// Too many events occurred at one instant: two nodes answer each other without any delay between them.
    Stalled,
    /// Too many frames were sent without progress of any application.
    NoProgress,
    /// The run is not over: its caller asked for a pause.
    Paused,
}

/// Counts the frames that were sent without progress of any application.
#[derive(Default)]
struct Idle {
    /// The maximum number of frames; 0 means no limit.
    limit: u64,
    count: u64,
    /// The last of these frames, kept when the limit is near.
    last: Vec<Frame>,
}

/// The number of last frames that are kept, to show which packets circulated.
const LAST_FRAMES: u64 = 64;

impl Idle {
    fn sent(&mut self, frame: &Frame) {
        self.count += 1;
        if self.limit > 0 && self.count + LAST_FRAMES > self.limit && self.count <= self.limit {
            self.last.push(frame.clone());
        }
    }

    fn progressed(&mut self) {
        self.count = 0;
        self.last.clear();
    }

    fn is_over(&self) -> bool {
        self.limit > 0 && self.count >= self.limit
    }
}

/// Nodes joined by pipes.
///
/// Build it with [`World::add`], [`World::connect`] and [`World::schedule`], then call [`World::run`]
/// repeatedly.
pub struct World<N> {
    now: Instant,
    agenda: Wheel<EventTarget>,
    nodes: Vec<NodeSlot<N>>,
    pipes: Vec<Joint>,
    changes: Vec<(usize, LinkChange)>,
    record: EventLog,
    /// Scheduled changes of nodes that go down or come up.
    falls: Vec<(usize, bool)>,
    pcap: Option<pcap::PcapWriter<Box<dyn Write>>>,
    pcap_error: Option<std::io::Error>,
    out: Vec<(FrameExit, Frame)>,
    instant: u64,
    events: u64,
    idle: Idle,
    /// The number of frames that nodes have sent.
    sent: u64,
}

/// The fate of a frame. A frame that is not duplicated begins with [`FrameFate::Sent`] and ends with
/// [`FrameFate::Delivered`] or [`FrameFate::Lost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFate {
    /// The frame enters its first pipe.
    Sent,
    /// The frame leaves a pipe at a node that forwards frames.
    Arrived,
    /// Such a node has forwarded the frame: it enters a further pipe.
    Forwarded,
    /// The frame leaves a pipe at its last node.
    Delivered,
    /// The frame is lost, by the rule of this name: `down` if the pipe is cut, `overflow` if it is full.
    /// Outside of pipes, a node dropped it for this reason.
    Lost(&'static str),
}

/// A frame at one moment of its path.
#[derive(Clone, Copy, Debug)]
pub struct FrameSighting<'a> {
    /// The time of the event.
    pub at: Instant,
    /// The node that sent it into the pipe, or that dropped it.
    pub from: usize,
    /// The pipe that it passes through, or `None` if a node dropped it.
    pub pipe: Option<usize>,
    /// The frame's fate at this moment.
    pub fate: FrameFate,
    /// The frame, as it is at this moment.
    pub frame: &'a Frame,
}

/// Receives the fate of each frame.
pub type Watcher = Box<dyn FnMut(&FrameSighting<'_>)>;

/// Records of all events.
#[derive(Default)]
struct EventLog {
    trace: Trace,
    watcher: Option<Watcher>,
}

impl EventLog {
    fn frame(&mut self, at: Instant, (from, pipe): (usize, Option<usize>), fate: FrameFate, frame: &Frame) {
        // A frame's entry into a pipe shows in its later fate. Nodes use places beyond those of pipes.
        let place = pipe.unwrap_or(usize::MAX - from);
        match fate {
            FrameFate::Sent | FrameFate::Forwarded => {}
            FrameFate::Arrived => self.trace.passed(at, place, frame),
            FrameFate::Delivered => self.trace.frame(at, place, "delivered", frame),
            FrameFate::Lost(rule) => self.trace.frame(at, place, rule, frame),
        }
        if let Some(watcher) = &mut self.watcher {
            watcher(&FrameSighting { at, from, pipe, fate, frame });
        }
    }
}

/// The target of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventTarget {
    Change(usize),
    Fall(usize),
    Pipe(usize),
    Node(usize),
    /// A pause frame of a node arrives.
    Pause(u32, PauseFrame),
}

/// A node with its ports and schedule.
struct NodeSlot<N> {
    node: N,
    /// The pipe behind each port.
    ports: Vec<usize>,
    scheduled: Option<Instant>,
    /// True if a frame has arrived since the node last ran.
    called: bool,
    /// The waiting bytes by port of arrival, if the node pauses its senders.
    ingress: Option<Arc<Ingress>>,
}

/// A pipe with its ends and schedule.
struct Joint {
    pipe: Pipe,
    from: usize,
    to: usize,
    scheduled: Option<Instant>,
    /// The number of its port in the ingress counters of `to`; 0 if `to` does not count.
    ingress: u16,
}

impl<N: Node> World<N> {
    /// Creates an empty world whose clock shows `start`.
    #[must_use]
    pub fn new(start: Instant) -> World<N> {
        World {
            now: start,
            agenda: Wheel::new(),
            nodes: Vec::new(),
            pipes: Vec::new(),
            changes: Vec::new(),
            record: EventLog::default(),
            falls: Vec::new(),
            pcap: None,
            pcap_error: None,
            out: Vec::new(),
            instant: 0,
            events: 0,
            idle: Idle::default(),
            sent: 0,
        }
    }

    /// Adds a node and returns its number.
    pub fn add(&mut self, node: N) -> usize {
        self.nodes
            .push(NodeSlot { node, ports: Vec::new(), scheduled: None, called: false, ingress: None });
        self.nodes.len() - 1
    }

    /// Adds a one-way connection at the next port of `from`; returns the pipe's number.
    pub fn connect(&mut self, from: usize, to: usize, pipe: Pipe) -> usize {
        let number = self.pipes.len();
        self.pipes
            .push(Joint { pipe, from, to, scheduled: None, ingress: 0 });
        self.nodes[from].ports.push(number);
        number
    }

    /// Counts the frames of a pipe at the node where it ends. That node pauses the sender by frames through
    /// the pipe `back` ([`crate::link::pause`]).
    pub fn count_ingress(&mut self, pipe: usize, back: usize, ingress: &Arc<Ingress>) {
        let joint = &mut self.pipes[pipe];
        joint.ingress = ingress.add(pipe, back);
        self.nodes[joint.to].ingress = Some(Arc::clone(ingress));
    }

    /// Returns the pauses of each priority of a pipe.
    #[must_use]
    pub fn pauses(&self, pipe: usize) -> Vec<Pauses> {
        let joint = &self.pipes[pipe];
        let ingress = self.nodes[joint.to].ingress.as_ref();
        ingress.map_or_else(Vec::new, |ingress| ingress.pauses(joint.ingress, self.now))
    }

    /// Schedules a change of a pipe.
    pub fn schedule(&mut self, at: Instant, pipe: usize, change: LinkChange) {
        self.changes.push((pipe, change));
        self.enter(at, EventTarget::Change(self.changes.len() - 1));
    }

    /// Schedules the time at which a node goes down or comes up.
    pub fn schedule_fall(&mut self, at: Instant, node: usize, up: bool) {
        self.falls.push((node, up));
        self.enter(at, EventTarget::Fall(self.falls.len() - 1));
    }

    /// Writes every frame that a node sends to a capture, before any rule changes it.
    pub fn capture(&mut self, pcap: pcap::PcapWriter<Box<dyn Write>>) {
        self.pcap = Some(pcap);
    }

    /// Passes the fate of every frame to a watcher; [`Frame::number`] is the number in a capture.
    pub fn watch(&mut self, watcher: Watcher) {
        self.record.watcher = Some(watcher);
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// Returns the first write error.
    pub fn finish_capture(&mut self) -> std::io::Result<()> {
        match (self.pcap_error.take(), self.pcap.take()) {
            (Some(error), _) => Err(error),
            (None, Some(mut pcap)) => pcap.flush(),
            (None, None) => Ok(()),
        }
    }

    /// Ends runs after `limit` frames without progress of any application; 0 means never.
    pub fn limit_idle(&mut self, limit: u64) {
        self.idle = Idle { limit, ..Idle::default() };
    }

    /// Returns the last frames that were sent without progress, if a run ended for that reason.
    #[must_use]
    pub fn idle_frames(&self) -> &[Frame] {
        &self.idle.last
    }

    /// Lets time pass until `until`, or until `met` holds for every node. `progress` receives the time every
    /// few thousand events.
    pub fn run(
        &mut self,
        until: Instant,
        met: impl Fn(&N) -> bool,
        mut progress: impl FnMut(Instant),
    ) -> StopReason {
        self.run_with_pauses(until, met, |events, at| {
            if events.is_multiple_of(4096) {
                progress(at);
            }
            false
        })
    }

    /// Like [`World::run`], but calls `pause` after each entry and returns when it asks for a pause. A
    /// further call continues as if there had been no pause. `pause` receives the number of processed entries
    /// and the time.
    pub fn run_with_pauses(
        &mut self,
        until: Instant,
        met: impl Fn(&N) -> bool,
        mut pause: impl FnMut(u64, Instant) -> bool,
    ) -> StopReason {
        for i in 0..self.nodes.len() {
            self.reschedule_node(i);
        }
        let mut unmet: Vec<bool> = self.nodes.iter().map(|seat| !met(&seat.node)).collect();
        let mut left = unmet.iter().filter(|u| **u).count();
        while left > 0 {
            let Some((at, target)) = self.agenda.take(until) else {
                if self.agenda.is_empty() {
                    return StopReason::Idle;
                }
                self.now = self.now.max(until);
                return StopReason::Time;
            };
            if !self.advance(at) {
                return StopReason::Stalled;
            }
            match target {
                EventTarget::Change(i) => self.change(i),
                EventTarget::Fall(i) => self.fall(i),
                EventTarget::Pipe(i) => self.pass(i),
                EventTarget::Pause(node, order) => self.pause(node as usize, order),
                EventTarget::Node(i) => {
                    self.run_node(i);
                    if self.idle.is_over() {
                        return StopReason::NoProgress;
                    }
                    let still = !met(&self.nodes[i].node);
                    left = left + usize::from(still) - usize::from(unmet[i]);
                    unmet[i] = still;
                }
            }
            if pause(self.events, at) && left > 0 {
                return StopReason::Paused;
            }
        }
        StopReason::Met
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the nodes, by number.
    pub fn nodes(&self) -> impl Iterator<Item = &N> {
        self.nodes.iter().map(|seat| &seat.node)
    }

    /// Returns a node by number.
    #[must_use]
    pub fn node(&self, number: usize) -> &N {
        &self.nodes[number].node
    }

    /// Returns a node mutably, to be set up before the first run.
    pub fn node_mut(&mut self, number: usize) -> &mut N {
        &mut self.nodes[number].node
    }

    /// Returns a pipe by number.
    #[must_use]
    pub fn pipe(&self, number: usize) -> &Pipe {
        &self.pipes[number].pipe
    }

    /// Returns a pipe mutably, to query its waiting frames.
    pub fn pipe_mut(&mut self, number: usize) -> &mut Pipe {
        &mut self.pipes[number].pipe
    }

    /// Returns the trace of the run so far.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.record.trace
    }

    /// Returns the number of processed entries.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Moves the clock; returns false if it has not advanced for too many entries.
    fn advance(&mut self, at: Instant) -> bool {
        self.events += 1;
        self.instant = if at > self.now { 0 } else { self.instant + 1 };
        self.now = self.now.max(at);
        self.instant < INSTANT_MAX
    }

    fn enter(&mut self, at: Instant, target: EventTarget) {
        self.agenda.add(at.max(self.now), target);
    }

    fn change(&mut self, number: usize) {
        let now = self.now;
        let (index, change) = &self.changes[number];
        let (index, joint, record) = (*index, &mut self.pipes[*index], &mut self.record);
        let place = (joint.from, Some(index));
        let mut lost = |at, rule, frame: &Frame| record.frame(at, place, FrameFate::Lost(rule), frame);
        match change {
            LinkChange::Tune(profile) => joint.pipe.tune(now, profile, &mut lost),
            LinkChange::Up(up) => joint.pipe.set_up(now, *up, &mut lost),
        }
        self.reschedule_pipe(index);
        self.call_sender(index);
    }

    /// Takes a node down or brings it up.
    fn fall(&mut self, number: usize) {
        let (now, (index, up)) = (self.now, self.falls[number]);
        let seat = &mut self.nodes[index];
        seat.node.set_up(now, up);
        seat.called = true;
        if !up && seat.node.forwards() {
            let record = &mut self.record;
            for pipe in &seat.ports {
                let place = (index, Some(*pipe));
                self.pipes[*pipe]
                    .pipe
                    .empty_queue(now, &mut |at, rule, frame: &Frame| {
                        record.frame(at, place, FrameFate::Lost(rule), frame);
                    });
            }
        }
        self.send_pauses(index);
        self.reschedule_node(index);
    }

    /// Hands over the frames that have come through a pipe.
    fn pass(&mut self, index: usize) {
        let now = self.now;
        let joint = &mut self.pipes[index];
        if joint.scheduled != Some(now) {
            return;
        }
        joint.scheduled = None;
        let to = joint.to;
        let (record, place) = (&mut self.record, (joint.from, Some(index)));
        let seat = &mut self.nodes[to];
        let fate = if seat.node.forwards() {
            FrameFate::Arrived
        } else {
            FrameFate::Delivered
        };
        while let Some(mut frame) = joint.pipe.pop(now, &mut |at, rule, frame| {
            record.frame(at, place, FrameFate::Lost(rule), frame);
        }) {
            record.frame(now, place, fate, &frame);
            frame.ingress = joint.ingress;
            seat.node.arrive(now, frame);
            seat.called = true;
        }
        self.reschedule_pipe(index);
        if fate == FrameFate::Arrived {
            // A node that forwards frames takes no time for it, and needs no entry of its own.
            self.work(to);
        } else {
            self.reschedule_node(to);
        }
        self.give_back(index);
        self.call_sender(index);
    }

    /// Reschedules the node in front of a pipe, which may wait for frames to leave the pipe's queue.
    fn call_sender(&mut self, pipe: usize) {
        let from = self.pipes[pipe].from;
        if self.nodes[from].node.waits_for_line() {
            self.reschedule_node(from);
        }
        self.send_pauses(from);
    }

    /// Sends the pause frames that a node has pending.
    fn send_pauses(&mut self, node: usize) {
        let Some(ingress) = &self.nodes[node].ingress else {
            return;
        };
        let ingress = Arc::clone(ingress);
        while let Some((order, back)) = ingress.take_order() {
            let at = self.pipes[back].pipe.control(self.now, PAUSE_BYTES);
            let at = ingress.arrives(order, at);
            self.enter(at, EventTarget::Pause(node as u32, order));
        }
    }

    /// Applies a pause frame of a node to the queue at the other end of the link.
    fn pause(&mut self, node: usize, order: PauseFrame) {
        let now = self.now;
        let ingress = self.nodes[node].ingress.as_ref();
        let Some((index, precedences)) = ingress.and_then(|ingress| ingress.obeyed(order, now)) else {
            return;
        };
        let (joint, record) = (&mut self.pipes[index], &mut self.record);
        let place = (joint.from, Some(index));
        joint
            .pipe
            .pause(now, precedences, &mut |at, rule, frame: &Frame| {
                record.frame(at, place, FrameFate::Lost(rule), frame);
            });
        self.reschedule_pipe(index);
        self.call_sender(index);
    }

    fn run_node(&mut self, index: usize) {
        let seat = &mut self.nodes[index];
        if seat.scheduled != Some(self.now) {
            return;
        }
        seat.scheduled = None;
        self.work(index);
        self.reschedule_node(index);
    }

    /// Runs a node if it has work to do.
    fn work(&mut self, index: usize) {
        let seat = &mut self.nodes[index];
        if !seat.called && seat.node.next_deadline().is_none_or(|at| at > self.now) {
            return;
        }
        seat.called = false;
        let mut out = std::mem::take(&mut self.out);
        let before = seat.node.progress();
        seat.node.run(self.now, &mut out, &mut self.record.trace);
        if seat.node.progress() > before {
            self.idle.progressed();
        }
        for (exit, frame) in out.drain(..) {
            match exit {
                FrameExit::Port(port) => self.send(index, port, frame),
                FrameExit::Drop(reason) => {
                    self.record
                        .frame(self.now, (index, None), FrameFate::Lost(reason), &frame);
                }
            }
        }
        self.out = out;
    }

    fn send(&mut self, from: usize, port: usize, mut frame: Frame) {
        let seat = &self.nodes[from];
        let Some(&index) = seat.ports.get(port) else {
            return;
        };
        let place = (from, Some(index));
        if seat.node.forwards() {
            self.record.frame(self.now, place, FrameFate::Forwarded, &frame);
        } else {
            self.idle.sent(&frame);
            self.sent += 1;
            frame.number = self.sent;
            self.record.frame(self.now, place, FrameFate::Sent, &frame);
            self.write(&frame);
        }
        let record = &mut self.record;
        self.pipes[index]
            .pipe
            .push(self.now, frame, &mut |at, rule, frame| {
                record.frame(at, place, FrameFate::Lost(rule), frame);
            });
        self.give_back(index);
        self.reschedule_pipe(index);
        self.send_pauses(from);
    }

    /// Passes the frames that a pipe has returned to the node in front of it.
    fn give_back(&mut self, pipe: usize) {
        let Joint { pipe, from, .. } = &mut self.pipes[pipe];
        if !pipe.has_returned() {
            return;
        }
        let from = *from;
        let seat = &mut self.nodes[from];
        for frame in pipe.take_returned() {
            seat.node.arrive(self.now, frame);
        }
        seat.called = true;
        self.reschedule_node(from);
    }

    /// Writes a frame to the capture, if there is one.
    fn write(&mut self, frame: &Frame) {
        if let Some(pcap) = &mut self.pcap
            && let Err(error) = pcap.frame(self.now, frame)
        {
            self.pcap_error = Some(error);
            self.pcap = None;
        }
    }

    fn reschedule_pipe(&mut self, index: usize) {
        let joint = &mut self.pipes[index];
        let Some(at) = joint.pipe.next_deadline().map(|at| at.max(self.now)) else {
            return;
        };
        if joint.scheduled.is_none_or(|earlier| at < earlier) {
            joint.scheduled = Some(at);
            self.enter(at, EventTarget::Pipe(index));
        }
    }

    fn reschedule_node(&mut self, index: usize) {
        let seat = &mut self.nodes[index];
        let wanted = if seat.called {
            Some(self.now)
        } else {
            seat.node.next_deadline()
        };
        let Some(at) = wanted.map(|at| at.max(self.now)) else {
            return;
        };
        if seat.scheduled.is_none_or(|earlier| at < earlier) {
            seat.scheduled = Some(at);
            self.enter(at, EventTarget::Node(index));
        }
    }
}

#[cfg(test)]
mod tests;
