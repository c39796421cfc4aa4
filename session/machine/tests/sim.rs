//! This crate's tests through its public interface. They are one program, because each program links
//! everything.

mod aggregate;
mod faults;
mod gaps;
mod mix;
mod paths;
mod race;
mod sizes;
mod traces;
