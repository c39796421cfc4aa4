//! Scenarios drawn from a seed. A swarm of them finds faults in combinations that no author of a test
//! foresaw.
//!
//! The scenarios have links of all kinds, faults in both directions, cuts, and several flows of all
//! applications that open and close in all orders. After a minute the network heals. From then on a transport
//! has no excuse, and everything must be complete at the end. Transports must not give up within that minute
//! (RFC 9293, 3.8.3: 100 seconds).
//!
//! Some seeds cover conditions that rarely occur by chance ([`themes`]). Examples are networks without
//! faults, where bytes and time have bounds, readers that stop, reused ports, hosts that go down, and idle
//! hours. `docs/swarm.md` says what is drawn and what is checked. This module names no program: each subject
//! declares its [`Abilities`].

mod abilities;
mod calls;
mod streams;
mod themes;
mod traffic_model;
mod works;

use std::fmt::Write;

use hawser_ir::{Module, ParserInput, Ty};

pub use abilities::{Abilities, Ability, UnknownAbility};
pub use traffic_model::{TrafficKind, TrafficModel};

pub use hawser_sim::scenario::Delivery;
pub use hawser_sim::scenario::units::ParamValue;

use hawser_sim::report::Report;
use hawser_sim::rng::Rng;
use hawser_sim::scenario::units::{DataSize, Rate, Share, Sizes, TimeSpan};
use hawser_sim::scenario::{
    ArrivalProcess, Bounds, BulkSpec, Closing, FlowSpec, HostSpec, IDLE_PACKETS, LinkSpec, MessagesSpec,
    NatSpec, Opening, OperationalState, RequestSpec, Rules, Scenario, ScenarioOrigin, ScheduledChange,
};

/// The time at which the network heals.
const HEALED: TimeSpan = TimeSpan(60 * SECOND);
/// The duration of a scenario. A timer that has backed off to a minute can still fire after the network has
/// healed, and the slowest link can then carry everything.
const DURATION: TimeSpan = TimeSpan(600 * SECOND);
/// The latest time for drawn faults that come and go, so that traffic still flows when they occur.
const EARLY: u64 = 20 * SECOND;
/// The maximum number of bytes in one direction of a flow: few enough for the slowest link drawn.
const BYTES_MAX: u64 = 256 * 1024;

const MICROSECOND: u64 = 1000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// The program that a swarm is drawn for.
#[derive(Clone, Copy, Debug)]
pub struct SwarmProgram<'a> {
    /// Its name, or its file.
    pub program: &'a str,
    /// The program's abilities.
    pub abilities: Abilities,
    /// The kind of data that it carries.
    pub carried: TrafficModel,
    /// The width, in bits, of its param `START`, at which its numbers begin, if it has one.
    pub start_bits: Option<u8>,
    /// True if it has a param `LINK_RATE`: the rate of its host's link, in bits per second.
    pub link_rate: bool,
    /// The UDP port of its packets, if it uses one. A program of streams uses that port at both ends.
    pub udp_port: Option<u16>,
    /// Other programs, and values of its params.
    pub beside: SwarmPeers<'a>,
}

/// The partners of a program in a swarm.
#[derive(Clone, Copy, Debug, Default)]
pub struct SwarmPeers<'a> {
    /// The program that watches the packets of each host.
    pub watch: Option<&'a str>,
    /// The program that one of the hosts runs in a quarter of the seeds.
    pub peer: Option<&'a str>,
    /// The maximum number of times that it sends each byte on purpose. Bounds on bytes and time are
    /// multiplied by it. 0 counts as 1.
    pub redundancy: f64,
    /// Params with the values from which each host draws one.
    pub vary: &'a [(String, Vec<ParamValue>)],
}

