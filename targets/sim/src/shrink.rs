//! Makes a failing scenario smaller: fewer flows, faults and changes, smaller sizes, plainer values, as long as it fails in
//! the same manner.
//!
//! A step makes a scenario smaller or plainer in one respect, and the network no worse: what fails because
//! a link is cut for good, or because the time is up sooner, is no fault of a program. Steps are tried, the large
//! ones first, until no single one is left after which the scenario still fails (delta debugging; Zeller and
//! Hildebrandt, 2002).

mod calls;
mod network;
mod steps;
mod streams;
mod works;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use hawser_time::Instant;

use crate::build::{Resolve, RunError};
use crate::report::Report;
use crate::run::{Options, run};
use crate::scenario::Scenario;
use crate::scenario::units::Span;
use crate::world::{Fate, Sight};

/// The maximum number of runs.
const MAX_RUNS: usize = 2000;

/// What is known of a run that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failing {
    /// How long it took.
    pub took: Span,
    /// It ended because its time was up.
    pub by_time: bool,
    /// The frames that were lost, by direction of a link as in the report.
    pub lost: Vec<Vec<LostFrame>>,
}

/// A frame that a direction of a link lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostFrame {
    /// Its number among those that were sent that way; the first is 1.
    pub sent: u64,
    /// The same without those that came while the link was cut: as the rule `drop` counts. 0: it is one of those.
    pub entered: u64,
}

/// What came of a try.
#[derive(Clone, Debug)]
pub enum Tried {
    /// It fails in the same manner.
    Fails(Failing),
    /// It does not, or cannot be run.
    Passes,
    /// There is no time for further ones.
    Enough,
}

/// A smaller scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Shrunk {
    /// The scenario.
    pub scenario: Scenario,
    /// How many were run.
    pub runs: usize,
    /// No step makes it smaller; otherwise there was no time for more.
    pub is_minimal: bool,
}

/// The smallest scenario that steps lead to; `fails` is asked about each. Nothing when the scenario itself does not fail.
pub fn shrink(scenario: &Scenario, fails: &mut dyn FnMut(&Scenario) -> Tried) -> Option<Shrunk> {
    let Tried::Fails(failing) = fails(scenario) else {
        return None;
    };
    let mut current = (scenario.clone(), failing);
    let (mut runs, mut pass, mut without) = (1, 0, 0);
    // A pass is over when none of its steps is left; all are over when that holds of each in a row.
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

/// Less time must not be why it fails.
fn is_fair(before: &Scenario, after: &Scenario, failing: &Failing) -> bool {
    after.duration >= before.duration || !failing.by_time
}

/// All steps that may be taken from a scenario.
#[must_use]
pub fn steps(scenario: &Scenario, failing: &Failing) -> Vec<Scenario> {
    let all = steps::PASSES.iter().flat_map(|pass| pass(scenario, failing));
    all.filter(|candidate| steps::is_allowed(scenario, candidate))
        .collect()
}

/// In which manner a run failed: the failures of the first connection that failed, or the first other one, without their
/// numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manner(Vec<String>);

impl Manner {
    /// That of a run.
    #[must_use]
    pub fn of(report: &Report) -> Manner {
        let flow = report.flows.iter().find(|flow| !flow.ok);
        let failures = flow.map_or(&report.failures, |flow| &flow.failures);
        let count = if flow.is_some() { failures.len() } else { 1 };
        Manner(
            failures
                .iter()
                .take(count)
                .map(|failure| plain(failure))
                .collect(),
        )
    }

    /// Whether a run failed in this manner: with the first of these failures, and none that is not among them. What
    /// fails in a further respect may do so for another reason.
    #[must_use]
    pub fn is_of(&self, report: &Report) -> bool {
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

/// Runs a scenario with its own seed: whether it fails in this manner.
///
/// # Errors
/// Why it cannot be run at all.
pub fn try_out(
    scenario: &Scenario,
    resolve: Resolve<'_>,
    manner: &Manner,
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
        took: Span((report.seconds * 1e9).ceil() as u64),
        by_time: report.end == "time",
        lost,
    }))
}

/// Counts the frames of each pipe, and notes the lost ones.
#[derive(Default)]
struct Losses {
    lost: Vec<Vec<LostFrame>>,
    /// By pipe: frames sent, and frames that entered.
    counts: Vec<(u64, u64)>,
    /// By pipe: frames under way, by their number in a capture, and when they were sent.
    under_way: Vec<BTreeMap<u64, (LostFrame, Instant)>>,
}

/// The maximum number of frames that are followed; more are under way only in a scenario without any limit.
const MAX_FOLLOWED: usize = 1 << 16;

impl Losses {
    fn see(&mut self, sight: &Sight<'_>) {
        // What a switch drops is lost on no link.
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
            Fate::Sent | Fate::Forwarded => {
                (*sent, *entered) = (*sent + 1, *entered + 1);
                let frame = LostFrame { sent: *sent, entered: *entered };
                if under_way.len() < MAX_FOLLOWED {
                    under_way.insert(number, (frame, sight.at));
                }
            }
            Fate::Arrived | Fate::Delivered => {
                under_way.remove(&number);
            }
            Fate::Lost(rule) => {
                let Some((mut frame, at)) = under_way.remove(&number) else {
                    return;
                };
                // A link that is cut takes nothing in.
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
