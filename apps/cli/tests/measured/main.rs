//! Rates and delays are measured: one test at a time, in a program beside which no other runs.

mod browser;
mod lab_self_test;

use parking_lot::Mutex;

/// Whoever measures holds it.
static TURN: Mutex<()> = Mutex::new(());
