//! The links of a lab as a provider: their rules and statistics are variables, their changes are events.
//!
//! Each direction of a link is a flow. The lab's timeline sets the provider's own value. A subscriber that
//! holds a variable under a lease keeps its value meanwhile, and the timeline's last value applies when the
//! lease is over.

mod schema;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::{Direction, Lab, Link, LinkChange, LinkEvent, Statistics};
use hawser_bus::ring::Waker;
use hawser_bus::{Bus, EventId, FlowId, FlowInfo, ProviderState, Refusal, Schema, Source, VariableId};
use hawser_time::Instant;

use schema::{Event, Of, VARIABLES, cause, new_rules, schema, set_up};

/// The interval at which losses are counted while there is a subscription to them.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The time for which counters are cached.
const FRESH: Duration = Duration::from_millis(1);

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(schema()));

/// Puts a lab's links on a bus while `body` runs. A separate thread serves them.
pub fn with_links<T>(bus: &Bus, lab: &Lab, body: impl FnOnce() -> T) -> T {
    let (news, inbox) = channel();
    let over = AtomicBool::new(false);
    let sender = news.clone();
    // If the thread has ended, no wake-up is needed.
    let waker: Waker = Arc::new(move || drop(sender.send(WakeReason::Called)));
    let source = bus.source(SCHEMA.clone(), Some(waker.clone()));
    lab.on_change(move |changed| news.send(WakeReason::Changed(changed.clone())).is_ok());
    std::thread::scope(|scope| {
        // The thread ends even if the body panics.
        let _ends = Ends { over: &over, waker: &waker };
        let (serving, over) = (
            Serving { source, links: Links::new(lab), lost: BTreeMap::new() },
            &over,
        );
        scope.spawn(move || serving.run(&inbox, over));
        body()
    })
}

/// A reason to wake the thread.
enum WakeReason {
    /// Orders wait on the bus.
    Called,
    Changed(LinkEvent),
}

struct Ends<'a> {
    over: &'a AtomicBool,
    waker: &'a Waker,
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        (self.waker)();
    }
}

struct Serving<'a> {
    source: Source,
    links: Links<'a>,
    /// The number of lost frames so far, by flow and cause.
    lost: BTreeMap<(u64, &'static str), u64>,
}

impl Serving<'_> {
    fn run(mut self, inbox: &Receiver<WakeReason>, over: &AtomicBool) {
        let mut counted = None;
        loop {
            let now = self.links.now();
            self.source.poll(now, &mut self.links);
            let wants_losses = self.source.wants(EventId(Event::Lost as u16));
            if !wants_losses {
                counted = None;
            } else if counted.is_none_or(|at| now - at >= POLL_INTERVAL) {
                // Losses from before the first subscription are not signalled.
                self.count(now, counted.is_some());
                counted = Some(now);
            }
            if over.load(Ordering::Relaxed) {
                return self.finish(inbox, counted.is_some());
            }
            let deadline = self.source.next_deadline().map(|at| at - now);
            let limit = [deadline, wants_losses.then_some(POLL_INTERVAL)]
                .into_iter()
                .flatten()
                .min();
            let news = match limit {
                Some(limit) => inbox.recv_timeout(limit),
                None => inbox.recv().map_err(RecvTimeoutError::from),
            };
            if let Ok(WakeReason::Changed(changed)) = news {
                self.signal_change(&changed);
            }
        }
    }

    /// Reports the last changes and losses.
    fn finish(&mut self, inbox: &Receiver<WakeReason>, counted: bool) {
        while let Ok(news) = inbox.try_recv() {
            if let WakeReason::Changed(changed) = news {
                self.signal_change(&changed);
            }
        }
        if counted {
            self.count(self.links.now(), true);
        }
    }

    fn signal_change(&mut self, changed: &LinkEvent) {
        let Some(link) = self.links.lab.links().nth(changed.link) else {
            return;
        };
        let at = Instant::after(changed.at);
        let both = [Direction::Forward, Direction::Backward];
        match &changed.what {
            LinkChange::Up => both.map(|direction| self.publish(at, changed.link, direction, Event::Up, &[])),
            LinkChange::Down => {
                both.map(|direction| self.publish(at, changed.link, direction, Event::Down, &[]))
            }
            LinkChange::Rebound => {
                both.map(|direction| self.publish(at, changed.link, direction, Event::Rebound, &[]))
            }
            LinkChange::Rules(of, _) => both.map(|direction| {
                if direction == *of {
                    let fields = new_rules(&link.rules(direction));
                    self.publish(at, changed.link, direction, Event::Changed, &fields);
                }
            }),
        };
    }

    fn publish(&mut self, at: Instant, link: usize, direction: Direction, event: Event, fields: &[u64]) {
        let flow = flow(link, direction);
        self.source
            .publish(at, flow, EventId(event as u16), fields, &mut self.links);
        // The timeline may have set a variable that a subscriber holds.
        self.source.settle(flow, &mut self.links);
    }

    /// Counts the losses, and on request signals those since the last count.
    fn count(&mut self, now: Instant, signal: bool) {
        for flow in self.links.flows() {
            let Some((number, direction, link)) = self.links.at(flow) else {
                continue;
            };
            let Ok(done) = link.statistics(direction) else {
                continue;
            };
            for (name, count) in done.lost {
                let before = self.lost.insert((flow.0, name), count).unwrap_or(0);
                if signal && count > before {
                    self.publish(
                        now,
                        number,
                        direction,
                        Event::Lost,
                        &[count - before, cause(name)],
                    );
                }
            }
        }
    }
}

