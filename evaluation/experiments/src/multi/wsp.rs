//! De Coninck and Bonaventure's design (CoNEXT 2017): pairs of paths, and the benefit of using both. The WSP
//! algorithm (Santiago, Claeys-Bruno and Sergent 2012) spreads the pairs evenly over the space of path
//! properties.

use std::time::Duration;

use hawser_session_machine::sim::{Side, SimLink, WorldConfig};
use hawser_sim::rng::Rng;
use serde_json::json;

use crate::Error;
use crate::experiment::{Context, Outcome, Spread};
use crate::plot::{Axes, PlotLine, lines};

/// The number of factors: rate, round trip, queueing delay and loss for each of two paths.
const FACTORS: usize = 8;

/// A class of the paper: the largest round trip and queueing delay in ms, and the largest loss.
struct Class {
    name: &'static str,
    round_trip: f64,
    queueing: f64,
    loss: f64,
}

const CLASSES: [Class; 4] = [
    Class { name: "low-bdp-no-loss", round_trip: 50.0, queueing: 100.0, loss: 0.0 },
    Class { name: "low-bdp-losses", round_trip: 50.0, queueing: 100.0, loss: 0.025 },
    Class {
        name: "high-bdp-no-loss",
        round_trip: 400.0,
        queueing: 2_000.0,
        loss: 0.0,
    },
    Class {
        name: "high-bdp-losses",
        round_trip: 400.0,
        queueing: 2_000.0,
        loss: 0.025,
    },
];

const SCHEDULERS: [&str; 4] = ["ecf", "blest", "lowest-latency", "rr"];

/// The paper's long transfer, in bytes.
const BYTES: u64 = 20 << 20;

/// Returns a random number from 0 up to but excluding 1.
fn share(rng: &mut Rng) -> f64 {
    rng.fraction()
}

type Point = [f64; FACTORS];

/// Returns the random points of `candidates` that are at least `apart` from each other. The selection begins
/// with the first point and always proceeds to the nearest remaining one.
fn spread(candidates: &[Point], apart: f64) -> Vec<Point> {
    let distance = |a: &Point, b: &Point| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    let mut left: Vec<Point> = candidates.to_vec();
    let mut chosen = Vec::new();
    let mut current = left.swap_remove(0);
    loop {
        chosen.push(current);
        left.retain(|point| distance(point, &current) >= apart);
        let nearest = left
            .iter()
            .enumerate()
            .min_by(|(_, a), (_, b)| distance(a, &current).total_cmp(&distance(b, &current)));
        let Some((index, _)) = nearest else { return chosen };
        current = left.swap_remove(index);
    }
}

/// Returns at least `count` points, with as few extra points as a bisection of the distance achieves.
fn design(count: usize, seed: u64) -> Vec<Point> {
    let mut rng = Rng::new(seed, "wsp");
    let candidates: Vec<Point> = (0..2_000.max(8 * count))
        .map(|_| std::array::from_fn(|_| share(&mut rng)))
        .collect();
    let (mut near, mut far) = (0.0, (FACTORS as f64).sqrt());
    for _ in 0..24 {
        let middle = f64::midpoint(near, far);
        if spread(&candidates, middle).len() >= count {
            near = middle
        } else {
            far = middle
        }
    }
    spread(&candidates, near)
}

/// Returns the two paths of a point. Rates are spread logarithmically over 0.1 to 100 Mbit/s.
fn paths(point: &Point, class: &Class) -> [SimLink; 2] {
    [&point[..4], &point[4..]].map(|part| {
        let rate = 10f64.powf(-1.0 + 3.0 * part[0]) * 125_000.0;
        let queue = (rate * class.queueing * part[2] / 1e3).max(3_000.0);
        SimLink {
            rate: rate as u64,
            delay: Duration::from_secs_f64(class.round_trip * part[1] / 2e3),
            queue: queue as u64,
            loss: (class.loss * part[3] * 1e6) as u32,
            max_payload: usize::MAX,
        }
    })
}

/// Returns the goodput in bytes per second, or `None` if the transfer did not finish in time.
fn goodput(links: &[SimLink], scheduler: &str, bytes: u64, seed: u64) -> Option<f64> {
    let mut config = WorldConfig::new(links.to_vec()).transfer(Side::Server, bytes);
    config.handshakes = vec![1; links.len()];
    config.until = Duration::from_secs(10_000);
    config.seed = seed;
    let report = config.run(scheduler);
    let took = report.finished.first().copied().flatten()?;
    report.done.then(|| bytes as f64 / took.as_secs_f64())
}

