//! The tests of this crate's public interface, in one program, because each test program links everything.

mod bounds;
mod codes;
mod common;
mod hostile;
mod layout;
mod offload;