impl<'a> SwarmProgram<'a> {
    /// Describes a program that carries streams, by its abilities alone.
    #[must_use]
    pub fn new(program: &'a str, abilities: Abilities) -> SwarmProgram<'a> {
        SwarmProgram {
            program,
            abilities,
            carried: TrafficModel::default(),
            start_bits: None,
            link_rate: false,
            udp_port: None,
            beside: SwarmPeers::default(),
        }
    }

    /// Sets the partners of the program.
    #[must_use]
    pub fn beside(self, beside: SwarmPeers<'a>) -> SwarmProgram<'a> {
        SwarmProgram { beside, ..self }
    }

    /// Sets the kind of data that the program carries.
    #[must_use]
    pub fn carrying(self, carried: TrafficModel) -> SwarmProgram<'a> {
        SwarmProgram { carried, ..self }
    }

    /// Sets the properties that the program's compiled form shows.
    #[must_use]
    pub fn known(self, module: &Module) -> SwarmProgram<'a> {
        let param = module.params.iter().find(|param| param.name == "START");
        let start_bits = param.and_then(|param| match param.ty {
            Ty::Int { bits, signed: false } => Some(bits),
            _ => None,
        });
        SwarmProgram {
            start_bits,
            udp_port: module.parsers.iter().find_map(|parser| match parser.source {
                ParserInput::Udp(port) => Some(port),
                _ => None,
            }),
            link_rate: module.params.iter().any(|param| param.name == "LINK_RATE"),
            ..self
        }
    }
}

/// Returns the scenario that this seed draws for a program.
#[must_use]
pub fn scenario(seed: u64, subject: &SwarmProgram<'_>) -> Scenario {
    let asked = SwarmProgram { abilities: calls::abilities(subject.abilities), ..*subject };
    let subject = if subject.carried.kind == TrafficKind::Calls {
        &asked
    } else {
        subject
    };
    let mut scenario = usual(seed, subject);
    themes::apply(&mut scenario, subject);
    if subject.carried != TrafficModel::default() {
        traffic_model::apply(&mut scenario, subject);
    }
    fit_messages(&mut scenario);
    translate(&mut scenario, subject);
    if subject.link_rate {
        set_link_rates(&mut scenario);
    }
    join(&mut scenario, subject.beside);
    scenario
}

/// Enlarges the buffers that flows ask for, so that each whole message fits.
fn fit_messages(scenario: &mut Scenario) {
    for flow in &mut scenario.flow {
        let Some(messages) = flow
            .messages
            .filter(|messages| messages.delivery != Delivery::Stream)
        else {
            continue;
        };
        for DataSize(buffer) in [&mut flow.send_buffer, &mut flow.receive_buffer]
            .into_iter()
            .flatten()
        {
            *buffer = messages.size.max.max(*buffer);
        }
    }
}

/// Adds the program's partners. A different program as the peer has unknown costs, so it appears only in
/// scenarios without bounds on costs.
fn join(scenario: &mut Scenario, beside: SwarmPeers<'_>) {
    // A separate random stream, so that these draws do not shift any others.
    let rng = &mut Rng::new(scenario.seed, "swarm/beside");
    for (name, values) in beside.vary {
        for host in &mut scenario.host {
            let value = values[rng.below(values.len() as u64) as usize];
            host.params.insert(name.clone(), value);
        }
    }
    let is_met = rng.chance(0.25) && scenario.bounds == Bounds::default();
    if let Some(peer) = beside.peer.filter(|_| is_met) {
        let place = rng.below(scenario.host.len() as u64) as usize;
        scenario.host[place].program = Some(peer.to_owned());
    }
    scenario.watch = beside.watch.map(str::to_owned);
    let wider = |amount: u64| (amount as f64 * beside.redundancy.max(1.0)) as u64;
    let Bounds { sent, time, notice } = scenario.bounds;
    scenario.bounds = Bounds {
        sent: sent.map(|DataSize(sent)| DataSize(wider(sent))),
        time: time.map(|TimeSpan(time)| TimeSpan(wider(time))),
        notice,
    };
}

