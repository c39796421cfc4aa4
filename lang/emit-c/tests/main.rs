//! The tests of this crate as its users see it, in one program: each links everything.

// They call the C compiler and read files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod abi;
mod chains;
mod common;
mod golden;
mod packets;
mod signals;
