//! Decides which carriers to open and when: sequentially, staggered or in parallel.
//!
//! A *path* leads to the peer, usually over one interface. The candidates of one path are alternatives, best
//! first, and they race (RFC 8305, 5). The next one begins when the earlier ones have failed, or have not
//! succeeded for a while. In sequential mode, it begins only when they have failed. The first carrier that
//! belongs to the session is kept and the others are closed, so a path holds one carrier. Paths are opened in
//! the order in which they first appear. A lost path is tried again after 0.25 s, doubling to 10 s, and at
//! once when the network changed.
//!
//! A path may take shorter packets than its interface does, and lose longer ones silently (RFC 2923, 2.1). If
//! a carrier ends that may have lost packets for this reason, or if an attempt is not answered, the path's
//! next carriers are opened with small packets. This lasts for [`SMALL`]. An attempt with small packets that
//! is not answered is followed by one with full packets.

use std::time::Duration;

use hawser_time::Instant;

use crate::CarrierId;

/// The time after which an attempt counts as failed. If the path has been open before, four times its last
/// opening time is enough at first. A new attempt then repeats lost packets sooner than the transport, whose
/// own timeouts double (TCP repeats its SYN after 1, 3 and 7 s).
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// The age at which an attempt that is not answered must have lost a packet: TCP first repeats its SYN after
/// a second (RFC 6298, 2.1).
const STALE: Duration = Duration::from_secs(1);
/// The minimum timeout of an attempt on a path that was open before. TCP's first repetition of a SYN, after 1
/// s (RFC 6298, 2.1), still has time to be answered.
const REPEATED: Duration = Duration::from_millis(1_250);
/// The first and the longest pause before a lost path is tried again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// The time for which a path's packets are kept small before full ones are tried again (RFC 8899, 5.1.1,
/// PMTU_RAISE_TIMER).
const SMALL: Duration = Duration::from_secs(600);

/// The delay between the alternatives of a path when paths are opened in parallel (RFC 8305, 8).
const STAGGER: Duration = Duration::from_millis(250);

/// The order in which paths are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Each path begins when the previous one is up or has failed.
    Sequential,
    /// Each path begins this long after the previous one, or at once if that one failed (RFC 8305, 5).
    Staggered(Duration),
    /// All paths begin at once.
    Parallel,
}

impl Default for Opening {
    fn default() -> Self {
        Self::Staggered(Duration::from_millis(250))
    }
}

/// A way to open a carrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The number of the candidate's path. Candidates with the same number are alternatives.
    pub path: u32,
    /// True if it is used only when no other path is left.
    pub backup: bool,
    /// The share of the data under [`Weighted`](crate::scheduler::Weighted); at least 1.
    pub weight: u32,
    /// The cost of a byte, in a unit of the application's choice; 0 means free.
    pub cost: u32,
    /// Bytes that may still be sent or received on this path. `None`: no limit.
    pub quota: Option<u64>,
}

impl Candidate {
    /// Creates a candidate of `path` with default values.
    pub fn new(path: u32) -> Self {
        Self { path, backup: false, weight: 1, cost: 0, quota: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not tried since the session began, or since the network changed.
    Fresh,
    /// Being opened by its attempts, or about to be opened by the next candidate.
    Trying,
    /// Joined to the session as this carrier.
    Up { carrier: CarrierId },
    /// To be tried again at `until`.
    Resting { until: Instant },
    /// Removed by the application.
    Removed,
}

/// A carrier that is being opened.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    carrier: CarrierId,
    /// Its index among the candidates of its path.
    candidate: usize,
    began: Instant,
    give_up_at: Instant,
    small: bool,
}

#[derive(Debug)]
struct Path {
    number: u32,
    state: State,
    /// The racing attempts, in the order in which they began.
    attempts: Vec<Attempt>,
    /// The index of the candidate that begins next, which may be past the last, and its time. It begins at
    /// once if there is no attempt.
    next: (usize, Instant),
    /// The pause after the next failure.
    pause: Duration,
    /// The time that the last successful opening took.
    took: Option<Duration>,
    /// The time until which the path's carriers are opened with small packets.
    small_until: Instant,
    /// Indices into the candidates, best first.
    candidates: Vec<usize>,
    /// Set after a balancer led the path to another server. Holds the index of the server's own address that
    /// is used now, and the number of those addresses.
    own: Option<(usize, usize)>,
}

/// A request of the opener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Open a carrier.
    Open { carrier: CarrierId, candidate: usize, small: bool },
    /// Abandon an attempt that takes too long.
    GiveUp { carrier: CarrierId },
}

