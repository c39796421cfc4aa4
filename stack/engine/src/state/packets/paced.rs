//! Instructions that leave at a rate: all together, or those of each context at its own.
//!
//! A packet leaves when what left before it has had its time at the rate. Who finds nothing waiting gathers no
//! credit; a driver that comes late, while packets wait, makes up for at most [`LATE`].

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_time::{Instant, nanos};

use super::Pending;
use super::fifo::Fifo;
use crate::state::Slot;

/// What a late driver makes up for: 10 ms.
const LATE: u64 = nanos(Duration::from_millis(10));
/// A bit, in the unit of [`Pace::backlog`]: what a rate of one bit per second sends in a nanosecond.
const BIT: u128 = 1_000_000_000;
/// A device that cuts super-segments is handed what the rate sends in this time, or one packet: 1 ms.
const BURST_PER_SECOND: u64 = 1000;

/// How fast a flow sends, and how much of what it has sent has not had its time yet.
#[derive(Debug, Default)]
struct Pace {
    /// Bits per second; `None`: without a limit.
    rate: Option<u64>,
    /// Since when it sends what `backlog` counts.
    since: Instant,
    /// What it has sent since, in billionths of a bit.
    backlog: u128,
}

impl Pace {
    /// When its next packet may leave; `None`: not before it has another rate.
    fn next(&self) -> Option<Instant> {
        match self.rate {
            None => Some(self.since),
            Some(0) => None,
            Some(rate) => {
                let nanos = u64::try_from(self.backlog.div_ceil(u128::from(rate))).ok()?;
                Some(self.since.plus_nanos(nanos))
            }
        }
    }

    /// A packet of so many bytes leaves. `idle`: nothing waited before it.
    fn charge(&mut self, now: Instant, bytes: u64, idle: bool) {
        let due = self.next().unwrap_or(now);
        if idle || self.rate.is_none() || now.nanos_since(due) > LATE {
            (self.since, self.backlog) = (now, 0);
        }
        self.backlog += u128::from(bytes) * 8 * BIT;
    }

    /// What is left of the backlog has its time at the new rate.
    fn set(&mut self, now: Instant, rate: u64) {
        let backlog = self.rate.map_or(0, |old| {
            let paid = u128::from(now.nanos_since(self.since)) * u128::from(old);
            self.backlog.saturating_sub(paid)
        });
        (self.since, self.backlog) = (now, backlog);
        self.rate = Some(rate);
    }
}

/// The instructions of one context, or all.
#[derive(Debug, Default)]
struct Flow {
    waiting: Fifo,
    pace: Pace,
    /// Nothing has left since it began to wait.
    begins: bool,
    /// Its key in [`Paced::due`], while it waits for its time.
    key: Option<(Instant, u64)>,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Paced {
    per_flow: bool,
    /// By context plus one; the first is that of chains without a context, or all there is.
    flows: Vec<Flow>,
    /// When the flows with packets may send the next one, by time and then in turn.
    due: BTreeMap<(Instant, u64), u32>,
    turns: u64,
    waiting: usize,
}

impl Paced {
    pub(super) fn new(per_flow: bool) -> Paced {
        Paced {
            per_flow,
            flows: Vec::new(),
            due: BTreeMap::new(),
            turns: 0,
            waiting: 0,
        }
    }

    /// Instructions that wait for a rate of their own context, this one or all: none where all have one rate.
    pub(super) fn held_back(&self, context: Option<Slot>) -> usize {
        match context {
            _ if !self.per_flow => 0,
            None => self.waiting,
            Some(_) => {
                let flow = self.flows.get(self.flow_of(context) as usize);
                flow.map_or(0, |flow| flow.waiting.len())
            }
        }
    }

    /// The flow that a context's packets are of.
    fn flow_of(&self, context: Option<Slot>) -> u32 {
        match context {
            Some(context) if self.per_flow => context.index + 1,
            _ => 0,
        }
    }

