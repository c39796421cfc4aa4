//! The proof that a segmenting device can cut a program's packets.
//!
//! A `pkt_gen` whose payload is longer than its `seg_size` makes several packets. Some devices cut one large
//! packet, a super-segment, into those packets themselves. The blueprint and the segmentation rules alone
//! decide whether the device's packets equal the program's. The checker can therefore prove it once (the MTP
//! paper, Appendix E). The proof states: *cutting an instruction into super-segments, and each of those into
//! packets by the device, makes the same packets as cutting it into packets at once.*

use crate::body::Span;
use crate::module::{BlueprintId, Module, RuleId};

/// The packet instructions of one blueprint with the same rules, and whether a device may cut their packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Offload {
    pub blueprint: BlueprintId,
    /// The rules, in the order of the instruction.
    pub rules: Vec<RuleId>,
    /// The places of such instructions in the source.
    pub sites: Vec<Span>,
    /// The result of the proof, or every obstacle to it.
    pub proof: Result<Cut, Vec<Hindrance>>,
}

/// A cut that devices are known to perform in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The IP protocol number of the packets that such devices cut.
    pub protocol: u8,
    /// Header bits, counted from the first bit, that no rule sets but a device changes. The proof holds only
    /// if all of them are zero in the first packet's header.
    pub clear: Vec<u32>,
    /// The field that grows by the payload's bytes from packet to packet, and wraps.
    pub grows: String,
    /// Fields that rules set only on the last packet.
    pub last_only: Vec<String>,
    /// Fields that rules set only on the first packet.
    pub first_only: Vec<String>,
}

/// A requirement that no device meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hindrance {
    /// The rule, field or instruction that requires it.
    pub span: Span,
    /// The reason why it is an obstacle.
    pub reason: String,
}

impl Module {
    /// Returns the proof for instructions with this blueprint and these rules, given by their indices.
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
