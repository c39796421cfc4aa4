//! The tests of this crate's public interface, in one program, because each program links everything.

mod hostile;
mod resolve_hostile;
mod simulated;
mod tables;
