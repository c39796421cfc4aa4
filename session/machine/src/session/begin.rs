//! The beginning of a session, and the joining of carriers.

use std::net::SocketAddr;

use bytes::Bytes;
use hawser_time::Instant;

use super::{Instruction, Loss, Notice, Phase, Role, Session};
use crate::CarrierId;
use crate::config::Config;
use crate::opening::Step;
use crate::path::{CarrierState, Path, PathCounts};
use crate::scheduler::Scheduler;
use crate::secret::{Exporter, Secret, same};
use crate::segment::{Hello, Join, PathStatus, Security, Segment, SessionId, VERSION, encode};

impl Config {
    /// Returns this side's terms for HELLO or ACCEPT.
    pub(crate) fn hello(&self, session: SessionId, carrier: CarrierId, attempt: u32) -> Hello {
        Hello {
            version: VERSION,
            lowest: VERSION,
            security: self.security,
            carriers: self.carriers,
            streams: self.streams,
            session,
            credit: self.session_credit,
            number: carrier.0,
            stream_credit: self.stream_credit,
            resume: self.resume,
            idle: self.idle,
            attempt,
            addresses: Vec::new(),
            name: String::new(),
        }
    }
}

impl Session {
    /// Creates a client's session. `random` is its id until the server accepts it: 128 unpredictable bits.
    pub fn client(config: Config, scheduler: Box<dyn Scheduler>, random: [u8; 16], now: Instant) -> Self {
        let id = SessionId(random);
        let mut session = Self::new(Role::Client, id, config, scheduler, now);
        session.settle(now);
        session
    }

    /// Creates a server's session that [`Acceptor`](crate::Acceptor) has agreed to.
    pub(crate) fn server(
        config: Config,
        scheduler: Box<dyn Scheduler>,
        id: SessionId,
        hello: &Hello,
        now: Instant,
    ) -> Self {
        let mut session = Self::new(Role::Server, id, config, scheduler, now);
        session.take_terms(hello);
        session.phase = Phase::Open;
        session.notify(Notice::Opened(id));
        session
    }

    /// Sets the secret, which a server's session gets from its acceptor.
    pub(crate) fn set_secret(&mut self, secret: Secret) {
        self.secret = Some(secret);
    }

    /// Takes the peer's terms.
    fn take_terms(&mut self, terms: &Hello) {
        self.peer_streams = terms.streams;
        self.peer_stream_credit = terms.stream_credit;
        self.peer_resume = terms.resume;
        self.credit = terms.credit;
        let carriers = usize::from(terms.carriers.clamp(1, super::SLOTS as u8));
        if carriers < self.paths.len() && self.paths[carriers..].iter().all(Option::is_none) {
            self.paths.truncate(carriers);
        }
        for (_, stream) in self.streams.iter_mut() {
            stream.send_credit = stream.send_credit.max(terms.stream_credit);
        }
        let all: Vec<u32> = self.streams.iter().map(|(id, _)| id).collect();
        all.into_iter().for_each(|stream| self.queue(stream));
    }

    /// Issues instructions to open the carriers that are due.
    pub(super) fn open_more(&mut self, now: Instant) {
        if self.role == Role::Server || !self.wants_carriers() {
            return;
        }
        loop {
            match self.opener.step(now, self.may_open()) {
                Some(Step::Open { carrier, candidate, small }) => {
                    self.out
                        .push_back(Instruction::Connect { carrier, candidate, small });
                }
                Some(Step::GiveUp { carrier }) => match self.slot_of(carrier) {
                    Some(slot) => self.drop_path(slot, Loss::TimedOut, true, now),
                    None => {
                        self.out.push_back(Instruction::Close { carrier, abort: true });
                        let (reason, counts) = (Loss::Unanswered, PathCounts::default());
                        self.notify(Notice::PathLost { carrier, reason, counts });
                    }
                },
                None => return self.give_up_opening(now),
            }
        }
    }

    /// Returns true if data may still have to be carried. A session that closes in order delivers first.
    pub(super) fn wants_carriers(&self) -> bool {
        match &self.phase {
            Phase::Opening | Phase::Open => true,
            Phase::Closing(closing) => closing.delivers() && !self.is_delivered(),
            Phase::Closed => false,
        }
    }

    /// Returns the number of carriers that may still be opened.
    pub(super) fn may_open(&self) -> usize {
        let free = self.paths.iter().filter(|path| path.is_none()).count();
        free.saturating_sub(self.opener.trying())
    }

