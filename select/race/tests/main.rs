//! The tests of this crate as its users see it, in one program: each links everything.

mod hostile;
mod simulated;
mod tables;
