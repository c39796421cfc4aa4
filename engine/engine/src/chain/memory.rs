//! Instructions on registered memory, and the events that answer them.
//!
//! They are the externs of `std/memory.mtp`. An answer runs right after the chain that issued the
//! instruction, before any other event. A program's packets thus take effect on memory in the order of their
//! arrival.

use std::iter;

use hawser_ir::abi::{Addr, ExternRec, Id};
use hawser_ir::buf::Record;

use super::cause::Buffer;
use super::execute::Effects;
use crate::externs::{MAX_ARGS, MemoryOperation};
use crate::scalar;
use crate::state::{MemorySpan, Region, RegionPart};

/// The maximum number of bytes of one read, which are copied, and of newly allocated memory.
const MAX_BYTES: u64 = 1 << 20;

/// The result of an instruction.
#[derive(Clone, Copy, Debug, Default)]
struct InstructionResult {
    /// A `memory_result` value.
    result: u8,
    value: u64,
    addr: Addr,
    len: u32,
}

const DENIED: InstructionResult = InstructionResult { result: 1, value: 0, addr: 0, len: 0 };
const MISALIGNED: InstructionResult = InstructionResult { result: 2, ..DENIED };

/// The size and alignment of the word that an atomic operation changes, in bytes.
const WORD: usize = size_of::<u64>();

impl Effects<'_> {
    /// Carries out an instruction and puts its answer in front of the waiting events.
    pub(super) fn memory(&mut self, record: &Record<'_>) -> Option<()> {
        let rec: ExternRec = record.fixed();
        let plan = self.tables.memory.get(rec.extern_ as usize)?.as_ref()?;
        let mut args = [0; MAX_ARGS];
        let words = record.tail::<ExternRec>().as_chunks::<8>().0;
        for (arg, word) in args.iter_mut().zip(words.get(..plan.args)?) {
            *arg = u64::from_ne_bytes(*word);
        }
        let target = self
            .on(record)
            .map_or(Id::NONE, |slot| self.state.contexts.first_id(slot));
        let mut answer = self.state.raised.answer(plan.answer, target, plan.size);
        let done = self.carry_out(plan.operation, args, &mut answer.data);
        let [result, value, addr, len] = plan.fields;
        let event = answer.bytes_mut();
        scalar::store(event.get_mut(result..result + 1)?, u64::from(done.result));
        scalar::store(event.get_mut(value..value + 8)?, done.value);
        scalar::store(event.get_mut(addr..addr + 8)?, done.addr);
        scalar::store(event.get_mut(len..len + 4)?, u64::from(done.len));
        self.state.raised.push_answer(answer);
        Some(())
    }

    fn carry_out(
        &mut self,
        operation: MemoryOperation,
        args: [u64; MAX_ARGS],
        out: &mut Vec<u8>,
    ) -> InstructionResult {
        let [domain, key, at, a, b, c] = args;
        let span = |len, rights| MemorySpan {
            domain: domain as u32,
            key: key as u32,
            at,
            len,
            rights: rights as u32,
        };
        let limit = self.state.limits.regions;
        let regions = &mut self.state.regions;
        match operation {
            MemoryOperation::Forget => match regions.remove(domain as u32, key as u32) {
                true => InstructionResult::default(),
                false => DENIED,
            },
            MemoryOperation::New => {
                // The second argument is a length.
                let region = (key <= MAX_BYTES).then(|| Region::new(key as usize));
                let key = region.and_then(|region| regions.add((domain as u32, 0, 0), region, limit));
                key.map_or(DENIED, |key| InstructionResult {
                    value: key.into(),
                    ..InstructionResult::default()
                })
            }
            MemoryOperation::Check => regions
                .open(span(a, b))
                .map_or(DENIED, |_| InstructionResult::default()),
            MemoryOperation::Read => {
                let Some(parts) = regions.open(span(a, b)).filter(|_| a <= MAX_BYTES) else {
                    return DENIED;
                };
                for RegionPart { region, from, len } in parts {
                    out.extend_from_slice(&region.bytes()[from..from + len]);
                }
                InstructionResult {
                    addr: Buffer::read_addr(),
                    len: a as u32,
                    ..InstructionResult::default()
                }
            }
            MemoryOperation::Write => {
                let Some(parts) = regions.open(span(b, c)) else {
                    return DENIED;
                };
                InstructionResult {
                    len: scatter(parts, self.cause.buffer.get(a, b)),
                    ..InstructionResult::default()
                }
            }
            MemoryOperation::Set => {
                let Some(parts) = regions.open(span(WORD as u64, b)) else {
                    return DENIED;
                };
                InstructionResult {
                    len: scatter(parts, iter::once(&a.to_ne_bytes()[..])),
                    ..InstructionResult::default()
                }
            }
            MemoryOperation::CompareSwap | MemoryOperation::FetchAdd => {
                let rights = if operation == MemoryOperation::CompareSwap {
                    c
                } else {
                    b
                };
                if !at.is_multiple_of(WORD as u64) {
                    return MISALIGNED;
                }
                let Some(RegionPart { region, from, .. }) = regions.open_one(span(WORD as u64, rights))
                else {
                    return DENIED;
                };
                let mut bytes = region.bytes();
                let word = &mut bytes[from..from + WORD];
                let before = scalar::load(word);
                match operation {
                    MemoryOperation::CompareSwap if before == a => scalar::store(word, b),
                    MemoryOperation::FetchAdd => scalar::store(word, before.wrapping_add(a)),
                    _ => {}
                }
                InstructionResult { value: before, len: WORD as u32, ..InstructionResult::default() }
            }
        }
    }
}

/// Copies bytes into the parts of regions until either side ends, and returns their number.
fn scatter<'a>(
    parts: impl Iterator<Item = RegionPart<'a>>,
    mut pieces: impl Iterator<Item = &'a [u8]>,
) -> u32 {
    let mut piece: &[u8] = &[];
    let mut done = 0;
    for RegionPart { region, from, len } in parts {
        let mut bytes = region.bytes();
        let mut room = &mut bytes[from..from + len];
        while !room.is_empty() {
            if piece.is_empty() {
                let Some(next) = pieces.next() else {
                    return done;
                };
                piece = next;
            }
            let count = room.len().min(piece.len());
            let (now, later) = room.split_at_mut(count);
            now.copy_from_slice(&piece[..count]);
            (piece, room) = (&piece[count..], later);
            done += count as u32;
        }
    }
    done
}
