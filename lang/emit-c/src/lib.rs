//! The C emitter: a checked program as one self-contained C11 file.
//!
//! The meaning is the interpreter's, byte for byte on contexts and records; the C has no
//! undefined behaviour for any event, context or packet.
//!
//! * [`abi`]: what generated code exchanges with an engine, as Rust declares it
//! * [`emitter`]: what is printed so far, and what is still to be printed
//! * [`names`], [`given`], [`types`]: identifiers, structures, containers
//! * [`analysis`], [`locals`]: what functions change, how they end, where their variables live
//! * [`scope`], [`function`], [`chain`], [`inlining`], [`apart`]: functions, and what runs on an event
//! * [`place`], [`expr`], [`number`], [`query`], [`table`]: values
//! * [`stmt`], [`container`], [`instr`], [`image`]: effects
//! * [`packet`]: parsers, headers, segmentation and coalescing rules
//!
//! The runtime (`runtime/*.h`) is put in front of the program as it is.
//!
//! Invariant: the same module and options give the same text.

#![forbid(unsafe_code)]

pub mod abi;
mod analysis;
mod apart;
mod chain;
mod container;
mod emitter;
mod expr;
mod function;
mod given;
mod image;
mod inlining;
mod instr;
mod locals;
mod names;
mod number;
mod packet;
mod place;
mod query;
mod scope;
mod stmt;
mod table;
mod types;
mod writer;

use hawser_ir::{EventId, Module};

/// How the lines of the program are marked in the C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// `#line 42 "tcp/input.mtp"`: debuggers and compilers speak of the program's own lines.
    #[default]
    Directives,
    /// `/* tcp/input.mtp:42 */`: for readers.
    Comments,
    /// None.
    Nothing,
}

/// What compiles and runs the C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Machine {
    /// A C11 compiler, for the processor of the host.
    #[default]
    Native,
    /// Clang with `-target bpf`, for the Linux kernel: within what its verifier lets pass, see `runtime/ebpf.h`.
    Ebpf,
}

/// What the C is for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What compiles and runs it.
    pub machine: Machine,
    /// How lines are marked.
    pub marks: Marks,
    /// The events whose chains are printed; `None`: all.
    pub chains: Option<Vec<EventId>>,
    /// Also exports the function `hawser_program_loaded`, by which a program that is loaded at run time is
    /// found. Programs that are linked together must not.
    pub loadable: bool,
}

/// A program in C.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The text: one file that needs no other, to be compiled as C11.
    pub c: String,
    /// The function that gives the program's table: `hawser_program_NAME`.
    pub symbol: String,
    /// The digest of the text that the table holds, in hexadecimal.
    pub digest: String,
}

/// Prints a checked program. It must be one that the interpreter takes.
#[must_use]
pub fn emit(module: &Module, options: &Options) -> Emitted {
    let mut emitter = emitter::Emitter::new(module, options);
    emitter.all_structures();
    let react = emitter.chains();
    let packets = packet::functions(&mut emitter);
    emitter.program(&react, &packets)
}
