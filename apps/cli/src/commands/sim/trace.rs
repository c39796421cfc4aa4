//! `hawser sim trace FILE.toml`: shows what each event of a simulated run did.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hawser::interact::parse_span;
use hawser::lang::OneLine;
use hawser::programs::Programs;
use hawser::runs::{self, Report, Scenario, pcapng};
use hawser::trace::{Filter, OutputFormat, Printed, SentPacket, TracedEvent};
use parking_lot::Mutex;

use super::scenario::not_run;
use crate::engine::{EngineArgs, NativeArgs};
use crate::exit::{Exit, Outcome};
use crate::terminal::EscapedWriter;

/// Show the effects of each event of a simulated run, with lines of the program
///
/// For each event, the command shows its fields, the processors that ran, the fields of contexts that
/// changed, the instructions, and their effects in the engine, each with the line of the program that
/// caused it. Options select events: an event must match all of them.
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
    /// Events of this flow's connections, by the number that `hawser sim run` shows; the first is 0
    #[arg(long, value_name = "N")]
    flow: Option<usize>,
    /// Events from this time after the start: 1.5s, 200ms
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    from: Option<Duration>,
    /// Events up to this time after the start
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    to: Option<Duration>,
    /// Events that changed this field of a context: cc.cwnd
    #[arg(long, value_name = "NAME")]
    field: Option<String>,
    /// The event that sent this packet, by its number in the capture of `hawser sim run --pcap`; the first is 1
    #[arg(long, value_name = "N")]
    packet: Option<u64>,
    /// Also show packets, decoded by the program's own headers: those that cause events, and those that
    /// events sent, when they leave
    #[arg(long)]
    packets: bool,
    /// Print nothing, and write every packet to a capture for Wireshark (pcapng); its comment is the line of
    /// the program that sent it, if its event is selected
    #[arg(long, value_name = "OUT", conflicts_with_all = ["packets", "json"])]
    pcapng: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    native: NativeArgs,
    /// Print a JSON object for each event, one per line
    #[arg(long)]
    json: bool,
}

/// Refuses a time span that ends before it begins.
pub(crate) fn in_order(from: Option<Duration>, to: Option<Duration>) -> Outcome {
    match (from, to) {
        (Some(from), Some(to)) if from > to => {
            Err(Exit::usage(format!("--from {from:?} is later than --to {to:?}")))
        }
        _ => Ok(()),
    }
}

/// The printer of events.
struct Output {
    out: EscapedWriter<BufWriter<std::io::Stdout>>,
    is_json: bool,
    /// A reusable buffer for a line.
    line: Vec<u8>,
    events: u64,
    /// The counters shown so far, whose meanings are printed at the end.
    counters: BTreeSet<&'static str>,
    /// The error that stopped the output.
    error: Option<std::io::Error>,
}

impl Output {
    fn event(&mut self, event: &TracedEvent) {
        self.line.clear();
        self.form().print(event, &mut self.line);
        self.events += 1;
        self.counters.extend(event.counters());
        if self.error.is_none() {
            self.error = self.out.write_all(&self.line).err();
        }
    }

    fn printed(&mut self, printed: &Printed) {
        self.events += printed.events;
        self.counters.extend(&printed.counters);
        if self.error.is_none() {
            self.error = self.out.write_all(&printed.bytes).err();
        }
    }

    fn form(&self) -> OutputFormat {
        if self.is_json {
            OutputFormat::Json
        } else {
            OutputFormat::Text
        }
    }

    fn packet(&mut self, sent: &SentPacket) {
        if self.error.is_none() {
            self.error = if self.is_json {
                self.line.clear();
                sent.json(&mut self.line);
                self.out.write_all(&self.line).err()
            } else {
                writeln!(self.out, "{sent}\n").err()
            };
        }
    }

