//! What a segmenting device may do in a program's place.
//!
//! A `pkt_gen` whose payload is longer than its `seg_size` makes several packets. Some devices cut
//! one large packet, a super-segment, into those themselves. Whether theirs are the program's
//! packets follows from its blueprint and segmentation rules alone, so the checker proves it once
//! (the MTP paper, Appendix E). What the proof gives is simple: *cutting an
//! instruction into super-segments, and each of those into packets by the device, makes the same
//! packets as cutting it into packets at once.*

use crate::body::Span;
use crate::module::{BlueprintId, Module, RuleId};

/// The packet instructions of one blueprint with the same rules, and whether a device may cut them.
#[derive(Clone, Debug, PartialEq)]
pub struct Offload {
    /// The blueprint.
    pub blueprint: BlueprintId,
    /// The rules, in the order of the instruction.
    pub rules: Vec<RuleId>,
    /// Where such instructions stand.
    pub sites: Vec<Span>,
    /// What was proven, or every obstacle.
    pub proof: Result<Cut, Vec<Hindrance>>,
}

/// What a device is known to do alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The IP protocol number of the packets that such devices cut.
    pub protocol: u8,
    /// Bits of the header, counted from its first, that no rule sets and that a device changes
    /// nevertheless: only where all are zero in the first packet's header does the proof hold.
    pub clear: Vec<u32>,
    /// The field that grows by the payload's bytes from packet to packet, and wraps.
    pub grows: String,
    /// Fields that rules set on the last packet alone.
    pub last_only: Vec<String>,
    /// Fields that rules set on the first packet alone.
    pub first_only: Vec<String>,
}

/// Something that no device does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hindrance {
    /// The rule, the field or the instruction that asks for it.
    pub span: Span,
    /// Why that is an obstacle.
    pub reason: String,
}

impl Module {
    /// What is known of instructions with this blueprint and these rules, by their indices.
    #[must_use]
    pub fn offload(&self, blueprint: u16, rules: &[u16]) -> Option<&Offload> {
        self.offloads.iter().find(|known| {
            let same = known
                .rules
                .iter()
                .map(|rule| rule.0)
                .eq(rules.iter().map(|rule| u32::from(*rule)));
            known.blueprint.0 == u32::from(blueprint) && same
        })
    }
}
