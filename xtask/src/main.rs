//! Chores of the repository: `cargo xtask tidy`, `cargo xtask long`.

fn main() {}
