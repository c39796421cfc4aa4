//! The event core: nodes, the pipes between them, and one clock.
//!
//! What happens next is the earliest entry of a [timing wheel](crate::wheel), and of one time the one that was entered
//! first, so a run depends on nothing but its beginning. A node or a pipe has at most one entry that counts,
//! for the earliest time that it asked for; entries that were overtaken are skipped.

use std::io::Write;
use std::sync::Arc;

use hawser_time::Instant;

use crate::frame::Frame;
use crate::link::pause::{Ingress, Order, Pauses};
use crate::link::{Pipe, Profile};
use crate::pcap;
use crate::scenario::PAUSE_BYTES;
use crate::trace::Trace;
use crate::wheel::Wheel;

/// The maximum number of entries that are worked off at one instant: beyond that, time stands still.
const INSTANT_MAX: u64 = 1 << 20;

/// Where a frame goes that a node is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It leaves by the port of this number; ports count from 0 in the order of [`World::connect`].
    Port(usize),
    /// The node drops it, for this reason.
    Drop(&'static str),
}

/// Something with ports, which frames reach and leave: a host, a switch.
pub trait Node {
    /// A frame has arrived; [`Node::run`] follows at the same time.
    fn arrive(&mut self, now: Instant, frame: Frame);

    /// Does all that is due at `now`. Frames that it is done with go to `out`.
    fn run(&mut self, now: Instant, out: &mut Vec<(Exit, Frame)>, trace: &mut Trace);

    /// When it next has something to do though no frame arrives.
    fn next_deadline(&self) -> Option<Instant>;

    /// Whether it holds frames back that it hands over once its lines have sent others.
    fn waits_for_line(&self) -> bool {
        false
    }

    /// It goes down without a word, or comes up again and has forgotten everything.
    fn set_up(&mut self, _now: Instant, _up: bool) {}

    /// Whether it passes on what others have sent, and sends nothing itself. Frames keep their numbers then, and what
    /// waits for a line behind it is lost when it goes down.
    fn forwards(&self) -> bool {
        false
    }

    /// How far its applications have come: grows with each byte that one of them was given.
    fn progress(&self) -> u64;
}

/// A change of a link at a time.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is cut (`false`) or mended.
    Up(bool),
    /// Its parameters are these from now on.
    Tune(Profile),
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The condition was met.
    Met,
    /// The time was up.
    Time,
    /// Nothing was left that could happen.
    Idle,
    /// Too much happened at one instant: two nodes answer each other without any delay between.
    Stalled,
    /// Too many frames were sent without progress of any application.
    NoProgress,
    /// It is not over: whoever runs it wanted a pause.
    Paused,
}

/// Frames that were sent without progress of any application.
#[derive(Default)]
struct Idle {
    /// The most there may be; 0: no limit.
    limit: u64,
    count: u64,
    /// The last of them, when the limit is near.
    last: Vec<Frame>,
}

/// How many of the last frames are kept, to see which went round.
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
/// Build it with [`World::add`], [`World::connect`] and [`World::schedule`], then call
/// [`World::run`], as often as you like.
pub struct World<N> {
    now: Instant,
    agenda: Wheel<Target>,
    nodes: Vec<Seat<N>>,
    pipes: Vec<Joint>,
    changes: Vec<(usize, Change)>,
    record: Record,
    /// Nodes that go down or come up.
    falls: Vec<(usize, bool)>,
    pcap: Option<pcap::Writer<Box<dyn Write>>>,
    pcap_error: Option<std::io::Error>,
    out: Vec<(Exit, Frame)>,
    instant: u64,
    events: u64,
    idle: Idle,
    /// Frames that nodes have sent.
    sent: u64,
}

/// What becomes of a frame. Of one that nothing doubles the first is [`Fate::Sent`], the last [`Fate::Delivered`] or
/// [`Fate::Lost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It enters its first pipe.
    Sent,
    /// It comes out of a pipe at a node that passes frames on.
    Arrived,
    /// Such a node has passed it on: it enters a further pipe.
    Forwarded,
    /// It comes out where it ends.
    Delivered,
    /// It is lost, by the rule of this name; by `down` when the pipe is cut, by `overflow` when it is full. Outside of
    /// pipes: by the node, for this reason.
    Lost(&'static str),
}

