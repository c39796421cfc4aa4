//! What some seeds are about: conditions that seldom meet by chance, each with what it must not cost.

use super::{Ability, DURATION, MILLISECOND, SECOND, Subject, healing, request, span};
use crate::rng::Rng;
use crate::scenario::units::{Bytes, Rate, Share, Span, Value};
use crate::scenario::{At, Bounds, Bulk, Closing, Flow, Link, Opening, Rules, Scenario, State};

/// The largest buffers by default: 4 MiB to send and 8 MiB to receive (`hawser_engine::Limits`). A long stream has more.
const LONG: (u64, u64) = (8_700_000, 9_500_000);
/// Bytes that a network without faults may carry for each byte that is delivered: headers, acknowledgements, and
/// what a sender repeats until it knows the round trip.
const SENT_PER_BYTE: f64 = 1.35;
/// And besides, whatever the stream's length.
const SENT_BESIDE: u64 = 96 * 1024;
/// The shortest packets that a program has to fill, in bytes, for the time that it may take.
const SHORT_PACKET: u64 = 1000;
/// Packets in flight of a program that is pipelining.
const IN_FLIGHT: u64 = 16;
const HOUR: u64 = 3600 * SECOND;

/// What a seed is about.
enum Theme {
    /// Chance alone.
    Usual,
    /// A network without faults: bytes and time have bounds.
    Calm,
    /// The same, with a stream longer than any buffer.
    Long,
    /// A reader that reads nothing for minutes: the sender waits, and sends next to nothing meanwhile.
    Stopped,
    /// A flow that is opened again and again from the same port while old packets are about.
    Again,
    /// A host that goes down without a word in the middle of it, and may come back.
    Fall,
    /// Hours in which nothing happens.
    Idle,
}

fn theme(rng: &mut Rng) -> Theme {
    match rng.below(100) {
        0..9 => Theme::Calm,
        9..11 => Theme::Long,
        11..17 => Theme::Stopped,
        17..25 => Theme::Again,
        25..34 => Theme::Fall,
        34..39 => Theme::Idle,
        _ => Theme::Usual,
    }
}

/// Changes a scenario that chance has drawn to what its seed is about, as far as the program can do it.
pub(super) fn apply(scenario: &mut Scenario, subject: &Subject<'_>) {
    // Bits of their own: they shift nothing of what was drawn.
    let rng = &mut Rng::new(scenario.seed, "swarm/theme");
    let abilities = subject.abilities;
    let theme = theme(rng);
    let may_start = !matches!(theme, Theme::Again | Theme::Fall);
    match theme {
        Theme::Calm => calm(scenario, rng, subject, None),
        Theme::Long => calm(scenario, rng, subject, Some(LONG)),
        Theme::Stopped if abilities.has(Ability::FlowControl) => stopped(scenario, rng, subject),
        Theme::Again if abilities.has(Ability::Reuse) => again(scenario, rng, subject),
        Theme::Fall if abilities.has(Ability::Restart) => fall(scenario, rng),
        Theme::Idle => idle(scenario, rng),
        Theme::Usual | Theme::Stopped | Theme::Again | Theme::Fall => {
            if rng.chance(0.2) {
                asymmetric(&mut scenario.link[0], rng);
            }
            small_buffers(scenario, rng, subject);
        }
    }
    if may_start && rng.chance(0.25) {
        start_near_the_wrap(scenario, rng, subject);
    }
}

/// Numbers begin so near to the end of their circle that they pass it: by a param of the program, which is
/// named `START` by convention. Not where numbers of an earlier connection may be about: those are what
/// unlike beginnings keep apart.
fn start_near_the_wrap(scenario: &mut Scenario, rng: &mut Rng, subject: &Subject<'_>) {
    let Some(bits) = subject.start_bits.filter(|bits| (8..=64).contains(bits)) else {
        return;
    };
    let exponent = rng.between(1, 18.min(u64::from(bits) - 1));
    let before = rng.between(1, 1 << exponent);
    let start = (u64::MAX >> (64 - bits)).wrapping_sub(before - 1);
    scenario.params.insert("START".to_owned(), Value::Number(start));
}

