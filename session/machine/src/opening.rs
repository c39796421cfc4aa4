//! Which carriers to open, and when: sequentially, staggered or in parallel.
//!
//! A *path* leads to the peer, one interface as a rule. Candidates of one path are alternatives,
//! best first, and they race: the next begins when those before it have failed, or have not succeeded
//! for a while (RFC 8305 5; in sequence only when they have failed). The first that belongs to the
//! session is kept, the others are closed: a path holds one carrier. Paths are opened in the order in
//! which they first appear. A path that was lost is tried
//! again after 0.25 s, doubling to 10 s, and at once when the network changed.
//!
//! A path may take shorter packets than its interface and lose longer ones without a sign (RFC 2923, 2.1).
//! When a carrier ends that may have lost some for that, or an attempt is not answered, the path's next ones
//! are opened with small packets, for [`SMALL`]; an attempt with small ones that is not answered is followed
//! by one without.

use std::time::Duration;

use hawser_time::Instant;

use crate::CarrierId;

/// How long an attempt may take before it counts as failed. On a path that has been open before, four
/// times what it took then is enough at first: what was lost is sent again by a new attempt sooner than by
/// the transport, whose own timeouts double (TCP's SYN goes again after 1, 3 and 7 seconds).
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// How old an attempt is when something of it must have been lost: TCP's first SYN goes again after
/// a second (RFC 6298 2.1).
const STALE: Duration = Duration::from_secs(1);
/// The minimum time for an attempt on a path that was open before: TCP's first repetition of a SYN, after 1 s
/// (RFC 6298, 2.1), still has time to be answered.
const REPEATED: Duration = Duration::from_millis(1_250);
/// The first pause before a lost path is tried again, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// For how long a path's packets are kept small before full ones are tried again (RFC 8899 5.1.1,
/// PMTU_RAISE_TIMER).
const SMALL: Duration = Duration::from_secs(600);

/// How long the alternatives of a path are apart where paths are opened in parallel (RFC 8305 8).
const STAGGER: Duration = Duration::from_millis(250);

/// In which order paths are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The next one when the one before it is up or has failed.
    Sequential,
    /// Each so long after the one before it, or at once when that failed (RFC 8305 5).
    Staggered(Duration),
    /// All at once.
    Parallel,
}

impl Default for Opening {
    fn default() -> Self {
        Self::Staggered(Duration::from_millis(250))
    }
}

/// How to open a carrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The path that it belongs to: candidates with the same number are alternatives.
    pub path: u32,
    /// Used only when no other path is left.
    pub backup: bool,
    /// Share of the data under [`Weighted`](crate::scheduler::Weighted); at least 1.
    pub weight: u32,
    /// What a byte costs, in whatever unit the application counts; 0: nothing.
    pub cost: u32,
    /// Bytes that may still be sent or received on this path; none: no limit.
    pub quota: Option<u64>,
}

impl Candidate {
    /// An ordinary candidate of `path`.
    pub fn new(path: u32) -> Self {
        Self { path, backup: false, weight: 1, cost: 0, quota: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not tried since the session began, or since the network changed.
    Fresh,
    /// Being opened by its attempts, or about to be by the next candidate.
    Trying,
    /// Open.
    Up { carrier: CarrierId },
    /// To be tried again.
    Resting { until: Instant },
    /// Taken out by the application.
    Removed,
}

/// A carrier that is being opened.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    carrier: CarrierId,
    /// Its place among the candidates of its path.
    candidate: usize,
    began: Instant,
    give_up_at: Instant,
    small: bool,
}

#[derive(Debug)]
struct Path {
    number: u32,
    state: State,
    /// Those that are racing, in the order in which they began.
    attempts: Vec<Attempt>,
    /// The candidate that begins next, if it is one, and when: at once if there is no attempt.
    next: (usize, Instant),
    /// How long to rest after the next failure.
    pause: Duration,
    /// How long it took until it was open, when it was last.
    took: Option<Duration>,
    /// Until when its carriers are opened with small packets.
    small_until: Instant,
    /// Indices into the candidates, best first.
    candidates: Vec<usize>,
    /// A balancer led it astray: which of the server's own addresses it goes to, and how many those
    /// are.
    own: Option<(usize, usize)>,
}

/// What the opener asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Open a carrier.
    Open { carrier: CarrierId, candidate: usize, small: bool },
    /// Forget an attempt that takes too long.
    GiveUp { carrier: CarrierId },
}

