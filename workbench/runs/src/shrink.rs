//! Makes a failing scenario smaller: fewer flows, faults and changes, smaller sizes, plainer values, as long
//! as it fails in the same manner.
//!
//! A step makes a scenario smaller or plainer in one respect and does not make the network worse. A failure
//! caused by a permanently cut link, or by less time, would not be a fault of the program. Steps are tried in
//! order of size, the largest first, until the scenario passes after every single remaining step (delta
//! debugging; Zeller and Hildebrandt, 2002).

mod network;
mod steps;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use hawser_time::Instant;

use hawser_sim::scenario::units::TimeSpan;
use hawser_sim::world::{FrameFate, FrameSighting};
use hawser_sim::{Options, Report, Resolve, RunError, Scenario, run};

const MAX_RUNS: usize = 2000;

/// The properties of a failed run that steps depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failing {
    /// The duration of the run.
    pub(crate) took: TimeSpan,
    /// True if the run ended because its time was up.
    pub(crate) by_time: bool,
    /// The lost frames, by direction of a link as in the report.
    pub(crate) lost: Vec<Vec<LostFrame>>,
}

/// A frame that a direction of a link lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LostFrame {
    /// Its number among the frames sent in that direction, counted from 1.
    pub(crate) sent: u64,
    /// The same number without the frames that arrived while the link was cut, as the rule `drop` counts. It
    /// is 0 if this frame is one of those.
    pub(crate) entered: u64,
}

/// The outcome of a try.
#[derive(Clone, Debug)]
pub(crate) enum Tried {
    /// The scenario fails in the same manner.
    Fails(Failing),
    /// The scenario does not fail in this manner, or cannot be run.
    Passes,
    /// The time for tries is used up.
    Enough,
}

/// The result of shrinking.
#[derive(Clone, Debug, PartialEq)]
pub struct Shrunk {
    /// The smallest scenario found.
    pub scenario: Scenario,
    /// The number of runs.
    pub runs: usize,
    /// True if no step makes it smaller; false if the tries ended first.
    pub is_minimal: bool,
}

/// Returns the smallest scenario that steps lead to, calling `fails` for each candidate. Returns `None` if
/// the scenario itself does not fail.
pub(crate) fn shrink(scenario: &Scenario, fails: &mut dyn FnMut(&Scenario) -> Tried) -> Option<Shrunk> {
    let Tried::Fails(failing) = fails(scenario) else {
        return None;
    };
    let mut current = (scenario.clone(), failing);
    let (mut runs, mut pass, mut without) = (1, 0, 0);
    // A pass is over when none of its steps succeeds; the search is over when that holds for all passes in a
    // row.
    while without < steps::PASSES.len() {
        let candidates = steps::PASSES[pass](&current.0, &current.1);
        let mut smaller = None;
        for candidate in candidates {
            if !steps::is_allowed(&current.0, &candidate) {
                continue;
            }
            runs += 1;
            match fails(&candidate) {
                Tried::Fails(failing) if is_fair(&current.0, &candidate, &failing) => {
                    smaller = Some((candidate, failing));
                    break;
                }
                Tried::Enough => return Some(shrunk(current.0, runs, false)),
                Tried::Fails(_) | Tried::Passes if runs >= MAX_RUNS => {
                    return Some(shrunk(current.0, runs, false));
                }
                Tried::Fails(_) | Tried::Passes => {}
            }
        }
        match smaller {
            Some(smaller) => (current, without) = (smaller, 0),
            None => (pass, without) = ((pass + 1) % steps::PASSES.len(), without + 1),
        }
    }
    Some(shrunk(current.0, runs, true))
}

fn shrunk(scenario: Scenario, runs: usize, is_minimal: bool) -> Shrunk {
    Shrunk { scenario, runs, is_minimal }
}

/// Returns false if a shorter duration could be the reason for the failure.
fn is_fair(before: &Scenario, after: &Scenario, failing: &Failing) -> bool {
    after.duration >= before.duration || !failing.by_time
}

/// Returns all steps that may be taken from a scenario.
#[cfg(test)]
pub(crate) fn steps(scenario: &Scenario, failing: &Failing) -> Vec<Scenario> {
    let all = steps::PASSES.iter().flat_map(|pass| pass(scenario, failing));
    all.filter(|candidate| steps::is_allowed(scenario, candidate))
        .collect()
}

