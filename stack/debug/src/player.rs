//! The run, event by event.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hawser_engine::TapEvent;
use hawser_interp::Halted;
use hawser_ir::EventId;
use hawser_ir::abi::EventHeader;
use hawser_ir::buf::event_header;
use hawser_sim::frame::Frame;
use hawser_sim::world::{Fate, Watcher};
use hawser_sim::{Report, Run};
use hawser_time::Instant;
use hawser_trace::Kept;
use parking_lot::Mutex;

/// An event, and whose it is.
pub(crate) struct Seen {
    /// The number of the host.
    pub(crate) host: usize,
    /// Which of the host's lives: the first is 1, and each time that it comes up begins another.
    pub(crate) life: u32,
    pub(crate) kept: Kept,
}

impl Seen {
    /// Which event it is; nothing where an input gave none.
    pub(crate) fn event(&self) -> Option<EventId> {
        event_of(&self.kept.before.event)
    }

    /// The memory that its chain began with.
    pub(crate) fn before(&self) -> Halted {
        let (mut memory, before) = (Halted::default(), &self.kept.before);
        memory.event.clone_from(&before.event);
        memory.keyed.clone_from(&before.keyed);
        memory.fresh.clone_from(&before.fresh);
        memory.globals.clone_from(&before.globals);
        memory.scratch.clone_from(&before.scratch);
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
    /// What observes the stack of one of a host's lives.
    pub(crate) fn tap(&self, host: usize, life: u32) -> Box<dyn FnMut(&TapEvent<'_>) + Send> {
        let queue = Arc::clone(&self.0);
        Box::new(move |shown| {
            let kept = Kept::of(shown);
            let seen = Box::new(Seen { host, life, kept });
            queue.lock().push_back(Happening::Event(seen));
        })
    }

    /// What observes the links.
    pub(crate) fn watcher(&self) -> Watcher {
        let queue = Arc::clone(&self.0);
        Box::new(move |sight| {
            let happening = match sight.fate {
                Fate::Sent => {
                    Happening::Sent(Sent { from: sight.from, at: sight.at, frame: sight.frame.clone() })
                }
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
        Player { run, queue, flying: BTreeMap::new() }
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
