//! A connection succeeds whenever any candidate can, and never later than the best candidate alone
//! plus its delay: in simulated worlds of nine kinds, twenty seeds each, under each profile that
//! starts the next at a failure. In two thousand more of each kind it may be later by a spacing for each
//! candidate that fails early.
//!
//! A candidate's delay is when the race starts it in the same world if nobody ever answers. That is
//! bounded, too, by what the profile says: the resolution delay, and one spacing for each of the
//! others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hawser_race::{
    Action, Candidate, CandidateId, Event, Failure, Family, Handshake, HeadStart, Knowledge, Profile,
    Question, Questions, Race, Request, Security, Service, Spacing,
};

/// Worlds of each kind in which nobody is later than the best candidate alone.
const EXACT: u64 = 20;
/// Worlds of each kind.
const SEEDS: u64 = 2_000;
const KINDS: [&str; 9] = [
    "broken IPv6",
    "blocked UDP",
    "silent drops",
    "resets",
    "slow or wrong DNS",
    "wrong ALPN",
    "dead first address",
    "an interface gone",
    "a cache that is out of date",
];

#[test]
fn a_connection_succeeds_whenever_any_candidate_can() {
    let mut able = 0;
    for profile in [Profile::NEAT, Profile::RFC8305, Profile::VERSION3] {
        for (kind, name) in KINDS.iter().enumerate() {
            for seed in 0..SEEDS {
                let world = World::new(kind, seed);
                let case = format!("{name}, seed {seed}, {}", profile.name);
                able += usize::from(judge(&profile, &world, seed < EXACT, &case));
            }
        }
    }
    assert!(able >= 3 * 15_000, "only {able} worlds had a candidate that can");
}

/// Holds one race against what it promises, exactly or with setbacks; whether any candidate could.
fn judge(profile: &Profile, world: &World, is_exact: bool, case: &str) -> bool {
    let raced = world.play(profile, false, case);
    let silent = world.play(profile, true, case);
    assert_eq!(silent.won, None, "{case}: nobody answers");
    let gap = longest_gap(profile, world);
    let mut best: Option<u64> = None;
    for one in world.candidates.iter().filter(|one| world.can(one)) {
        let Fate::Connects { after, handshake } = one.fate else {
            continue;
        };
        let id = one.candidate.id;
        let start = *silent
            .starts
            .get(&id)
            .unwrap_or_else(|| panic!("{case}: {id:?} is never tried"));
        let others = world.candidates.len() as u64 - 1;
        let limit = one.found + u64::from(profile.resolution_delay_ms) + others * gap;
        assert!(
            start <= limit,
            "{case}: {id:?} starts at {start}, by the profile at {limit} at the latest"
        );
        best = Some(best.unwrap_or(u64::MAX).min(start + after + handshake));
    }
    match (best, raced.won) {
        (None, None) => {}
        (Some(best), Some((id, at))) => {
            let bound = best + if is_exact { 0 } else { world.setbacks(gap) };
            assert!(
                at <= bound,
                "{case}: {id:?} won at {at}, {bound} is the latest, one alone at {best}"
            );
        }
        // It was connected before its interface went.
        (None, Some(_)) if world.gone.is_some() => {}
        (best, won) => panic!("{case}: one could by {best:?}, and {won:?} won"),
    }
    best.is_some()
}

/// The longest time between two starts in this world, in milliseconds.
fn longest_gap(profile: &Profile, world: &World) -> u64 {
    let classes = world
        .candidates
        .iter()
        .map(|one| u64::from(one.candidate.priority))
        .max()
        .unwrap_or(0);
    let spacing = match profile.spacing {
        Spacing::Priority { step_ms } => u64::from(step_ms) * (classes + 1),
        Spacing::Fixed { delay_ms } => delay_ms.into(),
        Spacing::Predicted { most_ms, .. } => most_ms.into(),
    };
    let cached = world
        .candidates
        .iter()
        .any(|one| matches!(one.candidate.known, Knowledge::Won { .. }));
    spacing.max(
        profile
            .head_start
            .filter(|_| cached)
            .map_or(0, |HeadStart { most_ms, .. }| most_ms.into()),
    )
}