/// Places a translator in front of the host that opens the connections, in some scenarios. The translator
/// chooses another port up to three times while traffic still flows, and in some scenarios also another
/// address. It supports UDP only.
fn translate(scenario: &mut Scenario, subject: &SwarmProgram<'_>) {
    let rng = &mut Rng::new(scenario.seed, "swarm/nat");
    let may_move = subject.carried.kind != TrafficKind::Works && subject.abilities.has(Ability::Migration);
    let is_asked = may_move && subject.udp_port.is_some();
    let flows = &scenario.flow;
    let is_one_way = flows
        .iter()
        .all(|flow| flow.from == flows[0].from && flow.calls.is_none());
    // The cost of a rebinding has no known bound. ICMP does not pass the translator, but an end needs it to
    // notice that its peer is gone.
    let has_bounds = scenario.bounds != Bounds::default();
    if !is_asked || !is_one_way || has_bounds || !rng.chance(0.4) {
        return;
    }
    let longest = if rng.chance(0.5) { SECOND } else { EARLY };
    // If a host goes down, rebindings begin only after both ends have the connection.
    let falls = scenario.at.iter().any(|change| change.host.is_some());
    let first = if falls { scenario.at[0].time.0 } else { 0 };
    let mut rebind: Vec<TimeSpan> = (0..rng.between(1, 3))
        .map(|_| TimeSpan(first + span(rng, MILLISECOND, longest).0))
        .collect();
    rebind.sort_unstable();
    scenario.link[0].nat =
        Some(NatSpec { inside: flows[0].from.first().clone(), rebind, moves: rng.chance(0.3) });
}

/// Sets the param of each host to the rate at which its link brings packets to it, as an operator would.
fn set_link_rates(scenario: &mut Scenario) {
    for link in &scenario.link {
        let directions = [&link.backward, &link.forward].into_iter().zip(&link.between);
        for (towards, name) in directions {
            let host = scenario.host.iter_mut().find(|host| host.name == *name);
            if let (Some(host), Some(rate)) = (host, towards.rate.or(link.both.rate)) {
                host.params
                    .insert("LINK_RATE".to_owned(), ParamValue::Number(rate.0));
            }
        }
    }
}

/// Draws the ordinary part of a scenario.
fn usual(seed: u64, subject: &SwarmProgram<'_>) -> Scenario {
    let mut rng = Rng::new(seed, "swarm");
    let abilities = subject.abilities;
    let ends = TimeSpan(if abilities.has(Ability::Ends) {
        300 * SECOND
    } else {
        0
    });
    let flows = 1 + rng.below(5);
    Scenario {
        name: format!("swarm {seed}"),
        seed,
        duration: DURATION,
        linger: ends,
        forget: ends,
        bounds: Bounds::default(),
        slowdown: false,
        queue_depths: false,
        watch: None,
        idle_packets: IDLE_PACKETS,
        topology: None,
        program: subject.program.to_owned(),
        engine: None,
        params: std::collections::BTreeMap::new(),
        host: ["a", "b"].map(|name| host(name, &mut rng, abilities)).into(),
        switch: Vec::new(),
        link: vec![link(&mut rng)],
        flow: (0..flows).map(|_| flow(&mut rng, abilities)).collect(),
        at: changes(&mut rng),
        origin: ScenarioOrigin::default(),
    }
}

fn host(name: &str, rng: &mut Rng, abilities: Abilities) -> HostSpec {
    let mtus: &[u32] = if abilities.has(Ability::AnyMtu) {
        &[1280, 1400, 1500, 1500, 9000]
    } else {
        &[1500, 9000]
    };
    HostSpec {
        name: name.to_owned(),
        addresses: Vec::new(),
        mtu: mtus[rng.below(mtus.len() as u64) as usize],
        buffer: None,
        program: None,
        params: std::collections::BTreeMap::new(),
        priorities: 1,
        device_queue: None,
    }
}

fn link(rng: &mut Rng) -> LinkSpec {
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
        ecn: rng.chance(0.3).then(|| DataSize(rng.between(10_000, 60_000))),
        ..Rules::default()
    };
    LinkSpec {
        name: "wire".to_owned(),
        between: ["a".to_owned(), "b".to_owned()],
        both,
        forward: faults(rng, delay.0),
        backward: faults(rng, delay.0),
        nat: None,
    }
}