/// Decides which carriers to open.
#[derive(Debug)]
pub(crate) struct Opener {
    mode: Opening,
    paths: Vec<Path>,
    /// The number of the next carrier.
    next: CarrierId,
    /// Staggered: when the next path may begin.
    next_at: Instant,
    /// Until when carriers of new paths are opened with small packets.
    small_until: Instant,
}

impl Opener {
    pub(crate) fn new(mode: Opening, candidates: &[Candidate]) -> Self {
        let (paths, next) = (Vec::new(), CarrierId(0));
        let mut opener = Self {
            mode,
            paths,
            next,
            next_at: Instant::ORIGIN,
            small_until: Instant::ORIGIN,
        };
        for index in 0..candidates.len() {
            opener.add(candidates, index);
        }
        opener
    }

    /// Long packets are lost on this network: every path begins with small ones.
    pub(crate) fn begin_small(&mut self, now: Instant) {
        self.small_until = now + SMALL;
        self.paths
            .iter_mut()
            .for_each(|path| path.small_until = now + SMALL);
    }

    /// Candidate `index` is new. A path that was taken out stays so.
    pub(crate) fn add(&mut self, candidates: &[Candidate], index: usize) {
        let number = candidates[index].path;
        match self.paths.iter_mut().find(|path| path.number == number) {
            Some(path) => {
                path.candidates.push(index);
                // Where all others have failed it is tried at once.
                if let State::Resting { .. } = path.state {
                    path.state = State::Trying;
                    path.next = (path.candidates.len() - 1, Instant::ORIGIN);
                }
            }
            None => {
                // A path without anything left of its quota is not opened.
                let is_spent = candidates[index].quota == Some(0);
                self.paths.push(Path {
                    number,
                    state: if is_spent { State::Removed } else { State::Fresh },
                    attempts: Vec::new(),
                    next: (0, Instant::ORIGIN),
                    pause: PAUSE.0,
                    took: None,
                    small_until: self.small_until,
                    candidates: vec![index],
                    own: None,
                });
            }
        }
    }

    /// What to do at `now`, one step at a time until none is left. `may_open`: how many more
    /// carriers there may be.
    pub(crate) fn step(&mut self, now: Instant, may_open: usize) -> Option<Step> {
        let late = self
            .paths
            .iter()
            .flat_map(|path| &path.attempts)
            .find(|it| it.give_up_at <= now);
        if let Some(Attempt { carrier, small, .. }) = late.copied() {
            if let Some(path) = self.path_of(carrier) {
                path.small_until = if small { now } else { now + SMALL };
            }
            self.failed(carrier, now);
            return Some(Step::GiveUp { carrier });
        }
        if may_open == 0 {
            return None;
        }
        let index = self.paths.iter().position(|path| self.is_due(path, now))?;
        if let (State::Fresh, Opening::Staggered(delay)) = (self.paths[index].state, self.mode) {
            self.next_at = now + delay;
        }
        let carrier = self.next;
        self.next = CarrierId(carrier.0 + 1);
        let stagger = self.stagger();
        let path = &mut self.paths[index];
        let candidate = if path.state == State::Trying {
            path.next.0
        } else {
            0
        };
        path.state = State::Trying;
        // Doubled with each failure, as the pause is.
        let usual = |took| REPEATED.max(4 * took).max(4 * path.pause).min(ATTEMPT_TIMEOUT);
        let give_up_at = now + path.took.map_or(ATTEMPT_TIMEOUT, usual);
        let small = now < path.small_until;
        path.attempts
            .push(Attempt { carrier, candidate, began: now, give_up_at, small });
        path.next = (candidate + 1, stagger.map_or(give_up_at, |stagger| now + stagger));
        Some(Step::Open { carrier, candidate: path.candidates[candidate], small })
    }

