//! Runs for drawing.

use std::cell::Cell;
use std::fs::File;
use std::io::BufWriter;
use std::rc::Rc;
use std::sync::Arc;

use crate::drawing::{Collector, DrawingLimits, Picture};
use hawser_bus::{Bus, Hands, Rights, Schema, Signal, SourceId, Subscription, Tware};
use hawser_engine::Stack;
use hawser_inspect::trace::{EventCallback, Filter, Recorder, TracedEvent};
use hawser_sim::world::FrameSighting;
use hawser_sim::{DEPTH_SPANS, DepthsOf, Report, RunError, Scenario};

use crate::{Programs, engine, pairs, resolver};

/// The number of time spans in which queues are drawn, which exceeds the width of a screen.
const SPANS: usize = 3_900;

/// The content of a drawn run.
pub struct Shows {
    /// The limits of the kept part.
    pub limits: DrawingLimits,
    /// A callback that also receives each event.
    pub show: Option<EventCallback>,
}

/// A subscriber to all signals, so that programs emit them. Their content is read from the events that emit
/// them.
struct Listener;

impl Tware for Listener {
    fn subscriptions(&self) -> Vec<Subscription> {
        vec![Subscription::new(["*"])]
    }

    fn begin(&mut self, _: SourceId, _: &Schema) {}

    fn signal(&mut self, _: usize, _: &Signal<'_>, _: &mut Hands) {}
}

/// Runs a scenario, and collects the data for drawing it. `capture` and `progress` are those of
/// [`crate::run`].
///
/// # Errors
/// The reason why the scenario cannot be run at all, or not be traced.
pub fn run_pictured(
    programs: &Programs,
    scenario: &Scenario,
    seed: Option<u64>,
    shows: Shows,
    capture: Option<File>,
    progress: Option<&mut dyn FnMut(f64)>,
) -> Result<(Report, Picture), RunError> {
    let Shows { limits, mut show } = shows;
    let (from, to) = (limits.from, limits.to);
    let collector = Collector::new(scenario, limits);
    let resolve = resolver(programs, engine(scenario));
    let events = collector.clone();
    let of_pairs: Vec<usize> = crate::drawing::pairs(scenario).map(|(flow, ..)| flow).collect();
    let collect = move |event: &TracedEvent| {
        events.event(event);
        if let Some(show) = &mut show {
            // Runs are drawn by pairs of hosts, and shown by flows.
            let flow = event.flow.and_then(|pair| of_pairs.get(pair).copied());
            if flow == event.flow {
                show(event);
            } else {
                show(&TracedEvent { flow, ..event.clone() });
            }
        }
    };
    let recorder = Recorder::new(hawser_sim::START, Filter::default(), Box::new(collect));
    let recorder = recorder.with_flows(pairs(scenario));
    let bus = Bus::new();
    let listens = bus.attach("picture", Rights::observer(), 0, || Box::new(Listener));
    let unsupported = Rc::new(Cell::new(None));
    let (first, programs) = (Rc::clone(&unsupported), collector.clone());
    let observe = move |host: &str, stack: &mut Stack| {
        if let (Ok(_), Ok(schema)) = (&listens, hawser_engine::schema(stack.module())) {
            stack.interact(bus.source(Arc::new(schema), None));
        }
        let refused = programs.host(host, &**stack.program()).err();
        let unsupported = first.take().or(refused);
        first.set(unsupported.or(recorder.observe(host, stack).err()));
    };
    let mut ignore = |_: f64| {};
    let notify = progress.unwrap_or(&mut ignore);
    let mut progress = |done: f64| notify(done);
    let packets = collector.clone();
    let options = hawser_sim::Options {
        seed,
        pcap: capture.map(|file| Box::new(BufWriter::new(file)) as Box<_>),
        progress: Some(&mut progress),
        stacks: Some(Box::new(observe)),
        packets: Some(Box::new(move |sight: &FrameSighting<'_>| packets.sight(sight))),
        depths: Some(DepthsOf { from, to, spans: SPANS }),
        ..Default::default()
    };
    let report = hawser_sim::run(scenario, &resolve, options);
    if let Some(error) = unsupported.take() {
        return Err(RunError::Program { name: scenario.program.clone(), error: error.into() });
    }
    let mut report = report?;
    let picture = collector.finish(&report);
    // A report contains only the parts that its scenario asks for.
    for link in &mut report.links {
        let depths = link.queue_depths.take().filter(|_| scenario.queue_depths);
        link.queue_depths = depths.map(|depths| depths.condensed(DEPTH_SPANS));
    }
    Ok((report, picture))
}
