//! The session: the state that both sides share.
//!
//! The other files of this folder hold one concern each: `begin` (HELLO, ACCEPT, JOIN), `incoming` (received
//! segments), `acknowledge` (acknowledgements, credit and other control segments), `outgoing` (the choice of
//! stream and carrier), `liveness` (dead and suspected carriers, keep-alive, the session's own clock),
//! `quota` (metered paths, and the orderly end of carriers), `end` (CLOSE), `application` (the applications'
//! interface), `report`.

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
use hawser_carriers::Statistics;
use hawser_time::Instant;

pub use application::{ReadError, StreamError};
pub use end::SessionEnd;
pub use report::{Counters, MemoryUse, PathReport, PathState};

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

/// The maximum number of carriers of a session: the number of bits of [`Slots`].
const SLOTS: usize = 64;
/// Bytes that a client may send before ACCEPT, and the minimum credit of a session. Small requests and
/// uploads within it need no extra round trip. The first windows of TCP and QUIC are smaller, so this does
/// not send more into an unknown network.
const EARLY_CREDIT: u64 = 64 << 10;
/// The number of streams that a client may open before ACCEPT, and the minimum that a session allows.
const EARLY_STREAMS: u32 = 128;
/// The maximum number of pieces out of order that a session keeps.
const MAX_PIECES: usize = 65_536;
/// The same limit before the application has accepted the session. It exceeds the number of full packets
/// within the first credit.
const PIECES_BEFORE_ACCEPT: usize = 1_024;

/// The code of CLOSE for a session that an application ends because its user has interrupted it.
pub const INTERRUPTED: u64 = 10;

/// Codes of CLOSE that the protocol itself uses.
pub(crate) mod code {
    pub(crate) const DONE: u64 = 0;
    pub(crate) const CREDIT_OVERRUN: u64 = 1;
    pub(crate) const FINAL_SIZE: u64 = 2;
    pub(crate) const LIMIT: u64 = 3;
    pub(crate) const PROTOCOL: u64 = 4;
}

/// An instruction of the machine to its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Open a carrier.
    Connect {
        /// The number of the new carrier.
        carrier: CarrierId,
        /// The candidate's index in [`Config::candidates`].
        candidate: usize,
        /// True to use packets that every path takes, because longer ones may have been lost.
        small: bool,
    },
    /// Write `head` and then `body` to the carrier, after all earlier bytes.
    Send {
        /// The carrier.
        carrier: CarrierId,
        /// A header, or a whole control segment.
        head: Bytes,
        /// Bytes of a stream; may be empty.
        body: Bytes,
    },
    /// Close the carrier, either after everything written has been sent, or at once with a reset.
    Close {
        /// The carrier.
        carrier: CarrierId,
        /// True to discard the transport's buffers (SO_LINGER 0).
        abort: bool,
    },
    /// Pass the notice to the application.
    Notify(Notice),
}

/// An event that the application is notified of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The server has accepted the session. On both sides this is the first notice. Holds the session's final
    /// id.
    Opened(SessionId),
    /// The peer opened a stream.
    StreamOpened(u32),
    /// Data, the end or a reset can be read. Not repeated until everything was read.
    Readable(u32),
    /// There is room again for a write that had to wait.
    Writable(u32),
    /// The peer asks this side to abandon the stream's sending half.
    Stopped {
        /// The stream.
        stream: u32,
        /// The peer's code.
        code: u64,
    },
    /// A carrier belongs to the session now.
    PathUp(CarrierId),
    /// A carrier is suspect; its data goes to others.
    PathSuspect(CarrierId),
    /// A suspect carrier is live again.
    PathLive(CarrierId),
    /// A carrier was lost.
    PathLost {
        /// The carrier.
        carrier: CarrierId,
        /// The cause, with the transport's own error.
        reason: Loss,
        /// The counts of the carrier's bytes.
        counts: PathCounts,
    },
    /// A path's quota is spent. Its carrier finishes what was begun, and no other is opened on the path.
    QuotaSpent(u32),
    /// No carrier is left that is not suspected; the session waits.
    Stalled,
    /// A carrier that is not suspected is available again.
    Resumed,
    /// The session has ended.
    Closed(SessionEnd),
}

/// The reason why a carrier was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// The carrier could not be opened, or its transport ended. Holds the transport's error.
    #[error("{0}")]
    Transport(String),
    /// Data was outstanding, and the transport received no acknowledgement for too long.
    #[error("no acknowledgement arrived in time")]
    TimedOut,
    /// The carrier was not connected in time.
    #[error("the peer did not answer the connection attempt")]
    Unanswered,
    /// The server refused the carrier.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The carrier's bytes did not follow the protocol.
    #[error("{0}")]
    Malformed(Malformed),
    /// The peer's proof was wrong.
    #[error("the peer's proof was wrong")]
    Proof,
    /// This side closed the carrier, or the session has ended.
    #[error("closed")]
    Closed,
}

