//! `roce-dcqcn`: several hosts write into the memory of one at the same time, with DCQCN and without.

use std::time::Duration;

use hawser::runs::{self, Report, RunSample, SampleRequest, Scenario};
use serde_json::json;

use crate::Error;
use crate::experiment::{Context, Outcome};
use crate::plot::{Axes, PlotLine, lines};

/// The rate of the links, in bits per second.
const RATE: u64 = 40_000_000_000;

/// Returns a scenario with this many senders, each of which begins a fifth of a millisecond after the
/// previous one. The switch loses no packets: it pauses the senders (PFC), and marks packets as the paper's
/// switches do. A `link_rate` of 0 disables DCQCN.
fn scenario(senders: usize, link_rate: u64, millis: u64) -> String {
    let mut text = format!(
        "name = \"{senders} to 1\"\n\
         duration = \"10s\"\n\
         idle_packets = 0\n\
         program = \"roce\"\n\
         params = {{ LINK_RATE = {link_rate}, WINDOW = 65536 }}\n\
         [topology]\n\
         kind = \"dumbbell\"\n\
         hosts = {senders}\n\
         host_link = {{ rate = \"40Gbit/s\", delay = \"1us\" }}\n\
         core_link = {{ rate = \"40Gbit/s\", delay = \"1us\" }}\n\
         switch = {{ mark_above = \"5kB\", mark_all_above = \"200kB\", mark_share = \"1%\", pfc_xoff = \"40kB\", \
         pfc_headroom = \"40kB\" }}\n"
    );
    for host in 0..senders {
        text.push_str(&format!(
            "[[flow]]\n\
             from = \"h{host}\"\n\
             to = \"h{senders}\"\n\
             at = \"{}us\"\n\
             works = {{ time = \"{millis}ms\", size = \"64kB\", kinds = [\"write\"], depth = 8 }}\n",
            200 * host
        ));
    }
    text
}

/// Returns Jain's index of fairness: 1 if all shares are equal, 1 / n if one sender has everything.
fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), share| {
        (sum + share, squares + share * share)
    });
    if squares > 0.0 {
        sum * sum / (shares.len() as f64 * squares)
    } else {
        0.0
    }
}

/// Runs a scenario, and returns the bytes that each sender wrote in the second half of its time. By then,
/// flows that began one after the other share the link.
fn second_half(text: &str, seed: u64, millis: u64) -> Result<(Report, Vec<f64>), Error> {
    let scenario = Scenario::parse(text).map_err(|error| format!("{error}\n{text}"))?;
    let mut written: Vec<Vec<u64>> = Vec::new();
    let mut note = |moment: &RunSample| {
        written.push(moment.flows.iter().map(|flow| flow.received[0]).collect());
    };
    let watch = SampleRequest {
        every: Duration::from_millis(millis / 2),
        fields: &[],
        reported: &mut note,
    };
    let report = runs::run_watched(&scenario, Some(seed), watch)?;
    if let Some(first) = report.failures.first() {
        return Err(format!("{}: {first}", report.name).into());
    }
    let [half, whole, ..] = &written[..] else {
        return Err("the run ended before its time".into());
    };
    let shares = whole.iter().zip(half).map(|(whole, half)| (whole - half) as f64);
    Ok((report, shares.collect()))
}

pub(crate) fn rates(context: &Context<'_>) -> Result<Outcome, Error> {
    let (senders, millis): (&[usize], u64) = if context.quick {
        (&[2, 4], 10)
    } else {
        (&[2, 5, 10, 20], 200)
    };
    let mut outcome = Outcome::default();
    let mut figures = Vec::new();
    let mut curves = [("with DCQCN", RATE), ("without", 0)]
        .map(|(name, _)| PlotLine { name: name.into(), points: Vec::new() });
    for (step, senders) in senders.iter().enumerate() {
        for (curve, link_rate) in curves.iter_mut().zip([RATE, 0]) {
            (context.progress)(step, 4, &format!("{senders} to 1, {}", curve.name));
            let text = scenario(*senders, link_rate, millis);
            let (report, shares) = second_half(&text, context.seed, millis)?;
            let queue = report
                .links
                .iter()
                .find(|link| (&*link.from, &*link.to) == ("left", "right"));
            let queue = queue.and_then(|link| link.queue).ok_or("the line has no queue")?;
            let pauses: u64 = report
                .links
                .iter()
                .flat_map(|link| &link.pauses)
                .map(|pause| pause.pauses)
                .sum();
            let lost: u64 = report.links.iter().flat_map(|link| link.dropped.values()).sum();
            let seconds = millis as f64 / 2e3;
            let gbits = shares.iter().sum::<f64>() * 8.0 / seconds / 1e9;
            let index = jain(&shares);
            outcome.lines.push(format!(
                "{senders} to 1 {}: Jain's index {index:.3}, {gbits:.1} Gbit/s, {:.0} kB in the queue on average and {:.0} at most, \
                 {pauses} pauses, {lost} packets lost",
                curve.name,
                queue.mean_bytes / 1e3,
                queue.max_bytes as f64 / 1e3,
            ));
            figures.push(json!({
                "senders": senders, "dcqcn": link_rate > 0, "jain": index, "gbits": gbits,
                "queue_mean_bytes": queue.mean_bytes, "queue_max_bytes": queue.max_bytes, "pauses": pauses, "lost": lost,
            }));
            curve.points.push((*senders as f64, queue.mean_bytes / 1e3));
            if *senders == 2 {
                let name = if link_rate > 0 {
                    "with.toml"
                } else {
                    "without.toml"
                };
                outcome.configuration.push((name.into(), text));
            }
        }
    }
    let axes = Axes {
        title: "Writes of several hosts into one: the queue before its line",
        x: "senders",
        y: "kB on average",
    };
    outcome.drawings.push(("queue".into(), lines(&axes, &curves)));
    outcome.figures = json!({ "incast": figures });
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jain, Chiu and Hawe, DEC-TR-301 (1984): if k of n senders have equal shares and the others have none,
    /// the index is k / n.
    #[test]
    fn jains_index_is_the_share_of_senders_with_equal_rates() {
        assert!((jain(&[5.0, 5.0, 5.0, 5.0]) - 1.0).abs() < 1e-12);
        assert!((jain(&[5.0, 0.0, 0.0, 5.0]) - 0.5).abs() < 1e-12);
        assert!(jain(&[0.0]).abs() < 1e-12);
    }
}
