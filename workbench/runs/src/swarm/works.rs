//! Works of queue pairs, for programs that have them: as many bytes as were drawn for a flow.

use hawser_sim::Volume;
use hawser_sim::rng::Rng;
use hawser_sim::scenario::units::{DataSize, Rate, Share, Sizes, TimeSpan};
use hawser_sim::scenario::{Bounds, FlowSpec, LinkSpec, Rules, Scenario, SwitchSpec, WorkKind, WorksSpec};

use super::{MILLISECOND, SECOND, span};

/// The minimum rate of a line, in bits per second. A queue pair keeps as much in flight as it may on any
/// line. All of it has to get through before its packets are retransmitted for the last time.
const SLOWEST: u64 = 20_000_000;
/// The maximum share of packets that are lost or damaged: seven retries suffice only in a network that loses
/// little.
const LOSS_MAX: f64 = 0.05;
/// The time after which packets are retransmitted. Eight times this value exceeds the longest cut and five
/// losses in a row.
const TIMEOUT: TimeSpan = TimeSpan(2 * SECOND);
/// The maximum number of works at one end.
const WORKS_MAX: u64 = 100;

/// Changes all flows of a scenario.
pub(super) fn apply(scenario: &mut Scenario, rng: &mut Rng) {
    let mtu = scenario.host.iter().map(|host| host.mtu).min().unwrap_or(0);
    for flow in &mut scenario.flow {
        *flow = changed(flow, rng, mtu);
    }
    scenario.at.retain(|change| change.host.is_none());
    let link = &mut scenario.link[0];
    for rules in [&mut link.both, &mut link.forward, &mut link.backward] {
        rules.rate = rules.rate.map(|rate| Rate(rate.0.max(SLOWEST)));
        // Losses are independent. If only one packet is in flight, a burst would hit its retries.
        rules.burst = None;
        for share in [&mut rules.loss, &mut rules.corrupt].into_iter().flatten() {
            share.0 = share.0.min(LOSS_MAX);
        }
    }
    // The drawn bounds hold for streams, not for works.
    scenario.bounds = Bounds::default();
    // A finished end asks the other end again only after doubling the time that it has waited.
    scenario.duration = TimeSpan(2 * scenario.duration.0);
    if rng.chance(0.3) {
        pause(scenario, rng);
    }
}

fn changed(flow: &FlowSpec, rng: &mut Rng, mtu: u32) -> FlowSpec {
    let Volume { bytes, back, .. } = flow.volume();
    let count = rng.between(1, WORKS_MAX);
    let size = Sizes { min: 0, max: 2 * (bytes + back).min(1 << 20) / count };
    use WorkKind::{Add, Read, Send, Swap, Write};
    let all = [Send, Write, Read, Swap, Add];
    let one = all[rng.below(5) as usize];
    let kinds = match rng.below(3) {
        0 => vec![one],
        _ => all.to_vec(),
    };
    // A storm of receiver-not-ready replies: memory for few messages, which is posted late.
    let is_storm = rng.chance(0.3);
    // The payload leaves room for the headers of IPv6, UDP and InfiniBand.
    let largest = (0..5)
        .rev()
        .map(|n| 256 << n)
        .find(|size| size + 100 <= u64::from(mtu));
    let steps = largest.unwrap_or(256).ilog2() - 8;
    let works = WorksSpec {
        kinds,
        both_ways: back > 0,
        depth: rng.between(1, 32),
        immediate: Share(if rng.chance(0.5) { 0.5 } else { 0.0 }),
        fence: Share(if rng.chance(0.3) { 0.2 } else { 0.0 }),
        receives: if is_storm {
            rng.between(1, 2)
        } else {
            rng.between(4, 32)
        },
        refill: if is_storm {
            span(rng, 1, 5 * MILLISECOND)
        } else {
            TimeSpan(0)
        },
        mtu: DataSize(256 << rng.below(u64::from(steps) + 1)),
        reads: rng.between(1, 16),
        timeout: TIMEOUT,
        ..WorksSpec::new(count, size)
    };
    FlowSpec {
        at: flow.at,
        family: flow.family,
        works: Some(works),
        ..FlowSpec::between(flow.from.clone(), flow.to.clone())
    }
}

/// Adds a switch before the second host, whose line is slower. The switch loses no packets, and pauses the
/// first host.
fn pause(scenario: &mut Scenario, rng: &mut Rng) {
    let link = &mut scenario.link[0];
    let rate = *link.both.rate.get_or_insert(Rate(1_000_000_000));
    let far = std::mem::replace(&mut link.between[1], "switch".to_owned());
    let narrow = Rules {
        rate: Some(Rate((rate.0 / rng.between(2, 10)).max(SLOWEST))),
        delay: Some(span(rng, 1, MILLISECOND)),
        ..Rules::default()
    };
    scenario.link.push(LinkSpec {
        name: "narrow".to_owned(),
        between: ["switch".to_owned(), far],
        both: narrow,
        forward: Rules::default(),
        backward: Rules::default(),
        nat: None,
    });
    let xoff = rng.between(4_000, 40_000);
    scenario.switch.push(SwitchSpec {
        name: "switch".to_owned(),
        pfc_xoff: Some(DataSize(xoff)),
        // More than a second of data over the faster line.
        pfc_headroom: Some(DataSize(rate.0 / 8 + 100_000)),
        ..SwitchSpec::default()
    });
}
