//! Figure 1 of the iTCP paper: an extended finite state machine over the signals of a running transport,
//! which counts its transitions.
//!
//! States are those of the paper's Table 1.a, events those of its Table 1.b. The figure's upper part is slow
//! start and congestion avoidance, its lower part fast retransmit and fast recovery, with the timeout between
//! them. The paper gives the number 1 to both of its first rows; the closed state is 0 here. Later TCPs (RFC
//! 6675, 8985) detect losses without a third duplicate ACK. That is an event of its own here,
//! [`Event::LossFound`].
//!
//! The machine is pure: signals in, counts out. Each signal takes one transition at most.

mod draw;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use draw::draw;

/// A state of Table 1.a.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// 0: "Initial closed state".
    Closed,
    /// 1: "Established state communication".
    Established,
    /// 2: "First duplicate ACK received".
    FirstDuplicate,
    /// 3: "Second duplicate ACK received".
    SecondDuplicate,
    /// 4: "Third duplicate ACK received – Fast Retransmission".
    FastRetransmit,
    /// 5: "Timed out".
    TimedOut,
    /// 6: "Fast Recovery".
    FastRecovery,
    /// 7: "New ACK received, shrink win to half".
    Shrunk,
    /// 8: "Drop win size to 1 segment".
    Dropped,
    /// 9: "Slow start: Increase win exponentially".
    SlowStart,
    /// 10: "Congestion avoidance".
    Avoidance,
}

impl State {
    /// All states, by number.
    pub const ALL: [State; 11] = [
        State::Closed,
        State::Established,
        State::FirstDuplicate,
        State::SecondDuplicate,
        State::FastRetransmit,
        State::TimedOut,
        State::FastRecovery,
        State::Shrunk,
        State::Dropped,
        State::SlowStart,
        State::Avoidance,
    ];

    /// Returns its number in Table 1.a.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// An event of Table 1.b.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// TCP_init: `established`.
    Opened,
    /// TCP_close: `closed`.
    Closed,
    /// ACK: `acked`.
    Acked,
    /// New seg send: `sent`.
    Sent,
    /// Time out: `timeout`.
    Timeout,
    /// DACK(1).
    First,
    /// DACK(2).
    Second,
    /// DACK(3).
    Third,
    /// A duplicate ACK after the third.
    Further,
    /// `recovery_began` without a third duplicate ACK: SACK or RACK found the loss. Not in the paper.
    LossFound,
    /// The ACK that ends a recovery: `recovery_ended`.
    NewAck,
    /// Rexmt: `retransmitted`.
    Retransmitted,
    /// Win=ssthresh: `avoidance_began`.
    Threshold,
}

impl Event {
    /// Returns its name in Table 1.b, or a name in the same style.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Event::Opened => "TCP_init",
            Event::Closed => "TCP_close",
            Event::Acked => "ACK",
            Event::Sent => "New seg send",
            Event::Timeout => "Time out",
            Event::First => "DACK(1)",
            Event::Second => "DACK(2)",
            Event::Third => "DACK(3)",
            Event::Further => "DACK(n)",
            Event::LossFound => "loss found",
            Event::NewAck => "new ACK",
            Event::Retransmitted => "Rexmt",
            Event::Threshold => "Win=ssthresh",
        }
    }

    /// Returns the event of a signal, if it is one of the figure's. `name` may be a whole name.
    #[must_use]
    pub fn of(name: &str, fields: &BTreeMap<String, u64>) -> Option<Event> {
        let event = match super::record::last_part(name) {
            "established" => Event::Opened,
            "closed" => Event::Closed,
            "acked" => Event::Acked,
            "sent" => Event::Sent,
            "timeout" => Event::Timeout,
            "duplicate_ack" => match fields.get("count").copied().unwrap_or(1) {
                0 | 1 => Event::First,
                2 => Event::Second,
                3 => Event::Third,
                _ => Event::Further,
            },
            "recovery_began" => Event::LossFound,
            "recovery_ended" => Event::NewAck,
            "retransmitted" => Event::Retransmitted,
            "avoidance_began" => Event::Threshold,
            _ => return None,
        };
        Some(event)
    }
}

/// A transition: the state before, the event, and the state after.
pub type Transition = (State, Event, State);

/// The state of a flow, and the transitions that it took.
#[derive(Clone, Debug)]
pub struct Diagram {
    state: State,
    /// The state to which new acknowledgements return from duplicate ones: slow start or avoidance.
    growing: State,
    /// True if the recovery of state 4 was signalled, by both of its signals or by the only one.
    confirmed: bool,
    counts: BTreeMap<Transition, u64>,
}

