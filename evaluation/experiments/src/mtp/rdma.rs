//! `rdma-latency`: the latency of writes and reads of 64 bytes, and the throughput of writes of 64 KB, by
//! RoCE between two processes over a veth. The baseline is round trips and a stream of Linux's TCP.
//!
//! Rounds alternate between the kinds, every second one in reverse order. The result is the ratio to Linux's
//! TCP of the same round.

use std::net::IpAddr;

use hawser::lab::{Lab, Spec};
use serde_json::{Value, json};

use super::calls::Made;
use super::latency::{HOSTS, LAB, STACKS, exchange, load, quantiles};
use super::works::{Kind, ROLE, Role};
use crate::Error;
use crate::experiment::{Context, Outcome, Spread};
use crate::plot::{Axes, Group, bars};

/// The goal for the median of writes, as a share of Linux's round trip.
const GOAL: f64 = 0.7;

/// One kind of work request.
#[derive(Clone, Copy)]
struct Plan {
    name: &'static str,
    kind: Kind,
    size: usize,
    depth: usize,
    count: usize,
}

impl Plan {
    /// Returns whether the total time is measured, and not the time of each request.
    fn is_bulk(&self) -> bool {
        self.size > 64
    }
}

/// Returns the plans: three with small requests, then two with large ones. The last of each group is the
/// baseline of the others.
fn plans(quick: bool) -> [Plan; 5] {
    let [small, large] = if quick { [500, 50] } else { [50_000, 4_000] };
    let plan = |name, kind, size, depth, count| Plan { name, kind, size, depth, count };
    [
        plan("write 64 B", Kind::Write, 64, 1, small),
        plan("read 64 B", Kind::Read, 64, 1, small),
        plan("Linux TCP 64 B", Kind::RoundTrip, 64, 1, small),
        plan("write 64 KB", Kind::Write, 65_536, 16, large),
        plan("Linux TCP stream", Kind::Stream, 65_536, 16, large),
    ]
}

/// The result of one run: the 50th and the 99th percentile in microseconds, or the rate in Gbit/s twice.
type Seen = [f64; 2];

pub(crate) fn rdma(context: &Context<'_>) -> Result<Outcome, Error> {
    let plans = plans(context.quick);
    let rounds = context.times(7);
    let load_before = load();
    let lab = Lab::up(&Spec::parse(LAB)?)?;
    let mut seen: [Vec<Seen>; 5] = Default::default();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..plans.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for (step, place) in order.into_iter().enumerate() {
            let plan = &plans[place];
            (context.progress)(round * plans.len() + step, rounds * plans.len(), plan.name);
            let made = run(&lab, plan).map_err(|error| format!("{}: {error}", plan.name))?;
            seen[place].push(summed(plan, made)?);
        }
    }
    let mut outcome = Outcome::default();
    let rows = [&[0, 1, 2][..], &[3, 4]].map(|places| report(&mut outcome, &plans, places, &seen));
    let ratio = &rows[0][0]["p50_to_linux"]["median"];
    let reached = ratio.as_f64().is_some_and(|ratio| ratio <= GOAL);
    let verdict = if reached { "reached" } else { "missed" };
    outcome.lines.push(format!(
        "goal, a write's p50 at most {GOAL} of Linux's round trip: {verdict}"
    ));
    outcome.figures = json!({
        "rows": rows.concat(), "rounds": rounds, "goal": GOAL,
        "load": { "before": load_before, "after": load() }, "debug_assertions": cfg!(debug_assertions),
    });
    outcome.configuration.push(("lab.toml".into(), LAB.into()));
    Ok(outcome)
}

