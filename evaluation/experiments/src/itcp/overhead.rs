//! `itcp-overhead`: Tables 3 and 4, the cost of iFAST at 200 Mbit/s and 120 ms. The T-ware only receives
//! signals, or also probes, or also sets the window. It runs over Linux's TCP and ours, in the loop and in a
//! thread.

use std::time::Duration;

use hawser::interact::twares::Mode;
use serde_json::{Value, json};

use super::emulated::{Sender, transfer};
use super::run::Path;
use super::steering::{Count, Steering, ThreadChoice, missing};
use super::usage::{Usage, machine};
use crate::Error;
use crate::experiment::{Context, Outcome};
use crate::plot::{Axes, Group, bars};

/// The minimum time between two signals of acknowledgements. With zero, each acknowledgement is signalled.
const INTERVALS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(10)];
/// The modes drawn, in this order.
const MODES: [(&str, Mode); 3] = [
    ("signal only", Mode::Signal),
    ("probe", Mode::Probe),
    ("full", Mode::Full),
];
const PLACES: [(&str, ThreadChoice); 2] = [("loop", ThreadChoice::Loop), ("thread", ThreadChoice::Thread)];
/// The cost of the paper's full T-ware on each acknowledgement (Table 3), in per cent of one processor.
const PAPER: [f64; 3] = [7.17, 8.58, 9.74];

/// One row of the table.
struct Case {
    linux: bool,
    /// The T-ware's place, mode and interval; `None` without a T-ware, for comparison.
    steered: Option<(usize, usize, Duration)>,
}

impl Case {
    fn name(&self) -> String {
        let transport = if self.linux { "Linux" } else { "ours" };
        match self.steered {
            None => format!("{transport}, no T-ware"),
            Some((place, mode, interval)) => {
                let often = if interval.is_zero() { "each ACK" } else { "10 ms" };
                format!("{transport}, {}, {often}, {}", PLACES[place].0, MODES[mode].0)
            }
        }
    }

    /// Returns the threads whose processor time is the T-ware's. In the loop of our TCP, it is the time of
    /// the whole sender, and the T-ware's own share is in `ns_in_tware`.
    fn threads(&self) -> &'static [&'static str] {
        match (self.linux, self.steered) {
            (true, _) => &["kernel-tcp", "tware-"],
            (false, Some((1, ..))) => &["tware-"],
            (false, _) => &["sender"],
        }
    }

    fn sender(&self, count: &'static Count) -> Sender {
        let steering = self.steered.map(|(place, mode, interval)| Steering {
            place: PLACES[place].1,
            mode: MODES[mode].1,
            interval,
            count: Some(count),
        });
        if self.linux {
            Sender::Kernel(steering)
        } else {
            Sender::Program("tcp-newreno", steering)
        }
    }
}

/// Returns all rows, or in quick mode one of each kind.
fn cases(quick: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for linux in [true, false] {
        cases.push(Case { linux, steered: None });
        for place in 0..PLACES.len() {
            for interval in INTERVALS {
                for mode in (0..MODES.len()).filter(|mode| !quick || *mode == 2) {
                    cases.push(Case { linux, steered: Some((place, mode, interval)) });
                }
            }
        }
    }
    cases
}

/// The counters at one time.
#[derive(Clone, Copy)]
struct CounterSnapshot {
    seconds: f64,
    usage: Usage,
    machine: [u64; 2],
    count: [u64; 2],
}

pub(crate) fn overhead(context: &Context<'_>) -> Result<Outcome, Error> {
    let (warm, seconds) = if context.quick { (1, 3) } else { (10, 40) };
    let path = Path::new(120, 0.5);
    let mut outcome = Outcome::default();
    let missing = missing();
    if let Some(reason) = &missing {
        outcome
            .lines
            .push(format!("SKIPPED: all rows of Linux's own TCP: {reason}"));
    }
    let cases: Vec<Case> = cases(context.quick)
        .into_iter()
        .filter(|case| !case.linux || missing.is_none())
        .collect();
    let mut rows = Vec::new();
    for (done, case) in cases.iter().enumerate() {
        (context.progress)(done, cases.len(), &case.name());
        rows.push(measure(case, path, warm, seconds, &mut outcome)?);
    }
    draw(&mut outcome, &cases, &rows);
    outcome.figures = json!({
        "rows": rows, "missing": missing, "warm_seconds": warm, "seconds": seconds, "path": path,
        "paper_per_cent": { "signal only": PAPER[0], "probe": PAPER[1], "full": PAPER[2] },
    });
    Ok(outcome)
}

