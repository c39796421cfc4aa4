//! What a session knows of one of its carriers.

use std::collections::BTreeSet;
use std::time::Duration;

use hawser_carrier::Statistics;
use hawser_time::Instant;

use crate::CarrierId;
use crate::secret::Exporter;
use crate::segment::{Decoder, PathStatus};
use crate::stream::Rank;

/// How far a carrier has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Connected; nothing may be sent yet: the session has not been accepted, or the server's
    /// challenge has not come.
    Waiting,
    /// HELLO was sent.
    Greeting,
    /// JOIN was sent.
    Joining,
    /// It belongs to the session.
    Live,
}

/// Why no data goes on a carrier that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// Its transport had data outstanding for a whole PTO, and nothing came back; since when.
    Unacknowledged(Instant),
    /// One side reports that its link is down.
    Failing,
}

/// The time that bytes are under way on a carrier, behind whatever waits before them: measured by one mark at a time in
/// what its transport has taken. A round trip does not show that, as what waits in the transport has no share in it.
#[derive(Clone, Copy, Debug, Default)]
struct Delay {
    /// When the mark was set, and up to where bytes are acknowledged when it is reached.
    mark: Option<(Instant, u64)>,
    last: Duration,
}

impl Delay {
    fn update(&mut self, statistics: &Statistics, now: Instant) {
        if let Some((since, _)) = self.mark.take_if(|(_, upto)| *upto <= statistics.acked) {
            self.last = now - since;
        }
        match statistics.outstanding() {
            0 => *self = Self::default(),
            bytes => drop(self.mark.get_or_insert((now, statistics.acked + bytes))),
        }
    }

    /// The delay of the last mark, or of the present one if it is longer already.
    fn at(&self, now: Instant) -> Duration {
        self.mark
            .map_or(self.last, |(since, _)| self.last.max(now - since))
    }
}

/// How long the answer to a PING may take: more than a busy peer needs.
const ANSWER: Duration = Duration::from_secs(1);

/// How often a transport that its peer's window holds back is asked for its figures: nothing is wrong with the
/// path, and the peer may take its time.
const BLOCKED: Duration = Duration::from_secs(1);

/// For how long what comes is a sign of life, while long packets of ours are not acknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(1);

/// One carrier of a session.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) id: CarrierId,
    pub(crate) state: State,
    pub(crate) suspicion: Option<Suspicion>,
    /// The bytes that it carried when it was doubted were sent again elsewhere.
    pub(crate) resent: bool,
    /// The bytes that its transport had been given, as `statistics.acked` counts, when it was doubted.
    pub(crate) doubted_until: u64,
    /// The time that bytes are under way on it.
    delay: Delay,
    /// What this side and the peer want of it, and the numbers of the last PATH_STATUS on it.
    pub(crate) ours: (PathStatus, u64),
    pub(crate) theirs: (PathStatus, u64),
    pub(crate) exporter: Option<Exporter>,
    /// The server's random bytes, on a carrier without TLS.
    pub(crate) challenge: Option<[u8; 16]>,
    pub(crate) statistics: Statistics,
    /// When they were reported last.
    pub(crate) examined_at: Instant,
    /// When `statistics.acked` moved last, or data became outstanding.
    pub(crate) progress_at: Instant,
    /// The same, whatever the session thought of it in between.
    acked_at: Instant,
    /// Bytes that its transport takes now.
    pub(crate) room: usize,
    /// Bytes of control segments that were handed over since it had no room.
    pub(crate) overdraft: usize,
    pub(crate) decoder: Decoder,
    /// Streams of which bytes may be under way that it has not had, in the order of sending; where every
    /// carrier gets every byte.
    pub(crate) copies: BTreeSet<Rank>,
    pub(crate) weight: u32,
    pub(crate) cost: u32,
    /// The number of the path that it is on (client).
    pub(crate) number: u32,
    /// Bytes left of that path's quota.
    pub(crate) quota: Option<u64>,
    /// Since when this side wants it closed.
    pub(crate) closing_since: Option<Instant>,
    /// When a segment came last, and when one was sent.
    pub(crate) received_at: Instant,
    pub(crate) sent_at: Instant,
    /// A PING that was not answered: its token, and when it left.
    pub(crate) ping: Option<(u64, Instant)>,
    /// When the last answer to a PING came.
    pub(crate) answered_at: Instant,
    pub(crate) counts: PathCounts,
}

/// What went over a carrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Bytes handed to it, headers and control segments included.
    pub sent: u64,
    /// Bytes that came from it, headers and control segments included.
    pub received: u64,
    /// Bytes of streams sent on it for the first time.
    pub fresh: u64,
    /// Bytes of streams sent on it that another carrier had already been given.
    pub again: u64,
    /// Bytes of streams that came from it.
    pub delivered: u64,
    /// Bytes of streams that came from it and were here already.
    pub duplicate: u64,
    /// How often it was suspected.
    pub suspected: u64,
}

impl Path {
    pub(crate) fn new(id: CarrierId, state: State, exporter: Option<Exporter>, now: Instant) -> Self {
        Self {
            id,
            state,
            suspicion: None,
            resent: false,
            doubted_until: 0,
            delay: Delay::default(),
            ours: (PathStatus::Active, 0),
            theirs: (PathStatus::Active, 0),
            exporter,
            challenge: None,
            statistics: Statistics::default(),
            examined_at: now,
            progress_at: now,
            acked_at: now,
            room: 0,
            overdraft: 0,
            decoder: Decoder::new(),
            copies: BTreeSet::new(),
            weight: 1,
            cost: 0,
            number: 0,
            quota: None,
            closing_since: None,
            received_at: now,
            sent_at: now,
            ping: None,
            answered_at: Instant::ORIGIN,
            counts: PathCounts::default(),
        }
    }

