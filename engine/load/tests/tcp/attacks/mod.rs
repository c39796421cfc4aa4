//! Attacks and their costs. Each test states its bound and prints its figures: `cargo test -p hawser-load
//! --test tcp attacks -- --nocapture`.

mod acks;
mod blind;
mod tiny_segments;
mod flood;

use std::time::Instant;

/// Returns the cost of each of `count` packets, including the test's own work. It is a figure to print, not a
/// bound.
fn each(began: Instant, count: u64) -> String {
    format!("{:.2} µs each", began.elapsed().as_secs_f64() * 1e6 / count as f64)
}
