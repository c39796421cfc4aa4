//! What happens to frames between two hosts: small rules in a row.
//!
//! A [`Rule`] takes a frame and decides what becomes of it: it passes, it goes on later, it is
//! dropped, it goes on twice. A [`Pipe`] is a row of rules, one direction of a link; it holds
//! what is to go on later. The same pipes stand between simulated hosts and in front of a real
//! device ([`crate::faulty`]).
//!
//! The usual row ([`rules`]) follows the path of a frame through a real link: first the sender's
//! queue and line, then what the medium does to the frame.
//!
//! | rule | file | parameters |
//! |---|---|---|
//! | chosen frames are lost | [`pick`] | `drop` |
//! | queue and line | [`queue`] | `rate`, `queue_bytes`, `queue_packets`, `ecn_bytes`; [`queue::Port`] |
//! | loss, single or in bursts | [`loss`] | `loss`, `burst` |
//! | a bit flips | [`corrupt`] | `corrupt` |
//! | a copy follows | [`duplicate`] | `duplicate` |
//! | propagation | [`delay`] | `delay` |
//! | delay that varies, order kept | [`jitter`] | `jitter` |
//! | frames held back, others overtake | [`reorder`] | `reorder`, `hold` |
//!
//! Beside them [`nat`] translates addresses at an end of a link.

pub mod corrupt;
pub mod delay;
pub mod depths;
pub mod duplicate;
pub mod jitter;
pub mod loss;
pub mod nat;
pub mod pause;
pub mod pick;
mod pipe;
pub mod queue;
pub mod reorder;

use hawser_time::Instant;

use crate::frame::Frame;
use crate::rng::Rng;

pub use hawser_scenario::Profile;
pub use pipe::{Counters, Lost, Pipe, StageCounters};

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It goes on at this time; at once when the time has come.
    Later(Instant),
    /// It is lost.
    Drop,
    /// It goes on, and a copy of it goes on at this time.
    Twice(Instant),
    /// The rule has taken it, and gives it back by [`Rule::next`].
    Kept,
    /// It goes back to its sender: its addresses have changed places.
    Return,
}

/// One thing that can happen to frames. Rules know nothing of each other.
pub trait Rule: Send {
    /// Its name in counters and messages; also the label of its random numbers.
    fn name(&self) -> &'static str;

    /// Decides about a frame that reaches it at `now`. Calls come in the order of time.
    fn apply(&mut self, now: Instant, frame: &mut Frame, rng: &mut Rng) -> Verdict;

    /// Whether it lets every frame pass as it is, at once, and would be the same afterwards: then it need not be asked,
    /// until its parameters change.
    fn is_inert(&self) -> bool {
        false
    }

    /// Takes its parameters from a profile that changed while frames are under way.
    fn tune(&mut self, _profile: &Profile) {}

    /// A frame that it let go on later does so now: which one follows of those that it keeps, and when that one goes on.
    fn next(&mut self, _now: Instant) -> Option<(Instant, Frame)> {
        None
    }

    /// When the frame on its line goes on if the profile is this one from `now` on; `None`: when it stated. Asked before
    /// [`Rule::tune`].
    fn reschedule(&mut self, _now: Instant, _profile: &Profile) -> Option<Instant> {
        None
    }

    /// Gives up the frames that it keeps, in the order in which they would have left, and forgets the one on its line;
    /// nothing where it has no queue.
    fn empty(&mut self, _now: Instant) -> Option<Vec<Frame>> {
        None
    }

    /// How many frames it keeps.
    fn kept(&self) -> usize {
        0
    }

    /// Frames whose bytes it has changed so far.
    fn changed(&self) -> u64 {
        0
    }

    /// Packets that it has cut so far.
    fn cut(&self) -> u64 {
        0
    }

    /// How deep its queue has been; nothing where it has none.
    fn depth(&self) -> Option<queue::Depth> {
        None
    }

    /// Has frames of these precedences, one bit each, wait in its queue from now on, and no others. Gives back a frame
    /// that can go on because of that, and when it does.
    fn pause(&mut self, _now: Instant, _precedences: u8) -> Option<(Instant, Frame)> {
        None
    }

    /// When a control frame of so many bytes leaves it that comes at `at`. It waits for the frame on the line alone.
    fn control(&self, at: Instant, _bytes: u64) -> Instant {
        at
    }

    /// How deep its queue has been over time until `now`; nothing where that is not recorded.
    fn depths(&self, _now: Instant) -> Option<depths::Depths> {
        None
    }

    /// Frames that wait in its queue at `now`, the one on the line included, and their bytes.
    fn waiting(&mut self, _now: Instant) -> (u64, u64) {
        (0, 0)
    }
}

/// The usual row of rules with these parameters, behind a queue of the usual kind.
#[must_use]
pub fn rules(profile: &Profile) -> Vec<Box<dyn Rule>> {
    rules_behind(queue::Port::default(), profile)
}

/// The usual row of rules with these parameters, behind the queue of this port.
#[must_use]
pub fn rules_behind(port: queue::Port, profile: &Profile) -> Vec<Box<dyn Rule>> {
    let mut rules: Vec<Box<dyn Rule>> = vec![
        Box::new(pick::Pick::default()),
        Box::new(queue::Queue::of(port)),
        Box::new(loss::Loss::default()),
        Box::new(corrupt::Corrupt::default()),
        Box::new(duplicate::Duplicate::default()),
        Box::new(delay::Delay::default()),
        Box::new(jitter::Jitter::default()),
        Box::new(reorder::Reorder::default()),
    ];
    rules.iter_mut().for_each(|rule| rule.tune(profile));
    rules
}
