//! The session: what both sides share.
//!
//! The files beside this one hold a concern each: `begin` (HELLO, ACCEPT, JOIN), `incoming` (what
//! came), `acknowledge` (acknowledgements, credit and other control segments), `outgoing` (which bytes go where), `liveness` (dead
//! and suspected carriers, keep-alive, the session's own clock), `end` (CLOSE), `application` (what
//! applications call), `report`.

mod acknowledge;
mod application;
mod begin;
mod end;
mod incoming;
mod liveness;
mod outgoing;
mod quota;
mod report;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use hawser_carrier::Statistics;
use hawser_time::Instant;

pub use application::{ReadError, StreamError};
pub use end::SessionEnd;
pub use report::{Counters, Held, PathReport, PathState};

use crate::CarrierId;
use crate::config::Config;
use crate::opening::Opener;
use crate::path::{Path, PathCounts};
use crate::scheduler::{PathView, Scheduler};
use crate::secret::{Exporter, Secret};
use crate::segment::{Malformed, Refusal, Segment, SessionId, encode};
use crate::send::Slots;
use crate::stream::Rank;
use crate::streams::Streams;
use crate::window::Window;

/// The maximum number of carriers that a session can have: the bits of [`Slots`].
const SLOTS: usize = 64;
/// What a client may send before ACCEPT, and the least that a session takes at once: the small
/// requests and uploads that this covers need no round trip of their own. The first windows of TCP and
/// QUIC hold less, so that nothing more is sent for it into a network that is not yet known.
const EARLY_CREDIT: u64 = 64 << 10;
/// The streams that a client may open before ACCEPT, and the least that a session allows.
const EARLY_STREAMS: u32 = 128;
/// The maximum number of pieces out of order that a session keeps.
const MAX_PIECES: usize = 65_536;
/// The same before the application has accepted the session: more than the full packets that its first
/// credit holds.
const PIECES_BEFORE_ACCEPT: usize = 1_024;

/// The code of CLOSE with which an application ends a session because its user has interrupted it.
pub const INTERRUPTED: u64 = 10;

/// Codes of CLOSE that the protocol itself uses.
pub(crate) mod code {
    pub(crate) const DONE: u64 = 0;
    pub(crate) const CREDIT_OVERRUN: u64 = 1;
    pub(crate) const FINAL_SIZE: u64 = 2;
    pub(crate) const LIMIT: u64 = 3;
    pub(crate) const PROTOCOL: u64 = 4;
}

/// What the machine wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Open a carrier by candidate number `candidate` of the configuration.
    Connect {
        /// The number that the new carrier has from now on.
        carrier: CarrierId,
        /// Index into [`Config::candidates`].
        candidate: usize,
        /// With packets that every path takes: longer ones may have been lost for their length.
        small: bool,
    },
    /// Write `head` and then `body` to the carrier, after all before.
    Send {
        /// The carrier.
        carrier: CarrierId,
        /// A header, or a whole control segment.
        head: Bytes,
        /// Bytes of a stream; may be empty.
        body: Bytes,
    },
    /// Close the carrier: when everything written has been sent, or at once with a reset.
    Close {
        /// The carrier.
        carrier: CarrierId,
        /// Do not wait for what is in the transport's buffers (SO_LINGER 0).
        abort: bool,
    },
    /// Notify the application.
    Notify(Notice),
}

/// What an application is notified of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The server has accepted the session: on both sides the first thing there is. Its name from now on.
    Opened(SessionId),
    /// The peer opened a stream.
    StreamOpened(u32),
    /// There is something to read, or the end, or a reset. Notified once, until everything was read.
    Readable(u32),
    /// There is room again for writing that had to wait.
    Writable(u32),
    /// The peer asks that the stream's sending half be given up.
    Stopped {
        /// The stream.
        stream: u32,
        /// The peer's code.
        code: u64,
    },
    /// A carrier belongs to the session now.
    PathUp(CarrierId),
    /// A carrier is suspect: its data goes elsewhere.
    PathSuspect(CarrierId),
    /// A suspect carrier is live again.
    PathLive(CarrierId),
    /// A carrier is gone.
    PathLost {
        /// Which one.
        carrier: CarrierId,
        /// The cause, with the transport's own error.
        reason: Loss,
        /// What had gone over it.
        counts: PathCounts,
    },
    /// A path's quota is spent: its carrier finishes what was begun, and no other is opened on it.
    QuotaSpent(u32),
    /// There is no carrier left that is not suspected; the session waits.
    Stalled,
    /// There is one again.
    Resumed,
    /// The session has ended.
    Closed(SessionEnd),
}

