//! A server's acceptor. It distinguishes carriers that begin a session from carriers that join one, and
//! refuses all others.
//!
//! It is a machine, as the session is: it takes the first bytes of a new carrier and decides what happens to
//! it. Until a carrier has proved that it belongs to a session, it costs at most 1 KiB, 5 s and one HMAC. An
//! unknown session and a wrong proof get the same answer after the same work.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_time::Instant;

use crate::CarrierId;
use crate::config::Config;
use crate::scheduler::Scheduler;
use crate::secret::{Exporter, Secret, same};
use crate::segment::{
    Decoder, Hello, Incoming, Join, Refusal, Security, Segment, SessionId, VERSION, encode,
};
use crate::session::Session;

/// Bytes that a client may send, over all streams, before the application reads any of them. The window grows
/// from there as fast as the application reads ([`Config::max_credit`]).
const FIRST_CREDIT: u64 = 128 << 10;
/// The maximum number of bytes that are kept of a carrier before its proof.
const BEFORE_PROOF: usize = 1_024;
/// The time for which an ended session is remembered.
const TOMBSTONE: Duration = Duration::from_secs(60);
/// The maximum number of ended sessions that are remembered. Beyond it, the oldest are forgotten.
const TOMBSTONES: usize = 16_384;

/// The limits of a server and the configuration of its sessions.
#[derive(Clone, Debug)]
pub struct AcceptorConfig {
    /// The configuration of the sessions. A client may send at most 128 KiB before the application reads,
    /// even if the credits are larger. The largest credit limits the growth of the window.
    pub session: Config,
    /// The maximum number of sessions at once.
    pub sessions: usize,
    /// The maximum number of sessions among them that the application has not accepted.
    pub unaccepted: usize,
    /// The approximate number of bytes that all unaccepted sessions together may hold. Beyond it, a session
    /// that holds more than an equal share is closed.
    pub unaccepted_bytes: u64,
    /// The time within which the application must accept a session.
    pub accept_within: Duration,
    /// The maximum number of unauthenticated carriers at once, for each transport.
    pub unauthenticated: usize,
    /// The time within which a carrier must prove that it belongs to a session.
    pub timeout: Duration,
    /// True if sessions without TLS are accepted.
    pub insecure: bool,
    /// This server's number among those behind a balancer (24 bits).
    pub server: u32,
    /// The addresses at which joins reach this server itself.
    pub addresses: Vec<std::net::SocketAddr>,
    /// The name in this server's certificate.
    pub name: String,
}

impl Default for AcceptorConfig {
    fn default() -> Self {
        Self {
            session: Config::default(),
            sessions: 512,
            unaccepted: 256,
            unaccepted_bytes: 16 << 20,
            accept_within: Duration::from_secs(10),
            unauthenticated: 512,
            timeout: Duration::from_secs(5),
            insecure: false,
            server: 0,
            addresses: Vec::new(),
            name: String::new(),
        }
    }
}

/// A carrier that has not yet proved that it belongs to a session.
#[derive(Debug)]
struct Unauthenticated {
    exporter: Option<Exporter>,
    challenge: [u8; 16],
    /// Random bits for the id of a session that the carrier may begin.
    random: [u8; 12],
    so_far: BytesMut,
    until: Instant,
}

/// The acceptor's record of a session.
#[derive(Debug)]
struct SessionRecord {
    secret: Secret,
    security: Security,
    /// The client's own id for the session and the attempt number of its HELLO. `None` once the client has
    /// answered ACCEPT.
    hello: Option<(SessionId, u32)>,
    numbers: UsedNumbers,
    is_over: bool,
}

