//! Lost, suspected and idle carriers, and the session's own clock.
//!
//! A live carrier sends no byte twice. If a carrier is lost, the data that only it carried is sent again on
//! others. If it is only suspected, this happens as soon as another carrier can take the data.

use std::time::Duration;

use hawser_time::Instant;

use super::{Instruction, Loss, Notice, Phase, Role, Session, SessionEnd};
use crate::CarrierId;
use crate::path::{CarrierState, PathCounts, Suspicion};
use crate::segment::{PathStatus, Refusal, Segment};

/// The minimum time without a segment after which a client sends a PING.
const QUIET: Duration = Duration::from_secs(1);

impl Session {
    /// Records that the carrier failed to open, or that its transport has ended, regardless of what the
    /// peer's transport reports.
    pub fn lost(&mut self, carrier: CarrierId, reason: Loss, now: Instant) {
        match self.slot_of(carrier) {
            Some(slot) => self.drop_path(slot, reason, false, now),
            None => self.not_opened(carrier, reason, now),
        }
        self.settle(now);
    }

    /// Handles a failed attempt to open a carrier.
    pub(super) fn not_opened(&mut self, carrier: CarrierId, reason: Loss, now: Instant) {
        if self.opener.candidate_of(carrier).is_some() {
            self.opener.failed(carrier, now);
            self.notify(Notice::PathLost { carrier, reason, counts: PathCounts::default() });
        }
    }

    /// Ends a session that no path has led to the server, once `open_timeout` is over.
    pub(super) fn give_up_opening(&mut self, now: Instant) {
        let is_over = now >= self.began_at + self.config.open_timeout;
        let is_refused = self.secret.is_none() && self.opener.is_exhausted() && !self.awaits_candidates;
        if self.role == Role::Client && is_over && is_refused {
            self.end(SessionEnd::Unreachable);
        }
    }

    /// Records that the link of a carrier went down or came up again, which is known before any timeout.
    pub fn link(&mut self, carrier: CarrierId, is_up: bool, now: Instant) {
        let status = if is_up {
            PathStatus::Active
        } else {
            PathStatus::Failing
        };
        self.set_status(carrier, status, now);
    }

    /// Sets the status that this side wants of a carrier, and notifies the peer.
    pub fn set_status(&mut self, carrier: CarrierId, status: PathStatus, now: Instant) {
        let Some(slot) = self.slot_of(carrier) else { return };
        let Some(path) = self.paths[slot].as_mut() else {
            return;
        };
        if path.ours.0 == status {
            return;
        }
        path.ours = (status, path.ours.1 + 1);
        let sequence = path.ours.1;
        if status == PathStatus::Failing {
            self.suspect(slot, Suspicion::Failing, now);
        } else if self
            .path(slot)
            .is_some_and(|path| path.suspicion == Some(Suspicion::Failing))
        {
            self.restore(slot, now);
        }
        if let Some(via) = self.quickest() {
            self.send_control(
                via,
                &Segment::PathStatus { number: carrier.0, status, sequence },
                now,
            );
        }
        self.settle(now);
    }

    /// Records a change of the network, such as a new link or address. Resting paths are tried at once.
    pub fn network_changed(&mut self, now: Instant) {
        self.opener.network_changed(now);
        self.settle(now);
    }

    /// Removes a path that is no longer wanted. Its carrier finishes what was begun, unless it is dead.
    pub fn remove_path(&mut self, path: u32, now: Instant) {
        for carrier in self.opener.remove(path) {
            match self.slot_of(carrier) {
                Some(slot) => self.retire(slot, now),
                None => self.out.push_back(Instruction::Close { carrier, abort: true }),
            }
        }
        self.settle(now);
    }

    /// Sets whether more candidates may come. Until then, the session does not end because all its candidates
    /// have failed.
    pub fn await_candidates(&mut self, awaits: bool, now: Instant) {
        self.awaits_candidates = awaits;
        self.settle(now);
    }

    /// Adds a candidate for a path to the peer. If the path has had a quota, only the rest of it remains.
    pub fn add_candidate(&mut self, mut candidate: crate::opening::Candidate, now: Instant) {
        let left = self.quotas().get(&candidate.path).copied();
        candidate.quota = left.or(candidate.quota);
        if let Some(quota) = candidate.quota {
            self.quotas.entry(candidate.path).or_insert(quota);
        }
        self.config.candidates.push(candidate);
        self.opener
            .add(&self.config.candidates, self.config.candidates.len() - 1);
        self.settle(now);
    }

    /// Handles the server's refusal of a carrier.
    pub(super) fn take_refused(&mut self, slot: usize, refusal: Refusal, now: Instant) {
        let hopeless = match refusal {
            Refusal::Version | Refusal::Security => self.phase == Phase::Opening,
            // The server does not know the session any more, so no carrier will ever join it.
            Refusal::Unknown | Refusal::Gone => self.live().count() <= 1 && self.phase != Phase::Opening,
            _ => false,
        };
        if let (Refusal::WrongServer, Some(path)) = (refusal, self.path(slot)) {
            let carrier = path.id;
            self.counters.astray += 1;
            self.opener.astray(carrier, self.home.0.len(), now);
        }
        self.drop_path(slot, Loss::Refused(refusal), false, now);
        if hopeless {
            self.end(SessionEnd::Refused(refusal));
        }
    }

