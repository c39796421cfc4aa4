//! What generated code relies on and cannot see: how large each piece of memory is.
//!
//! Worked out once per program, so that a call costs a few comparisons.

use std::mem::MaybeUninit;

use hawser_ir::buf::Regions;
use hawser_ir::{Base, Chain, ContextId, Module, When};

use crate::RunError;
use crate::limits::MAX_CONTEXTS;

/// Sizes in bytes.
#[derive(Debug)]
pub(super) struct Sizes {
    /// By event.
    events: Vec<Event>,
    /// By context type.
    contexts: Vec<usize>,
    scratch: usize,
    /// By blueprint: its image.
    images: Vec<usize>,
    /// By parser.
    parsers: Vec<Parser>,
}

/// What the chain of an event runs on.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) bytes: usize,
    /// The maximum number of bytes of records.
    pub(super) records: usize,
    /// The context type that it may create.
    creates: Option<ContextId>,
    /// The `GLOBAL` context types that the code reads or writes, each with its size: where no keyed
    /// context was found, and by the type of the one that was.
    globals: Vec<Vec<(usize, usize)>>,
}

/// What a parser gives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parser {
    pub(super) events: u32,
    /// The maximum number of bytes of them.
    pub(super) bytes: usize,
}

impl Sizes {
    /// Of a program.
    ///
    /// # Errors
    /// [`RunError::Contexts`] for a program with too many context types.
    pub(super) fn of(module: &Module) -> Result<Sizes, RunError> {
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

    /// The bytes of an event by its number.
    pub(super) fn event_bytes(&self, number: u16) -> Option<usize> {
        self.events.get(usize::from(number)).map(|event| event.bytes)
    }

    /// What a parser gives.
    pub(super) fn parser(&self, parser: usize) -> Option<Parser> {
        self.parsers.get(parser).copied()
    }

    /// The chain of an event, if all that it runs on is there but for the `GLOBAL` contexts: an event,
    /// contexts and a scratchpad of their full sizes, where structures can lie.
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

    /// Whether a blueprint's image is whole.
    pub(super) fn image(&self, blueprint: u16, image: &[u8]) -> bool {
        self.images
            .get(usize::from(blueprint))
            .is_some_and(|size| holds(image, *size))
    }

    fn context(&self, id: ContextId) -> usize {
        // A context type that there is not has no size that anything could have.
        self.contexts.get(id.0 as usize).copied().unwrap_or(usize::MAX)
    }
}

impl Event {
    /// Whether a chain creates contexts: only then is the fresh slot handed over.
    pub(super) fn creates(&self) -> bool {
        self.creates.is_some()
    }

    /// The addresses of the `GLOBAL` contexts that the chain touches, each at its type's place; nothing
    /// where one is not complete. Other places are left as they are, for nobody reads them.
    /// `keyed_type`: 0 without a keyed context, else one more than its type.
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

/// The `GLOBAL` contexts that a chain touches when a keyed context of a type was found, or none: those
/// that its processors are handed then, and those whose invariants are looked at behind any chain that
/// may touch them.
fn touched<'a>(
    module: &'a Module,
    chain: &'a Chain,
    keyed_type: usize,
) -> impl Iterator<Item = ContextId> + 'a {
    let runs = move |when: When| match when {
        When::Always => true,
        When::Found(id) => id.0 as usize + 1 == keyed_type,
        When::NotFound => keyed_type == 0,
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

/// Whether structures of `size` bytes can lie here: large enough, and aligned for 64-bit words.
fn holds(bytes: &[u8], size: usize) -> bool {
    size == 0 || (bytes.len() >= size && bytes.as_ptr().align_offset(align_of::<u64>()) == 0)
}
