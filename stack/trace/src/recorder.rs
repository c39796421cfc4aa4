//! Observes the stacks of a run.

use std::sync::Arc;

use hawser_engine::{Stack, TapEvent};
use hawser_interp::Unsupported;
use hawser_time::Instant;
use parking_lot::Mutex;

use crate::event::Event;
use crate::filter::Filter;
use crate::tracer::Tracer;

/// Is shown each event that is wanted, in order.
pub type Show = Box<dyn FnMut(&Event) + Send>;

/// Observes stacks, and shows what their events did. All stacks of a run share one, so that their events come in
/// the order in which they happened.
#[derive(Clone)]
pub struct Recorder {
    start: Instant,
    filter: Arc<Filter>,
    show: Arc<Mutex<Show>>,
}

impl Recorder {
    /// For a run that begins at `start` on the stacks' clock.
    #[must_use]
    pub fn new(start: Instant, filter: Filter, show: Show) -> Recorder {
        Recorder {
            start,
            filter: Arc::new(filter),
            show: Arc::new(Mutex::new(show)),
        }
    }

    /// Observes a host's stack from now on, in place of who did before.
    ///
    /// # Errors
    /// A construct of its program that the interpreter does not run yet.
    pub fn observe(&self, host: &str, stack: &mut Stack) -> Result<(), Unsupported> {
        let mut tracer = Tracer::new(stack.program(), host, self.start)?;
        let Recorder { filter, show, .. } = self.clone();
        stack.set_event_tap(Some(Box::new(move |shown: &TapEvent<'_>| {
            let event = tracer.event(shown, |host, at, causes| filter.admits(host, at, causes));
            if let Some(mut event) = event.filter(|event| filter.wants(event)) {
                if let Some(packet) = &filter.packet
                    && let Some(sender) = event
                        .instructions
                        .get_mut((packet.cause - shown.first_cause) as usize)
                {
                    sender.packet = Some(packet.number);
                }
                show.lock()(&event);
            }
        })));
        Ok(())
    }
}
