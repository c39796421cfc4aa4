//! The tests of this crate's public interface, in one program, because each test program links everything.

mod chains;
mod common;
mod packets;
