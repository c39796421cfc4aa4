//! A connection succeeds whenever any candidate can, within a bounded time. This is checked in two thousand
//! simulated worlds of each of nine kinds, under each profile that starts the next candidate at a failure.
//!
//! **The bound.** A candidate is found at F; R is the profile's resolution delay, G the longest distance
//! between two starts that the profile permits in this world, n the number of candidates.
//!
//! 1. From F + R on, the line is open (RFC 8305, section 3). While the candidate waits, the next start comes
//!    at most G after the latest one (section 5: the Connection Attempt Delay counts from the latest start; a
//!    failure brings a start forward, and never defers one). Each of the n - 1 others starts once. If none of
//!    them started before F + R, the first start is at F + R, and the candidate's follows at most n - 1
//!    distances later. If one did, the first start after F + R is at most G later, and one fewer is left to
//!    start before the candidate. So it starts by **F + R + (n - 1) G**, independent of the results of the
//!    others. (Algorithm 1 of NEAT defers even the first start, by its class; its G, a step for each class
//!    and one more, contains that.)
//! 2. Compared with the same world in which no peer answers, it may start later only because of candidates
//!    that a failure brought forward past it: the delay counts anew from each of them. With e candidates that
//!    started before it here and not there, it starts at most **e G** later than there. If no attempt fails
//!    early, e = 0, and the race is not slower than its best candidate alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hawser_race::{
    Action, Candidate, CandidateId, Event, Failure, Family, Handshake, HeadStart, Knowledge, Profile,
    Question, Questions, Race, Request, Security, ServiceParameters, Spacing,
};
use hawser_time::Instant;

/// The number of worlds of each kind.
const SEEDS: u64 = 2_000;
const KINDS: [&str; 9] = [
    "broken IPv6",
    "blocked UDP",
    "drops without an error",
    "resets",
    "slow or wrong DNS",
    "wrong ALPN",
    "dead first address",
    "an interface gone",
    "a cache that is out of date",
];

#[test]
fn connection_succeeds_by_the_bound_whenever_any_candidate_can() {
    let mut able = 0;
    for profile in [Profile::NEAT, Profile::RFC8305, Profile::VERSION3] {
        for (kind, name) in KINDS.iter().enumerate() {
            for seed in 0..SEEDS {
                let world = World::new(kind, seed);
                let case = format!("{name}, seed {seed}, {}", profile.name);
                able += usize::from(judge(&profile, &world, &case));
            }
        }
    }
    assert!(able >= 3 * 15_000, "only {able} worlds had a candidate that can");
}

/// Checks one race against both bounds, and returns whether any candidate could connect.
fn judge(profile: &Profile, world: &World, case: &str) -> bool {
    let raced = world.play(profile, false, case);
    let unanswered = world.play(profile, true, case);
    assert_eq!(unanswered.won, None, "{case}: nobody answers");
    let (gap, others) = (max_gap(profile, world), world.candidates.len() as u64 - 1);
    let mut is_able = false;
    for one in world.candidates.iter().filter(|one| world.can(one)) {
        let Fate::Connects { after, handshake } = one.fate else {
            continue;
        };
        is_able = true;
        let id = one.candidate.id;
        let latest = one.found + u64::from(profile.resolution_delay_ms) + others * gap;
        let alone = unanswered.start(id).unwrap_or(u64::MAX);
        assert!(
            alone <= latest,
            "{case}: {id:?} starts at {alone} when nobody answers, {latest} is the latest"
        );
        let latest = latest.min(alone + raced.overtaking(id, &unanswered) * gap);
        if let Some(start) = raced.start(id) {
            assert!(
                start <= latest,
                "{case}: {id:?} starts at {start}, {latest} is the latest; when nobody answers at {alone}"
            );
        }
        let bound = latest + after + handshake;
        let (winner, at) = raced
            .won
            .unwrap_or_else(|| panic!("{case}: {id:?} could by {bound}, and nobody won"));
        assert!(
            at <= bound,
            "{case}: {winner:?} won at {at}, {id:?} could have by {bound}"
        );
    }
    // Otherwise, the winner connected before its interface disappeared.
    assert!(is_able || raced.won.is_none() || world.gone.is_some(), "{case}");
    is_able
}

/// Returns the longest time between two starts in this world, in milliseconds.
fn max_gap(profile: &Profile, world: &World) -> u64 {
    let classes = world
        .candidates
        .iter()
        .map(|one| u64::from(one.candidate.priority))
        .max()
        .unwrap_or(0);
    let spacing = match profile.spacing {
        Spacing::Priority { step_ms } => u64::from(step_ms) * (classes + 1),
        Spacing::Fixed { delay_ms } => delay_ms.into(),
        Spacing::Predicted { max_ms, .. } => max_ms.into(),
    };
    let cached = world
        .candidates
        .iter()
        .any(|one| matches!(one.candidate.known, Knowledge::Won { .. }));
    spacing.max(
        profile
            .head_start
            .filter(|_| cached)
            .map_or(0, |HeadStart { max_ms, .. }| max_ms.into()),
    )
}

