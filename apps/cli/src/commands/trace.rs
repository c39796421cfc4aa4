//! `hawser trace FILE.toml`: what each event of a simulated run did.

use std::collections::BTreeSet;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hawser::interact::parse_span;
use hawser::programs::Programs;
use hawser::sim::{self, Event, Filter, Flow, Scenario};
use parking_lot::Mutex;

use crate::engine::{EngineArgs, NativeArgs};
use crate::exit::{Exit, Outcome};

/// Show what each event of a simulated run did, with lines of the program
///
/// For each event: its fields, the processors that ran, the fields of contexts that changed, the instructions,
/// and what the engine did with them, each with the line of the program that caused it. Options choose events:
/// one has to meet all that are given.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The scenario
    file: PathBuf,
    /// Use this seed instead of the seed of the scenario
    #[arg(long)]
    seed: Option<u64>,
    /// Events on this host
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Events of this flow's connections, by the number that `hawser sim` shows; the first is 0
    #[arg(long, value_name = "N")]
    flow: Option<usize>,
    /// Events at this time after the start, or later: 1.5s, 200ms
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    from: Option<Duration>,
    /// Events at this time after the start, or earlier
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    to: Option<Duration>,
    /// Events that changed this field of a context: cc.cwnd
    #[arg(long, value_name = "NAME")]
    field: Option<String>,
    /// The event that sent this packet, by its number in the capture of `hawser sim --pcap`; the first is 1
    #[arg(long, value_name = "N")]
    packet: Option<u64>,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    native: NativeArgs,
    /// Print a JSON object for each event, one a line
    #[arg(long)]
    json: bool,
}

/// Where events are printed.
struct Output {
    out: BufWriter<std::io::Stdout>,
    is_json: bool,
    events: u64,
    /// The counters that were shown: what they mean is said at the end.
    counters: BTreeSet<&'static str>,
    /// Why nothing more is printed.
    error: Option<std::io::Error>,
}

impl Output {
    fn event(&mut self, event: &Event) {
        self.events += 1;
        if self.error.is_none() {
            self.error = self.print(event).err();
        }
    }

    fn print(&mut self, event: &Event) -> std::io::Result<()> {
        let of_instructions = event
            .instructions
            .iter()
            .flat_map(|instruction| &instruction.counted);
        let counted = event.counted.iter().chain(of_instructions);
        self.counters.extend(counted.map(|count| count.counter));
        if self.is_json {
            serde_json::to_writer(&mut self.out, event)?;
            self.out.write_all(b"\n")
        } else {
            writeln!(self.out, "{event}\n")
        }
    }

    /// Says what the counters mean that were shown. Whoever reads may have left already.
    fn finish(&mut self) -> Outcome {
        let result = match self.error.take() {
            Some(error) => Err(error),
            None if self.is_json => self.out.flush(),
            None => self.explain(),
        };
        match result.err() {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(Exit::environment(error)),
            _ => Ok(()),
        }
    }

    fn explain(&mut self) -> std::io::Result<()> {
        for counter in &self.counters {
            let meaning = sim::counter_meaning(counter).unwrap_or_default();
            writeln!(self.out, "[{counter}] {meaning}")?;
        }
        self.out.flush()
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut scenario = sim::load(&args.file).map_err(Exit::input)?;
    if let Some(engine) = args.engine.engine {
        sim::set_engine(&mut scenario, engine);
    }
    let mut filter = filter(args, &scenario)?;
    let output = Arc::new(Mutex::new(Output {
        out: BufWriter::new(std::io::stdout()),
        is_json: args.json,
        events: 0,
        counters: BTreeSet::new(),
        error: None,
    }));
    let programs = Programs::default().with_native_files(args.native.allow_native);
    if let Some(number) = args.packet {
        let packet = sim::find_packet(&programs, &scenario, args.seed, number).map_err(Exit::input)?;
        let packet =
            packet.ok_or_else(|| Exit::usage(format!("this run sends fewer than {number} packets")))?;
        if packet.cause == 0 {
            return Err(Exit::usage(format!(
                "packet {number} is the network layer's: no program sent it"
            )));
        }
        filter.packet = Some(packet);
    }
    let into = Arc::clone(&output);
    let show = Box::new(move |event: &Event| into.lock().event(event));
    let report = sim::run_traced(&programs, &scenario, args.seed, filter, show).map_err(Exit::input)?;
    let mut output = output.lock();
    output.finish()?;
    if output.events == 0 {
        eprintln!("no event of this run is as the options ask");
    }
    if let Some(failure) = report.failures.first() {
        eprintln!("the run broke its promise: {failure}");
    }
    Ok(())
}

fn filter(args: &Args, scenario: &Scenario) -> Result<Filter, Exit> {
    let hosts = || {
        scenario
            .host
            .iter()
            .map(|host| host.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    if let Some(host) = args
        .host
        .as_ref()
        .filter(|name| scenario.host_number(name).is_none())
    {
        return Err(Exit::usage(format!(
            "the scenario has no host `{host}`; it has: {}",
            hosts()
        )));
    }
    let flow = args.flow.map(|number| {
        let ports = scenario.ports().get(number).cloned().flatten();
        let known = scenario.flow.get(number).zip(ports);
        known
            .map(|(flow, ports)| Flow {
                hosts: [flow.from.clone(), flow.to.clone()],
                ports,
            })
            .ok_or_else(|| {
                Exit::usage(format!(
                    "the scenario has {} flows, the first is 0",
                    scenario.flow.len()
                ))
            })
    });
    Ok(Filter {
        host: args.host.clone(),
        flow: flow.transpose()?,
        from: args.from,
        to: args.to,
        field: args.field.clone(),
        packet: None,
    })
}
