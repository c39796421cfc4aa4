//! The tests of this crate's public interface, in one program, since each program links everything.

mod failures;
mod hostile;
mod own;
mod states;
