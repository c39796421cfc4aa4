//! Reads and writes wire formats: big-endian, packed from the most significant bit.

use hawser_ir::abi::ParseError;
use hawser_ir::number::varint_len;

/// Reads a header from its first byte on.
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> BitReader<'a> {
        BitReader { bytes, at: 0 }
    }

    /// Reads from a bit inside the bytes on.
    pub(crate) fn from_bit(bytes: &'a [u8], at: usize) -> BitReader<'a> {
        BitReader { bytes, at }
    }

    /// Returns the number of bytes passed; a partly read byte counts.
    pub(crate) fn position(&self) -> usize {
        self.at.div_ceil(8)
    }

    /// Reads the next `count` bits, at most 64, as a number.
    pub(crate) fn bits(&mut self, count: u32) -> Result<u64, ParseError> {
        if self.at.is_multiple_of(8) && count.is_multiple_of(8) {
            let bytes = self.bytes((count / 8) as usize)?;
            return Ok(bytes.iter().fold(0, |value, b| value << 8 | u64::from(*b)));
        }
        let end = self.at + count as usize;
        let covering = self
            .bytes
            .get(self.at / 8..end.div_ceil(8))
            .ok_or(ParseError::Truncated)?;
        let value = covering
            .iter()
            .fold(0u128, |value, b| value << 8 | u128::from(*b));
        let spare = end.next_multiple_of(8) - end;
        self.at = end;
        Ok((value >> spare & ((1 << count) - 1)) as u64)
    }

    /// Reads the next `count` bytes, starting at a byte boundary.
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], ParseError> {
        let start = self.position();
        let bytes = self
            .bytes
            .get(start..start + count)
            .ok_or(ParseError::Truncated)?;
        self.at = (start + count) * 8;
        Ok(bytes)
    }

    /// Reads a variable-length integer (RFC 9000, section 16).
    pub(crate) fn varint(&mut self) -> Result<u64, ParseError> {
        let first = *self.bytes(1)?.first().ok_or(ParseError::Truncated)?;
        let rest = self.bytes((1 << (first >> 6)) - 1)?;
        Ok(rest
            .iter()
            .fold(u64::from(first & 0x3f), |value, b| value << 8 | u64::from(*b)))
    }

    /// Returns the remaining bytes, starting at a byte boundary.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position()..).unwrap_or(&[])
    }

    /// Skips bytes that were read by other means.
    pub(crate) fn skip(&mut self, count: usize) {
        self.at = (self.position() + count) * 8;
    }
}

/// Writes a header. Data beyond the room is only counted, so a writer without any room measures.
pub(crate) struct BitWriter<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> BitWriter<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> BitWriter<'a> {
        BitWriter { bytes, at: 0 }
    }

    /// Returns the number of bytes passed; a partly written byte counts.
    pub(crate) fn position(&self) -> usize {
        self.at.div_ceil(8)
    }

    /// Writes the low `count` bits of a number, at most 64.
    pub(crate) fn bits(&mut self, value: u64, count: u32) {
        if self.at.is_multiple_of(8) && count.is_multiple_of(8) {
            return self.bytes(&value.to_be_bytes()[8 - (count / 8) as usize..]);
        }
        let mut left = count;
        while left > 0 {
            let free = 8 - (self.at % 8) as u32;
            let n = left.min(free);
            let part = (value >> (left - n)) as u8 & (0xff >> (8 - n));
            if let Some(byte) = self.bytes.get_mut(self.at / 8) {
                let fresh = if free == 8 { 0 } else { *byte };
                *byte = fresh | part << (free - n);
            }
            self.at += n as usize;
            left -= n;
        }
    }

    /// Writes raw bytes, starting at a byte boundary.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let start = self.position();
        if let Some(room) = self.bytes.get_mut(start..start + bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.at = (start + bytes.len()) * 8;
    }

    /// Writes a variable-length integer (RFC 9000, section 16) in its shortest form.
    pub(crate) fn varint(&mut self, value: u64) {
        let value = value & (u64::MAX >> 2);
        let len = varint_len(value);
        let tag = (len.trailing_zeros() as u64) << (8 * len - 2);
        self.bits(value | tag, 8 * len as u32);
    }

    /// Writes zeros up to the given position.
    pub(crate) fn zeros_to(&mut self, position: usize) {
        while self.position() < position {
            self.bytes(&[0]);
        }
    }

    /// Overwrites two bytes, a checksum, at a position that was passed.
    pub(crate) fn patch(&mut self, at: usize, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(at..at + bytes.len()) {
            room.copy_from_slice(bytes);
        }
    }

    /// Returns the bytes written from a position on, or fewer if there was no room.
    pub(crate) fn written(&self, from: usize) -> &[u8] {
        let end = self.position().min(self.bytes.len());
        &self.bytes[from.min(end)..end]
    }
}

#[cfg(test)]
mod tests;
