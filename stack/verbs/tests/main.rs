//! RoCE over two stacks and a wire: what applications see of their memories, and of errors. How works fare on networks
//! is the simulator's (`targets/sim/tests/works.rs`).

#![allow(unreachable_pub)]

#[path = "../../engine/tests/common/cable.rs"]
#[allow(dead_code)]
mod cable;
mod datagrams;
mod errors;
mod pieces;
mod stage;
