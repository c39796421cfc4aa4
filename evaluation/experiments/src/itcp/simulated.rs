//! `itcp-fast`: FAST, CUBIC and Reno on the paper's bottleneck, for its 1500 seconds, in virtual time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hawser::interact::twares::{Fast, FastParams, Steer, SteerOptions};
use hawser::interact::{Bus, Rights, Tware};
use hawser::runs::{RunSample, SampleRequest, Scenario, run_steered};
use hawser::time::nanos;
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use serde_json::json;

use super::figures::{figure_9, figure_10, row};
use super::run::{Path, Run, Sample};
use crate::Error;
use crate::experiment::{Context, Outcome};

/// A contender: a name, and its program.
pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) program: &'static str,
    /// True if the paper's six T-wares set the window, in the sender's loop.
    pub(super) twares: bool,
}

/// The contenders, in the order of the figures.
const CONTENDERS: [Contender; 4] = [
    Contender { name: "FAST", program: "tcp-fast", twares: false },
    Contender { name: "iFAST", program: "tcp-newreno", twares: true },
    Contender { name: "CUBIC", program: "tcp", twares: false },
    Contender { name: "Reno", program: "tcp-newreno", twares: false },
];

/// The paper's round-trip times, in milliseconds.
const ROUND_TRIPS: [u64; 2] = [120, 400];
/// The buffers, as shares of the bandwidth-delay product. The figures are drawn at the second.
const BUFFERS: [f64; 4] = [0.25, 0.5, 1.0, 2.0];
const USUAL: f64 = 0.5;
/// The duration of the start-up phase, in seconds.
const START: f64 = 30.0;

/// The duration of a transfer, and the interval of its samples.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) seconds: u64,
    pub(super) every_ms: u64,
}

pub(crate) fn fast(context: &Context<'_>) -> Result<Outcome, Error> {
    let (long, short) = if context.quick { (40, 20) } else { (1_500, 120) };
    let seconds = |path: &Path| if path.buffer == USUAL { long } else { short };
    let paths = ROUND_TRIPS
        .into_iter()
        .flat_map(|ms| BUFFERS.map(|buffer| Path::new(ms, buffer)));
    let transfers: Vec<_> = paths
        .flat_map(|path| CONTENDERS.iter().map(move |contender| (contender, path)))
        .collect();
    let done = AtomicUsize::new(0);
    // Transfers run in virtual time, so transfers in parallel do not affect each other.
    let runs = transfers.par_iter().with_max_len(1).map(|(contender, path)| {
        let what = format!("{} at {} ms", contender.name, path.round_trip_ms);
        (context.progress)(done.load(Ordering::Relaxed), transfers.len(), &what);
        let seconds = seconds(path);
        let times = Times { seconds, every_ms: if seconds > 120 { 500 } else { 100 } };
        let run = transfer(contender, *path, times, context.seed, &[]);
        done.fetch_add(1, Ordering::Relaxed);
        run
    });
    let runs: Vec<Run> = runs.collect::<Result<_, Error>>()?;

    let mut outcome = Outcome::default();
    let rows: Vec<_> = runs.iter().map(|run| row(&mut outcome, run, START)).collect();
    let mut groups = Vec::new();
    for runs in runs
        .chunks(CONTENDERS.len())
        .filter(|runs| runs[0].path.buffer == USUAL)
    {
        let round_trip = runs[0].path.round_trip_ms;
        let share = format!("{round_trip} ms, buffer {USUAL} of the product");
        figure_9(&mut outcome, &share, &format!("figure-9-{round_trip}ms"), runs);
        groups.push((format!("{round_trip} ms"), runs.to_vec()));
    }
    let title = format!("Total in {long} s, buffer {USUAL} of the product");
    figure_10(&mut outcome, &title, "figure-10", &groups);
    outcome.figures = json!({ "rows": rows, "long_seconds": long, "sweep_seconds": short });
    let [first, _] = ROUND_TRIPS;
    let times = Times { seconds: long, every_ms: 100 };
    let text = scenario_text(&CONTENDERS[0], Path::new(first, USUAL), times, &[]);
    outcome.configuration.push(("scenario.toml".into(), text));
    Ok(outcome)
}

/// Returns the scenario of one transfer. The connection's buffers never limit it.
pub(super) fn scenario_text(contender: &Contender, path: Path, times: Times, params: &[&str]) -> String {
    let half = path.round_trip_ms * 500;
    // More bytes than the time allows, the send buffer included.
    let bytes = path.rate / 8 * times.seconds + (128 << 20);
    let params: String = params.iter().map(|param| format!(", {param}")).collect();
    format!(
        "name = \"{name}: {rate} bit/s, {round_trip} ms, a queue of {queue} bytes\"\n\
         duration = \"{seconds}s\"\n\
         program = \"{program}\"\n\
         params = {{ RCV_BUF = 33554432{params} }}\n\
         host = [{{ name = \"sender\", buffer = \"64MiB\" }}, {{ name = \"receiver\", buffer = \"64MiB\" }}]\n\n\
         [[link]]\n\
         name = \"bottleneck\"\n\
         between = [\"sender\", \"receiver\"]\n\
         both = {{ delay = \"{half}us\" }}\n\
         forward = {{ rate = \"{rate}bit/s\", queue = {queue}, queue_packets = 1000000 }}\n\n\
         [[flow]]\n\
         from = \"sender\"\n\
         to = \"receiver\"\n\
         bulk = {{ bytes = {bytes} }}\n",
        name = contender.name,
        rate = path.rate,
        round_trip = path.round_trip_ms,
        queue = path.queue(),
        seconds = times.seconds,
        program = contender.program,
    )
}

