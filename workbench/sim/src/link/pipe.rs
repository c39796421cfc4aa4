//! One direction of a link: a sequence of rules, and the frames that they hold.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hawser_time::Instant;

use super::depths::Depths;
use super::nat::NatDirection;
use super::queue::{Depth, Port};
use super::{Profile, Rule, Verdict, rules, rules_behind};
use crate::frame::Frame;
use crate::rng::Rng;

/// The maximum number of frames that a pipe holds; further ones are lost as `overflow`.
const HELD_MAX: usize = 1 << 18;

/// A sequence of rules that frames pass one after another.
///
/// Frames enter by [`Pipe::push`] and leave by [`Pipe::pop`]. A frame that a rule holds continues with the
/// next rule at its time, so rules see frames in the order of time. Each dropped frame is passed to the
/// call's `lost` function, with the name of the rule. [`Pipe::take_returned`] takes the frames that return to
/// their sender.
pub struct Pipe {
    stages: Vec<RuleState>,
    /// The numbers of the rules that may affect a frame, in order.
    active: Vec<usize>,
    held: DelayedFrames,
    ready: VecDeque<Frame>,
    /// Frames that return to their senders.
    returned: Vec<Frame>,
    up: bool,
    counters: Counters,
}

/// Receives each lost frame: the time, the rule's name, the frame.
pub type LossCallback<'a> = &'a mut dyn FnMut(Instant, &'static str, &Frame);

/// A rule with its random numbers and counters.
struct RuleState {
    rule: Box<dyn Rule>,
    rng: Rng,
    counters: StageCounters,
}

/// The counters of a pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of frames offered.
    pub sent: u64,
    /// The number of bytes offered.
    pub sent_bytes: u64,
    /// The number of frames delivered, including copies.
    pub delivered: u64,
    /// The number of bytes delivered.
    pub delivered_bytes: u64,
    /// The number of frames lost because the link was down.
    pub down: u64,
    /// The number of frames lost because the pipe was full.
    pub overflow: u64,
    /// The number of frames that returned to their senders.
    pub returned: u64,
}

/// The counters of one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageCounters {
    /// The rule's name.
    pub name: &'static str,
    /// The number of frames dropped.
    pub dropped: u64,
    /// The number of frames delayed.
    pub delayed: u64,
    /// The number of copies made.
    pub copied: u64,
    /// The number of frames changed.
    pub changed: u64,
}

impl Pipe {
    /// Creates a pipe with the usual rules. `label` names the direction; with the seed it determines all
    /// random numbers.
    #[must_use]
    pub fn new(profile: &Profile, seed: u64, label: &str) -> Pipe {
        Pipe::with_rules(rules(profile), seed, label)
    }

    /// Creates a pipe with the usual rules behind the queue of a device's port.
    #[must_use]
    pub fn behind(port: Port, profile: &Profile, seed: u64, label: &str) -> Pipe {
        Pipe::with_rules(rules_behind(port, profile), seed, label)
    }

    /// Creates a pipe with the usual rules behind the queue of a device's port, and with address translation
    /// at one end. Translation comes before all rules on the way out, and after them on the way in.
    #[must_use]
    pub fn translated(
        port: Port,
        profile: &Profile,
        seed: u64,
        label: &str,
        (nat, is_out): (NatDirection, bool),
    ) -> Pipe {
        let mut rules = rules_behind(port, profile);
        let place = if is_out { 0 } else { rules.len() };
        rules.insert(place, Box::new(nat));
        Pipe::with_rules(rules, seed, label)
    }

    /// Creates a pipe with rules of the caller's choice.
    #[must_use]
    pub fn with_rules(rules: Vec<Box<dyn Rule>>, seed: u64, label: &str) -> Pipe {
        let stage = |rule: Box<dyn Rule>| RuleState {
            rng: Rng::new(seed, &format!("{label}/{}", rule.name())),
            counters: StageCounters { name: rule.name(), ..StageCounters::default() },
            rule,
        };
        let mut pipe = Pipe {
            stages: rules.into_iter().map(stage).collect(),
            active: Vec::new(),
            held: DelayedFrames::default(),
            ready: VecDeque::new(),
            returned: Vec::new(),
            up: true,
            counters: Counters::default(),
        };
        pipe.find_active();
        pipe
    }

    fn find_active(&mut self) {
        let all = self.stages.iter().enumerate();
        let active = all.filter(|(_, stage)| !stage.rule.is_inert());
        self.active = active.map(|(number, _)| number).collect();
    }

    /// Offers a frame at `now`.
    pub fn push(&mut self, now: Instant, frame: Frame, lost: LossCallback<'_>) {
        self.settle(now, lost);
        self.counters.sent += 1;
        self.counters.sent_bytes += frame.len() as u64;
        if self.up {
            self.advance(now, 0, frame, lost);
        } else {
            self.counters.down += 1;
            lost(now, "down", &frame);
        }
    }

