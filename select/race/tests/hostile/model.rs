//! The race driven by arbitrary events. The fuzz target `race` uses it, too.

use std::collections::BTreeSet;
use std::time::Duration;

use hawser_race::{
    Action, AttemptOutcome, Cache, CacheKey, CacheLimits, Candidate, CandidateId, Connectionless, Event,
    Failure, Family, Handshake, Knowledge, Profile, Question, Questions, Race, Request, Security,
    ServiceParameters,
};
use hawser_time::Instant;

/// Makes a race and its events from bytes, and a cache that is consulted and updated.
///
/// # Panics
/// An invariant does not hold:
///
/// * the race ends twice, or has not ended by the deadline
/// * an attempt neither wins, fails nor is cancelled
/// * a candidate starts with less security than requested
/// * the cache exceeds its limit
pub(crate) fn race(data: &[u8]) {
    let mut bytes = Bytes(data);
    let profile = Profile::ALL[usize::from(bytes.next() % 4)].clone();
    let request = Request {
        security: security(bytes.next()),
        connectionless: match bytes.next() % 3 {
            0 => Connectionless::Never,
            1 => Connectionless::LastResort,
            _ => Connectionless::Admit,
        },
        deadline: Duration::from_millis(u64::from(bytes.next()) * 50),
    };
    let [ipv4, ipv6, service] = [(); 3].map(|()| u16::from(bytes.next() % 3));
    let questions = Questions { ipv4, ipv6, service };
    let limits = CacheLimits { entries: 8, ..CacheLimits::default() };
    let mut judge = Judge {
        race: Race::new(profile.clone(), request.clone(), questions, Instant::ORIGIN),
        cache: Cache::new(limits),
        limits,
        request,
        open: BTreeSet::new(),
        ends: 0,
        now: Instant::ORIGIN,
        wake: None,
    };
    judge.handle(Event::Wake);
    while !bytes.0.is_empty() {
        let event = judge.event(&mut bytes);
        judge.handle(event);
    }
    // Without further events, the race ends by its clock: each wake-up starts, ends or expires a candidate.
    for _ in 0..4 * Race::MAX_CANDIDATES + 8 {
        let Some(wake) = judge.wake.take().filter(|_| !judge.race.is_over()) else {
            break;
        };
        judge.now = judge.now.max(wake);
        judge.handle(Event::Wake);
    }
    assert!(judge.race.is_over(), "it does not end");
    assert_eq!(judge.ends, 1, "ends");
    assert!(judge.open.is_empty(), "left open: {:?}", judge.open);
}

struct Judge {
    race: Race,
    cache: Cache,
    limits: CacheLimits,
    request: Request,
    /// Running attempts and probes.
    open: BTreeSet<CandidateId>,
    ends: usize,
    now: Instant,
    wake: Option<Instant>,
}

impl Judge {
    fn event(&mut self, bytes: &mut Bytes<'_>) -> Event {
        let kind = bytes.next();
        self.now += Duration::from_millis(u64::from(bytes.next()));
        let id = CandidateId(u32::from(bytes.next() % 16));
        match kind % 10 {
            0..=2 => Event::Found {
                question: question(bytes.next()),
                candidates: (0..bytes.next() % 4).map(|_| self.candidate(bytes)).collect(),
            },
            3 => Event::Missing {
                question: question(bytes.next()).unwrap_or(Question::Ipv4),
                why: Failure::NoRecord,
            },
            4 if bytes.next() < 128 => Event::Withdrawn(vec![id]),
            4 => Event::Ranked(vec![(id, service(bytes.next()))]),
            5 => Event::Connected(id),
            6 => Event::Established(id),
            7 => Event::Failed(id, failure(bytes.next())),
            8 if bytes.next() < 8 => Event::Cancelled,
            8 if bytes.next() < 32 => Event::Asked(Question::Ipv6),
            8 => Event::NetworkChanged { gone: (kind > 127).then(|| interface(kind).into()) },
            _ => Event::Wake,
        }
    }

