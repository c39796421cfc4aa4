//! The sizes of the memory on which generated code relies without being able to check them.
//!
//! They are computed once for each program, so that a call costs a few comparisons.

use std::mem::MaybeUninit;

use hawser_ir::buf::Regions;
use hawser_ir::{Base, Chain, ContextId, Module, Precondition};

use crate::RunError;
use crate::limits::MAX_CONTEXTS;

/// Sizes in bytes.
#[derive(Debug)]
pub(super) struct Sizes {
    /// For each event, its sizes and those of its chain.
    events: Vec<Event>,
    /// For each context type, its size.
    contexts: Vec<usize>,
    scratch: usize,
    /// For each blueprint, the size of its image.
    images: Vec<usize>,
    /// For each parser, the size of its output.
    parsers: Vec<Parser>,
}

/// The memory of an event's chain.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) bytes: usize,
    /// The maximum number of bytes of records.
    pub(super) records: usize,
    /// The context type that the chain may create.
    creates: Option<ContextId>,
    /// The `GLOBAL` context types that the code reads or writes, each with its size. The first list is for a
    /// chain without a keyed context, and the others are indexed by the type of the keyed context.
    globals: Vec<Vec<(usize, usize)>>,
}

/// The output of a parser.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parser {
    pub(super) events: u32,
    /// The maximum number of bytes of all its events.
    pub(super) bytes: usize,
}

impl Sizes {
    /// Computes the sizes of a program.
    ///
    /// # Errors
    /// [`RunError::Contexts`] for a program with too many context types.
    pub(super) fn from_module(module: &Module) -> Result<Sizes, RunError> {
        if module.contexts.len() > MAX_CONTEXTS {
            return Err(RunError::Contexts { program: module.name.clone(), count: module.contexts.len() });
        }
        let structure = |id| module.structure(id).size as usize;
        let event = |(event, chain): (&hawser_ir::Event, &hawser_ir::Chain)| Event {
            bytes: structure(event.body),
            records: chain.bounds.record_bytes as usize,
            creates: chain.creates,
            globals: (0..=module.contexts.len())
                .map(|keyed_type| touched(module, chain, keyed_type))
                .map(|globals| {
                    globals
                        .map(|id| (id.0 as usize, module.context_size(id)))
                        .collect()
                })
                .collect(),
        };
        let largest = module
            .events
            .iter()
            .map(|event| structure(event.body))
            .max()
            .unwrap_or(0);
        let parser = |parser: &hawser_ir::Parser| Parser {
            events: parser.max_events,
            bytes: parser.max_events as usize * largest,
        };
        Ok(Sizes {
            events: module.events.iter().zip(&module.chains).map(event).collect(),
            contexts: module
                .contexts
                .iter()
                .map(|context| structure(context.body))
                .collect(),
            scratch: module.scratch.map_or(0, structure),
            images: module
                .blueprints
                .iter()
                .map(|blueprint| structure(blueprint.body))
                .collect(),
            parsers: module.parsers.iter().map(parser).collect(),
        })
    }

    /// Returns the size of an event by its number.
    pub(super) fn event_bytes(&self, number: u16) -> Option<usize> {
        self.events.get(usize::from(number)).map(|event| event.bytes)
    }

    /// Returns the output of a parser.
    pub(super) fn parser(&self, parser: usize) -> Option<Parser> {
        self.parsers.get(parser).copied()
    }

    /// Returns the chain of an event if its memory is complete, apart from the `GLOBAL` contexts. The event,
    /// the contexts and the scratchpad must have their full sizes and be aligned.
    pub(super) fn chain(&self, number: u16, event: &[u8], memory: &Regions<'_>) -> Option<&Event> {
        let chain = self.events.get(usize::from(number))?;
        let keyed = memory
            .keyed
            .as_ref()
            .is_none_or(|(id, bytes)| holds(bytes, self.context(*id)));
        let fresh = match (&memory.fresh, chain.creates) {
            (Some(bytes), Some(id)) => holds(bytes, self.context(id)),
            _ => true,
        };
        let whole = holds(event, chain.bytes) && holds(memory.scratch, self.scratch) && keyed && fresh;
        whole.then_some(chain)
    }

    /// Returns whether a blueprint's image is complete.
    pub(super) fn image(&self, blueprint: u16, image: &[u8]) -> bool {
        self.images
            .get(usize::from(blueprint))
            .is_some_and(|size| holds(image, *size))
    }

    fn context(&self, id: ContextId) -> usize {
        // An unknown context type gets a size that no memory can have.
        self.contexts.get(id.0 as usize).copied().unwrap_or(usize::MAX)
    }
}

impl Event {
    /// Returns whether a chain creates contexts. Only then does the code receive the fresh slot.
    pub(super) fn creates(&self) -> bool {
        self.creates.is_some()
    }

    /// Fills in the addresses of the `GLOBAL` contexts that the chain uses, each at the index of its type.
    /// Returns `None` if one of them is incomplete. Other entries stay unchanged, because the code does not
    /// read them. `keyed_type` is 0 without a keyed context, otherwise the context's type plus one.
    pub(super) fn globals(
        &self,
        keyed_type: u32,
        contexts: &mut [Vec<u8>],
        places: &mut [MaybeUninit<*mut u8>; MAX_CONTEXTS],
    ) -> Option<()> {
        for (type_, size) in self.globals.get(keyed_type as usize)? {
            let bytes = contexts.get_mut(*type_).filter(|bytes| holds(bytes, *size))?;
            places.get_mut(*type_)?.write(bytes.as_mut_ptr());
        }
        Some(())
    }
}

/// Returns the `GLOBAL` contexts that a chain uses with a keyed context of some type, or without one. These
/// are the arguments of its processors, and those whose invariants are checked after every chain that may
/// use them.
fn touched<'a>(
    module: &'a Module,
    chain: &'a Chain,
    keyed_type: usize,
) -> impl Iterator<Item = ContextId> + 'a {
    let runs = move |when: Precondition| match when {
        Precondition::Always => true,
        Precondition::Found(id) => id.0 as usize + 1 == keyed_type,
        Precondition::NotFound => keyed_type == 0,
    };
    chain.globals.iter().copied().filter(move |id| {
        let mut handed = chain
            .processors
            .iter()
            .filter(|p| runs(p.when))
            .flat_map(|p| &p.args);
        handed.any(|place| place.base == Base::Global(*id))
            || !module.contexts[id.0 as usize].invariants.is_empty()
    })
}

/// Returns whether structures of `size` bytes fit here: enough room, and alignment for 64-bit words.
fn holds(bytes: &[u8], size: usize) -> bool {
    size == 0 || (bytes.len() >= size && bytes.as_ptr().align_offset(align_of::<u64>()) == 0)
}
