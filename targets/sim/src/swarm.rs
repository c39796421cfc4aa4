//! Scenarios drawn from a seed: a swarm of them finds what nobody thought of.
//!
//! Links of all kinds, faults in both directions, cuts, several flows of all applications that
//! open and close in all orders. After a minute the network heals: from then on a transport has
//! no excuse, and everything must be complete at the end. A minute is less than any transport may
//! give up after (RFC 9293, 3.8.3: 100 seconds).

use std::fmt::Write;

use crate::report::Report;
use crate::rng::Rng;
use crate::scenario::units::{Bytes, Rate, Share, Sizes, Span};
use crate::scenario::{
    At, Bulk, Closing, Flow, Host, IDLE_PACKETS, Link, Messages, Opening, Request, Rules, Scenario, State,
};

/// When the network heals.
const HEALED: Span = Span(60 * SECOND);
/// How long a scenario may take: long enough for a timer that has backed off to a minute to fire
/// after the network has healed, and for the slowest link to carry everything then.
const DURATION: Span = Span(600 * SECOND);
/// When faults that come and go are drawn: while there is something to disturb.
const EARLY: u64 = 20 * SECOND;
/// The maximum number of bytes of one direction of a flow: little enough for the slowest link drawn.
const BYTES_MAX: u64 = 256 * 1024;

const MICROSECOND: u64 = 1000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// What a program can do beyond the minimum: data in both directions after the client has sent some, and the
/// client closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Opening makes a connection at the other end too, which may send first.
    pub handshake: bool,
    /// Its packets keep to an MTU below 1500 bytes.
    pub any_mtu: bool,
    /// Both ends may connect at once.
    pub open_both: bool,
    /// An end that has closed still receives.
    pub half_close: bool,
    /// After both ends have closed, all connections end within five minutes.
    pub ends: bool,
}

impl Abilities {
    /// All of them.
    pub const ALL: Abilities = Abilities {
        handshake: true,
        any_mtu: true,
        open_both: true,
        half_close: true,
        ends: true,
    };
    /// None of them.
    pub const MINIMAL: Abilities = Abilities {
        handshake: false,
        any_mtu: false,
        open_both: false,
        half_close: false,
        ends: false,
    };
}

/// The scenario of this seed, for a program that can do everything.
#[must_use]
pub fn scenario(seed: u64, program: &str) -> Scenario {
    scenario_for(seed, program, Abilities::ALL)
}

/// The scenario of this seed, for a program that can do this much.
#[must_use]
pub fn scenario_for(seed: u64, program: &str, abilities: Abilities) -> Scenario {
    let mut rng = Rng::new(seed, "swarm");
    let flows = 1 + rng.below(5);
    Scenario {
        name: format!("swarm {seed}"),
        seed,
        duration: DURATION,
        linger: Span(if abilities.ends { 300 * SECOND } else { 0 }),
        idle_packets: IDLE_PACKETS,
        program: program.to_owned(),
        engine: None,
        params: std::collections::BTreeMap::new(),
        host: ["a", "b"].map(|name| host(name, &mut rng, abilities)).into(),
        link: vec![link(&mut rng)],
        flow: (0..flows).map(|_| flow(&mut rng, abilities)).collect(),
        at: changes(&mut rng),
    }
}

fn host(name: &str, rng: &mut Rng, abilities: Abilities) -> Host {
    let mtus: &[u32] = if abilities.any_mtu {
        &[1280, 1400, 1500, 1500, 9000]
    } else {
        &[1500, 9000]
    };
    Host {
        name: name.to_owned(),
        addresses: Vec::new(),
        mtu: mtus[rng.below(mtus.len() as u64) as usize],
        buffer: None,
        program: None,
        params: std::collections::BTreeMap::new(),
    }
}

fn link(rng: &mut Rng) -> Link {
    let rate = match rng.below(6) {
        0 => None,
        n => Some(Rate(rng.between(
            256_000 * 8u64.pow(n as u32 - 1) / 2,
            256_000 * 8u64.pow(n as u32 - 1),
        ))),
    };
    let delay = match rng.below(3) {
        0 => span(rng, 10 * MICROSECOND, MILLISECOND),
        1 => span(rng, MILLISECOND, 20 * MILLISECOND),
        _ => span(rng, 20 * MILLISECOND, 150 * MILLISECOND),
    };
    let both = Rules {
        rate,
        delay: Some(delay),
        queue_packets: Some(rng.between(8, 200)),
        ecn: rng.chance(0.3).then(|| Bytes(rng.between(10_000, 60_000))),
        ..Rules::default()
    };
    Link {
        name: "wire".to_owned(),
        between: ["a".to_owned(), "b".to_owned()],
        both,
        forward: faults(rng, delay.0),
        backward: faults(rng, delay.0),
    }
}

/// A span between two, in whole microseconds.
fn span(rng: &mut Rng, min: u64, max: u64) -> Span {
    Span(rng.between(min, max).next_multiple_of(MICROSECOND))
}

/// Faults of one direction: often none, sometimes many.
fn faults(rng: &mut Rng, delay: u64) -> Rules {
    if rng.chance(0.2) {
        return Rules::default();
    }
    let mut share = |often: f64, max: f64| {
        rng.chance(often)
            .then(|| Share((rng.fraction() * max * 10_000.0).round() / 10_000.0))
    };
    let (loss, corrupt) = (share(0.7, 0.15), share(0.3, 0.02));
    let (duplicate, reorder) = (share(0.4, 0.1), share(0.4, 0.2));
    Rules {
        loss,
        burst: rng.chance(0.3).then(|| rng.between(1, 5) as f64),
        corrupt,
        duplicate,
        reorder,
        hold: Some(span(rng, delay / 10 + 1, delay * 2)),
        jitter: rng.chance(0.4).then(|| span(rng, 1, delay)),
        ..Rules::default()
    }
}

