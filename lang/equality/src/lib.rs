//! Random programs and events: the interpreter and every back end behave the same, byte for byte.
//!
//! * [`generate`]: programs as text, from a seed
//! * [`trial`], [`packets`], [`values`]: random events, contexts and packets, on two sides
//! * [`side`]: the interface of a side
//! * [`diff`]: the differences between two runs, in the program's own names
//! * [`nodes`], [`coverage`]: the nodes of the intermediate form that occur
//! * [`compile`], [`native`]: programs as C, in a shared object
//! * [`attached`]: programs with attachments
//! * [`comparison`], [`worker`], [`batches`]: one comparison, a batch of them in a process, all batches
//! * [`vectors`]: calls recorded for a harness under sanitizers
//! * [`shrink`]: a smaller program that still fails
//!
//! Invariant: a seed determines one program and one course of events, on every machine.

#![deny(unsafe_code)]

pub mod attached;
pub mod batches;
pub mod comparison;
pub mod compile;
pub mod coverage;
pub mod diff;
pub mod generate;
pub mod native;
pub mod nodes;
pub mod packets;
pub mod rng;
pub mod shrink;
pub mod side;
pub mod trial;
pub mod values;
pub mod vectors;
pub mod worker;
