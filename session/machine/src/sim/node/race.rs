//! A race for the first carrier. Its attempts are ordinary connections.

use std::collections::BTreeMap;

use crate::{CarrierId, Loss, Session};
use hawser_engine::Handle;
use hawser_race::{
    Action, Candidate, CandidateId, Event, Failure, Handshake, Profile, Questions, Race, Request,
};
use hawser_time::Instant;

use super::SimHost;
use crate::sim::side::Side;

/// A running race for the carrier with this number.
pub(super) struct Racing {
    pub(super) id: CarrierId,
    race: Race,
    wake: Option<Instant>,
    attempts: BTreeMap<Handle, CandidateId>,
}

impl SimHost {
    /// Races the links, in their order, for a carrier.
    pub(super) fn begin_race(&mut self, id: CarrierId, profile: Profile) {
        let race = Race::new(profile, Request::default(), Questions::default(), self.now);
        self.racing = Some(Racing { id, race, wake: None, attempts: BTreeMap::new() });
        let links = self.shared.borrow().config.links.len() as u32;
        let candidates = (0..links).map(|link| Candidate {
            handshake: Handshake::Secure,
            ..Candidate::new(
                CandidateId(link),
                "tcp",
                Side::Server.address(link as usize).to_string(),
            )
        });
        self.race(Event::Found { question: None, candidates: candidates.collect() });
    }

    pub(super) fn race_wakes_at(&self) -> Option<Instant> {
        self.racing.as_ref()?.wake
    }

    /// Handles the race's timer.
    pub(super) fn wake_race(&mut self) {
        self.racing.iter_mut().for_each(|racing| racing.wake = None);
        self.race(Event::Wake);
    }

    /// Passes an event to the race if the connection is one of its attempts.
    pub(super) fn attempt(&mut self, handle: Handle, event: impl FnOnce(CandidateId) -> Event) {
        let attempt = self
            .racing
            .as_ref()
            .and_then(|racing| racing.attempts.get(&handle))
            .copied();
        if let Some(attempt) = attempt {
            self.race(event(attempt));
        }
    }

    fn race(&mut self, event: Event) {
        let Some(mut racing) = self.racing.take() else {
            return;
        };
        for action in racing.race.on(event, self.now) {
            match action {
                Action::Start(attempt) | Action::Probe(attempt) => {
                    let link = attempt.0 as usize;
                    self.shared
                        .borrow_mut()
                        .report
                        .attempts
                        .push((self.elapsed(), link));
                    match self.dial(None, link, false) {
                        Ok(handle) => drop(racing.attempts.insert(handle, attempt)),
                        // The race's timer starts the next attempt.
                        Err(_) => racing.wake = Some(self.now),
                    }
                }
                Action::Cancel(attempt) => {
                    let cancelled = racing.attempts.iter().find(|(_, known)| **known == attempt);
                    cancelled
                        .map(|(handle, _)| *handle)
                        .into_iter()
                        .for_each(|handle| self.abort(handle));
                }
                Action::Won(attempt) => {
                    let won = racing.attempts.iter().find(|(_, known)| **known == attempt);
                    let carrier = won.and_then(|(handle, _)| self.carriers.get_mut(handle));
                    if let (Some(carrier), Some(session)) = (carrier, &mut self.session) {
                        carrier.id = Some(racing.id);
                        session.connected(racing.id, Some(carrier.exporter), self.now);
                    }
                }
                Action::AllFailed(_) => {
                    let lost = |session: &mut Session| {
                        session.lost(
                            racing.id,
                            Loss::Transport("no attempt succeeded".into()),
                            self.now,
                        );
                    };
                    self.session.iter_mut().for_each(lost);
                }
                Action::Record(..) => {}
                Action::Wake(at) => racing.wake = Some(at),
            }
        }
        self.racing = (!racing.race.is_over()).then_some(racing);
    }

    /// Ends the race, because the session no longer wants its carrier.
    pub(super) fn end_race(&mut self) {
        let attempts = self
            .racing
            .take()
            .map(|racing| racing.attempts)
            .unwrap_or_default();
        attempts.into_keys().for_each(|handle| self.abort(handle));
    }

    /// Reports to the race that a connection has failed.
    pub(super) fn attempt_failed(&mut self, handle: Handle) {
        self.attempt(handle, |attempt| Event::Failed(attempt, Failure::Reset));
    }
}