/// A frame, at a moment of its course.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// When.
    pub at: Instant,
    /// The node that sent it this way, or that dropped it.
    pub from: usize,
    /// The pipe that it goes through; nothing when a node dropped it.
    pub pipe: Option<usize>,
    /// What becomes of it.
    pub fate: Fate,
    /// The frame.
    pub frame: &'a Frame,
}

/// Is shown what becomes of each frame.
pub type Watcher = Box<dyn FnMut(&Sight<'_>)>;

/// What is noted of all that happens.
#[derive(Default)]
struct Record {
    trace: Trace,
    watcher: Option<Watcher>,
}

impl Record {
    fn frame(&mut self, at: Instant, (from, pipe): (usize, Option<usize>), fate: Fate, frame: &Frame) {
        // What enters a pipe is known by what comes of it. Nodes have places beyond those of pipes.
        let place = pipe.unwrap_or(usize::MAX - from);
        match fate {
            Fate::Sent | Fate::Forwarded => {}
            Fate::Arrived => self.trace.passed(at, place, frame),
            Fate::Delivered => self.trace.frame(at, place, "delivered", frame),
            Fate::Lost(rule) => self.trace.frame(at, place, rule, frame),
        }
        if let Some(watcher) = &mut self.watcher {
            watcher(&Sight { at, from, pipe, fate, frame });
        }
    }
}

/// What an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Change(usize),
    Fall(usize),
    Pipe(usize),
    Node(usize),
    /// A pause frame of a node arrives.
    Pause(u32, Order),
}

/// A node in its place.
struct Seat<N> {
    node: N,
    /// The pipe behind each port.
    ports: Vec<usize>,
    scheduled: Option<Instant>,
    /// A frame has arrived since it last ran.
    called: bool,
    /// What waits in it by the port on which it came, where it pauses who sends that.
    ingress: Option<Arc<Ingress>>,
}

/// A pipe in its place.
struct Joint {
    pipe: Pipe,
    from: usize,
    to: usize,
    scheduled: Option<Instant>,
    /// The number of its port in what `to` counts; 0: that counts nothing.
    ingress: u16,
}

