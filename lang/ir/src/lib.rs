//! The typed intermediate form of a transport program.
//!
//! The checker produces a [`Module`]; the interpreter runs it, the C emitter prints it, the
//! engine reads its tables. Everything is flat: every value of a program lives at a fixed offset
//! of a byte region ([`ty`]), and everything that crosses the border between a program and an
//! engine is a pointer-free record ([`abi`]).
//!
//! * [`ty`]: types and their memory layout
//! * [`body`]: expressions, statements and instructions
//! * [`module`]: events, contexts, chains, blueprints, parsers: the whole program
//! * [`crc`]: where a CRC-32 stands and what it covers
//! * [`offload`]: what a segmenting device may do in a program's place
//! * [`shards`]: how a program's connections can be shared out among stacks
//! * [`visit`]: the one walk over functions
//! * [`abi`]: views, events and instruction records as bytes
//!
//! Invariant: this crate knows no runtime crate, performs no I/O and has no clock.

#![forbid(unsafe_code)]

pub mod abi;
pub mod body;
pub mod buf;
mod compatible;
pub mod crc;
pub mod module;
pub mod offload;
pub mod shards;
pub mod ty;
pub mod visit;

pub use body::*;
pub use crc::{Crc32, CrcField};
pub use module::*;
pub use offload::*;
pub use shards::Shards;
pub use ty::*;
pub use visit::statements;
