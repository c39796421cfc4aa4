//! The offer of each target to transport programs, the parts of it that a program lacks, and the places where
//! its chains run.
//!
//! The offer of each target is a file in `lang/ir/targets/` ([`Capabilities`]). All
//! else follows from a program's intermediate form, so a program contains no text for particular targets:
//!
//! * [`lacks`]: the needs of a program beyond an offer
//! * [`placements`]: for each chain whether it runs in the kernel while the stack's thread sleeps, with the
//!   reasons
//! * [`pins`]: the reasons why a program runs only in one shard
//!
//! Invariant: the result is a pure function of the module and the offer, and does not depend on a target's
//! name.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cause;
mod document;
mod lacks;
mod offer;
mod packet;
mod pins;
mod placement;
mod reason;
mod walk;

pub use document::{Capabilities, CapabilitiesError};
pub use lacks::lacks;
pub use offer::{Instruction, Offer, OfferLimits, QueueOrder, SourceKind};
pub use pins::pins;
pub use placement::{Placed, Placement, placements};
pub use reason::Reason;