/// Returns the aggregation benefit (Paasch et al. 2013): 0 equals the better path alone, 1 the sum of both.
fn benefit(together: f64, alone: [f64; 2]) -> f64 {
    let (best, sum) = (alone[0].max(alone[1]), alone[0] + alone[1]);
    if together >= best {
        (together - best) / (sum - best)
    } else {
        (together - best) / best
    }
}

pub(crate) fn wsp(context: &Context<'_>) -> Result<Outcome, Error> {
    let points = design(if context.quick { 12 } else { 64 }, context.seed);
    let bytes = if context.quick { 2 << 20 } else { BYTES };
    let mut outcome = Outcome::default();
    let mut classes = serde_json::Map::new();
    let total = CLASSES.len() * points.len();
    for (number, class) in CLASSES.iter().enumerate() {
        let mut rows = Vec::new();
        let mut benefits = SCHEDULERS.map(|_| Vec::new());
        for (place, point) in points.iter().enumerate() {
            (context.progress)(number * points.len() + place, total, class.name);
            let links = paths(point, class);
            let alone = [
                goodput(&links[..1], "ecf", bytes, context.seed),
                goodput(&links[1..], "ecf", bytes, context.seed),
            ];
            let [Some(first), Some(second)] = alone else {
                return Err(format!("{}, point {place}: a path alone is not done", class.name).into());
            };
            let mut row = serde_json::Map::new();
            for (scheduler, seen) in SCHEDULERS.iter().zip(&mut benefits) {
                let together = goodput(&links, scheduler, bytes, context.seed)
                    .ok_or_else(|| format!("{}, point {place}, {scheduler}: not done", class.name))?;
                let benefit = benefit(together, [first, second]);
                row.insert((*scheduler).into(), json!(benefit));
                seen.push(benefit);
            }
            let of_link = |link: &SimLink| {
                json!({
                    "bytes_per_second": link.rate, "delay_ms": link.delay.as_secs_f64() * 1e3,
                    "queue_bytes": link.queue, "loss": f64::from(link.loss) / 1e6,
                })
            };
            rows.push(json!({
                "paths": links.iter().map(of_link).collect::<Vec<_>>(),
                "alone_bytes_per_second": [first, second], "benefit": row,
            }));
        }
        let mut figures = serde_json::Map::new();
        let mut curves = Vec::new();
        for (scheduler, seen) in SCHEDULERS.iter().zip(benefits) {
            let good = seen.iter().filter(|benefit| **benefit >= 0.0).count() as f64 / seen.len() as f64;
            let spread = Spread::from_values(seen.clone());
            outcome.lines.push(format!(
                "{:17} {scheduler:15} benefit {:6.3} in the middle, {:6.3} at least, better than one path in {:.0} %",
                class.name, spread.median, spread.min, good * 100.0
            ));
            figures.insert(
                (*scheduler).into(),
                json!({ "benefit": spread, "share_of_gains": good }),
            );
            curves.push(distribution(scheduler, seen));
        }
        let title = format!("Aggregation benefit, {}, {} points", class.name, points.len());
        let axes = Axes { title: &title, x: "aggregation benefit", y: "share of the points" };
        outcome.drawings.push((class.name.into(), lines(&axes, &curves)));
        classes.insert(
            class.name.into(),
            json!({ "schedulers": figures, "points": rows }),
        );
    }
    outcome.figures = json!({ "points": points.len(), "bytes": bytes, "classes": classes });
    Ok(outcome)
}

/// Returns the cumulative distribution of the values.
fn distribution(name: &str, mut values: Vec<f64>) -> PlotLine {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let points = values
        .iter()
        .enumerate()
        .map(|(number, value)| (*value, (number + 1) as f64 / count));
    PlotLine { name: name.into(), points: points.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn design_points_are_spread_and_as_many_as_requested() {
        let points = design(60, 3);
        assert!((60..90).contains(&points.len()), "{}", points.len());
        assert!(points.iter().flatten().all(|part| (0.0..1.0).contains(part)));
        // Each factor covers its whole range.
        for factor in 0..FACTORS {
            let values = || points.iter().map(|point| point[factor]);
            assert!(values().fold(1.0, f64::min) < 0.1 && values().fold(0.0, f64::max) > 0.9);
        }
    }

    #[test]
    fn the_aggregation_benefit_matches_the_paper() {
        assert_eq!(benefit(30.0, [10.0, 20.0]), 1.0);
        assert_eq!(benefit(20.0, [10.0, 20.0]), 0.0);
        assert_eq!(benefit(25.0, [10.0, 20.0]), 0.5);
        assert_eq!(benefit(10.0, [10.0, 20.0]), -0.5);
    }
}
