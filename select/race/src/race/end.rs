//! The end of a race, with or without a winner.
//!
//! It also records outcomes. A failure is evidence against a candidate only if the peer itself answered, or
//! the winner of the same race. If no peer answers, the network is down, and the race gives no evidence about
//! any candidate.

use std::time::Duration;

use hawser_time::Instant;

use crate::{AttemptOutcome, Failure, Knowledge};

use super::{Action, Defeat, FailureReason, Phase, Race, State};

impl Race {
    /// Handles the success of an attempt or a probe.
    pub(super) fn succeeded(&mut self, index: usize, actions: &mut Vec<Action>) {
        let id = self.entrants[index].candidate.id;
        match (self.entrants[index].state, self.phase) {
            (State::Running { since }, Phase::Racing) => self.win(index, since, actions),
            // The success comes too late, in a profile that does not cancel losers.
            (State::Running { since }, Phase::Won(_) | Phase::Lost) => self.lost(index, since, actions),
            (State::Probing { since }, _) => {
                let outcome = self.probed(index, self.now - since);
                self.entrants[index].state = State::Out(Failure::NotStarted);
                actions.extend([Action::Cancel(id), Action::Record(id, outcome)]);
            }
            (State::Waiting | State::Won { .. } | State::Failed(_) | State::Out(_), _) => {}
        }
    }

    fn win(&mut self, winner: usize, since: Instant, actions: &mut Vec<Action>) {
        let took = self.now - since;
        let id = self.entrants[winner].candidate.id;
        self.phase = Phase::Won(winner);
        self.entrants[winner].state = State::Won { since, took };
        actions.extend([Action::Won(id), Action::Record(id, AttemptOutcome::Won { took })]);
        for index in 0..self.entrants.len() {
            match self.entrants[index].state {
                // The attempt continues in the background: its time shows whether it would win again.
                State::Running { since } if self.is_due(index) => {
                    self.entrants[index].state = State::Probing { since };
                }
                State::Running { since } if self.profile.losers_are_cancelled => {
                    self.lost(index, since, actions);
                }
                State::Failed(why) => {
                    let id = self.entrants[index].candidate.id;
                    actions.push(Action::Record(id, AttemptOutcome::Failed(why)));
                }
                State::Waiting if self.profile.losers_are_cancelled => self.leave_or_probe(index, actions),
                State::Waiting
                | State::Running { .. }
                | State::Probing { .. }
                | State::Won { .. }
                | State::Out(_) => {}
            }
        }
        let is_over = self.profile.losers_are_cancelled;
        // A last resort is started only in a race without other hope, so it is not tried after a victory.
        self.line
            .retain(|&index| !is_over && !self.entrants[index].candidate.is_last_resort);
    }

    /// Ends a started attempt that lost. A candidate that was blocked before stays blocked, because it had no
    /// chance to prove the contrary.
    fn lost(&mut self, index: usize, since: Instant, actions: &mut Vec<Action>) {
        let winner = self.victory();
        let entrant = &mut self.entrants[index];
        entrant.state = State::Out(Failure::NotStarted);
        actions.push(Action::Cancel(entrant.candidate.id));
        if !matches!(entrant.candidate.known, Knowledge::Blocked { .. }) {
            let had_a_head_start = winner.is_some_and(|(start, _)| since < start);
            let after = winner.map_or(Duration::ZERO, |(_, end)| self.now - end);
            let outcome = AttemptOutcome::Lost { had_a_head_start, after };
            actions.push(Action::Record(entrant.candidate.id, outcome));
        }
    }

    /// Returns the times at which the winner was started and won.
    fn victory(&self) -> Option<(Instant, Instant)> {
        let Phase::Won(winner) = self.phase else {
            return None;
        };
        let State::Won { since, took } = self.entrants[winner].state else {
            return None;
        };
        Some((since, since + took))
    }

    /// Ends a candidate that was never started, or probes it in the background if the cache has decided that
    /// a try is due.
    fn leave_or_probe(&mut self, index: usize, actions: &mut Vec<Action>) {
        let is_due = self.is_due(index);
        let entrant = &mut self.entrants[index];
        entrant.state = match is_due {
            true => State::Probing { since: self.now },
            false => State::Out(Failure::NotStarted),
        };
        if is_due {
            actions.push(Action::Probe(entrant.candidate.id));
        }
    }

