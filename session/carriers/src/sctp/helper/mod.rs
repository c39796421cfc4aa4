//! The SCTP process: the C library, alone with packets and the streams of its associations.
//!
//! A program that links this crate is its own SCTP process. When it is started again with [`VARIABLE`] in its
//! environment, it enters this module before its `main` and does not return. A program therefore needs no
//! second executable, and no code in its `main`.
//!
//! Invariants: `unsafe` is confined to this module. The library is started once in the process and never
//! stopped. Its callbacks make no calls into it, no call blocks, and no lock is held across a call. Memory is
//! bounded by the two buffers of each association. Before the first packet is read, the process has dropped
//! its rights (`sandbox`).

pub(crate) mod abi;
mod address;
mod association;
mod closer;
mod connect;
pub(crate) mod entry;
pub(crate) mod figures;
mod interpose;
mod library;
mod listener;
pub(crate) mod notice;
mod relay;
mod reports;
mod sandbox;
mod serve;
mod stack;
mod wakers;