/// Runs one transfer.
fn transfer(
    contender: &Contender,
    path: Path,
    times: Times,
    seed: u64,
    params: &[&str],
) -> Result<Run, Error> {
    let mut samples = Vec::new();
    let mut sampled = |moment: &RunSample| samples.push(sample(moment));
    let fields = ["cc.cwnd", "srtt", "retransmissions"];
    let watch = SampleRequest {
        every: Duration::from_nanos(times.every_ms * 1_000_000),
        fields: &fields,
        reported: &mut sampled,
    };
    let bus = Bus::new();
    let alpha = params
        .iter()
        .find_map(|param| param.strip_prefix("FAST_ALPHA = ")?.parse().ok());
    let fast = FastParams {
        alpha: alpha.unwrap_or(FastParams::default().alpha),
        ..FastParams::default()
    };
    let tware =
        move || -> Box<dyn Tware> { Box::new(Steer::new(SteerOptions::new("tcp"), move || Fast::new(fast))) };
    let (subscriber, params) = match contender.twares {
        true => (
            Some(
                bus.attach("fast", Rights::all(), 1, tware)
                    .map_err(|e| e.to_string())?,
            ),
            &[][..],
        ),
        false => (None, params),
    };
    let scenario =
        Scenario::parse(&scenario_text(contender, path, times, params)).map_err(|e| e.to_string())?;
    let steered = if subscriber.is_some() {
        &["sender"][..]
    } else {
        &[]
    };
    let report =
        run_steered(&scenario, Some(seed), watch, &bus, steered).map_err(|error| error.to_string())?;
    // The transfer is longer than the time allows, so an incomplete transfer is not a failure.
    let wrong: Vec<&String> = report
        .failures
        .iter()
        .filter(|fault| !fault.contains("not done:"))
        .collect();
    if !wrong.is_empty() || report.end != "time" {
        return Err(format!("{}: {}, {wrong:?}", report.name, report.end).into());
    }
    Ok(Run { contender: contender.name.into(), path, samples })
}

fn sample(moment: &RunSample) -> Sample {
    let flow = &moment.flows[0];
    let value = |number: usize| flow.values[number].unwrap_or_default();
    Sample {
        seconds: nanos(moment.at) as f64 / 1e9,
        received: flow.received[0],
        window: value(0),
        round_trip_ms: value(1) as f64 / 1e6,
        dropped: moment.links[0].dropped,
        overrun: 0,
        again: value(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs at a tenth of the paper's rate with a tenth of α, so that the queue of 12 ms stays the same.
    fn small(contender: &Contender, round_trip: u64, seconds: u64) -> Run {
        let path = Path { rate: 20_000_000, ..Path::new(round_trip, USUAL) };
        let times = Times { seconds, every_ms: 100 };
        transfer(contender, path, times, 1, &["FAST_ALPHA = 20"]).expect("a run")
    }

    /// Equation 3 at its fixed point: the window is the bandwidth-delay product plus α.
    #[test]
    fn fast_settles_at_the_product_and_alpha_without_a_loss() {
        for contender in &CONTENDERS[..2] {
            settles(contender);
        }
    }

    fn settles(contender: &Contender) {
        let run = small(contender, 120, 30);
        let theory = run.path.product() as f64 * 1448.0 / 1500.0 + 20.0 * 1448.0;
        let ratio = run.settled_window() / theory;
        assert!((ratio - 1.0).abs() < 0.02, "{ratio} of {theory} bytes");
        assert_eq!(run.dropped(30.0), [0, 0]);
        let [_, settled] = run.rates();
        assert!(
            (0.994 * run.path.ceiling()..=run.path.ceiling() * 1.001).contains(&settled),
            "{settled} Mbit/s"
        );
    }

    /// The program and the T-wares are the same controller, so the transfers are the same, byte for byte over
    /// time. This holds over CUBIC too, which would choose another window by itself.
    #[test]
    fn twares_in_the_loop_match_the_program() {
        let program = small(&CONTENDERS[0], 120, 20);
        for under in ["tcp-newreno", "tcp"] {
            let twares = small(&Contender { program: under, ..CONTENDERS[1] }, 120, 20);
            let [a, b] = [program.rates(), twares.rates()];
            assert!((a[1] / b[1] - 1.0).abs() < 0.01, "{under}: {a:?} {b:?}");
            let [a, b] = [program.settled_window(), twares.settled_window()];
            assert!((a / b - 1.0).abs() < 0.01, "{under}: {a} {b}");
            assert_eq!(twares.dropped(20.0), [0, 0], "{under}");
        }
    }

    #[test]
    fn fast_starts_without_a_loss_on_a_long_path() {
        let mut windows = Vec::new();
        for contender in &CONTENDERS[..2] {
            let run = small(contender, 400, 40);
            assert_eq!(run.dropped(40.0), [0, 0], "{}", contender.name);
            let full = run.full_after();
            assert!(
                full.is_some_and(|seconds| seconds < 15.0),
                "{}: {full:?}",
                contender.name
            );
            let [_, settled] = run.rates();
            assert!(
                settled > 0.98 * run.path.ceiling(),
                "{}: {settled} Mbit/s",
                contender.name
            );
            windows.push(run.settled_window());
        }
        assert!((windows[0] / windows[1] - 1.0).abs() < 0.01, "{windows:?}");
    }
}
