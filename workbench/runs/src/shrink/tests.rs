//! Tests of shrinking with failures that are defined by conditions on the scenario.

use super::*;
use crate::swarm::{self, Abilities, SwarmProgram};
use hawser_sim::scenario::units::Share;
use hawser_sim::scenario::{OperationalState, ScheduledChange};

type Condition = fn(&Scenario) -> bool;

/// A condition on which a failure may depend, and the maximum contents of a minimal scenario for it: flows,
/// changes, rules.
const CONDITIONS: &[(&str, Condition, [usize; 3])] = &[
    ("any flow", |_| true, [1, 0, 0]),
    (
        "a flow from b",
        |s| s.flow.iter().any(|flow| flow.from == "b"),
        [1, 0, 0],
    ),
    ("two flows", |s| s.flow.len() >= 2, [2, 0, 0]),
    (
        "more than one request",
        |s| {
            s.flow
                .iter()
                .any(|flow| flow.request.is_some_and(|request| request.count > 1))
        },
        [1, 0, 0],
    ),
    (
        "a large transfer that both end at once",
        |s| {
            let large =
                |flow: &hawser_sim::scenario::FlowSpec| flow.bulk.is_some_and(|bulk| bulk.bytes.0 > 12_345);
            s.flow
                .iter()
                .any(|flow| large(flow) && flow.close == hawser_sim::scenario::Closing::Both)
        },
        [1, 0, 0],
    ),
    (
        "a cut",
        |s| s.at.iter().any(|at| at.state == Some(OperationalState::Down)),
        [1, 2, 0],
    ),
    ("loss", |s| s.link[0].forward.loss > Some(Share(0.0)), [1, 1, 1]),
    (
        "reordering against duplicates",
        |s| s.link[0].forward.reorder.is_some() && s.link[0].backward.duplicate.is_some(),
        [1, 1, 2],
    ),
];

fn scenario(seed: u64) -> Scenario {
    swarm::scenario(seed, &SwarmProgram::new("x", Abilities::ALL))
}

fn rules(scenario: &Scenario) -> usize {
    let of = |rules: &hawser_sim::scenario::Rules| {
        toml::to_string(rules).expect("rules are a table").lines().count()
    };
    let links = scenario
        .link
        .iter()
        .flat_map(|link| [&link.both, &link.forward, &link.backward]);
    links.map(of).sum()
}

fn by_time() -> Failing {
    Failing { by_time: true, ..Failing::default() }
}

#[test]
fn a_shrunk_scenario_fails_and_is_minimal() {
    let mut seen = [0; CONDITIONS.len()];
    for seed in 0..120 {
        let scenario = scenario(seed);
        for (count, (name, condition, [flows, changes, max_rules])) in seen.iter_mut().zip(CONDITIONS) {
            let mut fails = |candidate: &Scenario| match condition(candidate) {
                true => Tried::Fails(by_time()),
                false => Tried::Passes,
            };
            let Some(shrunk) = shrink(&scenario, &mut fails) else {
                assert!(!condition(&scenario), "{name}, seed {seed}");
                continue;
            };
            *count += 1;
            let small = &shrunk.scenario;
            let text = small.to_toml().expect("it can be written");
            assert!(
                shrunk.is_minimal && condition(small),
                "{name}, seed {seed}:\n{text}"
            );
            assert_eq!(
                Scenario::parse(&text).as_ref(),
                Ok(small),
                "{name}, seed {seed}:\n{text}"
            );
            let further = steps(small, &by_time());
            assert!(!further.iter().any(condition), "{name}, seed {seed}:\n{text}");
            let sizes = [small.flow.len(), small.at.len(), rules(small)];
            assert!(
                sizes[0] <= *flows && sizes[1] <= *changes,
                "{name}, seed {seed}: {sizes:?}\n{text}"
            );
            // The delay of each link stays.
            assert!(
                sizes[2] <= max_rules + small.link.len(),
                "{name}, seed {seed}: {sizes:?}\n{text}"
            );
        }
    }
    assert!(
        seen.iter().all(|count| *count >= 3),
        "each condition occurs: {seen:?}"
    );
}

#[test]
fn a_random_loss_is_replaced_by_the_lost_frames() {
    let mut scenario = scenario(1);
    scenario.at.clear();
    scenario.link[0].forward.loss = Some(Share(0.1));
    let mut fails = |candidate: &Scenario| {
        let rules = &candidate.link[0].forward;
        let lost = [3, 7, 9].map(|number| LostFrame { sent: number, entered: number });
        let is_lost = rules.loss.is_some() || rules.drop.iter().flatten().any(|number| *number == 7);
        match is_lost {
            true => Tried::Fails(Failing { lost: vec![lost.into(), vec![]], ..Failing::default() }),
            false => Tried::Passes,
        }
    };
    let small = shrink(&scenario, &mut fails).expect("it fails").scenario;
    assert_eq!(
        (small.link[0].forward.loss, small.link[0].forward.drop.as_deref()),
        (None, Some(&[7][..]))
    );
}

#[test]
fn the_duration_is_cut_unless_the_failure_is_a_timeout() {
    let scenario = scenario(1);
    let duration = |by_time: bool| {
        let mut fails =
            |_: &Scenario| Tried::Fails(Failing { took: TimeSpan(2_300_000_000), by_time, lost: vec![] });
        shrink(&scenario, &mut fails).expect("it fails").scenario.duration
    };
    assert_eq!(
        (duration(false), duration(true)),
        (TimeSpan(3_000_000_000), scenario.duration)
    );
}

#[test]
fn shrinking_never_leaves_a_link_cut_at_the_end() {
    for seed in 0..120 {
        let scenario = scenario(seed);
        for step in steps(&scenario, &Failing::default()) {
            let of_link = |at: &ScheduledChange, state| at.host.is_none() && at.state == Some(state);
            let last = |state| step.at.iter().rposition(|at| of_link(at, state));
            assert!(
                last(OperationalState::Down) <= last(OperationalState::Up),
                "seed {seed}: {:?}",
                step.at
            );
            let healed = step.at.iter().any(|at| at.forward.loss == Some(Share(0.0)));
            let worse = step.link[0].forward.loss > Some(Share(0.0));
            assert!(healed || !worse, "seed {seed}: loss without an end");
        }
    }
}

#[test]
fn a_step_limit_returns_the_smallest_failure_so_far() {
    let scenario = scenario(3);
    let mut left = 5;
    let mut fails = |_: &Scenario| {
        left -= 1;
        if left < 0 {
            Tried::Enough
        } else {
            Tried::Fails(Failing::default())
        }
    };
    let shrunk = shrink(&scenario, &mut fails).expect("it fails");
    assert!(!shrunk.is_minimal && shrunk.scenario != scenario);
}