/// The acceptor's decision about a carrier.
#[derive(Debug)]
pub enum CarrierDecision {
    /// The first segment is incomplete; the caller waits for more bytes.
    More,
    /// The caller writes `answer` and closes the carrier.
    Refuse {
        /// The refusal's code, as the peer receives it.
        refusal: Refusal,
        /// An encoded REFUSED segment.
        answer: Bytes,
    },
    /// The carrier begins a session. The caller writes `answer`, calls [`Session::admitted`], and then passes
    /// `rest` to [`Session::received`].
    Begin {
        /// The new session.
        session: Box<Session>,
        /// The carrier's number.
        carrier: CarrierId,
        /// An encoded ACCEPT segment.
        answer: Bytes,
        /// The bytes that followed HELLO.
        rest: Bytes,
    },
    /// The carrier joins a session, or begins one anew whose ACCEPT was lost. The caller writes `answer`,
    /// calls [`Session::admitted`], and then passes `rest` to [`Session::received`].
    Join {
        /// The session's id.
        session: SessionId,
        /// The carrier's number.
        carrier: CarrierId,
        /// True if the client wants the carrier as a backup.
        backup: bool,
        /// An encoded JOINED or ACCEPT segment.
        answer: Bytes,
        /// The bytes that followed the first segment.
        rest: Bytes,
    },
}

/// Decides what new carriers may do. `K` identifies a carrier for the caller.
#[derive(Debug)]
pub struct Acceptor<K: Ord + Copy> {
    config: AcceptorConfig,
    unauthenticated: BTreeMap<K, Unauthenticated>,
    known: BTreeMap<SessionId, SessionRecord>,
    /// The number of known sessions that have not ended.
    going_on: usize,
    /// The ended sessions with the times at which they are forgotten, in ascending order.
    tombstones: VecDeque<(Instant, SessionId)>,
    /// The clients' own ids of sessions whose ACCEPT was not yet answered, mapped to the sessions' ids.
    hellos: BTreeMap<SessionId, SessionId>,
    refused: u64,
    is_retired: bool,
}

impl<K: Ord + Copy> Acceptor<K> {
    /// Creates an acceptor without sessions.
    pub fn new(config: AcceptorConfig) -> Self {
        Self {
            config,
            unauthenticated: BTreeMap::new(),
            known: BTreeMap::new(),
            going_on: 0,
            tombstones: VecDeque::new(),
            hellos: BTreeMap::new(),
            refused: 0,
            is_retired: false,
        }
    }

    /// Refuses new sessions from now on. Carriers may still join the existing sessions.
    pub fn retire(&mut self) {
        self.is_retired = true;
    }

    /// Returns true if new sessions are refused.
    pub fn is_retired(&self) -> bool {
        self.is_retired
    }

    /// Registers a carrier that has connected. `random` must be unpredictable bits. Returns the bytes to
    /// write to the carrier first, if any.
    ///
    /// # Errors
    /// Too many carriers are unauthenticated; the caller closes this one.
    pub fn accepted(
        &mut self,
        key: K,
        exporter: Option<Exporter>,
        random: [u8; 28],
        now: Instant,
    ) -> Result<Option<Bytes>, Refusal> {
        if self.unauthenticated.len() >= self.config.unauthenticated {
            self.refused += 1;
            return Err(Refusal::Limit);
        }
        let (mut challenge, mut name) = ([0; 16], [0; 12]);
        challenge.copy_from_slice(&random[..16]);
        name.copy_from_slice(&random[16..]);
        let first =
            (exporter.is_none() && self.config.insecure).then(|| encode(&Segment::Challenge(challenge)));
        let so_far = BytesMut::new();
        let until = now + self.config.timeout;
        self.unauthenticated.insert(
            key,
            Unauthenticated { exporter, challenge, random: name, so_far, until },
        );
        Ok(first)
    }

    /// Forgets a carrier that ended before its proof.
    pub fn left(&mut self, key: K) {
        self.unauthenticated.remove(&key);
    }

    /// Takes bytes of a carrier that has not yet proved anything. `scheduler` makes the scheduler of a new
    /// session.
    pub fn received(
        &mut self,
        key: K,
        bytes: Bytes,
        scheduler: impl FnOnce() -> Box<dyn Scheduler>,
        now: Instant,
    ) -> CarrierDecision {
        let Some(peer) = self.unauthenticated.get_mut(&key) else {
            return self.refuse(Refusal::Protocol);
        };
        // A transport may hand over more at once than the limit allows. Only the first segment counts, and it
        // must be complete within the limit.
        let whole = if peer.so_far.is_empty() {
            bytes
        } else {
            peer.so_far.extend_from_slice(&bytes);
            peer.so_far.split().freeze()
        };
        let mut decoder = Decoder::new();
        decoder.push(whole.clone());
        let verdict = match decoder.next() {
            Ok(Some(Incoming::Control(Segment::Hello(hello), text))) => {
                let rest = decoder.into_rest();
                self.begin(key, &hello, &text, rest, scheduler, now)
            }
            Ok(Some(Incoming::Control(Segment::Join(join), _))) => {
                let rest = decoder.into_rest();
                self.join(key, &join, rest)
            }
            Ok(None) if whole.len() < BEFORE_PROOF => {
                peer.so_far.extend_from_slice(&whole);
                return CarrierDecision::More;
            }
            Ok(_) | Err(_) => self.refuse(Refusal::Protocol),
        };
        self.unauthenticated.remove(&key);
        verdict
    }

