//! Parses packets: `p.extract(h)`.
//!
//! Every claim in a packet is checked against its actual contents: lengths are bounded by the header's bytes,
//! and counts by the list's capacity. All headers lie in the packet's `head`; only payload and trailer may
//! extend into its `tail`.

use hawser_ir::abi::{Csum, Data, Packet, ParseError};
use hawser_ir::number::{ScalarShape, reduce};
use hawser_ir::{
    Blueprint, BlueprintId, Crc32, CrcField, Expr, ExprKind, Fill, LIST_HEADER, Ty, WireField, on_wire,
};

use crate::bits::BitReader;
use crate::checksum::{Sum, pseudo_header};
use crate::machine::{Cursor, Machine, PacketQuantities};
use crate::memory::Loc;
use crate::wire::{WORD, pieces, sum_range};

/// The maximum length of a trailer in bytes.
const MAX_TRAILER: usize = 64;

impl<'a> Machine<'a> {
    /// Parses a header at the cursor, verifies its fills and moves the cursor to its payload. On failure, the
    /// image is zero and the cursor is unchanged.
    pub(crate) fn extract(&mut self, id: BlueprintId, dst: Loc) -> Result<(), ParseError> {
        let blueprint = self.blueprint(id);
        let size = self.module().structure(blueprint.body).size as usize;
        self.memory.zero(dst, size);
        let taken = self.take_apart(blueprint, dst);
        match taken {
            Ok(cursor) => {
                self.cursor = Some(cursor);
                if self.memory.steps.is_some() {
                    let image = self.memory.bytes(dst, size).to_vec();
                    if let Some(steps) = &mut self.memory.steps {
                        steps.headers.push((id, image));
                    }
                }
            }
            Err(_) => self.memory.zero(dst, size),
        }
        taken.map(|_| ())
    }

