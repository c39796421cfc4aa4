//! The tests of this crate's public interface, in one program, because each test program links everything.

#![allow(unsafe_code)] // Generated code is loaded and called.

// They call the C compiler and read files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod abi;
mod chains;
mod common;
mod golden;
mod packets;
mod signals;