/// The manner in which a run failed: the failures of the first failed connection, or else the first other
/// failure, without digits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailureSignature(Vec<String>);

impl FailureSignature {
    /// Returns the manner of a run's failure.
    pub(crate) fn from_report(report: &Report) -> FailureSignature {
        let flow = report.flows.iter().find(|flow| !flow.ok);
        let failures = flow.map_or(&report.failures, |flow| &flow.failures);
        let count = if flow.is_some() { failures.len() } else { 1 };
        FailureSignature(
            failures
                .iter()
                .take(count)
                .map(|failure| plain(failure))
                .collect(),
        )
    }

    /// Returns true if a run failed in this manner: with the first of these failures, and with no failure
    /// outside this set. A run that fails in a further respect may do so for another reason.
    pub(crate) fn is_of(&self, report: &Report) -> bool {
        let Some(first) = self.0.first() else { return false };
        let is_like = |failures: &[String]| {
            let failures: Vec<String> = failures.iter().map(|failure| plain(failure)).collect();
            failures.contains(first) && failures.iter().all(|failure| self.0.contains(failure))
        };
        let mut flows = report.flows.iter().filter(|flow| !flow.ok);
        flows.any(|flow| is_like(&flow.failures))
            || report.failures.iter().any(|failure| plain(failure) == *first)
    }
}

fn plain(failure: &str) -> String {
    failure.chars().filter(|char| !char.is_ascii_digit()).collect()
}

/// Runs a scenario with its own seed. Returns the failing run if it fails in this manner.
///
/// # Errors
/// Returns an error if the scenario cannot be run at all.
pub(crate) fn try_out(
    scenario: &Scenario,
    resolve: Resolve<'_>,
    manner: &FailureSignature,
) -> Result<Option<Failing>, RunError> {
    let losses = Rc::new(RefCell::new(Losses::default()));
    let seen = Rc::clone(&losses);
    let options = Options {
        packets: Some(Box::new(move |sight| seen.borrow_mut().see(sight))),
        ..Options::default()
    };
    let report = run(scenario, resolve, options)?;
    let lost = std::mem::take(&mut losses.borrow_mut().lost);
    Ok(manner.is_of(&report).then(|| Failing {
        took: TimeSpan((report.seconds * 1e9).ceil() as u64),
        by_time: report.end == "time",
        lost,
    }))
}

/// Counts the frames of each pipe and records the lost ones.
#[derive(Default)]
struct Losses {
    lost: Vec<Vec<LostFrame>>,
    /// By pipe: the number of frames sent, and of frames that entered.
    counts: Vec<(u64, u64)>,
    /// By pipe: the frames in flight, by their number in a capture, with the times at which they were sent.
    under_way: Vec<BTreeMap<u64, (LostFrame, Instant)>>,
}

/// The maximum number of frames followed at once. More are in flight only in a scenario without any limit.
const MAX_FOLLOWED: usize = 1 << 16;

impl Losses {
    fn see(&mut self, sight: &FrameSighting<'_>) {
        // A frame that a switch drops is not lost on any link.
        let Some(pipe) = sight.pipe else { return };
        let number = sight.frame.number;
        if self.lost.len() <= pipe {
            self.lost.resize_with(pipe + 1, Vec::new);
            self.counts.resize(pipe + 1, (0, 0));
            self.under_way.resize_with(pipe + 1, Default::default);
        }
        let (sent, entered) = &mut self.counts[pipe];
        let under_way = &mut self.under_way[pipe];
        match sight.fate {
            FrameFate::Sent | FrameFate::Forwarded => {
                (*sent, *entered) = (*sent + 1, *entered + 1);
                let frame = LostFrame { sent: *sent, entered: *entered };
                if under_way.len() < MAX_FOLLOWED {
                    under_way.insert(number, (frame, sight.at));
                }
            }
            FrameFate::Arrived | FrameFate::Delivered => {
                under_way.remove(&number);
            }
            FrameFate::Lost(rule) => {
                let Some((mut frame, at)) = under_way.remove(&number) else {
                    return;
                };
                // A cut link accepts no frames, so this one did not enter.
                if rule == "down" && at == sight.at {
                    frame.entered = 0;
                    *entered -= 1;
                }
                self.lost[pipe].push(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests;
