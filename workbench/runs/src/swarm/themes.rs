//! The themes of some seeds: combinations of conditions that rarely occur by chance, with bounds on the costs
//! of each.

use super::{Ability, DURATION, MICROSECOND, MILLISECOND, SECOND, SwarmProgram, healing, request, span};
use hawser_sim::rng::Rng;
use hawser_sim::scenario::units::{DataSize, ParamValue, Rate, Share, Sizes, TimeSpan};
use hawser_sim::scenario::{
    Abort, ArrivalProcess, Bounds, BulkSpec, Closing, Delivery, FlowEnd, FlowSpec, LinkSpec, MessagesSpec,
    Opening, OperationalState, RequestSpec, Rules, Scenario, ScheduledChange,
};

/// The bounds of the length of a long stream, in bytes. They exceed the largest default buffers, which are 4
/// MiB to send and 8 MiB to receive (`hawser_engine::StackLimits`).
const LONG: (u64, u64) = (8_700_000, 9_500_000);
/// The number of bytes that a network without faults may carry for each byte delivered. It covers headers,
/// acknowledgements, and repetitions until the sender knows the round trip.
const SENT_PER_BYTE: f64 = 1.35;
/// The number of further bytes, independent of the stream's length.
const SENT_BESIDE: u64 = 96 * 1024;
/// The minimum packet size that a program has to fill, in bytes, for the bound on time.
const SHORT_PACKET: u64 = 1000;
/// The number of packets in flight for a program with pipelining.
const IN_FLIGHT: u64 = 16;
const HOUR: u64 = 3600 * SECOND;
/// The maximum time to notice an abort: it waits behind the data queued on the slowest line, but for no
/// timeout.
const NOTICE_ABORT: TimeSpan = TimeSpan(10 * SECOND);
/// The maximum time to notice a refused connection: the time on the slowest line and a first timeout.
const NOTICE_RESET: TimeSpan = TimeSpan(3 * SECOND);
/// The maximum time until a packet reaches a host that has come back: a timer may have backed off, and
/// packets may be lost.
const NOTICE_FORGOTTEN: TimeSpan = TimeSpan(50 * SECOND);
/// The same as [`SENT_PER_BYTE`], through a queue that overflows.
const NARROW_SENT_PER_BYTE: f64 = 1.2;
/// The timeout before the round trip is known; each further one doubles (RFC 6298, 2.1 and 5.5).
const FIRST_TIMEOUT: u64 = SECOND;
/// The timeout for the first data of a connection whose opening had to be repeated (RFC 6298, 5.7).
const FIRST_TIMEOUT_OF_DATA: u64 = 3 * SECOND;
/// The maximum time that a receiver waits before it acknowledges.
const UPDATE: u64 = 5 * MILLISECOND;

enum Theme {
    /// Random conditions only.
    Usual,
    /// A network without faults: bytes and time have bounds.
    Calm,
    /// A network without faults, with a stream longer than any buffer.
    Long,
    /// A reader that does not read for minutes: the sender waits, and sends almost no data meanwhile.
    Stopped,
    /// A flow that is repeatedly reopened from the same port while old packets are in the network.
    Again,
    /// A host that goes down without notice during a transfer, and may come back.
    Fall,
    /// Hours without traffic.
    Idle,
    /// An application that aborts during a transfer.
    Abort,
    /// A connection to a port at which no peer listens.
    Nobody,
    /// A host goes down and comes back, and its peer has to notice by itself.
    Forgotten,
    /// The round trip becomes slightly longer than the retransmission timeout.
    Longer,
    /// A queue shorter than the data that a sender may have in flight.
    Narrow,
    /// A packet is lost while a sender probes the capacity of the path.
    EarlyLoss,
    /// A receive buffer of a few packets, so that the sender waits for each window update.
    Updates,
    /// The first packets of both ends are lost.
    Opening,
    /// Single packets of a transfer are lost.
    Losses,
    /// A paced stream whose link is cut repeatedly.
    Outages,
    /// A queue on a long path that marks packets instead of losing them.
    Marks,
}

