//! The bytes that must be cleared in an event that is built in its place in the output.
//!
//! The room for events keeps its previous contents. Parts that a parser always sets before it reads any of
//! them need not be zero before. Everything else is cleared, including the gaps between fields, so that an
//! event's bytes depend on the packet alone.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::ops::Range;

use hawser_ir::abi::EventHeader;
use hawser_ir::visit::{self, PlaceAccess, Visitor};
use hawser_ir::{Base, Place, StmtKind};

use crate::emitter::Emitter;
use crate::scope::Scope;

/// Gaps with less than this number of bytes between them are cleared together.
const NEAR: u32 = 8;
/// The size in bytes from which clearing is left to the C library.
const LARGE: u32 = 256;
/// The maximum number of bytes that compilers clear by a few stores.
const PIECE: u32 = 64;

/// The byte range of an event's ids.
const IDS: Range<u32> = offset_of!(EventHeader, id) as u32..size_of::<EventHeader>() as u32;

impl Emitter<'_> {
    /// Prints the clearing of the event that is built at `name`, a variable of the frame.
    pub(crate) fn clear_event(&mut self, s: &mut Scope, name: &str, event: (u32, u32)) {
        let (offset, size) = event;
        for (from, to) in gaps(&self.surely_set(s, offset, size), size) {
            if to - from >= LARGE {
                s.out
                    .line(&format!("hw_zero((uint8_t *){name} + {from}, {});", to - from));
                continue;
            }
            for at in (from..to).step_by(PIECE as usize) {
                let len = PIECE.min(to - at);
                s.out
                    .line(&format!("memset((uint8_t *){name} + {at}, 0, {len});"));
            }
        }
    }

    /// Returns the parts of the event that the function's own statements set, one after another, from its
    /// first mention until the event is first read. The result is a list of begin and end, in order.
    fn surely_set(&self, s: &Scope, offset: u32, size: u32) -> Vec<(u32, u32)> {
        let Some(body) = s.body else { return Vec::new() };
        let event = offset..offset + size.max(1);
        let mut set = BTreeMap::new();
        for stmt in &self.func(body).body {
            let mut reads = Reads { event: event.clone(), set: &set, found: false };
            visit::visit_block(&mut reads, std::slice::from_ref(stmt));
            if reads.found {
                break;
            }
            // All three ids are set, including unused ones.
            let (to, part) = if let StmtKind::SetIds { event: to, .. } = &stmt.kind {
                (to, IDS)
            } else if let StmtKind::Store(to, _) | StmtKind::Copy(to, _) = &stmt.kind {
                (to, 0..self.layout().size(&to.ty))
            } else {
                continue;
            };
            if to.base == Base::Local && to.steps.is_empty() && event.contains(&to.offset) {
                let from = to.offset - offset;
                set.insert(from + part.start, from + part.end);
            }
        }
        set.into_iter().collect()
    }
}

/// Returns the gaps between ordered parts in a range of `size` bytes.
fn gaps(parts: &[(u32, u32)], size: u32) -> Vec<(u32, u32)> {
    let mut gaps: Vec<(u32, u32)> = Vec::new();
    let mut end = 0;
    for (from, to) in parts.iter().copied().chain([(size, size)]) {
        if from > end {
            match gaps.last_mut() {
                Some(last) if end - last.1 < NEAR => last.1 = from,
                _ => gaps.push((end, from)),
            }
        }
        end = end.max(to);
    }
    gaps
}

/// Determines whether a statement does more with an event than set a part of it. Parts that are set already
/// may be read.
struct Reads<'a> {
    event: Range<u32>,
    /// The parts that are set: begin and end.
    set: &'a BTreeMap<u32, u32>,
    found: bool,
}

impl Visitor<'_> for Reads<'_> {
    fn place(&mut self, place: &Place, access: PlaceAccess) {
        if place.base != Base::Local || !self.event.contains(&place.offset) {
            return;
        }
        let at = place.offset - self.event.start;
        let part = self.set.range(..=at).next_back();
        let is_set = part.is_some_and(|(_, to)| at < *to);
        let is_whole = place.steps.is_empty();
        self.found |= match access {
            PlaceAccess::Write => !is_whole,
            PlaceAccess::Read | PlaceAccess::Update => !(is_whole && is_set && place.ty.is_scalar()),
            PlaceAccess::Reference => true,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::gaps;

    #[test]
    fn bits_outside_all_parts_are_cleared() {
        assert_eq!(gaps(&[], 24), [(0, 24)]);
        assert_eq!(gaps(&[(0, 24)], 24), []);
        assert_eq!(gaps(&[(8, 16)], 24), [(0, 8), (16, 24)]);
        assert_eq!(
            gaps(&[(8, 10), (12, 20)], 24),
            [(0, 12), (20, 24)],
            "what is near is cleared as one"
        );
        assert_eq!(gaps(&[(0, 16), (8, 12)], 24), [(16, 24)], "twice");
    }
}
