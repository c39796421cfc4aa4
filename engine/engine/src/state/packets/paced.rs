//! Packet instructions that leave at a rate: a common one for all, or one for each context.
//!
//! A packet leaves once the transmission time of the previous ones at the rate has passed. An idle flow
//! gathers no credit. A driver that comes late while packets wait makes up for at most [`LATE`].

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_time::{Instant, nanos};

use super::PendingInstruction;
use super::fifo::Fifo;
use crate::state::Slot;

/// The maximum delay that a late driver makes up for: 10 ms.
const LATE: u64 = nanos(Duration::from_millis(10));
/// A bit in the unit of [`PacingState::backlog`]: the amount that a rate of one bit per second sends in a
/// nanosecond.
const BIT: u128 = 1_000_000_000;
/// The number of super-segments per second: a device that cuts them receives the bytes of 1 ms at the rate,
/// or one packet.
const BURST_PER_SECOND: u64 = 1000;

/// The rate of a flow, and the sent bits whose transmission time has not passed yet.
#[derive(Debug, Default)]
struct PacingState {
    /// The rate in bits per second; `None` if it is unlimited.
    rate: Option<u64>,
    /// The time from which `backlog` counts.
    since: Instant,
    /// The amount sent since then, in billionths of a bit.
    backlog: u128,
}

impl PacingState {
    /// Returns the time at which the next packet may leave; `None` if it has to wait for another rate.
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

    /// Charges a packet of `bytes` bytes that leaves. `idle` is true if no packet waited before it.
    fn charge(&mut self, now: Instant, bytes: u64, idle: bool) {
        let due = self.next().unwrap_or(now);
        if idle || self.rate.is_none() || now.nanos_since(due) > LATE {
            (self.since, self.backlog) = (now, 0);
        }
        self.backlog += u128::from(bytes) * 8 * BIT;
    }

    /// Changes the rate. The rest of the backlog is sent at the new rate.
    fn set(&mut self, now: Instant, rate: u64) {
        let backlog = self.rate.map_or(0, |old| {
            let paid = u128::from(now.nanos_since(self.since)) * u128::from(old);
            self.backlog.saturating_sub(paid)
        });
        (self.since, self.backlog) = (now, backlog);
        self.rate = Some(rate);
    }
}

/// The instructions of one context, or of all.
#[derive(Debug, Default)]
struct PacedFlow {
    waiting: Fifo,
    pace: PacingState,
    /// True if no packet has left since the flow began to wait.
    begins: bool,
    /// The flow's key in [`Paced::due`] while it waits for its time.
    key: Option<(Instant, u64)>,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Paced {
    per_flow: bool,
    /// The flows, by context plus one. The first is that of chains without a context, or the only one.
    flows: Vec<PacedFlow>,
    /// The times at which the flows with packets may send the next one, by time and then in turn.
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

    /// Returns the number of instructions that wait for a rate of their own context: those of this context,
    /// or all. It is 0 if all contexts have a common rate.
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

    /// Returns the flow of a context's packets.
    fn flow_of(&self, context: Option<Slot>) -> u32 {
        match context {
            Some(context) if self.per_flow => context.index + 1,
            _ => 0,
        }
    }

    fn flow_mut(&mut self, index: u32) -> &mut PacedFlow {
        let index = index as usize;
        if index >= self.flows.len() {
            self.flows.resize_with(index + 1, PacedFlow::default);
        }
        &mut self.flows[index]
    }

    /// Appends an instruction to its context's flow and returns its number.
    pub(super) fn push(&mut self, pending: Box<PendingInstruction>) -> u64 {
        let index = self.flow_of(pending.context);
        let flow = self.flow_mut(index);
        flow.begins |= flow.waiting.is_empty();
        let number = flow.waiting.push(pending);
        self.waiting += 1;
        self.plan(index, false);
        number
    }

    /// Returns the instruction of a context with this number, while it waits.
    pub(super) fn find(&mut self, context: Option<Slot>, number: u64) -> Option<&mut PendingInstruction> {
        let index = self.flow_of(context) as usize;
        self.flows.get_mut(index)?.waiting.find(number)
    }

    /// Updates the position of a flow in `due`. `again` puts it behind flows of the same time.
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

    /// Returns the time at which the next packet may leave, and its flow, if one waits.
    pub(super) fn next(&self) -> Option<(Instant, u32)> {
        let (&(at, _), &flow) = self.due.first_key_value()?;
        Some((at, flow))
    }

    pub(super) fn front(&mut self, flow: u32) -> Option<&mut PendingInstruction> {
        self.flows.get_mut(flow as usize)?.waiting.front()
    }

    /// Returns the number of payload bytes that may leave as one super-segment.
    pub(super) fn burst(&self, flow: u32) -> u64 {
        let rate = self.flows.get(flow as usize).and_then(|flow| flow.pace.rate);
        rate.map_or(u64::MAX, |rate| rate / 8 / BURST_PER_SECOND)
    }

    /// Charges bytes of a flow that have left.
    pub(super) fn charge(&mut self, flow: u32, now: Instant, bytes: u64) {
        if let Some(there) = self.flows.get_mut(flow as usize) {
            let begins = std::mem::take(&mut there.begins);
            there.pace.charge(now, bytes, begins);
        }
        self.plan(flow, true);
    }

    pub(super) fn pop(&mut self, flow: u32) -> Option<Box<PendingInstruction>> {
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

    /// Forgets a context that ended. Its packets leave without a limit, and the next context with its slot
    /// index has no limit either.
    pub(super) fn forget(&mut self, context: Slot) {
        if !self.per_flow {
            return;
        }
        let index = self.flow_of(Some(context));
        if let Some(flow) = self.flows.get_mut(index as usize) {
            flow.pace = PacingState::default();
            self.plan(index, false);
        }
    }

    /// Removes the instructions that a context has issued, or all, and appends them to `out`.
    pub(super) fn purge(&mut self, context: Option<Slot>, out: &mut Vec<Box<PendingInstruction>>) {
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