    fn begin(
        &mut self,
        key: K,
        hello: &Hello,
        text: &[u8],
        rest: Bytes,
        scheduler: impl FnOnce() -> Box<dyn Scheduler>,
        now: Instant,
    ) -> CarrierDecision {
        let Some(peer) = self.unauthenticated.get(&key) else {
            return self.refuse(Refusal::Protocol);
        };
        let secured = peer.exporter.is_some();
        if hello.lowest > VERSION {
            return self.refuse(Refusal::Version);
        }
        let fits = match hello.security {
            Security::Tls => secured,
            Security::None => self.config.insecure,
        };
        if !fits {
            return self.refuse(Refusal::Security);
        }
        let again = self.hellos.get(&hello.session).copied();
        if again.is_none() && (self.is_retired || self.going_on >= self.config.sessions) {
            return self.refuse(Refusal::Limit);
        }
        // A newer HELLO has overtaken this one, or another client uses the same id.
        let before = again
            .and_then(|id| self.known.get(&id))
            .and_then(|known| known.hello);
        if before.is_some_and(|(_, attempt)| attempt >= hello.attempt) {
            return self.refuse(Refusal::Unknown);
        }
        let id = again.unwrap_or_else(|| self.name(&peer.random));
        let mut config = self.config.session.clone();
        config.security = hello.security;
        config.max_credit = config
            .max_credit
            .max(config.session_credit)
            .max(config.stream_credit);
        config.session_credit = config.session_credit.min(FIRST_CREDIT);
        config.stream_credit = config.stream_credit.min(FIRST_CREDIT);
        let mut accept = config.hello(id, CarrierId(hello.number), hello.attempt);
        accept.addresses = self.config.addresses.clone();
        accept.name = self.config.name.clone();
        let answer = encode(&Segment::Accept(accept));
        let secret = match (&peer.exporter, hello.security) {
            (Some(exporter), Security::Tls) => Secret::secured(exporter, text, &answer),
            _ => Secret::insecure(id),
        };
        let security = hello.security;
        let mut numbers = again
            .and_then(|id| self.known.get(&id))
            .map(|known| known.numbers)
            .unwrap_or_default();
        if !numbers.take(hello.number) {
            return self.refuse(Refusal::Protocol);
        }
        let hello_of = Some((hello.session, hello.attempt));
        let known = SessionRecord { secret, security, hello: hello_of, numbers, is_over: false };
        if self.known.insert(id, known).is_none() {
            self.going_on += 1;
        }
        self.hellos.insert(hello.session, id);
        let carrier = CarrierId(hello.number);
        if again.is_some() {
            return CarrierDecision::Join { session: id, carrier, backup: false, answer, rest };
        }
        let mut session = Box::new(Session::server(config, scheduler(), id, hello, now));
        self.share_secret(&mut session);
        CarrierDecision::Begin { session, carrier, answer, rest }
    }