impl Default for Diagram {
    fn default() -> Diagram {
        Diagram {
            state: State::Closed,
            growing: State::SlowStart,
            confirmed: false,
            counts: BTreeMap::new(),
        }
    }
}

impl Diagram {
    /// Returns the state of the flow.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the count of each transition.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<Transition, u64> {
        &self.counts
    }

    /// Counts the transitions by some events from one of these states to one of those; no states stand for
    /// any.
    #[must_use]
    pub fn count(&self, from: &[State], events: &[Event], to: &[State]) -> u64 {
        let fits = |set: &[State], state| set.is_empty() || set.contains(&state);
        let taken = |((a, event, b), _): &(&Transition, &u64)| {
            fits(from, *a) && events.contains(event) && fits(to, *b)
        };
        self.counts.iter().filter(taken).map(|(_, count)| count).sum()
    }

    /// Adds the counts of another flow.
    pub fn add(&mut self, other: &Diagram) {
        for (transition, count) in &other.counts {
            *self.counts.entry(*transition).or_default() += count;
        }
    }

    /// Places a flow that existed before the recording: its window decides between slow start and congestion
    /// avoidance. Has no effect once its state is known.
    pub fn place(&mut self, cwnd: u64, ssthresh: u64) {
        if self.state == State::Closed && self.counts.is_empty() {
            self.growing = if cwnd < ssthresh {
                State::SlowStart
            } else {
                State::Avoidance
            };
            self.state = self.growing;
        }
    }

    /// Takes a signal of the flow: its name, whole or short, and its fields. Signals that are not in the
    /// figure are ignored.
    pub fn event(&mut self, name: &str, fields: &BTreeMap<String, u64>) {
        let Some(event) = Event::of(name, fields) else {
            return;
        };
        if self.state == State::Closed && event != Event::Opened {
            // The flow existed before the recording, or it signalled after its end, which is not a
            // transition.
            if !self.counts.is_empty() {
                return;
            }
            self.state = self.growing;
        }
        let Some((event, next)) = self.next(event) else {
            return;
        };
        *self.counts.entry((self.state, event, next)).or_default() += 1;
        self.state = next;
        if matches!(next, State::SlowStart | State::Avoidance) {
            self.growing = next;
        }
    }

    /// Returns the transition for an event; `None` if another signal has already counted it.
    fn next(&mut self, event: Event) -> Option<(Event, State)> {
        use State::{
            Avoidance, Closed, Dropped, Established, FastRecovery, FastRetransmit, FirstDuplicate,
            SecondDuplicate, Shrunk, SlowStart, TimedOut,
        };
        let next = match (event, self.state) {
            (Event::Opened, _) => Established,
            (Event::Closed, _) => Closed,
            (Event::Timeout, _) => TimedOut,
            // The third duplicate ACK and the recovery that it begins are one event with two signals.
            (Event::Third, FastRetransmit) => return None,
            (Event::LossFound, FastRetransmit) if !self.confirmed => {
                self.confirmed = true;
                return None;
            }
            (Event::LossFound, _) => {
                self.confirmed = true;
                FastRetransmit
            }
            (Event::NewAck, FastRetransmit | FastRecovery) => Shrunk,
            (Event::Retransmitted, FastRetransmit) => FastRecovery,
            (Event::Retransmitted, TimedOut) => Dropped,
            // It was reordering: no recovery began.
            (Event::Acked, FastRetransmit) if !self.confirmed => self.growing,
            (_, FastRetransmit | FastRecovery) => self.state,
            (Event::Acked, FirstDuplicate | SecondDuplicate) => self.growing,
            (Event::Acked | Event::Sent, Established | Dropped) => SlowStart,
            (Event::Acked | Event::Sent | Event::Threshold, Shrunk) => Avoidance,
            (Event::Threshold, _) => Avoidance,
            // An ACK caused by the repair of a timeout does not arrive before a segment is sent.
            (Event::First, TimedOut | Dropped) => self.state,
            (Event::First, _) => FirstDuplicate,
            (Event::Second, FirstDuplicate) => SecondDuplicate,
            (Event::Third, FirstDuplicate | SecondDuplicate) => {
                self.confirmed = false;
                FastRetransmit
            }
            _ => self.state,
        };
        Some((event, next))
    }
}
