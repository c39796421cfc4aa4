//! Tests of the cache: distinct outcomes, lifetimes and limits.

use super::*;

const NETWORK: &str = "home";

fn key(remote: &str, transport: &str) -> CacheKey {
    CacheKey {
        network: NETWORK.into(),
        remote: remote.into(),
        transport: transport.into(),
        interface: "wlan".into(),
    }
}

fn at(seconds: u64) -> Instant {
    Instant::after(Duration::from_secs(seconds))
}

const WON: AttemptOutcome = AttemptOutcome::Won { took: Duration::from_millis(20) };
const BLOCKED: AttemptOutcome = AttemptOutcome::Failed(Failure::Timeout);

fn lost(had_a_head_start: bool) -> AttemptOutcome {
    AttemptOutcome::Lost { had_a_head_start, after: Duration::ZERO }
}

#[test]
fn winning_losing_failing_and_blocked_are_distinguished() {
    let mut cache = Cache::default();
    let outcomes = [
        ("w", WON, Knowledge::Won { took: Duration::from_millis(20) }),
        ("l", lost(false), Knowledge::Lost { probe: false }),
        ("r", AttemptOutcome::Failed(Failure::Refused), Knowledge::Failed),
        ("s", AttemptOutcome::Failed(Failure::Security), Knowledge::Failed),
        (
            "t",
            AttemptOutcome::Failed(Failure::Timeout),
            Knowledge::Blocked { probe: false },
        ),
        (
            "p",
            AttemptOutcome::Failed(Failure::Prohibited),
            Knowledge::Blocked { probe: false },
        ),
        ("x", AttemptOutcome::Failed(Failure::Local), Knowledge::Unknown),
        (
            "y",
            AttemptOutcome::Failed(Failure::InterfaceGone),
            Knowledge::Unknown,
        ),
    ];
    for (remote, outcome, _) in outcomes {
        cache.record(key(remote, "tcp"), outcome, at(0));
    }
    for (remote, _, known) in outcomes {
        assert_eq!(cache.consult(&key(remote, "tcp"), at(1)), known, "{remote}");
    }
    assert_eq!(
        cache.consult(&key("w", "sctp"), at(1)),
        Knowledge::Unknown,
        "another transport"
    );
}

#[test]
fn entries_apply_only_to_their_network_and_interface() {
    let mut cache = Cache::default();
    cache.record(key("a", "tcp"), WON, at(0));
    let elsewhere = CacheKey { network: "office".into(), ..key("a", "tcp") };
    let by_wire = CacheKey { interface: "eth".into(), ..key("a", "tcp") };
    assert_eq!(cache.consult(&elsewhere, at(1)), Knowledge::Unknown);
    assert_eq!(cache.consult(&by_wire, at(1)), Knowledge::Unknown);
}

/// NEAT has the fault that entries in memory never expire.
#[test]
fn entries_expire() {
    let mut cache = Cache::default();
    cache.record(key("a", "tcp"), WON, at(0));
    cache.record(key("b", "tcp"), AttemptOutcome::Failed(Failure::Refused), at(0));
    assert_ne!(cache.consult(&key("a", "tcp"), at(599)), Knowledge::Unknown);
    assert_eq!(cache.consult(&key("a", "tcp"), at(600)), Knowledge::Unknown);
    assert_ne!(cache.consult(&key("b", "tcp"), at(59)), Knowledge::Unknown);
    assert_eq!(cache.consult(&key("b", "tcp"), at(60)), Knowledge::Unknown);
    assert!(cache.is_empty(), "what has expired is gone");
}

/// A loser's entry that outlives its winner's only makes the next race wait.
#[test]
fn a_losers_entry_never_outlives_the_winners() {
    let early = lost(true);
    let late = AttemptOutcome::Lost { had_a_head_start: true, after: Duration::from_secs(30) };
    for (outcome, seen) in [(early, 0), (late, 30), (lost(false), 0)] {
        let mut cache = Cache::default();
        cache.record(key("w", "tcp"), WON, at(0));
        cache.record(key("l", "tcp"), outcome, at(seen));
        assert_ne!(
            cache.consult(&key("w", "tcp"), at(599)),
            Knowledge::Unknown,
            "{outcome:?}"
        );
        assert_ne!(
            cache.consult(&key("l", "tcp"), at(599)),
            Knowledge::Unknown,
            "{outcome:?}"
        );
        assert_eq!(
            cache.consult(&key("w", "tcp"), at(600)),
            Knowledge::Unknown,
            "{outcome:?}"
        );
        assert_eq!(
            cache.consult(&key("l", "tcp"), at(600)),
            Knowledge::Unknown,
            "{outcome:?}"
        );
    }
    let mut full = Cache::new(CacheLimits { entries: 2, ..CacheLimits::default() });
    full.record(key("a", "tcp"), WON, at(0));
    full.record(key("b", "tcp"), early, at(0));
    full.record(key("c", "tcp"), WON, at(1));
    assert_ne!(
        full.consult(&key("a", "tcp"), at(1)),
        Knowledge::Unknown,
        "the winner stays"
    );
    assert_eq!(
        full.consult(&key("b", "tcp"), at(1)),
        Knowledge::Unknown,
        "the loser makes room"
    );
}