    /// How long the alternatives of a path are apart; none: each waits for those before it to fail.
    fn stagger(&self) -> Option<Duration> {
        match self.mode {
            Opening::Sequential => None,
            Opening::Staggered(delay) => Some(delay),
            Opening::Parallel => Some(STAGGER),
        }
    }

    fn is_due(&self, path: &Path, now: Instant) -> bool {
        match path.state {
            State::Trying => self.begins_at(path, now).is_some_and(|at| at <= now),
            State::Resting { until } => until <= now,
            State::Fresh => match self.mode {
                Opening::Parallel => true,
                Opening::Staggered(_) => self.next_at <= now || !self.is_trying(),
                Opening::Sequential => !self.is_trying(),
            },
            State::Up { .. } | State::Removed => false,
        }
    }

    /// When the next candidate of a path that is being opened begins. The server's own addresses are tried
    /// one after the other.
    fn begins_at(&self, path: &Path, now: Instant) -> Option<Instant> {
        let (next, at) = path.next;
        let races = self.stagger().is_some() && path.own.is_none();
        match path.attempts.is_empty() {
            _ if next >= path.candidates.len() => None,
            true => Some(now),
            false => races.then_some(at),
        }
    }

    fn is_trying(&self) -> bool {
        self.paths.iter().any(|path| path.state == State::Trying)
    }