/// What an attempt comes to, in milliseconds after its start.
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
    /// Its transport connects, and then it fails.
    Disappoints {
        after: u64,
        handshake: u64,
        why: Failure,
    },
    Silent,
}

struct One {
    candidate: Candidate,
    fate: Fate,
    /// When its name is answered, and by which question.
    found: u64,
    question: Question,
}

struct World {
    candidates: Vec<One>,
    /// Questions that have no address to tell, with when they say so.
    missing: Vec<(u64, Question)>,
    gone: Option<(u64, &'static str)>,
}

#[derive(Default)]
struct Played {
    won: Option<(CandidateId, u64)>,
    starts: BTreeMap<CandidateId, u64>,
}

impl World {
    fn new(kind: usize, seed: u64) -> World {
        let mut dice = Dice(seed * 1000 + kind as u64);
        let slow = kind == 4;
        let mut answered = || {
            if slow {
                dice.below(3000)
            } else {
                5 + dice.below(60)
            }
        };
        let times = [
            (Question::Ipv6, answered()),
            (Question::Ipv4, answered()),
            (Question::Service, answered()),
        ];
        let mut world = World {
            candidates: Vec::new(),
            missing: Vec::new(),
            gone: None,
        };
        let count = 2 + dice.below(5);
        for number in 0..count {
            world.candidates.push(one(number as u32, &times, &mut dice));
        }
        for (question, at) in times {
            if world.candidates.iter().all(|one| one.question != question) {
                world.missing.push((at, question));
            }
        }
        world.trouble(kind, &mut dice);
        world
    }

    fn trouble(&mut self, kind: usize, dice: &mut Dice) {
        if kind == 7 {
            self.gone = Some((dice.below(600), "wlan"));
        }
        let mut is_first = true;
        for one in &mut self.candidates {
            let is_hit = match kind {
                0 => one.candidate.family == Family::Ipv6,
                1 => &*one.candidate.transport == "quic",
                6 => std::mem::take(&mut is_first),
                7 => false,
                _ => dice.below(2) == 0,
            };
            let silent_or_unreachable = match dice.below(2) {
                0 => Fate::Silent,
                _ => Fate::Fails {
                    after: dice.below(40),
                    why: Failure::Unreachable,
                },
            };
            let after = dice.below(200);
            let refused = Fate::Fails {
                after,
                why: [Failure::Refused, Failure::Reset][dice.below(2) as usize],
            };
            let known = [
                Knowledge::Won {
                    took: Duration::from_millis(dice.below(3000)),
                },
                Knowledge::Blocked {
                    probe: dice.below(2) == 0,
                },
                Knowledge::Failed,
                Knowledge::Lost { probe: false },
            ];
            match kind {
                8 => {
                    one.candidate.known = known[dice.below(4) as usize];
                    one.fate = if is_hit { silent_or_unreachable } else { one.fate };
                }
                _ if !is_hit => {}
                0 => one.fate = silent_or_unreachable,
                1 | 2 | 6 => one.fate = Fate::Silent,
                3 | 4 => one.fate = refused,
                _ => {
                    let (handshake, why) = (dice.below(200), Failure::Protocol);
                    one.fate = Fate::Disappoints {
                        after,
                        handshake,
                        why,
                    };
                    one.candidate.handshake = Handshake::Secure;
                }
            }
        }
    }

    /// How much later a candidate may start than in a world where nobody answers: an early failure starts
    /// the next as soon as one is found, and the others follow at their distance from that start (RFC 8305,
    /// section 5).
    fn setbacks(&self, gap: u64) -> u64 {
        let found = self.candidates.iter().map(|one| one.found).max().unwrap_or(0);
        let fails = |one: &&One| matches!(one.fate, Fate::Fails { .. } | Fate::Disappoints { .. });
        self.candidates.iter().filter(fails).count() as u64 * (gap + found)
    }