/// The result of an attempt, in milliseconds after its start.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Connects {
        after: u64,
        handshake: u64,
    },
    Fails {
        after: u64,
        why: Failure,
    },
    /// Its transport connects, and then the attempt fails.
    Disappoints {
        after: u64,
        handshake: u64,
        why: Failure,
    },
    Dropped,
}

struct One {
    candidate: Candidate,
    fate: Fate,
    /// The time at which its name is answered, and the question.
    found: u64,
    question: Question,
}

struct World {
    candidates: Vec<One>,
    /// The questions without an address, with the times at which they end.
    missing: Vec<(u64, Question)>,
    gone: Option<(u64, &'static str)>,
}

#[derive(Default)]
struct Played {
    won: Option<(CandidateId, u64)>,
    /// The started candidates with their times, in order.
    starts: Vec<(CandidateId, u64)>,
}

impl Played {
    fn start(&self, id: CandidateId) -> Option<u64> {
        self.starts
            .iter()
            .find(|(started, _)| *started == id)
            .map(|(_, at)| *at)
    }

    fn before(&self, id: CandidateId) -> impl Iterator<Item = CandidateId> {
        self.starts
            .iter()
            .map(|(started, _)| *started)
            .take_while(move |&started| started != id)
    }

    /// Returns the number of candidates that were started before this one here, but not in the other race.
    fn overtaking(&self, id: CandidateId, other: &Played) -> u64 {
        let there: BTreeSet<_> = other.before(id).collect();
        self.before(id).filter(|started| !there.contains(started)).count() as u64
    }
}

impl World {
    fn new(kind: usize, seed: u64) -> World {
        let mut rng = fastrand::Rng::with_seed(seed * 1000 + kind as u64);
        let slow = kind == 4;
        let mut answered = || {
            if slow { rng.u64(..3000) } else { 5 + rng.u64(..60) }
        };
        let times = [
            (Question::Ipv6, answered()),
            (Question::Ipv4, answered()),
            (Question::Service, answered()),
        ];
        let mut world = World { candidates: Vec::new(), missing: Vec::new(), gone: None };
        let count = 2 + rng.u64(..5);
        for number in 0..count {
            world.candidates.push(one(number as u32, &times, &mut rng));
        }
        for (question, at) in times {
            if world.candidates.iter().all(|one| one.question != question) {
                world.missing.push((at, question));
            }
        }
        world.trouble(kind, &mut rng);
        world
    }

    fn trouble(&mut self, kind: usize, rng: &mut fastrand::Rng) {
        if kind == 7 {
            self.gone = Some((rng.u64(..600), "wlan"));
        }
        let mut is_first = true;
        for one in &mut self.candidates {
            let is_hit = match kind {
                0 => one.candidate.family == Family::Ipv6,
                1 => &*one.candidate.transport == "quic",
                6 => std::mem::take(&mut is_first),
                7 => false,
                _ => rng.bool(),
            };
            let dropped_or_unreachable = match rng.u64(..2) {
                0 => Fate::Dropped,
                _ => Fate::Fails { after: rng.u64(..40), why: Failure::Unreachable },
            };
            let after = rng.u64(..200);
            let refused = Fate::Fails { after, why: [Failure::Refused, Failure::Reset][rng.usize(..2)] };
            let known = [
                Knowledge::Won { took: Duration::from_millis(rng.u64(..3000)) },
                Knowledge::Blocked { probe: rng.bool() },
                Knowledge::Failed,
                Knowledge::Lost { probe: false },
            ];
            match kind {
                8 => {
                    one.candidate.known = known[rng.usize(..4)];
                    one.fate = if is_hit { dropped_or_unreachable } else { one.fate };
                }
                _ if !is_hit => {}
                0 => one.fate = dropped_or_unreachable,
                1 | 2 | 6 => one.fate = Fate::Dropped,
                3 | 4 => one.fate = refused,
                _ => {
                    let (handshake, why) = (rng.u64(..200), Failure::Protocol);
                    one.fate = Fate::Disappoints { after, handshake, why };
                    one.candidate.handshake = Handshake::Secure;
                }
            }
        }
    }

    /// Returns whether a candidate can connect, for any start time.
    fn can(&self, one: &One) -> bool {
        let stays = self
            .gone
            .is_none_or(|(_, gone)| *one.candidate.interface != *gone);
        stays && matches!(one.fate, Fate::Connects { .. })
    }

