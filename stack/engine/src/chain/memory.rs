//! Instructions on registered memory, and the events that answer them.
//!
//! They are the externs of `std/memory.mtp`. An answer runs right after the chain that asked, before any other event,
//! so that a program's packets have their effects on memory in the order in which they came.

use hawser_ir::abi::{Addr, ExternRec, Id};
use hawser_ir::buf::Record;
use hawser_ir::{EventId, Module, Struct, Ty};

use super::cause::Buffer;
use super::execute::Effects;
use crate::scalar;
use crate::state::Span;

/// What an instruction does with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Check,
    Read,
    Write,
    CompareSwap,
    FetchAdd,
    Set,
    Forget,
}

/// By name: what it does, and with how many arguments.
const OPERATIONS: [(&str, Operation, usize); 7] = [
    ("memory_check", Operation::Check, 5),
    ("memory_read", Operation::Read, 5),
    ("memory_write", Operation::Write, 6),
    ("compare_swap", Operation::CompareSwap, 6),
    ("fetch_add", Operation::FetchAdd, 5),
    ("memory_set", Operation::Set, 5),
    ("memory_forget", Operation::Forget, 2),
];

/// The maximum number of arguments.
const MAX_ARGS: usize = 6;

/// The maximum number of bytes of one read: they are copied.
const MAX_READ: u64 = 1 << 20;

/// The fields of an answer, with their types.
const FIELDS: [(&str, u8); 4] = [("result", 8), ("value", 64), ("addr", 64), ("len", 32)];

/// An instruction on memory, and how its answer lies in memory.
#[derive(Clone, Debug)]
pub(crate) struct MemoryPlan {
    operation: Operation,
    args: usize,
    answer: EventId,
    size: usize,
    /// Where the answer has its [`FIELDS`].
    fields: [usize; 4],
}

impl MemoryPlan {
    /// Of the extern with this number; nothing when no target provides it.
    pub(crate) fn of(module: &Module, number: usize) -> Option<MemoryPlan> {
        let known = module.externs.get(number)?;
        let (_, operation, args) = OPERATIONS.iter().find(|(name, ..)| *name == known.name)?;
        let answer = known
            .answer
            .filter(|_| !known.pure_ && known.args as usize == *args)?;
        let body = module.structure(module.events.get(answer.0 as usize)?.body);
        Some(MemoryPlan {
            operation: *operation,
            args: *args,
            answer,
            size: body.size as usize,
            fields: fields(body)?,
        })
    }
}

fn fields(body: &Struct) -> Option<[usize; 4]> {
    let mut found = [0; 4];
    for (place, (name, bits)) in found.iter_mut().zip(FIELDS) {
        let field = body.fields.iter().find(|field| field.name == name)?;
        let fits = match &field.ty {
            Ty::Addr => bits == 64,
            ty => ty.width().is_some_and(|(width, _)| width == bits),
        };
        *place = fits.then_some(field.offset as usize)?;
    }
    Some(found)
}

/// What became of it.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    /// A `memory_result`.
    result: u8,
    value: u64,
    addr: Addr,
    len: u32,
}

const DENIED: Done = Done {
    result: 1,
    value: 0,
    addr: 0,
    len: 0,
};
const MISALIGNED: Done = Done { result: 2, ..DENIED };

/// Bytes that an atomic operation changes, and a multiple of which its address is.
const WORD: usize = size_of::<u64>();

impl Effects<'_> {
    /// Carries one out and puts its answer first among the events that wait.
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

    fn carry_out(&mut self, operation: Operation, args: [u64; MAX_ARGS], out: &mut Vec<u8>) -> Done {
        let [domain, key, at, a, b, c] = args;
        let span = |len, rights| Span {
            domain: domain as u32,
            key: key as u32,
            at,
            len,
            rights: rights as u32,
        };
        let regions = &mut self.state.regions;
        match operation {
            Operation::Forget => match regions.remove(domain as u32, key as u32) {
                true => Done::default(),
                false => DENIED,
            },
            Operation::Check => regions.open(&span(a, b)).map_or(DENIED, |_| Done::default()),
            Operation::Read => {
                let Some((region, from)) = regions.open(&span(a, b)).filter(|_| a <= MAX_READ) else {
                    return DENIED;
                };
                let bytes = region.bytes();
                out.extend_from_slice(&bytes[from..from + a as usize]);
                Done {
                    addr: Buffer::of_answer(&[]).addr(),
                    len: a as u32,
                    ..Done::default()
                }
            }
            Operation::Write => {
                let Some((region, from)) = regions.open(&span(b, c)) else {
                    return DENIED;
                };
                let mut bytes = region.bytes();
                let mut at = from;
                for piece in self.cause.buffer.get(a, b) {
                    bytes[at..at + piece.len()].copy_from_slice(piece);
                    at += piece.len();
                }
                Done {
                    len: (at - from) as u32,
                    ..Done::default()
                }
            }
            Operation::CompareSwap | Operation::FetchAdd | Operation::Set => {
                let rights = if operation == Operation::CompareSwap { c } else { b };
                if operation != Operation::Set && !at.is_multiple_of(WORD as u64) {
                    return MISALIGNED;
                }
                let Some((region, from)) = regions.open(&span(WORD as u64, rights)) else {
                    return DENIED;
                };
                let mut bytes = region.bytes();
                let word = &mut bytes[from..from + WORD];
                let before = scalar::load(word);
                match operation {
                    Operation::CompareSwap if before == a => scalar::store(word, b),
                    Operation::FetchAdd => scalar::store(word, before.wrapping_add(a)),
                    Operation::Set => scalar::store(word, a),
                    _ => {}
                }
                Done {
                    value: before,
                    len: WORD as u32,
                    ..Done::default()
                }
            }
        }
    }
}

/// Whether a program's instructions on memory are all known.
///
/// # Errors
/// The name of one that no target provides.
pub fn known_externs(module: &Module) -> Result<(), &str> {
    let unknown = (0..module.externs.len()).find(|number| MemoryPlan::of(module, *number).is_none());
    unknown.map_or(Ok(()), |number| Err(&module.externs[number].name))
}