    /// Returns the address at which a requested carrier is to be opened instead of its candidate's (client).
    /// It is set if a balancer had led the carrier's path to another server. Also returns the name in the
    /// certificate there; empty means the usual name.
    pub fn home_of(&self, carrier: CarrierId) -> Option<(SocketAddr, &str)> {
        let address = self.home.0.get(self.opener.own_address(carrier)?)?;
        Some((*address, &self.home.1))
    }

    /// Records that long packets were lost while this carrier was opened. Later carriers of its path begin
    /// with small ones. Call it before [`Session::connected`].
    pub fn keep_small(&mut self, carrier: CarrierId, now: Instant) {
        self.opener.keep_small(carrier, now);
    }

    /// Records that a requested carrier is connected (client). `exporter` comes from its TLS 1.3, if any.
    pub fn connected(&mut self, carrier: CarrierId, exporter: Option<Exporter>, now: Instant) {
        let free = self.paths.iter().position(Option::is_none);
        let (Some(slot), Some(candidate)) = (free, self.opener.candidate_of(carrier)) else {
            self.out.push_back(Instruction::Close { carrier, abort: true });
            return;
        };
        let mut path = Path::new(carrier, CarrierState::Waiting, exporter, now);
        let candidate = &self.config.candidates[candidate];
        path.weight = candidate.weight.max(1);
        path.cost = candidate.cost;
        path.number = candidate.path;
        path.quota = self.quotas.get(&candidate.path).copied();
        path.ours.0 = if candidate.backup {
            PathStatus::Backup
        } else {
            PathStatus::Active
        };
        self.paths[slot] = Some(path);
        self.offer_all_copies(slot);
        self.introduce(slot, now);
        self.settle(now);
    }

    /// Sends the first segment on a connected carrier, if it may be sent now.
    pub(super) fn introduce(&mut self, slot: usize, now: Instant) {
        let healthy = |path: &Path| path.state == CarrierState::Greeting && path.suspicion.is_none();
        let greeting = self.live().any(|(_, path)| healthy(path));
        let Some(path) = self.paths[slot]
            .as_mut()
            .filter(|path| path.state == CarrierState::Waiting)
        else {
            return;
        };
        if self.config.security == Security::Tls && path.exporter.is_none() {
            return self.drop_path(slot, Loss::Proof, true, now);
        }
        if self.secret.is_some() {
            if self.config.security == Security::Tls || path.challenge.is_some() {
                self.join(slot, now);
            }
        } else if !greeting {
            self.drop_greeting(now);
            let Some(path) = self.paths[slot].as_mut() else {
                return;
            };
            path.state = CarrierState::Greeting;
            self.hello = encode(&Segment::Hello(self.config.hello(
                self.id,
                path.id,
                self.attempts,
            )));
            self.attempts += 1;
            path.spend(self.hello.len() as u64, now);
            let (carrier, head) = (path.id, self.hello.clone());
            self.out
                .push_back(Instruction::Send { carrier, head, body: Bytes::new() });
        }
    }

    /// Closes the carrier on which an earlier HELLO was sent. Only the last HELLO counts, for both sides.
    fn drop_greeting(&mut self, now: Instant) {
        let before = self
            .live()
            .find(|(_, path)| path.state == CarrierState::Greeting)
            .map(|(slot, _)| slot);
        if let Some(slot) = before {
            self.drop_path(slot, Loss::TimedOut, true, now);
        }
    }

    /// Asks the server to admit the carrier in `slot` to the session.
    fn join(&mut self, slot: usize, now: Instant) {
        let (Some(secret), Some(path)) = (&self.secret, self.paths[slot].as_mut()) else {
            return;
        };
        let backup = path.ours.0 == PathStatus::Backup;
        let proof = secret.join(path.binding(), self.id, backup, path.id.0);
        path.state = CarrierState::Joining;
        let (number, nonce) = (path.id.0, path.challenge.unwrap_or_default());
        let received = self.received;
        let join = Join { number, backup, session: self.id, received, nonce, proof };
        self.send_control(slot, &Segment::Join(join), now);
    }

    /// Takes the server's random bytes, on a carrier without TLS.
    pub(super) fn take_challenge(&mut self, slot: usize, nonce: [u8; 16], now: Instant) {
        let Some(path) = self.paths[slot].as_mut() else {
            return;
        };
        if path.challenge.is_none() && path.exporter.is_none() {
            path.challenge = Some(nonce);
            self.introduce(slot, now);
        }
    }