/// Decides which carriers to open.
#[derive(Debug)]
pub(crate) struct Opener {
    mode: Opening,
    paths: Vec<Path>,
    /// The number of the next carrier.
    next: CarrierId,
    /// In staggered mode, the time at which the next path may begin.
    next_at: Instant,
    /// The time until which carriers of new paths are opened with small packets.
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

    /// Starts every path with small packets, because this network loses long ones.
    pub(crate) fn begin_small(&mut self, now: Instant) {
        self.small_until = now + SMALL;
        self.paths
            .iter_mut()
            .for_each(|path| path.small_until = now + SMALL);
    }

    /// Adds candidate `index`. A path that was removed stays removed.
    pub(crate) fn add(&mut self, candidates: &[Candidate], index: usize) {
        let number = candidates[index].path;
        match self.paths.iter_mut().find(|path| path.number == number) {
            Some(path) => {
                path.candidates.push(index);
                // If all other candidates have failed, the new one is tried at once.
                if let State::Resting { .. } = path.state {
                    path.state = State::Trying;
                    path.next = (path.candidates.len() - 1, Instant::ORIGIN);
                }
            }
            None => {
                // A path whose quota is spent is not opened.
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

    /// Returns the next request at `now`; the caller repeats the call until it returns `None`. `may_open` is
    /// the number of carriers that may still be added.
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
        // The timeout doubles with each failure, as the pause does.
        let usual = |took| REPEATED.max(4 * took).max(4 * path.pause).min(ATTEMPT_TIMEOUT);
        let give_up_at = now + path.took.map_or(ATTEMPT_TIMEOUT, usual);
        let small = now < path.small_until;
        path.attempts
            .push(Attempt { carrier, candidate, began: now, give_up_at, small });
        path.next = (candidate + 1, stagger.map_or(give_up_at, |stagger| now + stagger));
        Some(Step::Open { carrier, candidate: path.candidates[candidate], small })
    }

    /// Returns the delay between the alternatives of a path. `None`: each waits until the earlier ones have
    /// failed.
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

    /// Returns the time at which the next candidate of a path that is being opened begins. The server's own
    /// addresses are tried one after the other.
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

    /// Returns true if all candidates of every path were tried and no path is open.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.paths
            .iter()
            .all(|path| matches!(path.state, State::Resting { .. } | State::Removed))
    }

    /// Returns the number of carriers that are being opened.
    pub(crate) fn trying(&self) -> usize {
        self.paths.iter().map(|path| path.attempts.len()).sum()
    }

    /// Returns the index of the candidate that the carrier is being opened with.
    pub(crate) fn candidate_of(&self, wanted: CarrierId) -> Option<usize> {
        let of_path = |path: &Path| Some(path.candidates[path.attempt(wanted)?.candidate]);
        self.paths.iter().find_map(of_path)
    }

    /// Records that the carrier is up and belongs to the session. Returns the carriers that raced with it,
    /// for the caller to close.
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

    /// Records that a carrier may have lost packets because of their length. The path's next carriers use
    /// small packets. If the last candidate tried is the only attempt, it is repeated first.
    pub(crate) fn keep_small(&mut self, carrier: CarrierId, now: Instant) {
        let Some(path) = self.path_of(carrier) else { return };
        path.small_until = now + SMALL;
        if let [Attempt { candidate, small: false, .. }] = path.attempts[..] {
            path.next.0 = candidate;
        }
    }

    /// Records that the carrier failed or was lost. The next alternative, if any, is tried at once. A path
    /// that was open is tried again at once, and then with pauses.
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

    /// Records that a balancer led the carrier to another server. The path is tried anew at the server's
    /// `own` own addresses, and uses them from then on. If all of them fail, the path continues as after any
    /// failure.
    pub(crate) fn astray(&mut self, carrier: CarrierId, own: usize, now: Instant) {
        let Some(path) = self.path_of(carrier) else { return };
        if let (Some(attempt), None, 1..) = (path.attempt(carrier), path.own, own) {
            path.own = Some((0, own));
            path.attempts.retain(|other| other.carrier != carrier);
            path.next = (attempt.candidate, now);
        }
    }

    /// Returns the index of the server's own address at which the carrier is being opened.
    pub(crate) fn own_address(&self, wanted: CarrierId) -> Option<usize> {
        let path = self.paths.iter().find(|path| path.holds(wanted))?;
        path.own.map(|(at, _)| at)
    }

    /// Removes the path, and returns the carriers that it held.
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

    /// Restores a path that was removed.
    pub(crate) fn restore(&mut self, number: u32) {
        let removed = |path: &&mut Path| path.number == number && path.state == State::Removed;
        if let Some(path) = self.paths.iter_mut().find(removed) {
            path.state = State::Fresh;
            path.pause = PAUSE.0;
        }
    }

    /// Handles a change of the network. Resting paths are tried again. An attempt so old that its packets
    /// must have been lost begins anew, with full packets.
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

    /// Returns the latest time at which [`Opener::step`] must be called again, if `may_open` more carriers
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

    /// Returns an opener with three candidates of one path.
    fn opener(mode: Opening) -> Opener {
        Opener::new(mode, &[Candidate::new(0), Candidate::new(0), Candidate::new(0)])
    }

    fn open(carrier: u32, candidate: usize) -> Option<Step> {
        Some(Step::Open { carrier: CarrierId(carrier), candidate, small: false })
    }

    /// RFC 8305, 5: a new attempt begins each 250 ms (the recommended delay), or at once when all have
    /// failed. The first that succeeds ends the others.
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
        // The end of a losing attempt does not affect the path.
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
    fn a_path_backs_off_after_all_candidates_failed() {
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

    /// Returns true if the attempt that begins at `now` uses small packets.
    fn opens_small(opener: &mut Opener, now: Instant) -> bool {
        match opener.step(now, 8) {
            Some(Step::Open { small, .. }) => small,
            step => panic!("{step:?}"),
        }
    }

    #[test]
    fn packets_stay_small_for_ten_minutes_after_long_losses() {
        let mut opener = Opener::new(Opening::default(), &[Candidate::new(0)]);
        assert!(!opens_small(&mut opener, at(0)));
        opener.up(CarrierId(0), at(10));
        opener.keep_small(CarrierId(0), at(1_000));
        opener.failed(CarrierId(0), at(1_000));
        assert!(opens_small(&mut opener, at(1_000)));
        opener.up(CarrierId(1), at(1_010));
        // RFC 8899, 5.1.1: PMTU_RAISE_TIMER is 600 s.
        opener.failed(CarrierId(1), at(600_999));
        assert!(opens_small(&mut opener, at(600_999)));
        opener.up(CarrierId(2), at(601_000));
        opener.failed(CarrierId(2), at(601_000));
        assert!(!opens_small(&mut opener, at(601_000)));
    }

    #[test]
    fn a_candidate_that_may_have_lost_long_packets_retries_small() {
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
    fn unanswered_attempts_alternate_between_full_and_small_packets() {
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
    fn a_changed_network_is_tried_with_full_packets() {
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

    /// Returns the time at which a SYN of an attempt that begins at `began` passes the link. The link carries
    /// packets only in the first half of each second. The first SYN leaves at once, others after 1, 3 and 7 s
    /// (RFC 6298, 2.1, 5.5).
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

    /// The first attempt does not know the distance to the server.
    #[test]
    fn the_first_attempt_of_a_path_times_out_after_ten_seconds() {
        let mut opener = Opener::new(Opening::default(), &[Candidate::new(0)]);
        assert!(opener.step(at(0), 1).is_some());
        assert_eq!(opener.next_timeout(at(0), 1), Some(TIMED_OUT));
    }
}
