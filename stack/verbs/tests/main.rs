//! RoCE over two stacks and a wire that loses packets: what applications see of their work and of their memories.

#![allow(unreachable_pub)]

#[path = "../../engine/tests/common/cable.rs"]
#[allow(dead_code)]
mod cable;
mod capture;
mod errors;
mod networks;
mod stage;
mod work;
