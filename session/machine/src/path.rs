//! The session's state of one of its carriers.

use std::collections::BTreeSet;
use std::time::Duration;

use hawser_carriers::Statistics;
use hawser_time::Instant;

use crate::CarrierId;
use crate::secret::Exporter;
use crate::segment::{Decoder, PathStatus};
use crate::stream::Rank;

/// The stage of a carrier's admission to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CarrierState {
    /// Connected, but the session may not send yet: it has not been accepted, or the server's challenge has
    /// not arrived.
    Waiting,
    /// HELLO was sent.
    Greeting,
    /// JOIN was sent.
    Joining,
    /// The carrier belongs to the session.
    Live,
}

/// The reason why a live carrier gets no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// Its transport has had data outstanding for a whole PTO, and nothing came back. Holds the time since
    /// when.
    Unacknowledged(Instant),
    /// One side reports that its link is down.
    Failing,
}

/// The time from handing bytes to a carrier until they are acknowledged, including their wait in the
/// transport's queue. It is measured with one mark at a time in the bytes that the transport has taken. The
/// round-trip time does not show it, because it excludes the queue.
#[derive(Clone, Copy, Debug, Default)]
struct Delay {
    /// The time at which the mark was set, and the count of acknowledged bytes at which it is reached.
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

    /// Returns the delay of the last mark, or the age of the current mark if that is longer.
    fn at(&self, now: Instant) -> Duration {
        self.mark
            .map_or(self.last, |(since, _)| self.last.max(now - since))
    }
}

/// The minimum time that a peer has to answer a PING, generous enough for a busy peer.
const ANSWER: Duration = Duration::from_secs(1);

/// The interval at which figures are requested from a transport that its peer's window blocks. The path is
/// sound, and the peer may take its time.
const BLOCKED: Duration = Duration::from_secs(1);

/// The time for which received segments count as a sign of life while our long packets are not acknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(1);

/// One carrier of a session.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) id: CarrierId,
    pub(crate) state: CarrierState,
    pub(crate) suspicion: Option<Suspicion>,
    /// True if the bytes that it carried when it was suspected were sent again on other carriers.
    pub(crate) resent: bool,
    /// The count of bytes, on the scale of `statistics.acked`, that its transport had been given when it
    /// became suspected or held up the others.
    pub(crate) doubted_until: u64,
    /// The time from handing bytes to it until they are acknowledged.
    delay: Delay,
    /// The statuses that this side and the peer want, each with the number of its last PATH_STATUS.
    pub(crate) ours: (PathStatus, u64),
    pub(crate) theirs: (PathStatus, u64),
    pub(crate) exporter: Option<Exporter>,
    /// The server's random bytes, on a carrier without TLS.
    pub(crate) challenge: Option<[u8; 16]>,
    pub(crate) statistics: Statistics,
    /// The time of the last report of `statistics`.
    pub(crate) examined_at: Instant,
    /// The time at which `statistics.acked` last moved, or data became outstanding.
    pub(crate) progress_at: Instant,
    /// The same, but not changed by suspicion in between.
    acked_at: Instant,
    /// Bytes that its transport can take now.
    pub(crate) room: usize,
    /// Bytes of control segments that were handed over while it had no room.
    pub(crate) overdraft: usize,
    pub(crate) decoder: Decoder,
    /// With redundant scheduling, the streams that may have outstanding bytes this carrier has not been
    /// given, in sending order.
    pub(crate) copies: BTreeSet<Rank>,
    pub(crate) weight: u32,
    pub(crate) cost: u32,
    /// The number of the path to which it belongs (client).
    pub(crate) number: u32,
    /// Bytes left of that path's quota.
    pub(crate) quota: Option<u64>,
    /// The time since when this side wants it closed.
    pub(crate) closing_since: Option<Instant>,
    /// The times at which a segment was last received and last sent.
    pub(crate) received_at: Instant,
    pub(crate) sent_at: Instant,
    /// The token of an unanswered PING and the time at which it left.
    pub(crate) ping: Option<(u64, Instant)>,
    /// The time of the last answer to a PING.
    pub(crate) answered_at: Instant,
    pub(crate) counts: PathCounts,
}

/// Byte counts of one carrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Bytes handed to it, including headers and control segments.
    pub sent: u64,
    /// Bytes received from it, including headers and control segments.
    pub received: u64,
    /// Stream bytes that were first sent on it.
    pub fresh: u64,
    /// Stream bytes sent on it that another carrier had already been given.
    pub again: u64,
    /// Stream bytes received from it.
    pub delivered: u64,
    /// Stream bytes received from it that had already been received.
    pub duplicate: u64,
    /// The number of times it was suspected.
    pub suspected: u64,
}