/// Cuts early on, perhaps new faults, and the healing.
fn changes(rng: &mut Rng) -> Vec<At> {
    let at = |time, state, forward, backward| At {
        time: Span(time),
        link: "wire".to_owned(),
        state,
        both: Rules::default(),
        forward,
        backward,
    };
    let quiet = Rules::default;
    let mut changes = Vec::new();
    for _ in 0..rng.below(3) {
        let cut = span(rng, 0, EARLY).0;
        let mended = cut + span(rng, MILLISECOND, 5 * SECOND).0;
        changes.push(at(cut, Some(State::Down), quiet(), quiet()));
        changes.push(at(mended, Some(State::Up), quiet(), quiet()));
    }
    if rng.chance(0.3) {
        let rules = Rules {
            delay: Some(span(rng, MILLISECOND, 100 * MILLISECOND)),
            ..quiet()
        };
        changes.push(at(span(rng, 0, EARLY).0, None, rules.clone(), rules));
    }
    changes.push(at(HEALED.0, Some(State::Up), Rules::healed(), Rules::healed()));
    changes.sort_by_key(|change| change.time);
    changes
}

fn flow(rng: &mut Rng, abilities: Abilities) -> Flow {
    let (from, to) = if rng.chance(0.5) { ("a", "b") } else { ("b", "a") };
    let close = match rng.below(if abilities.half_close { 3 } else { 1 }) {
        0 => Closing::Client,
        1 => Closing::Server,
        _ => Closing::Both,
    };
    let open = if abilities.open_both && rng.chance(0.15) {
        Opening::Both
    } else {
        Opening::Client
    };
    let mut flow = Flow {
        from: from.to_owned(),
        to: to.to_owned(),
        at: Span(rng.below(3) * span(rng, 0, 5 * SECOND).0),
        count: 1,
        spacing: Span(0),
        port: None,
        family: Some([4, 6][rng.below(2) as usize]),
        open,
        close,
        read_rate: rng.chance(0.15).then(|| Rate(rng.between(200_000, 2_000_000))),
        bulk: None,
        request: None,
        messages: None,
    };
    match rng.below(4) {
        0 => flow.request = Some(request(rng)),
        1 => flow.messages = Some(messages(rng)),
        _ => flow.bulk = Some(bulk(rng, u64::from(!abilities.handshake))),
    }
    flow
}

fn bulk(rng: &mut Rng, min: u64) -> Bulk {
    let mut size = || match rng.below(4) {
        0 => 0,
        1 => rng.between(1, 3000),
        _ => rng.between(3000, BYTES_MAX),
    };
    Bulk {
        bytes: Bytes(size().max(min)),
        back: Bytes(size()),
    }
}

fn request(rng: &mut Rng) -> Request {
    Request {
        count: rng.between(1, 30),
        size: Sizes {
            min: 1,
            max: rng.between(1, 2000),
        },
        response: Sizes {
            min: 1,
            max: rng.between(1, 8000),
        },
        think: Span(rng.below(2) * span(rng, 0, 500 * MILLISECOND).0),
    }
}

fn messages(rng: &mut Rng) -> Messages {
    Messages {
        count: rng.between(1, 100),
        size: Sizes {
            min: 1,
            max: rng.between(1, 2500),
        },
        interval: span(rng, 0, 100 * MILLISECOND),
        both_ways: rng.chance(0.5),
    }
}

/// What to print about a scenario that failed: the failures, the scenario, how to repeat it.
#[must_use]
pub fn explain(scenario: &Scenario, report: &Report) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{} failed with {}:", scenario.name, scenario.program);
    for failure in &report.failures {
        let _ = writeln!(text, "  {failure}");
    }
    let seed = report.seed;
    let _ = writeln!(
        text,
        "repeat: save this as FILE.toml, then `hawser replay FILE.toml --seed {seed}`"
    );
    let toml = scenario.to_toml().unwrap_or_else(|error| error.to_string());
    let _ = write!(text, "---\n{toml}---");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_gives_a_good_scenario_and_always_the_same() {
        for seed in 0..500 {
            for abilities in [Abilities::ALL, Abilities::MINIMAL] {
                let drawn = scenario_for(seed, "x", abilities);
                let text = drawn.to_toml().expect("it can be written");
                assert_eq!(
                    Scenario::parse(&text).as_ref(),
                    Ok(&drawn),
                    "seed {seed}:\n{text}"
                );
                assert_eq!(drawn, scenario_for(seed, "x", abilities));
            }
        }
        assert_ne!(scenario(1, "x").link, scenario(2, "x").link);
    }

    #[test]
    fn after_a_minute_nothing_goes_wrong_any_more() {
        for seed in 0..100 {
            let drawn = scenario(seed, "x");
            let last = drawn.at.last().expect("the healing");
            assert_eq!((last.time, last.state), (HEALED, Some(State::Up)));
            assert_eq!(
                (&last.forward, &last.backward),
                (&Rules::healed(), &Rules::healed())
            );
        }
    }
}
