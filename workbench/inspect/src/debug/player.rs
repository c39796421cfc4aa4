//! The run, event by event.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::trace::EventCopy;
use hawser_engine::TapEvent;
use hawser_interp::Halted;
use hawser_ir::EventId;
use hawser_ir::abi::EventHeader;
use hawser_ir::buf::event_header;
use hawser_sim::frame::Frame;
use hawser_sim::world::{FrameFate, Watcher};
use hawser_sim::{Report, Run};
use hawser_time::Instant;
use parking_lot::Mutex;

/// An event, and its host.
pub(crate) struct HostEvent {
    /// The number of the host.
    pub(crate) host: usize,
    /// The host's life: the first is 1, and each restart begins another.
    pub(crate) life: u32,
    pub(crate) kept: EventCopy,
}

impl HostEvent {
    /// Returns the event's type, or `None` if an input gave no event.
    pub(crate) fn event(&self) -> Option<EventId> {
        event_of(&self.kept.before.event)
    }

    /// Returns the memory with which its chain began.
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

/// Returns the event whose header is at the start of the bytes.
pub(crate) fn event_of(bytes: &[u8]) -> Option<EventId> {
    let is_whole = bytes.len() >= size_of::<EventHeader>();
    is_whole.then(|| EventId(event_header(bytes).event.into()))
}

/// A packet in flight.
pub(crate) struct PacketInFlight {
    /// The number of the host that sent it.
    pub(crate) from: usize,
    pub(crate) at: Instant,
    pub(crate) frame: Frame,
}

/// An occurrence in the run.
enum Occurrence {
    Event(Box<HostEvent>),
    Sent(PacketInFlight),
    /// The packet with this number arrived or was lost. For a duplicated packet, the first copy counts.
    Gone(u64),
}

/// The occurrences that have not been taken yet.
#[derive(Clone, Default)]
pub(crate) struct OccurrenceQueue(Arc<Mutex<VecDeque<Occurrence>>>);

impl OccurrenceQueue {
    /// Returns an observer for the stack of one of a host's lives.
    pub(crate) fn tap(&self, host: usize, life: u32) -> Box<dyn FnMut(&TapEvent<'_>) + Send> {
        let queue = Arc::clone(&self.0);
        Box::new(move |shown| {
            let kept = EventCopy::from_tap(shown);
            let seen = Box::new(HostEvent { host, life, kept });
            queue.lock().push_back(Occurrence::Event(seen));
        })
    }

    /// Returns an observer for the links.
    pub(crate) fn watcher(&self) -> Watcher {
        let queue = Arc::clone(&self.0);
        Box::new(move |sight| {
            let happening = match sight.fate {
                FrameFate::Sent => Occurrence::Sent(PacketInFlight {
                    from: sight.from,
                    at: sight.at,
                    frame: sight.frame.clone(),
                }),
                // The packet is still in flight.
                FrameFate::Arrived | FrameFate::Forwarded => return,
                FrameFate::Delivered | FrameFate::Lost(_) => Occurrence::Gone(sight.frame.number),
            };
            queue.lock().push_back(happening);
        })
    }
}

/// A run whose events are taken one by one.
pub(crate) struct Player {
    run: Run,
    queue: OccurrenceQueue,
    /// The packets in flight, by number.
    pub(crate) flying: BTreeMap<u64, PacketInFlight>,
}

impl Player {
    pub(crate) fn new(run: Run, queue: OccurrenceQueue) -> Player {
        Player { run, queue, flying: BTreeMap::new() }
    }

    /// Returns the next event, or `None` when the run is over.
    pub(crate) fn next(&mut self) -> Option<HostEvent> {
        loop {
            let happening = self.queue.0.lock().pop_front();
            match happening {
                Some(Occurrence::Event(seen)) => return Some(*seen),
                Some(Occurrence::Sent(sent)) => {
                    self.flying.insert(sent.frame.number, sent);
                }
                Some(Occurrence::Gone(number)) => {
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