    fn join(&mut self, key: K, join: &Join, rest: Bytes) -> CarrierDecision {
        let Some(peer) = self.unauthenticated.get(&key) else {
            return self.refuse(Refusal::Protocol);
        };
        if self.belongs_elsewhere(join.session) {
            return self.refuse(Refusal::WrongServer);
        }
        // The same work is done whether or not the session is known.
        let nobody = Secret::insecure(join.session);
        let known = self.known.get(&join.session);
        let secret = known.map_or(&nobody, |known| &known.secret);
        let binding: &[u8] = match (&peer.exporter, known.map(|known| known.security)) {
            (Some(exporter), Some(Security::Tls) | None) => exporter,
            (_, Some(Security::None) | None) => &peer.challenge,
            (None, Some(Security::Tls)) => &[],
        };
        let right = secret.join(binding, join.session, join.backup, join.number);
        let proved = same(&right, &join.proof) && !binding.is_empty();
        let Some(known) = self.known.get_mut(&join.session).filter(|_| proved) else {
            return self.refuse(Refusal::Unknown);
        };
        if known.is_over {
            return self.refuse(Refusal::Gone);
        }
        if !known.numbers.take(join.number) {
            return self.refuse(Refusal::Unknown);
        }
        let proof = known
            .secret
            .joined(binding, join.session, join.backup, join.number);
        if let Some((hello, _)) = known.hello.take() {
            self.hellos.remove(&hello);
        }
        let answer = encode(&Segment::Joined { number: join.number, proof });
        let carrier = CarrierId(join.number);
        CarrierDecision::Join { session: join.session, carrier, backup: join.backup, answer, rest }
    }

    /// Gives the session its secret. A repeated HELLO has replaced the earlier one.
    pub fn share_secret(&self, session: &mut Session) {
        if let Some(known) = self.known.get(&session.id()) {
            session.set_secret(known.secret.clone());
        }
    }

    /// Returns the sessions whose client has not answered ACCEPT, as far as is known.
    pub fn unconfirmed(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.hellos.values().copied()
    }

    /// Records that the session's client has answered ACCEPT and will not send HELLO again.
    pub fn confirmed(&mut self, session: SessionId) {
        if let Some((hello, _)) = self.known.get_mut(&session).and_then(|known| known.hello.take()) {
            self.hellos.remove(&hello);
        }
    }

    /// Returns true if the session's client has answered ACCEPT.
    pub fn is_confirmed(&self, session: SessionId) -> bool {
        self.known
            .get(&session)
            .is_some_and(|known| known.hello.is_none())
    }

    /// Records that the session has ended. Late joins are answered accordingly for 60 s, unless thousands of
    /// sessions end after it.
    pub fn ended(&mut self, session: SessionId, now: Instant) {
        self.confirmed(session);
        let Some(known) = self.known.get_mut(&session).filter(|known| !known.is_over) else {
            return;
        };
        known.is_over = true;
        self.going_on -= 1;
        self.tombstones.push_back((now + TOMBSTONE, session));
        if self.tombstones.len() > TOMBSTONES {
            self.bury();
        }
    }

    /// Forgets the session that ended first.
    fn bury(&mut self) {
        if let Some((_, session)) = self.tombstones.pop_front() {
            self.known.remove(&session);
        }
    }

    /// Forgets ended sessions, and returns the carriers that took too long to prove anything, for the caller
    /// to close. To be called about once a second.
    pub fn sweep(&mut self, now: Instant) -> Vec<K> {
        while self.tombstones.front().is_some_and(|(at, _)| *at <= now) {
            self.bury();
        }
        let late: Vec<K> = self
            .unauthenticated
            .iter()
            .filter(|(_, peer)| peer.until <= now)
            .map(|(&key, _)| key)
            .collect();
        for key in &late {
            self.unauthenticated.remove(key);
            self.refused += 1;
        }
        late
    }

    /// The number of carriers that were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The number of sessions that have not ended.
    pub fn sessions(&self) -> usize {
        self.going_on
    }

    fn refuse(&mut self, refusal: Refusal) -> CarrierDecision {
        self.refused += 1;
        let text = match refusal {
            Refusal::Version => "this server speaks version 1",
            Refusal::Unknown => "no such session here",
            Refusal::WrongServer => "join at the addresses of ACCEPT",
            Refusal::Limit => "too many sessions",
            Refusal::Security => "that security is not offered",
            Refusal::Protocol => "not understood",
            Refusal::Gone => "the session has ended",
            Refusal::Other(_) => "",
        };
        CarrierDecision::Refuse {
            refusal,
            answer: encode(&Segment::Refused { refusal, text: text.into() }),
        }
    }

    /// Makes a session's id from a format number, the server's number and random bits
    /// (docs/session-protocol.md, "Balancers").
    fn name(&self, random: &[u8; 12]) -> SessionId {
        let mut name = [0; 16];
        name[0] = 1;
        name[1..4].copy_from_slice(&self.config.server.to_be_bytes()[1..]);
        name[4..].copy_from_slice(random);
        SessionId(name)
    }