    /// Whether every path was tried by all its candidates, and none is open.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.paths
            .iter()
            .all(|path| matches!(path.state, State::Resting { .. } | State::Removed))
    }

    /// How many carriers are being opened.
    pub(crate) fn trying(&self) -> usize {
        self.paths.iter().map(|path| path.attempts.len()).sum()
    }

    /// The candidate by which the carrier is being opened.
    pub(crate) fn candidate_of(&self, wanted: CarrierId) -> Option<usize> {
        let of_path = |path: &Path| Some(path.candidates[path.attempt(wanted)?.candidate]);
        self.paths.iter().find_map(of_path)
    }

    /// The carrier is up and belongs to the session. The others that raced with it are given back, to be closed.
    pub(crate) fn up(&mut self, carrier: CarrierId, now: Instant) -> Vec<CarrierId> {
        let Some(path) = self.path_of(carrier) else {
            return Vec::new();
        };
        path.took = path
            .attempt(carrier)
            .map(|attempt| now - attempt.began)
            .or(path.took);
        path.state = State::Up { carrier };
        path.pause = PAUSE.0;
        let attempts = std::mem::take(&mut path.attempts);
        attempts
            .into_iter()
            .map(|attempt| attempt.carrier)
            .filter(|other| *other != carrier)
            .collect()
    }

    /// A carrier may have lost packets for their length: the next ones of its path have small ones, and first
    /// the same candidate once more if it was the last that was tried.
    pub(crate) fn keep_small(&mut self, carrier: CarrierId, now: Instant) {
        let Some(path) = self.path_of(carrier) else { return };
        path.small_until = now + SMALL;
        if let [Attempt { candidate, small: false, .. }] = path.attempts[..] {
            path.next.0 = candidate;
        }
    }

    /// The carrier failed or was lost. The next alternative, if there is one, is tried at once;
    /// what was open and died is tried anew at once, then with pauses.
    pub(crate) fn failed(&mut self, carrier: CarrierId, now: Instant) {
        let Some(path) = self.path_of(carrier) else { return };
        if matches!(path.state, State::Up { .. }) {
            path.state = State::Resting { until: now };
            return;
        }
        let Some(attempt) = path.attempt(carrier) else {
            return;
        };
        path.attempts.retain(|other| other.carrier != carrier);
        path.next.1 = now;
        path.own = path.own.map(|(at, of)| (at + 1, of)).filter(|(at, of)| at < of);
        if path.own.is_some() {
            path.next.0 = attempt.candidate;
        }
        if path.attempts.is_empty() && path.next.0 >= path.candidates.len() {
            path.state = State::Resting { until: now + path.pause };
            path.pause = (2 * path.pause).clamp(PAUSE.0, PAUSE.1);
        }
    }

    /// A balancer led the carrier to another server. Its path is tried anew at the server's own
    /// addresses, of which there are `own`; when none of them leads there, as after any failure. It
    /// goes there from then on.
    pub(crate) fn astray(&mut self, carrier: CarrierId, own: usize, now: Instant) {
        let Some(path) = self.path_of(carrier) else { return };
        if let (Some(attempt), None, 1..) = (path.attempt(carrier), path.own, own) {
            path.own = Some((0, own));
            path.attempts.retain(|other| other.carrier != carrier);
            path.next = (attempt.candidate, now);
        }
    }

    /// Which of the server's own addresses the carrier is being opened at.
    pub(crate) fn own_address(&self, wanted: CarrierId) -> Option<usize> {
        let path = self.paths.iter().find(|path| path.holds(wanted))?;
        path.own.map(|(at, _)| at)
    }

    /// The path is taken out; the carriers that it held.
    pub(crate) fn remove(&mut self, number: u32) -> Vec<CarrierId> {
        let Some(path) = self.paths.iter_mut().find(|path| path.number == number) else {
            return Vec::new();
        };
        let attempts = std::mem::take(&mut path.attempts);
        let mut held: Vec<CarrierId> = attempts.into_iter().map(|attempt| attempt.carrier).collect();
        if let State::Up { carrier } = path.state {
            held.push(carrier);
        }
        path.state = State::Removed;
        held
    }

    /// The path is wanted again.
    pub(crate) fn restore(&mut self, number: u32) {
        let removed = |path: &&mut Path| path.number == number && path.state == State::Removed;
        if let Some(path) = self.paths.iter_mut().find(removed) {
            path.state = State::Fresh;
            path.pause = PAUSE.0;
        }
    }

    /// The network changed: whatever rests is tried again, and an attempt so old that its packets
    /// were lost begins anew, with full packets.
    pub(crate) fn network_changed(&mut self, now: Instant) {
        self.small_until = now;
        for path in &mut self.paths {
            path.small_until = now;
            if let State::Resting { .. } = path.state {
                (path.state, path.pause) = (State::Fresh, PAUSE.0);
            }
            for attempt in path.attempts.iter_mut().filter(|it| it.began + STALE <= now) {
                (attempt.give_up_at, attempt.small) = (now, true);
                path.pause = Duration::ZERO;
            }
        }
        self.next_at = Instant::ORIGIN;
    }

    /// When [`Opener::step`] has something to do next, at the latest, if `may_open` more carriers
    /// may be opened.
    pub(crate) fn next_timeout(&self, now: Instant, may_open: usize) -> Option<Instant> {
        let of_path = |path: &Path| {
            let late = path.attempts.iter().map(|attempt| attempt.give_up_at).min();
            let begins = match path.state {
                _ if may_open == 0 => None,
                State::Trying => self.begins_at(path, now),
                State::Resting { until } => Some(until),
                State::Fresh if self.is_due(path, now) => Some(now),
                State::Fresh => matches!(self.mode, Opening::Staggered(_)).then_some(self.next_at),
                State::Up { .. } | State::Removed => None,
            };
            [late, begins].into_iter().flatten().min()
        };
        self.paths.iter().filter_map(of_path).min()
    }

    fn path_of(&mut self, carrier: CarrierId) -> Option<&mut Path> {
        self.paths.iter_mut().find(|path| path.holds(carrier))
    }
}

impl Path {
    fn holds(&self, wanted: CarrierId) -> bool {
        self.state == State::Up { carrier: wanted } || self.attempt(wanted).is_some()
    }

