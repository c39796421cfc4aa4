//! Leases at the bounds of their variables: the effect of a lease on a flow ends with it.

use std::time::{Duration, Instant};

use hawser_linux::{Kernel, KernelError, Variable};

use crate::TestResult;
use crate::network::{Transfer, expect, load, network};
use crate::steering::own_controls;

const LINK: &str = "both = { rate = \"50Mbit/s\", delay = \"10ms\", queue = \"250kB\" }";
/// The minimum rate of a flow alone on the link, in bytes per second: half of its payload rate, for loaded
/// machines.
const RATE: f64 = 3_000_000.0;
const LEASE: Duration = Duration::from_millis(400);
/// The maximum time until a flow has its rate back.
const BACK: Duration = Duration::from_secs(1);
/// The length of a measurement.
const SPAN: Duration = Duration::from_millis(700);

/// Holds every variable at both of its bounds. A second after the lease each controller has its rate back.
pub(crate) fn after_a_lease_at_a_bound_a_flow_has_its_rate_back() -> TestResult {
    let name = "hw_bounds";
    let mut kernel = load(name)?;
    let mut failures = Vec::new();
    for control in own_controls()?.iter().map(String::as_str).chain([name]) {
        for variable in Variable::ALL {
            let (min, max) = variable.bounds().into_inner();
            for value in [min, max] {
                let (before, after) = hold(&mut kernel, control, name, variable, value)?;
                let line =
                    format!("{control}: {variable:?} at {value}: {before:.0} B/s before, {after:.0} after");
                println!("  {line}");
                if after < RATE {
                    failures.push(line);
                }
            }
        }
    }
    expect(failures.is_empty(), failures.join("\n"))
}

/// Returns the rates of a flow before a lease and from a second after its end.
fn hold(
    kernel: &mut Kernel,
    control: &str,
    ours: &str,
    variable: Variable,
    value: u64,
) -> TestResult<(f64, f64)> {
    let lab = network(LINK)?;
    let transfer = Transfer::start(&lab, control)?;
    transfer.wait_for(2_000_000)?;
    let before = rate(&transfer);
    if control != ours {
        lab.host("client")?.run(|| kernel.adopt(transfer.cookie))??;
    }
    kernel.modify(transfer.cookie, variable, value, LEASE)?;
    std::thread::sleep(LEASE + BACK);
    let after = rate(&transfer);
    Ok((before, after))
}

/// Returns the rate at which bytes arrive, per second.
fn rate(transfer: &Transfer) -> f64 {
    let (begin, before) = (Instant::now(), transfer.read());
    std::thread::sleep(SPAN);
    (transfer.read() - before) as f64 / begin.elapsed().as_secs_f64()
}

/// A pacing rate that would slow the flow after its lease is refused, and so is a rate of 0.
pub(crate) fn a_pace_below_the_lowest_is_refused() -> TestResult {
    let lab = network(LINK)?;
    let mut kernel = load("hw_lowest")?;
    let transfer = Transfer::start(&lab, "hw_lowest")?;
    for value in [0, 1, 1_000, 20_000, Variable::PacingRate.bounds().start() - 1] {
        let refused = kernel.modify(transfer.cookie, Variable::PacingRate, value, LEASE);
        expect(
            matches!(refused, Err(KernelError::Value { .. })),
            format!("{value}: {refused:?}"),
        )?;
    }
    transfer.wait_for(1_000_000)?;
    transfer.end().map(drop)
}