fn theme(rng: &mut Rng) -> Theme {
    match rng.below(100) {
        0..9 => Theme::Calm,
        9..11 => Theme::Long,
        11..17 => Theme::Stopped,
        17..25 => Theme::Again,
        25..34 => Theme::Fall,
        34..39 => Theme::Idle,
        39..43 => Theme::Abort,
        43..46 => Theme::Nobody,
        46..49 => Theme::Forgotten,
        49..52 => Theme::Opening,
        52..55 => Theme::Longer,
        55..59 => Theme::Narrow,
        59..62 => Theme::EarlyLoss,
        62..65 => Theme::Updates,
        65..68 => Theme::Losses,
        68..71 => Theme::Outages,
        71..74 => Theme::Marks,
        _ => Theme::Usual,
    }
}

/// Changes a randomly drawn scenario to the theme of its seed, as far as the program's abilities allow.
pub(super) fn apply(scenario: &mut Scenario, subject: &SwarmProgram<'_>) {
    // A separate random stream, so that these draws do not shift any others.
    let rng = &mut Rng::new(scenario.seed, "swarm/theme");
    let abilities = subject.abilities;
    let theme = theme(rng);
    let is_adaptive = abilities.has(Ability::RoundTrip) && abilities.has(Ability::Congestion);
    let may_start = !matches!(theme, Theme::Again | Theme::Fall | Theme::Forgotten);
    match theme {
        Theme::Calm => calm(scenario, rng, subject, None),
        Theme::Long => calm(scenario, rng, subject, Some(LONG)),
        Theme::Stopped if abilities.has(Ability::FlowControl) => stopped(scenario, rng, subject),
        Theme::Again if abilities.has(Ability::Reuse) => again(scenario, rng, subject),
        Theme::Fall if abilities.has(Ability::Restart) => fall(scenario, rng, subject),
        Theme::Idle => idle(scenario, rng),
        Theme::Abort if abilities.has(Ability::Aborts) => abort(scenario, rng),
        Theme::Nobody if abilities.has(Ability::Resets) => nobody(scenario, rng),
        Theme::Forgotten if abilities.has(Ability::Resets) && abilities.has(Ability::Restart) => {
            forgotten(scenario, rng, subject);
        }
        Theme::Longer if abilities.has(Ability::RoundTrip) => longer(scenario, rng),
        Theme::Narrow if abilities.has(Ability::Congestion) => narrow(scenario, rng, subject),
        Theme::EarlyLoss if abilities.has(Ability::Congestion) => early_loss(scenario, rng, subject),
        Theme::Updates if abilities.has(Ability::FlowControl) => updates(scenario, rng),
        Theme::Opening if is_adaptive => opening(scenario, rng),
        Theme::Losses if is_adaptive => losses(scenario, rng),
        Theme::Outages if is_adaptive => outages(scenario, rng),
        Theme::Marks if is_adaptive => marks(scenario, rng),
        Theme::Usual
        | Theme::Stopped
        | Theme::Again
        | Theme::Fall
        | Theme::Abort
        | Theme::Nobody
        | Theme::Forgotten
        | Theme::Longer
        | Theme::Narrow
        | Theme::EarlyLoss
        | Theme::Updates
        | Theme::Opening
        | Theme::Losses
        | Theme::Outages
        | Theme::Marks => {
            if rng.chance(0.2) {
                asymmetric(&mut scenario.link[0], rng);
            }
            small_buffers(scenario, rng, subject);
        }
    }
    if may_start && rng.chance(0.25) {
        start_near_the_wrap(scenario, rng, subject);
    }
    if abilities.has(Ability::Refusals) {
        for flow in &mut scenario.flow {
            flow.refusals = rng.chance(0.3);
        }
    }
}

/// Sets the initial sequence numbers so close to their maximum that they wrap. The program's param for this
/// is named `START` by convention. It is not set when packets of an earlier connection may remain, because
/// differing initial numbers keep the two apart.
fn start_near_the_wrap(scenario: &mut Scenario, rng: &mut Rng, subject: &SwarmProgram<'_>) {
    let Some(bits) = subject.start_bits.filter(|bits| (8..=64).contains(bits)) else {
        return;
    };
    let exponent = rng.between(1, 18.min(u64::from(bits) - 1));
    let before = rng.between(1, 1 << exponent);
    let start = (u64::MAX >> (64 - bits)).wrapping_sub(before - 1);
    scenario
        .params
        .insert("START".to_owned(), ParamValue::Number(start));
}