    /// What a proof on this carrier is bound to.
    pub(crate) fn binding(&self) -> &[u8] {
        match (&self.exporter, &self.challenge) {
            (Some(exporter), _) => exporter,
            (None, Some(challenge)) => challenge,
            (None, None) => &[],
        }
    }

    /// Control segments may go on it, and are likely to arrive.
    pub(crate) fn is_healthy(&self) -> bool {
        self.state == State::Live && self.suspicion.is_none()
    }

    /// Whether its transport has taken so much without room that nothing more is handed over: a
    /// peer that asks and never reads would fill memory.
    pub(crate) fn is_choked(&self) -> bool {
        const MAX_OVERDRAFT: usize = 65_536;
        self.overdraft > MAX_OVERDRAFT
    }

    /// Its bytes may be late for longer than others need to carry it: it is suspected, or was, or it held the
    /// others up, and its transport has not yet delivered what was outstanding then. After an outage that takes
    /// long: timeouts have doubled, and the first acknowledgement is for a packet from before, a round trip of
    /// seconds.
    pub(crate) fn is_doubted(&self) -> bool {
        let statistics = &self.statistics;
        let repairs = statistics.outstanding() > 0 && statistics.acked < self.doubted_until;
        self.suspicion.is_some() || repairs
    }

    /// Whether doubting it changes anything.
    pub(crate) fn can_be_doubted(&self) -> bool {
        self.statistics.outstanding() > 0 && !self.is_doubted()
    }

    /// Doubts it: until its transport has delivered what is outstanding now, others carry what it carries.
    pub(crate) fn mark_doubted(&mut self) {
        self.resent = false;
        self.doubted_until = self.statistics.acked + self.statistics.outstanding();
    }

    /// The time that its last bytes may be under way until the peer's transport has it: as its statistics have
    /// it, or longer if what it took before is under way for longer.
    pub(crate) fn arrival(&self, now: Instant) -> Duration {
        self.statistics.arrival().max(self.delay.at(now))
    }

    /// Data may go on it, if `backups` may be used.
    pub(crate) fn takes_data(&self, backups: bool) -> bool {
        let status = self.status();
        let joined = matches!(self.state, State::Live | State::Joining | State::Greeting);
        joined
            && self.suspicion.is_none()
            && (status == PathStatus::Active && !self.is_doubted() || backups && status <= PathStatus::Backup)
            && self.quota.is_none_or(|left| left > 0)
    }

    /// What both sides want of it: the more cautious of the two.
    pub(crate) fn status(&self) -> PathStatus {
        self.ours.0.max(self.theirs.0)
    }

    /// Counts bytes handed over.
    pub(crate) fn spend(&mut self, bytes: u64, now: Instant) {
        let length = bytes as usize;
        self.overdraft += length.saturating_sub(self.room);
        self.room = self.room.saturating_sub(length);
        self.counts.sent += bytes;
        self.sent_at = now;
        self.charge(bytes);
    }

    /// Counts bytes against the quota, with a sixteenth more for the headers of transport and
    /// network: 52 bytes and TLS's 22 in packets of 1,448, and acknowledgements.
    pub(crate) fn charge(&mut self, bytes: u64) {
        if let Some(left) = &mut self.quota {
            *left = left.saturating_sub(bytes + bytes / 16);
        }
    }

    /// Takes its transport's newest figures.
    pub(crate) fn update(&mut self, new: Statistics, now: Instant) {
        let began = self.statistics.outstanding() == 0 && new.outstanding() > 0;
        if new.acked > self.statistics.acked || began || new.blocked {
            (self.progress_at, self.acked_at) = (now, now);
        }
        (self.statistics, self.examined_at) = (new, now);
        self.delay.update(&new, now);
    }

    /// When its transport's figures are to be reported anew although nothing came or went. Progress counts from
    /// the report that shows it: while something is outstanding there are four in a PTO.
    pub(crate) fn examine_at(&self) -> Option<Instant> {
        let is_suspected = matches!(self.suspicion, Some(Suspicion::Unacknowledged(_)));
        let every = match self.statistics.blocked {
            true => BLOCKED,
            false => self.statistics.probe_timeout() / 4,
        };
        (is_suspected || self.statistics.outstanding() > 0).then(|| self.examined_at + every)
    }

    /// When a PING left since which nothing has come, though the peer's transport has it: what the peer
    /// sends does not get through.
    pub(crate) fn unanswered_since(&self) -> Option<Instant> {
        let (_, asked_at) = self.ping?;
        (asked_at >= self.received_at && self.statistics.outstanding() == 0).then_some(asked_at)
    }

    /// When it becomes suspect if nothing is received.
    pub(crate) fn suspect_at(&self) -> Option<Instant> {
        if let Some(asked_at) = self.unanswered_since() {
            return self
                .suspicion
                .is_none()
                .then(|| asked_at + self.statistics.probe_timeout().max(ANSWER));
        }
        let outstanding = self.statistics.outstanding() > 0 && !self.statistics.blocked;
        (outstanding && self.suspicion.is_none()).then(|| self.alive_at() + self.statistics.probe_timeout())
    }

    /// Its last sign of life.
    ///
    /// Whatever comes is one, too: a transport sends new data only as long as ours acknowledges it. Its own
    /// acknowledgements may wait behind that data in a queue which has grown since this side, that sends
    /// little, measured a round trip. But where long packets may be lost, what comes does not show for ever
    /// that ours arrive.
    pub(crate) fn alive_at(&self) -> Instant {
        let received_at = match self.statistics.oversized {
            true => self.received_at.min(self.acked_at + UNACKNOWLEDGED),
            false => self.received_at,
        };
        self.progress_at.max(received_at)
    }
}
