//! Measurements of rates and delays. They run one at a time, in a program that runs alone.

mod browser;
mod lab_self_test;

use parking_lot::Mutex;

/// Held by the test that is measuring.
static TURN: Mutex<()> = Mutex::new(());
