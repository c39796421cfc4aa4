//! Observes the stack's events to find the instruction, and its line in the program, that sent each packet.

use std::collections::BTreeMap;
use std::sync::Arc;

use hawser_engine::{Stack, TapEvent};
use hawser_inspect::trace::{Filter, Flows, ProgramLine, Tracer};
use hawser_interp::Unsupported;
use hawser_ir::abi::PacketRec;
use hawser_ir::abi::RecordKind;
use hawser_time::Instant;
use parking_lot::Mutex;

/// The maximum number of remembered instructions. A packet leaves soon after its instruction.
const MAX: usize = 1 << 16;
/// The maximum number of events that wait to be shown.
const MAX_EVENTS: usize = 10_000;

/// The sender of a packet.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// The number of the blueprint in the module.
    pub(crate) blueprint: usize,
    /// The line of the program.
    pub(crate) line: ProgramLine,
}

/// The observations of a stack.
#[derive(Default)]
pub(crate) struct StackObservations {
    senders: BTreeMap<u32, Sender>,
    /// Events as text, if requested.
    events: Vec<String>,
    /// The last false assertion of the program.
    assert: Option<String>,
    wants_events: bool,
}

/// An observer of a stack.
#[derive(Clone, Default)]
pub(crate) struct Causes(Arc<Mutex<StackObservations>>);

impl Causes {
    /// Observes a stack from now on. `events` requests the effects of each event as text.
    pub(crate) fn observe(&self, stack: &mut Stack, start: Instant, events: bool) -> Result<(), Unsupported> {
        let mut tracer = Tracer::new(stack.program(), "", start)?;
        self.0.lock().wants_events = events;
        let observed = Arc::clone(&self.0);
        stack.set_event_tap(Some(Box::new(move |shown: &TapEvent<'_>| {
            let Some(event) = tracer.event(shown, &Filter::default(), &Flows::default()) else {
                return;
            };
            let mut observed = observed.lock();
            for (index, record) in shown.records.iter().enumerate() {
                if let (RecordKind::Packet, Some(instruction)) = (record.kind, event.instructions.get(index))
                {
                    let sender = Sender {
                        blueprint: usize::from(record.fixed::<PacketRec>().blueprint),
                        line: instruction.line.clone(),
                    };
                    observed.senders.insert(shown.first_cause + index as u32, sender);
                }
            }
            while observed.senders.len() > MAX {
                observed.senders.pop_first();
            }
            if event.outcome == "assert" {
                observed.assert.clone_from(&event.why);
            }
            if observed.wants_events && observed.events.len() < MAX_EVENTS {
                observed.events.push(event.to_string());
            }
        })));
        Ok(())
    }

    pub(crate) fn sender(&self, cause: u32) -> Option<Sender> {
        self.0.lock().senders.get(&cause).cloned()
    }

    pub(crate) fn take_events(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().events)
    }

    pub(crate) fn take_assert(&self) -> Option<String> {
        self.0.lock().assert.take()
    }
}
