//! The start times of candidates.

use std::time::Duration;

use hawser_time::Instant;

use crate::order::{self, Class};
use crate::profile::{self, milliseconds};
use crate::{Candidate, Connectionless, Failure, Family, Handshake, Knowledge, Spacing};

use super::{Action, Phase, Race, State};

impl Race {
    /// Sorts the waiting candidates.
    pub(super) fn arrange(&mut self) {
        let entrants = &self.entrants;
        order::arrange(
            &mut self.line,
            &self.starts,
            |index| &entrants[index].candidate,
            &self.profile,
        );
    }

    /// Returns whether candidates are still to be started although the race is won.
    pub(super) fn starts_go_on(&self) -> bool {
        let is_won = matches!(self.phase, Phase::Won(_));
        is_won && !self.profile.losers_are_cancelled && !self.line.is_empty()
    }

    /// Starts all candidates that are due.
    pub(super) fn start_due(&mut self, actions: &mut Vec<Action>) {
        self.opened = self.opens().filter(|&at| at <= self.now);
        while self.phase == Phase::Racing || self.starts_go_on() {
            let is_due = self.next_start().is_some_and(|at| at <= self.now);
            if !is_due {
                return;
            }
            let index = self.line.remove(0);
            self.early_starts = self.early_starts.saturating_sub(1);
            self.last_start = self.now;
            self.starts.push(index);
            self.entrants[index].state = State::Running { since: self.now };
            actions.push(Action::Start(self.entrants[index].candidate.id));
        }
    }

    /// Returns the start time of the first in line in the present state.
    fn next_start(&self) -> Option<Instant> {
        let next = &self.entrants[*self.line.first()?].candidate;
        let opens = self.opens()?.max(self.held(next));
        let is_idle = !self.entrants.iter().any(super::Entrant::is_running);
        if next.handshake == Handshake::Connectionless
            && self.request.connectionless == Connectionless::LastResort
        {
            return (is_idle && self.questions.are_answered()).then_some(self.now);
        }
        let is_last_resort = order::class(next, &self.profile) == Class::LastResort;
        let is_early = is_idle || (self.early_starts > 0 && !is_last_resort);
        if self.profile.failure_starts_next && is_early {
            return Some(opens);
        }
        let planned = self.planned(next, opens);
        let overtakes = self.overtakes(next).then(|| self.last_start + profile::MIN_DELAY);
        Some(opens.max(overtakes.map_or(planned, |at| at.min(planned))))
    }

    /// Returns whether a candidate won before, and no running attempt has a better claim. A better claim has
    /// another earlier winner, with its head start, or an untried candidate of a better class.
    fn overtakes(&self, next: &Candidate) -> bool {
        let gives_way = |entrant: &super::Entrant| {
            let other = &entrant.candidate;
            let is_untried = other.known == Knowledge::Unknown;
            !(matches!(other.known, Knowledge::Won { .. }) || is_untried && other.priority < next.priority)
        };
        let mut busy = self.entrants.iter().filter(|entrant| entrant.is_running());
        order::class(next, &self.profile) == Class::Favourite && busy.all(gives_way)
    }

    /// Returns the time until which a candidate of a worse class waits for unanswered address queries. They
    /// may bring more candidates of a better class, which the policy prefers to any address of this one. An
    /// earlier winner does not wait. A fallback waits as long as a last resort, because the addresses of an
    /// endpoint that a record names may still come.
    fn held(&self, next: &Candidate) -> Instant {
        let is_asked = self.questions.ipv4 > 0 || self.questions.ipv6 > 0;
        if next.is_fallback && is_asked {
            let since = self.first_found.unwrap_or_default().max(self.last_start);
            return since + milliseconds(self.profile.last_resort_delay_ms);
        }
        let is_out = |state: State| matches!(state, State::Out(why) if why != Failure::NotStarted);
        let is_better =
            |other: &super::Entrant| !is_out(other.state) && other.candidate.priority < next.priority;
        let is_favourite = order::class(next, &self.profile) == Class::Favourite;
        let is_worse = !is_favourite && self.entrants.iter().any(is_better);
        let known_since = self.first_found.filter(|_| is_asked && is_worse);
        known_since.map_or(Instant::ORIGIN, |found| found + self.profile.resolution_delay())
    }