    /// Takes the next frame that has come through by `now`.
    pub fn pop(&mut self, now: Instant, lost: LossCallback<'_>) -> Option<Frame> {
        self.settle(now, lost);
        let frame = self.ready.pop_front()?;
        self.counters.delivered += 1;
        self.counters.delivered_bytes += frame.len() as u64;
        Some(frame)
    }

    /// Returns true if frames wait to return to their senders.
    #[must_use]
    pub fn has_returned(&self) -> bool {
        !self.returned.is_empty()
    }

    /// Takes the frames that return to their senders, by way of the node in front.
    pub fn take_returned(&mut self) -> Vec<Frame> {
        std::mem::take(&mut self.returned)
    }

    /// Returns the time at which [`Pipe::pop`] may next have a frame, or the origin if it has one now.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.ready.is_empty() {
            self.held.first().map(|(at, _)| at)
        } else {
            Some(Instant::ORIGIN)
        }
    }

    /// Changes the parameters of all rules from `now` on. Random numbers and frames in flight stay unchanged,
    /// except frames that wait for a line whose rate changes.
    pub fn tune(&mut self, now: Instant, profile: &Profile, lost: LossCallback<'_>) {
        self.settle(now, lost);
        for number in 0..self.stages.len() {
            let rule = &mut self.stages[number].rule;
            let moved = rule.reschedule(now, profile);
            rule.tune(profile);
            if let Some(at) = moved {
                self.held.reschedule(number + 1, at);
            }
        }
        self.find_active();
    }

    /// Holds frames of exactly these precedences, one bit each, in its queue from now on. A frame on the line
    /// is not interrupted.
    pub fn pause(&mut self, now: Instant, precedences: u8, lost: LossCallback<'_>) {
        self.settle(now, lost);
        for number in 0..self.stages.len() {
            let freed = self.stages[number].rule.pause(now, precedences);
            if let Some((at, frame)) = freed {
                self.held.insert(at, number + 1, frame);
            }
        }
    }

    /// Returns the arrival time of a control frame of this many bytes that is sent at `now`.
    #[must_use]
    pub fn control(&self, now: Instant, bytes: u64) -> Instant {
        let rules = self.stages.iter().map(|stage| &stage.rule);
        rules.fold(now, |at, rule| rule.control(at, bytes))
    }

    /// Cuts or restores the link. Frames in flight are lost when it is cut.
    pub fn set_up(&mut self, now: Instant, up: bool, lost: LossCallback<'_>) {
        self.settle(now, lost);
        self.up = up;
        if !up {
            self.counters.down += self.held.len() as u64;
            while let Some((_, _, frame)) = self.held.take() {
                lost(now, "down", &frame);
            }
            for number in 0..self.stages.len() {
                let kept = self.stages[number].rule.empty(now);
                self.lose(&kept.unwrap_or_default(), now, lost);
            }
        }
    }

    fn lose(&mut self, frames: &[Frame], now: Instant, lost: LossCallback<'_>) {
        self.counters.down += frames.len() as u64;
        frames.iter().for_each(|frame| lost(now, "down", frame));
    }

    /// Loses the frames that wait for the line, including the one on it. Frames that have left the queue
    /// still arrive.
    pub fn empty_queue(&mut self, now: Instant, lost: LossCallback<'_>) {
        self.settle(now, lost);
        for number in 0..self.stages.len() {
            let Some(kept) = self.stages[number].rule.empty(now) else {
                continue;
            };
            let on_line = self.held.take_of(number + 1);
            self.lose(&on_line, now, lost);
            self.lose(&kept, now, lost);
        }
    }

    /// Returns the counters of the pipe.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns true if the link is up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Returns the number of frames in flight: in queues, on the line, and held by other rules.
    #[must_use]
    pub fn under_way(&self) -> usize {
        let kept: usize = self.stages.iter().map(|stage| stage.rule.kept()).sum();
        self.held.len() + self.ready.len() + kept
    }

    /// Returns the number of frames in the queues of its rules at `now`, and their bytes. Frames that are
    /// merely delayed do not count.
    pub fn waiting(&mut self, now: Instant) -> (u64, u64) {
        let waiting = self.stages.iter_mut().map(|stage| stage.rule.waiting(now));
        waiting.fold((0, 0), |(frames, bytes), (n, b)| (frames + n, bytes + b))
    }

    /// Returns the number of packets that its queue has trimmed.
    #[must_use]
    pub fn trimmed(&self) -> u64 {
        self.stages.iter().map(|stage| stage.rule.cut()).sum()
    }

    /// Returns the depth of its queue, or `None` if it has no queue.
    #[must_use]
    pub fn depth(&self) -> Option<Depth> {
        self.stages.iter().find_map(|stage| stage.rule.depth())
    }

    /// Returns the depth of its queue over time until `now`, or `None` if it has no queue or no record.
    #[must_use]
    pub fn depths(&self, now: Instant) -> Option<Depths> {
        self.stages.iter().find_map(|stage| stage.rule.depths(now))
    }

    /// Returns the counters of its rules, in their order.
    pub fn stage_counters(&self) -> impl Iterator<Item = StageCounters> + '_ {
        self.stages
            .iter()
            .map(|s| StageCounters { changed: s.rule.changed(), ..s.counters })
    }

    /// Advances all frames whose time has come, each at its own time.
    fn settle(&mut self, now: Instant, lost: LossCallback<'_>) {
        while let Some((at, _)) = self.held.first()
            && at <= now
            && let Some((at, stage, frame)) = self.held.take()
        {
            self.advance(at, stage, frame, lost);
            // The rule that released it may hold the next frame.
            let rule = stage.checked_sub(1).map(|before| &mut self.stages[before].rule);
            if let Some((then, frame)) = rule.and_then(|rule| rule.next(at)) {
                self.held.insert(then, stage, frame);
            }
        }
    }

    /// Passes a frame from rule to rule, until one keeps it.
    fn advance(&mut self, now: Instant, from: usize, mut frame: Frame, lost: LossCallback<'_>) {
        let first = self.active.partition_point(|number| *number < from);
        for place in first..self.active.len() {
            let i = self.active[place];
            let stage = &mut self.stages[i];
            match stage.rule.apply(now, &mut frame, &mut stage.rng) {
                Verdict::Pass => {}
                Verdict::Later(at) if at <= now => {}
                Verdict::Later(at) => {
                    stage.counters.delayed += 1;
                    return self.hold(at, i + 1, frame, lost);
                }
                Verdict::Kept => {
                    stage.counters.delayed += 1;
                    return;
                }
                Verdict::Return => {
                    self.counters.returned += 1;
                    return self.returned.push(frame);
                }
                Verdict::Drop => {
                    stage.counters.dropped += 1;
                    return lost(now, stage.counters.name, &frame);
                }
                Verdict::Twice(at) => {
                    stage.counters.copied += 1;
                    self.hold(at.max(now), i + 1, frame.clone(), lost);
                }
            }
        }
        self.ready.push_back(frame);
    }

    fn hold(&mut self, at: Instant, stage: usize, frame: Frame, lost: LossCallback<'_>) {
        if self.held.len() >= HELD_MAX {
            self.counters.overflow += 1;
            return lost(at, "overflow", &frame);
        }
        self.held.insert(at, stage, frame);
    }
}