    /// Prints the meanings of the counters shown. The reader may have closed the output already.
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
            let meaning = runs::counter_meaning(counter).unwrap_or_default();
            writeln!(self.out, "[{counter}] {meaning}")?;
        }
        self.out.flush()
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut scenario = runs::load(&args.file).map_err(Exit::input)?;
    if let Some(engine) = args.engine.engine {
        runs::set_engine(&mut scenario, engine);
    }
    let mut filter = filter(args, &scenario)?;
    let output = Arc::new(Mutex::new(Output {
        out: EscapedWriter(BufWriter::new(std::io::stdout())),
        is_json: args.json,
        line: Vec::new(),
        events: 0,
        counters: BTreeSet::new(),
        error: None,
    }));
    let programs = Programs::default().with_native_files(args.native.allow_native);
    if let Some(field) = &args.field
        && !runs::has_field(&programs, &scenario, field).map_err(Exit::input)?
    {
        return Err(Exit::usage(format!(
            "no context of the scenario's programs has a field `{field}`"
        )));
    }
    if let Some(number) = args.packet {
        if number == 0 {
            return Err(Exit::usage("the first packet of a run is 1, as in its capture"));
        }
        let packet =
            runs::find_packet(&programs, &scenario, args.seed, number).map_err(not_run(&args.file))?;
        let packet =
            packet.ok_or_else(|| Exit::usage(format!("this run sends fewer than {number} packets")))?;
        if packet.cause == 0 {
            return Err(Exit::usage(format!(
                "packet {number} comes from the network layer, and not from a program"
            )));
        }
        filter.packet = Some(packet);
    }
    let report = if let Some(path) = &args.pcapng {
        capture(&programs, &scenario, args.seed, filter, path)?
    } else if args.packets {
        let into = Arc::clone(&output);
        let show = Box::new(move |event: &TracedEvent| into.lock().event(event));
        let into = Arc::clone(&output);
        let packet = Box::new(move |_, _: &[u8], sent: Option<&SentPacket>| {
            if let Some(sent) = sent {
                into.lock().packet(sent);
            }
        });
        runs::run_traced_packets(&programs, &scenario, args.seed, filter, show, packet)
            .map_err(not_run(&args.file))?
    } else {
        let form = output.lock().form();
        let into = Arc::clone(&output);
        let print = Box::new(move |printed: &Printed| into.lock().printed(printed));
        runs::run_printed(&programs, &scenario, args.seed, filter, form, print)
            .map_err(not_run(&args.file))?
    };
    let mut output = output.lock();
    output.finish()?;
    if output.events == 0 && args.pcapng.is_none() {
        eprintln!("no event of this run matches the options");
    }
    if let Some(failure) = report.failures.first() {
        eprintln!("the run failed: {failure}");
    }
    Ok(())
}

/// Writes a run's packets to a capture, with the lines that sent them.
fn capture(
    programs: &Programs,
    scenario: &Scenario,
    seed: Option<u64>,
    filter: Filter,
    path: &Path,
) -> Result<Report, Exit> {
    let cannot = |error| Exit::environment(format!("cannot write {}: {error}", path.display()));
    let file = BufWriter::new(File::create(path).map_err(cannot)?);
    let writer = Arc::new(Mutex::new((
        pcapng::PcapngWriter::new(file).map_err(cannot)?,
        None,
    )));
    let into = Arc::clone(&writer);
    let packet = Box::new(move |at, bytes: &[u8], sent: Option<&SentPacket>| {
        let (writer, error) = &mut *into.lock();
        let comment = sent.map(|sent| {
            let SentPacket { line, number, source, event, host, .. } = sent;
            let place = format!("{}:{}", line.file, line.line);
            OneLine(format!("{place} in event {number} of {host}, {source} {event}")).to_string()
        });
        if error.is_none() {
            *error = writer.packet(at, bytes, comment.as_deref()).err();
        }
    });
    let report = runs::run_traced_packets(programs, scenario, seed, filter, Box::new(|_| ()), packet);
    let (writer, error) = &mut *writer.lock();
    match error.take().or_else(|| writer.flush().err()) {
        Some(error) => Err(cannot(error)),
        None => report.map_err(Exit::input),
    }
}

fn filter(args: &Args, scenario: &Scenario) -> Result<Filter, Exit> {
    let hosts = || {
        scenario
            .host
            .iter()
            .map(|host| OneLine(&host.name).to_string())
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
    if args.flow.is_some_and(|number| number >= scenario.flow.len()) {
        return Err(Exit::usage(format!(
            "the scenario has {} flows, the first is 0",
            scenario.flow.len()
        )));
    }
    in_order(args.from, args.to)?;
    Ok(Filter {
        host: args.host.clone(),
        flow: args.flow,
        from: args.from,
        to: args.to,
        field: args.field.clone(),
        packet: None,
    })
}