/// Decision 28: after 10 s, then after twice the time, up to a bound; by one caller only.
#[test]
fn a_blocked_candidate_is_retried_after_doubling_intervals() {
    let mut cache = Cache::default();
    let (key, mut now) = (key("a", "sctp"), at(0));
    for expected in [10, 20, 40, 80, 160, 320, 600, 600] {
        cache.record(key.clone(), BLOCKED, now);
        let due = cache.next_due(NETWORK).expect("a time");
        assert_eq!((due - now).as_secs(), expected);
        assert_eq!(
            cache.consult(&key, due - Duration::from_millis(1)),
            Knowledge::Blocked { probe: false }
        );
        assert_eq!(cache.consult(&key, due), Knowledge::Blocked { probe: true });
        assert_eq!(
            cache.consult(&key, due),
            Knowledge::Blocked { probe: false },
            "one is enough"
        );
        now = due;
    }
    cache.record(key.clone(), WON, now);
    assert_eq!(cache.next_due(NETWORK), None);
    cache.record(key.clone(), BLOCKED, now);
    assert_eq!(
        cache.next_due(NETWORK),
        Some(now + Duration::from_secs(10)),
        "from the beginning"
    );
}

/// The candidate loses a race each second by a little, which does not postpone its turn.
#[test]
fn a_loser_in_many_races_is_tried_in_time() {
    let mut cache = Cache::default();
    let key = key("a", "sctp");
    for second in 0..10 {
        assert_ne!(
            cache.consult(&key, at(second)),
            Knowledge::Lost { probe: true },
            "{second}"
        );
        cache.record(key.clone(), lost(true), at(second));
    }
    assert_eq!(cache.consult(&key, at(10)), Knowledge::Lost { probe: true });
}

/// A handshake does not reveal the stall, so the candidate is not probed. The entry lives as long as that of
/// the winner in its place.
#[test]
fn a_stalled_winner_is_remembered_like_a_winner_without_probes() {
    let mut cache = Cache::default();
    cache.record(key("a", "tcp"), WON, at(0));
    cache.record(key("a", "tcp"), AttemptOutcome::Failed(Failure::Stalled), at(2));
    assert_eq!(cache.consult(&key("a", "tcp"), at(601)), Knowledge::Failed);
    assert_eq!(cache.next_due(NETWORK), None);
    assert_eq!(cache.consult(&key("a", "tcp"), at(602)), Knowledge::Unknown);
}

/// On a network that drops UDP, every new host would otherwise cost a delay.
#[test]
fn a_transport_several_remotes_ignore_is_blocked_on_the_network() {
    let mut cache = Cache::default();
    for (number, outcome) in [BLOCKED, lost(true)].into_iter().enumerate() {
        cache.record(key(&number.to_string(), "sctp"), outcome, at(0));
        cache.record(key(&number.to_string(), "tcp"), WON, at(0));
    }
    assert_eq!(
        cache.consult(&key("new", "sctp"), at(1)),
        Knowledge::Unknown,
        "two are no evidence yet"
    );
    cache.record(key("2", "sctp"), lost(true), at(1));
    assert_eq!(
        cache.consult(&key("new", "sctp"), at(2)),
        Knowledge::Blocked { probe: false }
    );
    assert_eq!(cache.consult(&key("new", "tcp"), at(2)), Knowledge::Unknown);
    let elsewhere = CacheKey { network: "office".into(), ..key("new", "sctp") };
    assert_eq!(
        cache.consult(&elsewhere, at(2)),
        Knowledge::Unknown,
        "another network"
    );
    // A single caller asks it again later.
    assert_eq!(
        cache.consult(&key("new", "sctp"), at(11)),
        Knowledge::Blocked { probe: true }
    );
    assert_eq!(
        cache.consult(&key("other", "sctp"), at(11)),
        Knowledge::Blocked { probe: false }
    );
    // One answer shows that the remotes are at fault and not the network.
    cache.record(
        key("new", "sctp"),
        AttemptOutcome::Failed(Failure::Refused),
        at(12),
    );
    assert_eq!(cache.consult(&key("other", "sctp"), at(13)), Knowledge::Unknown);
}

