//! A program's tables in the form that the engine looks up, gathered once and checked.

use std::collections::BTreeSet;

use hawser_ir::abi::{ContextHeader, EventHeader};
use hawser_ir::{
    AppOp, Bounds, ContextId, EndpointOffsets, Granularity, Module, ParserInput, Precondition, Shards,
    StructId, Ty,
};

use crate::config::{StackConfigError, StackLimits};
use crate::cuts::Cuts;
use crate::externs::MemoryPlan;
use crate::net::Steering;
use crate::net::crc::Crc;
use crate::net::{merge, udp};
use crate::scalar;

/// The plan of an event type and its chain.
#[derive(Clone, Debug)]
pub(crate) struct EventPlan {
    /// The worst case of the chain.
    pub(crate) bounds: Bounds,
    /// The size of the event, in bytes.
    pub(crate) size: usize,
    /// The context type that the chain may create, and its size in bytes.
    pub(crate) creates: Option<(ContextId, usize)>,
    /// The keyed contexts on which the chain can create one; `None` if it can on any.
    creators: Option<Vec<Precondition>>,
    /// True if the chain has a processor that runs even without a context.
    pub(crate) runs_without: bool,
}

impl EventPlan {
    /// Returns true if the chain can create a context when it runs on one of this type.
    pub(crate) fn creates_on(&self, kind: ContextId) -> bool {
        let fits = |when: &Precondition| match when {
            Precondition::Always => true,
            Precondition::Found(known) => *known == kind,
            Precondition::NotFound => false,
        };
        self.creates.is_some()
            && self
                .creators
                .as_ref()
                .is_none_or(|creators| creators.iter().any(fits))
    }
}

/// The plan of a context type.
#[derive(Clone, Debug)]
pub(crate) struct ContextPlan {
    /// The size of the context, in bytes.
    pub(crate) size: usize,
    /// The offset of each timer in the context, and the number of its event.
    pub(crate) timers: Vec<(usize, u16)>,
    /// True if several contexts may share an id.
    pub(crate) replicated: bool,
    /// The location of the connection's two ends in the context.
    pub(crate) ends: Option<EndpointOffsets>,
}

#[derive(Clone, Debug)]
pub(crate) struct Tables {
    pub(crate) events: Vec<EventPlan>,
    pub(crate) contexts: Vec<ContextPlan>,
    /// The parsers by IP protocol.
    pub(crate) ip: Box<[Option<usize>; 256]>,
    /// The parsers by IP protocol for packets whose data a switch has trimmed.
    pub(crate) trimmed: Box<[Option<usize>; 256]>,
    pub(crate) icmp: Option<usize>,
    pub(crate) start: Option<usize>,
    /// The parsers of requests by [`op_index`].
    pub(crate) app: [Option<usize>; APP_OPS],
    /// The parsers by UDP port, in the order of their registration.
    pub(crate) udp: Vec<(u16, usize)>,
    /// The IP protocol of packets that do not state one.
    pub(crate) protocol: u8,
    /// By blueprint: the maximum size of its header and trailer in bytes, and whether it has a coalescing
    /// rule.
    pub(crate) blueprints: Vec<(usize, bool)>,
    /// By blueprint: its CRC-32, if it has one.
    pub(crate) crcs: Vec<Option<Crc>>,
    /// True if one of the CRCs covers the headers in front of the program's packets.
    pub(crate) invariant: bool,
    /// True if packets that continue the one before can be merged with it.
    pub(crate) merges: bool,
    /// By extern: its operation on registered memory.
    pub(crate) memory: Vec<Option<MemoryPlan>>,
    /// The instructions that a device may segment.
    pub(crate) cuts: Cuts,
    /// The distribution of packets over several stacks.
    pub(crate) steering: Steering,
    /// The events whose chains run only in the first of several stacks.
    pub(crate) first: BTreeSet<u32>,
    pub(crate) scratch_size: usize,
    /// The maximum number of timers of any context type.
    pub(crate) timers_per_context: usize,
    /// The size of the largest context that a chain may create, in bytes.
    pub(crate) fresh_size: usize,
}

/// The number of request types.
const APP_OPS: usize = 14;

