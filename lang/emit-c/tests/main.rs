//! The tests of this crate as its users see it, in one program: each links everything.

mod abi;
mod chains;
mod common;
mod golden;
mod packets;
mod signals;