    fn candidate(&mut self, bytes: &mut Bytes<'_>) -> Candidate {
        let number = bytes.next();
        let transport = ["t", "q", "s"][usize::from(number % 3)];
        let mut made = Candidate::new(
            CandidateId(u32::from(number % 16)),
            transport,
            format!("{}", number % 8),
        );
        let bits = bytes.next();
        made.family = if bits & 1 == 0 { Family::Ipv4 } else { Family::Ipv6 };
        made.interface = interface(bits).into();
        made.is_last_resort = bits & 0x30 == 0x30;
        made.priority = u16::from(bytes.next());
        made.security = security(bytes.next());
        made.handshake = [Handshake::Connectionless, Handshake::Transport, Handshake::Secure]
            [usize::from(bytes.next() % 3)];
        made.service = service(bytes.next());
        made.is_fallback = bits & 0xc0 == 0xc0;
        made.known = match bytes.next() % 6 {
            0 => Knowledge::Won { took: Duration::from_millis(u64::from(number)) },
            1 => Knowledge::Blocked { probe: true },
            2 => Knowledge::Lost { probe: number > 127 },
            _ => self.cache.consult(&CacheKey::new(&"net".into(), &made), self.now),
        };
        made
    }

    fn handle(&mut self, event: Event) {
        match &event {
            Event::Failed(id, _) => {
                self.open.remove(id);
            }
            Event::NetworkChanged { .. } => self.cache.network_changed("net"),
            _ => {}
        }
        for action in self.race.on(event, self.now) {
            match action {
                Action::Start(id) | Action::Probe(id) => self.begin(id),
                Action::Cancel(id) => assert!(self.open.remove(&id), "{id:?} is cancelled, and is not open"),
                Action::Won(id) => {
                    assert!(self.open.remove(&id), "{id:?} wins, and is not open");
                    self.ends += 1;
                }
                Action::AllFailed(_) => self.ends += 1,
                Action::Record(id, outcome) => self.record(id, outcome),
                Action::Wake(at) => {
                    assert!(at >= self.now, "it wants to be woken in the past");
                    self.wake = Some(at);
                }
            }
        }
        assert!(self.ends <= 1, "{} ends", self.ends);
        assert!(
            self.open.len() <= Race::MAX_CANDIDATES,
            "{} are open",
            self.open.len()
        );
    }

    fn begin(&mut self, id: CandidateId) {
        let candidate = self.race.candidate(id).expect("it was given");
        assert!(
            candidate.security >= self.request.security,
            "{id:?} is not secure enough"
        );
        let may_be_connectionless = self.request.connectionless != Connectionless::Never;
        assert!(
            may_be_connectionless || candidate.handshake != Handshake::Connectionless,
            "{id:?}"
        );
        assert!(self.open.insert(id), "{id:?} is started twice at once");
    }

    fn record(&mut self, id: CandidateId, outcome: AttemptOutcome) {
        let candidate = self.race.candidate(id).expect("it was given");
        self.cache
            .record(CacheKey::new(&"net".into(), candidate), outcome, self.now);
        assert!(
            self.cache.len() <= self.limits.entries,
            "{} entries",
            self.cache.len()
        );
        let again = Cache::restore(self.limits, self.cache.snapshot(self.now), self.now);
        assert_eq!(
            again.snapshot(self.now),
            self.cache.snapshot(self.now),
            "a snapshot is the cache"
        );
    }
}

fn service(byte: u8) -> Option<ServiceParameters> {
    (byte < 128).then_some(ServiceParameters { priority: u16::from(byte / 4), is_choice: byte & 2 == 0 })
}

fn security(byte: u8) -> Security {
    [Security::None, Security::Encrypted, Security::Authenticated][usize::from(byte % 3)]
}

fn interface(byte: u8) -> &'static str {
    ["", "wlan"][usize::from(byte >> 1 & 1)]
}

fn question(byte: u8) -> Option<Question> {
    [
        None,
        Some(Question::Ipv4),
        Some(Question::Ipv6),
        Some(Question::Service),
    ][usize::from(byte % 4)]
}

fn failure(byte: u8) -> Failure {
    [
        Failure::Refused,
        Failure::Timeout,
        Failure::Security,
        Failure::Local,
    ][usize::from(byte % 4)]
}

/// A source of bytes that continues with zeros.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }
}
