//! The tests of this crate from its users' point of view. They are one program, because each program links
//! the whole crate.

mod batch;
mod calls;
mod common;
mod hostile;
mod later;
mod options;
mod queues;
mod semantics;
mod stream;
mod tap;
mod units;
mod verbs;
