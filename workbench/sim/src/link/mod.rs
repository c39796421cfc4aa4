//! The treatment of frames between two hosts: a sequence of small rules.
//!
//! A [`Rule`] decides the fate of a frame: it passes, is delayed, is dropped, or is duplicated. A [`Pipe`] is
//! a sequence of rules for one direction of a link; it holds the delayed frames. The same pipes are used
//! between simulated hosts and in front of a real device ([`crate::faulty`]).
//!
//! The usual sequence ([`rules`]) follows the path of a frame through a real link: first the sender's queue
//! and line, then the effects of the medium.
//!
//! | rule | file | parameters |
//! |---|---|---|
//! | chosen frames are lost | [`chosen_loss`] | `drop` |
//! | queue and line | [`queue`] | `rate`, `queue_bytes`, `queue_packets`, `ecn_bytes`; [`queue::Port`] |
//! | loss, single or in bursts | [`loss`] | `loss`, `burst` |
//! | a bit flips | [`corrupt`] | `corrupt` |
//! | a copy follows | [`duplicate`] | `duplicate` |
//! | propagation | [`delay`] | `delay` |
//! | delay that varies, order kept | [`jitter`] | `jitter` |
//! | frames held back, others overtake | [`reorder`] | `reorder`, `hold` |
//!
//! In addition, [`nat`] translates addresses at an end of a link.

pub mod chosen_loss;
pub mod corrupt;
pub mod delay;
pub mod depths;
pub mod duplicate;
pub mod jitter;
pub mod loss;
pub mod nat;
pub mod pause;
mod pipe;
pub mod queue;
pub mod reorder;

use hawser_time::Instant;

use crate::frame::Frame;
use crate::rng::Rng;

pub use crate::scenario::Profile;
pub use pipe::{Counters, LossCallback, Pipe, StageCounters};

/// A rule's decision about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The frame passes to the next rule.
    Pass,
    /// The frame passes to the next rule at this time, or at once if the time has come.
    Later(Instant),
    /// The frame is lost.
    Drop,
    /// The frame passes, and a copy of it passes at this time.
    Twice(Instant),
    /// The rule has taken the frame, and returns it by [`Rule::next`].
    Kept,
    /// The frame returns to its sender; its addresses are already exchanged.
    Return,
}

/// One effect on frames. Rules are independent of each other.
pub trait Rule: Send {
    /// Returns its name in counters and messages, which is also the label of its random numbers.
    fn name(&self) -> &'static str;

    /// Decides about a frame that reaches it at `now`. Calls come in the order of time.
    fn apply(&mut self, now: Instant, frame: &mut Frame, rng: &mut Rng) -> Verdict;

    /// Returns true if the rule lets every frame pass unchanged and at once, and keeps no state about it.
    /// Such a rule is skipped until its parameters change.
    fn is_inert(&self) -> bool {
        false
    }

    /// Takes its parameters from a profile that changed while frames are in flight.
    fn tune(&mut self, _profile: &Profile) {}

    /// Called when a frame that it delayed passes on. Returns the next of the frames that it keeps, and the
    /// time at which that one passes on.
    fn next(&mut self, _now: Instant) -> Option<(Instant, Frame)> {
        None
    }

    /// Returns the new time for the frame on its line if the profile is this one from `now` on. `None` means
    /// that the time is unchanged. Called before [`Rule::tune`].
    fn reschedule(&mut self, _now: Instant, _profile: &Profile) -> Option<Instant> {
        None
    }

    /// Releases the frames that it keeps, in the order in which they would have left, and forgets the frame
    /// on its line. Returns `None` if the rule has no queue.
    fn empty(&mut self, _now: Instant) -> Option<Vec<Frame>> {
        None
    }

    /// Returns the number of frames that it keeps.
    fn kept(&self) -> usize {
        0
    }

    /// Returns the number of frames whose bytes it has changed so far.
    fn changed(&self) -> u64 {
        0
    }

    /// Returns the number of packets that it has trimmed so far.
    fn cut(&self) -> u64 {
        0
    }

    /// Returns the depth of its queue, or `None` if it has no queue.
    fn depth(&self) -> Option<queue::Depth> {
        None
    }

    /// Holds frames of exactly these precedences, one bit each, in its queue from now on. Returns a frame
    /// that can leave because of that, and the time at which it does.
    fn pause(&mut self, _now: Instant, _precedences: u8) -> Option<(Instant, Frame)> {
        None
    }

    /// Returns the time at which a control frame of this many bytes leaves if it arrives at `at`. It waits
    /// only for the frame on the line.
    fn control(&self, at: Instant, _bytes: u64) -> Instant {
        at
    }

    /// Returns the depth of its queue over time until `now`, or `None` if that is not recorded.
    fn depths(&self, _now: Instant) -> Option<depths::Depths> {
        None
    }

    /// Returns the number of frames in its queue at `now`, including the one on the line, and their bytes.
    fn waiting(&mut self, _now: Instant) -> (u64, u64) {
        (0, 0)
    }
}

/// Returns the usual sequence of rules with these parameters, behind a queue of the usual kind.
#[must_use]
pub fn rules(profile: &Profile) -> Vec<Box<dyn Rule>> {
    rules_behind(queue::Port::default(), profile)
}

/// Returns the usual sequence of rules with these parameters, behind the queue of this port.
#[must_use]
pub fn rules_behind(port: queue::Port, profile: &Profile) -> Vec<Box<dyn Rule>> {
    let mut rules: Vec<Box<dyn Rule>> = vec![
        Box::new(chosen_loss::Pick::default()),
        Box::new(queue::Queue::for_port(port)),
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
