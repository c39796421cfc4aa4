//! Sharing out a program's connections among parallel stacks (shards), each with a processor of its own. This
//! is possible if a chain finds everything that it touches in the stack in which it runs.
//!
//! Every stack has its own copy of a `SHARD` context. A `GLOBAL` context that only `start` writes to is the
//! same in all stacks. Any other `GLOBAL` context exists in the first stack alone. Events that touch nothing
//! else are sent there ([`Shards::first`]). A chain that touches such a context as well as a connection's
//! context pins the program to one stack ([`Shards::pins`]).

use std::collections::BTreeSet;

use crate::body::{Arg, Base, Instr, Place, Span, StmtKind};
use crate::module::{Chain, Context, FuncId, Module, ParserInput, Precondition, QueuePolicy};
use crate::visit::{self, reached, statements};

/// The way in which a program's state can be shared out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shards {
    /// The reasons why it runs in one stack alone. If the list is empty, it runs in any number of stacks.
    pub pins: Vec<Pin>,
    /// Events whose chains run in the first stack, regardless of the stack that raises them.
    pub first: BTreeSet<u32>,
}

/// A reason why the program runs in one stack alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The reason, as part of a sentence.
    pub text: String,
    /// Its place in the source.
    pub span: Option<Span>,
}

impl Shards {
    /// Determines the way in which the state of a program can be shared out.
    #[must_use]
    pub fn from_module(module: &Module) -> Shards {
        let effects = Effects::from_module(module);
        let mut shards = Shards::default();
        let mut pin = |text: String, span| shards.pins.push(Pin { text, span });
        let has_ends = |context: &Context| context.ends.is_some();
        if !module.contexts.iter().any(has_ends) {
            pin(
                "no context states the ends of its connection (`register_ctx_ends`)".to_owned(),
                None,
            );
        }
        for queue in &module.queues {
            if !matches!(queue.policy, QueuePolicy::Fifo | QueuePolicy::RatePerFlow) {
                pin(
                    format!("the queue `{}` orders packets of all connections", queue.name),
                    None,
                );
            }
        }
        for func in &module.funcs {
            statements(&func.body, &mut |stmt| match &stmt.kind {
                StmtKind::Emit(Instr::AddId { .. }) => {
                    pin(
                        "`add_id` gives a context further ids, by which packets arrive".to_owned(),
                        Some(stmt.span),
                    );
                }
                StmtKind::Emit(Instr::Extern { callee, .. }) => {
                    let name = &module.externs[callee.0 as usize].name;
                    pin(
                        format!("`{name}` concerns the memory of one stack"),
                        Some(stmt.span),
                    );
                }
                _ => {}
            });
        }
        for (event, chain) in effects.live(module) {
            let touched = chain
                .globals
                .iter()
                .filter(|global| effects.changes.contains(&global.0));
            let Some(global) = touched
                .map(|global| &module.contexts[global.0 as usize].name)
                .next()
            else {
                continue;
            };
            let (name, at) = (&module.events[event as usize].name, effects.place(module, chain));
            if is_keyed(chain) {
                pin(
                    format!("the chain of `{name}` has a context beside the GLOBAL `{global}`"),
                    at,
                );
            } else if effects.given.contains(&event) {
                pin(
                    format!("`{name}` comes from outside and concerns the GLOBAL `{global}`"),
                    at,
                );
            } else {
                shards.first.insert(event);
            }
        }
        shards
    }
}

/// True if one of a chain's processors runs on a context of a connection.
fn is_keyed(chain: &Chain) -> bool {
    let is_own = |place: &Place| matches!(place.base, Base::Keyed | Base::Fresh);
    let mut processors = chain.processors.iter();
    chain.creates.is_some()
        || processors
            .any(|processor| processor.when != Precondition::Always || processor.args.iter().any(is_own))
}

/// The effects of functions on `GLOBAL` contexts, and the events that occur in a running stack.
struct Effects {
    /// For each function, the reference parameters that it writes to.
    writes: Vec<BTreeSet<u16>>,
    /// Events that are not raised by chains, except `start`.
    given: BTreeSet<u32>,
    /// Events that can occur after `start` has run.
    live: BTreeSet<u32>,
    /// `GLOBAL` contexts that the chains of these events write to.
    changes: BTreeSet<u32>,
}