    /// Whether a candidate can connect, whenever it is started.
    fn can(&self, one: &One) -> bool {
        let stays = self
            .gone
            .is_none_or(|(_, gone)| *one.candidate.interface != *gone);
        stays && matches!(one.fate, Fate::Connects { .. })
    }

    /// Races in this world; or in the same where nobody answers.
    fn play(&self, profile: &Profile, silent: bool, case: &str) -> Played {
        let mut queue = Queue::default();
        for (question, at) in self
            .candidates
            .iter()
            .map(|one| (one.question, one.found))
            .collect::<BTreeSet<_>>()
        {
            let own = self.candidates.iter().filter(|one| one.question == question);
            let candidates = own.map(|one| one.candidate.clone()).collect();
            queue.add(
                at,
                Event::Found {
                    question: Some(question),
                    candidates,
                },
            );
        }
        for &(at, question) in &self.missing {
            queue.add(
                at,
                Event::Missing {
                    question,
                    why: Failure::NoRecord,
                },
            );
        }
        if let Some((at, gone)) = self.gone {
            queue.add(
                at,
                Event::NetworkChanged {
                    gone: Some(gone.into()),
                },
            );
        }
        let request = Request {
            security: Security::None,
            ..Request::default()
        };
        let mut race = Race::new(profile.clone(), request, Questions::ALL, Duration::ZERO);
        let (mut played, mut wake, mut open, mut ends) = (Played::default(), None, BTreeSet::new(), 0);
        for _ in 0..10_000 {
            let Some((now, event)) = queue.next(&mut wake) else {
                break;
            };
            for action in race.on(event, Duration::from_millis(now)) {
                match action {
                    Action::Start(id) | Action::Probe(id) => {
                        assert!(open.insert(id), "{case}: {id:?} is started twice at once");
                        played.starts.entry(id).or_insert(now);
                        if !silent {
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
                    Action::Wake(at) => wake = Some(at.as_millis() as u64),
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
            Fate::Disappoints {
                after,
                handshake,
                why,
            } => {
                queue.add(now + after, Event::Connected(id));
                queue.add(now + after + handshake, Event::Failed(id, why));
            }
            Fate::Silent => {}
        }
    }
}

fn one(number: u32, times: &[(Question, u64)], dice: &mut Dice) -> One {
    let (question, found) = times[dice.below(3) as usize];
    let transport = ["quic", "tcp"][dice.below(2) as usize];
    let mut candidate = Candidate::new(CandidateId(number), transport, format!("host {number}"));
    candidate.family = match question {
        Question::Ipv6 => Family::Ipv6,
        Question::Ipv4 => Family::Ipv4,
        Question::Service => [Family::Ipv6, Family::Ipv4][dice.below(2) as usize],
    };
    candidate.service = (question == Question::Service).then(|| Service {
        encrypted_hello: dice.below(2) == 0,
        priority: 1 + dice.below(2) as u16,
        is_choice: false,
    });
    candidate.rank = dice.below(2) as u16;
    candidate.priority = dice.below(8) as u16;
    candidate.interface = ["wlan", "wwan"][dice.below(2) as usize].into();
    candidate.round_trip = (dice.below(2) == 0).then(|| Duration::from_millis(dice.below(900)));
    let is_secure = dice.below(2) == 0;
    candidate.handshake = if is_secure {
        Handshake::Secure
    } else {
        Handshake::Transport
    };
    let handshake = if is_secure { dice.below(150) } else { 0 };
    One {
        candidate,
        fate: Fate::Connects {
            after: 1 + dice.below(300),
            handshake,
        },
        found,
        question,
    }
}

/// Events by time; those of one time in the order in which they were put in.
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

    /// The next event, or the wake-up if that comes before.
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

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ bits >> 31) % limit
    }
}