    fn belongs_elsewhere(&self, session: SessionId) -> bool {
        session.0[0] == 1 && session.0[1..4] != self.config.server.to_be_bytes()[1..]
    }
}

/// The carrier numbers that were used. Each may be used only once.
#[derive(Clone, Copy, Debug, Default)]
struct UsedNumbers {
    /// One above the highest used number. `seen` has a bit for each of the 64 numbers below it.
    above: u64,
    seen: u64,
}

impl UsedNumbers {
    /// Marks `number` as used, and returns true if it was new.
    fn take(&mut self, number: u32) -> bool {
        let number = u64::from(number);
        if number >= self.above {
            let step = number + 1 - self.above;
            self.seen = if step < 64 { self.seen << step | 1 } else { 1 };
            self.above = number + 1;
            return true;
        }
        let back = self.above - 1 - number;
        if back >= 64 || self.seen >> back & 1 == 1 {
            return false;
        }
        self.seen |= 1 << back;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a HELLO whose session id ends in `session`, laid out as in `docs/session-protocol.md`.
    fn hello(session: u32) -> Bytes {
        let mut hello = vec![1, 52, 0, 0, 0, 0, 0, 52, 1, 1, 1, 8];
        hello.extend_from_slice(&1_024u32.to_be_bytes());
        hello.extend_from_slice(&[&[9; 12][..], &session.to_be_bytes()].concat());
        hello.extend_from_slice(&[0; 8]);
        hello.extend_from_slice(&(1u64 << 20).to_be_bytes());
        hello.extend_from_slice(&0u32.to_be_bytes());
        hello.into()
    }

    fn random(session: u32) -> [u8; 28] {
        let mut random = [0; 28];
        random[24..].copy_from_slice(&session.to_be_bytes());
        random
    }

    fn begin(acceptor: &mut Acceptor<u32>, number: u32) -> Option<SessionId> {
        acceptor
            .accepted(number, None, random(number), Instant::ORIGIN)
            .expect("a place");
        let make = || crate::scheduler::by_name("ecf").expect("it comes with Hawser");
        match acceptor.received(number, hello(number), make, Instant::ORIGIN) {
            CarrierDecision::Begin { session, .. } => Some(session.id()),
            _ => None,
        }
    }

    #[test]
    fn each_session_counts_once_and_ends_once() {
        let config = AcceptorConfig { insecure: true, sessions: 2, ..AcceptorConfig::default() };
        let mut acceptor: Acceptor<u32> = Acceptor::new(config);
        let first = begin(&mut acceptor, 1).expect("a place");
        let second = begin(&mut acceptor, 2).expect("a place");
        assert!(begin(&mut acceptor, 3).is_none(), "both places are taken");
        assert!(!acceptor.is_confirmed(second));
        acceptor.confirmed(second);
        assert!(acceptor.is_confirmed(second));
        acceptor.ended(first, Instant::ORIGIN);
        acceptor.ended(first, Instant::ORIGIN);
        assert_eq!(acceptor.sessions(), 1);
        begin(&mut acceptor, 4).expect("a place is free again, and one");
        assert!(begin(&mut acceptor, 5).is_none());
    }

    #[test]
    fn ended_sessions_are_remembered_up_to_a_number() {
        let config = AcceptorConfig { insecure: true, ..AcceptorConfig::default() };
        let mut acceptor: Acceptor<u32> = Acceptor::new(config);
        let more = TOMBSTONES as u32 + 100;
        for number in 0..more {
            let session = begin(&mut acceptor, number).expect("a place");
            acceptor.ended(session, Instant::ORIGIN);
        }
        assert_eq!(
            (
                acceptor.known.len(),
                acceptor.tombstones.len(),
                acceptor.sessions()
            ),
            (TOMBSTONES, TOMBSTONES, 0)
        );
        assert!(acceptor.sweep(Instant::after(TOMBSTONE)).is_empty());
        assert_eq!(
            (
                acceptor.known.len(),
                acceptor.tombstones.len(),
                acceptor.hellos.len()
            ),
            (0, 0, 0)
        );
    }
}