    /// Forgets a carrier. Data that only it carried is sent again on others.
    pub(super) fn drop_path(&mut self, slot: usize, reason: Loss, abort: bool, now: Instant) {
        let Some(path) = self.paths[slot].take() else {
            return;
        };
        if abort || !matches!(reason, Loss::Transport(_)) {
            self.out.push_back(Instruction::Close { carrier: path.id, abort });
        }
        if let Some(left) = path.quota {
            self.quotas.insert(path.number, left);
        }
        if path.statistics.oversized && matches!(reason, Loss::Transport(_) | Loss::TimedOut) {
            self.opener.keep_small(path.id, now);
        }
        self.opener.failed(path.id, now);
        self.counters.lost += 1;
        self.notify(Notice::PathLost { carrier: path.id, reason, counts: path.counts });
        self.resend(slot, now);
        if path.state == CarrierState::Greeting && path.suspicion.is_none() {
            (0..self.paths.len()).for_each(|other| self.introduce(other, now));
        }
        self.check_stalled(now);
    }

    /// Checks whether a carrier is left that is not suspected, and notifies the application when that
    /// changes.
    pub(super) fn check_stalled(&mut self, now: Instant) {
        if self.phase == Phase::Closed {
            return;
        }
        let is_healthy = self.live().any(|(_, path)| path.suspicion.is_none());
        match (is_healthy, self.stalled_since) {
            (true, Some(_)) => {
                self.stalled_since = None;
                self.notify(Notice::Resumed);
            }
            (false, None) => {
                self.stalled_since = Some(now);
                self.notify(Notice::Stalled);
            }
            (true, None) | (false, Some(_)) => {}
        }
    }

    /// Marks the carrier in `slot` as possibly dead.
    pub(super) fn suspect(&mut self, slot: usize, suspicion: Suspicion, now: Instant) {
        let Some(path) = self.paths[slot].as_mut() else {
            return;
        };
        if path.suspicion == Some(suspicion) || path.suspicion == Some(Suspicion::Failing) {
            return;
        }
        let first = path.suspicion.replace(suspicion).is_none();
        path.mark_doubted();
        let carrier = path.id;
        let greeting = path.state == CarrierState::Greeting;
        if first {
            path.counts.suspected += 1;
            self.notify(Notice::PathSuspect(carrier));
        }
        if greeting {
            (0..self.paths.len()).for_each(|other| self.introduce(other, now));
        }
        self.resend_all_doubted(now);
        self.check_stalled(now);
    }

    /// Handles a stream that waits for data that only the carrier in `slot` holds, while later bytes arrive
    /// by others. If another carrier would deliver that data clearly sooner, the others send it. This carrier
    /// then gets no more until it has delivered its data. MPTCP does the same with a subflow that blocks its
    /// window (Raiciu et al., NSDI 2012, 4.2).
    pub(super) fn mark_doubted_if_late(&mut self, slot: usize, now: Instant) {
        let others = self
            .live()
            .filter(|(other, path)| *other != slot && path.takes_data(false));
        let soonest = others.map(|(_, path)| path.arrival(now)).min();
        let Some(path) = self.paths[slot].as_mut().filter(|path| path.can_be_doubted()) else {
            return;
        };
        if soonest.is_some_and(|here| here + here / 4 < path.arrival(now)) {
            path.mark_doubted();
            self.resend_all_doubted(now);
        }
    }

    /// Makes the suspected carrier in `slot` live again.
    pub(super) fn restore(&mut self, slot: usize, now: Instant) {
        let Some(path) = self.paths[slot].as_mut() else {
            return;
        };
        path.suspicion = None;
        path.progress_at = now;
        let carrier = path.id;
        self.notify(Notice::PathLive(carrier));
        self.check_stalled(now);
    }

    /// Sends the data of suspected carriers again on others, once there are others.
    pub(super) fn resend_all_doubted(&mut self, now: Instant) {
        let usable = self.usable();
        for slot in 0..self.paths.len() {
            let Some(path) = self.paths[slot].as_mut() else {
                continue;
            };
            if path.is_doubted() && !path.resent && usable & !(1 << slot) != 0 {
                path.resent = true;
                self.resend(slot, now);
            }
        }
    }

    /// Marks the data that only the carrier in `slot` took as to be sent again.
    fn resend(&mut self, slot: usize, now: Instant) {
        let mut acks = Vec::new();
        for (id, stream) in self.streams.iter_mut() {
            if stream.lost(slot as u32) {
                acks.push(id);
            }
        }
        acks.into_iter()
            .for_each(|id| self.schedule_ack(id, 0, true, now));
        self.queue_all();
        self.offer_all_copies(slot);
        self.repeat_all(now);
    }