    /// Handles the server's acceptance of the session.
    pub(super) fn take_accept(&mut self, slot: usize, accept: &Hello, bytes: &[u8], now: Instant) {
        let Some(path) = self.paths[slot]
            .as_mut()
            .filter(|path| path.state == CarrierState::Greeting)
        else {
            return;
        };
        let agreed = accept.version == VERSION && accept.security == self.config.security;
        if !agreed {
            return self.drop_path(slot, Loss::Proof, true, now);
        }
        self.secret = Some(match (&path.exporter, self.config.security) {
            (Some(exporter), Security::Tls) => Secret::secured(exporter, &self.hello, bytes),
            _ => Secret::insecure(accept.session),
        });
        path.state = CarrierState::Live;
        let carrier = path.id;
        self.id = accept.session;
        let is_place = |address: &&SocketAddr| {
            address.port() != 0 && !address.ip().is_unspecified() && !address.ip().is_multicast()
        };
        self.home = (
            accept.addresses.iter().filter(is_place).copied().collect(),
            accept.name.clone(),
        );
        if self.phase == Phase::Opening {
            self.phase = Phase::Open;
        }
        self.take_terms(accept);
        let others = self.opener.up(carrier, now);
        self.notify(Notice::Opened(self.id));
        self.arrived(slot, now);
        self.overtaken(others, now);
        self.send_status(slot, now);
        (0..self.paths.len()).for_each(|other| self.introduce(other, now));
    }

    /// Sends this side's status for the carrier, for which HELLO has no field.
    fn send_status(&mut self, slot: usize, now: Instant) {
        let Some(path) = self.paths[slot]
            .as_mut()
            .filter(|path| path.ours.0 != PathStatus::Active)
        else {
            return;
        };
        path.ours.1 += 1;
        let (number, (status, sequence)) = (path.id.0, path.ours);
        self.send_control(slot, &Segment::PathStatus { number, status, sequence }, now);
    }

    /// Handles the server's admission of a carrier.
    pub(super) fn take_joined(&mut self, slot: usize, number: u32, proof: &[u8; 24], now: Instant) {
        let (Some(secret), Some(path)) = (&self.secret, self.paths[slot].as_mut()) else {
            return;
        };
        if path.state != CarrierState::Joining {
            return;
        }
        let backup = path.ours.0 == PathStatus::Backup;
        let right = secret.joined(path.binding(), self.id, backup, path.id.0);
        if number != path.id.0 || !same(proof, &right) {
            return self.drop_path(slot, Loss::Proof, true, now);
        }
        path.state = CarrierState::Live;
        let carrier = path.id;
        let others = self.opener.up(carrier, now);
        self.arrived(slot, now);
        self.overtaken(others, now);
    }

    /// Closes carriers that raced with one that is now up.
    fn overtaken(&mut self, others: Vec<CarrierId>, now: Instant) {
        for carrier in others {
            match self.slot_of(carrier) {
                Some(slot) => self.drop_path(slot, Loss::Closed, true, now),
                None => self.out.push_back(Instruction::Close { carrier, abort: true }),
            }
        }
    }

    /// Adds a carrier that [`Acceptor`](crate::Acceptor) admitted (server): the first one, or one that
    /// joined. Its first bytes follow through [`Session::received`].
    pub fn admitted(&mut self, carrier: CarrierId, backup: bool, now: Instant) {
        if self.phase == Phase::Closed {
            self.out.push_back(Instruction::Close { carrier, abort: true });
            return;
        }
        if let Some(slot) = self.slot_of(carrier) {
            // The client sent HELLO anew. The carrier before it is dead, and the new one has its number.
            self.drop_path(
                slot,
                Loss::Transport("the client started again".into()),
                false,
                now,
            );
        }
        self.make_place(now);
        let Some(slot) = self.paths.iter().position(Option::is_none) else {
            self.out.push_back(Instruction::Close { carrier, abort: true });
            return;
        };
        let mut path = Path::new(carrier, CarrierState::Live, None, now);
        path.theirs.0 = if backup {
            PathStatus::Backup
        } else {
            PathStatus::Active
        };
        self.paths[slot] = Some(path);
        self.offer_all_copies(slot);
        self.arrived(slot, now);
        self.settle(now);
    }

    /// If all slots are in use, frees that of a suspected carrier for a new one.
    fn make_place(&mut self, now: Instant) {
        if self.paths.iter().all(Option::is_some) {
            let suspected = self
                .live()
                .find(|(_, path)| path.suspicion.is_some())
                .map(|(slot, _)| slot);
            if let Some(slot) = suspected {
                self.drop_path(slot, Loss::TimedOut, true, now);
            }
        }
    }

    /// Handles a carrier that now belongs to the session.
    fn arrived(&mut self, slot: usize, now: Instant) {
        let Some(path) = self.path(slot) else { return };
        let carrier = path.id;
        self.notify(Notice::PathUp(carrier));
        self.check_stalled(now);
        self.resend_all_doubted(now);
        self.repeat_all(now);
    }
}
