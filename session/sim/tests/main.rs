//! The tests of this crate as its users see it, in one program: each links everything.

mod aggregate;
mod faults;
mod gaps;
mod mix;
mod paths;
mod race;
mod sizes;
mod traces;
