//! CRC-32 (IEEE 802.3): the bytes of a blueprint that it covers, and its arithmetic.

use crate::{Blueprint, Fill, WireField};

#[derive(Clone, Copy, Debug)]
pub struct CrcField<'a> {
    /// The number of bits in front of it, if it is in the header.
    pub at: u32,
    /// True if it is the last field of the trailer. A CRC in the header counts as zeros itself.
    pub in_trailer: bool,
    /// Its offset in the image.
    pub offset: u32,
    /// See [`Fill::Crc32`].
    pub invariant: bool,
    /// The spans that count as ones: first bit and number of bits.
    pub masked: &'a [(u32, u32)],
}

impl CrcField<'_> {
    /// Returns a byte of the header as the CRC counts it: masked bits as ones, the field itself as zeros.
    #[must_use]
    pub fn counted(&self, index: usize, byte: u8) -> u8 {
        let within = |bit: usize, at: u32, bits: u32| bit.wrapping_sub(at as usize) < bits as usize;
        (0..8).fold(byte, |value, n| {
            let (bit, place) = (index * 8 + n, 0x80u8 >> n);
            if !self.in_trailer && within(bit, self.at, 32) {
                value & !place
            } else if self.masked.iter().any(|(at, bits)| within(bit, *at, *bits)) {
                value | place
            } else {
                value
            }
        })
    }

    /// The index of the byte from which all bytes of the header count unchanged.
    #[must_use]
    pub fn plain_from(&self) -> usize {
        let own = if self.in_trailer { 0 } else { self.at + u32::BITS };
        let ends = self.masked.iter().map(|(at, bits)| at + bits);
        ends.fold(own, u32::max).div_ceil(8) as usize
    }

    /// Returns the four bytes of a value as they stand on the wire. An InfiniBand invariant CRC, which also
    /// covers bytes in front of the packet, is sent least significant byte first, as a frame's CRC is.
    #[must_use]
    pub fn to_bytes(&self, crc: u32) -> [u8; 4] {
        if self.invariant {
            crc.to_le_bytes()
        } else {
            crc.to_be_bytes()
        }
    }
}

impl Blueprint {
    /// Returns the blueprint's CRC-32, if it has one. In the header, all fields before it have a fixed
    /// length.
    #[must_use]
    pub fn crc(&self) -> Option<CrcField<'_>> {
        let parts = [(&self.header, false), (&self.trailer, true)];
        parts.into_iter().find_map(|(fields, in_trailer)| {
            let mut at = 0;
            for field in fields {
                if let WireField::Bits { fill: Some(Fill::Crc32 { masked, invariant }), offset, .. } = field {
                    return Some(CrcField { at, in_trailer, offset: *offset, invariant: *invariant, masked });
                }
                if !in_trailer {
                    at += field.fixed_bits()?;
                }
            }
            None
        })
    }

    /// Returns the number of bytes after the payload, without those whose count another field gives.
    #[must_use]
    pub fn trailer_len(&self) -> u32 {
        let bits: u32 = self.trailer.iter().filter_map(WireField::fixed_bits).sum();
        bits.div_ceil(8)
    }

    /// Returns the maximum length in bytes of header and trailer together.
    #[must_use]
    pub fn max_around(&self) -> u32 {
        let counted = self.trailer.iter().map(|field| match field {
            WireField::Opaque { cap, .. } => *cap,
            _ => 0,
        });
        self.max_len + self.trailer_len() + counted.sum::<u32>()
    }
}

/// A CRC-32 under calculation: reflected, polynomial 0x04c11db7, initialised and finally inverted with all
/// ones.
#[derive(Clone, Copy, Debug)]
pub struct Crc32(u32);

impl Crc32 {
    /// Starts a calculation that continues from bytes with this CRC-32; 0 for the start of the data.
    #[must_use]
    pub fn after(before: u32) -> Crc32 {
        Crc32(!before)
    }

    pub fn update(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            let word = u64::from_le_bytes(*word) ^ u64::from(self.0);
            let part = |i: usize| REMAINDERS[7 - i][(word >> (8 * i)) as usize & 255];
            self.0 = (0..8).fold(0, |crc, i| crc ^ part(i));
        }
        self.0 = rest.iter().fold(self.0, |crc, byte| {
            crc >> 8 ^ REMAINDERS[0][(crc as u8 ^ byte) as usize]
        });
    }

    #[must_use]
    pub fn value(self) -> u32 {
        !self.0
    }
}

/// The remainders of each byte followed by 0 to 7 zero bytes; `update` processes eight bytes at a time.
static REMAINDERS: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut zeros) = (byte as u32, 0);
        while zeros < 8 {
            crc = with_a_byte_of_zeros(crc);
            tables[zeros][byte] = crc;
            zeros += 1;
        }
        byte += 1;
    }
    tables
};

const fn with_a_byte_of_zeros(mut crc: u32) -> u32 {
    let mut bit = 0;
    while bit < 8 {
        let carry = if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        crc = crc >> 1 ^ carry;
        bit += 1;
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of CRC-32/ISO-HDLC, however the input is split.
    #[test]
    fn the_crc_has_its_published_check_value() {
        let bytes = b"123456789";
        for cut in 0..=bytes.len() {
            let mut first = Crc32::after(0);
            first.update(&bytes[..cut]);
            let mut rest = Crc32::after(first.value());
            rest.update(&bytes[cut..]);
            assert_eq!(rest.value(), 0xcbf4_3926, "{cut}");
        }
    }
}
