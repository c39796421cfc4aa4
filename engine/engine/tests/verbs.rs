//! RoCE over two stacks and a wire: the memory and the errors that applications see. The simulator tests work
//! on networks (`workbench/sim/tests/works.rs`).

#![allow(unreachable_pub)]

mod datagrams;
mod errors;
mod pieces;
mod testbed;
