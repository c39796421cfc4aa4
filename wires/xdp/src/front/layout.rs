//! The layout of the arena: the structures of `runtime/entries.h` and `bpf/front.h`, and the memory behind
//! them.

use bytemuck::{Pod, Zeroable};
use hawser_ir::{Module, ParserInput, Precondition, QueuePolicy};

use crate::socket::RECEIVE;

/// `hw_front`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(super) struct Control {
    pub(super) turn: u64,
    pub(super) passed: u64,
    pub(super) taken: u64,
    pub(super) until: u64,
    pub(super) chains: u64,
    pub(super) room: u64,
    pub(super) is_complete: u64,
    pub(super) may_create: u64,
    pub(super) key: [u64; 2],
    pub(super) mtu: u64,
    pub(super) log: u64,
    pub(super) log_end: u64,
    pub(super) entry_limit: u64,
    pub(super) frames: u64,
    pub(super) rung: u64,
    pub(super) contexts: u64,
    pub(super) stride: u64,
    pub(super) changed: u64,
    pub(super) plans: u64,
    pub(super) blueprints: u64,
    pub(super) queues: u64,
    pub(super) protocol: u64,
    pub(super) ports: u64,
    pub(super) events: u64,
    pub(super) events_end: u64,
    pub(super) params: u64,
    pub(super) scratch: u64,
    pub(super) scratch_bytes: u64,
    pub(super) input: u64,
    pub(super) entry: u64,
    pub(super) event: u64,
    pub(super) event_count: u64,
    pub(super) event_at: u64,
    pub(super) ran: u64,
    pub(super) is_urgent: u64,
    pub(super) chains_then: u64,
    pub(super) room_then: u64,
    pub(super) answered: u64,
    pub(super) handled: u64,
    pub(super) lent: u64,
    pub(super) seen: u64,
    pub(super) backlog: u64,
    pub(super) flooded_until: u64,
    pub(super) sifted: u64,
    pub(super) sieve: u64,
}

/// `hw_plan`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Plan {
    bytes: u32,
    runs: u32,
    records: u64,
    creates: u64,
    fresh: u32,
    runs_alone: u32,
}

/// `hw_place`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct Place {
    pub(super) kind: u32,
    pub(super) pad: u32,
    pub(super) room: u64,
}

/// `hw_entry`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct Entry {
    pub(super) now: u64,
    pub(super) frame: u32,
    pub(super) chains: u32,
}

/// `hw_chain`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct Chain {
    pub(super) outcome: u64,
    pub(super) records: u32,
    pub(super) context: u32,
    pub(super) answer: u64,
    pub(super) fresh: u64,
}

/// The size of `hw_call` without its globals, which follow it.
pub(super) const CALL_BYTES: u64 = 10 * 8;
/// The size of the log, in bytes.
const LOG: u64 = 1 << 20;
/// The size of the largest frame, in bytes: `HW_LARGEST`.
const FRAME: u64 = 2048;
/// The size of the longest header, in bytes: `HW_HEADER_BYTES`.
const HEADER: u32 = 512;
/// Space for `hw_input`, in bytes; more than its size.
const INPUT: u64 = 1024;
/// UDP's protocol number (RFC 768).
const UDP: u8 = 17;
/// The size of a table with one bit for each UDP port, in bytes.
const PORTS: u64 = (1 << 16) / 8;
/// The maximum number of contexts that are lent.
const CONTEXTS: u64 = 65_536;

/// Reads numbers that the C code defines: `#define NAME NUMBER`.
pub(super) struct Stated<'a>(pub(super) &'a str);

impl Stated<'_> {
    pub(super) fn number(&self, name: &str) -> u64 {
        let prefix = format!("#define {name} ");
        let mut lines = self.0.lines();
        let number = lines.find_map(|line| line.strip_prefix(&prefix)?.parse().ok());
        number.unwrap_or_default()
    }
}

/// The offsets of all parts, and their initial contents.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) call: u64,
    pub(super) control: u64,
    /// The initial contents of the control structure.
    pub(super) begun: Control,
    pub(super) log: u64,
    /// By context type: offset and size, if one such context exists for all flows.
    pub(super) globals: Vec<(u64, usize)>,
    /// The maximum number of contexts.
    pub(super) capacity: u32,
    /// The memory that must be allocated before programs run: from the call up to the first context.
    pub(super) memory: std::ops::Range<u64>,
    /// Tables, each with its offset.
    pub(super) tables: Vec<(u64, Vec<u8>)>,
    pub(super) arena: usize,
}

/// Allocates memory from the front to the end.
struct Free(u64);

impl Free {
    fn take(&mut self, bytes: u64) -> u64 {
        let at = self.0;
        self.0 += bytes.next_multiple_of(64);
        at
    }
}

