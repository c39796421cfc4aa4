//! Attacks, with what they cost. Each test states its bound and prints its figures:
//! `cargo test -p hawser-programs --test tcp attacks -- --nocapture`.

mod acks;
mod blind;
mod crumbs;
mod flood;
