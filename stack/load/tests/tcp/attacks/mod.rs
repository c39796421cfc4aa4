//! Attacks, with what they cost. Each test states its bound and prints its figures:
//! `cargo test -p hawser-load --test tcp attacks -- --nocapture`.

mod acks;
mod blind;
mod tiny_segments;
mod flood;

use std::time::Instant;

/// What each of `count` packets cost, the test's own work counted: a figure to print, and no bound.
fn each(began: Instant, count: u64) -> String {
    format!("{:.2} µs each", began.elapsed().as_secs_f64() * 1e6 / count as f64)
}