impl Layout {
    /// Computes the layout for a program, given its C and the events whose chains may run.
    pub(super) fn new(module: &Module, c: &str, runs: &dyn Fn(usize) -> bool) -> Layout {
        let stated = Stated(c);
        let begin = stated.number("HW_FREE_AT");
        let mut free = Free(begin);
        let control = free.take(4096);
        let structure = |id| u64::from(module.structure(id).size);
        let words = |words: &mut dyn Iterator<Item = bool>| {
            let words = words.flat_map(|is| u64::from(is).to_ne_bytes());
            words.collect::<Vec<u8>>()
        };
        let plans: Vec<Plan> = (0..module.events.len())
            .map(|event| plan(module, event, runs(event)))
            .collect();
        let plans = bytemuck::cast_slice(&plans).to_vec();
        // Packets with a CRC or a long header, and queues with a rate, are left to the stack.
        let blueprints = words(
            &mut module
                .blueprints
                .iter()
                .map(|blueprint| blueprint.crc().is_none() && blueprint.max_around() <= HEADER),
        );
        let queues = words(
            &mut module
                .queues
                .iter()
                .map(|queue| queue.policy == QueuePolicy::Fifo),
        );
        let mut tables = Vec::new();
        let mut table = |free: &mut Free, bytes: Vec<u8>| {
            let at = free.take(bytes.len() as u64);
            tables.push((at, bytes));
            at
        };
        let [plans, blueprints, queues] = [plans, blueprints, queues].map(|bytes| table(&mut free, bytes));
        let largest = module.events.iter().map(|event| structure(event.body)).max();
        let packets = module
            .parsers
            .iter()
            .filter(|parser| matches!(parser.source, ParserInput::Ip(_) | ParserInput::Udp(_)));
        let max_events = packets.clone().map(|parser| parser.max_events).max();
        let max_events = u64::from(max_events.unwrap_or(0));
        let running = module.chains.iter().enumerate().filter(|(event, _)| runs(*event));
        let records = running.map(|(_, chain)| {
            let fresh = chain.creates.map_or(0, |kind| module.context_size(kind));
            u64::from(chain.bounds.record_bytes) + fresh as u64
        });
        let records = records.max().unwrap_or(0) + size_of::<Chain>() as u64 + 16;
        let events = free.take(max_events * largest.unwrap_or(0));
        let protocol = packets.clone().find_map(|parser| match parser.source {
            ParserInput::Ip(protocol) => Some(protocol),
            ParserInput::Udp(_) => Some(UDP),
            _ => None,
        });
        let scratch_bytes = module.scratch.map_or(0, structure).next_multiple_of(8);
        let mut begun = Control {
            plans,
            blueprints,
            queues,
            events,
            events_end: free.0,
            protocol: protocol.unwrap_or(0).into(),
            ports: free.take(PORTS),
            sieve: free.take(FRAME),
            backlog: u64::from(RECEIVE) / 2,
            params: free.take(module.params.len() as u64 * 8),
            scratch: free.take(scratch_bytes),
            scratch_bytes,
            changed: free.take(CONTEXTS / 8),
            input: free.take(INPUT),
            entry_limit: size_of::<Entry>() as u64 + FRAME + max_events * records,
            ..Control::default()
        };
        let globals = module.contexts.iter().map(|context| {
            let bytes = structure(context.body);
            (free.take(bytes), bytes as usize)
        });
        let globals = globals.collect();
        begun.log = free.take(LOG.max(8 * begun.entry_limit));
        begun.log_end = free.0;
        let largest = module
            .contexts
            .iter()
            .map(|context| structure(context.body))
            .max();
        begun.stride = (size_of::<Place>() as u64 + largest.unwrap_or(0)).next_multiple_of(64);
        begun.contexts = free.0.next_multiple_of(4096);
        let arena = stated.number("HW_ARENA_PAGES") * 4096;
        let capacity = (arena.saturating_sub(begun.contexts) / begun.stride).min(CONTEXTS);
        Layout {
            call: stated.number("HW_CALL_AT"),
            control,
            log: begun.log,
            begun,
            globals,
            capacity: capacity as u32,
            memory: stated.number("HW_CALL_AT")..begun.contexts,
            tables,
            arena: arena as usize,
        }
    }
}

fn plan(module: &Module, event: usize, runs: bool) -> Plan {
    let creates = |kind: usize| {
        let fits = |when: &Precondition| match when {
            Precondition::Always => true,
            Precondition::Found(known) => known.0 as usize == kind,
            Precondition::NotFound => false,
        };
        let creators = module.creators.get(event);
        module.chains[event].creates.is_some() && creators.is_none_or(|creators| creators.iter().any(fits))
    };
    let kinds = module.contexts.len().min(64);
    let chain = &module.chains[event];
    let needs_context = |processor: &hawser_ir::Processor| matches!(processor.when, Precondition::Found(_));
    Plan {
        fresh: chain.creates.map_or(0, |kind| module.context_size(kind)) as u32,
        runs_alone: (chain.processors.is_empty() || !chain.processors.iter().all(needs_context)).into(),
        bytes: module.structure(module.events[event].body).size,
        runs: u32::from(runs && module.contexts.len() <= 64),
        records: module.chains[event].bounds.record_bytes.into(),
        creates: (0..kinds)
            .filter(|kind| creates(*kind))
            .fold(0, |mask, kind| mask | 1 << kind),
    }
}
