//! Prints the effects of events, on its own threads.
//!
//! Repeating an event and describing its effects takes longer than the event itself, and events are
//! independent of each other. They are therefore copied in batches, which go to the threads in turn and come
//! back as lines in the same order. The number of waiting batches is bounded: showing another event first
//! waits for the oldest batch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use hawser_engine::TapEvent;
use hawser_time::Instant;

use crate::trace::event::TracedEvent;
use crate::trace::event_copy::EventCopy;
use crate::trace::filter::Packet;
use crate::trace::shared_names::SharedName;
use crate::trace::tracer::{Tracer, WantedEvent};

/// The number of events in a batch.
const BATCH: usize = 16;
/// The maximum number of batches of a thread, waiting and done.
const BATCHES_PER_THREAD: usize = 2;
/// The maximum number of threads. More of them would wait for the run.
const MAX_THREADS: usize = 8;

/// The output format of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// Readable text, with an empty line after each event.
    Text,
    /// A JSON object on each line.
    Json,
}

impl OutputFormat {
    /// Appends an event.
    pub fn print(self, event: &TracedEvent, to: &mut Vec<u8>) {
        match self {
            OutputFormat::Text => {
                event.text(to);
                to.extend_from_slice(b"\n\n");
            }
            OutputFormat::Json => event.json(to),
        }
    }
}

/// The printed form of consecutive events.
#[derive(Default)]
pub struct Printed {
    /// The output.
    pub bytes: Vec<u8>,
    /// The number of events.
    pub events: u64,
    /// The counters that grew with these events.
    pub counters: BTreeSet<&'static str>,
}

/// A callback that receives the output, in order.
pub type Print = Box<dyn FnMut(&Printed) + Send>;

/// An event to print.
struct Job {
    host: SharedName,
    wanted: WantedEvent,
    kept: EventCopy,
}

/// Events, and a buffer for their output. Both are reused.
#[derive(Default)]
struct Batch {
    jobs: Vec<Job>,
    used: usize,
    lines: Printed,
}

/// A printing thread.
struct Worker {
    todo: SyncSender<Batch>,
    done: Receiver<Batch>,
}

/// The settings that all threads share.
#[derive(Clone)]
struct Setup {
    start: Instant,
    form: OutputFormat,
    /// The requested packet.
    packet: Option<Packet>,
}

/// A printer with its threads.
pub(crate) struct Printer {
    setup: Setup,
    print: Print,
    filling: Batch,
    free: Vec<Batch>,
    workers: Vec<Worker>,
    /// The threads with batches, in the order of the batches.
    under_way: VecDeque<usize>,
    next: usize,
}

impl Printer {
    pub(crate) fn new(start: Instant, form: OutputFormat, packet: Option<Packet>, print: Print) -> Printer {
        Printer {
            setup: Setup { start, form, packet },
            print,
            filling: Batch::default(),
            free: Vec::new(),
            workers: Vec::new(),
            under_way: VecDeque::new(),
            next: 0,
        }
    }

    /// Adds an event to print.
    pub(crate) fn event(&mut self, host: &SharedName, wanted: WantedEvent, shown: &TapEvent<'_>) {
        let batch = &mut self.filling;
        match batch.jobs.get_mut(batch.used) {
            Some(job) => {
                job.host.clone_from(host);
                job.wanted = wanted;
                job.kept.keep(shown);
            }
            None => batch
                .jobs
                .push(Job { host: host.clone(), wanted, kept: EventCopy::from_tap(shown) }),
        }
        batch.used += 1;
        if batch.used == BATCH {
            self.send();
        }
    }

    /// Prints the remaining events.
    pub(crate) fn finish(&mut self) {
        if self.workers.is_empty() {
            // A few events are not worth a thread.
            Hosts::new(self.setup.clone()).print(&mut self.filling);
            (self.print)(&self.filling.lines);
            self.filling.used = 0;
            return;
        }
        self.send();
        while self.take_oldest() {}
    }

    /// Passes the batch to the next thread.
    fn send(&mut self) {
        if self.workers.is_empty() {
            let threads = thread::available_parallelism()
                .map_or(1, usize::from)
                .min(MAX_THREADS);
            self.workers = (0..threads).map(|_| Worker::start(&self.setup)).collect();
        }
        if self.under_way.len() >= self.workers.len() * BATCHES_PER_THREAD {
            self.take_oldest();
        }
        let empty = self.free.pop().unwrap_or_default();
        let batch = std::mem::replace(&mut self.filling, empty);
        let sent = self.workers[self.next].todo.send(batch);
        sent.expect("a thread ends after its sender");
        self.under_way.push_back(self.next);
        self.next = (self.next + 1) % self.workers.len();
    }

    /// Waits for the oldest batch and prints it. Returns false if no batch is under way.
    fn take_oldest(&mut self) -> bool {
        let Some(worker) = self.under_way.pop_front() else {
            return false;
        };
        let batch = self.workers[worker].done.recv();
        let mut batch = batch.expect("a thread gives back what it was given");
        (self.print)(&batch.lines);
        batch.used = 0;
        self.free.push(batch);
        true
    }
}

impl Worker {
    fn start(setup: &Setup) -> Worker {
        let mut hosts = Hosts::new(setup.clone());
        let (todo, batches) = sync_channel::<Batch>(BATCHES_PER_THREAD);
        let (finished, done) = sync_channel::<Batch>(BATCHES_PER_THREAD);
        thread::spawn(move || {
            for mut batch in batches {
                hosts.print(&mut batch);
                if finished.send(batch).is_err() {
                    return;
                }
            }
        });
        Worker { todo, done }
    }
}

/// The tracers of a thread, one for each host.
struct Hosts {
    setup: Setup,
    tracers: BTreeMap<SharedName, Tracer>,
}

impl Hosts {
    fn new(setup: Setup) -> Hosts {
        Hosts { setup, tracers: BTreeMap::new() }
    }

    fn print(&mut self, batch: &mut Batch) {
        let lines = &mut batch.lines;
        lines.bytes.clear();
        lines.counters.clear();
        lines.events = 0;
        for job in &batch.jobs[..batch.used] {
            let shown = job.kept.shown();
            if !self.tracers.contains_key(&job.host) {
                // The observer of the host has already created a tracer of the same program.
                let Ok(tracer) = Tracer::new(shown.program, &job.host, self.setup.start) else {
                    continue;
                };
                self.tracers.insert(job.host.clone(), tracer);
            }
            let Some(tracer) = self.tracers.get_mut(&job.host) else {
                continue;
            };
            let mut event = tracer.say(&shown, job.wanted);
            if let Some(packet) = &self.setup.packet {
                event.mark_packet(packet);
            }
            self.setup.form.print(&event, &mut lines.bytes);
            lines.counters.extend(event.counters());
            lines.events += 1;
        }
    }
}
