//! The tests of this crate through its public interface. They are one program, because each test program
//! links everything.

mod both;
mod delivery;
mod planted;
mod swarm;
