//! The run, event by event.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_engine::{Before, Counted, TapEvent};
use hawser_interp::Halted;
use hawser_ir::abi::{EventHeader, Outcome};
use hawser_ir::buf::{RecordBuf, event_header};
use hawser_ir::{ContextId, EventId};
use hawser_sim::frame::Frame;
use hawser_sim::world::{Fate, Watcher};
use hawser_sim::{Report, Run};
use hawser_time::Instant;
use parking_lot::Mutex;

/// What the engine showed of an event, kept.
pub(crate) struct Seen {
    program: Arc<dyn Program>,
    refused_by: Option<usize>,
    /// The number of the host.
    pub(crate) host: usize,
    pub(crate) now: Instant,
    pub(crate) before: Before,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) records: RecordBuf,
    pub(crate) first_cause: u32,
    /// The keyed context after the chain, and the one that the chain made.
    pub(crate) context: Option<(ContextId, Vec<u8>)>,
    pub(crate) fresh: Option<(ContextId, Vec<u8>)>,
    pub(crate) globals: Vec<Vec<u8>>,
    event: Vec<u8>,
    counted: Vec<Counted>,
}

impl Seen {
    fn of(host: usize, shown: &TapEvent<'_>) -> Seen {
        let kept = |(id, bytes): (ContextId, &[u8])| (id, bytes.to_vec());
        Seen {
            program: Arc::clone(shown.program),
            refused_by: shown.refused_by,
            host,
            now: shown.now,
            before: shown.before.clone(),
            outcome: shown.outcome,
            records: shown.records.clone(),
            first_cause: shown.first_cause,
            context: shown.context.map(kept),
            fresh: shown.fresh.map(kept),
            globals: shown.globals.to_vec(),
            event: shown.event.to_vec(),
            counted: shown.counted.to_vec(),
        }
    }

    /// As the engine showed it.
    pub(crate) fn shown(&self) -> TapEvent<'_> {
        fn lent(kept: &Option<(ContextId, Vec<u8>)>) -> Option<(ContextId, &[u8])> {
            kept.as_ref().map(|(id, bytes)| (*id, bytes.as_slice()))
        }
        TapEvent {
            program: &self.program,
            now: self.now,
            event: &self.event,
            refused_by: self.refused_by,
            packet: None,
            context: lent(&self.context),
            fresh: lent(&self.fresh),
            globals: &self.globals,
            records: &self.records,
            outcome: self.outcome,
            before: &self.before,
            counted: &self.counted,
            first_cause: self.first_cause,
        }
    }

    /// Which event it is; nothing where an input gave none.
    pub(crate) fn event(&self) -> Option<EventId> {
        event_of(&self.before.event)
    }

    /// The memory that its chain began with.
    pub(crate) fn before(&self) -> Halted {
        let mut memory = Halted::default();
        memory.event.clone_from(&self.before.event);
        memory.keyed.clone_from(&self.before.keyed);
        memory.fresh.clone_from(&self.before.fresh);
        memory.globals.clone_from(&self.before.globals);
        memory.scratch.clone_from(&self.before.scratch);
        memory
    }
}

/// The event that bytes begin with the header of.
pub(crate) fn event_of(bytes: &[u8]) -> Option<EventId> {
    let is_whole = bytes.len() >= size_of::<EventHeader>();
    is_whole.then(|| EventId(event_header(bytes).event.into()))
}

/// A packet under way.
pub(crate) struct Sent {
    /// The number of the host that sent it.
    pub(crate) from: usize,
    pub(crate) at: Instant,
    pub(crate) frame: Frame,
}

/// What happened.
enum Happening {
    Event(Box<Seen>),
    Sent(Sent),
    /// The packet with this number came through, or was lost. Of one that a link doubled: the first copy.
    Gone(u64),
}

/// What happened and was not asked for yet.
#[derive(Clone, Default)]
pub(crate) struct Queue(Arc<Mutex<VecDeque<Happening>>>);

impl Queue {
    /// What observes a host's stack.
    pub(crate) fn tap(&self, host: usize) -> Box<dyn FnMut(&TapEvent<'_>) + Send> {
        let queue = Arc::clone(&self.0);
        Box::new(move |shown| {
            let seen = Box::new(Seen::of(host, shown));
            queue.lock().push_back(Happening::Event(seen));
        })
    }

    /// What observes the links.
    pub(crate) fn watcher(&self) -> Watcher {
        let queue = Arc::clone(&self.0);
        Box::new(move |sight| {
            let happening = match sight.fate {
                Fate::Sent => Happening::Sent(Sent {
                    from: sight.from,
                    at: sight.at,
                    frame: sight.frame.clone(),
                }),
                // It is under way still.
                Fate::Arrived | Fate::Forwarded => return,
                Fate::Delivered | Fate::Lost(_) => Happening::Gone(sight.frame.number),
            };
            queue.lock().push_back(happening);
        })
    }
}

/// A run whose events are taken one after the other.
pub(crate) struct Player {
    run: Run,
    queue: Queue,
    /// Packets under way, by their numbers.
    pub(crate) flying: BTreeMap<u64, Sent>,
}

impl Player {
    pub(crate) fn new(run: Run, queue: Queue) -> Player {
        Player {
            run,
            queue,
            flying: BTreeMap::new(),
        }
    }

    /// The next event; nothing when the run is over.
    pub(crate) fn next(&mut self) -> Option<Seen> {
        loop {
            let happening = self.queue.0.lock().pop_front();
            match happening {
                Some(Happening::Event(seen)) => return Some(*seen),
                Some(Happening::Sent(sent)) => {
                    self.flying.insert(sent.frame.number, sent);
                }
                Some(Happening::Gone(number)) => {
                    self.flying.remove(&number);
                }
                None => {
                    if !self.run.step() && self.queue.0.lock().is_empty() {
                        return None;
                    }
                }
            }
        }
    }

    pub(crate) fn report(self) -> Report {
        self.run.report()
    }
}