    /// Returns the time at which the line opens. It opens at once when all awaited answers are known. It also
    /// opens at once for an earlier winner that no record can turn into a fallback. Otherwise it opens after
    /// the resolution delay. If earlier outcomes speak against the first in line, every answer is awaited,
    /// because it may bring an earlier winner.
    fn opens(&self) -> Option<Instant> {
        if let Some(opened) = self.opened {
            return Some(opened);
        }
        let found = self.first_found?;
        let (awaited, questions) = (self.profile.awaited, self.questions);
        let has_ipv6 = self.line.iter().any(|&index| {
            let candidate = &self.entrants[index].candidate;
            candidate.family == Family::Ipv6 && !candidate.is_fallback
        });
        let is_unranked = awaited.service && questions.service > 0;
        let is_missing = (awaited.ipv4 && questions.ipv4 > 0)
            || (awaited.ipv6 && questions.ipv6 > 0 && !has_ipv6)
            || is_unranked;
        let first = &self.entrants[*self.line.first()?].candidate;
        let is_suspected = matches!(
            first.known,
            Knowledge::Lost { .. } | Knowledge::Failed | Knowledge::Blocked { .. }
        );
        let is_missing = is_missing || (is_suspected && !questions.are_answered());
        let is_favourite = order::class(first, &self.profile) == Class::Favourite;
        if !is_missing || (is_favourite && !is_unranked) {
            return Some(self.now);
        }
        Some(found + self.profile.resolution_delay())
    }

    /// Returns the start time of a candidate by its position in the line and the clock alone.
    fn planned(&self, next: &Candidate, opens: Instant) -> Instant {
        let spacing = self.profile.spacing;
        let Some(&last) = self.starts.last() else {
            // Algorithm 1 delays even the first candidate by its own priority.
            return opens + spacing_before_first(spacing, next);
        };
        let class = order::class(next, &self.profile);
        let last = &self.entrants[last].candidate;
        let opens_resorts =
            class == Class::LastResort && order::class(last, &self.profile) != Class::LastResort;
        let gap = match (self.profile.head_start, last.known) {
            _ if opens_resorts => milliseconds(self.profile.last_resort_delay_ms),
            (Some(head_start), Knowledge::Won { took }) => head_start.duration_after(took),
            _ if class == Class::Suspected => spacing.after(
                last.priority,
                last.round_trip,
                next.priority.max(last.priority.saturating_add(1)),
            ),
            _ if !self.profile.failure_starts_next && matches!(spacing, Spacing::Priority { .. }) => {
                // Algorithm 1 counts from the beginning, independent of the other attempts.
                return opens + spacing_before_first(spacing, next);
            }
            _ => spacing.after(last.priority, last.round_trip, next.priority),
        };
        self.last_start + gap
    }

    /// Requests a wake-up at the next due time.
    pub(super) fn schedule_wake(&mut self, actions: &mut Vec<Action>) {
        let limit = self.profile.attempt_limit();
        let busy = self.entrants.iter().filter_map(|entrant| entrant.since());
        let expires = busy.map(|since| since + limit).min();
        let is_racing = self.phase == Phase::Racing;
        let next = (is_racing || self.starts_go_on())
            .then(|| self.next_start())
            .flatten();
        let deadline = is_racing.then(|| self.deadline());
        let wake = [expires, next, deadline].into_iter().flatten().min();
        if wake != self.wake_at {
            self.wake_at = wake;
            actions.extend(wake.map(Action::Wake));
        }
    }
}

/// Returns the delay of the first candidate by Algorithm 1. The other rules have none.
fn spacing_before_first(spacing: Spacing, next: &Candidate) -> Duration {
    match spacing {
        Spacing::Priority { .. } => spacing.after(0, None, next.priority),
        Spacing::Fixed { .. } | Spacing::Predicted { .. } => Duration::ZERO,
    }
}