/// Draws a time span between two bounds, in whole microseconds.
fn span(rng: &mut Rng, min: u64, max: u64) -> TimeSpan {
    TimeSpan(rng.between(min, max).next_multiple_of(MICROSECOND))
}

/// Draws the faults of one direction: often none, sometimes many.
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

/// Draws cuts early in the run, perhaps new faults, and the healing.
fn changes(rng: &mut Rng) -> Vec<ScheduledChange> {
    let at = |time, state, forward, backward| ScheduledChange {
        time: TimeSpan(time),
        link: "wire".to_owned(),
        state,
        forward,
        backward,
        ..ScheduledChange::default()
    };
    let quiet = Rules::default;
    let mut changes = Vec::new();
    for _ in 0..rng.below(3) {
        let cut = span(rng, 0, EARLY).0;
        let mended = cut + span(rng, MILLISECOND, 5 * SECOND).0;
        changes.push(at(cut, Some(OperationalState::Down), quiet(), quiet()));
        changes.push(at(mended, Some(OperationalState::Up), quiet(), quiet()));
    }
    if rng.chance(0.3) {
        let rules = Rules { delay: Some(span(rng, MILLISECOND, 100 * MILLISECOND)), ..quiet() };
        changes.push(at(span(rng, 0, EARLY).0, None, rules.clone(), rules));
    }
    changes.push(healing());
    changes.sort_by_key(|change| change.time);
    changes
}

/// Returns the change after which the network has no faults.
fn healing() -> ScheduledChange {
    ScheduledChange {
        time: HEALED,
        link: "wire".to_owned(),
        state: Some(OperationalState::Up),
        forward: Rules::healed(),
        backward: Rules::healed(),
        ..ScheduledChange::default()
    }
}

fn flow(rng: &mut Rng, abilities: Abilities) -> FlowSpec {
    let (from, to) = if rng.chance(0.5) { ("a", "b") } else { ("b", "a") };
    let close = match rng.below(if abilities.has(Ability::HalfClose) { 3 } else { 1 }) {
        0 => Closing::Client,
        1 => Closing::Server,
        _ => Closing::Both,
    };
    let open = if abilities.has(Ability::OpenBoth) && rng.chance(0.15) {
        Opening::Both
    } else {
        Opening::Client
    };
    let mut flow = FlowSpec {
        at: TimeSpan(rng.below(3) * span(rng, 0, 5 * SECOND).0),
        family: Some([4, 6][rng.below(2) as usize]),
        open,
        close,
        read_rate: rng.chance(0.15).then(|| Rate(rng.between(200_000, 2_000_000))),
        ..FlowSpec::between(from.into(), to.into())
    };
    match rng.below(4) {
        0 => flow.request = Some(request(rng)),
        1 => flow.messages = Some(messages(rng)),
        _ => flow.bulk = Some(bulk(rng, u64::from(!abilities.has(Ability::Handshake)))),
    }
    flow
}

fn bulk(rng: &mut Rng, min: u64) -> BulkSpec {
    let mut size = || match rng.below(4) {
        0 => 0,
        1 => rng.between(1, 3000),
        _ => rng.between(3000, BYTES_MAX),
    };
    BulkSpec { bytes: DataSize(size().max(min)), back: DataSize(size()) }
}

fn request(rng: &mut Rng) -> RequestSpec {
    RequestSpec {
        count: rng.between(1, 30),
        size: Sizes { min: 1, max: rng.between(1, 2000) },
        response: Sizes { min: 1, max: rng.between(1, 8000) },
        think: TimeSpan(rng.below(2) * span(rng, 0, 500 * MILLISECOND).0),
    }
}

fn messages(rng: &mut Rng) -> MessagesSpec {
    MessagesSpec {
        count: rng.between(1, 100),
        size: Sizes { min: 1, max: rng.between(1, 2500) },
        interval: span(rng, 0, 100 * MILLISECOND),
        both_ways: rng.chance(0.5),
        delivery: Delivery::Stream,
        may_lose: Share(1.0),
        arrivals: ArrivalProcess::Even,
    }
}

