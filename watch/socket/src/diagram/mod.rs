//! Figure 1 of the iTCP paper: an extended finite state machine over the signals of a running transport,
//! which counts its transitions.
//!
//! States are those of the paper's Table 1.a, events those of its Table 1.b. The figure's upper part is slow
//! start and congestion avoidance, its lower part fast retransmit and fast recovery, with the timeout between
//! them. The paper gives the number 1 to both of its first rows; the closed state is 0 here. Later TCPs (RFC
//! 6675, 8985) detect losses without a third duplicate ACK. That is an event of its own here,
//! [`DiagramEvent::LossFound`].
//!
//! The machine is pure: signals in, counts out. Each signal takes one transition at most.

mod draw;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use draw::draw;

/// A state of Table 1.a.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiagramState {
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

impl DiagramState {
    /// All states, by number.
    pub const ALL: [DiagramState; 11] = [
        DiagramState::Closed,
        DiagramState::Established,
        DiagramState::FirstDuplicate,
        DiagramState::SecondDuplicate,
        DiagramState::FastRetransmit,
        DiagramState::TimedOut,
        DiagramState::FastRecovery,
        DiagramState::Shrunk,
        DiagramState::Dropped,
        DiagramState::SlowStart,
        DiagramState::Avoidance,
    ];

    /// Returns its number in Table 1.a.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// An event of Table 1.b.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiagramEvent {
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

impl DiagramEvent {
    /// Returns its name in Table 1.b, or a name in the same style.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            DiagramEvent::Opened => "TCP_init",
            DiagramEvent::Closed => "TCP_close",
            DiagramEvent::Acked => "ACK",
            DiagramEvent::Sent => "New seg send",
            DiagramEvent::Timeout => "Time out",
            DiagramEvent::First => "DACK(1)",
            DiagramEvent::Second => "DACK(2)",
            DiagramEvent::Third => "DACK(3)",
            DiagramEvent::Further => "DACK(n)",
            DiagramEvent::LossFound => "loss found",
            DiagramEvent::NewAck => "new ACK",
            DiagramEvent::Retransmitted => "Rexmt",
            DiagramEvent::Threshold => "Win=ssthresh",
        }
    }

    /// Returns the event of a signal, if it is one of the figure's. `name` may be a whole name.
    #[must_use]
    pub fn from_signal(name: &str, fields: &BTreeMap<String, u64>) -> Option<DiagramEvent> {
        let event = match super::record::last_part(name) {
            "established" => DiagramEvent::Opened,
            "closed" => DiagramEvent::Closed,
            "acked" => DiagramEvent::Acked,
            "sent" => DiagramEvent::Sent,
            "timeout" => DiagramEvent::Timeout,
            "duplicate_ack" => match fields.get("count").copied().unwrap_or(1) {
                0 | 1 => DiagramEvent::First,
                2 => DiagramEvent::Second,
                3 => DiagramEvent::Third,
                _ => DiagramEvent::Further,
            },
            "recovery_began" => DiagramEvent::LossFound,
            "recovery_ended" => DiagramEvent::NewAck,
            "retransmitted" => DiagramEvent::Retransmitted,
            "avoidance_began" => DiagramEvent::Threshold,
            _ => return None,
        };
        Some(event)
    }
}

/// A transition: the state before, the event, and the state after.
pub type Transition = (DiagramState, DiagramEvent, DiagramState);

/// The state of a flow, and the transitions that it took.
#[derive(Clone, Debug)]
pub struct Diagram {
    state: DiagramState,
    /// The state to which new acknowledgements return from duplicate ones: slow start or avoidance.
    growing: DiagramState,
    /// True if the recovery of state 4 was signalled, by both of its signals or by the only one.
    confirmed: bool,
    counts: BTreeMap<Transition, u64>,
}

impl Default for Diagram {
    fn default() -> Diagram {
        Diagram {
            state: DiagramState::Closed,
            growing: DiagramState::SlowStart,
            confirmed: false,
            counts: BTreeMap::new(),
        }
    }
}

impl Diagram {
    /// Returns the state of the flow.
    #[must_use]
    pub fn state(&self) -> DiagramState {
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
    pub fn count(&self, from: &[DiagramState], events: &[DiagramEvent], to: &[DiagramState]) -> u64 {
        let fits = |set: &[DiagramState], state| set.is_empty() || set.contains(&state);
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
        if self.state == DiagramState::Closed && self.counts.is_empty() {
            self.growing = if cwnd < ssthresh {
                DiagramState::SlowStart
            } else {
                DiagramState::Avoidance
            };
            self.state = self.growing;
        }
    }

    /// Takes a signal of the flow: its name, whole or short, and its fields. Signals that are not in the
    /// figure are ignored.
    pub fn event(&mut self, name: &str, fields: &BTreeMap<String, u64>) {
        let Some(event) = DiagramEvent::from_signal(name, fields) else {
            return;
        };
        if self.state == DiagramState::Closed && event != DiagramEvent::Opened {
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
        if matches!(next, DiagramState::SlowStart | DiagramState::Avoidance) {
            self.growing = next;
        }
    }

    /// Returns the transition for an event; `None` if another signal has already counted it.
    fn next(&mut self, event: DiagramEvent) -> Option<(DiagramEvent, DiagramState)> {
        use DiagramState::{
            Avoidance, Closed, Dropped, Established, FastRecovery, FastRetransmit, FirstDuplicate,
            SecondDuplicate, Shrunk, SlowStart, TimedOut,
        };
        let next = match (event, self.state) {
            (DiagramEvent::Opened, _) => Established,
            (DiagramEvent::Closed, _) => Closed,
            (DiagramEvent::Timeout, _) => TimedOut,
            // The third duplicate ACK and the recovery that it begins are one event with two signals.
            (DiagramEvent::Third, FastRetransmit) => return None,
            (DiagramEvent::LossFound, FastRetransmit) if !self.confirmed => {
                self.confirmed = true;
                return None;
            }
            (DiagramEvent::LossFound, _) => {
                self.confirmed = true;
                FastRetransmit
            }
            (DiagramEvent::NewAck, FastRetransmit | FastRecovery) => Shrunk,
            (DiagramEvent::Retransmitted, FastRetransmit) => FastRecovery,
            (DiagramEvent::Retransmitted, TimedOut) => Dropped,
            // It was reordering: no recovery began.
            (DiagramEvent::Acked, FastRetransmit) if !self.confirmed => self.growing,
            (_, FastRetransmit | FastRecovery) => self.state,
            (DiagramEvent::Acked, FirstDuplicate | SecondDuplicate) => self.growing,
            (DiagramEvent::Acked | DiagramEvent::Sent, Established | Dropped) => SlowStart,
            (DiagramEvent::Acked | DiagramEvent::Sent | DiagramEvent::Threshold, Shrunk) => Avoidance,
            (DiagramEvent::Threshold, _) => Avoidance,
            // An ACK caused by the repair of a timeout does not arrive before a segment is sent.
            (DiagramEvent::First, TimedOut | Dropped) => self.state,
            (DiagramEvent::First, _) => FirstDuplicate,
            (DiagramEvent::Second, FirstDuplicate) => SecondDuplicate,
            (DiagramEvent::Third, FirstDuplicate | SecondDuplicate) => {
                self.confirmed = false;
                FastRetransmit
            }
            _ => self.state,
        };
        Some((event, next))
    }
}