/// Why a carrier is gone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// It could not be opened, or its transport ended; the error of the transport.
    #[error("{0}")]
    Transport(String),
    /// Data was outstanding, and its transport received no acknowledgement for too long.
    #[error("no acknowledgement came for too long")]
    TimedOut,
    /// It was not connected in time.
    #[error("no answer to the connection attempt")]
    Unanswered,
    /// The server refused it.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// Its bytes were not the protocol's.
    #[error("{0}")]
    Malformed(Malformed),
    /// The peer's proof was wrong.
    #[error("the peer's proof was wrong")]
    Proof,
    /// This side closed it, or the session has ended.
    #[error("closed")]
    Closed,
}

/// Which side of the session this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Client,
    Server,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// The client has not been accepted.
    Opening,
    Open,
    /// CLOSE was sent and not answered.
    Closing(end::Closing),
    Closed,
}

/// One side of a session.
#[derive(Debug)]
pub struct Session {
    role: Role,
    id: SessionId,
    config: Config,
    phase: Phase,
    secret: Option<Secret>,
    /// The client's HELLO, as sent: it enters the secret.
    hello: Bytes,
    /// How many of them were sent (client).
    attempts: u32,
    /// Something came that only a client sends who has ACCEPT (server).
    confirmed: bool,
    /// The application has accepted it (server): it outlives its carriers from then on.
    accepted: bool,
    opener: Opener,
    /// More candidates may come.
    awaits_candidates: bool,
    /// The server's own addresses, and the name in its certificate there.
    home: (Vec<SocketAddr>, String),
    paths: Vec<Option<Path>>,
    scheduler: Box<dyn Scheduler>,
    /// A scheduler asked to wait until then.
    wait_until: Option<Instant>,
    views: Vec<PathView>,
    streams: Streams,
    /// The next stream of ours, and the lowest of the peer's that was not opened.
    next_ours: u32,
    next_theirs: u32,
    /// How many streams the peer lets us have open, and what it lets us send of each at first.
    peer_streams: u32,
    peer_stream_credit: u64,
    /// Streams that have something to send, in order.
    sendable: BTreeSet<Rank>,
    /// Those of which only new bytes are left, while the session's credit is spent.
    held_up: BTreeSet<Rank>,
    /// Streams of which something may be under way.
    under_way: BTreeSet<u32>,
    /// Streams whose acknowledgement is due, by when.
    due: BTreeSet<(Instant, u32)>,
    turn: u64,
    /// Sending: the sum of first-time offsets, and up to where the peer lets it go.
    sent: u64,
    credit: u64,
    /// Bytes written that were never sent, over all streams.
    unsent: u64,
    /// Bytes written that were not acknowledged, over all streams, and the streams whose writer waits for
    /// them to become fewer.
    kept: u64,
    blocked_on_memory: BTreeSet<u32>,
    /// Bytes left of paths that have a quota and no carrier now.
    quotas: BTreeMap<u32, u64>,
    /// Receiving: the sum of highest offsets, of what was read, and up to where we let it go.
    received: u64,
    read: u64,
    given: u64,
    window: Window,
    /// Pieces out of order, over all streams.
    pieces: usize,
    /// The peer's CLOSE, until everything it promised is here.
    peer_close: Option<u64>,
    /// Since when there is no carrier, or each is suspected.
    stalled_since: Option<Instant>,
    /// How long the peer keeps a session without carriers.
    peer_resume: Duration,
    began_at: Instant,
    received_at: Instant,
    tokens: u64,
    counters: Counters,
    out: VecDeque<Instruction>,
}

impl Session {
    fn new(
        role: Role,
        id: SessionId,
        mut config: Config,
        scheduler: Box<dyn Scheduler>,
        now: Instant,
    ) -> Self {
        // The client counts on it before it knows what the server gives.
        config.session_credit = config.session_credit.max(EARLY_CREDIT);
        config.stream_credit = config.stream_credit.max(EARLY_CREDIT);
        config.streams = config.streams.max(EARLY_STREAMS);
        let mut opener = Opener::new(config.opening, &config.candidates);
        if config.small_packets {
            opener.begin_small(now);
        }
        let carriers = usize::from(config.carriers.clamp(1, SLOTS as u8));
        let quota = |candidate: &crate::Candidate| Some((candidate.path, candidate.quota?));
        Self {
            quotas: config.candidates.iter().rev().filter_map(quota).collect(),
            role,
            id,
            phase: Phase::Opening,
            secret: None,
            hello: Bytes::new(),
            attempts: 0,
            confirmed: false,
            accepted: role == Role::Client,
            opener,
            awaits_candidates: false,
            home: (Vec::new(), String::new()),
            paths: (0..carriers).map(|_| None).collect(),
            scheduler,
            wait_until: None,
            views: Vec::with_capacity(carriers),
            streams: Streams::default(),
            next_ours: u32::from(role == Role::Server),
            next_theirs: u32::from(role == Role::Client),
            peer_streams: EARLY_STREAMS,
            peer_stream_credit: EARLY_CREDIT,
            sendable: BTreeSet::new(),
            held_up: BTreeSet::new(),
            under_way: BTreeSet::new(),
            due: BTreeSet::new(),
            turn: 0,
            sent: 0,
            credit: EARLY_CREDIT,
            unsent: 0,
            kept: 0,
            blocked_on_memory: BTreeSet::new(),
            received: 0,
            read: 0,
            given: config.session_credit,
            window: Window::new(config.session_credit, config.max_credit, now),
            pieces: 0,
            peer_close: None,
            stalled_since: None,
            peer_resume: config.resume,
            began_at: now,
            received_at: now,
            tokens: 0,
            counters: Counters::default(),
            out: VecDeque::new(),
            config,
        }
    }

