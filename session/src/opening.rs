//! Which carriers to open, and when: sequentially, staggered or in parallel.
//!
//! A *path* is a way to the peer, one interface as a rule. Candidates of one path are alternatives,
//! best first: the next is tried when the one before it failed, and a path holds one carrier at a
//! time. Paths are opened in the order in which they first appear. A path that was lost is tried
//! again after 0.25 s, doubling to 10 s, and at once when the network changed.

use std::time::Duration;

use crate::CarrierId;

/// How long an attempt may take before it counts as failed. On a path that has been open before, four
/// times what it took then is enough at first: what was lost is sent again by a new attempt sooner than by
/// the transport, whose own timeouts double (TCP's SYN goes again after 1, 3 and 7 seconds).
const PATIENCE: Duration = Duration::from_secs(10);
/// How old an attempt is when something of it must have been lost: TCP's first SYN goes again after
/// a second (RFC 6298 2.1).
const STALE: Duration = Duration::from_secs(1);
/// The first pause before a lost path is tried again, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

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

/// A way to open a carrier.
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
    /// Being opened.
    Trying { carrier: CarrierId, candidate: usize, began: Duration, give_up_at: Duration },
    /// Open.
    Up { carrier: CarrierId },
    /// The candidate before this one failed.
    Alternative { candidate: usize },
    /// To be tried again.
    Resting { until: Duration },
    /// Taken out by the application.
    Removed,
}

#[derive(Debug)]
struct Path {
    number: u32,
    state: State,
    /// How long to rest after the next failure.
    pause: Duration,
    /// How long it took until it was open, when it was last.
    took: Option<Duration>,
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
    Open { carrier: CarrierId, candidate: usize },
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
    next_at: Duration,
}

impl Opener {
    pub(crate) fn new(mode: Opening, candidates: &[Candidate]) -> Self {
        let mut opener = Self { mode, paths: Vec::new(), next: CarrierId(0), next_at: Duration::ZERO };
        for index in 0..candidates.len() {
            opener.add(candidates, index);
        }
        // A path without anything left of its quota is not opened.
        for path in &mut opener.paths {
            if candidates[path.candidates[0]].quota == Some(0) {
                path.state = State::Removed;
            }
        }
        opener
    }

    /// Candidate `index` is new.
    pub(crate) fn add(&mut self, candidates: &[Candidate], index: usize) {
        let number = candidates[index].path;
        match self.paths.iter_mut().find(|path| path.number == number) {
            Some(path) => {
                path.candidates.push(index);
                if path.state == State::Removed {
                    path.state = State::Fresh;
                }
            }
            None => {
                let candidates = vec![index];
                let (state, pause) = (State::Fresh, PAUSE.0);
                self.paths.push(Path { number, state, pause, took: None, candidates, own: None });
            }
        }
    }

    /// What to do at `now`, one step at a time until none is left. `may_open`: how many more
    /// carriers there may be.
    pub(crate) fn step(&mut self, now: Duration, may_open: usize) -> Option<Step> {
        for index in 0..self.paths.len() {
            let State::Trying { carrier, give_up_at, .. } = self.paths[index].state else { continue };
            if give_up_at <= now {
                self.failed(carrier, now);
                return Some(Step::GiveUp { carrier });
            }
        }
        if may_open == 0 {
            return None;
        }
        let index = self.paths.iter().position(|path| self.is_due(path, now))?;
        let candidate = match self.paths[index].state {
            State::Alternative { candidate } => candidate,
            _ => 0,
        };
        if let (State::Fresh, Opening::Staggered(delay)) = (self.paths[index].state, self.mode) {
            self.next_at = now + delay;
        }
        let carrier = self.next;
        self.next = CarrierId(carrier.0 + 1);
        let path = &mut self.paths[index];
        // Doubled with each failure, as the pause is.
        let usual = |took| STALE.max(4 * took).max(4 * path.pause).min(PATIENCE);
        let give_up_at = now + path.took.map_or(PATIENCE, usual);
        path.state = State::Trying { carrier, candidate, began: now, give_up_at };
        Some(Step::Open { carrier, candidate: path.candidates[candidate] })
    }

    fn is_due(&self, path: &Path, now: Duration) -> bool {
        match path.state {
            State::Alternative { .. } => true,
            State::Resting { until } => until <= now,
            State::Fresh => match self.mode {
                Opening::Parallel => true,
                Opening::Staggered(_) => self.next_at <= now || !self.is_trying(),
                Opening::Sequential => !self.is_trying(),
            },
            State::Trying { .. } | State::Up { .. } | State::Removed => false,
        }
    }

    fn is_trying(&self) -> bool {
        self.paths.iter().any(|path| matches!(path.state, State::Trying { .. }))
    }

