//! The SCTP process: the C library, alone with packets and the streams of its associations.
//!
//! A program that links this crate is its own SCTP process: started again with [`VARIABLE`] in its
//! environment, it comes here before its `main` and does not return. So no program has to find another, or
//! to do anything in its `main`.
//!
//! Invariants: `unsafe` is confined to here. The library is begun once in the process and never ended. No
//! call into it is made from its callbacks, none blocks, and no lock is held across one. Memory is bounded
//! by the two buffers of each association. Before the first packet is read the process has given up its
//! rights (`confine`).

pub(crate) mod abi;
mod address;
mod association;
mod bell;
mod confine;
mod connect;
pub(crate) mod entry;
pub(crate) mod figures;
mod interpose;
mod library;
mod listener;
pub(crate) mod notice;
mod reaper;
mod relay;
mod reports;
mod serve;
mod stack;