/// Returns the flow of a link's direction.
fn flow(link: usize, direction: Direction) -> FlowId {
    FlowId(link as u64 * 2 + direction as u64)
}

/// The links from the view of a source.
struct Links<'a> {
    lab: &'a Lab,
    /// The counters of the last flow, cached for a moment.
    counted: RefCell<Option<(FlowId, Instant, Statistics)>>,
}

impl<'a> Links<'a> {
    fn new(lab: &'a Lab) -> Links<'a> {
        Links { lab, counted: RefCell::new(None) }
    }

    /// Returns the time by the clock of the lab's events, which starts when the lab came up.
    fn now(&self) -> Instant {
        Instant::after(self.lab.age())
    }

    fn at(&self, flow: FlowId) -> Option<(usize, Direction, Link<'a>)> {
        let number = (flow.0 / 2) as usize;
        let direction = if flow.0.is_multiple_of(2) {
            Direction::Forward
        } else {
            Direction::Backward
        };
        Some((number, direction, self.lab.links().nth(number)?))
    }

    fn count(&self, flow: FlowId, take: fn(&Statistics) -> u64) -> Option<u64> {
        let (_, direction, link) = self.at(flow)?;
        let now = self.now();
        let mut counted = self.counted.borrow_mut();
        if let Some((of, at, done)) = &*counted
            && *of == flow
            && now - *at < Instant::after(FRESH).since_origin()
        {
            return Some(take(done));
        }
        let done = link.statistics(direction).ok()?;
        let value = take(&done);
        *counted = Some((flow, now, done));
        Some(value)
    }

    fn set(&self, flow: FlowId, variable: VariableId, value: u64) -> Result<(), Refusal> {
        let (_, direction, link) = self
            .at(flow)
            .ok_or_else(|| Refusal::unable("the link does not exist"))?;
        let (_, _, _, of) = VARIABLES
            .get(usize::from(variable.0))
            .ok_or_else(|| Refusal::unable("the variable does not exist"))?;
        match of {
            Of::Counted(_) => return Err(Refusal::unable("counters cannot be set")),
            Of::Ruled(_, write) => {
                let rules = write(value);
                if rules.rate.is_some() && link.rules(direction).trace.is_some() {
                    return Err(Refusal::unable("a trace determines the rate of this link"));
                }
                link.set(direction, &rules)
            }
            Of::Up if direction == Direction::Backward => {
                let forward = link.name();
                return Err(Refusal::Unable(format!(
                    "both directions share the carrier: set it at `{forward} forward`"
                )));
            }
            Of::Up => set_up(link, value != 0),
        }
        .map_err(Refusal::unable)
    }
}

impl ProviderState for Links<'_> {
    fn read(&self, flow: FlowId, variable: VariableId) -> Option<u64> {
        let (_, direction, link) = self.at(flow)?;
        let (_, _, _, of) = VARIABLES.get(usize::from(variable.0))?;
        match of {
            Of::Counted(take) => self.count(flow, *take),
            Of::Ruled(read, _) => Some(read(&link.rules(direction))),
            Of::Up => Some(link.is_up().into()),
        }
    }

    fn write(&mut self, flow: FlowId, variable: VariableId, value: u64) -> bool {
        self.set(flow, variable, value).is_ok()
    }

    fn hold(&mut self, flow: FlowId, variable: VariableId, value: u64, _: Duration) -> Result<(), Refusal> {
        self.set(flow, variable, value)
    }

    fn info(&self, flow: FlowId) -> Option<FlowInfo> {
        let (_, direction, link) = self.at(flow)?;
        let word = match direction {
            Direction::Forward => "forward",
            Direction::Backward => "backward",
        };
        let label = format!("{} {word}", link.name());
        Some(FlowInfo { kind: "link".to_owned(), label, ..FlowInfo::default() })
    }

    fn flows(&self) -> Vec<FlowId> {
        let both = [Direction::Forward, Direction::Backward];
        (0..self.lab.links().count())
            .flat_map(|link| both.map(|direction| flow(link, direction)))
            .collect()
    }
}
