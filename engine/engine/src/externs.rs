//! The externs that the engine provides: instructions on registered memory, declared in `std/memory.mtp`.

use hawser_ir::{EventId, Module, Struct, Ty};

/// The operation of an instruction on registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryOperation {
    Check,
    Read,
    Write,
    CompareSwap,
    FetchAdd,
    Set,
    New,
    Forget,
}

/// Each extern's name, operation and number of arguments.
const OPERATIONS: [(&str, MemoryOperation, usize); 8] = [
    ("memory_check", MemoryOperation::Check, 5),
    ("memory_read", MemoryOperation::Read, 5),
    ("memory_write", MemoryOperation::Write, 6),
    ("compare_swap", MemoryOperation::CompareSwap, 6),
    ("fetch_add", MemoryOperation::FetchAdd, 5),
    ("memory_set", MemoryOperation::Set, 5),
    ("memory_new", MemoryOperation::New, 2),
    ("memory_forget", MemoryOperation::Forget, 2),
];

pub(crate) const MAX_ARGS: usize = 6;

/// The fields of an answer and their widths in bits.
const FIELDS: [(&str, u8); 4] = [("result", 8), ("value", 64), ("addr", 64), ("len", 32)];

/// An instruction on memory, and the layout of its answer in memory.
#[derive(Clone, Debug)]
pub(crate) struct MemoryPlan {
    pub(crate) operation: MemoryOperation,
    pub(crate) args: usize,
    pub(crate) answer: EventId,
    /// The size of the answer, in bytes.
    pub(crate) size: usize,
    /// The offsets of the answer's [`FIELDS`].
    pub(crate) fields: [usize; 4],
}

impl MemoryPlan {
    /// Returns the plan of the extern with this number; `None` if no target provides it.
    pub(crate) fn for_extern(module: &Module, number: usize) -> Option<MemoryPlan> {
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

/// Checks that the engine provides every memory instruction that a program uses.
///
/// # Errors
/// Returns the name of the first one that no target provides.
pub fn known_externs(module: &Module) -> Result<(), &str> {
    let unknown = (0..module.externs.len()).find(|number| MemoryPlan::for_extern(module, *number).is_none());
    unknown.map_or(Ok(()), |number| Err(&module.externs[number].name))
}