/// Describes a failed scenario: the failures, the scenario, and how to repeat it.
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
        "repeat: save this as FILE.toml, then `hawser sim replay FILE.toml --seed {seed}`"
    );
    let toml = scenario.to_toml().unwrap_or_else(|error| error.to_string());
    let _ = write!(text, "---\n{toml}---");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A condition that a scenario meets, and the ability for which it is drawn.
    type Condition<'a> = (&'a dyn Fn(&Scenario) -> bool, Option<Ability>);

    const EVERYTHING: SwarmProgram<'_> = SwarmProgram {
        program: "x",
        abilities: Abilities::ALL,
        carried: TrafficModel {
            delivery: Delivery::Stream,
            longest: TrafficModel::LONGEST,
            one_way: false,
            kind: TrafficKind::Connections,
        },
        start_bits: Some(32),
        link_rate: true,
        udp_port: None,
        beside: SwarmPeers { watch: None, peer: None, redundancy: 1.0, vary: &[] },
    };

    /// A whole message is handed over in one request, so a message larger than every buffer would wait for
    /// ever.
    #[test]
    fn whole_messages_find_room_in_every_buffer_that_is_drawn() {
        let mut small = 0;
        for delivery in [Delivery::Messages, Delivery::Datagrams] {
            let subject =
                EVERYTHING.carrying(TrafficModel { delivery, longest: 1 << 20, ..TrafficModel::default() });
            for flow in (0..500).flat_map(|seed| scenario(seed, &subject).flow) {
                let longest = flow.messages.map_or(0, |messages| messages.size.max);
                for DataSize(buffer) in [flow.send_buffer, flow.receive_buffer].into_iter().flatten() {
                    assert!(buffer >= longest, "{flow:?}");
                    small += u64::from(buffer == longest);
                }
            }
        }
        assert!(small > 50, "buffers of less were drawn {small} times");
    }

    #[test]
    fn redundancy_widens_only_the_bounds_of_bytes_and_time() {
        let twice = SwarmPeers { redundancy: 2.0, ..SwarmPeers::default() };
        let mut bounded = 0;
        for seed in 0..200 {
            let one = scenario(seed, &EVERYTHING).bounds;
            let two = scenario(seed, &EVERYTHING.beside(twice)).bounds;
            assert_eq!(two.sent.map(|sent| sent.0), one.sent.map(|sent| 2 * sent.0));
            assert_eq!(two.time.map(|time| time.0), one.time.map(|time| 2 * time.0));
            assert_eq!(two.notice, one.notice);
            bounded += u32::from(one.sent.is_some());
        }
        assert!(bounded > 20, "{bounded}");
    }

    /// Hosts draw their own values. In some seeds a host runs another program, but never in those with bounds
    /// on costs.
    #[test]
    fn hosts_draw_values_and_meet_another_program() {
        let vary = [(
            "MARKS".to_owned(),
            vec![ParamValue::Flag(true), ParamValue::Flag(false)],
        )];
        let beside = SwarmPeers {
            watch: Some("w.mtp"),
            peer: Some("p.mtp"),
            vary: &vary,
            ..SwarmPeers::default()
        };
        let (mut unlike, mut peers) = (0, 0);
        for seed in 0..300 {
            let plain = scenario(seed, &EVERYTHING);
            let drawn = scenario(seed, &EVERYTHING.beside(beside));
            assert_eq!(drawn.watch.as_deref(), Some("w.mtp"));
            assert_eq!(
                (&drawn.link, &drawn.flow),
                (&plain.link, &plain.flow),
                "nothing else shifts"
            );
            let values: Vec<_> = drawn.host.iter().map(|host| host.params["MARKS"]).collect();
            unlike += u32::from(values[0] != values[1]);
            let other = drawn.host.iter().filter(|host| host.program.is_some()).count();
            assert!(other <= 1 && (other == 0 || drawn.bounds == Bounds::default()));
            peers += other;
        }
        assert!(
            (100..200).contains(&unlike) && (20..100).contains(&peers),
            "{unlike} {peers}"
        );
    }

    #[test]
    fn every_seed_gives_a_good_scenario_and_always_the_same() {
        for seed in 0..500 {
            let plain = SwarmProgram::new("x", Abilities::MINIMAL);
            let carrying = |delivery, one_way| {
                EVERYTHING.carrying(TrafficModel { delivery, one_way, ..TrafficModel::default() })
            };
            let subjects = [
                EVERYTHING,
                plain,
                carrying(Delivery::Stream, true),
                carrying(Delivery::Messages, false),
                carrying(Delivery::Datagrams, false),
                carrying(Delivery::Datagrams, true),
                EVERYTHING.carrying(TrafficModel::new(TrafficKind::Calls)),
                EVERYTHING.carrying(TrafficModel::new(TrafficKind::Streams)),
                SwarmProgram {
                    udp_port: Some(4791),
                    ..EVERYTHING.carrying(TrafficModel::new(TrafficKind::Works))
                },
                SwarmProgram {
                    udp_port: Some(4433),
                    ..EVERYTHING.carrying(TrafficModel::new(TrafficKind::Streams))
                },
                EVERYTHING.carrying(TrafficModel { one_way: true, ..TrafficModel::new(TrafficKind::Calls) }),
            ];
            for subject in subjects {
                let drawn = scenario(seed, &subject);
                let text = drawn.to_toml().expect("it can be written");
                assert_eq!(
                    Scenario::parse(&text).as_ref(),
                    Ok(&drawn),
                    "seed {seed}:\n{text}"
                );
                assert_eq!(drawn, scenario(seed, &subject));
            }
        }
        // If a link has no rate, the param keeps its value.
        let knows = |seed| {
            let drawn = scenario(seed, &EVERYTHING);
            let link = &drawn.link[0];
            let towards = [&link.backward, &link.forward].map(|rules| rules.rate.or(link.both.rate));
            let known = [0, 1].map(|host: usize| drawn.host[host].params.get("LINK_RATE").cloned());
            assert_eq!(
                known,
                towards.map(|rate| rate.map(|rate| ParamValue::Number(rate.0)))
            );
            towards[0] != towards[1]
        };
        assert!((0..100).filter(|seed| knows(*seed)).count() > 3);
        assert_ne!(scenario(1, &EVERYTHING).link, scenario(2, &EVERYTHING).link);
    }

    #[test]
    fn drawn_scenarios_heal_after_a_minute() {
        for seed in 0..300 {
            let drawn = scenario(seed, &EVERYTHING);
            let faults = |rules: &Rules| {
                let shares = [rules.loss, rules.corrupt, rules.duplicate, rules.reorder];
                shares.into_iter().flatten().any(|share| share.0 > 0.0)
            };
            let link = &drawn.link[0];
            if ![&link.both, &link.forward, &link.backward]
                .iter()
                .any(|rules| faults(rules))
            {
                continue;
            }
            let last = drawn.at.last().expect("the healing");
            assert_eq!((last.time, last.state), (HEALED, Some(OperationalState::Up)));
            assert_eq!(
                (&last.forward, &last.backward),
                (&Rules::healed(), &Rules::healed())
            );
        }
    }

    /// Faults and falls come only after four delays and the time of four full packets, when both ends have
    /// the connection.
    #[test]
    fn a_host_goes_down_only_after_the_connection_is_open() {
        let subject = SwarmProgram { udp_port: Some(4433), ..EVERYTHING };
        let mut translated = 0;
        for seed in 0..1000 {
            let drawn = scenario(seed, &subject);
            if drawn.at.iter().all(|change| change.host.is_none()) {
                continue;
            }
            let link = &drawn.link[0];
            let rate = link.both.rate.expect("a rate").0;
            let open = 4 * link.both.delay.expect("a delay").0 + 4 * (1500 * 8 * SECOND / rate);
            let rebindings: Vec<TimeSpan> = link.nat.iter().flat_map(|nat| nat.rebind.clone()).collect();
            let changes = drawn.at.iter().map(|change| change.time);
            assert!(
                changes.chain(rebindings.clone()).all(|time| time.0 >= open),
                "seed {seed}"
            );
            translated += usize::from(!rebindings.is_empty());
        }
        assert!(translated > 0);
    }

    /// Each condition occurs in some of 300 seeds if the program has the ability, and in none otherwise.
    #[test]
    fn every_condition_is_drawn_only_for_its_ability() {
        let count = |subject: &SwarmProgram<'_>, is: &dyn Fn(&Scenario) -> bool| {
            (1..=300).filter(|seed| is(&scenario(*seed, subject))).count()
        };
        let conditions: [Condition<'_>; 19] = [
            (&|s| s.bounds.time.is_some(), None),
            (
                &|s| s.flow.iter().any(|f| f.bulk.is_some_and(|b| b.bytes.0 > 8 << 20)),
                None,
            ),
            (&|s| s.duration.0 > 3600 * SECOND, None),
            (
                &|s| s.link[0].forward.rate.is_some() || s.link[0].backward.rate.is_some(),
                None,
            ),
            (
                &|s| s.flow.iter().any(|f| f.receive_buffer.is_some()),
                Some(Ability::FlowControl),
            ),
            (&|s| s.flow[0].read_stop.0 > 0, Some(Ability::FlowControl)),
            (&|s| s.flow[0].again > 0, Some(Ability::Reuse)),
            (
                &|s| s.at.iter().any(|at| at.host.is_some()),
                Some(Ability::Restart),
            ),
            (&|s| s.flow.iter().any(|f| f.refusals), Some(Ability::Refusals)),
            (&|s| s.flow[0].abort.is_some(), Some(Ability::Aborts)),
            (&|s| s.flow[0].open == Opening::Nobody, Some(Ability::Resets)),
            (
                &|s| s.bounds.notice.is_some() && s.at.iter().any(|at| at.host.is_some()),
                Some(Ability::Resets),
            ),
            (
                &|s| s.bounds.sent.is_some() && s.flow[0].request.is_some(),
                Some(Ability::RoundTrip),
            ),
            (
                &|s| s.bounds.sent.is_some() && s.link[0].both.queue_packets.is_some(),
                Some(Ability::Congestion),
            ),
            (
                &|s| s.link[0].forward.drop.is_some() || s.link[0].backward.drop.is_some(),
                Some(Ability::Congestion),
            ),
            (
                &|s| s.bounds.time.is_some() && s.flow[0].receive_buffer.is_some(),
                Some(Ability::FlowControl),
            ),
            (
                &|s| s.link[0].forward.drop.is_some() && s.link[0].backward.drop.is_some(),
                Some(Ability::Congestion),
            ),
            (
                &|s| {
                    let mut drops = [&s.link[0].forward, &s.link[0].backward].into_iter();
                    drops.any(|rules| rules.drop.as_ref().is_some_and(|drop| drop.len() > 8))
                },
                Some(Ability::Congestion),
            ),
            (
                &|s| s.flow[0].messages.is_some() && s.bounds.time.is_some() && s.at.len() == 8,
                Some(Ability::RoundTrip),
            ),
        ];
        for (number, (is, ability)) in conditions.into_iter().enumerate() {
            assert!(count(&EVERYTHING, is) > 2, "condition {number}");
            let without = ability.map_or(Abilities::ALL, |ability| Abilities::ALL.without(ability));
            // A restarted host is opened to again as well, so its ability is removed too.
            let without = if ability == Some(Ability::Reuse) {
                without.without(Ability::Restart)
            } else {
                without
            };
            let rest = count(&SwarmProgram { abilities: without, ..EVERYTHING }, is);
            assert_eq!(rest == 0, ability.is_some(), "condition {number}: {rest}");
        }
        let near = |s: &Scenario| match s.params.get("START") {
            Some(hawser_sim::scenario::units::ParamValue::Number(start)) => {
                *start > (1 << 32) - (1 << 19) && *start < 1 << 32
            }
            _ => false,
        };
        assert!(count(&EVERYTHING, &near) > 20);
        assert_eq!(
            count(&SwarmProgram { start_bits: None, ..EVERYTHING }, &|s| !s
                .params
                .is_empty()),
            0
        );
    }
}
