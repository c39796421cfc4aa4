//! `hawser bench abi`: the cost of the interface between program and engine.
//!
//! The same hand-written chains run on the same small engine (`evaluation/handwritten/abi_cost.c`). One
//! variant writes records, which are executed afterwards; the other makes calls that act at once.

use std::hint::black_box;
use std::time::Instant;

use super::{Common, alternate, callgrind, column, row};
use crate::handwritten::cost;
use crate::report::{Better, Metric, Report};

/// Measure the record ABI against direct calls: hand-written chains on a small engine
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Events in each run
    #[arg(long, value_name = "N")]
    events: Option<u64>,
}

/// One part of a measurement: how the chain calls the engine, and whether segments carry data.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Once {
    /// 1: direct calls
    direct: u8,
    /// 1: data segments; 0: acknowledgements
    data: u8,
    /// The number of events
    events: u64,
}

type Failure = Box<dyn std::error::Error>;

const NAMES: [&str; 2] = ["records, then carried out", "direct calls"];

/// Runs the bench.
///
/// # Errors
/// None. The report mentions a missing valgrind.
pub(crate) fn run(args: &Args, common: &Common) -> Result<Report, Failure> {
    let events = args
        .events
        .unwrap_or(if common.quick { 10_000 } else { 1_000_000 })
        .max(1);
    let mut report = Report::new(
        "abi",
        "The border between program and engine: an ACK that sends two segments; data",
    );
    report.setting("events", events);
    report.setting("runs", common.runs());
    let results = alternate(common, "abi", &[false, true], |direct| {
        Ok([false, true].map(|data| time(*direct, data, events)).to_vec())
    });
    for (direct, result) in [false, true].into_iter().zip(results) {
        let instructions = [false, true].map(|data| instructions(direct, data));
        if let Err(why) = &instructions[0] {
            report.setting("instructions", format!("not counted: {why}"));
        }
        let counted = |data: usize| instructions[data].as_ref().map_or(Vec::new(), |n| vec![*n]);
        report
            .rows
            .push(row(NAMES[usize::from(direct)].to_owned(), result, |samples| {
                vec![
                    Metric::new("ACK", "ns", Better::Lower, column(samples, 0)),
                    Metric::new("data", "ns", Better::Lower, column(samples, 1)),
                    Metric::new("per ACK", "instructions", Better::Lower, counted(0)),
                    Metric::new("per data segment", "instructions", Better::Lower, counted(1)),
                ]
            }));
    }
    report.against(|_| Some(NAMES[1].to_owned()));
    Ok(report)
}

/// Returns the nanoseconds per event.
fn time(direct: bool, data: bool, events: u64) -> f64 {
    let begin = Instant::now();
    black_box(cost(direct, data, events));
    begin.elapsed().as_nanos() as f64 / events as f64
}

/// Returns the instructions per event, as the difference of two runs under valgrind.
fn instructions(direct: bool, data: bool) -> Result<f64, Failure> {
    const FEW: u64 = 1000;
    const MANY: u64 = 11_000;
    let count = |events: u64| {
        let words = [
            u8::from(direct).to_string(),
            u8::from(data).to_string(),
            events.to_string(),
        ];
        callgrind::count(&["once-abi", &words[0], &words[1], &words[2]]).map(|(count, _)| count)
    };
    Ok((count(MANY)? - count(FEW)?) as f64 / (MANY - FEW) as f64)
}

/// Executes the hidden sub-command, which runs under valgrind.
///
/// # Errors
/// None.
pub(crate) fn once(args: &Once) -> Result<(), Failure> {
    println!("{}", cost(args.direct != 0, args.data != 0, args.events));
    Ok(())
}
