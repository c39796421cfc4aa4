//! The tests of this crate as its users see it, in one program: each links everything.

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
