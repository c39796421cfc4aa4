//! Observes the stacks of a run.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hawser_engine::{Stack, TapEvent};
use hawser_interp::Unsupported;
use hawser_time::Instant;
use parking_lot::Mutex;

use crate::trace::event::EventCallback;
use crate::trace::filter::{Filter, Flows};
use crate::trace::host::TracedHost;
use crate::trace::packet::SentPacket;
use crate::trace::printer::{OutputFormat, Print, Printer};
use crate::trace::recent_events::{Last, LastEvents};
use crate::trace::tracer::Tracer;

/// An observer of stacks that reports the effects of their events. All stacks of a run share one, so that
/// events arrive in the order in which they happened.
#[derive(Clone)]
pub struct Recorder {
    start: Instant,
    filter: Arc<Filter>,
    flows: Arc<Flows>,
    sink: Arc<Mutex<Sink>>,
    with_packets: bool,
    hosts: Arc<Mutex<BTreeMap<String, Arc<Mutex<TracedHost>>>>>,
}

/// The destination of wanted events.
enum Sink {
    Show(EventCallback),
    Last(Box<Last>),
    Print(Box<Printer>),
}

impl Recorder {
    /// Creates a recorder for a run that begins at `start` on the stacks' clock.
    #[must_use]
    pub fn new(start: Instant, filter: Filter, show: EventCallback) -> Recorder {
        Recorder::into(start, filter, Sink::Show(show))
    }

    /// Creates a recorder that prints events on its own threads. It calls `print` on the thread of the run.
    /// [`Recorder::finish`] prints the last events.
    #[must_use]
    pub fn printing(start: Instant, filter: Filter, form: OutputFormat, print: Print) -> Recorder {
        let printer = Printer::new(start, form, filter.packet.clone(), print);
        Recorder::into(start, filter, Sink::Print(Box::new(printer)))
    }

    /// Creates a recorder of only the end of a run. [`Recorder::finish`] shows the events that last set a
    /// timer, then the last events. Until then events are only copied, which costs less than describing them.
    #[must_use]
    pub fn last(start: Instant, filter: Filter, last: LastEvents, show: EventCallback) -> Recorder {
        Recorder::into(start, filter, Sink::Last(Box::new(Last::new(last, show))))
    }

    fn into(start: Instant, filter: Filter, sink: Sink) -> Recorder {
        Recorder {
            start,
            filter: Arc::new(filter),
            flows: Arc::default(),
            sink: Arc::new(Mutex::new(sink)),
            with_packets: false,
            hosts: Arc::default(),
        }
    }

    /// Adds flows, by which each event names its flow.
    #[must_use]
    pub fn with_flows(self, flows: Flows) -> Recorder {
        Recorder { flows: Arc::new(flows), ..self }
    }

    /// Adds packets. Each event describes the packet from which it comes, and [`Recorder::sent`] those that
    /// it sent.
    #[must_use]
    pub fn with_packets(self) -> Recorder {
        Recorder { with_packets: true, ..self }
    }

    /// Observes a host's stack from now on and replaces any earlier observer. If the stack replaces an
    /// observed one, for example when its host restarts, its events continue the earlier numbers.
    ///
    /// # Errors
    /// A construct of its program that the interpreter does not run yet.
    pub fn observe(&self, host: &str, stack: &mut Stack) -> Result<(), Unsupported> {
        let mut tracer = Tracer::new(stack.program(), host, self.start)?;
        let mut hosts = self.hosts.lock();
        if let Some(before) = hosts.get(host) {
            tracer.count_on(&before.lock().tracer);
        }
        let observed = Arc::new(Mutex::new(TracedHost { tracer, senders: VecDeque::new() }));
        hosts.insert(host.to_owned(), Arc::clone(&observed));
        drop(hosts);
        let recorder = self.clone();
        stack.set_event_tap(Some(Box::new(move |shown: &TapEvent<'_>| {
            recorder.event(&observed, shown);
        })));
        Ok(())
    }

    /// Prints the remaining events, or shows the kept ones.
    pub fn finish(&self) {
        match &mut *self.sink.lock() {
            Sink::Print(printer) => printer.finish(),
            Sink::Last(last) => last.finish(),
            Sink::Show(_) => {}
        }
    }

    fn event(&self, observed: &Arc<Mutex<TracedHost>>, shown: &TapEvent<'_>) {
        let host = &mut *observed.lock();
        let Recorder { filter, flows, .. } = self;
        let Some(wanted) = host.tracer.wanted(shown, filter, flows) else {
            return;
        };
        let mut sink = self.sink.lock();
        let show = match &mut *sink {
            Sink::Show(show) => show,
            Sink::Last(last) => {
                let at_ns = hawser_time::nanos(shown.now - self.start);
                return last.keep((host.tracer.host().as_str(), observed), at_ns, wanted, shown);
            }
            Sink::Print(printer) => return printer.event(host.tracer.host(), wanted, shown),
        };
        let mut event = host.tracer.say(shown, wanted);
        if let Some(packet) = &filter.packet {
            event.mark_packet(packet);
        }
        if self.with_packets {
            event.packet = shown.packet.map(|packet| host.tracer.received(packet));
            host.remember(&event, shown.first_cause);
        }
        show(&event);
    }

    /// Describes an IP packet that a host sent, and the event that sent it. `packet` is its number in the
    /// run, and `cause` the instruction that sent it. Returns `None` if that event was not wanted.
    #[must_use]
    pub fn sent(
        &self,
        at: Duration,
        host: &str,
        packet: u64,
        cause: u32,
        bytes: &[u8],
    ) -> Option<SentPacket> {
        let host = self.hosts.lock().get(host).cloned()?;
        let host = host.lock();
        let index = host
            .senders
            .binary_search_by_key(&cause, |sender| sender.cause)
            .ok()?;
        let sender = &host.senders[index];
        Some(SentPacket {
            at_ns: hawser_time::nanos(at),
            host: host.tracer.host().clone(),
            packet,
            number: sender.number,
            flow: sender.flow,
            event: sender.event.clone(),
            source: sender.source,
            line: sender.line.clone(),
            decoded: host.tracer.decode(bytes),
        })
    }
}
