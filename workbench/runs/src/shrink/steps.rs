//! The steps by which a scenario gets smaller or plainer. Each step is a whole scenario, and lowers
//! everything that it changes, so that shrinking ends.

use hawser_sim::link::Profile;
use hawser_sim::lower;
use hawser_sim::scenario::units::{DataSize, ParamValue, Rate, Share, TimeSpan};
use hawser_sim::scenario::{
    Bounds, BulkSpec, Closing, FlowSpec, HostSelector, LinkSpec, Opening, OperationalState, Rules, Scenario,
    ScheduledChange,
};

use super::network::{self, each_flow, flow_with, with};
use super::{Failing, LostFrame};

/// Steps of one kind, the largest first.
type Pass = fn(&Scenario, &Failing) -> Vec<Scenario>;

/// All kinds of steps, those that save the most first.
pub(super) const PASSES: &[Pass] = &[
    fewer_flows,
    fewer_demands,
    less_time,
    losses_by_number,
    fewer_changes,
    fewer_rules,
    fewer_drops,
    lone_flow,
    early_drop,
    plainer_applications,
    plainer_flows,
    smaller_traffic,
    plainer_rules,
    plainer_changes,
    plainer_hosts,
    plainer_params,
    network::fewer_translations,
    network::fewer_links,
    network::fewer_switches,
    network::direct_links,
    network::fewer_hosts,
];

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MAX_RATE: u64 = 10_000_000_000;
const USUAL_MTU: u32 = 1500;
/// The number of frames in a short connection.
const EARLY: u64 = 12;

/// Returns true if a step leads to a scenario that can be run. Its links must be no worse at the beginning
/// and at the end, and its hosts and switches must be up at the end.
pub(super) fn is_allowed(before: &Scenario, after: &Scenario) -> bool {
    let is_no_worse = |link: &LinkSpec| {
        let label = link.label();
        let same = before.link.iter().find(|before| before.label() == label);
        same.is_some_and(|same| is_no_worse(&ends(before, same), &ends(after, link)))
    };
    let runs_at_end = |scenario: &Scenario, name: &String| {
        let changes = scenario.at.iter().filter(|at| at.node() == Some(name));
        let last = changes.filter(|at| at.state.is_some()).max_by_key(|at| at.time);
        last.is_none_or(|at| at.state == Some(OperationalState::Up))
    };
    let runs = |name: &String| runs_at_end(after, name) || !runs_at_end(before, name);
    after != before
        && after.check().is_ok()
        && after.link.iter().all(is_no_worse)
        && after.host.iter().all(|host| runs(&host.name))
        && after.switch.iter().all(|switch| runs(&switch.name))
}

/// Returns a link's state at the beginning and at the end: whether it is up, and both directions.
fn ends(scenario: &Scenario, link: &LinkSpec) -> [(bool, [Profile; 2]); 2] {
    let label = link.label();
    let mut profiles = [Profile::default(), Profile::default()];
    let apply = |profiles: &mut [Profile; 2], [both, forward, backward]: [&Rules; 3]| {
        profiles.iter_mut().for_each(|profile| both.apply(profile));
        forward.apply(&mut profiles[0]);
        backward.apply(&mut profiles[1]);
    };
    apply(&mut profiles, [&link.both, &link.forward, &link.backward]);
    let beginning = (true, profiles.clone());
    let mut changes: Vec<&ScheduledChange> = scenario.at.iter().filter(|at| at.link == label).collect();
    changes.sort_by_key(|at| at.time);
    let mut up = true;
    for at in changes {
        up = at.state.map_or(up, |state| state == OperationalState::Up);
        apply(&mut profiles, [&at.both, &at.forward, &at.backward]);
    }
    [beginning, (up, profiles)]
}

fn is_no_worse(before: &[(bool, [Profile; 2]); 2], after: &[(bool, [Profile; 2]); 2]) -> bool {
    let pairs = before.iter().zip(after);
    let no_worse = |(before, after): (&Profile, &Profile)| {
        let rate = |profile: &Profile| profile.rate.unwrap_or(u64::MAX);
        after.loss <= before.loss
            && after.corrupt <= before.corrupt
            && after.duplicate <= before.duplicate
            && after.reorder <= before.reorder
            && after.delay <= before.delay
            && after.jitter <= before.jitter
            && rate(after) >= rate(before)
            && after.queue_bytes >= before.queue_bytes
            && after.queue_packets >= before.queue_packets.min(Profile::default().queue_packets)
    };
    pairs
        .into_iter()
        .all(|((up, before), (still_up, after))| (*still_up || !up) && before.iter().zip(after).all(no_worse))
}