/// Makes one direction up to 50 times faster than the other.
fn asymmetric(link: &mut LinkSpec, rng: &mut Rng) {
    let rate = link.both.rate.map_or(100_000_000, |rate| rate.0);
    let slow = Some(Rate((rate / rng.between(2, 50)).max(128_000)));
    let rules = if rng.chance(0.5) {
        &mut link.forward
    } else {
        &mut link.backward
    };
    rules.rate = slow;
}

fn small_buffers(scenario: &mut Scenario, rng: &mut Rng, subject: &SwarmProgram<'_>) {
    for flow in &mut scenario.flow {
        if rng.chance(0.2) {
            flow.send_buffer = Some(DataSize(rng.between(4096, 32_768)));
        }
        if rng.chance(0.25) && subject.abilities.has(Ability::FlowControl) {
            flow.receive_buffer = Some(DataSize(rng.between(2048, 32_768)));
        }
    }
}

/// Makes a link without any fault, whose queue has room for all data in flight.
fn perfect(link: &mut LinkSpec, rate: u64, delay: u64) {
    link.both = Rules {
        rate: Some(Rate(rate)),
        delay: Some(TimeSpan(delay)),
        ..Rules::default()
    };
    (link.forward, link.backward) = (Rules::default(), Rules::default());
}

/// Keeps only the first flow, as a bulk transfer that its client opens and closes.
fn one_bulk(scenario: &mut Scenario, bytes: u64, back: u64) -> &mut FlowSpec {
    scenario.flow.truncate(1);
    let flow = &mut scenario.flow[0];
    *flow = FlowSpec {
        at: TimeSpan(0),
        open: Opening::Client,
        close: Closing::Client,
        read_rate: None,
        bulk: Some(BulkSpec { bytes: DataSize(bytes), back: DataSize(back) }),
        request: None,
        messages: None,
        calls: None,
        ..flow.clone()
    };
    flow
}

