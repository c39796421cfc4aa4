//! The tests of this crate's public interface, in one program, because each test program links everything.

mod examples;
mod format;
mod shapes;
