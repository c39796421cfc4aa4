//! Replaces the drawn connections with calls, some of them over a fabric instead of the link.

use super::{Abilities, Ability, EARLY, HEALED, MICROSECOND, MILLISECOND, SECOND, healing, span};
use hawser_sim::rng::Rng;
use hawser_sim::scenario::units::{DataSize, Rate, Share, Sizes, TimeSpan};
use hawser_sim::scenario::{
    ArrivalProcess, Bounds, CallsSpec, FlowSpec, HostSpec, LinkSpec, MessagesSpec, OperationalState, Rules,
    Scenario, ScheduledChange, Spray, SwitchSpec,
};

/// The maximum number of calls that a host makes in one flow.
const CALLS_MAX: u64 = 300;
/// The time after which a failed call is retried, so that each has its reply once the network has healed.
const RETRY: TimeSpan = TimeSpan(SECOND);

/// Keeps the abilities that apply to calls, and drops those of connections.
pub(super) fn abilities(claimed: Abilities) -> Abilities {
    let kept = [Ability::AnyMtu, Ability::Ends, Ability::Restart];
    let kept = kept.into_iter().filter(|ability| claimed.has(*ability));
    kept.fold(Abilities::MINIMAL, Abilities::with)
}

/// Replaces a flow's messages with the same number of calls.
pub(super) fn apply(
    flow: &mut FlowSpec,
    messages: &MessagesSpec,
    rng: &mut Rng,
    (longest, one_way): (u64, bool),
) {
    let max = rng.between(1, longest);
    let calls = CallsSpec {
        reply: (!one_way).then_some(Sizes { min: 1, max }),
        interval: messages.interval,
        // Pauses of hours stay even: at random intervals some calls would be due after the end of the run.
        arrivals: if rng.chance(0.5) && messages.interval.0 < SECOND {
            ArrivalProcess::Poisson
        } else {
            ArrivalProcess::Even
        },
        outstanding: rng.chance(0.5).then(|| rng.between(1, 16)),
        retry: RETRY,
        ..CallsSpec::new(messages.count.clamp(1, CALLS_MAX), messages.size)
    };
    *flow = FlowSpec {
        at: flow.at,
        family: flow.family,
        calls: Some(calls),
        ..FlowSpec::between(flow.from.clone(), flow.to.clone())
    };
}

/// Finishes a whole scenario of calls: it has no bounds on costs, and in some cases a fabric.
pub(super) fn finish(scenario: &mut Scenario) {
    let rng = &mut Rng::new(scenario.seed, "swarm/fabric");
    scenario.bounds = Bounds::default();
    // Calls to a host that stays down end by timeouts. With a limit on calls in progress, they would take
    // longer than the run.
    if stays_down(scenario) {
        let calls = scenario.flow.iter_mut().filter_map(|flow| flow.calls.as_mut());
        calls.for_each(|calls| calls.outstanding = None);
    }
    if rng.chance(0.4) {
        fabric(scenario, rng);
    }
}

/// Returns true if a host goes down permanently.
fn stays_down(scenario: &Scenario) -> bool {
    let last = |name: &String| {
        let of_host = scenario.at.iter().filter(|at| at.host.as_ref() == Some(name));
        of_host.max_by_key(|at| at.time).and_then(|at| at.state)
    };
    scenario
        .host
        .iter()
        .any(|host| last(&host.name) == Some(OperationalState::Down))
}

/// Builds two leaves with two hosts each, and two spines between them. The drawn link becomes that of the
/// first host. The others have no faults, except that one spine or a link to it goes down and comes up before
/// the network has healed.
fn fabric(scenario: &mut Scenario, rng: &mut Rng) {
    let template = scenario.host[0].clone();
    let more = ["c", "d"].map(|name| HostSpec { name: name.to_owned(), ..template.clone() });
    scenario.host.extend(more);
    let trims = rng.chance(0.5);
    let spray = match rng.below(3) {
        0 => None,
        1 => Some(Spray::Random),
        _ => Some(Spray::RoundRobin),
    };
    scenario.switch = ["leaf0", "leaf1", "spine0", "spine1"]
        .map(|name| SwitchSpec {
            name: name.to_owned(),
            priorities: 8,
            buffer: Some(DataSize(rng.between(20_000, 200_000))),
            shared: rng.chance(0.5),
            trim_to: trims.then_some(DataSize(128)),
            spray,
            ..SwitchSpec::default()
        })
        .into();
    let rate = scenario.link[0].both.rate.map_or(1_000_000_000, |rate| rate.0);
    let both = Rules {
        rate: Some(Rate(rate * rng.between(1, 4))),
        delay: Some(span(rng, MICROSECOND, MILLISECOND)),
        ..Rules::default()
    };
    scenario.link[0].between = ["a".to_owned(), "leaf0".to_owned()];
    let ends = [
        ["b", "leaf1"],
        ["c", "leaf0"],
        ["d", "leaf1"],
        ["leaf0", "spine0"],
        ["leaf0", "spine1"],
        ["leaf1", "spine0"],
        ["leaf1", "spine1"],
    ];
    scenario.link.extend(ends.map(|between| LinkSpec {
        name: String::new(),
        between: between.map(str::to_owned),
        both: both.clone(),
        forward: Rules::default(),
        backward: Rules::default(),
        nat: None,
    }));
    for flow in &mut scenario.flow {
        let with_more = |name: &str| match name {
            "a" => vec!["a".to_owned(), "c".to_owned()],
            _ => vec!["b".to_owned(), "d".to_owned()],
        };
        for hosts in [&mut flow.from, &mut flow.to] {
            let more = hawser_sim::scenario::HostSelector::several(with_more(hosts.first()));
            *hosts = more.unwrap_or_else(|| hosts.clone());
        }
    }
    falls(scenario, rng);
    if rng.chance(0.3) {
        let lossy = &mut scenario.link[4].both;
        lossy.loss = Some(Share(0.02));
        let healed = ScheduledChange {
            link: scenario.link[4].label(),
            both: Rules::healed(),
            forward: Rules::default(),
            backward: Rules::default(),
            ..healing()
        };
        scenario.at.push(healed);
    }
    scenario.at.sort_by_key(|at| at.time);
}

fn falls(scenario: &mut Scenario, rng: &mut Rng) {
    for _ in 0..rng.below(3) {
        let (is_switch, down) = (rng.chance(0.5), span(rng, 0, EARLY).0);
        let up = (down + span(rng, MILLISECOND, 5 * SECOND).0).min(HEALED.0);
        for (time, state) in [(down, OperationalState::Down), (up, OperationalState::Up)] {
            let mut at =
                ScheduledChange { time: TimeSpan(time), state: Some(state), ..ScheduledChange::default() };
            match is_switch {
                true => at.switch = Some("spine1".to_owned()),
                false => at.link = "leaf1-spine1".to_owned(),
            }
            scenario.at.push(at);
        }
    }
}