    /// Whether every path was tried by all its candidates, and none is open.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.paths.iter().all(|path| matches!(path.state, State::Resting { .. } | State::Removed))
    }

    /// How many carriers are being opened.
    pub(crate) fn trying(&self) -> usize {
        self.paths.iter().filter(|path| matches!(path.state, State::Trying { .. })).count()
    }

    /// The candidate by which the carrier is being opened.
    pub(crate) fn candidate_of(&self, wanted: CarrierId) -> Option<usize> {
        self.paths.iter().find_map(|path| match path.state {
            State::Trying { carrier, candidate, .. } if carrier == wanted => Some(path.candidates[candidate]),
            _ => None,
        })
    }

    /// The carrier is up and belongs to the session.
    pub(crate) fn up(&mut self, carrier: CarrierId, now: Duration) {
        if let Some(path) = self.path_of(carrier) {
            if let State::Trying { began, .. } = path.state {
                path.took = Some(now.saturating_sub(began));
            }
            path.state = State::Up { carrier };
            path.pause = PAUSE.0;
        }
    }

    /// The carrier failed or was lost. The next alternative, if there is one, is tried at once;
    /// what was open and died is tried anew at once, then with pauses.
    pub(crate) fn failed(&mut self, carrier: CarrierId, now: Duration) {
        let Some(path) = self.path_of(carrier) else { return };
        if let State::Trying { candidate, .. } = path.state {
            path.own = path.own.map(|(at, of)| (at + 1, of)).filter(|(at, of)| at < of);
            if path.own.is_some() {
                path.state = State::Alternative { candidate };
                return;
            }
        }
        path.state = match path.state {
            State::Trying { candidate, .. } if candidate + 1 < path.candidates.len() => {
                State::Alternative { candidate: candidate + 1 }
            }
            State::Trying { .. } => {
                let until = now + path.pause;
                path.pause = (2 * path.pause).clamp(PAUSE.0, PAUSE.1);
                State::Resting { until }
            }
            State::Up { .. } => State::Resting { until: now },
            state => state,
        };
    }

    /// A balancer led the carrier to another server. Its path is tried anew at the server's own
    /// addresses, of which there are `own`; when none of them leads there, as after any failure. It
    /// goes there from then on.
    pub(crate) fn astray(&mut self, carrier: CarrierId, own: usize) {
        let Some(path) = self.path_of(carrier) else { return };
        if let (State::Trying { candidate, .. }, None, 1..) = (path.state, path.own, own) {
            path.own = Some((0, own));
            path.state = State::Alternative { candidate };
        }
    }

    /// Which of the server's own addresses the carrier is being opened at.
    pub(crate) fn own_address(&self, wanted: CarrierId) -> Option<usize> {
        let path = self.paths.iter().find(|path| path.holds(wanted))?;
        path.own.map(|(at, _)| at)
    }

    /// The path is taken out; the carrier that it held.
    pub(crate) fn remove(&mut self, number: u32) -> Option<CarrierId> {
        let path = self.paths.iter_mut().find(|path| path.number == number)?;
        let held = match path.state {
            State::Trying { carrier, .. } | State::Up { carrier } => Some(carrier),
            State::Fresh | State::Alternative { .. } | State::Resting { .. } | State::Removed => None,
        };
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
    /// were lost begins anew.
    pub(crate) fn network_changed(&mut self, now: Duration) {
        for path in &mut self.paths {
            match &mut path.state {
                State::Resting { .. } => path.state = State::Fresh,
                State::Trying { began, give_up_at, .. } if *began + STALE <= now => {
                    *give_up_at = now;
                    path.pause = Duration::ZERO;
                    continue;
                }
                _ => continue,
            }
            path.pause = PAUSE.0;
        }
        self.next_at = Duration::ZERO;
    }

    /// When [`Opener::step`] has something to do next, at the latest, if `may_open` more carriers
    /// may be opened.
    pub(crate) fn next_timeout(&self, now: Duration, may_open: usize) -> Option<Duration> {
        let of_path = |path: &Path| match path.state {
            State::Trying { give_up_at, .. } => Some(give_up_at),
            _ if may_open == 0 => None,
            State::Resting { until } => Some(until),
            State::Alternative { .. } => Some(now),
            State::Fresh if self.is_due(path, now) => Some(now),
            State::Fresh => matches!(self.mode, Opening::Staggered(_)).then_some(self.next_at),
            State::Up { .. } | State::Removed => None,
        };
        self.paths.iter().filter_map(of_path).min()
    }

    fn path_of(&mut self, carrier: CarrierId) -> Option<&mut Path> {
        self.paths.iter_mut().find(|path| path.holds(carrier))
    }
}

impl Path {
    fn holds(&self, wanted: CarrierId) -> bool {
        matches!(self.state, State::Trying { carrier, .. } | State::Up { carrier } if carrier == wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When a SYN of an attempt that begins at `began` gets through a link that carries in the first half
    /// of each second alone: the first goes at once, others after 1, 3 and 7 s (RFC 6298 2.1, 5.5).
    fn passes(began: Duration, give_up_at: Duration) -> Option<Duration> {
        let sent = [0, 1, 3, 7].map(|seconds| began + Duration::from_secs(seconds));
        sent.into_iter().find(|at| at.subsec_millis() < 500 && *at < give_up_at)
    }

    #[test]
    fn a_path_that_flaps_is_open_again_within_seconds() {
        for lost_at in (10_000..11_000).step_by(10).map(Duration::from_millis) {
            let mut opener = Opener::new(Opening::default(), &[Candidate::new(0)]);
            let Some(Step::Open { carrier, .. }) = opener.step(Duration::ZERO, 1) else { panic!() };
            opener.up(carrier, Duration::from_millis(60));
            opener.failed(carrier, lost_at);
            let mut now = lost_at;
            let open_at = loop {
                let Some(Step::Open { carrier, .. }) = opener.step(now, 1) else { panic!("{now:?}") };
                let give_up_at = opener.next_timeout(now, 1).expect("an end of its patience");
                if let Some(at) = passes(now, give_up_at) {
                    break at;
                }
                assert_eq!(opener.step(give_up_at, 1), Some(Step::GiveUp { carrier }));
                now = opener.next_timeout(give_up_at, 1).expect("another attempt");
            };
            assert!(open_at - lost_at < Duration::from_secs(4), "{:?}", open_at - lost_at);
        }
    }

    /// The first attempt does not know how far away the server is.
    #[test]
    fn a_path_that_was_never_open_has_ten_seconds() {
        let mut opener = Opener::new(Opening::default(), &[Candidate::new(0)]);
        assert!(opener.step(Duration::ZERO, 1).is_some());
        assert_eq!(opener.next_timeout(Duration::ZERO, 1), Some(PATIENCE));
    }
}