fn calm(scenario: &mut Scenario, rng: &mut Rng, subject: &SwarmProgram<'_>, long: Option<(u64, u64)>) {
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

/// Returns the maximum costs of this many bytes, in this many packets, over a network without faults.
pub(super) fn bounds(
    (bytes, packets): (u64, u64),
    (rate, delay): (u64, u64),
    subject: &SwarmProgram<'_>,
) -> Bounds {
    Bounds {
        sent: Some(enough_sent(bytes)),
        time: Some(enough_time((bytes, packets), (rate, delay), subject)),
        ..Bounds::default()
    }
}

/// Returns the maximum number of bytes that a network without faults has to carry for a stream of this many
/// bytes.
fn enough_sent(bytes: u64) -> DataSize {
    DataSize((bytes as f64 * SENT_PER_BYTE) as u64 + SENT_BESIDE)
}

/// Returns the maximum duration of a stream of this many bytes over a network without faults. It allows three
/// times the line's time. It adds five round trips for every 4 packets, or for every 4 times 16 if the
/// program is pipelining. It also adds 20 round trips to open and to probe the path, and three seconds for a
/// first timeout.
fn enough_time(
    (bytes, packets): (u64, u64),
    (rate, delay): (u64, u64),
    subject: &SwarmProgram<'_>,
) -> TimeSpan {
    let line = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(rate);
    let rounds = if subject.abilities.has(Ability::Pipelining) {
        packets.div_ceil(IN_FLIGHT)
    } else {
        packets
    };
    TimeSpan(3 * line as u64 + (rounds * 5 / 4 + 20) * 2 * delay + 3 * SECOND)
}

fn stopped(scenario: &mut Scenario, rng: &mut Rng, subject: &SwarmProgram<'_>) {
    perfect(
        &mut scenario.link[0],
        1_000_000 << rng.below(7),
        span(rng, MILLISECOND, 60 * MILLISECOND).0,
    );
    scenario.at.clear();
    let bytes = rng.between(150_000, 400_000);
    let flow = one_bulk(scenario, bytes, 0);
    flow.read_stop = span(rng, 30 * SECOND, 200 * SECOND);
    flow.receive_buffer = Some(DataSize(rng.between(4096, 65_536)));
    if rng.chance(0.3) {
        flow.read_rate = Some(Rate(rng.between(200_000, 2_000_000)));
    }
    scenario.bounds.sent = Some(enough_sent(bytes));
    small_buffers(
        scenario,
        rng,
        &SwarmProgram { abilities: subject.abilities.without(Ability::FlowControl), ..*subject },
    );
}

/// Holds packets back for seconds, and duplicates others.
fn old_packets(link: &mut LinkSpec, rng: &mut Rng) {
    let rules = Rules {
        loss: Some(Share(0.02)),
        duplicate: Some(Share(0.1)),
        reorder: Some(Share(0.1)),
        hold: Some(span(rng, SECOND, 8 * SECOND)),
        ..Rules::default()
    };
    (link.forward, link.backward) = (rules.clone(), rules);
}

fn again(scenario: &mut Scenario, rng: &mut Rng, subject: &SwarmProgram<'_>) {
    old_packets(&mut scenario.link[0], rng);
    scenario.duration = TimeSpan(2 * DURATION.0);
    scenario.at = vec![healing()];
    let (bytes, back) = (rng.between(1, 40_000), rng.between(0, 40_000));
    // The end that closes first often keeps the port for a while. When the server closes first, the client
    // reuses its port at once.
    let close = if rng.chance(0.7) && subject.abilities.has(Ability::HalfClose) {
        Closing::Server
    } else {
        Closing::Client
    };
    let flow = one_bulk(scenario, bytes, back);
    flow.close = close;
    flow.again = rng.between(1, 3);
}

/// One host sends the other more than gets through before the receiver goes down, so the sender has to
/// notice.
fn fall(scenario: &mut Scenario, rng: &mut Rng, subject: &SwarmProgram<'_>) {
    let rate = rng.between(500_000, 1_500_000);
    let delay = span(rng, MILLISECOND, 60 * MILLISECOND).0;
    perfect(&mut scenario.link[0], rate, delay);
    // The fall comes after both ends have the connection, even if the first packets are full-sized. An end
    // whose peer fell earlier would take the reopened connection for its own.
    let full_packet = 1500 * 8 * SECOND / rate;
    old_packets(&mut scenario.link[0], rng);
    let link = &mut scenario.link[0];
    let faulty = ScheduledChange {
        time: TimeSpan(4 * delay + 4 * full_packet),
        link: "wire".to_owned(),
        forward: std::mem::take(&mut link.forward),
        backward: std::mem::take(&mut link.backward),
        ..ScheduledChange::default()
    };
    scenario.at = vec![faulty, healing()];
    let client_falls = rng.chance(0.5);
    let (bytes, back) = if client_falls { (1, 1 << 20) } else { (1 << 20, 1) };
    let flow = one_bulk(scenario, bytes, back);
    flow.send_buffer = Some(DataSize(32_768));
    let victim = if client_falls { &flow.from } else { &flow.to };
    let change = |time, state| ScheduledChange {
        time: TimeSpan(time),
        host: Some(victim.first().clone()),
        state: Some(state),
        ..ScheduledChange::default()
    };
    let down = 4 * delay + span(rng, 200 * MILLISECOND, 4 * SECOND).0;
    let up = down + span(rng, 10 * MILLISECOND, 5 * SECOND).0;
    let mut falls = vec![change(down, OperationalState::Down)];
    if rng.chance(0.75) {
        falls.push(change(up, OperationalState::Up));
        flow.again = 1;
        if subject.abilities.has(Ability::Resets) {
            scenario.bounds.notice = Some(NOTICE_FORGOTTEN);
        }
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
    scenario.duration = TimeSpan(DURATION.0 + asked.count * asked.think.0);
    (flow.bulk, flow.messages, flow.request) = (None, None, Some(asked));
}

/// Makes a perfect link with an ordinary rate and delay, and no changes.
fn calm_link(scenario: &mut Scenario, rng: &mut Rng) {
    let (rate, delay) = (
        1_000_000 << rng.below(7),
        span(rng, MILLISECOND, 60 * MILLISECOND).0,
    );
    perfect(&mut scenario.link[0], rate, delay);
    scenario.at.clear();
}

/// In most cases the aborting end sends, or pauses between requests. The other end then sends no data by
/// which it could notice.
fn abort(scenario: &mut Scenario, rng: &mut Rng) {
    calm_link(scenario, rng);
    let (by, sends) = match rng.below(4) {
        0 => (FlowEnd::Client, FlowEnd::Server),
        1 => (FlowEnd::Server, FlowEnd::Client),
        2 => (FlowEnd::Server, FlowEnd::Server),
        _ => (FlowEnd::Client, FlowEnd::Client),
    };
    let (bytes, back) = match sends {
        FlowEnd::Client => (200_000, 0),
        FlowEnd::Server => (1, 200_000),
    };
    let flow = one_bulk(scenario, bytes, back);
    flow.abort = Some(Abort { by, after: DataSize(rng.between(1, 50_000)) });
    flow.send_buffer = Some(DataSize(32_768));
    if rng.chance(0.5) {
        // The abort comes when no data is in flight: an acknowledgement or a request of the peer would be
        // reset as well.
        flow.bulk = None;
        flow.request = Some(RequestSpec {
            count: 3,
            size: Sizes::one(100),
            response: Sizes::one(100),
            think: TimeSpan(5 * SECOND),
        });
        flow.abort = Some(Abort { by: FlowEnd::Client, after: DataSize(200 * rng.between(1, 2)) });
    }
    scenario.bounds.notice = Some(NOTICE_ABORT);
}

fn nobody(scenario: &mut Scenario, rng: &mut Rng) {
    calm_link(scenario, rng);
    let link = &mut scenario.link[0];
    if rng.chance(0.5) {
        link.both.duplicate = Some(Share(0.5));
        scenario.at = vec![healing()];
    }
    let flow = one_bulk(scenario, 1000, 1000);
    // The second flow starts long after the first, when no packet of that remains in the network.
    let other = FlowSpec { at: TimeSpan(20 * SECOND), ..flow.clone() };
    flow.open = Opening::Nobody;
    scenario.flow.push(other);
    scenario.bounds.notice = Some(NOTICE_RESET);
}

/// The same as `fall`, but the connection is not reopened. The peer's packets are for a connection that no
/// longer exists.
fn forgotten(scenario: &mut Scenario, rng: &mut Rng, subject: &SwarmProgram<'_>) {
    fall(scenario, rng, subject);
    let victim = scenario.at.iter().find_map(|at| at.host.clone());
    let up = scenario
        .at
        .iter()
        .any(|at| at.host.is_some() && at.state == Some(OperationalState::Up));
    if !up {
        scenario.at.push(ScheduledChange {
            time: TimeSpan(span(rng, 9 * SECOND, 12 * SECOND).0),
            host: victim,
            state: Some(OperationalState::Up),
            ..ScheduledChange::default()
        });
        scenario.at.sort_by_key(|at| at.time);
    }
    scenario.flow[0].again = 0;
    scenario.bounds.notice = Some(NOTICE_FORGOTTEN);
}

/// A sender may take the acknowledgement of a first copy for that of the second. It then measures a short
/// round trip, and continues to send each packet twice (Karn and Partridge, 1987). Only one packet is in
/// flight at a time, so no other packet corrects the measurement.
fn longer(scenario: &mut Scenario, rng: &mut Rng) {
    perfect(
        &mut scenario.link[0],
        10_000_000,
        span(rng, MILLISECOND, 8 * MILLISECOND).0,
    );
    scenario.at = vec![ScheduledChange {
        time: span(rng, 100 * MILLISECOND, 400 * MILLISECOND),
        link: "wire".to_owned(),
        both: Rules {
            delay: Some(span(rng, 110 * MILLISECOND, 150 * MILLISECOND)),
            ..Rules::default()
        },
        ..ScheduledChange::default()
    }];
    let (count, size) = (rng.between(80, 120), rng.between(900, 1150));
    let flow = one_bulk(scenario, 0, 0);
    flow.bulk = None;
    flow.request = Some(RequestSpec {
        count,
        size: Sizes::one(size),
        response: Sizes::one(1),
        think: TimeSpan(0),
    });
    // Allows a header of 100 bytes each for a request, its response, and their acknowledgements. Also allows
    // repetition of a quarter of the requests, and the costs of opening and closing.
    scenario.bounds.sent = Some(DataSize(count * (size + size / 4 + 400) + 16 * 1024));
}

fn narrow(scenario: &mut Scenario, rng: &mut Rng, subject: &SwarmProgram<'_>) {
    let (rate, delay) = (
        rng.between(1_000_000, 20_000_000),
        span(rng, MILLISECOND, 30 * MILLISECOND).0,
    );
    perfect(&mut scenario.link[0], rate, delay);
    scenario.link[0].both.queue_packets = Some(rng.between(8, 24));
    scenario.at.clear();
    let bytes = rng.between(600_000, 1_500_000);
    one_bulk(scenario, bytes, 0);
    // A sender that doubles its data in flight until a packet is lost has by then sent twice the capacity of
    // the path.
    let holds = rate / 8 * 2 * delay / SECOND;
    scenario.bounds = Bounds {
        sent: Some(DataSize(
            (bytes as f64 * NARROW_SENT_PER_BYTE) as u64 + SENT_BESIDE + 2 * holds,
        )),
        time: Some(enough_time(
            (bytes, bytes.div_ceil(SHORT_PACKET)),
            (rate, delay),
            subject,
        )),
        ..Bounds::default()
    };
}

fn early_loss(scenario: &mut Scenario, rng: &mut Rng, subject: &SwarmProgram<'_>) {
    let (rate, delay) = (100_000_000, span(rng, 20 * MILLISECOND, 60 * MILLISECOND).0);
    perfect(&mut scenario.link[0], rate, delay);
    scenario.at.clear();
    let first = rng.between(5, 20);
    let bytes = rng.between(1_000_000, 1_500_000);
    let from_first = one_bulk(scenario, bytes, 0).from == "a";
    let link = &mut scenario.link[0];
    let rules = if from_first {
        &mut link.forward
    } else {
        &mut link.backward
    };
    rules.drop = Some((first..first + rng.between(1, 4)).collect());
    scenario.bounds = Bounds {
        sent: Some(enough_sent(bytes)),
        time: Some(enough_time(
            (bytes, bytes.div_ceil(SHORT_PACKET)),
            (rate, delay),
            subject,
        )),
        ..Bounds::default()
    };
}

/// A reader that begins late, after its buffer is full. It has to send an update, or its sender waits for a
/// timer that has backed off. From then on, each half of the buffer takes at most a round trip, plus the time
/// that a receiver waits before it acknowledges.
fn updates(scenario: &mut Scenario, rng: &mut Rng) {
    let delay = span(rng, 100 * MICROSECOND, 5 * MILLISECOND).0;
    perfect(&mut scenario.link[0], 100_000_000, delay);
    scenario.at.clear();
    for host in &mut scenario.host {
        host.mtu = 1500;
    }
    let (bytes, buffer) = (rng.between(200_000, 400_000), rng.between(8000, 16_000));
    let flow = one_bulk(scenario, bytes, 0);
    flow.receive_buffer = Some(DataSize(buffer));
    flow.read_stop = span(rng, 30 * SECOND, 60 * SECOND);
    let (stop, halves) = (flow.read_stop.0, bytes.div_ceil(buffer / 2));
    scenario.bounds.time = Some(TimeSpan(
        stop + halves * (2 * delay + UPDATE) + 20 * 2 * delay + SECOND,
    ));
}

/// The client's first three opening packets and the server's first answer are lost. Each end has to repeat
/// packets that its peer did not answer. A server that merely waited for the client to ask again would wait
/// for the client's timeout, which has doubled three times. Then the first data is lost, which has a timeout
/// of its own.
fn opening(scenario: &mut Scenario, rng: &mut Rng) {
    let delay = span(rng, MILLISECOND, 30 * MILLISECOND).0;
    perfect(&mut scenario.link[0], 10_000_000, delay);
    scenario.at.clear();
    let (bytes, back) = (rng.between(1, 1000), rng.between(0, 1000));
    let from_first = one_bulk(scenario, bytes, back).from == "a";
    let client = [vec![1, 2, 3], (5..=rng.between(6, 7)).collect()].concat();
    let link = &mut scenario.link[0];
    let (forward, backward) = if from_first {
        (client, vec![1])
    } else {
        (vec![1], client)
    };
    (link.forward.drop, link.backward.drop) = (Some(forward), Some(backward));
    let repeated = (1 + 2 + 4) * FIRST_TIMEOUT + FIRST_TIMEOUT;
    scenario.bounds.time = Some(TimeSpan(
        repeated + FIRST_TIMEOUT_OF_DATA + 2 * SECOND + 20 * 2 * delay,
    ));
}

/// One packet in 40 to 70 is lost, on a short path. Packets behind it reveal the loss within a round trip,
/// and the line stays busy meanwhile. A sender that waits for a timeout leaves the line idle.
fn losses(scenario: &mut Scenario, rng: &mut Rng) {
    let (rate, delay) = (10_000_000, span(rng, MILLISECOND / 2, 3 * MILLISECOND).0);
    perfect(&mut scenario.link[0], rate, delay);
    scenario.at.clear();
    for host in &mut scenario.host {
        host.mtu = 1500;
    }
    let bytes = rng.between(1_400_000, 1_600_000);
    let from_first = one_bulk(scenario, bytes, 0).from == "a";
    let (mut lost, mut next) = (Vec::new(), rng.between(60, 90));
    while next < bytes / 1500 - 100 {
        lost.push(next);
        next += rng.between(40, 70);
    }
    let line = bytes * 8 * SECOND / rate;
    let rounds = 20 + lost.len() as u64;
    let link = &mut scenario.link[0];
    let rules = if from_first {
        &mut link.forward
    } else {
        &mut link.backward
    };
    rules.drop = Some(lost);
    // Allows a quarter of the line's time for headers and for windows that were halved.
    scenario.bounds.time = Some(TimeSpan(line + line / 4 + rounds * 2 * delay));
}

/// A queue marks packets once it holds half of the path's capacity, and loses none. The window is reduced
/// once for the marks of a round trip (RFC 3168, 6.1.2), and the line stays busy. A sender that reduces it
/// for each echo of one mark is left with a few packets in flight. Such a window takes seconds to fill the
/// path again.
fn marks(scenario: &mut Scenario, rng: &mut Rng) {
    let (rate, delay) = (10_000_000, span(rng, 40 * MILLISECOND, 60 * MILLISECOND).0);
    perfect(&mut scenario.link[0], rate, delay);
    let holds = rate / 8 * 2 * delay / SECOND;
    scenario.link[0].both.ecn = Some(DataSize(holds / 2));
    scenario.at.clear();
    for host in &mut scenario.host {
        host.mtu = 1500;
    }
    let bytes = rng.between(1_400_000, 1_600_000);
    one_bulk(scenario, bytes, 0);
    let line = bytes * 8 * SECOND / rate;
    scenario.bounds.time = Some(TimeSpan(line + line / 4 + 20 * 2 * delay));
}

/// Small messages at a pace, more than a window of them during each of four cuts. A sender that has timed out
/// in one cut must know the round trip by the next one. Further data must not postpone a timer that waits for
/// an acknowledgement. Six seconds after the last cut, its backlog is gone, and the last message takes its
/// ordinary time.
fn outages(scenario: &mut Scenario, rng: &mut Rng) {
    let delay = span(rng, MILLISECOND, 30 * MILLISECOND).0;
    perfect(&mut scenario.link[0], 10_000_000, delay);
    scenario.at.clear();
    let mut time = span(rng, 2 * SECOND, 3 * SECOND).0;
    for _ in 0..4 {
        let mended = time + span(rng, 2 * SECOND, 3 * SECOND).0;
        for (time, state) in [(time, OperationalState::Down), (mended, OperationalState::Up)] {
            scenario.at.push(ScheduledChange {
                time: TimeSpan(time),
                link: "wire".to_owned(),
                state: Some(state),
                ..ScheduledChange::default()
            });
        }
        time = mended + span(rng, 4500 * MILLISECOND, 5500 * MILLISECOND).0;
    }
    let mended = scenario.at.last().map_or(0, |at| at.time.0);
    let interval = span(rng, 8 * MILLISECOND, 12 * MILLISECOND).0;
    let until = mended + 6 * SECOND;
    let flow = one_bulk(scenario, 0, 0);
    flow.bulk = None;
    flow.messages = Some(MessagesSpec {
        count: until / interval,
        size: Sizes::one(100),
        interval: TimeSpan(interval),
        arrivals: ArrivalProcess::Even,
        both_ways: false,
        delivery: Delivery::Stream,
        may_lose: Share(1.0),
    });
    scenario.bounds.time = Some(TimeSpan(until + 4 * 2 * delay + 100 * MILLISECOND));
}