/// One direction is up to 50 times as fast as the other.
fn asymmetric(link: &mut Link, rng: &mut Rng) {
    let rate = link.both.rate.map_or(100_000_000, |rate| rate.0);
    let slow = Some(Rate((rate / rng.between(2, 50)).max(128_000)));
    let rules = if rng.chance(0.5) {
        &mut link.forward
    } else {
        &mut link.backward
    };
    rules.rate = slow;
}

fn small_buffers(scenario: &mut Scenario, rng: &mut Rng, subject: &Subject<'_>) {
    for flow in &mut scenario.flow {
        if rng.chance(0.2) {
            flow.send_buffer = Some(Bytes(rng.between(4096, 32_768)));
        }
        if rng.chance(0.25) && subject.abilities.has(Ability::FlowControl) {
            flow.receive_buffer = Some(Bytes(rng.between(2048, 32_768)));
        }
    }
}

/// A link without any fault, and with room in its queue for whatever is in flight.
fn perfect(link: &mut Link, rate: u64, delay: u64) {
    link.both = Rules {
        rate: Some(Rate(rate)),
        delay: Some(Span(delay)),
        ..Rules::default()
    };
    (link.forward, link.backward) = (Rules::default(), Rules::default());
}

/// The first flow alone, as a bulk transfer that its client opens and closes.
fn one_bulk(scenario: &mut Scenario, bytes: u64, back: u64) -> &mut Flow {
    scenario.flow.truncate(1);
    let flow = &mut scenario.flow[0];
    *flow = Flow {
        at: Span(0),
        open: Opening::Client,
        close: Closing::Client,
        read_rate: None,
        bulk: Some(Bulk {
            bytes: Bytes(bytes),
            back: Bytes(back),
        }),
        request: None,
        messages: None,
        ..flow.clone()
    };
    flow
}

fn calm(scenario: &mut Scenario, rng: &mut Rng, subject: &Subject<'_>, long: Option<(u64, u64)>) {
    let (rate, delay, sizes) = match long {
        Some(sizes) => (1_000_000_000, span(rng, 100_000, MILLISECOND).0, sizes),
        None => {
            let rate = 1_000_000 << rng.below(7);
            (
                rate,
                span(rng, MILLISECOND, 60 * MILLISECOND).0,
                (400_000, 1_200_000),
            )
        }
    };
    perfect(&mut scenario.link[0], rate, delay);
    scenario.at.clear();
    let bytes = rng.between(sizes.0, sizes.1);
    let back = if rng.chance(0.5) {
        rng.between(1, bytes / 4)
    } else {
        0
    };
    one_bulk(scenario, bytes, back);
    let bytes = bytes + back;
    scenario.bounds = bounds((bytes, bytes.div_ceil(SHORT_PACKET)), (rate, delay), subject);
}

/// What so many bytes, in so many packets, may cost over a network without faults.
pub(super) fn bounds(
    (bytes, packets): (u64, u64),
    (rate, delay): (u64, u64),
    subject: &Subject<'_>,
) -> Bounds {
    Bounds {
        sent: Some(enough_sent(bytes)),
        time: Some(enough_time((bytes, packets), (rate, delay), subject)),
    }
}

/// What a network without faults has to carry at most for a stream of so many bytes.
fn enough_sent(bytes: u64) -> Bytes {
    Bytes((bytes as f64 * SENT_PER_BYTE) as u64 + SENT_BESIDE)
}

/// How long a stream of so many bytes takes at most over a network without faults: three times what the line takes
/// for it; five round trips for 4 packets, or for 4 times 16 of a program that is pipelining; 20 round trips to
/// open, and to find out how much the path takes; and three seconds for a first timeout.
fn enough_time((bytes, packets): (u64, u64), (rate, delay): (u64, u64), subject: &Subject<'_>) -> Span {
    let line = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(rate);
    let rounds = if subject.abilities.has(Ability::Pipelining) {
        packets.div_ceil(IN_FLIGHT)
    } else {
        packets
    };
    Span(3 * line as u64 + (rounds * 5 / 4 + 20) * 2 * delay + 3 * SECOND)
}

