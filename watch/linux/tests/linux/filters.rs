//! The filters in the kernel against a model of them, on the same events.

use std::time::Duration;

use hawser_linux::{EventRecord, Filter, FlowEvent};

use crate::TestResult;
use crate::network::{Transfer, collect, expect, load, network};

/// Follows the paper's text (iTCP, section 2.4): cut the time into intervals, each beginning with an event.
/// Take the last event of each interval that is over at `end`, then every F-th of those.
fn model(filter: Filter, events: &[EventRecord], end: u64) -> Vec<EventRecord> {
    let interval = filter.interval.as_nanos() as u64;
    let mut survivors = Vec::new();
    let mut rest = events;
    while let Some(first) = rest.first() {
        let over = first.time + interval;
        let length = if interval == 0 {
            1
        } else {
            rest.iter().take_while(|r| r.time < over).count()
        };
        if over <= end {
            survivors.push(rest[length - 1]);
        }
        rest = &rest[length..];
    }
    let every = filter.frequency.max(1) as usize;
    survivors.into_iter().skip(every - 1).step_by(every).collect()
}

pub(crate) fn filters_agree_with_a_naive_model() -> TestResult {
    let lab = network("both = { rate = \"50Mbit/s\", delay = \"3ms\", jitter = \"2ms\", queue = \"80kB\" }")?;
    let mut kernel = load("hw_filters")?;
    let mut transfer = Transfer::connect(&lab, "hw_filters")?;
    let flow = Some(transfer.cookie);
    let mut filters = vec![Filter { flow, ..Filter::default() }];
    for millis in [0, 1, 7, 50] {
        for frequency in [1, 2, 3] {
            filters.push(Filter { flow, interval: Duration::from_millis(millis), frequency, port: None });
        }
    }
    let subscriptions: Vec<_> = filters
        .iter()
        .map(|&filter| kernel.subscribe(FlowEvent::Acked, filter))
        .collect::<Result<_, _>>()?;
    let mut records = Vec::new();
    transfer.begin(8_000_000)?;
    collect(&mut kernel, Duration::from_millis(2500), &mut records)?;
    transfer.end()?;
    collect(&mut kernel, Duration::from_millis(200), &mut records)?;
    let of = |id| {
        records
            .iter()
            .filter(move |r| r.subscription == id)
            .copied()
            .collect::<Vec<_>>()
    };
    let all = of(subscriptions[0]);
    expect(all.len() > 1000, format!("{} events", all.len()))?;
    for (filter, &id) in filters.iter().zip(&subscriptions) {
        let (got, want) = (of(id), model(*filter, &all, u64::MAX));
        let key = |records: &[EventRecord]| records.iter().map(|r| (r.time, r.values)).collect::<Vec<_>>();
        let first = key(&got)
            .iter()
            .zip(&key(&want))
            .position(|(got, want)| got != want);
        expect(
            key(&got) == key(&want),
            format!(
                "{filter:?}: {} delivered, {} wanted, first difference {first:?}",
                got.len(),
                want.len()
            ),
        )?;
    }
    Ok(())
}

pub(crate) fn filters_select_a_flow_or_a_port() -> TestResult {
    let lab = network("both = { rate = \"50Mbit/s\", delay = \"1ms\" }")?;
    let mut kernel = load("hw_select")?;
    let (one, other) = (
        Transfer::connect(&lab, "reno")?,
        Transfer::connect(&lab, "cubic")?,
    );
    let by_flow = kernel.subscribe(
        FlowEvent::Acked,
        Filter { flow: Some(one.cookie), ..Filter::default() },
    )?;
    let by_port = kernel.subscribe(
        FlowEvent::Acked,
        Filter { port: Some(other.port()?), ..Filter::default() },
    )?;
    let (mut one, mut other) = (one, other);
    one.begin(500_000)?;
    other.begin(500_000)?;
    let mut records = Vec::new();
    collect(&mut kernel, Duration::from_millis(500), &mut records)?;
    let flows = |id| {
        let mut flows: Vec<u64> = records
            .iter()
            .filter(|r| r.subscription == id)
            .map(|r| r.flow)
            .collect();
        flows.sort_unstable();
        flows.dedup();
        flows
    };
    expect(flows(by_flow) == [one.cookie], "by flow")?;
    expect(flows(by_port) == [other.cookie], "by port")?;
    // A filter can be changed while the subscription runs.
    kernel.change(by_flow, Filter { flow: Some(other.cookie), ..Filter::default() })?;
    one.begin(100_000)?;
    other.begin(100_000)?;
    records.clear();
    collect(&mut kernel, Duration::from_millis(300), &mut records)?;
    expect(
        records.iter().all(|r| r.flow == other.cookie) && !records.is_empty(),
        "after a change",
    )
}