    /// The phases of [`Machine::extract`]: fields, lengths, fills, checksums, payload.
    fn take_apart(&mut self, blueprint: &'a Blueprint, dst: Loc) -> Result<Cursor<'a>, ParseError> {
        let Cursor { packet, at, end } = self.cursor.ok_or(ParseError::Truncated)?;
        let head = packet
            .head
            .get(at..end.min(packet.head.len()))
            .ok_or(ParseError::Truncated)?;
        let header = self.read_header(blueprint, dst, head)?;

        let trailer = self.trailer_len(blueprint, dst);
        let total = end - at;
        let data = total.checked_sub(header + trailer).ok_or(ParseError::Truncated)?;
        let facts = PacketQuantities { total, header, data };
        self.read_trailer(blueprint, dst, &packet, end - trailer, end)?;

        self.verify_values(blueprint, dst, facts)?;
        verify_sums(blueprint, &packet, at, end)?;
        if let Some(field) = blueprint.crc() {
            self.verify_crc(&field, dst, &packet, [at, at + header, end])?;
        }

        self.set_data(blueprint, dst, &packet, at + header, data);
        Ok(Cursor { packet, at: at + header, end: end - trailer })
    }

    /// Reads a header and returns its length in bytes.
    pub(crate) fn read_header(
        &mut self,
        blueprint: &'a Blueprint,
        image: Loc,
        bytes: &[u8],
    ) -> Result<usize, ParseError> {
        let mut reader = BitReader::new(bytes);
        for field in &blueprint.header {
            self.read_field(field, image, &mut reader)?;
        }
        let fixed = reader.position();
        let announced = self.announced_len(blueprint, image);
        let limit = announced.unwrap_or(bytes.len());
        if limit < fixed || limit > bytes.len() {
            return Err(ParseError::Length);
        }
        let options = blueprint.header.iter().find_map(|field| match field {
            WireField::Options { list, offset, cap } => Some((*list, *offset, *cap)),
            _ => None,
        });
        let Some((list, offset, cap)) = options else {
            return Ok(announced.unwrap_or(fixed));
        };
        let end = match &self.module().opt_list(list).len {
            Some(len) => {
                fixed.saturating_add(self.wire_value(image, PacketQuantities::default(), len)? as usize)
            }
            None => limit,
        };
        let area = bytes[..limit].get(fixed..end).ok_or(ParseError::Length)?;
        self.read_options(list, cap, image.plus(offset as usize), area)?;
        Ok(announced.unwrap_or(end))
    }

    /// Returns the header's length in bytes, if one of its fields states it.
    fn announced_len(&self, blueprint: &Blueprint, image: Loc) -> Option<usize> {
        blueprint.header.iter().find_map(|field| match field {
            WireField::Bits { fill: Some(Fill::HeaderWords), offset, ty, .. } => {
                Some(self.load_at(image.plus(*offset as usize), ty) as usize * WORD)
            }
            _ => None,
        })
    }

    /// Reads one field. Options wait until the header's end is known.
    fn read_field(
        &mut self,
        field: &'a WireField,
        image: Loc,
        reader: &mut BitReader<'_>,
    ) -> Result<(), ParseError> {
        match field {
            WireField::Bits { offset, ty, bits, little, .. } => {
                let value = on_wire(reader.bits(u32::from(*bits))?, *bits, *little);
                self.store_at(image.plus(*offset as usize), ty, value);
            }
            WireField::Varint { offset, .. } => {
                let value = reader.varint()?;
                self.memory.write(image.plus(*offset as usize), 8, value);
            }
            WireField::Bytes { offset, len, .. } => {
                self.memory
                    .put(image.plus(*offset as usize), reader.bytes(*len as usize)?);
            }
            WireField::Opaque { offset, cap, count_at, count_ty, .. } => {
                let count = self.load_at(image.plus(*count_at as usize), count_ty);
                if count > u64::from(*cap) {
                    return Err(ParseError::Frame);
                }
                let bytes = reader.bytes(count as usize)?;
                self.memory.put(image.plus(*offset as usize), bytes);
            }
            WireField::Nested { blueprint, offset, when } => {
                if self.is_present(image, when.as_ref())? {
                    self.read_nested(*blueprint, image.plus(*offset as usize), reader)?;
                }
            }
            WireField::Options { .. } => {}
            WireField::Repeat { blueprint, offset, cap, stride, count_at, count_ty } => {
                let count = self.load_at(image.plus(*count_at as usize), count_ty);
                if count > u64::from(*cap) {
                    return Err(ParseError::Frame);
                }
                let list = image.plus(*offset as usize);
                for i in 0..count as usize {
                    let element = list.plus(LIST_HEADER as usize + i * *stride as usize);
                    self.read_nested(*blueprint, element, reader)?;
                }
                self.memory.write(list, 4, count);
            }
        }
        Ok(())
    }

    /// Reads a nested header, whose fills refer to itself alone.
    fn read_nested(
        &mut self,
        id: BlueprintId,
        image: Loc,
        reader: &mut BitReader<'_>,
    ) -> Result<(), ParseError> {
        let blueprint = self.blueprint(id);
        let bytes = reader.rest();
        let len = self.read_header(blueprint, image, bytes)?;
        self.verify_values(
            blueprint,
            image,
            PacketQuantities { total: len, header: len, data: 0 },
        )?;
        if let Some(false) = checksums(blueprint).next().map(|_| {
            let mut sum = Sum::default();
            sum.add(&bytes[..len]);
            sum.is_valid()
        }) {
            return Err(ParseError::Checksum);
        }
        reader.skip(len);
        Ok(())
    }

    /// Reads the fields after the payload.
    fn read_trailer(
        &mut self,
        blueprint: &'a Blueprint,
        image: Loc,
        packet: &Packet<'_>,
        from: usize,
        to: usize,
    ) -> Result<(), ParseError> {
        let mut bytes = [0; MAX_TRAILER];
        let room = bytes.get_mut(..to - from).ok_or(ParseError::Length)?;
        let [head, tail] = pieces(packet, from, to);
        if head.len() + tail.len() < to - from {
            return Err(ParseError::Truncated);
        }
        room[..head.len()].copy_from_slice(head);
        room[head.len()..head.len() + tail.len()].copy_from_slice(tail);
        let mut reader = BitReader::new(&bytes[..to - from]);
        blueprint
            .trailer
            .iter()
            .try_for_each(|field| self.read_field(field, image, &mut reader))
    }

    /// Compares every computed field with its expected value.
    pub(crate) fn verify_values(
        &mut self,
        blueprint: &Blueprint,
        image: Loc,
        facts: PacketQuantities,
    ) -> Result<(), ParseError> {
        for field in blueprint.header.iter().chain(&blueprint.trailer) {
            let WireField::Bits { offset, ty, bits, fill: Some(Fill::Value(expr)), .. } = field else {
                continue;
            };
            let found = self.load_at(image.plus(*offset as usize), ty);
            let width = ScalarShape { bits: u32::from(*bits), ..ScalarShape::from_type(ty) };
            let expected = width.fit(reduce(self.wire_value(image, facts, expr)?, ty));
            if found != expected {
                let constant = matches!(expr.kind, ExprKind::Const(_));
                return Err(if constant {
                    ParseError::Frame
                } else {
                    ParseError::Length
                });
            }
        }
        Ok(())
    }

    fn verify_crc(
        &self,
        field: &CrcField<'_>,
        image: Loc,
        packet: &Packet<'_>,
        [at, data, end]: [usize; 3],
    ) -> Result<(), ParseError> {
        let seed = match packet.crc {
            None if field.invariant => return Ok(()),
            Some(seed) if field.invariant => seed,
            _ => 0,
        };
        let mut crc = Crc32::after(seed);
        for (i, byte) in pieces(packet, at, data)[0].iter().enumerate() {
            crc.update(&[field.counted(i, *byte)]);
        }
        let covered = end - if field.in_trailer { size_of::<u32>() } else { 0 };
        for piece in pieces(packet, data, covered) {
            crc.update(piece);
        }
        let found = self.load_at(image.plus(field.offset as usize), &Ty::uint(32)) as u32;
        if found == u32::from_be_bytes(field.to_bytes(crc.value())) {
            Ok(())
        } else {
            Err(ParseError::Checksum)
        }
    }

    /// Stores the place of the payload for the program.
    pub(crate) fn set_data(
        &mut self,
        blueprint: &Blueprint,
        image: Loc,
        packet: &Packet<'_>,
        at: usize,
        len: usize,
    ) {
        let Some(offset) = blueprint.data_at else { return };
        let addr = if packet.addr == 0 {
            0
        } else {
            packet.addr.wrapping_add(at as u64)
        };
        let data = Data {
            uid: hawser_ir::abi::Id::NONE,
            off: 0,
            addr,
            len: len as u32,
            seg_size: 0,
        };
        self.memory
            .put(image.plus(offset as usize), bytemuck::bytes_of(&data));
    }

    /// True if a conditional header is present.
    pub(crate) fn is_present(&mut self, image: Loc, when: Option<&Expr>) -> Result<bool, ParseError> {
        when.map_or(Ok(true), |when| {
            Ok(self.wire_value(image, PacketQuantities::default(), when)? != 0)
        })
    }

    /// Evaluates a wire expression. It calls no function that could end the parser; if it did, the packet
    /// would be dropped.
    fn wire_value(&mut self, image: Loc, facts: PacketQuantities, expr: &Expr) -> Result<u64, ParseError> {
        self.eval_over(image, facts, expr).map_err(|_| ParseError::Frame)
    }
}

/// For each Internet checksum of a header, whether it includes the pseudo-header.
fn checksums(blueprint: &Blueprint) -> impl Iterator<Item = bool> {
    blueprint.header.iter().filter_map(|field| match field {
        WireField::Bits { fill: Some(Fill::Checksum16 { pseudo }), .. } => Some(*pseudo),
        _ => None,
    })
}

/// Verifies the Internet checksum unless it has been verified already.
fn verify_sums(blueprint: &Blueprint, packet: &Packet<'_>, at: usize, end: usize) -> Result<(), ParseError> {
    if packet.csum == Csum::Complete {
        return Ok(());
    }
    for pseudo in checksums(blueprint) {
        let mut sum = if pseudo {
            pseudo_header(packet.net, packet.net.protocol, end - at)
        } else {
            Sum::default()
        };
        sum_range(&mut sum, packet, at, end);
        if !sum.is_valid() {
            return Err(ParseError::Checksum);
        }
    }
    Ok(())
}