impl Effects {
    fn from_module(module: &Module) -> Effects {
        let mut effects = Effects {
            writes: writes(module),
            given: given(module),
            live: BTreeSet::new(),
            changes: BTreeSet::new(),
        };
        let mut open: Vec<u32> = effects.given.iter().copied().collect();
        while let Some(event) = open.pop() {
            if !effects.live.insert(event) {
                continue;
            }
            for processor in &module.chains[event as usize].processors {
                for func in reached(module, processor.func) {
                    open.extend(raised(module, func));
                }
            }
        }
        let live: Vec<&Chain> = effects.live(module).map(|(_, chain)| chain).collect();
        for processor in live.iter().flat_map(|chain| &chain.processors) {
            let written = &effects.writes[processor.func.0 as usize];
            let changed = (0u16..).zip(&processor.args).filter(|(n, _)| written.contains(n));
            effects
                .changes
                .extend(changed.filter_map(|(_, place)| global_of(place)));
        }
        effects
    }

    /// Returns the events that can occur after `start` has run, with their chains.
    fn live<'m>(&self, module: &'m Module) -> impl Iterator<Item = (u32, &'m Chain)> {
        self.live
            .iter()
            .map(|event| (*event, &module.chains[*event as usize]))
    }

    /// Returns the place of the first processor in the chain that takes a changing `GLOBAL` context.
    fn place(&self, module: &Module, chain: &Chain) -> Option<Span> {
        let is_changing =
            |place: &Place| global_of(place).is_some_and(|global| self.changes.contains(&global));
        let mut processors = chain.processors.iter();
        let found = processors.find(|processor| processor.args.iter().any(is_changing))?;
        Some(module.funcs[found.func.0 as usize].span)
    }
}

fn global_of(place: &Place) -> Option<u32> {
    match place.base {
        Base::Global(global) => Some(global.0),
        _ => None,
    }
}

/// For each function, the reference parameters that it writes to, itself or through its callees.
fn writes(module: &Module) -> Vec<BTreeSet<u16>> {
    let param = |place: &Place| match place.base {
        Base::Ref(n) => Some(n),
        _ => None,
    };
    let mut writes = vec![BTreeSet::new(); module.funcs.len()];
    let mut passed = Vec::new();
    for (caller, func) in module.funcs.iter().enumerate() {
        visit::places(&func.body, |place, access| {
            if access.writes() {
                writes[caller].extend(param(place));
            }
        });
        statements(&func.body, &mut |stmt| {
            visit::own_calls(stmt, |callee, args| {
                let refs = args.iter().filter_map(|arg| match arg {
                    Arg::Ref(place) => Some(place),
                    Arg::Value(_) => None,
                });
                for (to, place) in (0u16..).zip(refs) {
                    passed.extend(param(place).map(|from| (caller, from, callee, to)));
                }
            });
        });
    }
    let mut grows = true;
    while grows {
        grows = false;
        for (caller, from, callee, to) in &passed {
            if writes[callee.0 as usize].contains(to) {
                grows |= writes[*caller].insert(*from);
            }
        }
    }
    writes
}

/// Returns the events that packets, applications, timers and externs cause.
fn given(module: &Module) -> BTreeSet<u32> {
    let timers = module.contexts.iter().flat_map(|context| &context.timers);
    let answers = module.externs.iter().filter_map(|called| called.answer);
    let mut given: BTreeSet<u32> = timers
        .map(|timer| timer.event)
        .chain(answers)
        .map(|event| event.0)
        .collect();
    for parser in module
        .parsers
        .iter()
        .filter(|parser| parser.source != ParserInput::Start)
    {
        for func in reached(module, parser.func) {
            statements(&module.funcs[func.0 as usize].body, &mut |stmt| {
                if let StmtKind::PushEvent { event, .. } = &stmt.kind {
                    given.insert(event.0);
                }
            });
        }
    }
    given
}

/// Returns the events that a function raises.
fn raised(module: &Module, func: FuncId) -> Vec<u32> {
    let mut found = Vec::new();
    statements(&module.funcs[func.0 as usize].body, &mut |stmt| {
        if let StmtKind::Emit(Instr::Raise { event, .. }) = &stmt.kind {
            found.push(event.0);
        }
    });
    found
}