impl<N: Node> World<N> {
    /// An empty world whose clock shows `start`.
    #[must_use]
    pub fn new(start: Instant) -> World<N> {
        World {
            now: start,
            agenda: Wheel::new(),
            nodes: Vec::new(),
            pipes: Vec::new(),
            changes: Vec::new(),
            record: Record::default(),
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
            .push(Seat { node, ports: Vec::new(), scheduled: None, called: false, ingress: None });
        self.nodes.len() - 1
    }

    /// Adds a one-way connection, the next port of `from`; returns the pipe's number.
    pub fn connect(&mut self, from: usize, to: usize, pipe: Pipe) -> usize {
        let number = self.pipes.len();
        self.pipes
            .push(Joint { pipe, from, to, scheduled: None, ingress: 0 });
        self.nodes[from].ports.push(number);
        number
    }

    /// What comes through a pipe is counted at the node where it ends, and paused by frames through the pipe back
    /// ([`crate::link::pause`]).
    pub fn count_ingress(&mut self, pipe: usize, back: usize, ingress: &Arc<Ingress>) {
        let joint = &mut self.pipes[pipe];
        joint.ingress = ingress.add(pipe, back);
        self.nodes[joint.to].ingress = Some(Arc::clone(ingress));
    }

    /// How the priorities of a pipe were paused.
    #[must_use]
    pub fn pauses(&self, pipe: usize) -> Vec<Pauses> {
        let joint = &self.pipes[pipe];
        let ingress = self.nodes[joint.to].ingress.as_ref();
        ingress.map_or_else(Vec::new, |ingress| ingress.pauses(joint.ingress, self.now))
    }

    /// Has a change happen to a pipe at a time.
    pub fn schedule(&mut self, at: Instant, pipe: usize, change: Change) {
        self.changes.push((pipe, change));
        self.enter(at, Target::Change(self.changes.len() - 1));
    }

    /// Has a node go down or come up at a time.
    pub fn schedule_fall(&mut self, at: Instant, node: usize, up: bool) {
        self.falls.push((node, up));
        self.enter(at, Target::Fall(self.falls.len() - 1));
    }

    /// Writes every frame that a node sends to a capture, before any rule touches it.
    pub fn capture(&mut self, pcap: pcap::Writer<Box<dyn Write>>) {
        self.pcap = Some(pcap);
    }

    /// Shows what becomes of every frame; [`Frame::number`] is that in a capture.
    pub fn watch(&mut self, watcher: Watcher) {
        self.record.watcher = Some(watcher);
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// The first error of writing it.
    pub fn finish_capture(&mut self) -> std::io::Result<()> {
        match (self.pcap_error.take(), self.pcap.take()) {
            (Some(error), _) => Err(error),
            (None, Some(mut pcap)) => pcap.flush(),
            (None, None) => Ok(()),
        }
    }

    /// Ends runs when `limit` frames were sent without progress of any application; 0: never.
    pub fn limit_idle(&mut self, limit: u64) {
        self.idle = Idle { limit, ..Idle::default() };
    }

    /// The last frames that were sent without progress, when a run ended for that.
    #[must_use]
    pub fn idle_frames(&self) -> &[Frame] {
        &self.idle.last
    }

    /// Lets time pass until `until`, or until `met` holds of every node. `progress` receives the
    /// time every few thousand events.
    pub fn run(
        &mut self,
        until: Instant,
        met: impl Fn(&N) -> bool,
        mut progress: impl FnMut(Instant),
    ) -> End {
        self.run_with_pauses(until, met, |events, at| {
            if events.is_multiple_of(4096) {
                progress(at);
            }
            false
        })
    }

    /// [`World::run`] that is asked after each entry whether to pause; called again it goes on, as if there had been
    /// no pause. `pause` receives the number of entries that were worked off, and the time.
    pub fn run_with_pauses(
        &mut self,
        until: Instant,
        met: impl Fn(&N) -> bool,
        mut pause: impl FnMut(u64, Instant) -> bool,
    ) -> End {
        for i in 0..self.nodes.len() {
            self.reschedule_node(i);
        }
        let mut unmet: Vec<bool> = self.nodes.iter().map(|seat| !met(&seat.node)).collect();
        let mut left = unmet.iter().filter(|u| **u).count();
        while left > 0 {
            let Some((at, target)) = self.agenda.take(until) else {
                if self.agenda.is_empty() {
                    return End::Idle;
                }
                self.now = self.now.max(until);
                return End::Time;
            };
            if !self.advance(at) {
                return End::Stalled;
            }
            match target {
                Target::Change(i) => self.change(i),
                Target::Fall(i) => self.fall(i),
                Target::Pipe(i) => self.pass(i),
                Target::Pause(node, order) => self.pause(node as usize, order),
                Target::Node(i) => {
                    self.run_node(i);
                    if self.idle.is_over() {
                        return End::NoProgress;
                    }
                    let still = !met(&self.nodes[i].node);
                    left = left + usize::from(still) - usize::from(unmet[i]);
                    unmet[i] = still;
                }
            }
            if pause(self.events, at) && left > 0 {
                return End::Paused;
            }
        }
        End::Met
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The nodes, by number.
    pub fn nodes(&self) -> impl Iterator<Item = &N> {
        self.nodes.iter().map(|seat| &seat.node)
    }

    /// A node.
    #[must_use]
    pub fn node(&self, number: usize) -> &N {
        &self.nodes[number].node
    }

    /// A node, to be changed before the first run.
    pub fn node_mut(&mut self, number: usize) -> &mut N {
        &mut self.nodes[number].node
    }

    /// A pipe.
    #[must_use]
    pub fn pipe(&self, number: usize) -> &Pipe {
        &self.pipes[number].pipe
    }

    /// A pipe, to be asked what waits in it.
    pub fn pipe_mut(&mut self, number: usize) -> &mut Pipe {
        &mut self.pipes[number].pipe
    }

    /// What happened so far.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.record.trace
    }

    /// How many entries were worked off.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Moves the clock; false when it has not moved for too long.
    fn advance(&mut self, at: Instant) -> bool {
        self.events += 1;
        self.instant = if at > self.now { 0 } else { self.instant + 1 };
        self.now = self.now.max(at);
        self.instant < INSTANT_MAX
    }

    fn enter(&mut self, at: Instant, target: Target) {
        self.agenda.add(at.max(self.now), target);
    }

    fn change(&mut self, number: usize) {
        let now = self.now;
        let (index, change) = &self.changes[number];
        let (index, joint, record) = (*index, &mut self.pipes[*index], &mut self.record);
        let place = (joint.from, Some(index));
        let mut lost = |at, rule, frame: &Frame| record.frame(at, place, Fate::Lost(rule), frame);
        match change {
            Change::Tune(profile) => joint.pipe.tune(now, profile, &mut lost),
            Change::Up(up) => joint.pipe.set_up(now, *up, &mut lost),
        }
        self.reschedule_pipe(index);
        self.call_sender(index);
    }

    /// A node goes down or comes up.
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
                        record.frame(at, place, Fate::Lost(rule), frame);
                    });
            }
        }
        self.send_pauses(index);
        self.reschedule_node(index);
    }

    /// Hands over what has come through a pipe.
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
            Fate::Arrived
        } else {
            Fate::Delivered
        };
        while let Some(mut frame) = joint.pipe.pop(now, &mut |at, rule, frame| {
            record.frame(at, place, Fate::Lost(rule), frame);
        }) {
            record.frame(now, place, fate, &frame);
            frame.ingress = joint.ingress;
            seat.node.arrive(now, frame);
            seat.called = true;
        }
        self.reschedule_pipe(index);
        if fate == Fate::Arrived {
            // What passes frames on takes no time for it, and needs no entry of its own.
            self.work(to);
        } else {
            self.reschedule_node(to);
        }
        self.give_back(index);
        self.call_sender(index);
    }

    /// Something may have left a pipe's queue: the node in front of it may have waited for that.
    fn call_sender(&mut self, pipe: usize) {
        let from = self.pipes[pipe].from;
        if self.nodes[from].node.waits_for_line() {
            self.reschedule_node(from);
        }
        self.send_pauses(from);
    }

    /// Sends the pause frames that a node has to send.
    fn send_pauses(&mut self, node: usize) {
        let Some(ingress) = &self.nodes[node].ingress else {
            return;
        };
        let ingress = Arc::clone(ingress);
        while let Some((order, back)) = ingress.take_order() {
            let at = self.pipes[back].pipe.control(self.now, PAUSE_BYTES);
            let at = ingress.arrives(order, at);
            self.enter(at, Target::Pause(node as u32, order));
        }
    }

    /// A pause frame of a node arrives at the other end of a link: the queue there obeys it.
    fn pause(&mut self, node: usize, order: Order) {
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
                record.frame(at, place, Fate::Lost(rule), frame);
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

    /// Has a node do what it has to do.
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
                Exit::Port(port) => self.send(index, port, frame),
                Exit::Drop(reason) => {
                    self.record
                        .frame(self.now, (index, None), Fate::Lost(reason), &frame);
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
            self.record.frame(self.now, place, Fate::Forwarded, &frame);
        } else {
            self.idle.sent(&frame);
            self.sent += 1;
            frame.number = self.sent;
            self.record.frame(self.now, place, Fate::Sent, &frame);
            self.write(&frame);
        }
        let record = &mut self.record;
        self.pipes[index]
            .pipe
            .push(self.now, frame, &mut |at, rule, frame| {
                record.frame(at, place, Fate::Lost(rule), frame);
            });
        self.give_back(index);
        self.reschedule_pipe(index);
        self.send_pauses(from);
    }

    /// What a pipe has turned back arrives at the node in front of it.
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
            self.enter(at, Target::Pipe(index));
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
            self.enter(at, Target::Node(index));
        }
    }
}

#[cfg(test)]
mod tests;