    /// Returns whether the cache has decided that a background try of this candidate is due.
    fn is_due(&self, index: usize) -> bool {
        matches!(
            self.entrants[index].candidate.known,
            Knowledge::Blocked { probe: true } | Knowledge::Lost { probe: true }
        )
    }

    /// Returns the outcome of a probe that took this long. The probe counts as won if it would have won with
    /// the delay that the winner would have had after it.
    fn probed(&self, index: usize, took: Duration) -> AttemptOutcome {
        let (Phase::Won(winner), candidate) = (self.phase, &self.entrants[index].candidate) else {
            return AttemptOutcome::Won { took };
        };
        let winning = &self.entrants[winner];
        let State::Won { took: best, .. } = winning.state else {
            return AttemptOutcome::Won { took };
        };
        let spacing = self.profile.spacing;
        let delay = match candidate.priority <= winning.candidate.priority
            && candidate.rank <= winning.candidate.rank
        {
            true => spacing.after(
                candidate.priority,
                candidate.round_trip,
                winning.candidate.priority,
            ),
            false => Duration::ZERO,
        };
        match took <= best.saturating_add(delay) {
            true => AttemptOutcome::Won { took },
            false => {
                let after = self.victory().map_or(Duration::ZERO, |(_, end)| self.now - end);
                AttemptOutcome::Lost { had_a_head_start: false, after }
            }
        }
    }

    /// Handles the failure of an attempt. If the profile requires it, the next candidate is due.
    pub(super) fn attempt_failed(&mut self, index: usize, why: Failure, actions: &mut Vec<Action>) {
        self.entrants[index].state = State::Failed(why);
        self.early_starts = self.early_starts.saturating_add(1).min(Race::MAX_CANDIDATES);
        if matches!(self.phase, Phase::Won(_)) {
            let id = self.entrants[index].candidate.id;
            actions.push(Action::Record(id, AttemptOutcome::Failed(why)));
        }
    }

    pub(super) fn cancelled(&mut self, actions: &mut Vec<Action>) {
        if self.phase == Phase::Racing {
            return self.lose(FailureReason::Cancelled, actions);
        }
        self.line.clear();
        for entrant in self
            .entrants
            .iter_mut()
            .filter(|entrant| entrant.since().is_some())
        {
            entrant.state = State::Out(Failure::NotStarted);
            actions.push(Action::Cancel(entrant.candidate.id));
        }
    }

    pub(super) fn give_up_if_exhausted(&mut self, actions: &mut Vec<Action>) {
        let is_busy = self.entrants.iter().any(super::Entrant::is_running);
        if self.phase == Phase::Racing && !is_busy && self.line.is_empty() && self.questions.are_answered() {
            self.lose(FailureReason::Exhausted, actions);
        }
    }

    pub(super) fn lose(&mut self, why: FailureReason, actions: &mut Vec<Action>) {
        self.phase = Phase::Lost;
        self.line.clear();
        let interrupted = match why {
            FailureReason::Cancelled => Failure::Cancelled,
            FailureReason::Deadline | FailureReason::Exhausted => Failure::Deadline,
        };
        let mut candidates = Vec::with_capacity(self.entrants.len());
        for entrant in &mut self.entrants {
            let id = entrant.candidate.id;
            let reason = match entrant.state {
                State::Failed(failure) => {
                    if failure.is_answer() {
                        actions.push(Action::Record(id, AttemptOutcome::Failed(failure)));
                    }
                    failure
                }
                State::Out(failure) => failure,
                State::Running { .. } | State::Probing { .. } => {
                    actions.push(Action::Cancel(id));
                    entrant.state = State::Out(interrupted);
                    interrupted
                }
                State::Waiting | State::Won { .. } => {
                    entrant.state = State::Out(Failure::NotStarted);
                    Failure::NotStarted
                }
            };
            candidates.push((id, reason));
        }
        let questions = std::mem::take(&mut self.unanswered);
        actions.push(Action::AllFailed(Defeat { why, candidates, questions }));
    }
}