/// Measures a transfer, without its first `warm` seconds.
fn measure(case: &Case, path: Path, warm: u64, seconds: u64, outcome: &mut Outcome) -> Result<Value, Error> {
    // The T-ware may outlive its transfer by a moment, so the count is leaked. There are a few dozen of them.
    let count: &'static Count = Box::leak(Box::default());
    let mut standings: Vec<CounterSnapshot> = Vec::new();
    let mut wrong = None;
    let mut sample = |at: f64| {
        let first = standings.is_empty() && at >= warm as f64;
        let last = at >= seconds as f64 - 0.5;
        if first || last {
            match (Usage::from_names(case.threads()), machine()) {
                (Ok(usage), Ok(machine)) => {
                    standings.push(CounterSnapshot { seconds: at, usage, machine, count: count.now() });
                }
                (Err(error), _) | (_, Err(error)) => wrong = Some(error),
            }
        }
    };
    let run = transfer(
        &case.name(),
        case.sender(count),
        path,
        Duration::from_secs(seconds),
        &mut sample,
    )?;
    if let Some(error) = wrong {
        return Err(error);
    }
    let (Some(first), Some(last)) = (standings.first(), standings.last()) else {
        return Err(format!("{}: it ended too soon to be measured", case.name()).into());
    };
    let time = last.seconds - first.seconds;
    let usage = last.usage.since(&first.usage);
    let [signals, spent] = [0, 1].map(|n| last.count[n] - first.count[n]);
    let ticks = [0, 1].map(|n| last.machine[n].saturating_sub(first.machine[n]));
    let share = 100.0 * usage.cpu / time;
    let whole = 100.0 * ticks[0] as f64 / ticks[1].max(1) as f64;
    let each = |nanos: f64| if signals > 0 { nanos / signals as f64 } else { 0.0 };
    let (cost, inside) = (each(usage.cpu * 1e9), each(spent as f64));
    let rate = run.rate(first.seconds, last.seconds);
    outcome.lines.push(format!(
        "{:38} {share:6.2} % of a processor (user {:.2} s, system {:.2} s of {time:.1}), {:>7} voluntary and {:>5} \
         forced switches, {signals:>7} signals, {cost:8.0} ns each ({inside:.0} in the T-ware), {rate:6.1} Mbit/s, \
         machine {whole:.1} %",
        case.name(), usage.user, usage.system, usage.voluntary, usage.forced,
    ));
    Ok(json!({
        "case": case.name(), "threads": case.threads(), "seconds": time, "usage": usage, "cpu_per_cent": share,
        "signals": signals, "ns_for_each_signal": cost, "ns_in_tware": inside,
        "mbit_per_second": rate, "machine_per_cent": whole,
    }))
}

/// Draws Table 3 as bars: the processor time of Linux's TCP and of T-wares in threads, by mode.
fn draw(outcome: &mut Outcome, cases: &[Case], rows: &[Value]) {
    let mut groups: Vec<Group> = Vec::new();
    for (case, row) in cases.iter().zip(rows) {
        let Some((place, _, interval)) = case.steered.filter(|s| case.linux || s.0 == 1) else {
            continue;
        };
        let transport = if case.linux { "Linux" } else { "ours" };
        let often = if interval.is_zero() { "each ACK" } else { "10 ms" };
        let name = format!("{transport}, {}, {often}", PLACES[place].0);
        let share = row["cpu_per_cent"].as_f64().unwrap_or_default();
        match groups.last_mut().filter(|group| group.name == name) {
            Some(group) => group.bars.push((share, share, share)),
            None => groups.push(Group { name, bars: vec![(share, share, share)] }),
        }
    }
    let max_bars = groups
        .iter()
        .map(|group| group.bars.len())
        .max()
        .unwrap_or_default();
    let kinds: Vec<String> = MODES[MODES.len() - max_bars..]
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let axes = Axes {
        title: "What iFAST costs at 200 Mbit/s and 120 ms",
        x: "",
        y: "% of one processor",
    };
    outcome
        .drawings
        .push(("table-3".into(), bars(&axes, &kinds, &groups)));
}