    /// What to do next; none when everything was taken. To be asked after every event.
    pub fn poll(&mut self) -> Option<Instruction> {
        self.out.pop_front()
    }

    /// The session's name: the client's own until the server has accepted.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// 32 bytes that the two ends of this session have in common and, if it is secure, nobody else has:
    /// what binds a protocol above the session to it. None before the server has accepted.
    pub fn export(&self, label: &[u8]) -> Option<Exporter> {
        self.secret.as_ref().map(|secret| secret.export(label))
    }

    /// The carrier's transport takes `room` more bytes now. More than that may be handed over: the
    /// last segment is never cut for it.
    pub fn room(&mut self, carrier: CarrierId, room: usize, now: Instant) {
        let Some(slot) = self.slot_of(carrier) else { return };
        if let Some(path) = &mut self.paths[slot] {
            path.room = room;
            if room > 0 {
                path.overdraft = 0;
            }
        }
        self.settle(now);
    }

    /// Whether bytes of streams wait to be assigned to a carrier.
    #[must_use]
    pub fn is_scheduling(&self) -> bool {
        self.unsent > 0
    }

    /// The newest statistics of the carrier's transport: to be reported when bytes went to it or came from it,
    /// while [`Session::is_scheduling`], and before [`Session::timeout`].
    pub fn statistics(&mut self, carrier: CarrierId, statistics: Statistics, now: Instant) {
        let Some(slot) = self.slot_of(carrier) else { return };
        if let Some(path) = &mut self.paths[slot] {
            path.update(statistics, now);
        }
        self.check_liveness(slot, now);
    }

    /// What follows from whatever just happened: acknowledgements, data, carriers to open.
    fn settle(&mut self, now: Instant) {
        if self.phase == Phase::Closed {
            return;
        }
        self.open_more(now);
        self.acknowledge(now);
        self.pump(now);
        self.retire_spent(now);
        self.close_drained(now);
        self.check_closed(now);
    }

    /// The slot of a carrier.
    fn slot_of(&self, carrier: CarrierId) -> Option<usize> {
        self.paths
            .iter()
            .position(|path| path.as_ref().is_some_and(|path| path.id == carrier))
    }

    fn path(&self, slot: usize) -> Option<&Path> {
        self.paths.get(slot)?.as_ref()
    }

    /// Carriers that there are, with their slots.
    fn live(&self) -> impl Iterator<Item = (usize, &Path)> {
        self.paths
            .iter()
            .enumerate()
            .filter_map(|(slot, path)| Some((slot, path.as_ref()?)))
    }

    /// Slots of the carriers that data may go on: active ones, or backups when there is no active
    /// one.
    fn usable(&self) -> Slots {
        let of = |backups: bool| {
            self.live()
                .filter(|(_, path)| path.takes_data(backups))
                .fold(0, |slots: Slots, (slot, _)| slots | 1 << slot)
        };
        match of(false) {
            0 => of(true),
            active => active,
        }
    }

    /// The carrier over which a control segment should arrive first. Suspected carriers are used
    /// only when there is no other.
    fn quickest(&self) -> Option<usize> {
        let joined = |path: &Path| path.state == crate::path::State::Live && !path.is_choked();
        self.live()
            .filter(|(_, path)| joined(path))
            .min_by_key(|(slot, path)| (!path.is_healthy(), path.statistics.arrival(), *slot))
            .map(|(slot, _)| slot)
    }

    /// Sends a control segment on the carrier in `slot`.
    fn send_control(&mut self, slot: usize, segment: &Segment, now: Instant) {
        let Some(path) = self.paths[slot].as_mut() else {
            return;
        };
        let head = encode(segment);
        path.spend(head.len() as u64, now);
        self.out
            .push_back(Instruction::Send { carrier: path.id, head, body: Bytes::new() });
    }

    fn notify(&mut self, notice: Notice) {
        self.out.push_back(Instruction::Notify(notice));
    }
}
