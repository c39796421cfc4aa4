//! What taking headers apart and putting them together share.

use hawser_ir::abi::Packet;
use hawser_ir::{Blueprint, BlueprintId, Expr, Fill, WireField};

use crate::checksum::{Crc, Sum};
use crate::machine::{Facts, Halt, Machine};
use crate::memory::Loc;
use crate::prepared::fixed_bits;

/// `hdrlen4_t` counts in words of this many bytes.
pub(crate) const WORD: usize = 4;

impl<'a> Machine<'a> {
    pub(crate) fn blueprint(&self, id: BlueprintId) -> &'a Blueprint {
        &self.module().blueprints[id.0 as usize]
    }

    /// A wire expression over a blueprint's image and the quantities of its packet.
    pub(crate) fn eval_over(&mut self, image: Loc, facts: Facts, expr: &Expr) -> Result<u64, Halt> {
        let outer = (self.blueprint, self.facts);
        (self.blueprint, self.facts) = (image, facts);
        let value = self.eval(expr);
        (self.blueprint, self.facts) = outer;
        value
    }
}

/// Bytes after the payload. The checker lets only fields of fixed length in.
pub(crate) fn trailer_len(blueprint: &Blueprint) -> usize {
    blueprint
        .trailer
        .iter()
        .filter_map(fixed_bits)
        .sum::<usize>()
        .div_ceil(8)
}

/// Sums the bytes [from, to) of a packet, which may reach from its head into its tail.
pub(crate) fn sum_range(sum: &mut Sum, packet: &Packet<'_>, from: usize, to: usize) {
    for piece in pieces(packet, from, to) {
        sum.add(piece);
    }
}

/// The bytes [from, to) of a packet: a piece of its head and a piece of its tail.
pub(crate) fn pieces<'p>(packet: &Packet<'p>, from: usize, to: usize) -> [&'p [u8]; 2] {
    let part = |bytes: &'p [u8], start: usize| {
        let low = from.saturating_sub(start).min(bytes.len());
        let high = to.saturating_sub(start).min(bytes.len());
        &bytes[low..high.max(low)]
    };
    [part(packet.head, 0), part(packet.tail, packet.head.len())]
}

/// A CRC-32 field: bits before it in its part of the packet, and the spans taken as ones.
pub(crate) struct CrcField<'a> {
    pub(crate) at: usize,
    bits: usize,
    pub(crate) in_trailer: bool,
    masked: &'a [(u32, u32)],
}

impl<'a> CrcField<'a> {
    /// The CRC-32 field of a blueprint, if it has one behind fields of fixed length.
    pub(crate) fn find(blueprint: &'a Blueprint) -> Option<CrcField<'a>> {
        let parts = [(&blueprint.header, false), (&blueprint.trailer, true)];
        parts.into_iter().find_map(|(fields, in_trailer)| {
            let mut at = 0;
            for field in fields {
                if let WireField::Bits {
                    fill: Some(Fill::Crc32 { masked }),
                    bits,
                    ..
                } = field
                {
                    return Some(CrcField {
                        at,
                        bits: usize::from(*bits),
                        in_trailer,
                        masked,
                    });
                }
                at += fixed_bits(field)?;
            }
            None
        })
    }

    /// Adds the header to the remainder: masked spans as ones, the field itself as zeros.
    pub(crate) fn add_header(&self, crc: &mut Crc, header: &[u8]) {
        let own = |bit: usize| !self.in_trailer && (self.at..self.at + self.bits).contains(&bit);
        let one = |bit: usize| {
            self.masked
                .iter()
                .any(|(start, len)| bit.wrapping_sub(*start as usize) < *len as usize)
        };
        for (i, byte) in header.iter().enumerate() {
            let changed = (0..8).fold(*byte, |value, n| {
                let (bit, place) = (i * 8 + n, 0x80u8 >> n);
                match (own(bit), one(bit)) {
                    (true, _) => value & !place,
                    (false, true) => value | place,
                    (false, false) => value,
                }
            });
            crc.add(&[changed]);
        }
    }
}
