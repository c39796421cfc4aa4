//! What each target offers to transport programs, what of it a program lacks, and where its chains run.
//!
//! A target says what it offers in a file of its own, `targets/*/capabilities.toml` ([`Capabilities`]). All else follows
//! from a program's intermediate form, so nothing is written into a program for a target:
//!
//! * [`lacks`]: what a program needs beyond an offer
//! * [`placements`]: for each chain whether it runs in the kernel while the stack's thread sleeps, and why
//! * [`pins`]: why a program runs in one shard alone
//!
//! Invariant: a pure function of the module and the offer. No name of a target decides anything.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod capabilities;
mod cause;
mod lacks;
mod offer;
mod packet;
mod pins;
mod placement;
mod reason;
mod walk;

pub use capabilities::{Capabilities, CapabilitiesError};
pub use lacks::lacks;
pub use offer::{Instruction, Limits, Offer, Queue, SourceKind};
pub use pins::pins;
pub use placement::{Placed, Placement, placements};
pub use reason::Reason;

#[cfg(test)]
mod tests;
