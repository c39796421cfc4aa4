//! The C emitter: prints a checked program as one self-contained C11 file.
//!
//! The interpreter defines the meaning, byte for byte on contexts and records. The C has no undefined
//! behaviour for any event, context or packet.
//!
//! * [`abi`]: the interface between generated code and an engine, as Rust declares it
//! * [`emitter`]: the text printed so far, and the parts that remain to be printed
//! * [`names`], [`module_names`], [`types`]: identifiers, structures, containers
//! * [`analysis`], [`locals`]: the effects of functions, how they end, where their variables are declared
//! * [`scope`], [`function`], [`chain`], [`inlining`], [`apart`]: functions and chains
//! * [`place`], [`expr`], [`number`], [`query`], [`table`]: values
//! * [`stmt`], [`container`], [`instr`], [`image`]: effects
//! * [`packet`]: parsers, headers, segmentation and coalescing rules
//!
//! The runtime (`runtime/*.h`) is put in front of the program unchanged.
//!
//! Invariant: the same module and options yield the same text.

#![forbid(unsafe_code)]

pub mod abi;
mod analysis;
mod apart;
mod chain;
mod container;
mod emitter;
mod expr;
mod function;
mod image;
mod inlining;
mod instr;
mod locals;
mod module_names;
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

/// The way in which the program's lines are marked in the C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// `#line 42 "tcp/input.mtp"`: debuggers and compilers refer to the program's own lines.
    #[default]
    Directives,
    /// `/* tcp/input.mtp:42 */`, for readers.
    Comments,
    /// No marks.
    Nothing,
}

/// The target that compiles and runs the C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Machine {
    /// A C11 compiler, for the host's processor.
    #[default]
    Native,
    /// Clang with `-target bpf`, for the Linux kernel, within the limits of its verifier; see
    /// `runtime/ebpf.h`.
    Ebpf,
}

/// The options of the emitter.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The target that compiles and runs the C.
    pub machine: Machine,
    /// The way in which lines are marked.
    pub marks: Marks,
    /// The events whose chains are printed; `None` for all.
    pub chains: Option<Vec<EventId>>,
    /// If true, the C also exports the function `hawser_program_loaded`, through which a host finds a program
    /// that it loads at run time. Programs that are linked together must not export it.
    pub loadable: bool,
}

/// A program in C.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The text: a single C11 file that needs no other.
    pub c: String,
    /// The name of the function that returns the program's table: `hawser_program_NAME`.
    pub symbol: String,
    /// The digest of the text, in hexadecimal, as the table holds it.
    pub digest: String,
}

/// Prints a checked program, which must be one that the interpreter accepts.
#[must_use]
pub fn emit(module: &Module, options: &Options) -> Emitted {
    let mut emitter = emitter::Emitter::new(module, options);
    emitter.all_structures();
    let react = emitter.chains();
    let packets = packet::functions(&mut emitter);
    emitter.program(&react, &packets)
}
