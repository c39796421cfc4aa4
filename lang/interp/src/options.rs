//! Reads and writes option and frame lists on the wire.
//!
//! A list whose members carry a length byte (TCP options) tolerates any contents. Unknown or wrong members
//! are skipped by their length, a bad length ends the list, and members that find no room are ignored. A list
//! without length bytes (frames) is read completely or not at all.

use hawser_ir::abi::ParseError;
use hawser_ir::{BlueprintId, LIST_HEADER, OPTION_TAG, OptListId, WireConstant};

use crate::bits::{BitReader, BitWriter};
use crate::containers::list_len;
use crate::machine::{Machine, PacketQuantities};
use crate::memory::Loc;

impl<'a> Machine<'a> {
    /// Reads the options in `area` into the list at `at`.
    pub(crate) fn read_options(
        &mut self,
        id: OptListId,
        cap: u32,
        at: Loc,
        area: &[u8],
    ) -> Result<(), ParseError> {
        let list = self.module().opt_list(id);
        let selectors = self.program.prepared.selectors(id);
        let mut rest = area;
        let mut count = 0;
        while !rest.is_empty() {
            let known = selectors
                .iter()
                .position(|s| selects(s, rest))
                .map(|tag| (tag, &list.members[tag]));
            if known.is_some_and(|(_, member)| member.ends_list) {
                break;
            }
            let entry = self.entry(id, at, count);
            rest = match (known, list.unknown_len_at) {
                (Some((tag, member)), None) => {
                    if count == cap {
                        return Err(ParseError::Frame);
                    }
                    let used = self.read_member(member.blueprint, entry, tag, rest)?;
                    count += 1;
                    if used == 0 {
                        return Err(ParseError::Frame);
                    }
                    &rest[used..]
                }
                (None, None) => return Err(ParseError::Frame),
                (known, Some(len_at)) => {
                    let len_at = len_at as usize;
                    let short = known.and_then(|(_, m)| self.program.prepared.static_len(m.blueprint));
                    if let Some(short) = short.filter(|n| (1..=len_at).contains(n)) {
                        // Padding: a member without a length has no contents to keep.
                        rest = &rest[short..];
                        continue;
                    }
                    //= RFC9293 3.1
                    //# TCP implementations MUST be prepared to handle an illegal option length (e.g., zero);
                    //# a suggested procedure is to reset the connection and log the error cause (MUST-7)
                    let Some(option) = extent(rest, len_at) else { break };
                    if let Some((tag, member)) = known.filter(|_| count < cap) {
                        let used = self.read_member(member.blueprint, entry, tag, option);
                        if used == Ok(option.len()) {
                            count += 1;
                        } else {
                            let stride = self.layout().option_stride(id) as usize;
                            self.memory.zero(entry, stride);
                        }
                    }
                    &rest[option.len()..]
                }
            };
        }
        self.memory.write(at, 4, u64::from(count));
        Ok(())
    }

    /// Reads one member into an entry and returns its length in bytes.
    fn read_member(
        &mut self,
        id: BlueprintId,
        entry: Loc,
        tag: usize,
        bytes: &[u8],
    ) -> Result<usize, ParseError> {
        let blueprint = self.blueprint(id);
        let image = entry.plus(OPTION_TAG as usize);
        self.memory.write(entry, OPTION_TAG as usize, tag as u64);
        let header = self.read_header(blueprint, image, bytes)?;
        // A frame with a payload takes the rest of its packet.
        let data = if blueprint.data_at.is_some() {
            bytes.len() - header
        } else {
            0
        };
        self.verify_values(
            blueprint,
            image,
            PacketQuantities { total: header + data, header, data },
        )?;
        if let Some(cursor) = self.cursor {
            let end = cursor.end.min(cursor.packet.head.len());
            self.set_data(blueprint, image, &cursor.packet, end.saturating_sub(data), data);
        }
        Ok(header + data)
    }

    /// Writes the part of the list at `at` that fits in `room` bytes, padded.
    pub(crate) fn write_options(
        &mut self,
        id: OptListId,
        cap: u32,
        at: Loc,
        room: usize,
        out: &mut BitWriter<'_>,
    ) {
        let list = self.module().opt_list(id);
        let pad = (list.pad as usize).max(1);
        let start = out.position();
        for i in 0..list_len(&self.memory, at, cap) as u32 {
            let entry = self.entry(id, at, i);
            let tag = self.memory.read(entry, OPTION_TAG as usize) as usize;
            let Some(member) = list.members.get(tag) else {
                continue;
            };
            let image = entry.plus(OPTION_TAG as usize);
            let len = self.measure(member.blueprint, image);
            if (out.position() - start + len).next_multiple_of(pad) <= room {
                self.write_nested(member.blueprint, image, len, out);
            }
        }
        let len = out.position() - start;
        out.zeros_to(start + len.next_multiple_of(pad));
    }

    fn entry(&self, id: OptListId, at: Loc, index: u32) -> Loc {
        at.plus((LIST_HEADER + index * self.layout().option_stride(id)) as usize)
    }
}

/// True if a member's constants match the bytes on the wire.
fn selects(constants: &[WireConstant], bytes: &[u8]) -> bool {
    constants
        .iter()
        .all(|c| BitReader::from_bit(bytes, c.at as usize).bits(c.bits) == Ok(c.value))
}

/// Returns the bytes of an option, given by its length byte; `None` if the length is impossible.
fn extent(bytes: &[u8], len_at: usize) -> Option<&[u8]> {
    let len = usize::from(*bytes.get(len_at)?);
    if len > len_at { bytes.get(..len) } else { None }
}
