//! The last events of a run, and the events that last set its timers. They are copied as the engine shows
//! them and described after the run.
//!
//! Describing an event takes the interpreter, and keeping it takes a copy. If only the end of a run matters,
//! the run costs little more than an unobserved one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use hawser_engine::TapEvent;
use hawser_ir::ContextId;
use hawser_ir::abi::{ChainOutcome, ON_FRESH, ON_GLOBAL, RecordKind, TimerRec};
use parking_lot::Mutex;

use crate::trace::event::EventCallback;
use crate::trace::event_copy::EventCopy;
use crate::trace::host::TracedHost;
use crate::trace::tracer::WantedEvent;

/// The number of last events to keep, and the time limit for them.
#[derive(Clone, Copy, Debug)]
pub struct LastEvents {
    /// The number of events.
    pub count: usize,
    /// The time limit, in nanoseconds of the run. Later events do not count as the last ones, nor do events
    /// after a false assertion.
    pub until_ns: u64,
}

/// A timer of a context type on a host.
type Timer = (String, ContextId, u32);

/// The kept part of a run.
pub(crate) struct Last {
    wanted: LastEvents,
    is_over: bool,
    count: u64,
    recent: VecDeque<Arc<CopiedEvent>>,
    timers: HashMap<Timer, Arc<CopiedEvent>>,
    show: EventCallback,
}

/// A copied event.
struct CopiedEvent {
    /// The event's position among the events of the run.
    place: u64,
    host: Arc<Mutex<TracedHost>>,
    wanted: WantedEvent,
    event: EventCopy,
}

impl Last {
    pub(crate) fn new(wanted: LastEvents, show: EventCallback) -> Last {
        Last {
            wanted,
            is_over: false,
            count: 0,
            recent: VecDeque::new(),
            timers: HashMap::new(),
            show,
        }
    }

    /// Keeps an event of a host at a time of the run if it is one of the last or sets timers.
    pub(crate) fn keep(
        &mut self,
        (name, host): (&str, &Arc<Mutex<TracedHost>>),
        at_ns: u64,
        wanted: WantedEvent,
        shown: &TapEvent<'_>,
    ) {
        let is_recent = !self.is_over && at_ns <= self.wanted.until_ns;
        let timers: Vec<Timer> = timers(name, shown).collect();
        if !is_recent && timers.is_empty() {
            return;
        }
        self.count += 1;
        let kept = Arc::new(CopiedEvent {
            place: self.count,
            host: Arc::clone(host),
            wanted,
            event: EventCopy::from_tap(shown),
        });
        for timer in timers {
            self.timers.insert(timer, Arc::clone(&kept));
        }
        if is_recent {
            self.is_over = matches!(shown.outcome, Some(ChainOutcome::Assert(_)));
            if self.recent.len() >= self.wanted.count {
                self.recent.pop_front();
            }
            self.recent.push_back(kept);
        }
    }

    /// Describes the kept events in the order in which they happened.
    pub(crate) fn finish(&mut self) {
        let all = self
            .timers
            .drain()
            .map(|(_, shown)| shown)
            .chain(self.recent.drain(..));
        let in_order: BTreeMap<u64, Arc<CopiedEvent>> = all.map(|shown| (shown.place, shown)).collect();
        for shown in in_order.values() {
            let event = shown.host.lock().tracer.say(&shown.event.shown(), shown.wanted);
            (self.show)(&event);
        }
    }
}

/// Returns the timers that an event starts or stops.
fn timers<'a>(host: &'a str, shown: &'a TapEvent<'_>) -> impl Iterator<Item = Timer> + 'a {
    let sets = |kind| matches!(kind, RecordKind::TimerStart | RecordKind::TimerStop);
    let set = shown.records.iter().filter(move |record| sets(record.kind));
    set.filter_map(move |record| {
        let on = match record.on {
            ON_FRESH => shown.fresh.map(|(context, _)| context),
            ON_GLOBAL => record.global(),
            _ => shown.context.map(|(context, _)| context),
        };
        Some((host.to_owned(), on?, record.fixed::<TimerRec>().timer))
    })
}