/// Returns the index of a request type in `Tables::app`.
pub(crate) fn op_index(op: AppOp) -> usize {
    match op {
        AppOp::Listen => 0,
        AppOp::Connect => 1,
        AppOp::Send => 2,
        AppOp::Recv => 3,
        AppOp::Close => 4,
        AppOp::Abort => 5,
        AppOp::Release => 6,
        AppOp::Option => 7,
        AppOp::Message => 8,
        AppOp::Call => 9,
        AppOp::Open => 10,
        AppOp::Reset => 11,
        AppOp::Stop => 12,
        AppOp::Post => 13,
    }
}

impl Tables {
    /// Reads a program's tables, for one of the stacks that share its connections.
    pub(crate) fn new(module: &Module, steering: Steering) -> Result<Tables, StackConfigError> {
        let mut tables = Tables {
            events: Vec::new(),
            contexts: module
                .contexts
                .iter()
                .map(|c| context_plan(module, c))
                .collect::<Result<_, _>>()?,
            ip: Box::new([None; 256]),
            trimmed: Box::new([None; 256]),
            icmp: None,
            start: None,
            app: [None; APP_OPS],
            udp: Vec::new(),
            protocol: 0,
            blueprints: module
                .blueprints
                .iter()
                .map(|b| (b.max_around() as usize, false))
                .collect(),
            crcs: module.blueprints.iter().map(Crc::from_blueprint).collect(),
            invariant: false,
            merges: module.blueprints.iter().all(merge::can_be_merged),
            memory: (0..module.externs.len())
                .map(|number| MemoryPlan::for_extern(module, number))
                .collect(),
            cuts: Cuts::new(module),
            steering,
            first: first(module, &steering)?,
            scratch_size: module.scratch.map_or(0, |s| module.structure(s).size as usize),
            timers_per_context: module
                .contexts
                .iter()
                .map(|c| c.timers.len())
                .max()
                .unwrap_or(0)
                .max(1),
            fresh_size: 0,
        };
        tables.events = events(module)?;
        tables.fresh_size = tables
            .events
            .iter()
            .filter_map(|e| e.creates)
            .map(|c| c.1)
            .max()
            .unwrap_or(0);
        for rule in &module.coalesce {
            let blueprint = tables.blueprints.get_mut(rule.blueprint.0 as usize);
            blueprint
                .ok_or(StackConfigError::Program("a coalescing rule without blueprint"))?
                .1 = true;
        }
        tables.invariant = tables.crcs.iter().flatten().any(|crc| crc.invariant);
        tables.sources(module);
        Ok(tables)
    }

    /// Returns true if the program wants to know how much its applications have read.
    pub(crate) fn reports_taken(&self) -> bool {
        self.app[op_index(AppOp::Recv)].is_some()
    }

    fn sources(&mut self, module: &Module) {
        for (i, parser) in module.parsers.iter().enumerate() {
            match parser.source {
                ParserInput::Ip(protocol) => {
                    if self.protocol == 0 {
                        self.protocol = protocol;
                    }
                    self.ip[protocol as usize] = Some(i);
                }
                ParserInput::Trimmed(protocol) => self.trimmed[protocol as usize] = Some(i),
                ParserInput::IcmpError => self.icmp = Some(i),
                ParserInput::App(op) => self.app[op_index(op)] = Some(i),
                ParserInput::Start => self.start = Some(i),
                ParserInput::Udp(port) => {
                    if self.protocol == 0 {
                        self.protocol = udp::PROTOCOL;
                    }
                    self.udp.push((port, i));
                }
            }
        }
    }
}

/// Returns the events whose chains run only in the first of several stacks.
fn first(module: &Module, steering: &Steering) -> Result<BTreeSet<u32>, StackConfigError> {
    if steering.shards == 1 {
        return Ok(BTreeSet::new());
    }
    let shards = Shards::from_module(module);
    match shards.pins.into_iter().next() {
        Some(pin) => Err(StackConfigError::Shards(pin.text)),
        None => Ok(shards.first),
    }
}

fn events(module: &Module) -> Result<Vec<EventPlan>, StackConfigError> {
    if module.chains.len() != module.events.len() {
        return Err(StackConfigError::Program("as many chains as events are needed"));
    }
    let plan = |(index, (event, chain)): (usize, (&hawser_ir::Event, &hawser_ir::Chain))| {
        let size = module.structure(event.body).size as usize;
        if size < size_of::<EventHeader>() {
            return Err(StackConfigError::Program("an event smaller than its header"));
        }
        let creates = chain.creates.map(|c| (c, module.context_size(c)));
        let found_only = |p: &hawser_ir::Processor| matches!(p.when, Precondition::Found(_));
        let runs_without = chain.processors.is_empty() || !chain.processors.iter().all(found_only);
        let creators = module.creators.get(index).cloned();
        Ok(EventPlan { bounds: chain.bounds, size, creates, creators, runs_without })
    };
    module
        .events
        .iter()
        .zip(&module.chains)
        .enumerate()
        .map(plan)
        .collect()
}