/// Delayed frames, each with the number of its next rule. Frames of the same time keep their order.
#[derive(Default)]
struct DelayedFrames {
    /// The time, a running number of frames, the rule, and the frame's index.
    order: BinaryHeap<Reverse<(Instant, u64, usize, usize)>>,
    count: u64,
    frames: Vec<Frame>,
    free: Vec<usize>,
}

impl DelayedFrames {
    fn len(&self) -> usize {
        self.order.len()
    }

    fn insert(&mut self, at: Instant, stage: usize, frame: Frame) {
        self.count += 1;
        let place = match self.free.pop() {
            Some(place) => {
                self.frames[place] = frame;
                place
            }
            None => {
                self.frames.push(frame);
                self.frames.len() - 1
            }
        };
        self.order.push(Reverse((at, self.count, stage, place)));
    }

    /// Returns the time of the first frame, and its next rule.
    fn first(&self) -> Option<(Instant, usize)> {
        self.order.peek().map(|Reverse((at, _, stage, _))| (*at, *stage))
    }

    /// Takes the first frame, with its time and its next rule.
    fn take(&mut self) -> Option<(Instant, usize, Frame)> {
        let Reverse((at, _, stage, place)) = self.order.pop()?;
        Some((at, stage, self.vacate(place)))
    }

    fn vacate(&mut self, place: usize) -> Frame {
        self.free.push(place);
        std::mem::take(&mut self.frames[place])
    }

    /// Takes the frames whose next rule is this one.
    fn take_of(&mut self, stage: usize) -> Vec<Frame> {
        let order = std::mem::take(&mut self.order).into_vec();
        let (wanted, others): (Vec<_>, Vec<_>) = order.into_iter().partition(|Reverse(held)| held.2 == stage);
        self.order = others.into();
        let places = wanted.into_iter().map(|Reverse(held)| held.3);
        places.map(|place| self.vacate(place)).collect()
    }

    /// Moves the frames whose next rule is this one to this time.
    fn reschedule(&mut self, stage: usize, at: Instant) {
        let mut order = std::mem::take(&mut self.order).into_vec();
        let moved = order.iter_mut().filter(|Reverse(held)| held.2 == stage);
        moved.for_each(|Reverse(held)| held.0 = at);
        self.order = order.into();
    }
}

#[cfg(test)]
mod tests;