    /// Plays a race in this world, or in the same world without any answers.
    fn play(&self, profile: &Profile, unanswered: bool, case: &str) -> Played {
        let mut queue = Queue::default();
        for (question, at) in self
            .candidates
            .iter()
            .map(|one| (one.question, one.found))
            .collect::<BTreeSet<_>>()
        {
            let own = self.candidates.iter().filter(|one| one.question == question);
            let candidates = own.map(|one| one.candidate.clone()).collect();
            queue.add(at, Event::Found { question: Some(question), candidates });
        }
        for &(at, question) in &self.missing {
            queue.add(at, Event::Missing { question, why: Failure::NoRecord });
        }
        if let Some((at, gone)) = self.gone {
            queue.add(at, Event::NetworkChanged { gone: Some(gone.into()) });
        }
        let request = Request { security: Security::None, ..Request::default() };
        let mut race = Race::new(profile.clone(), request, Questions::ALL, Instant::ORIGIN);
        let (mut played, mut wake, mut open, mut ends) = (Played::default(), None, BTreeSet::new(), 0);
        for _ in 0..10_000 {
            let Some((now, event)) = queue.next(&mut wake) else {
                break;
            };
            for action in race.on(event, Instant::after(Duration::from_millis(now))) {
                match action {
                    Action::Start(id) | Action::Probe(id) => {
                        assert!(open.insert(id), "{case}: {id:?} is started twice at once");
                        played.starts.push((id, now));
                        if !unanswered {
                            self.attempt(id, now, &mut queue);
                        }
                    }
                    Action::Cancel(id) => {
                        assert!(open.remove(&id), "{case}: {id:?} is cancelled, and is not open")
                    }
                    Action::Won(id) => {
                        assert!(open.contains(&id), "{case}: {id:?} wins, and is not open");
                        (played.won, ends) = (Some((id, now)), ends + 1);
                    }
                    Action::AllFailed(_) => ends += 1,
                    Action::Record(..) => {}
                    Action::Wake(at) => wake = Some(at.since_origin().as_millis() as u64),
                }
            }
            if race.is_over() {
                break;
            }
        }
        assert!(race.is_over() && ends == 1, "{case}: it ends {ends} times");
        played
    }

    fn attempt(&self, id: CandidateId, now: u64, queue: &mut Queue) {
        let Some(one) = self.candidates.iter().find(|one| one.candidate.id == id) else {
            return;
        };
        let is_secure = one.candidate.handshake == Handshake::Secure;
        match one.fate {
            Fate::Connects { after, handshake } => {
                queue.add(now + after, Event::Connected(id));
                if is_secure {
                    queue.add(now + after + handshake, Event::Established(id));
                }
            }
            Fate::Fails { after, why } => queue.add(now + after, Event::Failed(id, why)),
            Fate::Disappoints { after, handshake, why } => {
                queue.add(now + after, Event::Connected(id));
                queue.add(now + after + handshake, Event::Failed(id, why));
            }
            Fate::Dropped => {}
        }
    }
}

fn one(number: u32, times: &[(Question, u64)], rng: &mut fastrand::Rng) -> One {
    let (question, found) = times[rng.usize(..3)];
    let transport = ["quic", "tcp"][rng.usize(..2)];
    let mut candidate = Candidate::new(CandidateId(number), transport, format!("host {number}"));
    candidate.family = match question {
        Question::Ipv6 => Family::Ipv6,
        Question::Ipv4 => Family::Ipv4,
        Question::Service => [Family::Ipv6, Family::Ipv4][rng.usize(..2)],
    };
    candidate.service = (question == Question::Service)
        .then(|| ServiceParameters { priority: 1 + rng.u16(..2), is_choice: false });
    candidate.rank = rng.u16(..2);
    candidate.priority = rng.u16(..8);
    candidate.interface = ["wlan", "wwan"][rng.usize(..2)].into();
    candidate.round_trip = (rng.bool()).then(|| Duration::from_millis(rng.u64(..900)));
    let is_secure = rng.bool();
    candidate.handshake = if is_secure {
        Handshake::Secure
    } else {
        Handshake::Transport
    };
    let handshake = if is_secure { rng.u64(..150) } else { 0 };
    One {
        candidate,
        fate: Fate::Connects { after: 1 + rng.u64(..300), handshake },
        found,
        question,
    }
}

/// Events by time. Events of one time keep the order of their insertion.
#[derive(Default)]
struct Queue {
    events: BTreeMap<(u64, u64), Event>,
    count: u64,
}

impl Queue {
    fn add(&mut self, at: u64, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    /// Returns the next event, or the wake-up if that comes before.
    fn next(&mut self, wake: &mut Option<u64>) -> Option<(u64, Event)> {
        let first = self.events.first_key_value().map(|((at, _), _)| *at);
        match (first, *wake) {
            (first, Some(at)) if first.is_none_or(|first| at < first) => {
                *wake = None;
                Some((at, Event::Wake))
            }
            _ => self.events.pop_first().map(|((at, _), event)| (at, event)),
        }
    }
}