/// The side of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Client,
    Server,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// The client's session has not been accepted.
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
    /// The client's HELLO as sent; it enters the secret.
    hello: Bytes,
    /// The number of HELLOs sent (client).
    attempts: u32,
    /// True once a segment arrived that a client sends only after ACCEPT (server).
    confirmed: bool,
    /// True once the application has accepted the session, which outlives its carriers from then on (server).
    accepted: bool,
    opener: Opener,
    /// True if more candidates may come.
    awaits_candidates: bool,
    /// The server's own addresses, and the name in its certificate there.
    home: (Vec<SocketAddr>, String),
    paths: Vec<Option<Path>>,
    scheduler: Box<dyn Scheduler>,
    /// The end of a wait that the scheduler asked for.
    wait_until: Option<Instant>,
    views: Vec<PathView>,
    streams: Streams,
    /// The next stream of this side, and the lowest stream of the peer that was not opened.
    next_ours: u32,
    next_theirs: u32,
    /// The number of streams that the peer allows this side, and the initial credit of each.
    peer_streams: u32,
    peer_stream_credit: u64,
    /// Streams that have data to send, in sending order.
    sendable: BTreeSet<Rank>,
    /// Streams with only new data, while the session's credit is spent.
    held_up: BTreeSet<Rank>,
    /// Streams that may have data in flight.
    under_way: BTreeSet<u32>,
    /// Streams whose acknowledgement is due, by time.
    due: BTreeSet<(Instant, u32)>,
    turn: u64,
    /// For sending: the sum of first-time bytes, and the peer's limit on it.
    sent: u64,
    credit: u64,
    /// Written bytes that were never sent, over all streams.
    unsent: u64,
    /// Written bytes that were not acknowledged, over all streams, and the streams whose writers wait for
    /// send memory.
    kept: u64,
    blocked_on_memory: BTreeSet<u32>,
    /// The remaining quotas of paths that have no carrier now, in bytes.
    quotas: BTreeMap<u32, u64>,
    /// For receiving: the sums of the highest offsets and of the bytes read, and the limit given to the peer.
    received: u64,
    read: u64,
    given: u64,
    window: Window,
    /// The number of pieces out of order, over all streams.
    pieces: usize,
    /// The code of the peer's CLOSE, until everything it promised has arrived.
    peer_close: Option<u64>,
    /// The time since when there is no carrier, or all are suspected.
    stalled_since: Option<Instant>,
    /// The time for which the peer keeps a session without carriers.
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
        // The client relies on these minima before it knows what the server allows.
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

    /// Returns the next instruction; `None` if there are no more. To be called after every event until it
    /// returns `None`.
    pub fn poll(&mut self) -> Option<Instruction> {
        self.out.pop_front()
    }

    /// Returns the session's id, which is the client's own until the server has accepted.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Returns 32 bytes that only the two ends of a secure session share, with which a protocol above binds
    /// itself to the session. In an insecure session they are not secret. `None` before the server has
    /// accepted.
    pub fn export(&self, label: &[u8]) -> Option<Exporter> {
        self.secret.as_ref().map(|secret| secret.export(label))
    }

    /// Records that the carrier's transport can take `room` more bytes now. The machine may hand over more
    /// than that, because it does not cut the last segment to fit.
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

    /// Returns true if stream data waits to be assigned to a carrier.
    #[must_use]
    pub fn is_scheduling(&self) -> bool {
        self.unsent > 0
    }

    /// Takes the newest statistics of the carrier's transport. They must be reported after bytes were written
    /// or read, while [`Session::is_scheduling`], and before [`Session::timeout`].
    pub fn statistics(&mut self, carrier: CarrierId, statistics: Statistics, now: Instant) {
        let Some(slot) = self.slot_of(carrier) else { return };
        if let Some(path) = &mut self.paths[slot] {
            path.update(statistics, now);
        }
        self.check_liveness(slot, now);
    }

    /// Performs the work that follows any event: acknowledgements, data, carriers to open.
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

    /// Returns the slot of a carrier.
    fn slot_of(&self, carrier: CarrierId) -> Option<usize> {
        self.paths
            .iter()
            .position(|path| path.as_ref().is_some_and(|path| path.id == carrier))
    }

    fn path(&self, slot: usize) -> Option<&Path> {
        self.paths.get(slot)?.as_ref()
    }

    /// Returns the existing carriers with their slots.
    fn live(&self) -> impl Iterator<Item = (usize, &Path)> {
        self.paths
            .iter()
            .enumerate()
            .filter_map(|(slot, path)| Some((slot, path.as_ref()?)))
    }

    /// Returns the slots of the carriers that may take data: active ones, or backups if there is no active
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

    /// Returns the slot of the carrier over which a control segment should arrive first. Suspected carriers
    /// are used only if there is no other.
    fn quickest(&self) -> Option<usize> {
        let joined = |path: &Path| path.state == crate::path::CarrierState::Live && !path.is_choked();
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
