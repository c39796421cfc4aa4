//! The typed intermediate form of a transport program.
//!
//! The checker produces a [`Module`]; the interpreter runs it, the C emitter prints it, the engine reads its
//! tables. Everything is flat. Every value of a program lives at a fixed offset of a byte region ([`ty`]).
//! All data that crosses the border between a program and an engine consists of pointer-free records
//! ([`abi`]).
//!
//! * [`ty`]: types and their memory layout
//! * [`body`]: expressions, statements and instructions
//! * [`module`]: events, contexts, chains, blueprints, parsers: the whole program
//! * [`number`]: total arithmetic on the values of scalar types
//! * [`crc`]: the place of a CRC-32 and the bytes that it covers
//! * [`offload`]: the work that a segmenting device may do in a program's place
//! * [`shards`]: the ways in which a program's connections can be shared out among stacks
//! * [`facts`]: the facts that each node states about itself
//! * [`visit`]: the common traversal of functions
//! * [`abi`]: views, events and instruction records as bytes
//!
//! Invariant: this crate knows no runtime crate, performs no I/O and has no clock.

#![forbid(unsafe_code)]

#[cfg(feature = "capabilities")]
pub mod capabilities;
#[macro_use]
pub mod facts;

pub mod abi;
pub mod body;
pub mod buf;
mod compatible;
pub mod crc;
pub mod module;
pub mod number;
pub mod offload;
pub mod shards;
pub mod ty;
pub mod visit;
pub mod wire;

pub use body::*;
pub use crc::{Crc32, CrcField};
pub use facts::Node;
pub use module::*;
pub use offload::*;
pub use shards::Shards;
pub use ty::*;
pub use visit::statements;
pub use wire::{WireConstant, on_wire};