fn stopped(scenario: &mut Scenario, rng: &mut Rng, subject: &Subject<'_>) {
    perfect(
        &mut scenario.link[0],
        1_000_000 << rng.below(7),
        span(rng, MILLISECOND, 60 * MILLISECOND).0,
    );
    scenario.at.clear();
    let bytes = rng.between(150_000, 400_000);
    let flow = one_bulk(scenario, bytes, 0);
    flow.read_stop = span(rng, 30 * SECOND, 200 * SECOND);
    flow.receive_buffer = Some(Bytes(rng.between(4096, 65_536)));
    if rng.chance(0.3) {
        flow.read_rate = Some(Rate(rng.between(200_000, 2_000_000)));
    }
    scenario.bounds.sent = Some(enough_sent(bytes));
    small_buffers(
        scenario,
        rng,
        &Subject {
            abilities: subject.abilities.without(Ability::FlowControl),
            ..*subject
        },
    );
}

/// Packets that are held back for seconds, and copies of others.
fn old_packets(link: &mut Link, rng: &mut Rng) {
    let rules = Rules {
        loss: Some(Share(0.02)),
        duplicate: Some(Share(0.1)),
        reorder: Some(Share(0.1)),
        hold: Some(span(rng, SECOND, 8 * SECOND)),
        ..Rules::default()
    };
    (link.forward, link.backward) = (rules.clone(), rules);
}

fn again(scenario: &mut Scenario, rng: &mut Rng, subject: &Subject<'_>) {
    old_packets(&mut scenario.link[0], rng);
    scenario.duration = Span(2 * DURATION.0);
    scenario.at = vec![healing()];
    let (bytes, back) = (rng.between(1, 40_000), rng.between(0, 40_000));
    // Who closes first often keeps the port for a while: the others are those that use it again at once.
    let close = if rng.chance(0.7) && subject.abilities.has(Ability::HalfClose) {
        Closing::Server
    } else {
        Closing::Client
    };
    let flow = one_bulk(scenario, bytes, back);
    flow.close = close;
    flow.again = rng.between(1, 3);
}

/// One host sends the other more than gets through before that one goes down: whoever sends has to notice.
fn fall(scenario: &mut Scenario, rng: &mut Rng) {
    perfect(
        &mut scenario.link[0],
        rng.between(500_000, 1_500_000),
        span(rng, MILLISECOND, 60 * MILLISECOND).0,
    );
    old_packets(&mut scenario.link[0], rng);
    scenario.at = vec![healing()];
    let client_falls = rng.chance(0.5);
    let (bytes, back) = if client_falls { (1, 1 << 20) } else { (1 << 20, 1) };
    let flow = one_bulk(scenario, bytes, back);
    flow.send_buffer = Some(Bytes(32_768));
    let victim = if client_falls { &flow.from } else { &flow.to };
    let change = |time, state| At {
        time: Span(time),
        host: Some(victim.first().clone()),
        state: Some(state),
        ..At::default()
    };
    let down = span(rng, 200 * MILLISECOND, 4 * SECOND).0;
    let up = down + span(rng, 10 * MILLISECOND, 5 * SECOND).0;
    let mut falls = vec![change(down, State::Down)];
    if rng.chance(0.75) {
        falls.push(change(up, State::Up));
        flow.again = 1;
    }
    scenario.at.extend(falls);
    scenario.at.sort_by_key(|change| change.time);
}

fn idle(scenario: &mut Scenario, rng: &mut Rng) {
    scenario.flow.truncate(1);
    let flow = &mut scenario.flow[0];
    let mut asked = request(rng);
    asked.count = rng.between(2, 4);
    asked.think = span(rng, HOUR / 2, 20 * HOUR);
    scenario.duration = Span(DURATION.0 + asked.count * asked.think.0);
    (flow.bulk, flow.messages, flow.request) = (None, None, Some(asked));
}
