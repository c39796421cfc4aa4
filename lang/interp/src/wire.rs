//! Helpers shared by the parsing and the building of headers.

use hawser_ir::abi::Packet;
use hawser_ir::{Blueprint, BlueprintId, Expr, WireField};

use crate::checksum::Sum;
use crate::machine::{Halt, Machine, PacketQuantities};
use crate::memory::Loc;

/// The size in bytes of the words in which `hdrlen4_t` counts.
pub(crate) const WORD: usize = 4;

impl<'a> Machine<'a> {
    pub(crate) fn blueprint(&self, id: BlueprintId) -> &'a Blueprint {
        &self.module().blueprints[id.0 as usize]
    }

    /// Returns the number of bytes after the payload. The fields that count some of them are in the header.
    pub(crate) fn trailer_len(&self, blueprint: &Blueprint, image: Loc) -> usize {
        let counted = blueprint.trailer.iter().map(|field| match field {
            WireField::Opaque { cap, count_at, count_ty, .. } => {
                self.load_at(image.plus(*count_at as usize), count_ty)
                    .min(u64::from(*cap)) as usize
            }
            _ => 0,
        });
        blueprint.trailer_len() as usize + counted.sum::<usize>()
    }

    /// Evaluates a wire expression over a blueprint's image and the quantities of its packet.
    pub(crate) fn eval_over(
        &mut self,
        image: Loc,
        facts: PacketQuantities,
        expr: &Expr,
    ) -> Result<u64, Halt> {
        let outer = (self.blueprint, self.facts);
        (self.blueprint, self.facts) = (image, facts);
        let value = self.eval(expr);
        (self.blueprint, self.facts) = outer;
        value
    }
}

/// Sums the bytes [from, to) of a packet, which may extend from its head into its tail.
pub(crate) fn sum_range(sum: &mut Sum, packet: &Packet<'_>, from: usize, to: usize) {
    for piece in pieces(packet, from, to) {
        sum.add(piece);
    }
}

/// Returns the bytes [from, to) of a packet: a piece of its head and a piece of its tail.
pub(crate) fn pieces<'p>(packet: &Packet<'p>, from: usize, to: usize) -> [&'p [u8]; 2] {
    let part = |bytes: &'p [u8], start: usize| {
        let low = from.saturating_sub(start).min(bytes.len());
        let high = to.saturating_sub(start).min(bytes.len());
        &bytes[low..high.max(low)]
    };
    [part(packet.head, 0), part(packet.tail, packet.head.len())]
}