    fn flow_mut(&mut self, index: u32) -> &mut Flow {
        let index = index as usize;
        if index >= self.flows.len() {
            self.flows.resize_with(index + 1, Flow::default);
        }
        &mut self.flows[index]
    }

    /// Appends an instruction to its context's and returns its number.
    pub(super) fn push(&mut self, pending: Box<Pending>) -> u64 {
        let index = self.flow_of(pending.context);
        let flow = self.flow_mut(index);
        flow.begins |= flow.waiting.is_empty();
        let number = flow.waiting.push(pending);
        self.waiting += 1;
        self.plan(index, false);
        number
    }

    /// The instruction of a context with this number, while it waits.
    pub(super) fn find(&mut self, context: Option<Slot>, number: u64) -> Option<&mut Pending> {
        let index = self.flow_of(context) as usize;
        self.flows.get_mut(index)?.waiting.find(number)
    }

    /// Puts a flow where it belongs in `due`. `again`: behind those of the same time.
    fn plan(&mut self, index: u32, again: bool) {
        let Some(flow) = self.flows.get_mut(index as usize) else {
            return;
        };
        let next = if flow.waiting.is_empty() {
            None
        } else {
            flow.pace.next()
        };
        if !again && next == flow.key.map(|(at, _)| at) {
            return;
        }
        if let Some(key) = flow.key.take() {
            self.due.remove(&key);
        }
        if let Some(at) = next {
            self.turns += 1;
            flow.key = Some((at, self.turns));
            self.due.insert((at, self.turns), index);
        }
    }

    /// When the next packet may leave, if any waits, and which flow's it is.
    pub(super) fn next(&self) -> Option<(Instant, u32)> {
        let (&(at, _), &flow) = self.due.first_key_value()?;
        Some((at, flow))
    }

    pub(super) fn front(&mut self, flow: u32) -> Option<&mut Pending> {
        self.flows.get_mut(flow as usize)?.waiting.front()
    }

    /// How many bytes of payload may leave as one super-segment.
    pub(super) fn burst(&self, flow: u32) -> u64 {
        let rate = self.flows.get(flow as usize).and_then(|flow| flow.pace.rate);
        rate.map_or(u64::MAX, |rate| rate / 8 / BURST_PER_SECOND)
    }

    /// So many bytes of a flow have left.
    pub(super) fn charge(&mut self, flow: u32, now: Instant, bytes: u64) {
        if let Some(there) = self.flows.get_mut(flow as usize) {
            let begins = std::mem::take(&mut there.begins);
            there.pace.charge(now, bytes, begins);
        }
        self.plan(flow, true);
    }

    pub(super) fn pop(&mut self, flow: u32) -> Option<Box<Pending>> {
        let pending = self.flows.get_mut(flow as usize)?.waiting.pop();
        self.waiting -= usize::from(pending.is_some());
        self.plan(flow, false);
        pending
    }

    /// Sets the rate of a context's flow, or of all, in bits per second.
    pub(super) fn set_rate(&mut self, context: Option<Slot>, now: Instant, rate: u64) {
        let index = self.flow_of(context);
        self.flow_mut(index).pace.set(now, rate);
        self.plan(index, false);
    }

    /// A context ended: what it issued leaves without a limit, and the next one with its place has none.
    pub(super) fn forget(&mut self, context: Slot) {
        if !self.per_flow {
            return;
        }
        let index = self.flow_of(Some(context));
        if let Some(flow) = self.flows.get_mut(index as usize) {
            flow.pace = Pace::default();
            self.plan(index, false);
        }
    }

    /// Takes those out that a context has issued, or all.
    pub(super) fn purge(&mut self, context: Option<Slot>, out: &mut Vec<Box<Pending>>) {
        let flows = match context {
            Some(_) if self.per_flow => self.flow_of(context)..self.flow_of(context) + 1,
            _ => 0..self.flows.len() as u32,
        };
        let before = out.len();
        for index in flows {
            if let Some(flow) = self.flows.get_mut(index as usize) {
                flow.waiting.purge(context, out);
                self.plan(index, false);
            }
        }
        self.waiting -= out.len() - before;
    }
}