/// See decision 28.
#[test]
fn a_network_event_forgets_blocked_candidates() {
    let mut cache = Cache::default();
    cache.record(key("a", "sctp"), BLOCKED, at(0));
    cache.record(key("a", "tcp"), WON, at(0));
    let elsewhere = CacheKey { network: "office".into(), ..key("a", "sctp") };
    cache.record(elsewhere.clone(), BLOCKED, at(0));
    cache.network_changed(NETWORK);
    assert_eq!(cache.consult(&key("a", "sctp"), at(1)), Knowledge::Unknown);
    assert_ne!(cache.consult(&key("a", "tcp"), at(1)), Knowledge::Unknown);
    assert_ne!(cache.consult(&elsewhere, at(1)), Knowledge::Unknown);
}

#[test]
fn memory_is_bounded() {
    let limits = CacheLimits { entries: 10, ..CacheLimits::default() };
    let mut cache = Cache::new(limits);
    cache.record(key(&"x".repeat(257), "tcp"), WON, at(0));
    assert!(cache.is_empty(), "a text too long");
    for number in 0..1000 {
        cache.record(key(&number.to_string(), "tcp"), WON, at(number));
        assert!(cache.len() <= 10);
    }
    assert_ne!(
        cache.consult(&key("999", "tcp"), at(999)),
        Knowledge::Unknown,
        "the newest stay"
    );
    assert_eq!(cache.consult(&key("989", "tcp"), at(999)), Knowledge::Unknown);
    let mut none = Cache::new(CacheLimits { entries: 0, ..limits });
    none.record(key("a", "tcp"), WON, at(0));
    assert!(none.is_empty());
}

#[test]
fn a_restart_keeps_valid_entries() {
    let mut cache = Cache::default();
    cache.record(key("a", "tcp"), WON, at(0));
    cache.record(key("b", "sctp"), BLOCKED, at(1));
    cache.record(key("b", "sctp"), BLOCKED, at(2));
    cache.record(key("c", "tcp"), AttemptOutcome::Failed(Failure::Refused), at(3));
    let text = serde_json::to_string(&cache.snapshot(at(10))).expect("a document");
    let snapshot: Snapshot = serde_json::from_str(&text).expect("the same");
    let mut again = Cache::restore(CacheLimits::default(), snapshot.clone(), at(10));
    assert_eq!(again.entries, cache.entries);
    let mut late = Cache::restore(CacheLimits::default(), snapshot.clone(), at(100));
    assert_eq!(
        late.consult(&key("c", "tcp"), at(100)),
        Knowledge::Unknown,
        "expired meanwhile"
    );
    assert_eq!(
        late.consult(&key("b", "sctp"), at(100)),
        Knowledge::Blocked { probe: true }
    );
    assert_eq!(
        again.consult(&key("b", "sctp"), at(21)),
        Knowledge::Blocked { probe: false },
        "20 s at 22"
    );
    let back = Cache::restore(
        CacheLimits::default(),
        snapshot,
        Instant::after(Duration::from_millis(1500)),
    );
    assert_eq!(back.len(), 1, "what comes from the future is left out");
}

#[test]
fn a_forged_snapshot_is_restored_safely() {
    let text = |until: u64, retry: &str| {
        format!(
            r#"{{"version":1,"entries":[{{"key":{{"network":"home","remote":"a","transport":"t","interface":""}},
            "outcome":{{"failed":"timeout"}},"at_ms":0,"until_ms":{until}{retry}}}]}}"#
        )
    };
    let restore = |text: &str| {
        serde_json::from_str(text).map(|snapshot| Cache::restore(CacheLimits::default(), snapshot, at(1)))
    };
    assert_eq!(
        restore(&text(u64::MAX, "")).expect("a snapshot").len(),
        0,
        "it lives for ever"
    );
    let retry = r#","retry":{"at_ms":18446744073709551615,"interval_ms":0}"#;
    let cache = restore(&text(600_000, retry)).expect("a snapshot");
    assert_eq!(cache.next_due(NETWORK), None, "never before it expires");
    assert!(restore(&text(600_000, r#","luck":1"#)).is_err());
    let newer = text(600_000, "").replace("\"version\":1", "\"version\":2");
    assert!(restore(&newer).expect("a snapshot").is_empty());
}