    /// Examines a carrier after its transport reported its statistics.
    pub(super) fn check_liveness(&mut self, slot: usize, now: Instant) {
        let Some(path) = self.path(slot) else { return };
        match path.suspicion {
            None if path.suspect_at().is_some_and(|at| at <= now) => {
                self.suspect(slot, Suspicion::Unacknowledged(now), now);
                self.settle(now);
            }
            Some(Suspicion::Unacknowledged(since))
                if path.alive_at() > since
                    || path.statistics.outstanding() == 0 && path.unanswered_since().is_none() =>
            {
                self.restore(slot, now);
                self.settle(now);
            }
            _ => {}
        }
    }

    /// Handles the timeout that [`Session::next_timeout`] returned. The carriers' newest statistics must have
    /// been reported before.
    pub fn timeout(&mut self, now: Instant) {
        for slot in 0..self.paths.len() {
            if let Some(path) = &mut self.paths[slot] {
                path.examined_at = now;
            }
            self.check_liveness(slot, now);
            self.drop_if_unresponsive(slot, now);
            self.keep_alive(slot, now);
        }
        self.close_again(now);
        if self.is_idle_too_long(now) {
            self.end(SessionEnd::Idle);
        }
        self.settle(now);
    }

    /// Closes a suspected carrier that stays unresponsive, if another carrier is usable or can be opened.
    fn drop_if_unresponsive(&mut self, slot: usize, now: Instant) {
        if self.drops_at(slot).is_some_and(|at| at <= now) {
            self.drop_path(slot, Loss::TimedOut, true, now);
        }
    }

    fn drops_at(&self, slot: usize) -> Option<Instant> {
        let path = self.path(slot)?;
        let since = match path.suspicion? {
            Suspicion::Unacknowledged(since) => since,
            Suspicion::Failing => path.progress_at,
        };
        let timeout = (3 * path.statistics.probe_timeout()).max(Duration::from_secs(1));
        match (self.usable() != 0, self.role) {
            (true, _) => Some(since + timeout),
            // The transport's own timeouts double, but ours do not, so opening anew ends an outage sooner.
            (false, Role::Client) => Some(since + 2 * timeout),
            (false, Role::Server) => None,
        }
    }

    /// Sends a PING on an idle carrier.
    fn keep_alive(&mut self, slot: usize, now: Instant) {
        if self.wants_ping_at(slot).is_some_and(|at| at <= now) {
            self.tokens += 1;
            let token = self.tokens;
            if let Some(path) = &mut self.paths[slot] {
                path.ping = Some((token, now));
            }
            self.send_control(slot, &Segment::Ping { token }, now);
        }
    }

    fn wants_ping_at(&self, slot: usize) -> Option<Instant> {
        let path = self.path(slot).filter(|path| path.is_healthy())?;
        let every = self.config.keep_alive;
        let asked_at = path.ping.map_or(Instant::ORIGIN, |(_, at)| at);
        // A client that only receives does not notice when the network drops the server's packets. It
        // therefore sends one PING when a carrier has become idle, and later ones at the usual interval.
        let has_fallen_quiet = path.received_at > path.answered_at.max(asked_at);
        let asks = self.role == Role::Client && has_fallen_quiet;
        let after = if asks {
            every.min(path.statistics.probe_timeout().max(QUIET))
        } else {
            every
        };
        (!every.is_zero()).then(|| path.received_at.max(asked_at) + after)
    }

    /// Returns true if the session has been without carriers, or idle, for the allowed time.
    fn is_idle_too_long(&self, now: Instant) -> bool {
        self.idle_until().is_some_and(|at| at <= now)
    }

    fn idle_until(&self) -> Option<Instant> {
        let keep = match self.role {
            Role::Client => self.peer_resume,
            Role::Server => self.config.resume,
        };
        // If the application has not accepted the session, it ends with its last carrier.
        let keep = if self.accepted || self.live().next().is_some() {
            keep
        } else {
            Duration::ZERO
        };
        let stalled = self.stalled_since.map(|since| since + keep);
        let idle = (!self.config.idle.is_zero()).then(|| self.received_at + self.config.idle);
        [stalled, idle]
            .into_iter()
            .flatten()
            .min()
            .filter(|_| self.phase != Phase::Closed)
    }

    /// Returns the latest time at which [`Session::timeout`] must be called.
    pub fn next_timeout(&self, now: Instant) -> Option<Instant> {
        if self.phase == Phase::Closed {
            return None;
        }
        let of_slot = |slot: usize| {
            let path = self.path(slot)?;
            let drained = self.drained_at(slot);
            [
                path.suspect_at(),
                path.examine_at(),
                drained,
                self.drops_at(slot),
                self.wants_ping_at(slot),
            ]
            .into_iter()
            .flatten()
            .min()
        };
        let paths = (0..self.paths.len()).filter_map(of_slot).min();
        let opener = (self.role == Role::Client && self.wants_carriers())
            .then(|| self.opener.next_timeout(now, self.may_open()))
            .flatten();
        [
            paths,
            opener,
            self.next_ack(),
            self.wait_until,
            self.idle_until(),
            self.closes_again_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}