impl Path {
    pub(crate) fn new(id: CarrierId, state: CarrierState, exporter: Option<Exporter>, now: Instant) -> Self {
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

    /// Returns the bytes that bind a proof to this carrier.
    pub(crate) fn binding(&self) -> &[u8] {
        match (&self.exporter, &self.challenge) {
            (Some(exporter), _) => exporter,
            (None, Some(challenge)) => challenge,
            (None, None) => &[],
        }
    }

    /// Returns true if control segments may be sent on it and are likely to arrive.
    pub(crate) fn is_healthy(&self) -> bool {
        self.state == CarrierState::Live && self.suspicion.is_none()
    }

    /// Returns true if the transport has been given so much beyond its room that it gets no more. Otherwise a
    /// peer that keeps asking and never reads would fill memory.
    pub(crate) fn is_choked(&self) -> bool {
        const MAX_OVERDRAFT: usize = 65_536;
        self.overdraft > MAX_OVERDRAFT
    }

    /// Returns true if its bytes may arrive later than other carriers need to deliver them. This holds while
    /// it is suspected. It also holds after it was suspected or held up the others, until its transport has
    /// delivered the data outstanding at that time. After an outage, that takes long. Timeouts have doubled,
    /// and the first acknowledgement is for a packet from before, which yields a round trip of seconds.
    pub(crate) fn is_doubted(&self) -> bool {
        let statistics = &self.statistics;
        let repairs = statistics.outstanding() > 0 && statistics.acked < self.doubted_until;
        self.suspicion.is_some() || repairs
    }

    /// Returns true if marking it as degraded has an effect.
    pub(crate) fn can_be_doubted(&self) -> bool {
        self.statistics.outstanding() > 0 && !self.is_doubted()
    }

    /// Marks it as degraded. Until its transport has delivered the data outstanding now, other carriers send
    /// its bytes, too.
    pub(crate) fn mark_doubted(&mut self) {
        self.resent = false;
        self.doubted_until = self.statistics.acked + self.statistics.outstanding();
    }

    /// Returns the estimated time until the peer's transport has its last bytes. This is the larger of the
    /// estimate from its statistics and the delay of earlier bytes.
    pub(crate) fn arrival(&self, now: Instant) -> Duration {
        self.statistics.arrival().max(self.delay.at(now))
    }

    /// Returns true if data may be sent on it. `backups` allows backup paths.
    pub(crate) fn takes_data(&self, backups: bool) -> bool {
        let status = self.status();
        let joined = matches!(
            self.state,
            CarrierState::Live | CarrierState::Joining | CarrierState::Greeting
        );
        joined
            && self.suspicion.is_none()
            && (status == PathStatus::Active && !self.is_doubted() || backups && status <= PathStatus::Backup)
            && self.quota.is_none_or(|left| left > 0)
    }

    /// Returns the status that both sides want, of the two the more restrictive one.
    pub(crate) fn status(&self) -> PathStatus {
        self.ours.0.max(self.theirs.0)
    }

    /// Counts bytes that were handed over.
    pub(crate) fn spend(&mut self, bytes: u64, now: Instant) {
        let length = bytes as usize;
        self.overdraft += length.saturating_sub(self.room);
        self.room = self.room.saturating_sub(length);
        self.counts.sent += bytes;
        self.sent_at = now;
        self.charge(bytes);
    }

    /// Counts bytes against the quota. A sixteenth is added for acknowledgements and for the headers of
    /// transport and network: 52 bytes and TLS's 22 in packets of 1,448 bytes.
    pub(crate) fn charge(&mut self, bytes: u64) {
        if let Some(left) = &mut self.quota {
            *left = left.saturating_sub(bytes + bytes / 16);
        }
    }

    /// Takes the transport's newest figures.
    pub(crate) fn update(&mut self, new: Statistics, now: Instant) {
        let began = self.statistics.outstanding() == 0 && new.outstanding() > 0;
        if new.acked > self.statistics.acked || began || new.blocked {
            (self.progress_at, self.acked_at) = (now, now);
        }
        (self.statistics, self.examined_at) = (new, now);
        self.delay.update(&new, now);
    }

    /// Returns the time at which the transport's figures must be reported again without other activity.
    /// Progress counts from the report that shows it, so there are four reports in a PTO while data is
    /// outstanding.
    pub(crate) fn examine_at(&self) -> Option<Instant> {
        let is_suspected = matches!(self.suspicion, Some(Suspicion::Unacknowledged(_)));
        let every = match self.statistics.blocked {
            true => BLOCKED,
            false => self.statistics.probe_timeout() / 4,
        };
        (is_suspected || self.statistics.outstanding() > 0).then(|| self.examined_at + every)
    }

    /// Returns the time of a PING that the peer's transport has acknowledged, if nothing has arrived since.
    /// In that case, the peer's segments do not get through.
    pub(crate) fn unanswered_since(&self) -> Option<Instant> {
        let (_, asked_at) = self.ping?;
        (asked_at >= self.received_at && self.statistics.outstanding() == 0).then_some(asked_at)
    }

    /// Returns the time at which it becomes suspect unless something arrives.
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

    /// Returns the time of its last sign of life.
    ///
    /// Received data is a sign, too, because a transport sends new data only while this side acknowledges it.
    /// The peer's acknowledgements may wait behind that data, in a queue that has grown since this side,
    /// which sends little, measured a round trip. But where long packets may be lost, received data does not
    /// prove indefinitely that this side's packets arrive.
    pub(crate) fn alive_at(&self) -> Instant {
        let received_at = match self.statistics.oversized {
            true => self.received_at.min(self.acked_at + UNACKNOWLEDGED),
            false => self.received_at,
        };
        self.progress_at.max(received_at)
    }
}