/// Returns the list without each of its halves, quarters and so on, down to single elements.
fn without<T: Clone>(list: &[T]) -> Vec<Vec<T>> {
    let mut lists = Vec::new();
    let mut size = list.len().div_ceil(2);
    while size > 0 {
        for from in (0..list.len()).step_by(size) {
            let to = (from + size).min(list.len());
            lists.push([&list[..from], &list[to..]].concat());
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    lists
}

fn fewer_flows(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    let fewer = without(&scenario.flow)
        .into_iter()
        .filter(|flows| !flows.is_empty());
    fewer.map(|flows| with(scenario, |s| s.flow = flows)).collect()
}

fn bulk(flow: &FlowSpec, bulk: BulkSpec) -> FlowSpec {
    flow_with(flow, |flow| {
        (flow.request, flow.messages) = (None, None);
        flow.bulk = Some(bulk);
    })
}

/// Replaces applications that take turns with bulk transfers.
fn plainer_applications(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    each_flow(scenario, |flow| match flow.takes_turns() {
        true => vec![bulk(flow, flow.volume().bulk())],
        false => Vec::new(),
    })
}

fn ends_from(flow: &mut FlowSpec) -> &mut HostSelector {
    &mut flow.from
}

fn ends_to(flow: &mut FlowSpec) -> &mut HostSelector {
    &mut flow.to
}

fn plainer_flows(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    each_flow(scenario, |flow| {
        let mut forms = vec![
            flow_with(flow, |flow| flow.at = TimeSpan(0)),
            flow_with(flow, |flow| flow.spacing = TimeSpan(0)),
            flow_with(flow, |flow| flow.read_rate = None),
            flow_with(flow, |flow| flow.send_buffer = None),
            flow_with(flow, |flow| flow.receive_buffer = None),
            flow_with(flow, |flow| flow.family = None),
            flow_with(flow, |flow| flow.open = Opening::default()),
            flow_with(flow, |flow| flow.close = Closing::default()),
            flow_with(flow, |flow| flow.port = None),
            flow_with(flow, |flow| flow.client_port = None),
            flow_with(flow, |flow| flow.abort = None),
            flow_with(flow, |flow| flow.refusals = false),
            flow_with(flow, |flow| flow.one_port = false),
        ];
        let after = flow.abort.map_or(0, |abort| abort.after.0);
        forms.extend(lower(after, 0).into_iter().map(|after| {
            flow_with(flow, |flow| {
                flow.abort
                    .iter_mut()
                    .for_each(|abort| abort.after = DataSize(after));
            })
        }));
        for (hosts, ends) in [
            (&flow.from, ends_from as fn(&mut FlowSpec) -> &mut HostSelector),
            (&flow.to, ends_to),
        ] {
            let fewer = without(hosts.names())
                .into_iter()
                .filter_map(HostSelector::several);
            forms.extend(fewer.map(|hosts| flow_with(flow, |flow| *ends(flow) = hosts)));
        }
        let counts = lower(flow.count, 1).into_iter();
        forms.extend(counts.map(|count| flow_with(flow, |flow| flow.count = count)));
        let times = lower(flow.at.0, 0).into_iter();
        forms.extend(times.map(|at| flow_with(flow, |flow| flow.at = TimeSpan(at))));
        let again = lower(flow.again, 0).into_iter();
        forms.extend(again.map(|again| flow_with(flow, |flow| flow.again = again)));
        let stops = lower(flow.read_stop.0, 0).into_iter();
        forms.extend(stops.map(|stop| flow_with(flow, |flow| flow.read_stop = TimeSpan(stop))));
        forms
    })
}

/// Tries the smaller forms of each flow's traffic.
fn smaller_traffic(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    each_flow(scenario, FlowSpec::smaller)
}

/// Demands less after the last byte, and of the costs.
fn fewer_demands(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    vec![
        with(scenario, |s| (s.linger, s.forget) = (TimeSpan(0), TimeSpan(0))),
        with(scenario, |s| s.forget = TimeSpan(0)),
        with(scenario, |s| s.linger = TimeSpan(0)),
        with(scenario, |s| s.bounds = Bounds::default()),
    ]
}

/// Reduces the duration to the time that the run took, rounded up. If the time was up, a shorter run would
/// prove nothing.
fn less_time(scenario: &Scenario, failing: &Failing) -> Vec<Scenario> {
    let last = scenario.at.iter().map(|at| at.time.0).max().unwrap_or(0);
    let needed = failing.took.0.max(last).max(SECOND);
    let unit = 10u64.pow(needed.ilog10());
    let enough = TimeSpan(needed.div_ceil(unit) * unit);
    if failing.by_time || enough >= scenario.duration {
        return Vec::new();
    }
    vec![with(scenario, |s| s.duration = enough)]
}

fn fewer_changes(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    let fewer = without(&scenario.at).into_iter();
    fewer.map(|at| with(scenario, |s| s.at = at)).collect()
}

/// Replaces losses by chance or by cuts with losses of the same frames by number, because no other frames can
/// be the cause.
fn losses_by_number(scenario: &Scenario, failing: &Failing) -> Vec<Scenario> {
    let chosen = |of: fn(&LostFrame) -> u64| {
        let lost = failing
            .lost
            .iter()
            .map(move |lost| lost.iter().map(of).filter(|n| *n > 0).collect());
        lost.collect::<Vec<Vec<u64>>>()
    };
    let is_by_chance = |rules: &Rules| rules.loss.is_some_and(|loss| loss.0 > 0.0);
    let tables = scenario
        .link
        .iter()
        .flat_map(|link| [&link.both, &link.forward, &link.backward]);
    let changes = scenario
        .at
        .iter()
        .flat_map(|at| [&at.both, &at.forward, &at.backward]);
    let is_cut_by = |at: &ScheduledChange| at.node().is_none() && at.state == Some(OperationalState::Down);
    let is_cut = scenario.at.iter().any(is_cut_by);
    let has_chance = tables.chain(changes).any(is_by_chance);
    let by_number = |lost: &[Vec<u64>], without_cuts: bool| {
        with(scenario, |s| {
            for (i, link) in s.link.iter_mut().enumerate() {
                link.both.drop = None;
                for (rules, pipe) in [(&mut link.forward, 2 * i), (&mut link.backward, 2 * i + 1)] {
                    rules.drop = lost.get(pipe).filter(|lost| !lost.is_empty()).cloned();
                }
                [&mut link.both, &mut link.forward, &mut link.backward]
                    .into_iter()
                    .for_each(certain);
            }
            for at in &mut s.at {
                for rules in [&mut at.both, &mut at.forward, &mut at.backward] {
                    certain(rules);
                    rules.drop = None;
                }
                at.state = at.state.filter(|_| !without_cuts || at.node().is_some());
            }
            s.at.retain(changes_something);
        })
    };
    let mut all = Vec::new();
    if is_cut || has_chance {
        all.push(by_number(&chosen(|frame| frame.sent), true));
    }
    if is_cut && has_chance {
        all.push(by_number(&chosen(|frame| frame.entered), false));
    }
    all
}

fn certain(rules: &mut Rules) {
    (rules.loss, rules.burst) = (None, None);
}

fn changes_something(at: &ScheduledChange) -> bool {
    let rules = [&at.both, &at.forward, &at.backward];
    at.state.is_some() || rules.iter().any(|rules| **rules != Rules::default())
}

/// Returns scenarios in which one table of rules of a link has one of some other forms.
fn each_rules(scenario: &Scenario, forms: impl Fn(&Rules) -> Vec<Rules>) -> Vec<Scenario> {
    let mut all = Vec::new();
    let tables: [fn(&mut LinkSpec) -> &mut Rules; 3] = [
        |link| &mut link.both,
        |link| &mut link.forward,
        |link| &mut link.backward,
    ];
    for (i, link) in scenario.link.iter().enumerate() {
        for table in tables {
            let rules = forms(table(&mut link.clone())).into_iter();
            all.extend(rules.map(|rules| with(scenario, |s| *table(&mut s.link[i]) = rules)));
        }
    }
    all
}

/// Returns scenarios in which one table of rules of a change has one of some other forms. A change without
/// any effect is removed.
fn each_change(scenario: &Scenario, forms: impl Fn(&Rules) -> Vec<Rules>) -> Vec<Scenario> {
    let mut all = Vec::new();
    let tables: [fn(&mut ScheduledChange) -> &mut Rules; 3] =
        [|at| &mut at.both, |at| &mut at.forward, |at| &mut at.backward];
    for (i, at) in scenario.at.iter().enumerate() {
        for table in tables {
            let rules = forms(table(&mut at.clone())).into_iter();
            all.extend(rules.map(|rules| {
                with(scenario, |s| {
                    *table(&mut s.at[i]) = rules;
                    s.at.retain(changes_something);
                })
            }));
        }
    }
    all
}

/// Removes whole tables of rules, then single rules.
fn fewer_rules(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    // A link keeps its delay, so that successive events have different times.
    let of_link = |rules: &Rules| {
        let delay_alone = Rules { delay: rules.delay, ..Rules::default() };
        let mut forms = vec![delay_alone];
        forms.extend(without_one(rules));
        forms
    };
    let of_change = |rules: &Rules| {
        let mut forms = vec![Rules::default()];
        forms.extend(without_one(rules));
        forms.push(Rules { delay: None, ..rules.clone() });
        forms
    };
    let mut all = each_rules(scenario, of_link);
    all.extend(each_change(scenario, of_change));
    all
}

/// Returns the rules without each single one.
fn without_one(rules: &Rules) -> Vec<Rules> {
    let forms = [
        Rules { rate: None, ..rules.clone() },
        Rules { queue: None, ..rules.clone() },
        Rules { queue_packets: None, ..rules.clone() },
        Rules { ecn: None, ..rules.clone() },
        Rules { drop: None, ..rules.clone() },
        Rules { loss: None, burst: None, ..rules.clone() },
        Rules { burst: None, ..rules.clone() },
        Rules { corrupt: None, ..rules.clone() },
        Rules { duplicate: None, ..rules.clone() },
        Rules { jitter: None, ..rules.clone() },
        Rules { reorder: None, hold: None, ..rules.clone() },
        Rules { hold: None, ..rules.clone() },
    ];
    forms.into()
}

fn fewer_drops(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    each_rules(scenario, |rules| {
        let Some(drop) = &rules.drop else {
            return Vec::new();
        };
        let fewer = without(drop).into_iter();
        fewer
            .map(|drop| Rules { drop: Some(drop).filter(|drop| !drop.is_empty()), ..rules.clone() })
            .collect()
    })
}

/// Returns the minimum number of bytes that a client sends: 1 if it sends any. Not every transport makes a
/// connection without data.
fn min_bytes(flow: &FlowSpec) -> u64 {
    u64::from(flow.bulk.is_none_or(|bulk| bulk.bytes.0 > 0))
}

/// Keeps one flow alone, of which one frame is lost, or two in a row. Without the other flows its frames have
/// different numbers, so no flow can be removed while the losses stay the same.
fn lone_flow(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    let (mut all, mut clear) = (Vec::new(), scenario.clone());
    for link in &mut clear.link {
        (link.both.drop, link.forward.drop, link.backward.drop) = (None, None, None);
    }
    if scenario.flow.len() < 2 || clear == *scenario {
        return all;
    }
    let lost = (1..=EARLY).map(|number| vec![number]);
    let lost: Vec<_> = lost
        .chain((1..EARLY).map(|number| vec![number, number + 1]))
        .collect();
    for flow in &scenario.flow {
        for (i, lost) in (0..clear.link.len()).flat_map(|i| lost.iter().map(move |lost| (i, lost))) {
            for backwards in [false, true] {
                all.push(with(&clear, |s| {
                    s.flow = vec![flow.clone()];
                    let link = &mut s.link[i];
                    let rules = if backwards {
                        &mut link.backward
                    } else {
                        &mut link.forward
                    };
                    rules.drop = Some(lost.clone());
                }));
            }
        }
    }
    all
}

/// If one frame is lost, replaces the flow with a small transfer of which an earlier frame is lost. The size
/// and the frame's number depend on each other, so neither can be reduced alone.
fn early_drop(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    let tables = scenario
        .link
        .iter()
        .map(|link| [&link.both, &link.forward, &link.backward]);
    let mut drops = tables.enumerate().flat_map(|(i, rules)| {
        let lists = rules.into_iter().enumerate();
        lists.filter_map(move |(table, rules)| Some((i, table, rules.drop.as_deref()?)))
    });
    let (Some((link, table @ 1.., [dropped])), None) = (drops.next(), drops.next()) else {
        return Vec::new();
    };
    let [flow] = &scenario.flow[..] else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for (bytes, back) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        if bytes < min_bytes(flow) {
            continue;
        }
        for number in 1..=EARLY.min(dropped - 1) {
            all.push(with(scenario, |s| {
                s.flow[0] = bulk(flow, BulkSpec { bytes: DataSize(bytes), back: DataSize(back) });
                let LinkSpec { forward, backward, .. } = &mut s.link[link];
                let rules = if table == 1 { forward } else { backward };
                rules.drop = Some(vec![number]);
            }));
        }
    }
    all
}

/// Tries smaller shares and delays, and higher rates.
fn plainer_rules(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    let mut all = each_rules(scenario, plainer);
    all.extend(each_change(scenario, plainer));
    all
}

fn plainer(rules: &Rules) -> Vec<Rules> {
    let mut forms = Vec::new();
    let share = |share: Option<Share>| {
        // In units of 1/10,000, as the swarm draws them.
        let lower = share
            .map(|share| lower((share.0 * 1e4).round() as u64, 0))
            .unwrap_or_default();
        lower.into_iter().map(|parts| Some(Share(parts as f64 / 1e4)))
    };
    let span = |span: Option<TimeSpan>, min| {
        let lower = span.map(|span| lower(span.0, min)).unwrap_or_default();
        lower.into_iter().map(|nanos| Some(TimeSpan(nanos)))
    };
    forms.extend(share(rules.loss).map(|loss| Rules { loss, ..rules.clone() }));
    forms.extend(share(rules.corrupt).map(|corrupt| Rules { corrupt, ..rules.clone() }));
    forms.extend(share(rules.duplicate).map(|duplicate| Rules { duplicate, ..rules.clone() }));
    forms.extend(share(rules.reorder).map(|reorder| Rules { reorder, ..rules.clone() }));
    let delays = span(
        rules.delay,
        MILLISECOND.min(rules.delay.map_or(0, |delay| delay.0)),
    );
    forms.extend(delays.map(|delay| Rules { delay, ..rules.clone() }));
    forms.extend(span(rules.jitter, 0).map(|jitter| Rules { jitter, ..rules.clone() }));
    forms.extend(span(rules.hold, MILLISECOND).map(|hold| Rules { hold, ..rules.clone() }));
    let rate = rules.rate.map_or(0, |rate| rate.0);
    if (1..MAX_RATE).contains(&rate) {
        let higher = 10u64.pow(rate.ilog10() + 1);
        forms.push(Rules { rate: Some(Rate(higher)), ..rules.clone() });
    }
    forms
}

/// Moves changes to plainer times.
fn plainer_changes(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    let numbered = scenario.at.iter().enumerate();
    numbered
        .flat_map(|(i, at)| {
            let times = lower(at.time.0, 0).into_iter();
            times.map(move |time| with(scenario, |s| s.at[i].time = TimeSpan(time)))
        })
        .collect()
}

fn plainer_hosts(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    let hosts = 0..scenario.host.len();
    hosts
        .flat_map(|i| {
            let plain = [
                with(scenario, |s| s.host[i].mtu = USUAL_MTU),
                with(scenario, |s| s.host[i].buffer = None),
            ];
            let params = scenario.host[i].params.keys();
            let without =
                params.map(move |name| with(scenario, |s| s.host[i].params.retain(|other, _| other != name)));
            plain.into_iter().chain(without).collect::<Vec<_>>()
        })
        .collect()
}

fn plainer_params(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    let mut all = Vec::new();
    for (name, value) in &scenario.params {
        all.push(with(scenario, |s| s.params.retain(|other, _| other != name)));
        let values: Vec<ParamValue> = match value {
            ParamValue::Number(number) => lower(*number, 0).into_iter().map(ParamValue::Number).collect(),
            ParamValue::Span(span) => lower(span.0, 0)
                .into_iter()
                .map(|nanos| ParamValue::Span(TimeSpan(nanos)))
                .collect(),
            ParamValue::Bytes(bytes) => lower(bytes.0, 0)
                .into_iter()
                .map(|n| ParamValue::Bytes(DataSize(n)))
                .collect(),
            ParamValue::Flag(_) | ParamValue::Address(_) => Vec::new(),
        };
        let changed = values.into_iter();
        all.extend(changed.map(|value| with(scenario, |s| s.params.extend([(name.clone(), value)]))));
    }
    all
}