    fn attempt(&self, wanted: CarrierId) -> Option<Attempt> {
        self.attempts
            .iter()
            .find(|attempt| attempt.carrier == wanted)
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Instant {
        Instant::after(Duration::from_millis(ms))
    }

    const TIMED_OUT: Instant = Instant::after(ATTEMPT_TIMEOUT);

    /// Three candidates of one path.
    fn opener(mode: Opening) -> Opener {
        Opener::new(mode, &[Candidate::new(0), Candidate::new(0), Candidate::new(0)])
    }

    fn open(carrier: u32, candidate: usize) -> Option<Step> {
        Some(Step::Open { carrier: CarrierId(carrier), candidate, small: false })
    }

    /// RFC 8305 5: a new attempt each 250 ms (the recommended delay), at once when all have failed; the first
    /// that succeeds ends the others.
    #[test]
    fn alternatives_of_a_path_race_and_the_first_that_is_up_is_kept() {
        let mut opener = opener(Opening::default());
        assert_eq!(opener.step(at(0), 8), open(0, 0));
        assert_eq!(opener.step(at(249), 8), None);
        assert_eq!(opener.next_timeout(at(249), 8), Some(at(250)));
        assert_eq!(opener.step(at(250), 8), open(1, 1));
        opener.failed(CarrierId(1), at(300));
        assert_eq!(opener.step(at(300), 8), open(2, 2), "a failure does not wait");
        assert_eq!(
            opener.next_timeout(at(300), 8),
            Some(TIMED_OUT),
            "no candidate is left"
        );
        assert_eq!(opener.trying(), 2);
        assert_eq!(
            opener.up(CarrierId(2), at(310)),
            [CarrierId(0)],
            "the one that it overtook is closed"
        );
        assert_eq!((opener.trying(), opener.candidate_of(CarrierId(0))), (0, None));
        // The loser's end is nothing to the path.
        opener.failed(CarrierId(0), at(400));
        assert_eq!(opener.next_timeout(at(400), 8), None);
    }

    #[test]
    fn alternatives_in_sequence_wait_for_failure() {
        let mut opener = opener(Opening::Sequential);
        assert_eq!(opener.step(at(0), 8), open(0, 0));
        assert_eq!(opener.next_timeout(at(0), 8), Some(TIMED_OUT));
        assert_eq!(opener.step(at(9_999), 8), None);
        assert_eq!(
            opener.step(TIMED_OUT, 8),
            Some(Step::GiveUp { carrier: CarrierId(0) })
        );
        let second = Step::Open { carrier: CarrierId(1), candidate: 1, small: true };
        assert_eq!(
            opener.step(TIMED_OUT, 8),
            Some(second),
            "the first may have sent too long packets"
        );
    }

    #[test]
    fn a_path_rests_when_all_that_raced_have_failed() {
        let mut opener = opener(Opening::Parallel);
        for (time, carrier) in [(0, 0), (250, 1), (500, 2)] {
            assert_eq!(opener.step(at(time), 8), open(carrier, carrier as usize));
        }
        for carrier in 0..3 {
            assert!(!opener.is_exhausted());
            opener.failed(CarrierId(carrier), at(600));
        }
        assert!(opener.is_exhausted());
        assert_eq!(opener.next_timeout(at(600), 8), Some(at(600) + PAUSE.0));
        assert_eq!(
            opener.step(at(850), 8),
            open(3, 0),
            "the first candidate comes first again"
        );
    }

    /// Whether the next attempt, at `now`, has small packets.
    fn opens_small(opener: &mut Opener, now: Instant) -> bool {
        match opener.step(now, 8) {
            Some(Step::Open { small, .. }) => small,
            step => panic!("{step:?}"),
        }
    }

    #[test]
    fn packets_are_kept_small_for_ten_minutes_after_long_ones_were_lost() {
        let mut opener = Opener::new(Opening::default(), &[Candidate::new(0)]);
        assert!(!opens_small(&mut opener, at(0)));
        opener.up(CarrierId(0), at(10));
        opener.keep_small(CarrierId(0), at(1_000));
        opener.failed(CarrierId(0), at(1_000));
        assert!(opens_small(&mut opener, at(1_000)));
        opener.up(CarrierId(1), at(1_010));
        // RFC 8899 5.1.1: PMTU_RAISE_TIMER is 600 s.
        opener.failed(CarrierId(1), at(600_999));
        assert!(opens_small(&mut opener, at(600_999)));
        opener.up(CarrierId(2), at(601_000));
        opener.failed(CarrierId(2), at(601_000));
        assert!(!opens_small(&mut opener, at(601_000)));
    }

    #[test]
    fn a_candidate_that_may_have_sent_too_long_packets_is_tried_once_more_with_small_ones() {
        let mut opener = Opener::new(Opening::default(), &[Candidate::new(0)]);
        for small in [false, true] {
            assert!(!opener.is_exhausted());
            assert_eq!(opens_small(&mut opener, at(0)), small);
            let carrier = CarrierId(small.into());
            opener.keep_small(carrier, at(0));
            opener.failed(carrier, at(0));
        }
        assert!(opener.is_exhausted());
    }

    #[test]
    fn attempts_without_an_answer_take_turns_with_full_and_small_packets() {
        let mut opener = Opener::new(Opening::default(), &[Candidate::new(0)]);
        let mut now = at(0);
        for small in [false, true, false, true] {
            assert_eq!(opens_small(&mut opener, now), small);
            let give_up = opener.next_timeout(now, 8).unwrap();
            assert!(matches!(opener.step(give_up, 8), Some(Step::GiveUp { .. })));
            now = opener.next_timeout(give_up, 8).unwrap();
        }
    }

    #[test]
    fn another_network_is_tried_with_full_packets() {
        let mut opener = Opener::new(Opening::default(), &[Candidate::new(0)]);
        assert!(!opens_small(&mut opener, at(0)));
        opener.network_changed(at(2_000));
        assert!(matches!(opener.step(at(2_000), 8), Some(Step::GiveUp { .. })));
        opener.network_changed(at(2_000));
        assert!(
            !opens_small(&mut opener, at(2_000)),
            "the attempt was given up for the change"
        );
    }

    /// When a SYN of an attempt that begins at `began` gets through a link that carries in the first half
    /// of each second alone: the first goes at once, others after 1, 3 and 7 s (RFC 6298 2.1, 5.5).
    fn passes(began: Instant, give_up_at: Instant) -> Option<Instant> {
        let sent = [0, 1, 3, 7].map(|seconds| began + Duration::from_secs(seconds));
        sent.into_iter()
            .find(|at| at.since_origin().subsec_millis() < 500 && *at < give_up_at)
    }

    #[test]
    fn a_path_that_flaps_is_open_again_within_seconds() {
        for lost_at in (10_000..11_000).step_by(10).map(at) {
            let mut opener = Opener::new(Opening::default(), &[Candidate::new(0)]);
            let Some(Step::Open { carrier, .. }) = opener.step(at(0), 1) else {
                panic!()
            };
            opener.up(carrier, at(60));
            opener.failed(carrier, lost_at);
            let mut now = lost_at;
            let open_at = loop {
                let Some(Step::Open { carrier, .. }) = opener.step(now, 1) else {
                    panic!("{now:?}")
                };
                let give_up_at = opener.next_timeout(now, 1).expect("an end of its open_timeout");
                if let Some(at) = passes(now, give_up_at) {
                    break at;
                }
                assert_eq!(opener.step(give_up_at, 1), Some(Step::GiveUp { carrier }));
                now = opener.next_timeout(give_up_at, 1).expect("another attempt");
            };
            assert!(
                open_at - lost_at < Duration::from_secs(4),
                "{:?}",
                open_at - lost_at
            );
        }
    }

    /// The first attempt does not know how far away the server is.
    #[test]
    fn a_path_that_was_never_open_has_ten_seconds() {
        let mut opener = Opener::new(Opening::default(), &[Candidate::new(0)]);
        assert!(opener.step(at(0), 1).is_some());
        assert_eq!(opener.next_timeout(at(0), 1), Some(TIMED_OUT));
    }
}