fn context_plan(module: &Module, context: &hawser_ir::Context) -> Result<ContextPlan, StackConfigError> {
    let size = module.structure(context.body).size as usize;
    if size < size_of::<ContextHeader>() {
        return Err(StackConfigError::Program("a context smaller than its header"));
    }
    let timer = |t: &hawser_ir::Timer| {
        let fits = t.offset as usize + 8 <= size && (t.event.0 as usize) < module.events.len();
        fits.then_some((t.offset as usize, t.event.0 as u16))
    };
    let timers = context.timers.iter().map(timer).collect::<Option<_>>();
    let timers = timers.ok_or(StackConfigError::Program("a timer outside its context"))?;
    let ends = context.ends;
    let lies_within = |end: u32, len: usize| end as usize + len <= size;
    if ends.is_some_and(|e| {
        [e.local_ip, e.remote_ip].iter().any(|ip| !lies_within(*ip, 16))
            || [e.local_port, e.remote_port]
                .iter()
                .any(|port| !lies_within(*port, 2))
    }) {
        return Err(StackConfigError::Program("an end outside its context"));
    }
    Ok(ContextPlan {
        size,
        ends,
        timers,
        replicated: context.granularity == Granularity::Shard,
    })
}

/// Checks that no limit is zero, and that the worst case of each chain fits within the limits.
pub(crate) fn check_limits(limits: &StackLimits, tables: &Tables) -> Result<(), StackConfigError> {
    let max = |bound: fn(&EventPlan) -> u32| u64::from(tables.events.iter().map(bound).max().unwrap_or(0));
    let needs = [
        ("contexts", limits.contexts as u64, 1),
        ("handles", limits.handles as u64, 1),
        ("ids_per_context", limits.ids_per_context as u64, 1),
        (
            "units_per_context",
            limits.units_per_context as u64,
            max(|e| e.bounds.units).max(2),
        ),
        ("tx_bytes", limits.tx_bytes, 1),
        ("rx_bytes", limits.rx_bytes, 128 * 1024),
        ("tx_total", limits.tx_total, 1),
        ("rx_total", limits.rx_total, 128 * 1024),
        ("first_bytes", limits.first_bytes, 1),
        ("min_bytes", limits.min_bytes, 1),
        (
            "pending_packets",
            limits.pending_packets as u64,
            max(|e| e.bounds.packets).max(1),
        ),
        ("pending_frames", limits.pending_frames as u64, 1),
        ("raised", limits.raised as u64, max(|e| e.bounds.raises)),
        ("notices", limits.notices as u64, 1),
        ("batch", limits.batch as u64, 1),
    ];
    match needs.into_iter().find(|(_, value, min)| value < min) {
        Some((name, value, min)) => Err(StackConfigError::Limit { name, value, min }),
        None => Ok(()),
    }
}

/// Returns the `GLOBAL` contexts with their defaults, by type; empty for the other types.
pub(crate) fn globals(module: &Module) -> Vec<Vec<u8>> {
    let global = |context: &hawser_ir::Context| match context.granularity {
        Granularity::Global => {
            let mut bytes = vec![0; module.structure(context.body).size as usize];
            set_defaults(module, context.body, 0, &mut bytes);
            bytes
        }
        Granularity::Flow | Granularity::Shard => Vec::new(),
    };
    module.contexts.iter().map(global).collect()
}

/// Writes the declared defaults of a structure and of its nested structures at `base`.
fn set_defaults(module: &Module, id: StructId, base: usize, bytes: &mut [u8]) {
    for field in &module.structure(id).fields {
        let at = base + field.offset as usize;
        if let Ty::Struct(inner) = &field.ty {
            set_defaults(module, *inner, at, bytes);
        } else if let (Some(value), Some(len)) = (field.default, scalar::size(&field.ty)) {
            scalar::store(&mut bytes[at..at + len], value);
        }
    }
}