/// Runs the work requests of one client.
fn run(lab: &Lab, plan: &Plan) -> Result<Made, Error> {
    let spins = std::thread::available_parallelism()?.get() > 1;
    let server = lab.host(HOSTS[1])?.ipv4();
    let server = server.ok_or("a host has no IPv4 address")?;
    let role = |place: usize| Role {
        kind: plan.kind,
        is_client: place == 0,
        stacks: [place, 1 - place].map(|place| IpAddr::from(STACKS[place])),
        server,
        size: plan.size,
        depth: plan.depth,
        warm_up: plan.count / 10 + 1,
        count: plan.count,
        spins,
        core: spins.then_some(place),
    };
    exchange(lab, ROLE, &role(1), &role(0))
}

fn summed(plan: &Plan, made: Made) -> Result<Seen, Error> {
    if !plan.is_bulk() {
        let of = quantiles(made)?;
        return Ok([of.p50, of.p99]);
    }
    let nanos = made.times.first().ok_or("nothing was measured")?;
    let bits = 8 * plan.size * plan.count;
    Ok([bits as f64 / *nanos as f64; 2])
}

/// Adds a row for each of these plans, with its ratio to the last of them in the same round.
fn report(outcome: &mut Outcome, plans: &[Plan], places: &[usize], seen: &[Vec<Seen>]) -> Vec<Value> {
    let (mut rows, mut groups) = (Vec::new(), Vec::new());
    let is_bulk = plans[places[0]].is_bulk();
    let linux = &seen[places[places.len() - 1]];
    for place in places {
        let (plan, runs) = (&plans[*place], &seen[*place]);
        let values = |of: usize| Spread::from_values(runs.iter().map(|run| run[of]).collect());
        let ratios = |of: usize| {
            let ratios = runs.iter().zip(linux).map(|(run, linux)| run[of] / linux[of]);
            Spread::from_values(ratios.collect())
        };
        let shown = |name: &str, unit: &str, of: usize| {
            let (value, ratio) = (values(of), ratios(of));
            let [of, min, max] = [ratio.median, ratio.min, ratio.max];
            format!(
                "   {name} {:8.2} {unit} ({of:.2} ×, {min:.2} to {max:.2})",
                value.median
            )
        };
        let mut row =
            json!({ "work": plan.name, "size": plan.size, "depth": plan.depth, "count": plan.count });
        let (line, bars) = if is_bulk {
            row["gbit_per_second"] = json!(values(0));
            row["to_linux"] = json!(ratios(0));
            (shown("rate", "Gbit/s", 0), vec![values(0)])
        } else {
            for (of, name) in ["p50", "p99"].into_iter().enumerate() {
                row[format!("{name}_us")] = json!(values(of));
                row[format!("{name}_to_linux")] = json!(ratios(of));
            }
            let line = shown("p50", "µs", 0) + &shown("p99", "µs", 1);
            (line, vec![values(0), values(1)])
        };
        outcome.lines.push(format!("{:16}{line}", plan.name));
        groups.push(Group {
            name: plan.name.to_owned(),
            bars: bars.iter().map(|of| (of.median, of.min, of.max)).collect(),
        });
        rows.push(row);
    }
    let (name, title, y, kinds) = match is_bulk {
        true => ("rate", "64 KB at a time", "Gbit/s", vec!["rate"]),
        false => ("times", "64 bytes, both ends spinning", "µs", vec!["p50", "p99"]),
    };
    let kinds: Vec<String> = kinds.into_iter().map(str::to_owned).collect();
    let drawing = bars(&Axes { title, x: "", y }, &kinds, &groups);
    outcome.drawings.push((name.into(), drawing));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_all_bytes_and_times_are_quantiles() {
        let [small, .., bulk] = plans(true);
        let made = |times| Made { times, failed: 0 };
        // 50 times 65,536 bytes in 1 ms.
        let rate = summed(&bulk, made(vec![1_000_000])).expect("a time");
        assert_eq!(rate, [26.2144; 2]);
        let times = summed(&small, made(vec![1_000, 2_000, 9_000])).expect("times");
        assert_eq!(times, [2.0, 9.0]);
        assert!(summed(&bulk, made(Vec::new())).is_err());
    }
}
